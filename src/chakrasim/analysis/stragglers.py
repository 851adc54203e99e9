"""Which rank the others wait for: who comes last to collectives, and how long that holds up the rest.

A collective ends at about the same time on all its ranks, so the rank that runs it for the shortest time came last.
That needs no common clock: only durations are compared. Where no device communicates (gloo), the host's collectives
are compared, whose ends differ: there the clocks of the ranks are brought together first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from chakrasim.analysis.collectives import collective_split
from chakrasim.analysis.compare import short_name
from chakrasim.analysis.table.kernel_classes import COMMUNICATION
from chakrasim.analysis.table.result import Ints, Reals, Result, percentage, texts
from chakrasim.analysis.table.statistics import group_keys, sums
from chakrasim.analysis.table.traces import RankTrace, Traces, open_traces
from chakrasim.errors import InputError
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import LinkedTrace


@dataclass(frozen=True, eq=False)
class Stragglers(Result):
    """One row for each rank, the one that held up the others longest first; none where nothing can be compared.

    ``collectives``: kernels (or collectives of the host) matched with those of other ranks (the k-th of a group and a
    name with the k-th).
    ``last``: how often the rank came last; ``caused_ns``: how long the others together waited for it then;
    ``waited_ns``: how long it waited for others; ``waited_pct``: of its time in these kernels.
    """

    TITLE: ClassVar[str] = "Who holds up the others"
    rank: Ints
    collectives: Ints
    last: Ints
    caused_ns: Ints
    waited_ns: Ints
    waited_pct: Reals


def find_stragglers(traces: Traces, *, steps: list[int] | None = None) -> Stragglers:
    """Who is late to collectives, over all steps or those named. Raises InputError."""
    notes = Notes()
    ranks = open_traces(traces, notes=notes)
    if len(ranks) < 2:
        notes.note("one rank alone: nobody to compare it with")
    codes: dict[str, int] = {}
    if not any((one.work.kind == COMMUNICATION).any() for one in ranks):
        return _of_hosts(ranks, steps, notes)
    calls = [_calls(one, index, steps, codes) for index, one in enumerate(ranks)]
    rank, key, place, length = (np.concatenate([call[i] for call in calls]) for i in range(4))
    group, first = group_keys(key, place)
    members = np.bincount(group, minlength=len(first))
    several = members[group] > 1
    lonely = int((~several).sum())
    if lonely and len(ranks) > 1:
        notes.note(f"{lonely:,} communication kernels have no counterpart on another rank and were left out")
    if not several.any():
        return Stragglers.of_rows(notes, [])
    rank, length, group = rank[several], length[several], group[several]
    size = len(first)
    shortest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, length)
    wait = length - shortest[group]
    order = np.lexsort((rank, length, group))
    latest = order[np.append(True, group[order][1:] != group[order][:-1])[: len(order)]]
    many = len(ranks)
    waited, spent = sums(wait, rank, many), sums(length, rank, many)
    made = sums(sums(wait, group, size)[group[latest]], rank[latest], many)
    worst = np.argsort(-made, kind="stable")
    return Stragglers(
        notes=tuple(notes),
        rank=np.array([one.rank for one in ranks], np.int64)[worst],
        collectives=np.bincount(rank, minlength=many)[worst],
        last=np.bincount(rank[latest], minlength=many)[worst],
        caused_ns=made[worst],
        waited_ns=waited[worst],
        waited_pct=percentage(waited, spent)[worst],
    )


def _calls(one: RankTrace, index: int, steps: list[int] | None, codes: dict[str, int]) -> tuple[Ints, ...]:
    """Rank index, code of group and name, place among the calls of that code, and length of each collective."""
    work, kineto = one.work, one.kineto
    at = np.flatnonzero(work.kind == COMMUNICATION)
    if steps is not None:
        number = np.append(work.steps.number, -1)[work.step[at]]
        at = at[np.isin(number, steps)]
    rows = work.row[at]
    labels = [
        texts(kineto.strings, _text_column(one, name)[rows]) for name in ("Process Group Name", "Process Group Ranks")
    ]
    names = [short_name(name) for name in work.names(rows)]
    # NCCL's names carry algorithm and protocol, which may differ between ranks; what it does comes first.
    keys = [
        "|".join((group, ranks, "_".join(name.split("_")[:2])))
        for group, ranks, name in zip(*labels, names, strict=True)
    ]
    key = np.array([codes.setdefault(text, len(codes)) for text in keys], np.int64)
    order = np.argsort(key, kind="stable")
    place = np.empty(len(key), np.int64)
    ordered = key[order]
    place[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered, "left")
    return np.full(len(key), index), key, place, work.end_ns[at] - work.start_ns[at]


def _of_hosts(ranks: list[RankTrace], steps: list[int] | None, notes: Notes) -> Stragglers:
    """Who is late to the collectives that the host carries out, as `collective_split` has it."""
    linked = align([trace for one in ranks for trace in _linked(one)])
    if steps is not None:
        linked = [_in_steps(trace, steps) for trace in linked]
    split = collective_split(linked)
    notes.note(*split.notes)
    if not len(split.collectives):
        notes.note("no collectives of two ranks were recorded, on devices or on the host: nothing to compare")
        return Stragglers.of_rows(notes, [])
    notes.note("no device communicates: the collectives of the host are compared, on clocks that they agree on")
    found = split.ranks
    worst = np.argsort(-found.wait_caused_ns, kind="stable")
    return Stragglers(
        notes=tuple(notes),
        rank=found.rank[worst],
        collectives=found.collectives[worst],
        last=found.times_last[worst],
        caused_ns=found.wait_caused_ns[worst],
        waited_ns=found.wait_suffered_ns[worst],
        waited_pct=found.wait_pct[worst],
    )


def _linked(one: RankTrace) -> list[LinkedTrace]:
    """The rank, linked; nothing if there is nothing in its trace that could be."""
    try:
        return [link(None, one.kineto, rank=one.rank)]
    except InputError:
        return []


def _in_steps(linked: LinkedTrace, steps: list[int]) -> LinkedTrace:
    """The same with the collectives of these steps only."""
    held = linked.communication
    chosen = np.isin(linked.step[held.row], steps)
    columns = {field.name: getattr(held, field.name)[chosen] for field in fields(held)}
    return replace(linked, communication=replace(held, **columns))


def _text_column(one: RankTrace, name: str) -> Ints:
    return one.kineto.rare_column(name).texts(len(one.kineto)).astype(np.int64)
