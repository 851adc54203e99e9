"""Made programs are what they say: their times keep their dependencies, and their traces tell the same story."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from linker.program_draws import COMM, PATTERNS, compare, make_program
from linker.program_run import Program
from linker.program_trace import BASE_NS, Records

SEEDS = range(40)
DEVICE = ("kernel", "gpu_memcpy")
Event = dict[str, Any]


@pytest.mark.parametrize("seed", SEEDS)
def test_times_keep_the_order_of_streams_launches_and_waits(seed: int) -> None:
    program, draw = make_program(seed), random.Random(seed)
    factors = [draw.choice((0.0, 0.3, 1.0, 2.5)) for _ in program.kernels]
    for times in (program.recorded, program.simulate(lambda kernel: factors[kernel.index])):
        free: dict[int, int] = {}
        launched = {one.kernel: time[0] for one, time in zip(program.actions, times.actions, strict=True)}
        awaited: dict[int, list[int]] = {}
        for wait in program.waits:
            assert program.kernels[wait.waiting].stream != program.kernels[wait.awaited].stream
            awaited.setdefault(wait.waiting, []).append(times.kernels[wait.awaited][1])
        for kernel, (start, end) in zip(program.kernels, times.kernels, strict=True):
            arrived = launched[kernel.index] + kernel.latency_ns
            assert start - kernel.gap_ns == max([arrived, free.get(kernel.stream, 0), *awaited.get(kernel.index, [])])
            assert end >= start
            free[kernel.stream] = end


@pytest.mark.parametrize("seed", SEEDS)
def test_the_host_does_one_thing_at_a_time_and_waits_for_the_device(seed: int) -> None:
    program = make_program(seed)
    times = program.simulate(lambda kernel: 3.0)
    free: dict[int, int] = {}
    for at, (one, (start, end)) in enumerate(zip(program.actions, times.actions, strict=True)):
        if one.what not in ("begin", "end", "hand"):
            assert free.get(one.thread, 0) <= start <= end
            free[one.thread] = end
        if one.what in ("device", "stream"):
            before = {other.kernel for other in program.actions[:at] if other.what == "launch"}
            given = [k for k in before if one.what == "device" or program.kernels[k].stream == one.stream]
            assert all(times.kernels[kernel][1] <= end for kernel in given)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_binds_where_its_kernel_would_have_begun_before(seed: int) -> None:
    """Without the length of what a kernel waited for, and of nothing else, it begins no later, and before if that
    bound alone. A host that waits may hold up or free its launch: programs of hosts that do not."""
    program = make_program(seed, only=("buckets", "fork"), threads=1, steps=1)
    for wait in program.waits[:20]:
        shorter = program.simulate(lambda kernel, gone=wait.awaited: 0.0 if kernel.index == gone else 1.0)
        before, after = program.recorded.kernels[wait.waiting][0], shorter.kernels[wait.waiting][0]
        others = [other for other in program.waits if other.waiting == wait.waiting and other.binding]
        assert after <= before
        assert (after < before) or not (wait.binding and len(others) == 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_scale_1_gives_the_times_of_the_trace(seed: int) -> None:
    program = make_program(seed)
    times = program.simulate(lambda kernel: 1.0)
    document = program.document("sync")
    assert document == make_program(seed).document("sync")
    works = {event["args"]["correlation"]: event for event in document["traceEvents"] if event["cat"] in DEVICE}
    assert len(works) == len(program.kernels)
    for kernel, (start, end) in zip(program.kernels, times.kernels, strict=True):
        work = works[program.correlation(kernel.index)]
        assert Decimal(repr(work["ts"])) * 1000 == Decimal(BASE_NS + start)
        assert work["tid"] == kernel.stream
        assert round(work["dur"] * 1000) == end - start


@pytest.mark.parametrize("seed", SEEDS)
def test_the_records_of_the_trace_say_the_waits(seed: int) -> None:
    """Worked out from the document alone: what a stream had been given before an event was recorded on it."""
    program = make_program(seed)
    number = {program.correlation(one.index): one.index for one in program.kernels}
    events = program.document("sync")["traceEvents"]
    calls = [event for event in events if event["cat"] == "cuda_runtime"]
    stream = {event["args"]["correlation"]: event["tid"] for event in events if event["cat"] in DEVICE}
    told = {event["args"]["correlation"]: event["args"] for event in events if event["cat"] == "cuda_sync"}
    last: dict[int, int] = {}
    pending: dict[int, set[int]] = {}
    marked: dict[int, tuple[dict[int, int], dict[int, set[int]]]] = {}
    found: set[tuple[int, int]] = set()
    for call in sorted(calls, key=lambda event: float(event["ts"])):
        own, name = call["args"]["correlation"], call["name"]
        if name == "cudaEventRecord":
            marked[own] = dict(last), {key: set(value) for key, value in pending.items()}
        elif name == "cudaStreamWaitEvent":
            source = told[own]["wait_on_stream"]
            lasts, more = marked[told[own]["wait_on_cuda_event_record_corr_id"]]
            pending.setdefault(told[own]["stream"], set()).update(more.get(source, ()))
            pending[told[own]["stream"]] |= {lasts[source]} if source in lasts else set()
        elif own in stream:
            to = stream[own]
            found |= {(number[own], number[one]) for one in pending.pop(to, ()) if stream[one] != to}
            last[to] = own
    assert found == {(wait.waiting, wait.awaited) for wait in program.waits}


def names(program: Program, records: Records, hip: bool) -> set[str]:
    events = program.document(records, hip)["traceEvents"]
    return {event["name"] for event in events if event["cat"] in ("cuda_runtime", "cuda_sync")}


@pytest.mark.parametrize(("hip", "maker"), [(False, "cuda"), (True, "hip")])
def test_documents_show_what_they_are_asked_to(hip: bool, maker: str) -> None:
    program = make_program(1, only=tuple(PATTERNS), steps=3)
    synced = names(program, "sync", hip)
    wait, record = f"{maker}StreamWaitEvent", f"{maker}EventRecord"
    assert {wait, record, "Stream Wait Event"} <= synced
    assert {wait, record} == names(program, "calls", hip) & {wait, record, "Stream Wait Event"}
    assert {wait} == names(program, "waits", hip) & {wait, record, "Stream Wait Event"}
    assert not names(program, "none", hip) & {wait, record, "Stream Wait Event"}
    assert all(name.startswith(maker) for name in names(program, "calls", hip))
    kernels = [event for event in program.document("none", hip)["traceEvents"] if event["tid"] == COMM]
    assert kernels and all(event["name"].startswith("ncclDevKernel_") for event in kernels)


def test_programs_differ_as_they_should() -> None:
    """Some bind and some do not; steps or none; several threads."""
    programs = [make_program(seed) for seed in SEEDS]
    share = [wait.binding for program in programs for wait in program.waits]
    assert 0.1 < sum(share) / len(share) < 0.9
    assert {len(program.steps) for program in programs} == {0, 1, 2, 3}
    assert {len({one.thread for one in program.actions}) for program in programs} == {1, 2}
    assert {one.thread for program in programs for one in program.actions} == {0, 1, 2}
    assert {one.stream for program in programs for one in program.kernels} == {7, 20, 24, 28}


@pytest.mark.parametrize("seed", range(5))
def test_unchanged_programs_take_as_long_as_recorded(seed: int) -> None:
    """The package and the truth mean the same by a step."""
    compared = compare(make_program(seed), "sync", "communication=1")
    for step in compared.steps:
        assert step["before_us"] == pytest.approx(step["true_before_us"], abs=1e-3)
        assert step["true_after_us"] == step["true_before_us"]
