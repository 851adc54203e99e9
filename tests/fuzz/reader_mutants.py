"""Seeded damage to Kineto and host traces, and what the readers make of it."""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mutations import MUTATIONS

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.host.read import read_host
from chakrasim.trace.json import records as json_records
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.read import read_kineto

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trace"))
import same_traces
import slow_readers

_PIECES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u12", b"\\ud800", b"\n", b"\0", b"\t", b"\xff", b"\xc3\xa4"),
    *(
        b'"ts": ',
        b'"dur": -1',
        b'"args": {',
        b'"traceEvents": [',
        b'{"ph": "X"}',
        b'{"id": 5}',
        b'"attrs": [{',
        b"1e400",
    ),
    *(b"123456789012345678901", b"0.0005", b"NaN", b"-inf", b"true", b'[1,2,3,4,5,"x"]', b'], "traceName": "', b"]}"),
)


def kineto_bytes() -> bytes:
    """A small trace with all that has a column."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "ts": 0, "pid": "Spans", "tid": 0, "args": {"name": "p"}}
    ]
    for at in range(6):
        args = {"External id": at, "Record function id": at, "Input Dims": [[at, 2], []], "Seq": str(at), "Ev Idx": at}
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"aten::op{at}",
                "pid": 1,
                "tid": 2,
                "ts": 10.5 + at,
                "dur": 0.75,
                "args": args,
            }
        )
        args = {"device": 0, "stream": 7, "correlation": at, "bytes": 64, "memory bandwidth (GB/s)": 1.2345678901234567}
        events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "k\u00e4rnel\n",
                "pid": 0,
                "tid": 7,
                "ts": 11 + at,
                "dur": 1,
                "args": args,
            }
        )
        events.append({"ph": "s", "id": at, "pid": 1, "tid": 2, "ts": 10 + at, "cat": "ac2g", "name": "ac2g"})
    document = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events, "traceName": "t"}
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def host_bytes() -> bytes:
    """A small trace, one node of each schema's form in turn."""
    nodes: list[dict[str, Any]] = []
    for at in range(8):
        values, shapes, types = (
            [[at, 2, 0, 4, 4, "cuda:0"], [[1, 2, 0, 4, 4, "cpu"]], 3],
            [[4], [[1]], []],
            ["a", "b", "c"],
        )
        node: dict[str, Any] = {"id": at + 2, "name": f"aten::op{at}"}
        attrs = {"rf_id": at, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "f(x)"}
        if at % 2:
            node |= {
                "parent": 1,
                **attrs,
                "inputs": values,
                "input_shapes": shapes,
                "input_types": types,
                "outputs": [],
            }
        else:
            node |= {"ctrl_deps": 1, "inputs": {"values": values, "shapes": shapes, "types": types}}
            node["outputs"] = {"values": [], "shapes": [], "types": []}
            attrs["pg_name"] = "0"
            node["attrs"] = [{"name": name, "type": "x", "value": value} for name, value in attrs.items()]
        nodes.append(node)
    document = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": nodes, "finish_ts": 3}
    return json.dumps(document).encode()


def mutant(seed: int, intact: dict[str, bytes]) -> tuple[str, bytes]:
    """(which file, its bytes with the damage that belongs to a seed)."""
    rng = random.Random(seed)
    name = rng.choice(sorted(intact))
    data = bytearray(intact[name])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if rng.random() < 0.5:
            data = rng.choice(MUTATIONS)(data, rng, intact)
        else:
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.choice((0, 0, 1, 2, 20))] = rng.choice(_PIECES)
    if rng.random() < 0.1:
        packed = bytearray(gzip.compress(bytes(data), mtime=0))
        data = rng.choice(MUTATIONS)(packed, rng, intact) if rng.random() < 0.5 else packed
    return name, bytes(data)


def outcome(name: str, path: Path, window: int, **options: Any) -> tuple[KinetoTrace | HostTrace | None, list[str]]:
    """(the trace, warnings), or (None, the error); anything but a result or an InputError is raised on."""
    notes = Notes()
    before = json_records.WINDOW_BYTES
    json_records.WINDOW_BYTES = window
    try:
        read = read_kineto if name == "kineto" else read_host
        return read(path, notes=notes, **options), list(notes)
    except InputError as error:
        return None, [str(error)]
    finally:
        json_records.WINDOW_BYTES = before


def check(trace: KinetoTrace | HostTrace) -> None:
    """All columns have one length, all indices of strings exist, all strings are text."""
    assert all(text.isprintable() or text for text in trace.strings)
    columns = (trace.name, trace.category) if isinstance(trace, KinetoTrace) else (trace.name, trace.op_schema)
    for column in columns:
        assert len(column) == len(trace)
        assert not len(column) or (column.min() >= 0 and column.max() < len(trace.strings))
    for rare in trace.rare.values():
        assert len(rare.rows) == len(rare.kind) == len(rare.bits) > 0
        assert np.all(np.diff(rare.rows) > 0) and rare.rows[-1] < len(trace)
        texts = rare.bits[rare.kind >= 3]
        assert not len(texts) or texts.max() < len(trace.strings)
        for index in rare.bits[rare.kind == 4].tolist():
            json.loads(trace.strings[index])
    if isinstance(trace, HostTrace):
        assert trace.spans.shape == (len(trace), 10, 2) and trace.spans.max(initial=0) <= len(trace.text)
        for node in range(len(trace)):
            json.loads(trace.span(node, 4) or "0")
    else:
        assert trace.ts_ns.min(initial=0) >= 0 and trace.dur_ns.min(initial=0) >= 0


def same_as_slow(name: str, path: Path, trace: KinetoTrace | HostTrace) -> bool:
    """Whether the slow reader could read it; what it read is then equal."""
    try:
        wanted = slow_readers.read_kineto(path) if name == "kineto" else slow_readers.read_host(path)
    except Exception:
        return False
    if isinstance(trace, KinetoTrace) and isinstance(wanted, KinetoTrace):
        same_traces.assert_same_kineto(trace, wanted)
    elif isinstance(trace, HostTrace) and isinstance(wanted, HostTrace):
        same_traces.assert_same_host(trace, wanted)
    return True
