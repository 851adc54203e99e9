"""Timelines in Perfetto's own format, read by protobuf's decoder with the numbers of the public schema."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim import InputError, write_timeline
from chakrasim.cli.main import main
from chakrasim.demo import TRACES
from chakrasim.generator import generate_transformer
from chakrasim.report.timeline.events import ArrowEnds, Counter, Process, Track
from chakrasim.report.timeline.write import write_processes

#: Of Perfetto's protos/perfetto/trace of August 2026: message, field, number, type; "*" is repeated.
SCHEMA = """
Trace packet 1 *TracePacket
TracePacket timestamp 8 uint64
TracePacket trusted_packet_sequence_id 10 uint32
TracePacket track_event 11 TrackEvent
TracePacket interned_data 12 InternedData
TracePacket sequence_flags 13 uint32
TracePacket track_descriptor 60 TrackDescriptor
TrackDescriptor uuid 1 uint64
TrackDescriptor name 2 string
TrackDescriptor process 3 ProcessDescriptor
TrackDescriptor parent_uuid 5 uint64
TrackDescriptor counter 8 CounterDescriptor
TrackDescriptor child_ordering 11 int32
TrackDescriptor sibling_order_rank 12 int32
TrackDescriptor sibling_merge_behavior 15 int32
ProcessDescriptor pid 1 int32
ProcessDescriptor legacy_sort_index 3 int32
ProcessDescriptor process_name 6 string
CounterDescriptor unit 3 int32
CounterDescriptor unit_name 6 string
TrackEvent category_iids 3 *uint64
TrackEvent debug_annotations 4 *DebugAnnotation
TrackEvent type 9 int32
TrackEvent name_iid 10 uint64
TrackEvent track_uuid 11 uint64
TrackEvent counter_value 30 int64
TrackEvent double_counter_value 44 double
TrackEvent flow_ids 47 *fixed64
DebugAnnotation name_iid 1 uint64
DebugAnnotation bool_value 2 bool
DebugAnnotation int_value 4 int64
DebugAnnotation double_value 5 double
DebugAnnotation string_value 6 string
InternedData event_categories 1 *InternedName
InternedData event_names 2 *InternedName
InternedData debug_annotation_names 3 *InternedName
InternedName iid 1 uint64
InternedName name 2 string
"""
BEGIN, END, COUNT = 1, 2, 4


def _schema() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="timeline.proto", package="t", syntax="proto2")
    messages: dict[str, Any] = {}
    for line in SCHEMA.split("\n")[1:-1]:
        owner, name, number, kind = line.split(" ")
        if owner not in messages:
            messages[owner] = file.message_type.add(name=owner)
        field = messages[owner].field.add(name=name, number=int(number), label=3 if kind[0] == "*" else 1)
        kind = kind.lstrip("*")
        if kind[0].isupper():
            field.type, field.type_name = field.TYPE_MESSAGE, f".t.{kind}"
        else:
            field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Trace"))


TRACE = _schema()


class Read:
    """A trace as Perfetto reads it: tracks by uuid, slices (track, start, end, name, category, args, depth), flows as
    pairs of slices, values of counters by the track's name."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self.trace = TRACE.FromString(gzip.decompress(data) if path.name.endswith(".gz") else data)
        assert not unknown(self.trace)
        self.tracks: dict[int, Any] = {}
        self.slices: list[dict[str, Any]] = []
        self.values: dict[str, list[tuple[int, float]]] = defaultdict(list)
        names: dict[str, dict[int, str]] = defaultdict(dict)
        events = []
        for number, packet in enumerate(self.trace.packet):
            assert packet.trusted_packet_sequence_id == 1 or packet.HasField("track_descriptor")
            assert (packet.sequence_flags == 1) == (number == 0)
            for kind in ("event_categories", "event_names", "debug_annotation_names"):
                names[kind] |= {one.iid: one.name for one in getattr(packet.interned_data, kind)}
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                assert packet.sequence_flags == 2
                events.append((packet.timestamp, packet.track_event))
        # Its trace processor sorts packets by time; of equal ones the first in the file comes first.
        events.sort(key=lambda one: one[0])
        flows: dict[int, list[int]] = defaultdict(list)
        stacks: dict[int, list[int]] = defaultdict(list)
        for time, event in events:
            track = event.track_uuid
            if event.type == BEGIN:
                args = {names["debug_annotation_names"][a.name_iid]: _value(a) for a in event.debug_annotations}
                said = {"track": track, "start": time, "end": None, "depth": len(stacks[track]), "args": args,
                        "name": names["event_names"][event.name_iid],
                        "category": names["event_categories"][event.category_iids[0]]}  # fmt: skip
                stacks[track].append(len(self.slices))
                for flow in event.flow_ids:
                    flows[flow].append(len(self.slices))
                self.slices.append(said)
            elif event.type == END:
                self.slices[stacks[track].pop()]["end"] = time
            else:
                assert event.type == COUNT
                value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
                self.values[self.tracks[track].name].append((time, value))
        assert not any(stacks.values())
        assert {len(ends) for ends in flows.values()} <= {2}
        self.flows = [tuple(sorted(ends, key=lambda i: self.slices[i]["start"])) for ends in flows.values()]

    def process_of(self, uuid: int) -> str:
        track = self.tracks[uuid]
        return str(self.tracks[track.parent_uuid].process.process_name)


