"""The search for buckets: kinds of messages whose sizes are what other nodes wrote since the message before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.loops import Place
from chakrasim.synthesis.read import Reading
from chakrasim.synthesis.roles import Role
from chakrasim.synthesis.search.buckets import Bucket, Enough, Spot, last_of, spots_of
from chakrasim.synthesis.search.levels import Table
from chakrasim.synthesis.search.meter_search import limit_between
from chakrasim.synthesis.search.meters import NEVER, NOTHING
from chakrasim.synthesis.search.tables import Tables
from chakrasim.synthesis.search.totals import total_of

SENT: Final = "comm_size"
FEWEST: Final = 8
"""Messages without which nothing is told of them."""


@dataclass(frozen=True)
class Tally:
    """Kinds of nodes that are ``sent``, in the order of the program, whose sizes are what a ``number`` of ``summed``
    kinds adds up to since the one before."""

    sent: tuple[int, ...]
    summed: tuple[int, ...]
    number: str


def tallies_of(readings: Sequence[Reading], roles: Sequence[Role], where: Mapping[int, Place]) -> list[Tally]:
    """What messages send of what other nodes wrote: of each kind of message the first that all of its nodes say."""
    kinds = defaultdict[object, list[int]](list)
    for role in sorted(where, key=lambda role: where[role].at):
        kinds[roles[role].name, roles[role].attributes].append(role)
    every = [(np.array(reading.rank.nodes.role, np.int64), reading.rank.nodes.numbers) for reading in readings]
    within = [{*own.tolist()} for own, _ in every]
    found = []
    for sent in kinds.values():
        if SENT not in roles[sent[0]].numbers():
            continue
        size = roles[sent[0]].numbers().index(SENT)
        windows = [_Windows.of(*own, sent, size) for own, here in zip(every, within, strict=True)
                   if not here.isdisjoint(sent)]  # fmt: skip
        if sum(len(each.sizes) for each in windows) >= FEWEST:
            windows.sort(key=lambda each: -len(each.sizes))
            near = windows[0].before_one()
            made = (_tally(windows, sent, summed, roles) for summed in kinds.values()
                    if summed is not sent and not near.isdisjoint(summed))  # fmt: skip
            found.append(next((tally for tally in made if tally), None))
    return [tally for tally in found if tally]


@dataclass(frozen=True, eq=False)
class _Windows:
    """The nodes of a trace between messages. ``sizes`` int64[m] of these; ``role``, ``numbers``: of each node;
    ``window`` int64[n]: which message each comes before, m for none."""

    sizes: Ints
    role: Ints
    numbers: Sequence[tuple[int, ...]]
    window: Ints

    @classmethod
    def of(cls, role: Ints, numbers: Sequence[tuple[int, ...]], sent: Sequence[int], size: int) -> _Windows:
        """Of a trace."""
        at = np.flatnonzero(np.isin(role, sent))
        sizes = np.array([numbers[one][size] for one in at.tolist()], np.int64)
        return cls(sizes, role, numbers, np.searchsorted(at, np.arange(len(role))))

    def before_one(self) -> set[int]:
        """The kinds of nodes before the message with the fewest."""
        least = int(np.argmin(np.bincount(self.window, minlength=len(self.sizes) + 1)[:-1]))
        return {*self.role[self.window == least].tolist()}

    def sums(self, summed: Sequence[int], number: int) -> tuple[Ints, Ints]:
        """int64[roles, m] each: what a number of each of these kinds of nodes and of those behind it adds up to before
        each message, and of how many nodes."""
        value, often = np.zeros((2, len(summed), len(self.sizes) + 1), np.int64)
        for row, role in enumerate(summed):
            at = np.flatnonzero(self.role == role)
            said = [self.numbers[one][number] for one in at.tolist()]
            np.add.at(value[row], self.window[at], np.array(said, np.int64))
            np.add.at(often[row], self.window[at], 1)
        behind = (np.cumsum(each[::-1], axis=0)[::-1, :-1] for each in (value, often))
        return next(behind), next(behind)


def _tally(
    windows: Sequence[_Windows], sent: Sequence[int], summed: Sequence[int], roles: Sequence[Role]
) -> Tally | None:
    """The first number that adds up to what all messages send; of the kinds of nodes the first may be none of those,
    such as what the forward pass has alike."""
    for place, number in enumerate(roles[summed[0]].numbers()):
        holds, often = np.ones(len(summed), np.bool_), list[Ints]()
        for each in windows:
            value, count = each.sums(summed, place)
            holds &= (value == each.sizes).all(axis=1)
            often.append(count)
            if not holds.any():
                break
        else:
            at = int(np.argmax(holds))
            if len(np.unique(np.concatenate([count[at] for count in often]))) > 2:
                return Tally(tuple(sent), tuple(summed[at:]), number)
    return None


def bucket_of(
    number: int, tally: Tally, where: Mapping[int, Place], tables: Tables, said: Callable[[int], Ints]
) -> tuple[Bucket, dict[int, tuple[int, int]]] | None:
    """The bucket that a tally says, along the innermost loop in which anything is sent, and of each role that is sent
    in which of the `REGIONS` that is, and at which place there; or None. ``said``: by role what is sent in each
    iteration of its innermost loop, 0 where it does not come."""
    path = max((where[role].loops for role in tally.sent), key=len)
    around = path[:-1]
    apart = [where[role].loops for role in tally.sent if where[role].loops not in (path, around)]
    if not around or apart or any(where[role].loops[: len(around)] != around for role in tally.summed):
        return None
    laws, placed = _laws_of(tally, where, path)
    own, outer, parent = tables.of(path), tables.of(around), tables.parents(path[-1], around[-1])
    runs, each_of = len(outer.job), (outer, own, outer)
    sent = [np.zeros((len(each) - 1, len(table.job)), np.int64) for each, table in zip(laws, each_of, strict=True)]
    for role, (region, place) in placed.items():
        sent[region][place] = said(role)
    weights = [[expressions.value(law, table.asked(law), len(table.job)) for law in each]
               for each, table in zip(laws, each_of, strict=True)]  # fmt: skip
    spots = [*spots_of([len(each) for each in laws], parent, runs)]
    for flush in (True, False):
        enough = _enough(spots, weights, sent, outer, flush)
        if enough:
            before, along, behind = map(tuple, laws)
            made = Bucket(number, path[-1], before, along, behind, enough, flush)
            first, second = made.columns(own.asked(*made.laws()), outer.asked(*made.laws()), parent, runs)
            columns = first | second
            if all((columns[made.name("sum", *at)] * columns[made.name("fires", *at)] == sent[at[0]][at[1]]).all()
                   for at in placed.values()):  # fmt: skip
                return made, placed
    return None


def _laws_of(
    tally: Tally, where: Mapping[int, Place], path: tuple[int, ...]
) -> tuple[list[list[Expression]], dict[int, tuple[int, int]]]:
    """By region what is added up to each of its places, and last behind these; and of each role that is sent its place
    there. Of what is sent one role stands at each place."""
    depth = len(path) - 1
    loop_at = next(where[role].at[depth - 1] for role in tally.sent if where[role].loops == path)
    laws, placed = [list[Expression](), [], []], dict[int, tuple[int, int]]()
    pending: list[list[Expression]] = [[], [], []]
    for role in sorted({*tally.sent, *tally.summed}, key=lambda role: where[role].at):
        inside = where[role].loops[: depth + 1] == path
        region = 1 if inside else 2 * int(where[role].at[depth - 1] > loop_at)
        if role in tally.sent:
            placed[role] = region, len(laws[region])
            laws[region].append(_sum(pending[region]))
            pending[region] = []
        else:
            pending[region].append([1, 1, {total_of(role, tally.number): 2}])
    for each, rest in zip(laws, pending, strict=True):
        each.append(_sum(rest))
    return laws, placed


def _sum(terms: list[Expression]) -> Expression:
    return ["sum", terms] if terms else NOTHING


def _enough(
    spots: Sequence[Sequence[Spot]], weights: Sequence[Sequence[Ints]], sent: Sequence[Ints], outer: Table, flush: bool
) -> tuple[Enough, Enough] | None:
    """How much is enough: of what is let go first in a run and of all else, which may be the same."""
    jobs = int(outer.job.max(initial=0)) + 1
    most, least = np.zeros((2, jobs), np.int64), np.full((2, jobs), NEVER)
    for job, places in zip(outer.job.tolist(), spots, strict=True):
        held, fired, last = 0, 0, last_of(places)
        for at, (region, place, row, lets_go) in enumerate(places):
            held += int(weights[region][place][row])
            if lets_go and sent[region][place, row]:
                least[fired, job] = least[fired, job] if flush and at == last else min(least[fired, job], held)
                held, fired = 0, 1
            elif lets_go:
                most[fired, job] = max(most[fired, job], held)
    both = _between(most.max(axis=0), least.min(axis=0), outer)
    first, later = (both, both) if both else (_between(*each, outer) for each in zip(most, least, strict=True))
    return (first, later) if first and later else None


def _between(most: Ints, least: Ints, outer: Table) -> Enough | None:
    """More than what was not enough in any job, and at most what was."""
    if (least == NEVER).all():
        return Enough(["const", NEVER, 1], (["const", int(most.max()), 1], ["const", NEVER, 1]))
    found = limit_between(most, least, outer)
    return Enough(*found) if found else None
