"""Logs of nccl-tests and rccl-tests as they are printed (nccl-model.md, section 8), and all else in the file."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from chakrasim.calibration.measurements.curves import Curve, MachineRow, Measurements
from chakrasim.calibration.measurements.log_rows import (
    HEADER,
    ROW,
    TYPE_BYTES,
    UNIT_US,
    UNITS,
    Faults,
    Figure,
    Layout,
    Row,
    layout_of,
    row_of,
    time_of,
)
from chakrasim.calibration.measurements.names import bus_factor, kind_of, spelled
from chakrasim.calibration.measurements.nccl_debug import DebugReader, NcclDebug
from chakrasim.calibration.measurements.runs import Point, Run, assembled, stem_of
from chakrasim.errors import InputError
from chakrasim.notes import Notes

EXPECTED: Final = "a log of nccl-tests or rccl-tests, or lines of NCCL_DEBUG=INFO"

_MPI_LABEL: Final = re.compile(r"\[\d{1,7},\d{1,7}\]<std(?:out|err|diag)>:[ \t]?")
_STARTING: Final = re.compile(r"# Collective test starting: *(\S+)")
_PROGRAM: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf\b")
_BEGIN: Final = re.compile(r"\bnThread (\d{1,6}) nGpus (\d{1,6}) minBytes ")
_RANK: Final = re.compile(
    r"Rank +(\d{1,7}) +(?:Group +(-?\d{1,7}) +)?(?:Pid +\d+ +)?on +(\S+) +device +(\d{1,4}) +\[([^\]]{0,40})\] *(.*)"
)
_LIBRARY: Final = re.compile(r"nccl-library=(\d{4,6})\b")
_COMPILED: Final = re.compile(r"NCCL Tests compiled with NCCL (\d+\.\d+)")
_AMD: Final = re.compile(r"\b(?:AMD|Instinct|MI\d{2,3}[A-Z]?|gfx\d+)\b")
_TYPED: Final = re.compile(r" (?:float|double|half|bfloat16|u?int(?:8|32|64)|f8e\dm\d) ")
_END: Final = re.compile(r"Out of bounds values")
_MOST_LINE: Final = 100_000
_MOST_ROWS: Final = 1_000_000
_QUIET: Final = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_ALGO", "NCCL_PROTO"})


@dataclass
class _Table:
    """What was read of one run so far."""

    line: int
    program: str = ""
    version: str = ""
    ranks: dict[int, tuple[int, str, int, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    debug: DebugReader = field(default_factory=DebugReader)
    layout: Layout | None = None
    rccl: bool = False
    ended: bool = False
    titled_in_place: bool = False


class LogReader:
    """Takes the lines of a log one by one and gives the runs that are in it."""

    def __init__(self, file: str, notes: Notes) -> None:
        self._file = file
        self._notes = notes
        self._faults = Faults()
        self._table = _Table(1)
        self._tables: list[_Table] = []
        self._line = self._rows = self._cpu_rows = 0

    def take(self, line: str) -> None:
        """Read a line."""
        self._line += 1
        if "<std" in line:
            line = _MPI_LABEL.sub("", line)
        if "CCL INFO" in line or "CCL version" in line:
            self._table.debug.take(line[:_MOST_LINE])
            if not _TYPED.search(line):
                return
        if match := ROW.search(line):
            self._take_row(match)
        elif "#" in line or "Rank" in line or "nThread" in line or "_perf" in line or "bytes" in line:
            self._take_heading(line)
        elif "out-of-place" in line or "in-place" in line:
            self._table.titled_in_place = "out-of-place" not in line
        elif "rccl-tests" in line:
            self._table.rccl = True
        elif _END.search(line):
            self._table.ended = True

    def _take_row(self, match: re.Match[str]) -> None:
        table = self._table
        if table.layout is not None and table.layout.cpu:
            self._cpu_rows += 1
            return
        row = row_of(match, self._line, table.layout, self._faults)
        if row is not None:
            self._rows += 1
            if self._rows > _MOST_ROWS:
                raise InputError("too many rows", file=self._file, found=f"over {_MOST_ROWS:,}")
            table.rows.append(row)

    def _take_heading(self, line: str) -> None:
        table = self._table
        if match := _RANK.search(line):
            rank, group = int(match[1]), int(match[2] or 0)
            if table.rows:
                table = self._next()
            table.ranks[rank] = (group, match[3], int(match[4]), match[6].strip())
        elif match := HEADER.search(line):
            if table.rows:
                table = self._next()
            table.layout = layout_of(match[2], match[1] == "bytes", table.titled_in_place)
        elif match := UNITS.search(line):
            if table.layout is not None:
                table.layout = replace(table.layout, unit_us=UNIT_US[match[1]])
        elif "out-of-place" in line or "in-place" in line:
            table.titled_in_place = "out-of-place" not in line
        elif match := _LIBRARY.search(line):
            self._next_if_begun().version = version_of(int(match[1]))
        elif match := _COMPILED.search(line):
            table.version = table.version or match[1]
        elif match := _STARTING.search(line):
            self._next_if_begun().program = match[1]
        elif _BEGIN.search(line):
            self._next_if_begun()
        elif _END.search(line):
            table.ended = True
        elif match := _PROGRAM.search(line):
            # A command line before the run; after one it is the next run's.
            table = self._next() if table.rows else table
            table.program = table.program or match[0]

    def _next_if_begun(self) -> _Table:
        return self._next() if self._table.rows else self._table

    def _next(self) -> _Table:
        """The run after the one whose rows are complete. What the library said stays with its run."""
        done = self._table
        self._tables.append(done)
        self._table = _Table(self._line)
        return self._table

    def runs(self) -> list[Run]:
        """All runs, with what is to be told of them; also one without a table, if the library said something."""
        self._tables.append(self._table)
        found = [run for table in _with_heads(self._tables) for run in self._run_of(table)]
        self._faults.tell(self._file, self._notes)
        if self._cpu_rows:
            text = f"{self._cpu_rows:,} rows are left out: they are times of the calls on the CPU (-C 1)"
            self._notes.warn(f"{self._file}: {text}")
        return found

    def recorded(self) -> NcclDebug | None:
        """What the library said in a log without a table; None if it said nothing."""
        for table in self._tables:
            if table.debug:
                return table.debug.result("", None, self._notes, self._file)
        return None

    def _run_of(self, table: _Table) -> Iterator[Run]:
        if not table.rows:
            return
        head = _head_of(table, self._file, self._notes)
        if head is None:
            return
        if not table.ended:
            self._notes.note(f"{self._file}: the table on line {table.rows[0].line:,} has no end: was the run cut off?")
        by_type: dict[tuple[str, str], list[Point]] = {}
        for row in table.rows:
            points = by_type.setdefault((row.dtype, row.redop), [])
            for place in row.places:
                time = time_of(row, place, head.curve.collective, head.curve.nranks, self._faults)
                if time is not None:
                    points.append((place[0], row.size, time, math.nan, math.nan, 1))
        for (dtype, redop), points in by_type.items():
            if points:
                curve = replace(head.curve, dtype=dtype, redop=redop)
                yield Run(curve, points, head.debug, head.machine)


def _with_heads(tables: list[_Table]) -> list[_Table]:
    """Tables that follow another under the same head (several types, operations or cycles) have its ranks."""
    last: _Table | None = None
    for table in tables:
        if last is not None and not table.ranks and not table.program and not table.version:
            table.ranks, table.program, table.version = last.ranks, last.program, last.version
            table.rccl = last.rccl
            if not table.debug:
                table.debug = last.debug
        last = table
    return tables


def version_of(code: int) -> str:
    """The version in a number of NCCL: 22902 is 2.29.2, 2804 is 2.8.4."""
    major, rest = divmod(code, 10_000) if code >= 10_000 else divmod(code, 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _head_of(table: _Table, file: str, notes: Notes) -> Run | None:
    """The curve, without points, of a table; None, with a warning, if it cannot be told what was measured."""
    place = f"{file}: the table on line {table.rows[0].line:,}"
    collective = spelled(table.program) if table.program else ""
    ranks = _one_group(table.ranks)
    debug = table.debug.result("", None, Notes(), file)
    nranks = _rank_count(table, len(ranks), place, notes) or debug.nranks
    if collective and kind_of(collective) is None:
        notes.warn(f"{place} is left out: no such collective is known: {collective[:40]!r}")
        return None
    if not collective or nranks is None:
        found = _inferred(table.rows, collective, nranks)
        if found is None:
            notes.warn(f"{place} is left out: nothing says which collective of how many ranks it is of")
            return None
        notes.warn(f"{place}: {found[0]} of {found[1]} ranks, as its bandwidths tell: the log has no such line")
        collective, nranks = found
    hosts = Counter(host for _, host, _, _ in ranks.values())
    nodes = len(hosts) or debug.nnodes or 0
    if not nodes:
        notes.warn(f"{place}: nothing says on how many nodes the {nranks} ranks were; one is taken")
    nodes = min(max(nodes, 1), nranks)
    devices = max((device + 1 for _, _, device, _ in ranks.values()), default=0)
    each = max(-(-nranks // nodes), max(hosts.values(), default=0), devices)
    gpu = _gpu_of(ranks, place, notes)
    library, version = debug.library or ("RCCL" if table.rccl or _AMD.search(gpu) else "NCCL"), debug.version
    environment = dict(debug.environment)
    name = f"{gpu or 'unknown'} x{each}"
    curve = Curve(
        name=stem_of(file),
        source=os.path.basename(file),
        machine=name,
        gpu=gpu,
        nodes=nodes,
        gpus_per_node=each,
        nranks=nranks,
        library=library,
        version=version or table.version,
        collective=collective,
        algo=environment.get("NCCL_ALGO", "auto"),
        proto=environment.get("NCCL_PROTO", "auto"),
        env=" ".join(f"{key}={value}" for key, value in sorted(environment.items()) if key not in _QUIET),
        hosts=tuple(sorted(hosts)),
    )
    machine = MachineRow(name, gpu=gpu, gpus_per_node=each, network=debug.network)
    return Run(curve, [], table.debug.result(collective, nranks, notes, file) if table.debug else None, machine)


def _one_group(ranks: dict[int, tuple[int, str, int, str]]) -> dict[int, tuple[int, str, int, str]]:
    """The ranks of one communicator: where there are several groups, each carries out the collective by itself."""
    first = next(iter(ranks.values()), None)
    return {rank: told for rank, told in ranks.items() if first is not None and told[0] == first[0]}


def _rank_count(table: _Table, named: int, place: str, notes: Notes) -> int:
    """The ranks of a group of which so many have lines. Of one group alone the highest tells how many there are."""
    count = max(table.ranks, default=-1) + 1
    if named != len(table.ranks) or named == count:
        return named
    notes.warn(f"{place}: lines of {count - named:,} of the {count:,} ranks are missing")
    return count


def _gpu_of(ranks: dict[int, tuple[int, str, int, str]], place: str, notes: Notes) -> str:
    names = Counter(name for _, _, _, name in ranks.values() if name)
    if len(names) > 1:
        notes.warn(f"{place}: {len(names)} kinds of GPUs took part; named after the most frequent one")
    return names.most_common(1)[0][0][:80] if names else ""


def _inferred(rows: Iterable[Row], collective: str, nranks: int | None) -> tuple[str, int] | None:
    """The collective and ranks that sizes and bandwidths leave possible, if just one pair is left."""
    known = list(rows)
    operation = next((row.redop for row in known if row.redop), "")
    parts = {row.size // max(row.count * TYPE_BYTES[row.dtype], 1) for row in known if row.count}
    candidates = [collective] if collective else _by_operation(operation, parts)
    found = set()
    for name in candidates:
        for ranks in [nranks] if nranks else _rank_counts(known, name, parts):
            figures = [(place[2], place[3]) for row in known for place in row.places]
            if figures and all(_agree(algbw, busbw, bus_factor(name, ranks)) for algbw, busbw in figures):
                found.add((name, ranks))
    return found.pop() if len(found) == 1 else None


def _by_operation(operation: str, parts: set[int]) -> list[str]:
    if parts == {1}:
        return ["all_reduce"] if operation not in ("", "none") else []
    return ["reduce_scatter"] if operation not in ("", "none") else []


def _rank_counts(rows: list[Row], collective: str, parts: set[int]) -> Iterable[int]:
    """Numbers of ranks worth a try: the parts of a whole, or what the ratio of the bandwidths says."""
    if parts != {1}:
        return parts - {0, 1}
    ratios = [(place[3].value / place[2].value, place) for row in rows for place in row.places if place[2].value > 0]
    if not ratios:
        return ()
    ratio, place = max(ratios, key=lambda each: each[1][2].value)
    scale = 2.0 if collective == "all_reduce" else 1.0
    if not 0 < ratio < scale:
        return ()
    middle = scale / (scale - ratio)
    spread = 2 + int(middle * middle * (place[2].half / place[2].value + place[3].half / max(place[3].value, 1e-9)))
    return range(max(2, int(middle) - spread), min(int(middle) + spread, 1_000_000) + 1) if spread < 10_000 else ()


def _agree(algbw: Figure, busbw: Figure, factor: float) -> bool:
    return algbw.low * factor <= busbw.high * 1.000001 and busbw.low <= algbw.high * factor * 1.000001


def read_log(file: str, lines: Iterable[str], notes: Notes) -> tuple[list[Run], NcclDebug | None]:
    """The runs in the lines of a log, and what the library said if there is no table.

    Raises InputError if there is neither.
    """
    reader = LogReader(file, notes)
    first = ""
    for line in lines:
        first = first or line.strip()
        reader.take(line)
    runs = reader.runs()
    debug = None if runs else reader.recorded()
    if not runs and debug is None:
        told = "; ".join(text for text in notes.warnings if text.startswith(file))
        raise InputError(
            "there are no measurements in this file",
            file=file,
            found=told or (f"a text file beginning {first[:40]!r}" if first else "an empty file"),
            expected=EXPECTED,
        )
    return runs, debug


def measurements_of(file: str, runs: list[Run], debug: NcclDebug | None, notes: Notes) -> Measurements:
    """One log's curves, or what was recorded without times."""
    found = assembled(runs, notes)
    if debug is None:
        return found
    return Measurements(found.curves, found.machines, {stem_of(file): debug})
