"""Timelines of recorded traces: on each row slices either contain one another or lie apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.cli.main import main
from chakrasim.compat.astra_sim.read_log import log_processes, read_log
from chakrasim.demo import TRACES
from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.report.timeline import recorded as trace_timeline
from chakrasim.report.timeline.chrome import chrome_events
from chakrasim.report.timeline.recorded import RankEvents, chakra_events, kineto_events, linked_events
from chakrasim.trace import TraceBuilder
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.kineto.read import read_kineto
from chakrasim.trace.linked.file import write_linked

Spans = Iterable[tuple[int, int]]


def crossings(spans: Spans) -> int:
    """How many of the spans (start, end), in the order of the file, begin in another one and end outside it, or come
    before one that contains them."""
    found, open_, last = 0, [], None
    for start, end in spans:
        found += last is not None and start < last
        last = start
        while open_ and open_[-1] <= start:
            open_.pop()
        found += bool(open_) and end > open_[-1]
        open_.append(end)
    return found


def rows_of(events: RankEvents) -> list[Spans]:
    ends = events.start_ns + events.duration_ns.clip(0)
    return [list(zip(events.start_ns[t.at].tolist(), ends[t.at].tolist(), strict=True)) for t in events.tracks]


@pytest.fixture
def unlinked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without comparing clocks, which takes the most time."""
    monkeypatch.setattr(trace_timeline, "_linked", lambda rank, trace: None)


def test_no_row_of_a_real_trace_has_crossing_slices(shared_dir: Path, unlinked: None) -> None:
    paths = [TRACES / "device.0.json.gz", *sorted((shared_dir / "traces").rglob("*.json.gz"))]
    seen = 0
    for path in paths:
        if sniff(path).kind is not FileKind.DEVICE:
            continue
        events = kineto_events(0, read_kineto(path))
        assert sum(map(len, rows_of(events))) == len(events.start_ns), path
        assert [crossings(spans) for spans in rows_of(events)] == [0] * len(events.tracks), path
        seen += 1
    assert seen > 20


def event(category: str, start: int, length: int, thread: int) -> dict[str, Any]:
    place = {"device": 0, "stream": thread, "correlation": start + 1} if category == "kernel" else {}
    pid = 0 if category == "kernel" else 9
    ns = {"ts": start / 1000, "dur": length / 1000}
    return {"ph": "X", "cat": category, "name": "x", "pid": pid, "tid": thread, "args": place, **ns}


SLICES = st.lists(
    st.tuples(
        st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "kernel"]),
        st.integers(0, 30),
        st.integers(0, 20),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("timeline")


@given(slices=SLICES)
def test_slices_that_cross_go_to_rows_of_their_own(place: Path, slices: list[tuple[str, int, int, int]]) -> None:
    (place / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event(*one) for one in slices]}))
    events = kineto_events(0, read_kineto(place / "t.json"))
    rows = rows_of(events)
    assert sum(map(len, rows)) == len(slices)
    assert [crossings(spans) for spans in rows] == [0] * len(rows)
    # A thread takes no more rows than it has slices open at once.
    threads = defaultdict(list)
    for track, spans in zip(events.tracks, rows, strict=True):
        threads[track.process, track.name.partition(" (")[0]].append(spans)
    for parts in threads.values():
        spans = [span for part in parts for span in part]
        assert len(parts) <= max(sum(s <= at < max(e, s + 1) for s, e in spans) for at, _ in spans)


@given(nodes=st.lists(st.tuples(st.booleans(), st.integers(1, 30), st.integers(-2, 20)), min_size=1, max_size=20))
def test_nor_do_those_of_a_chakra_trace(nodes: list[tuple[bool, int, int]]) -> None:
    builder = TraceBuilder()
    for number, (host, start, length) in enumerate(nodes):
        builder.add(number, type=4, attrs={"is_cpu_op": host, "start_ns": start, "duration_ns": length})
    rows = rows_of(chakra_events(0, builder.build()))
    assert sum(map(len, rows)) == len(nodes)
    assert [crossings(spans) for spans in rows] == [0] * len(rows)


def test_nor_do_those_of_a_linked_trace() -> None:
    rows = rows_of(linked_events(link(None, TRACES / "device.0.json.gz")))
    assert rows and [crossings(spans) for spans in rows] == [0] * len(rows)


