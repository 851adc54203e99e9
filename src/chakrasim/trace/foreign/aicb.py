"""AICB's tables: what a rank of each pipeline stage communicates and computes, line by line (log.py of AICB).

Sizes are bytes, elapsed times ms. The size of an all-gather is that of its result; Chakra's is what one rank gives
(``comm_size``), and ``stated_bytes`` what the file says. A line waits for the one before it, but nothing for an isend.
Ranks are numbered tp first, then dp (ep in it first), then pp, as Megatron does.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.foreign.mesh import Groups, strided
from chakrasim.trace.foreign.simai import STATED
from chakrasim.trace.foreign.text import read_text, whole
from chakrasim.trace.job.job import MAX_RANKS, PEER, Job
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import COMPUTE_NS

_HELD: Final = 100
COLLECTIVES: Final = {
    "all_reduce": CollectiveType.ALL_REDUCE,
    "all_gather": CollectiveType.ALL_GATHER,
    "all_gather_into_tensor": CollectiveType.ALL_GATHER,
    "reduce_scatter": CollectiveType.REDUCE_SCATTER,
    "reduce_scatter_tensor": CollectiveType.REDUCE_SCATTER,
    "all_to_all": CollectiveType.ALL_TO_ALL,
    "broadcast": CollectiveType.BROADCAST,
    "reduce": CollectiveType.REDUCE,
    "barrier": CollectiveType.BARRIER,
}
_OTHERS: Final = ("isend", "irecv", "computation", "epoch_end")
_ROLES: Final = {
    **{f"{role}_group": role for role in ("tp", "dp", "pp", "ep", "ep_dp", "ep_tp", "embedding")},
    "all": "all",
    "all_nodes": "all",
}
_NEEDED: Final = ("comm_type", "comm_group", "msg_size")
_KEPT: Final = ("stage", "src", "dst", "additional", "algbw", "busbw", "count")
"""Columns that become text attributes, unless they say nothing."""
_RANGE: Final = re.compile(r"\[\s*rank([0-9]{1,9})\s*~\s*rank([0-9]{1,9})\s*\]", re.ASCII)
_RANK: Final = re.compile(r"rank([0-9]{1,9})", re.ASCII)
_MS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,30})?(?:e-?[0-9]{1,2})?", re.ASCII)


@dataclass(frozen=True)
class _Row:
    """A line: kind, role ("" for none), the group's size if stated, and the columns by name."""

    kind: str
    role: str
    members: int
    cells: dict[str, str]
    line: int


@dataclass(frozen=True)
class _Section:
    """The lines of some ranks; none are named where the file is for all."""

    ranks: tuple[int, ...]
    rows: list[_Row]
    line: int


