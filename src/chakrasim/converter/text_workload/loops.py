"""The training loops of ASTRA-sim 1.0 as lists of nodes.

A rank computes one layer's phase after the other. A collective starts when the computation before it has ended; what
waits for it is what the loop of its type of parallelism says. NONE, and 0 bytes, mean no collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from chakrasim.collectives.spelling import operation_of
from chakrasim.converter.text_workload.read import Layer, Phase, TextWorkload, in_range, refuse_unknown
from chakrasim.errors import InputError
from chakrasim.files.job_formats import TRANSFORMERS

COLLECTIVES: Final = ("ALLREDUCE", "ALLTOALL", "ALLGATHER", "REDUCESCATTER")

#: Who takes part in a collective: everybody, the first network dimension, all but it, the ranks of a model, or those
#: that hold the same part of it.
EVERYBODY, FIRST_DIMENSION, OTHER_DIMENSIONS, MODEL_GROUP, DATA_GROUP, NOBODY = range(6)
#: By type of parallelism, who takes part in the collectives of activations, and in those of weight gradients.
_MEMBERS: Final = {
    "MICRO": (NOBODY, EVERYBODY),
    "DATA": (NOBODY, EVERYBODY),
    "MODEL": (EVERYBODY, NOBODY),
    "DISTRIBUTED_INFERENCE": (EVERYBODY, NOBODY),
    "HYBRID_DATA_MODEL": (FIRST_DIMENSION, OTHER_DIMENSIONS),
    "HYBRID_MODEL_DATA": (OTHER_DIMENSIONS, FIRST_DIMENSION),
    "HYBRID_DLRM": (NOBODY, EVERYBODY),
    "HYBRID_DLRM_ENHANCED": (NOBODY, EVERYBODY),
    "HYBRID_TRANSFORMER": (MODEL_GROUP, DATA_GROUP),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": (MODEL_GROUP, DATA_GROUP),
}


@dataclass(frozen=True)
class TextNode:
    """A node. ``collective`` is None for a computation, which takes ``micros``; ids are positions in the list."""

    name: str
    deps: tuple[int, ...]
    micros: int = 0
    collective: int | None = None
    size_bytes: int = 0
    members: int = EVERYBODY


@dataclass
class TextProgram:
    """The nodes of one of ``ranks`` ranks so far; ``left_out``: collectives that the file names but nobody runs."""

    workload: TextWorkload
    ranks: int
    nodes: list[TextNode] = field(default_factory=list)
    left_out: int = 0
    _last: int = -1
    _waits: list[int] = field(default_factory=list)

    def compute(self, layer: Layer, kind: str, phase: Phase) -> None:
        """The next computation: after the last one, and after all that was waited for since."""
        micros = in_range(phase.micros, 0, "a time", layer, self.workload.source)
        # A collective that began after the last computation waits for it already.
        alone = self._last >= 0 and all(other < self._last for other in self._waits)
        deps = dict.fromkeys((*((self._last,) if alone else ()), *self._waits))
        self._last = len(self.nodes)
        self._waits = []
        self.nodes.append(TextNode(f"COMP_NODE_{layer.name}_{kind}", tuple(deps), micros))

    def communicate(self, layer: Layer, phase: Phase, members: int) -> int:
        """A collective after the last computation; its id, -1 if there is none to run."""
        if phase.collective == "NONE" or phase.size_bytes == 0:
            return -1
        if phase.collective not in COLLECTIVES:
            raise InputError(
                "this collective is unknown",
                file=self.workload.source,
                place=f"line {layer.line} (layer {layer.name!r})",
                found=repr(phase.collective),
                expected=f"NONE or one of {', '.join(COLLECTIVES)}",
            )
        size = in_range(phase.size_bytes, 1, "a size", layer, self.workload.source)
        if members == NOBODY:
            self.left_out += 1
            return -1
        deps = (self._last,) if self._last >= 0 else ()
        name = f"COMM_COLL_NODE_{layer.name}_{phase.collective}"
        self.nodes.append(TextNode(name, deps, 0, operation_of(phase.collective), size, members))
        return len(self.nodes) - 1

    def skip(self, layer: Layer, phase: Phase) -> None:
        """Count a collective that this type of parallelism does not run."""
        self.communicate(layer, phase, NOBODY)

    def wait(self, collective: int) -> None:
        """Let the next computation wait for a collective (-1: for nothing)."""
        if collective >= 0:
            self._waits.append(collective)


def run_loop(workload: TextWorkload, ranks: int, passes: int) -> TextProgram:
    """The nodes of ``passes`` passes of a rank. Raises InputError for what the type of parallelism cannot be run with.

    ``left_out`` counts those of one pass.
    """
    loop = _LOOPS.get(workload.parallelism)
    if loop is None:
        raise refuse_unknown(workload.source, "line 1", workload.parallelism, tuple(_LOOPS))
    program = TextProgram(workload, ranks)
    loop(program, passes)
    program.left_out //= max(passes, 1)
    return program


def _backwards(workload: TextWorkload) -> Iterator[tuple[int, Layer]]:
    return reversed(list(enumerate(workload.layers)))


def _micro(program: TextProgram, passes: int) -> None:
    for _ in range(passes):
        for layer in program.workload.layers:
            program.communicate(layer, layer.weight_gradient, EVERYBODY)


def _data(program: TextProgram, passes: int) -> None:
    weights: dict[int, int] = {}
    for _ in range(passes):
        for i, layer in enumerate(program.workload.layers):
            program.wait(weights.pop(i, -1))
            program.compute(layer, "FWD", layer.forward)
            program.skip(layer, layer.forward)
        for i, layer in _backwards(program.workload):
            program.compute(layer, "BWD_WG", layer.weight_gradient)
            weights[i] = program.communicate(layer, layer.weight_gradient, EVERYBODY)
            if i:
                program.compute(layer, "BWD_IG", layer.input_gradient)
            program.skip(layer, layer.input_gradient)


def _inference(program: TextProgram, passes: int) -> None:
    for _ in range(passes):
        for layer in program.workload.layers:
            _forward(program, layer, EVERYBODY)


def _forward(program: TextProgram, layer: Layer, members: int, kind: str = "FWD") -> None:
    program.compute(layer, kind, layer.forward)
    program.wait(program.communicate(layer, layer.forward, members))


def _members(program: TextProgram, layer: Layer) -> tuple[int, int]:
    """Who takes part in a layer's collectives: (of activations, of weight gradients)."""
    workload = program.workload
    if workload.parallelism in TRANSFORMERS:
        size = model_group_size(workload, program.ranks)
        if size == program.ranks:
            return EVERYBODY, NOBODY
        if size == 1:
            return NOBODY, EVERYBODY
    if workload.parallelism != "HYBRID_CUSTOMIZED":
        return _MEMBERS[workload.parallelism]
    if layer.policy not in _MEMBERS or layer.policy in TRANSFORMERS:
        known = tuple(name for name in _MEMBERS if name not in TRANSFORMERS)
        raise refuse_unknown(workload.source, f"line {layer.line}, column 13", layer.policy, known)
    return _MEMBERS[layer.policy]