def unknown(message: Any) -> int:
    """How many fields the schema does not have."""
    below = [value for field, value in message.ListFields() if field.message_type is not None]
    inner = [one for value in below for one in (value if hasattr(value, "append") else [value])]
    return len(UnknownFieldSet(message)) + sum(map(unknown, inner))


def _value(annotation: Any) -> object:
    (kind,) = [
        kind for kind in ("bool_value", "int_value", "double_value", "string_value") if annotation.HasField(kind)
    ]
    return getattr(annotation, kind)


@pytest.fixture(scope="module")
def result() -> cs.SimulationResult:
    job = generate_transformer(
        {"model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256},
         "parallel": {"tp": 2, "pp": 2, "dp": 2}, "batch": {"micro_batches": 2}}
    ).job  # fmt: skip
    return cs.simulate(job, machine="h100", fold=False)


def chrome(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(), parse_float=lambda text: int(text.replace(".", "")))["traceEvents"]


def test_slices_are_those_of_chromes_format(result: cs.SimulationResult, tmp_path: Path) -> None:
    write_timeline(result, tmp_path / "t.json")
    write_timeline(result, tmp_path / "t.pftrace")
    found = Read(tmp_path / "t.pftrace")
    events = chrome(tmp_path / "t.json")
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown = sorted(
        (processes[e["pid"]], threads[e["pid"], e["tid"]], e["ts"], e["ts"] + e["dur"], e["name"], str(e["args"]))
        for e in events if e["ph"] == "X"
    )  # fmt: skip
    kept = [one for one in found.slices if one["category"] != "arrival"]
    assert shown == sorted(
        (found.process_of(s["track"]), found.tracks[s["track"]].name, s["start"], s["end"], s["name"], str(s["args"]))
        for s in kept
    )
    assert {one["category"] for one in kept} >= {"compute", "communication tp", "receive pp"}
    assert {one["depth"] for one in kept} == {0}


def test_messages_and_dependencies_are_arrows(result: cs.SimulationResult, tmp_path: Path) -> None:
    write_timeline(result, tmp_path / "t.pftrace")
    found = Read(tmp_path / "t.pftrace")
    across, within = [], []
    for source, target in found.flows:
        one, other = found.slices[source], found.slices[target]
        (within if found.process_of(one["track"]) == found.process_of(other["track"]) else across).append((one, other))
    sends = [s for s in found.slices if s["args"].get("type") == "COMM_SEND_NODE"]
    assert len(across) == len(sends) > 0
    for send, end in across:
        assert send["args"]["type"] == "COMM_SEND_NODE"
        assert end["category"] == "arrival" or end["args"]["type"] == "COMM_RECV_NODE"
        assert found.process_of(end["track"]) == f"rank {send['args']['peer']}"
        assert send["start"] <= end["start"]
    # Exactly the edges of the traces between different threads.
    edges = 0
    for rank, number in enumerate(result.classes.tolist()):
        graph = result.records[number].graph
        tracks = {s["args"]["id"]: s["track"] for s in found.slices
                  if s["args"] and found.process_of(s["track"]) == f"rank {rank}"}  # fmt: skip
        parents = np.repeat(np.arange(len(graph)), np.diff(graph.child_offsets))
        ids = graph.trace.ids[graph.order]
        pairs = zip(ids[parents].tolist(), ids[graph.children].tolist(), strict=True)
        edges += sum(a in tracks and b in tracks and tracks[a] != tracks[b] for a, b in pairs)
    assert len(within) == edges > 0