@lists_too
def read_aicb(
    path: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Job:
    """The job of an AICB table: one trace for each part of the file. Raises InputError with the line at fault.

    ``ranks`` is needed where the file does not name its ranks. ``notes`` is told what was left out.
    """
    notes = Notes() if notes is None else notes
    source = os.fspath(path)
    text = read_text(source, max_bytes, "an AICB table", _HELD, "utf-8-sig")
    sections = _sections(text, source)
    count = _ranks(sections, ranks, source)
    if not sections[0].ranks:
        sections = [_Section(tuple(range(count)), sections[0].rows, 1)]
    groups = _groups(sections, count, source)
    left: Counter[str] = Counter()
    which = np.full(count, -1, np.int64)
    traces = []
    for at, section in enumerate(sections):
        which[list(section.ranks)] = at
        builder = TraceBuilder(metadata={"format": "AICB"}, source=f"{source}, line {section.line}")
        stage = _Stage(at, len(sections), groups, source, left, builder)
        for row in section.rows:
            stage.add(row)
        traces.append(builder.build())
    for what, times in left.items():
        notes.warn(f"{source}: left out {what}: {times:,}")
    return Job(tuple(traces), which, {role: own for role, own in groups.items() if role != "all"})


def _sections(text: str, source: str) -> list[_Section]:
    """The parts of the file: each a line of ranks (or none), a header, and rows."""
    found: list[_Section] = []
    ranks: tuple[int, ...] = ()
    names: list[str] = []
    for line, raw in enumerate(text.splitlines(), 1):
        said = raw.strip()
        if said.startswith("["):
            ranks, names = _named_ranks(said, line, source), []
        elif said.startswith("comm_type,"):
            names = said.split(",")
            missing = [name for name in _NEEDED if name not in names]
            if missing:
                raise InputError("a column is missing", file=source, place=f"line {line}", expected=missing[0])
            found.append(_Section(ranks, [], line))
        elif said:
            if not names:
                place = f"line {line}"
                raise InputError("this is no AICB table", file=source, place=place, found=repr(said[:60]),
                                 expected="a line of column names: comm_type,comm_group,...")  # fmt: skip
            found[-1].rows.append(_row(said, names, line, source))
    if not found:
        raise InputError("this is no AICB table", file=source, expected="a line of column names: comm_type,...")
    return found


def _named_ranks(said: str, line: int, source: str) -> tuple[int, ...]:
    span = _RANGE.fullmatch(said)
    if span and int(span[1]) <= int(span[2]) < MAX_RANKS:
        return tuple(range(int(span[1]), int(span[2]) + 1))
    named = tuple(int(number) for number in _RANK.findall(said))
    if span or not named or max(named) >= MAX_RANKS:
        raise InputError("no ranks are named", file=source, place=f"line {line}", found=repr(said[:60]),
                         expected=f"[rank0 ~ rankN] or a list of ranks below {MAX_RANKS}")  # fmt: skip
    return named


def _row(said: str, names: list[str], line: int, source: str) -> _Row:
    try:
        values = next(csv.reader([said]))
    except csv.Error as fault:
        raise InputError(f"a line is no CSV: {fault}", file=source, place=f"line {line}") from None
    if len(values) != len(names):
        expected, found = f"{len(names)} columns", f"{len(values)}"
        raise InputError("a line has the wrong columns", file=source, place=f"line {line}", found=found,
                         expected=expected)  # fmt: skip
    cells = dict(zip(names, values, strict=True))
    kind, group = (cells[name].rpartition(".")[2] for name in ("comm_type", "comm_group"))
    role = "" if kind == "epoch_end" else _ROLES.get(group, "" if kind == "computation" else "?")
    if (kind not in COLLECTIVES and kind not in _OTHERS) or role == "?":
        raise InputError("this operation is unknown", file=source, place=f"line {line}", found=repr(said[:60]),
                         expected=f"{', '.join((*COLLECTIVES, *_OTHERS))} of {', '.join(_ROLES)}")  # fmt: skip
    stated = cells.get("comm_group_size", "None")
    members = 0 if stated in ("None", "") else whole(stated, source, f"line {line}", "comm_group_size", 1, MAX_RANKS)
    return _Row(kind, role, members if kind in COLLECTIVES else 0, cells, line)


def _ranks(sections: list[_Section], asked: int | None, source: str) -> int:
    """How many ranks there are. Raises InputError unless each is named once."""
    if len(sections) == 1 and not sections[0].ranks:
        if asked is None:
            remedy = "say how many: --ranks N"
            raise InputError("the file does not say which ranks there are", file=source, remedy=remedy)
        return asked
    owner: dict[int, int] = {}
    for section in sections:
        if not section.ranks:
            raise InputError("a part of the file names no ranks", file=source, place=f"line {section.line}")
        for rank in section.ranks:
            if owner.setdefault(rank, section.line) != section.line:
                place = f"line {section.line}"
                raise InputError("a rank is in two parts of the file", file=source, place=place, found=rank)
    if max(owner) + 1 != len(owner):
        gap = next(rank for rank in range(len(owner)) if rank not in owner)
        raise InputError("a rank is missing", file=source, found=f"{max(owner)}, but not {gap}")
    return len(owner)


def _groups(sections: list[_Section], ranks: int, source: str) -> dict[str, Groups]:
    """The groups of each role that is used. Raises InputError where the sizes do not multiply to the ranks."""
    said: dict[str, int] = {}
    for row in (row for section in sections for row in section.rows):
        if row.members > 1 and said.setdefault(row.role, row.members) != row.members:
            raise InputError(f"groups of {row.role} have two sizes", file=source, place=f"line {row.line}",
                             found=row.members, expected=str(said[row.role]))  # fmt: skip
    pp = len(sections)
    if "tp" in said or "dp" not in said:
        tp = said.get("tp", 1)
        dp = ranks // (tp * pp)
    else:
        dp = said["dp"]
        tp = ranks // (dp * pp)
    ep = said.get("ep", dp // said["ep_dp"] if said.get("ep_dp", dp) <= dp and "ep_dp" in said else 1)
    mesh = {"tp": (1, tp), "dp": (tp, dp), "ep": (tp, ep), "ep_dp": (tp * ep, dp // ep if ep else 0),
            "ep_tp": (1, tp * ep), "pp": (tp * dp, pp), "all": (1, ranks)}  # fmt: skip
    sizes = {role: size for role, (_, size) in mesh.items()} | {"embedding": 2}
    for role, size in said.items():
        if sizes[role] != size:
            raise InputError(f"groups of {role} do not fit the ranks", file=source, found=f"{size} of {ranks}",
                             expected=f"{sizes[role]}, with tp {tp}, dp {dp}, pp {pp}, ep {ep}")  # fmt: skip
    if tp * dp * pp != ranks or dp % ep:
        raise InputError("the ranks do not divide into their groups", file=source,
                         found=f"{ranks} ranks, tp {tp}, dp {dp}, pp {pp}, ep {ep}")  # fmt: skip
    used = {row.role for section in sections for row in section.rows}
    groups = {role: strided(ranks, *mesh[role]) for role in mesh if role in used and mesh[role][1] > 1}
    if "embedding" in used and pp > 1:
        last = tp * dp * (pp - 1)
        groups["embedding"] = tuple((rank, rank + last) for rank in range(tp * dp))
    return groups


@dataclass
class _Stage:
    """The trace of a part of the file on its way: what the next line waits for, messages counted by way and end."""

    stage: int
    stages: int
    groups: dict[str, Groups]
    source: str
    left: Counter[str]
    builder: TraceBuilder
    waits: list[int] = field(default_factory=list)
    turns: Counter[tuple[int, bool]] = field(default_factory=Counter)

    def add(self, row: _Row) -> None:
        """One line."""
        name, kind, attrs = row.kind, NodeType.METADATA_NODE, _kept(row, self.source)
        micros, blocks = 0, True
        if row.kind == "computation":
            elapsed = int(attrs.get("duration_ns", -1))
            name, kind, micros = row.cells.get("stage") or name, NodeType.COMP_NODE, (max(elapsed, 0) + 500) // 1000
            attrs |= {COMPUTE_NS: max(elapsed, 0), "shape": row.cells["msg_size"]}
            if elapsed < 0:
                self.left["times of computations, which the file does not state"] += 1
        elif row.kind in ("isend", "irecv"):
            blocks = row.kind == "irecv"
            kind = NodeType.COMM_RECV_NODE if blocks else NodeType.COMM_SEND_NODE
            attrs |= self._message(row, not blocks)
        elif row.kind != "epoch_end":
            if row.role not in self.groups or (row.role == "embedding" and self.stage not in (0, self.stages - 1)):
                self.left[f"collectives of groups with one rank ({row.role})"] += 1
                return
            kind = NodeType.COMM_COLL_NODE
            attrs |= _collective(row, len(self.groups[row.role][0]), self.source)
        node = len(self.builder)
        self.builder.add(node, name, kind, data_deps=self.waits, duration_micros=micros, attrs=attrs)
        if blocks:
            self.waits = [node]

    def _message(self, row: _Row, sends: bool) -> dict[str, object]:
        """The attributes of a message to, or from, the stage before or behind."""
        said = row.cells.get("additional", "")
        step = {"next": 1, "prev": -1}.get(said.rpartition("_")[2], 0)
        if not step or not 0 <= self.stage + step < self.stages:
            raise InputError(
                "a message has no other side",
                file=self.source,
                place=f"line {row.line}",
                found=repr(said[:40]),
                expected="send_next, send_prev, recv_next or recv_prev, and such a stage",
            )
        way = step if sends else -step
        tag = self.turns[way, sends]
        self.turns[way, sends] += 1
        return {"pg_name": "pp", PEER: self.stage + step, "comm_tag": tag, "comm_size": _size(row, self.source)}


def _kept(row: _Row, source: str) -> dict[str, Any]:
    """What a line says beside its operation."""
    attrs: dict[str, Any] = {"is_cpu_op": False}
    attrs |= {name: said for name in _KEPT if (said := row.cells.get(name, "")) not in ("None", "", "1", "0.0")}
    elapsed = _elapsed_ns(row, source)
    return attrs if elapsed < 0 else attrs | {"duration_ns": elapsed}


def _collective(row: _Row, members: int, source: str) -> dict[str, object]:
    """The attributes of a collective of ``members`` ranks."""
    kind = COLLECTIVES[row.kind]
    attrs: dict[str, object] = {"comm_type": int(kind)}
    if row.role != "all":
        attrs["pg_name"] = row.role
    if kind == CollectiveType.BARRIER:
        return attrs
    size = _size(row, source)
    if kind == CollectiveType.ALL_GATHER:
        attrs[STATED], size = size, -(-size // members)
    attrs["comm_size"] = size
    root = row.cells.get("src" if kind == CollectiveType.BROADCAST else "dst", "None")
    if kind in (CollectiveType.BROADCAST, CollectiveType.REDUCE) and root not in ("None", ""):
        attrs["root_rank"] = whole(root, source, f"line {row.line}", "the root", 0, members - 1)
    return attrs


def _size(row: _Row, source: str) -> int:
    return whole(row.cells["msg_size"], source, f"line {row.line}", "msg_size")


def _elapsed_ns(row: _Row, source: str) -> int:
    """What the line took, -1 where it does not say."""
    said = row.cells.get("_elapsed_time", "None")
    if said in ("None", ""):
        return -1
    if not _MS.fullmatch(said) or float(said) >= 1e12:
        raise InputError("an elapsed time is no number of ms", file=source, place=f"line {row.line}",
                         found=repr(said[:40]))  # fmt: skip
    return round(float(said) * 1e6)
