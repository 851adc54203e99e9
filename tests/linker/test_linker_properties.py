"""Whatever the trace, the edges go forward and the recorded times come out again; damaged traces never crash."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_maker import BASE, KinetoMaker
from linked_checks import check

from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes

MUTATIONS = 100


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Operations of several threads in order: ("op", thread, length), ("launch", thread, stream, length), ..."""
    actions = st.one_of(
        st.tuples(st.just("op"), st.integers(1, 3), st.integers(0, 50)),
        st.tuples(st.just("launch"), st.integers(1, 3), st.integers(7, 9), st.integers(0, 200)),
        st.tuples(st.just("copy"), st.integers(1, 3), st.integers(7, 9), st.integers(0, 60)),
        st.tuples(st.just("stream sync"), st.integers(1, 3), st.integers(7, 9)),
        st.tuples(st.just("device sync"), st.integers(1, 3)),
        st.tuples(st.just("wait event"), st.integers(1, 3), st.integers(7, 9), st.integers(7, 9)),
        st.tuples(st.just("idle"), st.integers(1, 3), st.integers(0, 300)),
    )
    return draw(st.lists(actions, max_size=40))


class _Machine:
    """Runs a program as a real machine would, and records it."""

    def __init__(self, folder: Path, records: bool) -> None:
        self.trace, self.records = KinetoMaker(folder), records
        self.thread: dict[int, float] = {}
        self.stream: dict[int, float] = {}
        self.waits: dict[int, float] = {}
        self.correlation = 0

    def run(self, program: list[tuple[Any, ...]]) -> None:
        # Threads take turns in the order of the program, so that launches happen in that order too.
        now = 0.0
        for action in program:
            kind, thread, *rest = action
            at = max(self.thread.get(thread, 0.0), now)
            self.correlation += 1
            getattr(self, "do_" + kind.replace(" ", "_"))(thread, at, *rest)
            now = at

    def do_op(self, thread: int, at: float, length: int) -> None:
        self.trace.op(f"op{length}", at, length + 2, tid=thread).op("inner", at + 1, length, tid=thread)
        self.thread[thread] = at + length + 2

    def enqueue(self, stream: int, at: float, length: int) -> float:
        start = max(at + 3, self.stream.get(stream, 0.0), self.waits.pop(stream, 0.0))
        self.stream[stream] = start + length
        return start

    def do_launch(self, thread: int, at: float, stream: int, length: int) -> None:
        start = self.enqueue(stream, at, length)
        self.trace.call("cudaLaunchKernel", at, 5, self.correlation, thread)
        self.trace.kernel(f"k{self.correlation}", start, length, self.correlation, stream)
        self.thread[thread] = at + 5

    def do_copy(self, thread: int, at: float, stream: int, length: int) -> None:
        start = self.enqueue(stream, at, length)
        self.trace.call("cudaMemcpy", at, start + length + 1 - at, self.correlation, thread)
        self.trace.copy("Memcpy DtoH (Device -> Pageable)", start, length, self.correlation, stream)
        self.thread[thread] = start + length + 1

    def synchronise(self, thread: int, at: float, until: float, name: str, record: str, stream: int) -> None:
        end = max(at, until) + 2
        self.trace.call(name, at, end - at, self.correlation, thread)
        if self.records:
            self.trace.sync(record, at, end - at, self.correlation, stream)
        self.thread[thread] = end

    def do_stream_sync(self, thread: int, at: float, stream: int) -> None:
        until = max(self.stream.get(stream, 0.0), self.waits.get(stream, 0.0))
        self.synchronise(thread, at, until, "cudaStreamSynchronize", "Stream Sync", stream)

    def do_device_sync(self, thread: int, at: float) -> None:
        until = max([0.0, *self.stream.values(), *self.waits.values()])
        self.synchronise(thread, at, until, "cudaDeviceSynchronize", "Context Sync", -1)

    def do_wait_event(self, thread: int, at: float, source: int, target: int) -> None:
        record, self.correlation = self.correlation, self.correlation + 1
        self.trace.call("cudaEventRecord", at, 1, record, thread)
        self.trace.call("cudaStreamWaitEvent", at + 2, 1, self.correlation, thread)
        if self.records:
            self.trace.sync("Stream Wait Event", at + 2, 1, self.correlation, target, on_stream=source, record=record)
        ready = max(self.stream.get(source, 0.0), self.waits.get(source, 0.0))
        self.waits[target] = max(self.waits.get(target, 0.0), ready)
        self.thread[thread] = at + 3

    def do_idle(self, thread: int, at: float, length: int) -> None:
        self.thread[thread] = at + length


@settings(max_examples=60)
@given(program=programs(), records=st.booleans())
def test_recorded_times_come_out_again(
    program: list[tuple[Any, ...]], records: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = _Machine(tmp_path_factory.mktemp("made"), records)
    machine.trace.op("begin", 0, 0)
    machine.run(program)
    linked = link(device=machine.trace.write())
    check(linked)
    assert linked.counts["edges_rejected_circular"] == 0
    if records:
        assert linked.counts["edges_rejected_source_ends_late"] == 0


def _mutated(events: list[dict[str, Any]], random_: random.Random) -> list[dict[str, Any]]:
    """The events with a few fields changed, removed or swapped."""
    events = [{**event, "args": dict(event["args"])} for event in events]
    wild = [0, -1, 1, 7, 2**31, 2**62, -(2**62), 10**18, "x", "7", None, [], {}, True, 1.5, 1e300]
    for _ in range(random_.randint(1, 12)):
        event = random_.choice(events)
        place = random_.choice((event, event["args"])) if event["args"] else event
        key = random_.choice(sorted(place))
        what = random_.randrange(4)
        if what == 0 and key != "args":
            place[key] = random_.choice(wild)
        elif what == 1 and key != "args":
            del place[key]
        elif what == 2 and isinstance(place.get(key), int):
            place[key] += random_.choice((-1, 1, 5, -500, 10**6))
        else:
            other = random_.choice(events)
            event["args"] = dict(other["args"])
    return events


def mutate_and_link(folder: Path, seeds: range) -> int:
    """Link as many mutated traces; how many were refused."""
    machine = _Machine(folder, True)
    random_ = random.Random(1)
    kinds = ("op", "launch", "copy", "stream sync", "device sync", "wait event", "idle")
    program: list[tuple[Any, ...]] = []
    for _ in range(40):
        kind = random_.choice(kinds)
        count = {"op": 1, "idle": 1, "launch": 2, "copy": 2, "stream sync": 1, "device sync": 0, "wait event": 2}[kind]
        program.append((kind, random_.randint(1, 3), *(random_.randint(7, 9) for _ in range(count))))
    machine.trace.note("ProfilerStep#1", 0, 100).note("ProfilerStep#2", 100, 500)
    machine.run(program)
    whole = json.loads(machine.trace.write().read_text())["traceEvents"]
    path = folder / "mutated.json"
    refused = 0
    for seed in seeds:
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": _mutated(whole, random.Random(seed))}))
        try:
            linked = link(device=path, notes=Notes())
        except InputError:
            refused += 1
            continue
        check(linked, clocks_agree=linked.counts["rows_begun_before_their_sources_ended"] == 0)
    return refused


def test_mutated_traces_are_linked_or_refused(tmp_path: Path) -> None:
    assert mutate_and_link(tmp_path, range(MUTATIONS)) < MUTATIONS


def test_base_is_realistic() -> None:
    """Times of the made traces do not fit float64 to the nanosecond, as real ones do not."""
    assert float(BASE * 1000 + 1) == float(BASE * 1000)
