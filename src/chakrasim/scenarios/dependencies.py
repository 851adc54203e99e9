"""Who waits for whom in a pipelined training step: the rules of the straggler analysis of OSDI 2025.

All steps and replicas have one graph, found from the first replica of the first step, whose order is by start. On a
stage, computations follow each other, so do sends and receives of each kind, and so do the collectives of data
parallelism; a receive comes before its computation and behind the one before that; a computation before its send.
A chunk's parameters are gathered before its first forward pass. The tail is gc, layernorm and embedding gradients,
gradients (where they are not reduced on the way), clip, optimizer. Sends meet receives, collectives their other
members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NoReturn

from chakrasim.errors import InputError
from chakrasim.scenarios.operations import KINDS, Steps

_EPSILON_S: Final = 5e-5
"""How far clocks may be apart where sends and receives are told from those that were never launched."""
_GATHER, _REDUCE, _REST = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"


@dataclass(frozen=True)
class Dependencies:
    """Of the operations of one replica, by their numbers.

    ``before``: what each waits for. ``meetings``: those that meet, in a replica; a meeting in ``shared`` is one of all
    replicas. What is in no meeting runs by itself.
    """

    before: list[list[int]]
    meetings: list[tuple[int, ...]] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)

    def chain(self, operations: Iterable[int]) -> None:
        """Each waits for the one before it."""
        for first, second in pairwise(operations):
            self.before[second].append(first)

    def meet(self, operations: Iterable[int], *, shared: bool = False) -> None:
        """These meet; ``shared``: with those of all other replicas."""
        if shared:
            self.shared.add(len(self.meetings))
        self.meetings.append(tuple(operations))


class _Stage:
    """The operations of a stage in the order in which they began, with what the rules ask of them."""

    def __init__(self, steps: Steps, stage: int, last_stage: int) -> None:
        self.steps, self.stage, self.last_stage = steps, stage, last_stage
        self.start, self.end = steps.start_s[0, 0], steps.end_s[0, 0]
        own = [int(each) for each in (steps.stage == stage).nonzero()[0]]
        self.order = sorted(own, key=lambda each: (self.start[each], steps.sequence[each], KINDS[steps.kind[each]]))

    def of(self, *kinds: str) -> list[int]:
        """Those of these kinds, in their order."""
        numbers = {KINDS.index(kind) for kind in kinds}
        return [each for each in self.order if self.steps.kind[each] in numbers]

    def numbered(self, kind: str) -> dict[int, int]:
        """Those of a kind by their sequence numbers, in the order of those."""
        return dict(sorted((int(self.steps.sequence[each]), each) for each in self.of(kind)))

    def fail(self, message: str, **parts: str) -> NoReturn:
        place = f"step {self.steps.step[0]}, dp_rank 0, stage {self.stage}"
        raise InputError(message, file=self.steps.file, place=place, **parts)


def dependencies(steps: Steps) -> Dependencies:
    """The rules, applied. Raises `InputError` for a step to which they do not apply."""
    found = Dependencies([[] for _ in steps.kind])
    last = int(steps.stage.max())
    stages = [_Stage(steps, number, last) for number in range(last + 1)]
    overlapped = KINDS.index(_REST) in steps.kind
    for stage in stages:
        if not stage.of("optimizer"):
            stage.fail("the stage has no optimizer", expected="one, by whose end the step ends")
        _compute(stage, found)
        if steps.data_parallel:
            _gather_and_reduce(stage, found, overlapped)
        _tail(stage, found, steps.data_parallel, overlapped)
    _messages(stages, found)
    if steps.data_parallel:
        for stage in stages:
            for each in stage.of(_GATHER, _REDUCE, _REST):
                found.meet([each], shared=True)
    ends = stages[:1] if last == 0 else [stages[0], stages[-1]]
    _meet_by_number(ends, "embedding-grads-all-reduce", found)
    _meet_by_number(stages, "optimizer-clip-main-grad", found, shared=True)
    return found


def _meet_by_number(stages: list[_Stage], kind: str, found: Dependencies, *, shared: bool = False) -> None:
    by_number: dict[int, list[int]] = {}
    for stage in stages:
        for number, each in stage.numbered(kind).items():
            by_number.setdefault(number, []).append(each)
    for members in by_number.values():
        found.meet(members, shared=shared)


def _compute(stage: _Stage, found: Dependencies) -> None:
    """Streams of computation, sends and receives, each in order."""
    compute = stage.of("forward-compute", "backward-compute")
    if not compute:
        stage.fail("the stage computes nothing", expected="forward-compute and backward-compute")
    found.chain(compute)
    for kind in ("forward-send", "forward-recv", "backward-send", "backward-recv"):
        found.chain(stage.of(kind))
    backward = KINDS.index("backward-compute")
    first = next((i for i, each in enumerate(compute) if stage.steps.kind[each] == backward), 0)
    if first >= 2:
        for kind in ("backward-recv", "backward-send"):
            opening = stage.numbered(kind).get(0)
            if opening is not None:
                found.before[opening].append(compute[first - 2])


def _gather_and_reduce(stage: _Stage, found: Dependencies, overlapped: bool) -> None:
    chunk = stage.steps.chunk
    found.chain(stage.of(_GATHER, _REDUCE))
    # Of several gathers of a chunk the last is the one that its first computation waits for.
    gathers = {int(chunk[each]): each for each in stage.numbered(_GATHER).values()}
    for which, gather in gathers.items():
        first = next((each for each in stage.of("forward-compute") if chunk[each] == which), None)
        if first is None:
            stage.fail("parameters of a chunk are gathered that no forward-compute has", found=f"chunk {which}")
        found.before[first].append(gather)
    if overlapped:
        reduces: dict[int, int] = {}
        for each in stage.numbered(_REDUCE).values():
            reduces.setdefault(int(chunk[each]), each)
        for which, reduce in reduces.items():
            own = [each for each in stage.of("backward-compute") if chunk[each] == which]
            if not own:
                stage.fail("gradients of a chunk are reduced that no backward-compute has", found=f"chunk {which}")
            found.before[reduce].append(max(own, key=lambda each: stage.end[each]))


def _tail(stage: _Stage, found: Dependencies, data_parallel: bool, overlapped: bool) -> None:
    """What follows the last computation."""
    compute = stage.of("forward-compute", "backward-compute")
    reduces = list(stage.numbered(_REDUCE).values())
    gradients = [] if not data_parallel else stage.of(_REST) if overlapped else reduces
    outer = stage.stage in (0, stage.last_stage)
    tail = [
        *stage.of("gc"),
        *stage.of("layernorm-grads-all-reduce"),
        *(stage.of("embedding-grads-all-reduce") if outer else ()),
        *gradients,
        *stage.of("optimizer-clip-main-grad"),
        *stage.of("optimizer"),
    ]
    found.chain([max(compute, key=lambda each: stage.end[each]), *tail])
    if overlapped and data_parallel and reduces:
        behind = tail[len(stage.of("gc"))]
        found.before[behind].append(reduces[-1])


def _messages(stages: list[_Stage], found: Dependencies) -> None:
    """Sends and receives: their computations, and whom they meet."""
    launched: dict[tuple[int, str], list[int]] = {}
    chunks = (max(int(stages[0].steps.chunk.max()), 0) + 1) * len(stages)
    for stage in stages:
        for way in ("forward", "backward"):
            numbered = stage.numbered(f"{way}-compute")
            for end in ("send", "recv"):
                kept = launched[stage.stage, f"{way}-{end}"] = []
                peer = 1 if (way == "forward") == (end == "send") else -1
                for each, compute, chunk in _matched(stage, way, end, list(numbered.values())):
                    if end == "send":
                        found.before[each].append(compute)
                    else:
                        found.before[compute].append(each)
                        earlier = numbered.get(int(stage.steps.sequence[compute]) - 1)
                        found.before[each].extend(() if earlier is None else (earlier,))
                    if 0 <= chunk + peer < chunks:
                        kept.append(each)
                met = set(kept)
                for each in stage.of(f"{way}-{end}"):
                    if each not in met:
                        found.meet([each])
    for pair in _pairs(stages, launched):
        found.meet(pair)


def _matched(stage: _Stage, way: str, end: str, compute: list[int]) -> Iterator[tuple[int, int, int]]:
    """Each send or receive that was launched, its computation, and the chunk of the model that this has.

    Recorders write sends and receives of pipelines with several chunks that were never launched: receives behind the
    last computation's start, sends before the first one's end.
    """
    own = stage.of(f"{way}-{end}")
    if not compute:
        return
    if end == "recv":
        limit = max(stage.start[each] for each in compute) + _EPSILON_S
        own = [each for each in own if stage.start[each] <= limit]
    else:
        limit = min(stage.end[each] for each in compute) - _EPSILON_S
        own = [each for each in own if stage.end[each] >= limit]
    outer = stage.stage in (0, stage.last_stage)
    if len(own) != len(compute) and not (outer and len(own) in (0, len(compute) - 1)):
        stage.fail(
            f"computations and messages do not match: {way}-{end}", found=f"{len(own)}",
            expected=f"{len(compute)}, one for each {way}-compute" + (", or none" if outer else ""),
        )  # fmt: skip
    skipped = 1 if own and end == "recv" and len(own) < len(compute) else 0
    for each, after in zip(own, compute[skipped:], strict=False):
        chunk = max(int(stage.steps.chunk[after]), 0) * (stage.last_stage + 1) + stage.stage
        yield each, after, chunk


def _pairs(stages: list[_Stage], launched: dict[tuple[int, str], list[int]]) -> Iterator[tuple[int, int]]:
    count = len(stages)
    for way, ahead in (("forward", 1), ("backward", -1)):
        for stage in stages:
            sends = launched[stage.stage, f"{way}-send"]
            receives = launched[(stage.stage + ahead) % count, f"{way}-recv"]
            if len(sends) != len(receives):
                other = (stage.stage + ahead) % count
                stage.fail(f"{way} messages to stage {other} do not match", found=f"{len(sends)} sends",
                           expected=f"{len(receives)}, one for each receive")  # fmt: skip
            yield from zip(sends, receives, strict=True)
