"""Stages with several chunks of the model: sends and receives that were recorded but never launched, and chunks that
wrap around. The figures are those that the published analyser (ByteDance-Seed/StragglerAnalysis @ 8efcd7f, with pandas
2.2) gives for the same rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from chakrasim.scenarios.operations import KINDS, Operations
from chakrasim.scenarios.recorded_steps import replay_of
from chakrasim.scenarios.stragglers import stragglers

STEPS = 3


class Interleaved:
    """A step of one replica: all forward passes, chunk by chunk, then all backward passes."""

    def __init__(self, pp: int, chunks: int, mb: int, rng: np.random.Generator, lacks_first: bool) -> None:
        self.pp, self.chunks, self.mb, self.rng = pp, chunks, mb, rng
        forward = [("forward", chunk, b) for chunk in range(chunks) for b in range(mb)]
        backward = [("backward", chunk, b) for chunk in reversed(range(chunks)) for b in range(mb)]
        self.order = forward + backward
        self.rows: list[tuple[int, str, float, float, int, int]] = []
        self.lacks_first = lacks_first
        self.begin, self.end = cache(self._begin), cache(self._end)

    def _begin(self, stage: int, way: str, chunk: int, b: int) -> float:
        at = self.order.index((way, chunk, b))
        ready = self.end(stage, *self.order[at - 1]) if at else 0.05
        other = chunk * self.pp + stage + (-1 if way == "forward" else 1)
        if 0 <= other < self.chunks * self.pp:
            ready = max(ready, self.end(other % self.pp, way, other // self.pp, b) + 0.002)
        elif way == "backward":
            ready = max(ready, self.end(stage, "forward", chunk, b))
        return ready + 0.002

    def _end(self, stage: int, way: str, chunk: int, b: int) -> float:
        begin = self.begin(stage, way, chunk, b)
        return begin + float(self.rng.uniform(0.1, 0.5))

    def add(self, stage: int, kind: str, sequence: int, begin: float, end: float, chunk: int = -1) -> None:
        self.rows.append((stage, kind, begin, end - begin, sequence, chunk))

    def record(self) -> list[tuple[int, str, float, float, int, int]]:
        done = max(self.end(stage, *self.order[-1]) for stage in range(self.pp)) + 0.1
        for stage in range(self.pp):
            for chunk in range(self.chunks):
                self.add(stage, "params-all-gather", chunk, 0.001 * chunk, 0.02 + self.rng.uniform(0, 0.02), chunk)
            for way in ("forward", "backward"):
                self.passes(stage, way)
            last = self.end(stage, *self.order[-1])
            self.add(stage, "gc", 0, last, last + 0.001)
            self.add(stage, "layernorm-grads-all-reduce", 0, last + 0.002, last + 0.01)
            if stage in (0, self.pp - 1):
                self.add(stage, "embedding-grads-all-reduce", 0, last + 0.012, done)
            for i in range(self.chunks):
                begin = done + 0.01 + 0.1 * i
                end = begin + 0.04 + self.rng.uniform(0, 0.03)
                self.add(stage, "grads-reduce-scatter", i, begin, end, self.chunks - 1 - i)
            self.add(stage, "optimizer-clip-main-grad", 0, done + 1, done + 1.1)
            self.add(stage, "optimizer", 0, done + 1.1, done + 1.2 + self.rng.uniform(0, 0.05))
        return self.rows

    def passes(self, stage: int, way: str) -> None:
        """The passes one way, each with a receive and a send, launched or not."""
        skip = int(self.lacks_first and way == "forward" and stage == 0)
        for i, (_, chunk, b) in enumerate(each for each in self.order if each[0] == way):
            begin, end = self.begin(stage, way, chunk, b), self.end(stage, way, chunk, b)
            at = self.order.index((way, chunk, b))
            earlier = self.end(stage, *self.order[at - 1]) if at else 0.04
            self.add(stage, f"{way}-compute", i, begin, end, chunk)
            if i >= skip:
                self.add(stage, f"{way}-recv", i - skip, earlier + 0.0003, begin - 0.0003)
            other = chunk * self.pp + stage + (1 if way == "forward" else -1)
            arrived = end + 0.0004
            if 0 <= other < self.chunks * self.pp:
                arrived = max(end + 0.0006, self.begin(other % self.pp, way, other // self.pp, b) - 0.0003)
            self.add(stage, f"{way}-send", i, end + 0.0003, arrived)


def operations(dp: int, pp: int, chunks: int, mb: int, seed: int, lacks_first: bool) -> Operations:
    rng = np.random.default_rng(seed)
    rows = [
        (d, row[0] * dp + d, step, *row)
        for step in range(STEPS)
        for d in range(dp)
        for row in Interleaved(pp, chunks, mb, rng, lacks_first).record()
    ]
    d, rank, step, stage, kind, start, duration, sequence, chunk = map(np.array, zip(*rows, strict=True))
    kinds = np.array([KINDS.index(each) for each in kind])
    times = start.astype(np.float32), duration.astype(np.float32)
    return Operations(d, stage, rank, step, kinds, sequence, chunk, *times)


PUBLISHED: dict[tuple[int, int, int, int, int, bool], dict[str, list[float]]] = {
    (2, 2, 2, 4, 0, False): {
        "replayed_s": [6.561190598527901, 7.141915128449909, 6.886867907713167],
        "ideal_s": [6.094686050317249] * STEPS,
        "stage": [1.1119685933224666, 1.0704022709811551],
        "dp_rank": [1.1241365033082347, 1.100221409399664],
    },
    (2, 2, 2, 4, 1, True): {
        "replayed_s": [7.044079084764235, 6.165498700807802, 6.636743209208362],
        "ideal_s": [5.704862966551446] * STEPS,
        "stage": [1.1160685448214738, 1.1295337824092775],
        "dp_rank": [1.1115480032224458, 1.1069990210932095],
    },
    (3, 4, 3, 8, 3, True): {
        "replayed_s": [19.155608762870543, 20.27796311757993, 19.387000788818114],
        "ideal_s": [16.33931742182985] * STEPS,
        "stage": [1.0967618360789142, 1.0899696600014823, 1.1108323029176255, 1.0942808128364971],
        "dp_rank": [1.1545274683723683, 1.1540585424204974, 1.1636380524574093],
    },
}
"""By replicas, stages, chunks, micro-batches, seed, and whether the first receive was not recorded."""


@pytest.mark.parametrize("shape", PUBLISHED, ids=str)
def test_the_published_analyser_says_the_same(shape: tuple[int, int, int, int, int, bool]) -> None:
    found, expected = stragglers(replay_of(operations(*shape))), PUBLISHED[shape]
    assert found.replayed_s == pytest.approx(expected["replayed_s"], rel=1e-8)
    assert found.ideal_s == pytest.approx(expected["ideal_s"], rel=1e-8)
    for dimension in ("stage", "dp_rank"):
        assert [*found.slowdown_of(dimension).values()] == pytest.approx(expected[dimension], rel=1e-8)
