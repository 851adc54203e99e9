"""Text workloads as ``chakra_converter Text`` 1.0.0 converts them, its faults included (chakra-toolchain.md, 5)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from chakrasim.converter.text_workload.read import Layer, Phase, TextWorkload, in_range, read_lines, refuse_unknown
from chakrasim.errors import InputError
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import CollectiveType, NodeType

SCHEMA: Final = "1.0.2-chakra.1.0.0"
#: What the words mean; all others, NONE too, mean all-reduce to the reference.
_COLLECTIVES: Final = {
    "ALLREDUCE": CollectiveType.ALL_REDUCE,
    "ALLTOALL": CollectiveType.ALL_TO_ALL,
    "ALLGATHER": CollectiveType.ALL_GATHER,
    "REDUCESCATTER": CollectiveType.REDUCE_SCATTER,
}


def convert_text(path: str | os.PathLike[str], npus: int, passes: int) -> list[Trace]:
    """The traces of the text workload in the file ``path``, one for each NPU. Raises InputError where the reference
    stops."""
    workload = read_lines(path, skip_blank=False)
    loop = _LOOPS.get(workload.parallelism)
    if loop is None:
        raise refuse_unknown(workload.source, "line 1", workload.parallelism, tuple(_LOOPS))
    traces = []
    first_id = 0
    for _ in range(npus):
        emitter = _Emitter(workload, first_id)
        loop(emitter, passes)
        first_id = emitter.next_id
        traces.append(emitter.build())
    return traces


class _Emitter:
    """Collects the nodes of one NPU, in the order in which the reference writes them."""

    def __init__(self, workload: TextWorkload, first_id: int) -> None:
        self.workload = workload
        self.layers = workload.layers
        self.next_id = first_id
        self._builder = TraceBuilder(metadata={"schema": SCHEMA, "input_file": workload.text}, source=workload.source)
        #: The node that the layer got last, by kind.
        self.weight: dict[int, int] = {}
        self.weight_comm: dict[int, int] = {}
        self.input: dict[int, int] = {}
        self.input_comm: dict[int, int] = {}
        self.forward_comm: dict[int, int] = {}

    def build(self) -> Trace:
        """The trace."""
        return self._builder.build()

    def compute(self, layer: Layer, kind: str, phase: Phase, *deps: int | None) -> int:
        """A computation that waits for ``deps`` (None: for nothing)."""
        micros = in_range(phase.micros, 0, "a time", layer, self.workload.source)
        return self._add(f"COMP_NODE_{layer.name}_{kind}", NodeType.COMP_NODE, deps, micros, None)

    def collective(self, layer: Layer, phase: Phase, *deps: int, suffix: str = "") -> int:
        """A collective that waits for ``deps``."""
        attrs = {
            "comm_type": _COLLECTIVES.get(phase.collective, CollectiveType.ALL_REDUCE).value,
            "comm_size": in_range(phase.size_bytes, -(2**63), "a size", layer, self.workload.source),
        }
        name = f"COMM_COLL_NODE_{layer.name}{suffix}_{phase.collective}"
        return self._add(name, NodeType.COMM_COLL_NODE, deps, 0, attrs)

    def _add(
        self, name: str, kind: NodeType, deps: tuple[int | None, ...], micros: int, attrs: dict[str, int] | None
    ) -> int:
        at = self.next_id
        self.next_id += 1
        self._builder.add(
            at, name, kind, data_deps=[dep for dep in deps if dep is not None], duration_micros=micros, attrs=attrs
        )
        return at


def _micro(emitter: _Emitter, passes: int) -> None:
    for _ in range(passes):
        for layer in emitter.layers:
            emitter.collective(layer, layer.weight_gradient)


def _data(emitter: _Emitter, passes: int) -> None:
    layers = emitter.layers
    for _ in range(passes):
        last: int | None = None
        for i, layer in enumerate(layers):
            last = emitter.compute(layer, "FWD", layer.forward, last, emitter.weight_comm.get(i))
        for i, layer in reversed(list(enumerate(layers))):
            weight = emitter.compute(layer, "BWD_WG", layer.weight_gradient, last)
            emitter.weight_comm[i] = emitter.collective(layer, layer.weight_gradient, weight)
            if i:
                last = emitter.compute(layer, "BWD_IG", layer.input_gradient, weight)


def _model(emitter: _Emitter, passes: int) -> None:
    _forward_and_back(emitter, passes, weights_communicate=False, suffix="")


def _data_model(emitter: _Emitter, passes: int) -> None:
    _forward_and_back(emitter, passes, weights_communicate=True, suffix="_IG_COMM_")


def _model_data(emitter: _Emitter, passes: int) -> None:
    _forward_and_back(emitter, passes, weights_communicate=True, suffix="")


def _forward_and_back(emitter: _Emitter, passes: int, *, weights_communicate: bool, suffix: str) -> None:
    layers = emitter.layers
    for _ in range(passes):
        last: int | None = None
        for i, layer in enumerate(layers):
            if weights_communicate:
                forward = emitter.compute(layer, "FWD", layer.forward, emitter.weight_comm.get(i), last)
            else:
                forward = emitter.compute(layer, "FWD", layer.forward, last, emitter.weight.get(i))
            last = emitter.collective(layer, layer.forward, forward)
        before: tuple[int | None, ...] = (last,)
        for position, (i, layer) in enumerate(reversed(list(enumerate(layers)))):
            back = emitter.compute(layer, "BWD_IG", layer.input_gradient, *before)
            comm = None
            if position != emitter.workload.layer_count - 1:
                comm = emitter.collective(layer, layer.input_gradient, back, suffix=suffix)
            elif i:
                raise _nothing_there(
                    emitter, f"the layer count leaves layer {i} without a collective for the next to wait for", "line 2"
                )
            weight = emitter.compute(layer, "BWD_WG", layer.weight_gradient, back)
            emitter.weight[i] = weight
            if weights_communicate:
                emitter.weight_comm[i] = emitter.collective(layer, layer.weight_gradient, weight)
            before = weight, comm


def _dlrm(emitter: _Emitter, passes: int) -> None:
    layers = emitter.layers
    bottom = _last_bottom_layer(emitter.workload)
    for _ in range(passes):
        last: int | None = None
        for i, layer in enumerate(layers):
            deps = [emitter.weight_comm.get(i, emitter.weight.get(i)), last]
            if i == bottom:
                deps.append(_first_exchange(emitter))
            last = emitter.compute(layer, "FWD", layer.forward, *deps)
            if layer.forward.collective == "ALLTOALL":
                emitter.forward_comm[i] = emitter.collective(layer, layer.forward, last)
        for i, layer in reversed(list(enumerate(layers))):
            after = (emitter.input.get(i + 1), emitter.input_comm.get(i)) if i + 1 < len(layers) else (last,)
            weight = emitter.compute(layer, "BWD_WG", layer.weight_gradient, *after)
            emitter.weight[i] = weight
            if layer.weight_gradient.collective != "NONE":
                emitter.weight_comm[i] = emitter.collective(layer, layer.weight_gradient, weight)
            if i:
                emitter.input[i] = emitter.compute(layer, "BWD_IG", layer.input_gradient, weight)
            if i == bottom + 1:
                if not i:
                    raise _nothing_there(emitter, "the last bottom layer is -1", "line 1, column 2", "ValueError")
                emitter.input_comm[0] = emitter.collective(layers[0], layers[0].input_gradient, emitter.input[i])


def _first_exchange(emitter: _Emitter) -> int:
    if 0 not in emitter.forward_comm:
        raise _nothing_there(emitter, "layer 0 has no ALLTOALL in its forward pass", "line 3, column 4")
    return emitter.forward_comm[0]


def _nothing_there(emitter: _Emitter, message: str, place: str, kind: str = "AttributeError") -> InputError:
    return InputError(f"{message} ({kind} in the reference)", file=emitter.workload.source, place=place)


def _last_bottom_layer(workload: TextWorkload) -> int:
    word = workload.words[1] if len(workload.words) > 1 else ""
    try:
        return int(word)
    except ValueError:
        raise InputError(
            f"{workload.parallelism} needs the index of the last bottom layer"
            f" ({'ValueError' if word else 'IndexError'} in the reference)",
            file=workload.source,
            place="line 1, column 2",
            found=repr(word) if word else "the end of the line",
            expected="an integer",
        ) from None


_LOOPS: Final[dict[str, Callable[[_Emitter, int], None]]] = {
    "MICRO": _micro,
    "DATA": _data,
    "MODEL": _model,
    "HYBRID_DATA_MODEL": _data_model,
    "HYBRID_MODEL_DATA": _model_data,
    "HYBRID_DLRM": _dlrm,
    "HYBRID_DLRM_ENHANCED": _dlrm,
}
