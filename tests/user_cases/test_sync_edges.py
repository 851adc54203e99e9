"""Every dependency that a synchronisation record proves is in the Chakra file, and none that cannot be.

What the records prove is worked out here again from the JSON alone, in the plainest way; the file is read back and
its nodes are found by their correlation ids and start times.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import chakrasim as cs
from chakrasim.trace import read_trace
from chakrasim.trace.chakra.graph import NodeView
from chakrasim.trace.linked.columns import EdgeKind, Evidence
from linker.kineto_maker import KinetoMaker

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
HOST = ("cuda_runtime", "cuda_driver")
WAITS = (EdgeKind.SYNC_EVENT, EdgeKind.SYNC_STREAM, EdgeKind.SYNC_CONTEXT, EdgeKind.SYNC_COPY)
TOLERANCE_NS = 1000

Event = dict[str, Any]


# --- what the records prove -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """An event: ``key`` is its correlation and its start, which the nodes of the Chakra file have too."""

    key: tuple[int, int]
    start_ns: int
    end_ns: int
    launched_ns: int = 0


@dataclass
class Document:
    """The events of a device trace that matter for synchronisation."""

    calls: dict[int, Span]
    streams: dict[tuple[int, int], list[Span]]
    """Work by (device, stream) in the order of its launch."""
    syncs: list[Event]
    external: dict[tuple[int, int], int]
    """External id of calls and work, by key."""
    operators: list[Event]
    by_external: dict[int, list[int]]
    """Starts of all events with an External id."""


def read_document(path: Path) -> Document:
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, parse_float=Decimal)
    events = [event for event in content["traceEvents"] if event.get("ph") == "X"]
    document = Document({}, defaultdict(list), [], {}, [], defaultdict(list))
    for event in events:
        if event.get("cat") in HOST and "correlation" in event["args"]:
            document.calls[event["args"]["correlation"]] = span(event)
    for event in events:
        args = event.get("args", {})
        if event.get("cat") in DEVICE and args.get("correlation", -1) in document.calls:
            launch = document.calls[args["correlation"]].start_ns
            document.streams[device_of(event), args["stream"]].append(span(event, launch))
        if event.get("cat") == "cuda_sync":
            document.syncs.append(event)
        if event.get("cat") in (*DEVICE, *HOST) and "External id" in args:
            document.external[span(event).key] = args["External id"]
        if event.get("cat") == "cpu_op":
            document.operators.append(event)
        if event.get("cat") in ("cpu_op", *DEVICE, *HOST) and "External id" in args:
            document.by_external[args["External id"]].append(int(Decimal(event["ts"]) * 1000))
    for works in document.streams.values():
        works.sort(key=lambda work: (work.launched_ns, work.start_ns))
    return document


def span(event: Event, launched_ns: int = 0) -> Span:
    start = int(Decimal(event["ts"]) * 1000)
    return Span((event["args"]["correlation"], start), start, start + int(Decimal(event["dur"]) * 1000), launched_ns)


def device_of(event: Event) -> int:
    return int(event["args"].get("device", event["pid"]))


@dataclass(frozen=True)
class Proof:
    """``target`` waited for ``source``."""

    source: Span
    target: Span
    kind: EdgeKind


def proofs(document: Document) -> list[Proof]:
    """A wait for a stream is one for its last work launched before the call, one for an event for the last launched
    before the event was recorded, unless that work ended more than a microsecond too late."""
    found = []
    for event in document.syncs:
        args, name = event["args"], event["name"]
        call = document.calls.get(args["correlation"])
        record = document.calls.get(args.get("wait_on_cuda_event_record_corr_id", -1))
        device = device_of(event)
        recorded = (device, args.get("wait_on_stream", -1))
        if call is None:
            continue
        if name == "Context Sync":
            for key in document.streams:
                if key[0] == device:
                    found += waited(document, key, call.start_ns, call, EdgeKind.SYNC_CONTEXT)
        elif name == "Stream Sync":
            found += waited(document, (device, args["stream"]), call.start_ns, call, EdgeKind.SYNC_STREAM)
        elif record is None:
            continue
        elif name == "Event Sync":
            found += waited(document, recorded, record.start_ns, call, EdgeKind.SYNC_EVENT)
        elif name == "Stream Wait Event":
            later = [work for work in of(document, (device, args["stream"])) if work.launched_ns >= call.start_ns]
            if later:
                target = later[0]
                before = last_before(document, recorded, record.start_ns, target.start_ns)
                found += [Proof(before, target, EdgeKind.EVENT_WAIT)] if before else []
    return found


def waited(document: Document, stream: tuple[int, int], time_ns: int, call: Span, kind: EdgeKind) -> list[Proof]:
    source = last_before(document, stream, time_ns, call.end_ns)
    return [Proof(source, call, kind)] if source else []


def of(document: Document, stream: tuple[int, int]) -> list[Span]:
    return document.streams.get(stream, [])


def last_before(document: Document, stream: tuple[int, int], time_ns: int, end_ns: int) -> Span | None:
    fits = [
        work for work in of(document, stream) if work.launched_ns < time_ns and work.end_ns <= end_ns + TOLERANCE_NS
    ]
    return fits[-1] if fits else None


def false_pairs_of_reference(document: Document) -> int:
    """Pairs that joining by External id makes of the same waits, beside the right one: operators that happen to have
    the id of the call that waited, and other events with the id of what it waited for, of which the last is taken."""
    wrong = 0
    for proof in proofs(document):
        call, source = (document.external.get(end.key, -1) for end in (proof.target, proof.source))
        if proof.kind not in WAITS or call < 0 or source < 0 or call == source:
            continue
        for event in document.operators:
            begin, end = event["ts"], event["ts"] + event["dur"]
            around = begin * 1000 <= proof.target.start_ns and end * 1000 >= proof.target.end_ns
            wrong += event["args"].get("External id") == call and not around
        wrong += max(document.by_external[source]) != proof.source.start_ns
    return wrong


# --- what the Chakra file says ----------------------------------------------------------------------------------------


def nodes_of(device: Path, folder: Path) -> tuple[list[NodeView], dict[str, int]]:
    """Link, convert, write, read back: the nodes, and the counts that the file states."""
    cs.write(str(folder / "x"), [cs.convert(cs.link(None, device))])
    return read_back(folder / "x.0.et")


def read_back(path: Path) -> tuple[list[NodeView], dict[str, int]]:
    trace = read_trace(path)
    return [trace.node(at) for at in range(len(trace))], json.loads(str(trace.metadata["counts"]))


def dependencies(nodes: list[NodeView], *kinds: EdgeKind) -> list[tuple[NodeView, NodeView, int]]:
    """Source, target, evidence."""
    found = []
    for node in nodes:
        if not node.data_deps:
            continue
        lists = zip(node.data_deps, node.attrs["data_dep_kinds"], node.attrs["data_dep_evidence"], strict=True)
        found += [(nodes[source], node, evidence) for source, kind, evidence in lists if kind in kinds]
    return found


def end_ns(node: NodeView) -> int:
    return int(node.attrs["start_ns"] + node.attrs.get("wait_ns", 0) + node.attrs["duration_ns"])


def check(
    device: Path, folder: Path, *, exact: bool = True, converted: Path | None = None
) -> tuple[list[Proof], dict[str, int]]:
    """Both halves of the bar; returns what the records prove, and the counts of the file.

    ``exact``: no wait is handed on by a stream that gets no work after it, so that nothing else is proved.
    """
    document = read_document(device)
    nodes, counts = read_back(converted) if converted else nodes_of(device, folder)
    first = {(node.attrs["correlation"], node.attrs["start_ns"]): node for node in nodes if "correlation" in node.attrs}
    proved = proofs(document)
    waits = dependencies(nodes, EdgeKind.EVENT_WAIT, *WAITS)
    shown: set[tuple[int, int]] = set()
    have = {(source.id, target.id): evidence for source, target, evidence in waits}
    for proof in proved:
        source, target = first[proof.source.key], first[proof.target.key]
        # A call that other events interrupt has several nodes, one after the other; one of them waits.
        pieces = [node.id for node in nodes if target.id <= node.id and lies_in(node, proof.target, target)]
        edge = [have.get((source.id, piece)) for piece in pieces]
        chained = any(source.id in nodes[piece].data_deps for piece in pieces)
        assert Evidence.SYNC_RECORD in edge or chained, (source.name, target.name, proof.kind)
        shown |= {(source.id, piece) for piece in pieces}
        if proof.kind in WAITS:
            assert max(end_ns(nodes[piece]) for piece in pieces) == proof.target.end_ns
    for source, target, _ in dependencies(nodes, *WAITS):
        assert end_ns(source) <= end_ns(target) + TOLERANCE_NS, (source.name, target.name)
    for source, target, _ in dependencies(nodes, EdgeKind.EVENT_WAIT):
        assert end_ns(source) <= target.attrs["start_ns"] + TOLERANCE_NS, (source.name, target.name)
    recorded = {pair for pair, evidence in have.items() if evidence == Evidence.SYNC_RECORD}
    assert not exact or recorded <= shown, [(nodes[one].name, nodes[other].name) for one, other in recorded - shown]
    return proved, counts


def lies_in(node: NodeView, call: Span, head: NodeView) -> bool:
    if node.id == head.id:
        return True
    same = node.attrs.get("tid") == head.attrs.get("tid") and node.name == head.name and "part" in node.attrs
    return same and call.start_ns <= node.attrs["start_ns"] <= call.end_ns


# --- tests ------------------------------------------------------------------------------------------------------------


def by_kind(proved: list[Proof]) -> dict[str, int]:
    return dict(Counter(proof.kind.name for proof in proved))


@pytest.mark.parametrize(
    ("name", "found", "false_pairs"),
    [
        ("alexnet", {"SYNC_STREAM": 16, "SYNC_CONTEXT": 9, "EVENT_WAIT": 6}, 24),
        ("simpleadd", {"SYNC_STREAM": 16, "SYNC_CONTEXT": 9}, 24),
        ("evsync", {"SYNC_STREAM": 1, "SYNC_EVENT": 2, "SYNC_CONTEXT": 1}, 0),
        ("evsyncms", {"SYNC_EVENT": 2, "EVENT_WAIT": 1, "SYNC_CONTEXT": 3}, 5),
    ],
)
def test_real_pairs(name: str, found: dict[str, int], false_pairs: int, shared_dir: Path, tmp_path: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / name
    report = cs.trace_directory(folder, tmp_path / "out")
    converted = Path(f"{report.prefix}.{report.ranks[0].rank}.et")
    proved, counts = check(folder / "device.0.json.gz", tmp_path, converted=converted)
    assert by_kind(proved) == found
    document = read_document(folder / "device.0.json.gz")
    assert counts["false_pairs_of_reference"] == false_pairs_of_reference(document) == false_pairs


@pytest.mark.parametrize(("name", "number"), [("alexnet_all", 31), ("event_sync_all", 4), ("event_sync_multi", 6)])
def test_what_hta_finds_in_whole_traces(name: str, number: int, shared_dir: Path, tmp_path: Path) -> None:
    """HTA's graphs have the same edges (it keys them by correlation, too; on the way to the reference's file they go
    through External ids): pairs of events by their place in the file."""
    golden = json.loads((shared_dir / "golden" / "analysis" / f"cp_{name}.pinned.z0.json").read_text())
    device = shared_dir / "traces" / golden["trace"]
    events = json.loads(gzip.decompress(device.read_bytes()), parse_float=Decimal)["traceEvents"]
    nodes, _ = nodes_of(device, tmp_path)
    first = {
        (node.attrs["correlation"], node.attrs["start_ns"]): node.id for node in nodes if "correlation" in node.attrs
    }
    pairs = [
        (first[span(events[one]).key], first[span(events[other]).key])
        for (one, _), (other, _) in golden["all_sync_edges"]
    ]
    assert len(set(pairs)) == number
    found = {(source.id, target.id) for source, target, _ in dependencies(nodes, EdgeKind.EVENT_WAIT, *WAITS)}
    assert set(pairs) <= found


def test_hand_made_traces(shared_dir: Path, tmp_path: Path) -> None:
    total: Counter[str] = Counter()
    for path in sorted((shared_dir / "golden" / "analysis" / "syn").glob("*.json")):
        # NAME.new.json and NAME.pinned.json are results.
        if path.name.count(".") == 1:
            proved, _ = check(path, tmp_path)
            total.update(by_kind(proved))
    assert total == {"SYNC_CONTEXT": 9, "SYNC_STREAM": 3, "SYNC_EVENT": 3, "EVENT_WAIT": 8}


@pytest.mark.parametrize(("late_us", "kept"), [(1.0, True), (1.001, False)])
def test_a_source_may_end_a_microsecond_after_the_call_returned(late_us: float, kept: bool, tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("aten::mm", 0, 40).launch("k", 10, 100, 200, 11)
    trace.call("cudaStreamSynchronize", 50, 250 - late_us, 13).sync("Stream Sync", 50, 200, 13, stream=7)
    proved, counts = check(trace.write(), tmp_path)
    assert len(proved) == kept
    assert counts["edges_rejected_source_ends_late"] == (not kept)
    nodes, _ = nodes_of(tmp_path / "device.json", tmp_path)
    assert len(dependencies(nodes, *WAITS)) == kept


def test_waits_of_every_step_are_kept_not_of_the_first_alone(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path)
    for step in range(4):
        at = 1000 * step
        trace.note(f"ProfilerStep#{step}", at, 1000).launch("k", at + 10, at + 100, 200, 10 + step)
        trace.call("cudaEventRecord", at + 20, 2, 20 + step).call("cudaEventSynchronize", at + 30, 275, 30 + step)
        trace.sync("Event Sync", at + 30, 273, 30 + step, on_stream=7, record=20 + step)
    assert by_kind(check(trace.write(), tmp_path)[0]) == {"SYNC_EVENT": 4}


# --- traces of a made device ------------------------------------------------------------------------------------------


class MadeDevice:
    """Streams that do what they are told, and a thread that tells them: the times are those that waiting gives."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.trace, self.draw = KinetoMaker(folder), draw
        self.now, self.correlation = 10, 100
        self.free = dict.fromkeys((7, 20, 24), 0)
        self.events: list[tuple[int, int, int]] = []
        """Correlation of the recording call, stream, when all before it is done."""

    def call(self, name: str, until: int = 0) -> tuple[int, int, int]:
        """A call that returns no sooner than ``until``: its correlation, start and end."""
        start, self.now = self.now, max(self.now + self.draw.randint(2, 6), until)
        self.correlation += 1
        self.trace.call(name, start, self.now - start, self.correlation)
        self.now += self.draw.randint(0, 4)
        return self.correlation, start, start + max(self.trace_length(), 1)

    def trace_length(self) -> int:
        return int(Decimal(str(self.trace.events[-1]["dur"]).strip("@")))

    def launch(self) -> None:
        stream = self.draw.choice(list(self.free))
        correlation, _, end = self.call("cudaLaunchKernel")
        start, length = max(end, self.free[stream]) + self.draw.randint(0, 3), self.draw.randint(1, 60)
        self.trace.kernel(f"k{correlation}", start, length, correlation, stream)
        self.free[stream] = start + length

    def record(self) -> None:
        stream = self.draw.choice(list(self.free))
        correlation, *_ = self.call("cudaEventRecord")
        self.events.append((correlation, stream, self.free[stream]))

    def stream_waits(self) -> None:
        record, source, done = self.draw.choice(self.events)
        stream = self.draw.choice([other for other in self.free if other != source])
        correlation, start, _ = self.call("cudaStreamWaitEvent")
        self.trace.sync("Stream Wait Event", start, 1, correlation, stream, on_stream=source, record=record)
        self.free[stream] = max(self.free[stream], done)

    def host_waits(self) -> None:
        what = self.draw.choice(("Stream", "Context", "Event"))
        record, source, done = self.draw.choice(self.events)
        stream = {"Stream": self.draw.choice(list(self.free)), "Event": source}.get(what, -1)
        until = {"Stream": self.free.get(stream, 0), "Context": max(self.free.values()), "Event": done}[what]
        correlation, start, end = self.call(f"cuda{what}Synchronize", until)
        named = {"on_stream": source, "record": record} if what == "Event" else {}
        self.trace.sync(f"{what} Sync", start, end - start, correlation, stream, **named)


@pytest.mark.parametrize("seed", range(25))
def test_made_devices(seed: int, tmp_path: Path) -> None:
    made = MadeDevice(tmp_path, random.Random(seed))
    made.launch()
    made.record()
    for _ in range(60):
        made.draw.choice((made.launch, made.launch, made.launch, made.record, made.stream_waits, made.host_waits))()
    proved, _ = check(made.trace.write(), tmp_path, exact=False)
    assert proved
    assert cs.replay_recorded(str(tmp_path / "x.0.et")).steps[0].error_pct == 0
