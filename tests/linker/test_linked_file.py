"""Linked traces in files."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from kineto_maker import KinetoMaker

from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.trace.linked.columns import LinkedTrace
from chakrasim.trace.linked.file import read_linked, write_linked


def example(folder: Path) -> LinkedTrace:
    trace = KinetoMaker(folder, distributedInfo={"rank": 2}).note("ProfilerStep#1", 0, 500)
    trace.op('a "quoted" ünïcode', 0, 50).launch("k", 10, 60, 30, 1).op("b", 60, 5, tid=4)
    trace.call("cudaDeviceSynchronize", 70, 30, 2).sync("Context Sync", 70, 28, 2)
    return link(device=trace.write())


def assert_same(left: object, right: object) -> None:
    for field in dataclasses.fields(left):  # type: ignore[arg-type]
        a, b = getattr(left, field.name), getattr(right, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and np.array_equal(a, b), field.name
        elif field.name == "strings":
            assert [a.raw(at) for at in range(len(a))] == [b.raw(at) for at in range(len(b))]
        elif field.name in ("communication", "annotations"):
            assert_same(a, b)
        else:
            assert a == b, field.name


@pytest.mark.parametrize("name", ["linked.json", "linked.json.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    linked = example(tmp_path)
    write_linked(tmp_path / name, linked)
    assert_same(linked, read_linked(tmp_path / name))
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_same_bytes_every_time(tmp_path: Path) -> None:
    linked = example(tmp_path)
    for name in ("a.json.gz", "b.json.gz"):
        write_linked(tmp_path / name, linked)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_it_is_json_of_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    linked = example(tmp_path)
    write_linked(tmp_path / "linked.json", linked)
    document = json.loads((tmp_path / "linked.json").read_text())
    assert document["schema"] == "chakrasim-linked-1"
    rows = pandas.DataFrame(document["rows"])
    assert rows["start_ns"].tolist() == linked.start_ns.tolist()
    assert document["strings"][rows["name"][0]] == 'a "quoted" ünïcode'
    assert pandas.DataFrame(document["edges"])["kind"].tolist() == linked.edge_kind.tolist()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"schemaVersion": 1, "traceEvents": []}', r"looks like a Kineto \(PyTorch profiler, device\) trace"),
        ('{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": []}', r"looks like a PyTorch execution \(host\) trace"),
        ("", "an empty file"),
        ("hello", "a text file beginning 'hello'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=f"this is no linked trace; found .*{found}"):
        read_linked(tmp_path / "x.json")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    write_linked(tmp_path / "linked.json", example(tmp_path))
    text = (tmp_path / "linked.json").read_text()
    document = json.loads(text)
    damaged = [text[: len(text) // 2], text.replace('"edges"', '"wedges"')]
    for table, column, value in (
        ("rows", "name", [10**6] * len(document["rows"]["name"])),
        ("rows", "lane", [0]),
        ("edges", "source", [10**6] * len(document["edges"]["source"])),
        ("edges", "target", ["x"] * len(document["edges"]["target"])),
        ("edges", "kind", [0]),
        ("edges", "source", list(document["edges"]["target"])),
        ("annotations", "name", []),
    ):
        changed = {**document, table: {**document[table], column: value}}
        damaged.append(json.dumps(changed, separators=(",", ":")))
    for at, content in enumerate(damaged):
        path = tmp_path / f"damaged{at}.json"
        path.write_text(content)
        with pytest.raises(InputError, match="the linked trace is damaged"):
            read_linked(path)
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(InputError, match="the gzip data are damaged"):
        read_linked(tmp_path / "cut.json.gz")


def test_bytes_that_are_no_text_become_the_character_for_these(tmp_path: Path) -> None:
    write_linked(tmp_path / "linked.json", example(tmp_path))
    document = json.loads((tmp_path / "linked.json").read_text())
    document["strings"][document["rows"]["name"][0]] = "a\udcff"
    (tmp_path / "linked.json").write_text(json.dumps(document, separators=(",", ":")))
    assert "a\ufffd" in [*read_linked(tmp_path / "linked.json").strings]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "no folder").touch()
    with pytest.raises(InputError, match="the file cannot be written: Not a directory"):
        write_linked(tmp_path / "no folder" / "linked.json", example(tmp_path))