def test_bytes_in_flight_are_counted(result: cs.SimulationResult, tmp_path: Path) -> None:
    write_timeline(result, tmp_path / "t.pftrace", ranks=[0])
    found = Read(tmp_path / "t.pftrace")
    values = dict(found.values["communication in flight"])
    counter = next(track for track in found.tracks.values() if track.name == "communication in flight")
    assert counter.counter.unit == 3
    talks = [s for s in found.slices if s["category"].startswith(("communication", "receive"))]
    for time, value in [*values.items()][::7]:
        assert value == sum(s["args"]["bytes"] for s in talks if s["start"] <= time < s["end"])
    assert [*values.values()][-1] == 0


def test_ranks_may_be_chosen(result: cs.SimulationResult, tmp_path: Path) -> None:
    write_timeline(result, tmp_path / "t.pftrace", ranks=[5, 1])
    found = Read(tmp_path / "t.pftrace")
    processes = [track.process for track in found.tracks.values() if track.HasField("process")]
    assert [(one.pid, one.process_name, one.legacy_sort_index) for one in processes] == [
        (6, "rank 5", 5),
        (2, "rank 1", 1),
        (9, "links that carried something", 9),
    ]
    with pytest.raises(InputError, match="there is no rank 8; found 8 ranks; expected 0 to 7"):
        write_timeline(result, tmp_path / "no.pftrace", ranks=[8])
    assert not (tmp_path / "no.pftrace").exists()


def test_of_folded_ranks_the_one_that_was_asked_for_is_named(tmp_path: Path) -> None:
    from chakrasim.demo import GROUPS, STEP

    result = cs.simulate(STEP, machine="hgx-h100-16", comm_groups=GROUPS)
    write_timeline(result, tmp_path / "t.json", ranks=[3, 12, 13])
    names = [e["args"]["name"] for e in chrome(tmp_path / "t.json") if e["name"] == "process_name"]
    assert names == ["rank 3 (as rank 0)", "rank 12 (as rank 8)", "rank 13 (as rank 8)"]
    write_timeline(result, tmp_path / "t.pftrace", ranks=[3, 12, 13])
    found = Read(tmp_path / "t.pftrace")
    messages = {found.process_of(found.slices[i]["track"]) for ends in found.flows for i in ends
                if found.slices[i]["args"].get("type") == "COMM_SEND_NODE"}  # fmt: skip
    assert messages == {"rank 3 (as rank 0)", "rank 12 (as rank 8)"}


def test_recorded_traces_have_arrows_from_launches(tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "data" / "hta" / "alexnet.json.gz"
    for name in ("t.json", "t.pftrace"):
        assert main(["timeline", str(path), "-o", str(tmp_path / name)]) == 0
    found, events = Read(tmp_path / "t.pftrace"), chrome(tmp_path / "t.json")
    assert len(found.slices) == sum(e["ph"] == "X" for e in events)
    assert len(found.flows) == sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) > 90
    pairs = {(found.tracks[found.slices[i]["track"]].parent_uuid) for pair in found.flows for i in pair}
    assert len(pairs) == 2
    assert max(one["depth"] for one in found.slices) > 3
    # Slices lie in one another as in Chrome's format: by time.
    for one in found.slices[::50]:
        around = [s for s in found.slices if s["track"] == one["track"] and s is not one
                  and s["start"] <= one["start"] and one["end"] <= s["end"]]  # fmt: skip
        assert one["depth"] <= len(around)


SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("perfetto")


