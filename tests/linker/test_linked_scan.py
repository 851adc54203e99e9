"""Columns of linked traces' files read without a Python object for each number."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim.trace.linked import scan as linked_scan
from chakrasim.trace.linked.scan import load


@pytest.fixture(autouse=True)
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are scanned however short, a few numbers at a time."""
    monkeypatch.setattr(linked_scan, "_SHORT", 4)
    monkeypatch.setattr(linked_scan, "_WINDOW", 64)


def plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def document(*lines: str) -> bytes:
    """A table of columns, one to a line."""
    return ('{"rank":1,\n"rows":{\n' + ",\n".join(lines) + "}}\n").encode()


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0, 255] * 30, np.uint8),
        ([0, -1] * 30, np.int32),
        ([2**31 - 1, -(2**31)] * 9, np.int32),
        ([0] * 40 + [1_700_000_000_000_000_000, 2**31], np.int64),
        ([7], np.uint8),
    ],
)
def test_the_smallest_type_that_holds_all(numbers: list[int], kind: Any) -> None:
    line = f'"x":{json.dumps(numbers, separators=(",", ":"))}'
    found = load(document(line, '"y":[1,2,3]'))
    assert found["rank"] == 1
    assert found["rows"]["x"].dtype == kind
    assert plain(found["rows"]) == {"x": numbers, "y": [1, 2, 3]}


def test_numbers_of_all_lengths() -> None:
    numbers = [sign * (10**digits + more) for digits in range(19) for more in (-1, 0, 1, 7) for sign in (1, -1)]
    numbers += [0, 123456789012345678, 2**63 - 1, 1 - 2**63]
    found = load(document(f'"x":{json.dumps(numbers, separators=(",", ":"))}'))["rows"]["x"]
    assert found.dtype == np.int64 and found.tolist() == numbers


def test_equal_numbers_take_no_memory() -> None:
    column = load(document(f'"x":[{",".join(["-1"] * 500)}]'))["rows"]["x"]
    assert column.strides == (0,) and column.tolist() == [-1] * 500


@pytest.mark.parametrize(
    "column",
    [
        "[1, 2, 3]",
        "[1.5,2,3]",
        '["a","b"]',
        "[]",
        "[[1,2],[3]]",
        "[true,false]",
        "[9223372036854775807,1]",
        "[-9223372036854775808,1]",
        "[99999999999999999999,1]",
        '{"column 0":5}',
    ],
)
def test_all_else_is_left_to_the_parser(column: str) -> None:
    data = document(f'"x":{column}', '"y":[1,2,3]')
    assert plain(load(data)) == json.loads(data)


@pytest.mark.parametrize("column", ["[01,2]", "[1,,2]", "[1,2,]", "[-,1]", "[--1,2]", "[1-1,2]", "[1,2", "1,2]"])
def test_what_is_no_json_is_refused(column: str) -> None:
    with pytest.raises(ValueError, match=r"line \d+ column"):
        load(document(f'"x":{column}', '"y":[1,2,3]'))


def test_a_file_that_is_mapped(tmp_path: Path) -> None:
    data = document(f'"x":{json.dumps(list(range(-9000, 9000)), separators=(",", ":"))}', '"y":[1,2,3]')
    (tmp_path / "x").write_bytes(data)
    with (tmp_path / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert plain(load(mapped)) == json.loads(data)