def _hybrid(program: TextProgram, passes: int) -> None:
    """All types in which the forward pass waits for its collectives."""
    workload = program.workload
    weights: dict[int, int] = {}
    recomputed = _recomputed(workload)
    # Transformers exchange the input gradients of their first layer as well.
    first = 0 if workload.parallelism in TRANSFORMERS else 1
    members = [_members(program, layer) for layer in workload.layers]
    for _ in range(passes):
        for i, layer in enumerate(workload.layers):
            program.wait(weights.pop(i, -1))
            _forward(program, layer, members[i][0])
        for i, layer in _backwards(workload):
            for again in recomputed.get(i, ()):
                _forward(program, workload.layers[again], members[again][0], "FWD_AGAIN")
            program.compute(layer, "BWD_IG", layer.input_gradient)
            gradient = program.communicate(layer, layer.input_gradient, members[i][0] if i >= first else NOBODY)
            program.compute(layer, "BWD_WG", layer.weight_gradient)
            weights[i] = program.communicate(layer, layer.weight_gradient, members[i][1])
            program.wait(gradient)


def _dlrm(program: TextProgram, passes: int) -> None:
    workload = program.workload
    layers = workload.layers
    bottom = _number(workload, 1, "the index of the last bottom layer")
    if not 0 <= bottom < max(len(layers), 1):
        raise _bad_word(workload, 1, "the index of the last bottom layer", f"0 to {len(layers) - 1}")
    # The first layer (the embedding) is exchanged among all.
    weights: dict[int, int] = {}
    for _ in range(passes):
        exchanged = -1
        for i, layer in enumerate(layers):
            program.wait(weights.pop(i, -1))
            program.compute(layer, "FWD", layer.forward)
            if layer.forward.collective == "ALLTOALL":
                sent = program.communicate(layer, layer.forward, NOBODY if i else EVERYBODY)
                exchanged = exchanged if i else sent
            else:
                program.skip(layer, layer.forward)
            if i == bottom:
                program.wait(exchanged)
        returned = -1
        for i, layer in _backwards(workload):
            program.compute(layer, "BWD_WG", layer.weight_gradient)
            weights[i] = program.communicate(layer, layer.weight_gradient, EVERYBODY)
            if i:
                program.compute(layer, "BWD_IG", layer.input_gradient)
                program.skip(layer, layer.input_gradient)
            elif workload.parallelism == "HYBRID_DLRM":
                program.wait(returned)
            if i == bottom + 1:
                returned = program.communicate(layers[0], layers[0].input_gradient, EVERYBODY)


