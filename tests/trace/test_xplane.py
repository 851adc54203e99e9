"""Profiles of JAX and XLA as device traces, against the official protobuf library."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xspace import Maker, XSpace, gpu_space, random_space, tpu_space

from chakrasim.analysis import comm_overlap, memory_bandwidth
from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE
from chakrasim.analysis.table.work import device_work
from chakrasim.cli.main import main
from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace import KinetoTrace, read_kineto, read_trace
from chakrasim.trace.linked.columns import EdgeKind

PROFILES = Path(__file__).parents[1] / "data" / "profiles"


def read(data: bytes, folder: Path, **options: Any) -> KinetoTrace:
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return read_kineto(path, **options)


def by_name(trace: KinetoTrace) -> dict[str, list[str]]:
    """The categories of the events of each name."""
    found: dict[str, list[str]] = {}
    for name, category in zip(trace.name, trace.category, strict=True):
        found.setdefault(trace.strings[name], []).append(trace.strings[category])
    return found


def events(trace: KinetoTrace) -> list[tuple[str, int, int, int]]:
    names = [trace.strings[name] for name in trace.name]
    return list(zip(names, trace.ts_ns.tolist(), trace.dur_ns.tolist(), trace.correlation.tolist(), strict=True))


def official(data: bytes) -> list[tuple[str, int, int, int]]:
    """Name, begin, duration and correlation of each event with times, by the official parser."""
    found = []
    for plane in XSpace.FromString(data).planes:
        names = {entry.key: entry.value for entry in plane.event_metadata}
        keys = {entry.value.name: entry.key for entry in plane.stat_metadata}
        for line in plane.lines:
            for event in line.events:
                if event.WhichOneof("data") == "num_occurrences":
                    continue
                begin = line.timestamp_ns + event.offset_ps // 1000
                end = line.timestamp_ns + (event.offset_ps + event.duration_ps) // 1000
                said = [one for one in event.stats if one.metadata_id == keys.get("correlation_id")]
                kinds = ("uint64_value", "int64_value", "ref_value")
                number = getattr(said[-1], said[-1].WhichOneof("value")) if said else -1
                known = bool(said) and said[-1].WhichOneof("value") in kinds and number < 2**63
                name = names.get(event.metadata_id)
                title = (name.display_name or name.name) if name else ""
                found.append((title, begin, end - begin, number if known else 0))
    return found


@pytest.mark.parametrize("seed", range(15))
def test_events_are_those_of_the_official_parser(seed: int, tmp_path: Path) -> None:
    data = random_space(seed).bytes()
    assert [(*one[:3], max(one[3], 0)) for one in events(read(data, tmp_path))] == official(data)


@pytest.mark.parametrize(
    ("sample", "steps", "launched"), [("jax_cpu", 5, 0), ("jax_h200", 4, 188), ("xla_rocm", 0, 150)]
)
def test_recorded_profiles_are_read_without_loss(sample: str, steps: int, launched: int) -> None:
    path = PROFILES / f"{sample}.xplane.pb.gz"
    trace = read_kineto(path)
    wanted = official(gzip.decompress(path.read_bytes()))
    assert trace.event_count == len(wanted)
    got = [(*one[:3], max(one[3], 0)) for one in events(trace)]
    named = [at for at, one in enumerate(got) if one[0].startswith("ProfilerStep#")]
    assert [one for at, one in enumerate(got) if at not in named] == [
        one for at, one in enumerate(wanted) if at not in named
    ]
    assert {wanted[at][0] for at in named} == ({"train"} if steps else set())
    work = device_work(trace)
    assert work.steps.number.tolist() == list(range(steps))
    assert len(work) == launched and (work.launch >= 0).all()


def test_a_gpu_profile_links_and_counts(tmp_path: Path) -> None:
    notes = Notes()
    trace = read(gpu_space().bytes(), tmp_path, notes=notes)
    names = by_name(trace)
    assert names["ProfilerStep#5"] == ["user_annotation"] * 2 and "train" not in names
    assert names["cuLaunchKernel"] == ["cuda_runtime"] * 4 and names["$f.py:1 f"] == ["python_function"] * 2
    assert names["jit_step(1)"] == ["gpu_user_annotation"] * 2 and names["MemcpyD2H"] == ["gpu_memcpy"] * 2
    work = device_work(trace)
    assert Counter(zip(work.device.tolist(), work.stream.tolist(), strict=True)) == {
        (0, 7): 2, (0, 9): 1, (1, 8): 2, (1, 9): 1
    }  # fmt: skip
    assert (work.launch >= 0).all() and (work.kind == COMMUNICATION).sum() == 2
    assert sorted(trace.rare_column("bytes").bits.tolist()) == [4096, 4097]
    assert set(memory_bandwidth(trace).copy) == {"Memcpy DtoH"}
    linked = link(device=trace)
    assert linked.counts["unlinked_device_rows"] == 0
    assert list(notes) == [f"{tmp_path}/host.xplane.pb: 4 times finer than a nanosecond were rounded down"]
    assert trace.counts["values that were not kept"] == 6


def test_each_step_of_a_recorded_profile_waits_for_the_gpu() -> None:
    linked = link(device=PROFILES / "jax_h200.xplane.pb.gz")
    waits = linked.edge_kind == EdgeKind.SYNC_STREAM
    goes_on = linked.edge_target[waits]
    assert {*linked.step[goes_on].tolist()} == {0, 1, 2, 3}
    assert (linked.start_ns[goes_on] == linked.end_ns[linked.edge_source[waits]]).all()
    assert linked.counts["idle_waits_for_the_device"] == 5


def test_operations_of_a_tpu_are_work_once(tmp_path: Path) -> None:
    notes = Notes()
    trace = read(tpu_space().bytes(), tmp_path, notes=notes)
    names = by_name(trace)
    assert names["while.1"] == names["7"] == names["jit_step(3)"] == ["gpu_user_annotation"]
    assert names["all-gather-start.1"] == ["kernel", "gpu_user_annotation"] and names["send"] == ["other_plane"]
    work = device_work(trace)
    kinds = dict(zip(work.names(work.row), work.kind.tolist(), strict=True))
    communicating = ("all-gather-start.1", "all-gather-done.1", "collective-permute.3")
    assert kinds == dict.fromkeys(communicating, COMMUNICATION) | dict.fromkeys(("fusion.2", "copy.4", "sc.1"), COMPUTE)
    overlap = comm_overlap(trace)
    assert overlap.communication_ns.tolist() == [100 + 1001 + 500]  # 4,100.7 and 5,101.0 ns, both rounded down
    assert trace.counts == {
        "times rounded to nanoseconds": 2, "events without times": 1, "events of other planes": 1,
        "operations around others": 1,
    }  # fmt: skip
    assert [text.partition(".pb: ")[2][:40] for text in notes.warnings] == [
        "left out 1 events that the profiler coun",
        "1 events of planes that are neither a ho",
    ]


def test_only_work_is_kept_where_only_work_is_asked_for(tmp_path: Path) -> None:
    everything = read(tpu_space().bytes(), tmp_path)
    assert len(read(tpu_space().bytes(), tmp_path, keep="work")) == len(everything)
    assert len(read(gpu_space().bytes(), tmp_path, keep="work")) == len(read(gpu_space().bytes(), tmp_path)) - 2


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), min_size=1, max_size=20))
def test_what_is_apart_in_picoseconds_is_in_nanoseconds(tmp_path_factory: Any, gaps: list[tuple[int, int]]) -> None:
    made, at, spans = Maker(), 0, []
    for gap, length in gaps:
        spans.append(("a", at + gap, length))
        at += gap + length
    made.line("/device:GPU:0", "Stream #1", spans)
    trace = read(made.bytes(), tmp_path_factory.mktemp("x"))
    ends = trace.ts_ns + trace.dur_ns
    assert (trace.ts_ns[1:] >= ends[:-1]).all() and (trace.dur_ns >= 0).all()
    assert abs(int(trace.dur_ns.sum()) * 1000 - sum(length for _, length in gaps)) < 1000 * len(gaps)


def test_damage_is_told_or_read_up_to_it(tmp_path: Path) -> None:
    whole = gpu_space().bytes()
    with pytest.raises(InputError, match="the profile is damaged: a field reaches beyond the end of its message"):
        read(whole[:-20], tmp_path)
    notes = Notes()
    trace = read(whole[:-20], tmp_path, lenient=True, notes=notes)
    assert len(trace) == 18 and "damaged messages were read up to their first fault" in notes.warnings[-1]
    with pytest.raises(InputError, match=r"a field's tag is malformed|a number is malformed"):
        read(whole + b"\x00\x01", tmp_path)
    assert len(read(gzip.compress(whole), tmp_path)) == 18


def test_times_that_cannot_be_are_told_or_left_out(tmp_path: Path) -> None:
    made = Maker()
    made.line("/host:CPU", "t", [("a", -5_000_000, 1), ("b", 5, -1), ("c", 2**63 - 1, 1), ("d", 1, 1)])
    with pytest.raises(InputError, match="event 0 of the file, in plane '/host:CPU': an event has a time that"):
        read(made.bytes(), tmp_path)
    notes = Notes()
    assert len(read(made.bytes(), tmp_path, lenient=True, notes=notes)) == 1
    assert notes.warnings[0].endswith("left out 3 events whose times are negative or too large")


def test_names_that_are_nowhere_and_words_of_the_profiler_are_said(tmp_path: Path) -> None:
    made = Maker()
    made.line("/host:CPU", "t", [("a", 0, 1)]).event_metadata.pop()
    made.space.errors.append("lost events")
    notes = Notes()
    trace = read(made.bytes(), tmp_path, notes=notes)
    assert trace.strings[int(trace.name[0])] == ""
    assert "the profiler says: lost events" in notes.warnings[0] and "1 events refer to a name" in notes.warnings[1]


def test_a_profile_is_told_by_its_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.bin"
    path.write_bytes(gzip.compress(tpu_space().bytes()))
    assert sniff(path).kind is FileKind.DEVICE
    assert main(["info", str(path)]) == 0
    assert "JAX/XLA profile (xplane)" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"found a profile of JAX or XLA \(\*\.xplane\.pb\)"):
        read_trace(path)
    (tmp_path / "host.xplane.pb").write_bytes(gpu_space().bytes())
    assert main(["analyze", "overlap", str(tmp_path), "--json", "-"]) == 0