@settings(max_examples=40)
@given(spans=SPANS, texts=st.lists(st.text(max_size=5), min_size=1, max_size=3), packed=st.booleans())
def test_any_slices_that_nest_come_out_again(
    place: Path, spans: list[tuple[int, int]], texts: list[str], packed: bool
) -> None:
    """Rows as the writer gets them: on each, of two slices one contains the other, or they lie apart."""
    spans = sorted(spans, key=lambda one: (one[0], -one[1]))
    rows: list[list[int]] = []
    for i, (start, length) in enumerate(spans):
        fits = (row for row in rows if all(
            sum(spans[j]) <= start or sum(spans[j]) >= start + length for j in row))  # fmt: skip
        row = next(fits, None)
        if row is None:
            rows.append(row := [])
        row.append(i)
    tracks = [Track(n + 1, f"row {n}", np.array(row, np.int64), "made") for n, row in enumerate(rows)]
    start, length = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    names = [texts[i % len(texts)] for i in range(len(spans))]
    args = ["," + json.dumps({"n": i, "x": 0.5, "t": "é", "b": True, "none": None, "big": 1 << 70})[1:-1]
            for i in range(len(spans))]  # fmt: skip
    times = np.array([0, 3], np.int64)
    counters = [
        Counter("c", "Gbps", times, np.array([0.5, -1.0])),
        Counter("d", "bytes", times, np.array([-3, 1 << 40])),
    ]
    arrow = ArrowEnds("a", np.array([0, len(spans) - 1]), np.array([7, 7]), np.array([False, True]))
    process = Process(1, "p", 0, tracks, start, length, names, args, counters=counters, arrows=[arrow])
    path = place / ("t.pftrace.gz" if packed else "t.perfetto-trace")
    write_processes(path, [process, Process(2, "empty", 1)])
    found = Read(path)
    got = sorted((s["start"], s["end"], s["name"], s["args"]["n"]) for s in found.slices)
    shown = [text.encode("utf-8", "replace").decode() for text in names]
    assert got == sorted((a, a + b, shown[i], i) for i, (a, b) in enumerate(spans))
    assert found.slices[0]["args"] | {"n": 0} == {
        "n": 0,
        "x": 0.5,
        "t": "é",
        "b": True,
        "none": "null",
        "big": str(1 << 70),
    }
    assert found.values == {"c": [(0, 0.5), (3, -1.0)], "d": [(0, -3), (3, 1 << 40)]}


def test_the_packets_of_flows_are_slices_too(tmp_path: Path) -> None:
    out = tmp_path / "t.pftrace"
    line = "-m chakrasim flows --model packet --machine h100 --pattern incast:3x64KiB --timeline"
    # Uncompiled: the packet network takes half a minute to compile, which tests of it do elsewhere.
    subprocess.run([sys.executable, *line.split(), str(out)], check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
    assert {s["category"] for s in Read(out).slices} == {"flow"}


def test_the_commands_choose_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.pftrace"
    assert main(["timeline", str(TRACES), "-o", str(out), "--ranks", "1,3"]) == 0
    found = Read(out)
    assert {found.process_of(s["track"]) for s in found.slices} == {"rank 1 host", "rank 3 host"}
    assert main(["timeline", str(TRACES), "-o", str(tmp_path / "no.json"), "--ranks", "4"]) == 2
    assert "there is no trace of rank 4; found ranks 0-3" in capsys.readouterr().err
    assert main(["simulate", "x", "--machine", "h100", "--timeline-ranks", "1"]) == 2
    assert "add --timeline FILE" in capsys.readouterr().err
    assert main(["simulate", "x", "--machine", "h100", "--timeline", "t.json", "--timeline-ranks", "3-1"]) == 2
    assert "found '3-1', expected ranks, such as 3,12 or 0-7,16" in capsys.readouterr().err


def test_a_replayed_job_has_what_was_measured_below_what_is_simulated(tmp_path: Path) -> None:
    assert main(["trace", str(TRACES), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    replayed = cs.replay_recorded(str(tmp_path / "out" / "chakra"), "recorded")
    write_timeline(replayed, tmp_path / "t.pftrace", ranks=[1])
    found = Read(tmp_path / "t.pftrace")
    shown = {name: [one for one in found.slices if (one["category"] == "measured") is name] for name in (False, True)}
    assert len(shown[True]) == len(shown[False]) > 1000
    assert (
        sorted((one["name"], one["end"] - one["start"]) for one in shown[True])[:20]
        == sorted((one["name"], one["end"] - one["start"]) for one in shown[False])[:20]
    )
    # Ranks were recorded on clocks of their own; within one, a replay of everything ends when it was measured to.
    later = np.array([value for _, value in found.values["later than measured"]])
    assert len(later) == len(shown[True]) and np.ptp(later) == 0
    names = {found.tracks[one["track"]].name for one in shown[True]}
    assert names and all(name.startswith("measured ") for name in names)
