"""Damaged profiles of other makers: one of our errors, or a trace that holds together and can be linked.

``python tests/fuzz/test_fuzz_gpu_profiles.py LOW HIGH`` goes through many seeds.
"""

from __future__ import annotations

import json
import random
import resource
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "trace"))

from mutations import MUTATIONS, NUMBERS
from profile_files import nsys, rocprof, rocprofv3
from reader_mutants import check
from seeds import go_through

from chakrasim.analysis.table.traces import open_traces
from chakrasim.diagnosis.files.sniff import sniff
from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace import read_kineto

MAKERS = {"nsys": nsys, "rocprofv3": rocprofv3, "rocprof": rocprof}
CELLS = (None, b"\x00\xff", "text", "\x00", 2**62, -(2**62), 2**63 - 1, -(2**63), -1, 0, 1, 2**31, 0.5, 1e300)
MORE_KIB = 1 << 19
"""Memory that all mutants together may take beyond what there was, and seconds that one may."""
SECONDS = 10.0


def mutant(name: str, seed: int, intact: dict[str, bytes], path: Path) -> None:
    """Write a mutant: bytes changed, or cells of a table, or values of a document."""
    draw = random.Random(f"{name} {seed}")
    path.write_bytes(intact[name])
    if name == "nsys" and draw.random() < 0.5:
        _cells(path, draw)
    elif draw.random() < 0.4:
        path.write_text(json.dumps(_values(json.loads(intact[name]), draw))) if name != "nsys" else None
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((0, 1, 1, 2, 3)) if data == intact[name] else draw.choice((0, 0, 1))):
        data = draw.choice(MUTATIONS)(data, draw, intact)
    path.write_bytes(data)


def _cells(path: Path, draw: random.Random) -> None:
    base = sqlite3.connect(path)
    base.execute("PRAGMA synchronous = OFF")
    for _ in range(draw.choice((1, 1, 2, 5))):
        tables = [table for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = draw.choice(tables)
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        column = draw.choice(columns)
        where = draw.choice(("", f" WHERE rowid = {draw.randrange(1, 9)}"))
        cell = draw.choice(CELLS)
        what = draw.randrange(6)
        try:
            if what < 3:
                base.execute(f"UPDATE {table} SET {column} = ?{where}", (cell,))
            elif what == 3:
                base.execute(f"DELETE FROM {table}{where}")
            elif what == 4:
                base.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            else:
                base.execute(f"INSERT INTO {table} SELECT * FROM {table}")
        except sqlite3.Error:
            continue
    base.commit()
    base.close()


def _values(document: Any, draw: random.Random) -> Any:
    """The document with some of its values changed."""
    for _ in range(draw.choice((1, 1, 2, 5))):
        value, place = document, None
        while isinstance(value, (dict, list)) and value and draw.random() < 0.9:
            place = value, draw.choice([*value] if isinstance(value, dict) else range(len(value)))
            value = value[place[1]]
        if place is not None:
            container, key = place
            change = draw.randrange(4)
            if change == 0:
                del container[key]
            elif change == 1 and isinstance(container, list):
                container.append(value)
            else:
                container[key] = draw.choice((None, True, *NUMBERS, "x", "", "12", [], {}, [[1]], {"a": 1}, 2**64 - 1))
    return document


def outcome(name: str, seed: int, intact: dict[str, bytes], path: Path) -> str:
    """What becomes of a mutant: "refused", "read" or "linked". Anything but one of our errors is raised on."""
    mutant(name, seed, intact, path)
    lenient = bool(seed % 3)
    began = time.process_time()
    found = "refused"
    try:
        sniff(path)
        trace = read_kineto(path, lenient=lenient, notes=Notes())
        check(trace)
        found = "read"
        link(None, trace, notes=Notes())
        found = "linked"
        open_traces(path, lenient=lenient, notes=Notes())
    except InputError as error:
        assert "\n" not in str(error) and str(path) in str(error), error
    finally:
        assert time.process_time() - began < SECONDS
    assert sorted(each.name for each in path.parent.iterdir() if each.name.startswith(path.name)) == [path.name]
    return found


def intact_files(folder: Path) -> dict[str, bytes]:
    """The files that are damaged."""
    return {name: make(folder / f"intact.{name}").read_bytes() for name, make in MAKERS.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "count"), [(name, 20) for name in MAKERS] + [(name, 10_000) for name in MAKERS])
def test_mutants_are_read_or_refused(tmp_path: Path, name: str, count: int) -> None:
    intact = intact_files(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = [outcome(name, seed, intact, tmp_path / "mutant") for seed in range(count)]
    assert min(seen.count(what) for what in ("refused", "linked")) > count / 20, name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MORE_KIB


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        files = intact_files(Path(folder))
        go_through(lambda seed: outcome([*MAKERS][seed % 3], seed // 3, files, Path(folder) / "mutant"))