def test_names_that_are_no_text_are_shown(tmp_path: Path) -> None:
    linked = link(None, TRACES / "device.0.json.gz")
    blob = linked.strings.blob.copy()
    blob[linked.strings.offsets[:-1][np.diff(linked.strings.offsets) > 0]] = 0xFF
    write_linked(tmp_path / "linked.0.json", replace(linked, strings=replace(linked.strings, blob=blob)))
    assert main(["timeline", str(tmp_path / "linked.0.json"), "-o", str(tmp_path / "t.json")]) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(str(event["name"]).startswith("\N{REPLACEMENT CHARACTER}") for event in events) > 100


@given(ends=st.lists(st.integers(1, 9), min_size=1, max_size=30), mhz=st.sampled_from([3.0, 7.0, 1500.0, 1000.0]))
def test_nor_do_those_of_a_log_at_any_frequency(ends: list[int], mhz: float) -> None:
    lines, at = [], 0
    for number, length in enumerate(ends):
        for kind, cycle in (("issue", at), ("callback", at + length)):
            lines.append(f"{kind},a=0,b={cycle},c={number},d=COMP_NODE_x")
        at += length
    rows = defaultdict(list)
    for text in "\n".join(chrome_events(log_processes(read_log(lines, "log", Notes()), 1, mhz, "log"))).split("\n"):
        one = json.loads(text.removesuffix(","), parse_float=Decimal)
        if one["ph"] == "X":
            start, length = (int(Decimal(one[key]) * 1000) for key in ("ts", "dur"))
            rows[one["tid"]].append((start, start + length))
    assert len(rows) == 1 and crossings(rows[1]) == 0
    assert all(later[0] >= earlier[1] for earlier, later in pairwise(rows[1]))


@pytest.mark.parametrize("name", ["x.html", "x.svg.gz", "x.trace", "x.2"])
@pytest.mark.parametrize(
    "argv",
    [
        ["timeline", str(TRACES / "device.0.json.gz"), "-o"],
        ["simulate", "none", "--machine", "hgx-h100-4", "--timeline"],
        ["analyze", "critical-path", str(TRACES / "device.0.json.gz"), "--overlay"],
    ],
    ids=["timeline", "simulate", "critical-path"],
)
def test_a_name_that_says_something_else_than_json_is_refused(
    argv: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, str(tmp_path / name)]) == 2
    assert "is JSON in Chrome's trace format, which this name does not say" in (said := capsys.readouterr().err)
    assert f"{tmp_path / name}: " in said and "expected .json or .json.gz" in said
    assert not list(tmp_path.iterdir())


def test_a_chakra_trace_may_begin_with_the_bytes_of_a_pickle(tmp_path: Path) -> None:
    path, out = tmp_path / "step.0.et", tmp_path / "out.json"
    for length in range(480, 512):  # the file begins with the size of its metadata, here 512
        builder = TraceBuilder(metadata={"text": "x" * length})
        builder.add(0, "node", start_micros=5, duration_micros=7)
        path.write_bytes(encode_trace(builder.build()))
        if path.read_bytes().startswith(b"\x80\x04"):
            break
    assert path.read_bytes().startswith(b"\x80\x04") and sniff(path).kind is FileKind.CHAKRA
    assert main(["timeline", str(path), "-o", str(out)]) == 0
    assert [event["dur"] for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"] == [7]


def test_a_file_has_the_rows_that_were_made(tmp_path: Path) -> None:
    slices = [event("user_annotation", 0, 100, 1), event("cpu_op", 10, 20, 1), event("cpu_op", 90, 30, 1)]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": slices}))
    assert main(["timeline", str(tmp_path / "t.json"), "-o", str(tmp_path / "o.json")]) == 0
    content = json.loads((tmp_path / "o.json").read_text(), parse_float=Decimal)["traceEvents"]
    assert [e["args"]["name"] for e in content if e["name"] == "thread_name"] == ["thread 1", "thread 1 (2)"]
    found = [(e["tid"], int(e["ts"] * 1000), int(e["dur"] * 1000)) for e in content if e["ph"] == "X"]
    assert found == [(1, 0, 100), (1, 10, 20), (2, 90, 30)]
