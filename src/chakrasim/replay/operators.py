"""The operators of a recorded program, run as they were: which ones, and with which arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.replay.recorded import DTYPES
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import NodeType

_TYPES: Final = DTYPES | {"bool": "bool", "complex<float>": "complex64", "complex<double>": "complex128"}
_TYPES.update(dict.fromkeys(("short", "short int", "int16"), "int16"))
_LEAST: Final = 1 << 10
"""Elements of the smallest buffer."""


@dataclass(frozen=True)
class OperatorCall:
    """A call as the trace has it: the operator's ``schema``, and JSON of the arguments' values, shapes and types."""

    schema: str
    values: str
    shapes: str
    types: str

    @property
    def name(self) -> str:
        """``aten::add.Tensor``."""
        return self.schema.partition("(")[0]


def call_of(trace: Trace, node: int) -> OperatorCall:
    """The call that a node of `topmost` stands for."""
    texts = (trace.strings[int(index)] if index >= 0 else "[]" for index in trace.inputs[node])
    return OperatorCall(trace.attr("op_schema").string(node), *texts)


def topmost(trace: Trace) -> NDArray[np.bool_]:
    """bool[n]: operators with a schema that none of the others called. One that communicates is none of them: what it
    calls stands in its place."""
    count = len(trace)
    order = np.argsort(trace.ids, kind="stable")
    calls = np.flatnonzero(np.diff(trace.ctrl_deps.offsets))
    caller = np.full(count, -1, np.int64)
    wanted = trace.ctrl_deps.targets[trace.ctrl_deps.offsets[calls]]
    caller[calls] = order[np.minimum(np.searchsorted(trace.ids[order], wanted), count - 1)]
    speaks = trace.strings.each(trace.name_index, lambda name: name.startswith(("c10d::", "record_param_comms")))
    speaks |= trace.types >= int(NodeType.COMM_SEND_NODE)
    callers, listed, talks = caller.tolist(), order.tolist(), speaks.tolist()
    for node in reversed(listed):
        if talks[node] and callers[node] >= 0:
            talks[callers[node]] = True
    able = (trace.attr("op_schema").present & (trace.types == int(NodeType.COMP_NODE))).tolist()
    chosen, covered = np.zeros(count, np.bool_), [False] * count
    for node in listed:
        above = callers[node]
        covered[node] = above >= 0 and (covered[above] or bool(chosen[above]))
        chosen[node] = able[node] and not talks[node] and not covered[node]
    return chosen


class OperatorRunner:
    """Runs calls with tensors of the recorded shapes: ones, and zeros where they are whole numbers, which may be
    indices, and stay zeros: what a call writes into is filled again. Tensors at the same place of different calls share
    their memory. Nothing is run that reads or writes a file. ``lacking``: operators that cannot be run
    here, with what PyTorch said."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self.lacking: dict[str, str] = {}
        self._ready: dict[OperatorCall, Any] = {}
        self._written: dict[OperatorCall, list[Any]] = {}
        self._memory: dict[tuple[str, int], Any] = {}

    def run(self, call: OperatorCall) -> None:
        """Run a call, or note why that cannot be."""
        try:
            if call not in self._ready:
                self._ready[call] = self._prepare(call)
            if self._ready[call] is not None:
                function, given, named = self._ready[call]
                with self.torch.no_grad():
                    function(*given, **named)
                    for tensor in self._written[call]:
                        tensor.zero_()
        # Whatever PyTorch raises for arguments that a trace makes up.
        except Exception as fault:
            said = str(fault).strip().splitlines() or [type(fault).__name__]
            self.lacking[call.name] = said[0][:200]
            self._ready[call] = None

    def _prepare(self, call: OperatorCall) -> tuple[Any, list[Any], dict[str, Any]]:
        space, _, name = call.name.partition("::")
        name, _, overload = name.partition(".")
        function = getattr(getattr(getattr(self.torch.ops, space), name), overload or "default")
        recorded = list(zip(*(json.loads(text) for text in (call.values, call.shapes, call.types)), strict=True))
        given: list[Any] = []
        named: dict[str, Any] = {}
        if any(argument.name == "filename" for argument in function._schema.arguments):
            raise ValueError("it reads or writes a file")
        self._written[call] = []
        for place, (argument, one) in enumerate(zip(function._schema.arguments, recorded, strict=False)):
            value, shape, kind = one
            made = self._value(value, shape, kind, place)
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._written[call] += [tensor for tensor in self._tensors_of(made) if self._is_whole(tensor.dtype)]
            if argument.kwarg_only:
                named[argument.name] = made
            else:
                given.append(made)
        return function, given, named

    def _value(self, value: Any, shape: Any, kind: str, place: int) -> Any:
        head, _, rest = kind.partition("[" if kind.startswith("GenericList") else "(")
        if head == "GenericList":
            kinds = rest[:-1].split(",") if rest != "]" else []
            return [self._value(*one, place + 64 * at) for at, one in enumerate(zip(value, shape, kinds, strict=True))]
        if head == "Tensor" and not rest.startswith("nullptr"):
            return self._tensor(shape, _TYPES[rest[:-1].lower().removeprefix("c10::")], place)
        if head == "Device":
            return self.device
        return None if head in ("None", "Tensor", "Generator") else value

    def _tensors_of(self, made: Any) -> list[Any]:
        parts = made if isinstance(made, list) else [made]
        return [part for part in parts if isinstance(part, self.torch.Tensor)]

    @staticmethod
    def _is_whole(dtype: Any) -> bool:
        return not (dtype.is_floating_point or dtype.is_complex)

    def _tensor(self, shape: list[int], dtype: str, place: int) -> Any:
        size = int(np.prod(shape, dtype=np.int64))
        memory = self._memory.get((dtype, place))
        if memory is None or len(memory) < size:
            kind = getattr(self.torch, dtype)
            room = max(_LEAST, 1 << (size - 1).bit_length()) if size else _LEAST
            memory = self.torch.full((room,), 0 if self._is_whole(kind) else 1, dtype=kind, device=self.device)
            self._memory[dtype, place] = memory
        return memory[:size].view(shape)
