"""The timeline is valid JSON, keeps every nanosecond, and never overlaps slices in a row."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest

import chakrasim as cs
from chakrasim import InputError, write_timeline
from chakrasim.generator import generate_transformer


def events(result, tmp_path, name="t.json"):
    write_timeline(result, tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    content = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw, parse_float=str)
    assert content["displayTimeUnit"] == "ns"
    return content["traceEvents"]


def threads_of(found):
    return {e["args"]["name"] for e in found if e["name"] == "thread_name"}


def test_slices_of_a_step(step, tmp_path):
    found = events(step, tmp_path)
    process, links = [e for e in found if e["name"] == "process_name"]
    assert process["args"]["name"] == "rank 0 (for 4: 0-3)" and links["args"]["name"].startswith("links ")
    assert threads_of(found) == {"compute", "communication"}
    slices = {e["args"]["id"]: e for e in found if e["ph"] == "X"}
    assert (slices[2]["ts"], slices[2]["dur"], slices[2]["name"]) == ("20.000", "59.012", "ar2")
    assert slices[2]["args"] == {
        "id": 2,
        "type": "COMM_COLL_NODE",
        "bytes": 1 << 20,
        "collective": "all-reduce",
        "group": "all",
    }
    assert (slices[4]["ts"], slices[4]["dur"]) == ("79.012", "5.000")
    assert slices[3]["tid"] == slices[4]["tid"] != slices[2]["tid"]


def test_compressed_file_holds_the_same_and_is_repeatable(step, tmp_path):
    assert events(step, tmp_path, "t.json.gz") == events(step, tmp_path)
    write_timeline(step, tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == (tmp_path / "t.json.gz").read_bytes()


def test_receives_in_flight_at_once_get_rows_of_their_own(run, tmp_path):
    def message(number, kind, tag, name='a "name"'):
        peer = {"comm_dst": 0} if kind == 5 else {"comm_src": 1}
        attrs = {"is_cpu_op": False, "comm_size": 1 << 20, "comm_tag": tag, **peer}
        return {"id": number, "name": name, "type": kind, "attrs": attrs}

    result = run([message(i, 6, i) for i in range(3)], [message(i, 5, i) for i in range(3)])
    found = events(result, tmp_path)
    assert threads_of(found) == {"communication", "receive", "receive 2", "receive 3"}
    rows = defaultdict(list)
    for e in found:
        if e["ph"] == "X":
            rows[e["pid"], e["tid"]].append((float(e["ts"]), float(e["ts"]) + float(e["dur"])))
            assert e["name"] == 'a "name"'
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(spans))
    sends = [e for e in found if e["ph"] == "X" and e["args"]["type"] == "COMM_SEND_NODE"]
    assert {e["args"]["peer"] for e in sends} == {0}


def test_nodes_without_a_name_are_called_by_their_type(run, tmp_path):
    found = events(run([{"id": 1, "type": 4, "duration_micros": 1, "attrs": {"is_cpu_op": True}}], ranks=2), tmp_path)
    assert [e["name"] for e in found if e["ph"] == "X"] == ["COMP_NODE"]
    assert threads_of(found) == {"cpu"}


def test_a_run_whose_times_were_not_kept_has_no_timeline(step, tmp_path):
    with pytest.raises(InputError, match="there is no timeline"):
        write_timeline(dataclasses.replace(step, records=()), tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_made(step, tmp_path):
    write_timeline(step, tmp_path / "none" / "t.json")
    assert json.loads((tmp_path / "none" / "t.json").read_text())["traceEvents"]


def test_streams_side_by_side_get_rows_by_what_they_do(tmp_path):
    job = generate_transformer(
        {"model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256},
         "parallel": {"tp": 2, "pp": 2, "dp": 2}, "batch": {"micro_batches": 2}}
    ).job  # fmt: skip
    found = events(cs.simulate(job, machine="h100"), tmp_path)
    assert {"compute", "communication tp", "communication dp", "communication pp", "receive pp"} <= threads_of(found)
    rows = defaultdict(list)
    for e in found:
        if e["ph"] == "X":
            rows[e["pid"], e["tid"]].append((float(e["ts"]), float(e["ts"]) + float(e["dur"])))
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(spans))
