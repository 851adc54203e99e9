"""NVTX ranges and marks of an Nsight Systems export.

Ranges of a thread become ``user_annotation``; those that `torch.autograd.profiler.emit_nvtx` makes of operators become
``cpu_op``, with sequence number and sizes of inputs, and so do calls of NCCL that state a size (`nccl`). A range that
one thread may begin and another end is an event of its own category, which linking leaves alone. Names of other domains
than the default one are ``DOMAIN:name``, as in the reports of nsys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from chakrasim.trace.kineto.columns import Ints
from chakrasim.trace.profiles import nccl
from chakrasim.trace.profiles.build import NONE, Part, Texts
from chakrasim.trace.profiles.database import Database

TABLE: Final = "NVTX_EVENTS"
#: Kinds of rows (ENUM_NSYS_EVENT_TYPE), those of the older interface and of the other one.
_MARKS: Final = (34, 65)
_THREADS: Final = (39, 72)
_RANGES: Final = (59, 70)
_FREE_RANGES: Final = (60, 71)
_DOMAIN: Final = 75
_RANK: Final = re.compile(r"MPI Rank (\d{1,9})")
_OPERATOR: Final = re.compile(r"(.+?), (?:seq|op_id) = .*", re.DOTALL)
_SEQUENCE: Final = re.compile(r", seq = (\d{1,18})\b")
_SIZES: Final = re.compile(r", sizes = (\[[\[\]0-9, ]*\])")


def read(base: Database, names: Callable[[Ints], Ints], texts: Texts) -> tuple[list[Part], int]:
    """The ranges and marks, and the rank that a thread is named for (-1: none). ``names`` turns numbers of StringIds
    into numbers of texts."""
    start, end, kind, owner, number, domain = base.integers(
        TABLE, ("start", "end", "eventType", "globalTid", "textId", "domainId")
    )
    if not len(start):
        return [], -1
    name = names(number)
    row = base.integers(TABLE, ("rowid",))[0]
    own = {at: texts.place(text) for at, text in base.texts(TABLE, "rowid", "text")}
    name = np.array([own.get(at, known) for at, known in zip(row.tolist(), name.tolist(), strict=True)], np.int64)
    kind = np.where(kind == NONE, np.where(end == NONE, _MARKS[0], _RANGES[0]), kind)
    table = texts.all()
    domains = {int(at): table[text] for at, text in zip(domain[kind == _DOMAIN], name[kind == _DOMAIN], strict=True)}
    stated = [_RANK.fullmatch(table[at]) for at in name[np.isin(kind, _THREADS)].tolist()]
    ranks = {int(match[1]) for match in stated if match}
    pid, tid = (np.where(owner == NONE, -1, owner >> shift & 0xFFFFFF) for shift in (24, 0))
    said = nccl.payloads(base, TABLE)
    parts: list[Part] = []
    for kinds, category, phase in (
        (_RANGES, "user_annotation", "X"),
        (_FREE_RANGES, "nvtx_start_end", "X"),
        (_MARKS, "nvtx_mark", "i"),
    ):
        some = np.isin(kind, kinds)
        whole = Part(category, name, start, end, pid, tid, phase=phase).take(some)
        whole.name = _with_domains(whole.name, domain[some], domains, texts)
        if category == "user_annotation" and said:
            described, whole = nccl.records(whole, row[some].tolist(), said, texts)
            parts.append(described)
        parts += _operators(whole, texts) if category == "user_annotation" else [whole]
    return parts, ranks.pop() if len(ranks) == 1 else -1


def _with_domains(name: Ints, domain: Ints, domains: dict[int, str], texts: Texts) -> Ints:
    pairs, at = np.unique(np.stack((name, domain), axis=1), axis=0, return_inverse=True)
    table = texts.all()
    found = [f"{domains[of]}:{table[text]}" if of in domains else table[text] for text, of in pairs.tolist()]
    return texts.places(found)[at.ravel()]


def _operators(ranges: Part, texts: Texts) -> list[Part]:
    """The ranges of operators, and the others."""
    numbers, at = np.unique(ranges.name, return_inverse=True)
    known = np.full((3, len(numbers)), NONE)
    table = texts.all()
    name = numbers.copy()
    for place, number in enumerate(numbers.tolist()):
        text = table[number]
        match = _OPERATOR.fullmatch(text)
        if match:
            name[place] = texts.place(match[1])
            sequence, sizes = _SEQUENCE.search(text), _SIZES.search(text)
            known[0, place] = bool(sequence) or "::" in match[1]
            known[1, place] = int(sequence[1]) if sequence else NONE
            known[2, place] = texts.place(sizes[1]) if sizes and _is_json(sizes[1]) else NONE
    ranges.name = name[at]
    operator = known[0][at] == 1
    operators = ranges.take(operator)
    operators.category = "cpu_op"
    operators.rare["Sequence number"] = known[1][at][operator]
    operators.texts["Input Dims"] = known[2][at][operator]
    return [operators, ranges.take(~operator)]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
