"""Recorded jobs whose traces differ by chance are learned as one program: host and device interleave in each
recording in another way, libraries take kernels by size, calls come that are none of the program, hosts are slow.
"""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.errors import InputError
from chakrasim.synthesis.api import learn, synthesize
from chakrasim.synthesis.expressions import value
from chakrasim.synthesis.grammar.near_sums import Measurements, near_sum
from chakrasim.synthesis.grammar.recorded import in_short
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job, Parameter
from chakrasim.trace.kinds import NodeType

STEPS, LAUNCHED = 3, 2
BACKWARD = "autograd::Linear"


class Recording:
    """A host thread and another for backward passes, and a stream whose work comes up in the file by chance."""

    def __init__(self, width: int, seed: int, slow: float) -> None:
        self.made, self.random, self.count = TraceBuilder(), np.random.default_rng(seed), 0
        self.width, self.slow, self.step = width, slow, 0
        self.last: dict[int, int] = {}
        self.ahead: list[tuple[int, int]] = []

    def node(self, name: str, lane: int, ns: float, waits: list[int], calls: list[int], **more: object) -> int:
        """The next node of a lane, which waits for the one before it."""
        where: dict[str, object] = {"device": 0, "stream": 7} if lane == LAUNCHED else {"tid": lane}
        waits = [*waits, *([self.last[lane]] if lane in self.last else [])]
        attributes = {"is_cpu_op": lane != LAUNCHED, "step": self.step, "duration_ns": round(ns), **where, **more}
        self.made.add(self.count, name, data_deps=waits, ctrl_deps=calls, attrs=attributes)
        self.last[lane] = self.count
        self.count += 1
        return self.count - 1

    def call(self, name: str, lane: int, ops: int = 0, waits: tuple[int, ...] = ()) -> None:
        """A call of three pieces that launches work, which may come up in the file after other calls."""
        took = 9000 * self.slow * float(np.exp(self.random.normal(0, 0.1)))
        head = self.node(name, lane, took / 3, [*waits], [])
        inner = self.node("launch", lane, took / 3, [], [head])
        self.node(name, lane, took / 3, [], [], part=1)
        if ops:
            self.ahead.append((inner, ops))
        while self.ahead and self.random.random() < 0.6:
            self.drain()

    def drain(self) -> None:
        """Work of a call, by a kernel that its size decides."""
        by, ops = self.ahead.pop(0)
        took = (4000 + ops / 5000) * float(np.exp(self.random.normal(0, 0.01)))
        kernel = f"gemm_{'large' if self.width > 500 else 'small'}_tile"
        self.node(kernel, LAUNCHED, took, [by], [], num_ops=ops)

    def trace(self, layers: int, *, odd: bool) -> Trace:
        """Steps of as many layers forward and backward, with the host waiting for all work at the end of each."""
        ops = 2 * 512 * self.width**2
        for self.step in range(STEPS):
            self.call("embed", 0, ops=self.width * 512)
            for _ in range(layers):
                self.call("norm", 0)
                self.call("linear", 0, ops=ops)
            if odd and self.step == 1:
                self.call("allocate", 0)
            for layer in range(layers):
                self.call(BACKWARD, 1, ops=2 * ops, waits=() if layer else (self.last[0],))
            while self.ahead:
                self.drain()
            self.node("synchronize", 0, 3000, [self.last[LAUNCHED], self.last[1]], [])
        return self.made.build()


def jobs(count: int) -> list[tuple[dict[str, Parameter], Job]]:
    """Jobs of one to four layers; one of them makes a call that the others do not."""
    found: list[tuple[dict[str, Parameter], Job]] = []
    for number in range(count):
        layers, width = 1 + number % 4, 128 * (2 + number * 5 % 7)
        slow = (0.8, 1.0, 1.1, 1.4)[number * 3 % 4]
        trace = Recording(width, number, slow).trace(layers, odd=number == 3)
        found.append(({"layers": layers, "width": width}, Job((trace,), np.zeros(1, np.int64), {}, {})))
    return found


def names(trace: Trace) -> list[str]:
    return [trace.node(at).name for at in range(len(trace))]


def test_what_interleaves_by_chance_is_in_the_order_of_its_launches() -> None:
    one, other = (in_short(Recording(256, seed, 1).trace(2, odd=False)) for seed in (1, 2))
    assert names(one) == names(other)
    assert names(one)[:4] == ["embed", "work of embed", "norm", "linear"]
    assert all((one.data_deps[at] < at).all() for at in range(len(one)))
    assert [list(map(int, own)) for own in one.data_deps] == [list(map(int, own)) for own in other.data_deps]