def _recomputed(workload: TextWorkload) -> dict[int, range]:
    """For each layer whose way back begins with computing forward again: the layers that are computed again."""
    if workload.parallelism != "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
        return {}
    checkpoints, at = _listed(workload, 4)
    starts, _ = _listed(workload, at + 1)
    result = {}
    for start in starts:
        before = [point for point in checkpoints if point < start]
        if not before or start in checkpoints or any(max(before) < other < start for other in starts):
            raise InputError(
                f"layer {start} cannot compute forward again",
                file=workload.source,
                place="line 1",
                found=f"checkpoints {checkpoints}, layers that start {starts}",
                expected="a checkpoint before each layer that starts, and none of those between the two",
            )
        result[start] = range(max(before), start)
    return result


def _listed(workload: TextWorkload, at: int) -> tuple[list[int], int]:
    """Layers given as their number and their indices from word ``at`` on, and the position after them."""
    count = _number(workload, at, "a number of layers")
    end = at + 1 + max(count, 0)
    layers = [_number(workload, word, "the index of a layer") for word in range(at + 1, end)]
    for word, layer in enumerate(layers, at + 1):
        if not 0 <= layer < len(workload.layers):
            raise _bad_word(workload, word, "the index of a layer", f"0 to {len(workload.layers) - 1}")
    return layers, end


def model_group_size(workload: TextWorkload, ranks: int) -> int:
    """How many of the ranks, in a row, share a model, as the first line of a transformer says; at most all."""
    size = _number(workload, 2, "the size of a model's group")
    if size < 1 or (size < ranks and ranks % size):
        raise _bad_word(workload, 2, "the size of a model's group", f"a divisor of {ranks}, the number of ranks")
    return min(size, ranks)


def _number(workload: TextWorkload, at: int, what: str) -> int:
    try:
        return int(workload.words[at])
    except (ValueError, IndexError):
        raise _bad_word(workload, at, what, "an integer") from None


def _bad_word(workload: TextWorkload, at: int, what: str, expected: str) -> InputError:
    found = repr(workload.words[at]) if at < len(workload.words) else "the end of the line"
    return InputError(
        f"{workload.parallelism} needs {what}",
        file=workload.source,
        place=f"line 1, word {at + 1}",
        found=found,
        expected=expected,
    )


_LOOPS: Final[dict[str, Callable[[TextProgram, int], None]]] = {
    "MICRO": _micro,
    "DATA": _data,
    "MODEL": _hybrid,
    "HYBRID_DATA_MODEL": _hybrid,
    "HYBRID_MODEL_DATA": _hybrid,
    "HYBRID_DLRM": _dlrm,
    "HYBRID_DLRM_ENHANCED": _dlrm,
    "HYBRID_TRANSFORMER": _hybrid,
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": _hybrid,
    "HYBRID_CUSTOMIZED": _hybrid,
    "DISTRIBUTED_INFERENCE": _inference,
}