def test_a_recording_in_an_order_in_which_it_cannot_run_is_refused() -> None:
    made = TraceBuilder(source="odd.0.et")
    for at, waits in enumerate(([2], [0], [])):
        made.add(at, f"call {at}", data_deps=waits, attrs={"tid": at % 2, "duration_ns": 1000, "is_cpu_op": True})
    with pytest.raises(InputError, match=r"odd\.0\.et: node 0: a node of a recorded trace waits .* later"):
        in_short(made.build())


def test_recordings_of_several_sizes_are_one_program() -> None:
    learned = learn(jobs(12))
    exact = [what for what in learned.lost if not what.endswith("duration_ns")]
    assert all("allocate" in what for what in exact), exact
    (made,) = synthesize(learned, {"layers": 7, "width": 640})
    trace = made.job.traces[0]
    wanted = in_short(Recording(640, 99, 1).trace(7, odd=False))
    assert names(trace) == names(wanted)
    assert [list(map(int, own)) for own in trace.data_deps] == [list(map(int, own)) for own in wanted.data_deps]
    host = wanted.attr("is_cpu_op").integers_or(0) != 0
    own, theirs = (each.attr("duration_ns").integers_or(0) for each in (trace, wanted))
    assert own[~host].sum() == pytest.approx(theirs[~host].sum(), rel=0.02)
    assert own[host].sum() == pytest.approx(1.05 * theirs[host].sum(), rel=0.1)
    scatter = learned.model.scatter
    assert scatter is not None and scatter.host is not None and scatter.rest and 0.1 < scatter.recording < 0.35


def test_tiles_count_whole() -> None:
    random = np.random.default_rng(0)
    width = np.repeat(16.0 * np.arange(2, 22), 2)
    ops = width**2 * np.tile([1000.0, 4000.0], 20)
    took = 5000 + 3 * ops * (np.ceil(width / 64) * 64 / width) * np.exp(random.normal(0, 0.01, 40))
    job = np.arange(40) // 2
    law, off = near_sum(Measurements(took, job, {"own num_ops": ops}, {"width": width}))
    columns = {"own num_ops": np.array([200**2 * 4000]), "width": np.array([200])}
    assert off < 0.02
    assert int(value(law, columns, 1)[0]) == pytest.approx(5000 + 3 * 200 * 256 * 4000, rel=0.02)


def typed(steps: int, width: int, word: str, chance: str) -> Job:
    """A recording in which each step reduces in numbers of one kind, and says another thing by chance."""
    made, random = TraceBuilder(), np.random.default_rng(steps * width)
    for step in range(steps):
        for part, (name, type_, more) in enumerate((
            ("linear", NodeType.COMP_NODE, {"num_ops": width**2}),
            ("all_reduce", NodeType.COMM_COLL_NODE, {"comm_size": 4 * width, "dtype": word, "algorithm": chance}),
        )):  # fmt: skip
            took = int(1e5 * np.exp(random.normal(0, 0.05)))
            waits = [2 * step + part - 1] if step + part else []
            made.add(2 * step + part, name, type_, data_deps=waits, attrs={
                "tid": 0, "duration_ns": took, "is_cpu_op": True, "step": step, **more})  # fmt: skip
    made.add(2 * steps, "end", data_deps=[2 * steps - 1], attrs={
        "tid": 0, "part": 0, "duration_ns": 1000, "is_cpu_op": True})  # fmt: skip
    return Job((made.build(),), np.zeros(1, np.int64), {}, {})


def test_texts_that_a_parameter_tells_are_kept_and_others_are_told() -> None:
    shapes = [(2 + number % 3, 64 * (1 + number * 5 % 7)) for number in range(9)]
    words = ["fp32" if number in (1, 5, 6) else "bf16" for number in range(9)]
    found: list[tuple[dict[str, Parameter], Job]] = [
        ({"steps": steps, "width": width, "kind": word}, typed(steps, width, word, "ring8" if number == 4 else "tree2"))
        for number, ((steps, width), word) in enumerate(zip(shapes, words, strict=True))
    ]
    learned = learn(found)
    for word in ("fp32", "bf16"):
        (made,) = synthesize(learned, {"steps": 4, "width": 320, "kind": word})
        trace = made.job.traces[0]
        said = [node.attrs for node in map(trace.node, range(len(trace))) if node.name == "all_reduce"]
        assert [(one["dtype"], one["algorithm"], one["comm_size"]) for one in said] == [(word, "tree2", 1280)] * 4
    (off,) = [off for what, off in learned.lost.items() if "in which some nodes differ" in what]
    assert 0 < off < 0.5
