"""The search for the laws of a program: of counts, presence and numbers, of meters and of metadata."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, Final

import numpy as np

from chakrasim.progress import Progress, told
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import mark_of, marks_in, turn_columns
from chakrasim.synthesis.expressions import Expression, Ints, Limit
from chakrasim.synthesis.grammar.durations import MEASURED, MICROS, WORK, Rows, law_of_work, speeds_of
from chakrasim.synthesis.laws import CASES, CHOICES, FEW_TESTS, PROBES, Examples
from chakrasim.synthesis.loops import ROOT, Loop, Place, inner_loops
from chakrasim.synthesis.read import Reading
from chakrasim.synthesis.roles import DURATION, Role, number_names, titles
from chakrasim.synthesis.search import levels
from chakrasim.synthesis.search.bucket_search import SENT, Tally, bucket_of
from chakrasim.synthesis.search.buckets import Bucket
from chakrasim.synthesis.search.digits import turns_in
from chakrasim.synthesis.search.lags import lag_law
from chakrasim.synthesis.search.latent import COMES
from chakrasim.synthesis.search.levels import METERED, Known, Table
from chakrasim.synthesis.search.meter_search import meter_of
from chakrasim.synthesis.search.meters import Meter, Pieces, summed
from chakrasim.synthesis.search.shared_totals import (
    Summed,
    as_ahead,
    by_its_cases,
    like_another,
    totals_ahead,
    totals_by_case,
)
from chakrasim.synthesis.search.sums import spread
from chakrasim.synthesis.search.support import by_few_examples
from chakrasim.synthesis.search.tables import Tables, counts_of
from chakrasim.synthesis.search.totals import Totals, summand, total_of
from chakrasim.synthesis.search.work import AT_FIRST, LATER, LITTLE, MOST
from chakrasim.trace.kinds import NodeType

TOLD: Final = 6
"""Roles of a loop of which a column says whether they come, at most."""
MARKS: Final = 3
"""Of a loop, at most."""
MOST_KINDS: Final = 4
"""Of nodes of which pairs are taken for what adds up together."""
SURE: Final = 3
"""Different numbers that follow another's law by no chance."""
FEW_CASES: Final = 2
"""Of laws of where kinds of nodes come, before it is known what adds up."""
OTHERS: Final = 3
"""Of which the terms are tried where a sum is looked for, at most."""
_NEVER: Final[Expression] = ["const", 0, 1]
COUNTER: Final = 1 << 20
"""Numbers that go up along loops stay below."""


class Search:
    """What was found so far; ``lost``: what no law was found for, and how far off what stands there is in jobs that it
    was not made from."""

    def __init__(
        self,
        tables: Tables,
        loop: Loop,
        where: Mapping[int, Place],
        roles: Sequence[Role],
        tallies: Sequence[Tally] = (),
        *,
        recorded: bool = False,
    ) -> None:
        self.tallies, self.recorded = tallies, recorded
        self.times: dict[int, Rows] = {}
        self.tables, self.readings, self.where, self.roles = tables, tables.readings, where, roles
        self.titles = titles(roles)
        self.inner = {one.number: around for one, around in inner_loops(loop)}
        self.occurrences = _occurrences(self.readings)
        self.said: dict[int, dict[str, Ints]] = {}
        """The numbers of the nodes of a role that was asked about."""
        self.rows: dict[int, Ints] = {}
        self.totals = Totals(where, self._own, tables.parents, lambda loop: int(tables.offsets(loop)[-1]),
                             lambda role, name: self._wanted(role)[name])  # fmt: skip
        tables.totals = self.totals
        self.known = Known()
        self.lost: dict[str, float] = {}
        self.unsure: set[int] = set()
        """Roles of which no law says whether they come."""
        self.counts: dict[int, Expression] = {}
        self.marks: dict[int, list[Expression]] = defaultdict(list)
        self.present: dict[int, Expression] = {}
        self.numbers: dict[int, dict[str, Expression]] = {}
        self.counters: set[str] = set()
        self.sums: dict[tuple[int, ...], list[Expression]] = defaultdict(list)
        """Laws of what nodes inside of loops add up to, by these."""
        self.own: dict[str, list[Expression]] = defaultdict(list)
        """By number, sums that were found for it."""
        self.meters: list[Meter | Bucket] = []
        self.looked_ahead: set[tuple[int, bool]] = set()
        """Roles whose numbers are no sums of nodes ahead, or have such a law, and whether that was looked for once what
        adds up was settled."""

    def learn(self, progress: Progress | None) -> None:
        """Find the laws of all counts and kinds of nodes."""
        for number, around in self.inner.items():
            wanted, table = counts_of(self.readings, number, around[-1]), self.tables.of(around)
            found = levels.find(wanted, table, self.known, 0) or lag_law(wanted, around[-1], table, self.known)
            found = found or self._if_any(wanted, table)
            self.counts[number] = found or self._law(f"count of loop {number}", wanted, table)
            self._mark(number)
        self.unsure = {*self.occurrences}
        for tally in self.tallies:
            self._bucket(tally)
        ordered = self._often_alike()
        for cases, tests in ((0, FEW_TESTS), (FEW_CASES, CASES)):
            self.known.work.most = MOST if cases else 2 * LITTLE
            alike = set[tuple[tuple[int, ...], bytes]]()
            for role in [role for role in ordered if role in self.unsure]:
                coming = self.where[role].loops, self._presence(role).tobytes()
                if coming not in alike:
                    self._comes(role, cases, tests)
                if role in self.unsure:
                    alike.add(coming)
        for role in ordered:
            self._with_another(role)
        self.known.work.most, sure = MOST, {*self.occurrences} - self.unsure
        for loop in self.inner:
            self._mark_like(loop)
        with self.known.work.without(LATER):
            self._roles(sure, progress)
        self._settle()
        self._roles({*self.occurrences}, progress, settled=True)
        for role in sorted(self.occurrences):
            if self._without_law(role) or any(map(expressions.chooses, self.numbers[role].values())):
                self._as_later_ones(role)
        for role in sorted(self.occurrences):
            self._where_summed(role)
        self._laws_of_times()
        self._guess(progress)

    def _bucket(self, tally: Tally) -> None:
        """The laws of what is sent in buckets, if what is summed in them has laws that ask for nothing else."""
        self.known.work.most = 2 * LITTLE
        for role in tally.summed:
            self._comes(role, 0, FEW_TESTS)
            self._role(role, 0, settled=False)
        if self.unsure & {*tally.summed} or not all(tally.number in self.numbers[role] for role in tally.summed):
            return
        found = bucket_of(len(self.meters), tally, self.where, self.tables,
                          lambda role: self._spread(role, self._wanted(role)[SENT]))  # fmt: skip
        if found is None:
            return
        bucket, placed = found
        self._tell(bucket, (*self.inner[bucket.loop], bucket.loop))
        for role, at in placed.items():
            self.present[role] = ["column", bucket.name("fires", *at)]
            self.numbers[role] = {SENT: ["column", bucket.name("sum", *at)]}
            self.unsure.discard(role)
            self._tell_presence(role, self._presence(role), self.tables.of(self.where[role].loops))
            self.totals.add(role, [SENT])

    def _often_alike(self) -> list[int]:
        """The roles, those first that come where most others come, such as all of the layers of one kind: that they
        come says most of the others."""
        alike = {role: (self.where[role].loops, self._presence(role).tobytes()) for role in self.occurrences}
        often = Counter(alike.values())
        return sorted(alike, key=lambda role: -often[alike[role]])

    def _if_any(self, wanted: Ints, table: Table) -> Expression | None:
        """The law of counts that are 0 or follow another law."""
        some = wanted > 0
        often = levels.find(wanted[some], table.some(some), self.known, 0) if some.any() else None
        if often is None:
            return None
        rows = np.flatnonzero(expressions.value(often, table.columns(2), len(wanted)))
        law = levels.find(some[rows].astype(np.int64), table.some(rows), self.known, 0)
        return law and ["*", law, often]

    def _settle(self) -> None:
        """What adds up along loops, by kinds of nodes that come by no law yet; then the laws of these by cases. What is
        left behind a loop inside adds up along none."""
        for loop in sorted(self.inner, key=lambda loop: -len(self.inner[loop])):
            while self.unsure and self._meter(loop):
                pass
        for role in sorted(self.unsure):
            self._comes(role)
            if role in self.unsure and (law := self._by_case_of_others(role)):
                self.unsure.discard(role)
                self.present[role] = law

    def _roles(self, roles: Set[int], progress: Progress | None, *, settled: bool = False) -> None:
        """Find the laws of numbers of roles that have none: those without cases first, which others may follow from.
        Once it is ``settled`` what adds up, those of nodes outside of all loops first, and others by case of that,
        too."""
        outside = {role for role in roles if self.where[role].loops == (ROOT,)}
        later = [*(sorted(outside) if settled else ()), *sorted(roles - outside)]
        for cases, some in ((0, sorted(roles)), (CASES, later)):
            self.known.work.most = MOST if cases else LITTLE
            for role in told(some, lambda each: "laws:", progress):
                self._role(role, cases, settled=settled)

    def _guess(self, progress: Progress | None) -> None:
        """Something near for all that has no law."""
        self.known.work.most = AT_FIRST
        for role in told(sorted(self.occurrences), lambda each: "laws:", progress):
            if role in self.unsure:
                here, table = self._presence(role), self.tables.of(self.where[role].loops)
                self.present[role], self.lost[self._coming(role)] = levels.guess(here, table, self.known.work)
            if lost := self._without_law(role):
                wanted, table = self._wanted(role), self._own_table(role)
            for name in lost:
                self.numbers[role][name], off = levels.guess(wanted[name], table, self.known.work)
                self.lost[f"{self.titles[role]}: {name}"] = off

    def _without_law(self, role: int) -> list[str]:
        """Its numbers that have none."""
        return [name for name in self.roles[role].numbers() if name not in self.numbers.get(role, {})]

    def _mark(self, loop: int) -> None:
        """Columns of what each iteration of a loop says of which it is, such as a layer: small numbers of nodes in it
        that go along the loop, have a law without cases, and are said by no column yet, nor so much more or less; those
        that most iterations say first. Where as many come as something has parts, the last being smaller, before these
        how large each is."""
        loops = (*self.inner[loop], loop)
        table = self.tables.of(loops)
        marks = self.marks[loop]
        match self.counts[loop]:
            case ["ceil", whole, part] | ["+", ["//", whole, part], ["const", 1, 1]]:
                self._add_mark(loop, ["min", part, ["-", whole, ["*", ["column", f"index of {loop}"], part]]])
        for rows, wanted in self._said(loops):
            if len(marks) >= MARKS:
                break
            here, said = table.some(rows), marks_in(self.tables.more[loop], rows).values()
            if levels.level_of(wanted, here) < 2 or any(not np.ptp(wanted - own) for own in said):
                continue
            law = levels.find(wanted, here, self.known, levels.DIGITS)
            for one in () if law is None else (law, *turns_in(law)):
                self._add_mark(loop, one)

    def _mark_like(self, loop: int) -> None:
        """Columns of whether what comes by one test in iterations of loops that come as often, if this one comes, such
        as layers of one kind, would come in those of this loop, too."""
        for role, law in self.present.items():
            other = self.where[role].loops[-1]
            if law[0] != "if" or other in (ROOT, loop) or not expressions.within(self.counts[other], self.counts[loop]):
                continue
            test = [
                re.sub(f"(?<= (?:of|in) ){other}$", str(loop), one) if isinstance(one, str) else one for one in law[1]
            ]
            columns = self.tables.of((*self.inner[loop], loop)).columns(2)
            if law[2:] != [["const", 0, 1]] and test != law[1] and {test[0], test[2] or test[0]} <= {*columns}:
                self._add_mark(loop, ["if", test, ["const", 1, 1], ["const", 0, 1]])

    def _add_mark(self, loop: int, law: Expression) -> None:
        table = self.tables.of((*self.inner[loop], loop))
        made = expressions.value(law, table.columns(2), len(table.job))
        if len(self.marks[loop]) < MARKS and made.tobytes() not in {own.tobytes() for own in table.levels[2].values()}:
            self.tables.more[loop][mark_of(loop, len(self.marks[loop]))] = made
            self.marks[loop].append(law)

    def _said(self, loops: tuple[int, ...]) -> list[tuple[Ints, Ints]]:
        """The iterations of the last of these loops in which a kind of node comes, and a small number that it says
        there first, each pair once, those of most iterations first."""
        found: dict[bytes, tuple[Ints, Ints]] = {}
        for role in self.occurrences:
            if self.where[role].loops[: len(loops)] != loops:
                continue
            rows, first = np.unique(self.totals.rows(role, loops), return_index=True)
            for wanted in self._wanted(role).values():
                if wanted.min(initial=0) >= 0 and wanted.max(initial=0) < COUNTER:
                    found.setdefault(rows.tobytes() + wanted[first].tobytes(), (rows, wanted[first]))
        return sorted(found.values(), key=lambda each: -len(each[0]))

    def _comes(self, role: int, cases: int = CASES, tests: int = CASES, *, metered: bool = False) -> None:
        """Whether a role comes. Without ``cases`` or with few ``tests`` it may be found later, when more is known; what
        is ``metered`` comes by what adds up or not yet."""
        here, table = self._presence(role), self.tables.of(self.where[role].loops)
        law = levels.find_metered(here, table, self.known) if cases == CASES else None
        law = law or (None if metered else levels.find(here, table, self.known, cases))
        self.unsure.discard(role)
        if law is None or expressions.cases(law) > tests:
            self.unsure.add(role)
            law = _NEVER
        else:
            self._tell_presence(role, here, table)
        self.present[role] = law

    def _with_another(self, role: int) -> None:
        """The law of a role whose group has one rank in some jobs, which in all others comes wherever another role
        does, one that comes as most do."""
        here, table, size = self._presence(role), self.tables.of(self.where[role].loops), self._size(role)
        alone = table.levels[1].get(size, np.zeros(0)) == 1
        if not alone.any() or here[alone].any():
            return
        beside = {other: self._presence(other) for other in self._around(role) if other not in self.unsure}
        alike = Counter(own.tobytes() for own in beside.values())
        alike_to = [other for other, own in beside.items() if (own == here)[~alone].all()]
        if alike_to:
            law = self.present[max(alike_to, key=lambda other: alike[beside[other].tobytes()])]
            own = _not_alone(size, law)
            self.present[role] = law if law[:3] == own[:3] else own
            self.unsure.discard(role)

    def _where_summed(self, role: int) -> None:
        """The law of a role with a group whose numbers are sums of others: it comes where one of these does, perhaps
        where one of its name does, too."""
        asked = set[str]().union(*map(expressions.names, self.numbers[role].values()))
        of = {total_of(each.role, "", each.which) for each in map(summand, asked) if each and each.name}
        table, size = self.tables.of(self.where[role].loops), self._size(role)
        metered = any(METERED in name for name in expressions.names(self.present[role]))
        if not of or not size or metered or any(role in self._asked(each.role) for each in map(summand, of) if each):
            return
        some: Expression = ["min", ["sum", [[1, 1, {name: 2}] for name in sorted(of)]], ["const", 1, 1]]
        named = [other for other in self._around(role) if self.roles[other].name == self.roles[role].name]
        for law in (some, *(["min", some, self.present[other]] for other in named)):
            said = _not_alone(size, law)
            columns = table.asked(said)
            if (expressions.value(said, columns, len(table.job)) == self._presence(role)).all():
                self.present[role] = said
                return

    def _around(self, role: int) -> list[int]:
        """Other roles of its loop that come by no law that asks for it."""
        loops = self.where[role].loops
        return [one for one in self.present if self.where[one].loops == loops and role not in self._asked(one)]

    def _asked(self, role: int) -> set[int]:
        """The role, and those that its law of where it comes asks for, and theirs."""
        found, left = set[int](), [role]
        while left:
            found.add(one := left.pop())
            of = map(summand, expressions.names(self.present[one]))
            left += [each.role for each in of if each and each.role not in found]
        return found

    def _by_case_of_others(self, role: int) -> Expression | None:
        """The law of whether a role comes by a case that parts the jobs where others of its name come."""
        name, table = self.roles[role].name, self.tables.of(self.where[role].loops)
        others = [law for other, law in self.present.items() if other != role and self.roles[other].name == name]
        return levels.by_limits(self._presence(role), table, self.known, expressions.all_limits(others))

    def _coming(self, role: int) -> str:
        return f"{self.titles[role]}: {COMES}"

    def _tell_presence(self, role: int, here: Ints, table: Table) -> None:
        """A column of whether the role comes, for those whose laws are looked for later."""
        more = self.tables.more[self.where[role].loops[-1]]
        others = {own.tobytes() for name, own in more.items() if summand(name)}
        if len(others) < TOLD and here.tobytes() not in others and levels.level_of(here, table) == 2:
            more[total_of(role)] = here

    def _role(self, role: int, cases: int, *, settled: bool) -> None:
        if role in self.numbers and not self._without_law(role):
            return
        wanted, part = self._wanted(role), self._own_table(role)
        self.counters |= {
            name for name, own in wanted.items() if own.max() < COUNTER and levels.level_of(own, part) == 2
        }
        recorded = self.recorded and MEASURED in wanted
        taken = {name: wanted.pop(name) for name in (MEASURED, DURATION) if name in wanted and recorded}
        self._numbers(role, wanted, part, cases, settled=settled)
        if MEASURED in taken and cases:
            self._times(role, taken[MEASURED], wanted, part)

    def _own_table(self, role: int) -> Table:
        """For each node of a role."""
        loops, here = self.where[role].loops, np.flatnonzero(self._presence(role))
        part = self.tables.of(loops).some(here)
        parents = [self.tables.parents(loop, around) for around, loop in pairwise(loops)]
        first, second, third = part.levels
        return replace(part, levels=(first, second, {**third, **turn_columns(here, loops, parents)}))

    def _times(self, role: int, durations: Ints, numbers: Mapping[str, Ints], part: Table) -> None:
        """Recorded durations, and the work that has a law."""
        work: dict[str, Ints] = {name: numbers[name] for name in WORK if name in numbers and name in self.numbers[role]}
        step = numbers.get("step", np.zeros(len(durations), np.int64))
        host = any(name == "is_cpu_op" and bool(value) for name, _, value in self.roles[role].attributes)
        self.times[role] = Rows(role, durations, part.job, part.rank, step, work, part.levels[0], host)

    def _laws_of_times(self) -> None:
        """The laws of recorded durations, which are near. Where no device works calls of the host are the work."""
        computes = [rows for role, rows in self.times.items() if self.roles[role].type == NodeType.COMP_NODE]
        if all(rows.host for rows in computes):
            self.times = {role: replace(rows, host=False) for role, rows in self.times.items()}
        speeds = speeds_of([*self.times.values()])
        for rows in self.times.values():
            own = self.numbers[rows.role]
            own[MEASURED], self.lost[f"{self.titles[rows.role]}: {MEASURED}"] = law_of_work(rows, speeds)
            if DURATION in self.roles[rows.role].numbers():
                own[DURATION] = MICROS

    def _wanted(self, role: int) -> dict[str, Ints]:
        if role not in self.said:
            nodes = [(self.readings[number].rank.nodes, at) for number, at in self.occurrences[role]]
            rows = [own.numbers[node] for own, at in nodes for node in at.tolist()]
            columns = np.array(rows, np.int64).reshape(len(rows), -1).T.copy()
            self.said[role] = dict(zip(self.roles[role].numbers(), columns, strict=True))
        return {**self.said[role]}

    def _presence(self, role: int) -> Ints:
        here = np.zeros(int(self.tables.offsets(self.where[role].loops[-1])[-1]), np.int64)
        here[self._own(role)] = 1
        return here

    def _own(self, role: int) -> Ints:
        """int64[n]: of each node of a role the iteration of its innermost loop, by place in the table of that."""
        if role not in self.rows:
            offsets, readings = self.tables.offsets(self.where[role].loops[-1]), self.readings
            own = [offsets[number] + readings[number].own[at] for number, at in self.occurrences[role]]
            self.rows[role] = np.concatenate(own)
        return self.rows[role]

    def _law(self, what: str, wanted: Ints, table: Table) -> Expression:
        found = levels.find(wanted, table, self.known)
        if found is None:
            found, self.lost[what] = levels.guess(wanted, table, self.known.work)
        return found

    def _numbers(self, role: int, wanted: Mapping[str, Ints], table: Table, cases: int, *, settled: bool) -> None:
        """Laws of the numbers of a role: of what stands outside of it, else of those of its numbers that have one. Of
        those that have none without cases, first what nodes inside add up to; by case of that, if it is settled."""
        found, known = self.numbers.setdefault(role, {}), {*self.numbers.get(role, ())}
        found |= self._first_marks(role, [name for name in wanted if name not in found], wanted, table)
        if cases:
            self._summed(levels.of_totals, found, wanted, table)
            if size := self._size(role):
                self._ahead(found, wanted, table, size)
                if (role, settled) not in self.looked_ahead:
                    ahead = partial(totals_ahead, size=size, limits=self._limits())
                    self._summed(ahead, found, wanted, table)
                    self.looked_ahead.add((role, settled))
        if cases and settled:
            self._summed(self._like_others, found, wanted, table)
        for name in [name for name in wanted if name not in found]:
            law = None if cases else levels.find(wanted[name], table, self.known, 0)
            law = law or self._as_of_others(name, wanted[name], table)
            if law is None and cases:
                law = levels.find(wanted[name], table, self.known, cases)
            if law is not None:
                found[name] = law
                self._tell_others(name, law)
        self._inner(found, wanted, table, cases)
        if role not in self.unsure:
            sized = [name for name in found if name not in self.counters and np.ptp(wanted[name])]
            self.totals.add(role, [name for name in sized if name not in known])

    def _first_marks(
        self, role: int, names: Sequence[str], wanted: Mapping[str, Ints], table: Table
    ) -> dict[str, Expression]:
        """Laws of numbers that are what the first iteration of a loop inside says of which it is."""
        found: dict[str, Expression] = {}
        columns, own = table.columns(2), self.where[role].loops[-1]
        for loop in (loop for loop, around in self.inner.items() if around[-1] == own):
            count = self.counts[loop]
            first = {f"index of {loop}": ["const", 0, 1], f"count of {loop}": count,
                     f"behind in {loop}": ["-", count, ["const", 1, 1]]}  # fmt: skip
            for law in (expressions.put(mark, first) for mark in self.marks[loop]):
                if expressions.names(law) <= {*columns}:
                    made = expressions.value(law, columns, len(table.job))
                    found |= {name: law for name in names if np.ptp(made) and (wanted[name] == made).all()}
        return found

    def _ahead(self, found: dict[str, Expression], wanted: Mapping[str, Ints], table: Table, size: str) -> None:
        """Laws of numbers of nodes that stand ahead of others whose sums have laws."""
        others = [law for laws in self.sums.values() for law in laws]
        self._summed(partial(as_ahead, others=others, size=size), found, wanted, table)

    def _as_later_ones(self, role: int) -> None:
        """Laws of numbers of a role by those of sums that were found after they were looked for, in place of numbers by
        case, too."""
        found, wanted, table = self.numbers[role], self._wanted(role), self._own_table(role)
        if size := self._size(role):
            cases = {name: found.pop(name) for name in [*found] if expressions.chooses(found[name])}
            self._ahead(found, wanted, table, size)
            self.numbers[role] = found = cases | found
        for law in self.sums[self.where[role].loops]:
            self._summed(partial(by_its_cases, law=law), found, wanted, table)

    def _limits(self) -> list[Limit]:
        """What laws of sums ask for."""
        every = (*self.sums.values(), *(meter.laws() for meter in self.meters))
        return expressions.all_limits(law for laws in every for law in laws)

    def _size(self, role: int) -> str:
        """The column of how large the group of a role is, "" where it has none."""
        said = (f"size in {value}" for name, _, value in self.roles[role].attributes if name == "pg_name")
        return next(said, "")

    def _summed(self, search: Summed, found: dict[str, Expression], wanted: Mapping[str, Ints], table: Table) -> None:
        """Laws of numbers that a search for sums gives, of those that are in proportion once, and of what follows."""
        tried = set[bytes]()
        for name in [name for name in wanted if name not in found]:
            alike = (wanted[name] // max(int(np.gcd.reduce(wanted[name])), 1)).tobytes()
            self.known.work.begin()
            law = None if name in found or alike in tried else search(wanted[name], table, self.known)
            tried.add(alike)
            if law is not None:
                found[name] = law
                self.sums[table.inside.loops if table.inside else ()].append(law)
                self._inner(found, wanted, table, 0)

    def _like_others(self, wanted: Ints, table: Table, known: Known) -> Expression | None:
        """A law of the terms of others' sums, else of what nodes inside add up to by case."""
        others = self.sums[table.inside.loops if table.inside else ()][:OTHERS]
        limits = self._limits()
        bare, shared = (partial(totals_by_case, shared=held) for held in (False, True))
        for search in (bare, *(partial(like_another, law=law, limits=limits) for law in others), shared):
            known.work.begin()
            if found := search(wanted, table, known):
                return found
        return None

    def _inner(self, found: dict[str, Expression], wanted: Mapping[str, Ints], table: Table, cases: int) -> None:
        """Laws of numbers that follow from others of the same nodes, what jobs say alone by case of parameters, too."""
        of_jobs = {name for name in wanted if name not in found and levels.level_of(wanted[name], table) == 0}
        choices = {name: own for name, own in table.levels[0].items() if of_jobs and len(np.unique(own)) <= CHOICES}
        solved = True
        while solved and (left := [name for name in wanted if name not in found]):
            told_by: tuple[dict[str, Ints], ...] = ({**choices}, {}, _of_meters(table))
            for name in found:
                told_by[levels.level_of(wanted[name], table)][f"own {name}"] = wanted[name]
            inside = Table(table.job, table.rank, (told_by[0], told_by[1], told_by[2]))
            depth = {name: CASES if name in of_jobs else cases for name in left}
            more = {name: self._as_of_others(name, wanted[name], inside)
                    or levels.find(wanted[name], inside, self.known, depth[name]) for name in left}  # fmt: skip
            new = {name: law for name, law in more.items() if law is not None}
            for name, law in new.items():
                self._tell_others(name, law)
            solved = bool(new)
            found |= new

    def _tell_others(self, name: str, law: Expression) -> None:
        """A law that numbers of this name may have of other kinds of nodes, too."""
        if law[0] == "sum" and law not in self.own[name]:
            self.own[name].append(law)

    def _as_of_others(self, name: str, wanted: Ints, table: Table) -> Expression | None:
        """The first law of this number of other kinds of nodes that gives it, if it is not by chance."""
        if not self.own[name] or len(np.unique(wanted)) < SURE:
            return None
        every = Examples(wanted, table.columns(2))
        few = every.some(spread(wanted, PROBES))
        self.known.work.spend(len(few) * len(self.own[name]))
        return next((law for law in self.own[name] if expressions.names(law) <= {*every.columns}
                     and few.given_by(law).all() and every.given_by(law).all()), None)  # fmt: skip

    def _meter(self, loop: int) -> bool:
        """What adds up along a loop, if kinds of nodes in it come by no other law; the laws that then hold. Whether
        there is any."""
        within = {role for role in self.occurrences if self.where[role].loops[-1] == loop}
        likes = defaultdict[frozenset[str], set[Any]](set)
        for role in within & self.unsure:
            likes[frozenset(self.roles[role].numbers())].add(self.roles[role].attributes)
        return any(
            self._meter_of(loop, within, like) for _, like in sorted(likes.items(), key=lambda each: sorted(each[0]))
        )

    def _meter_of(self, loop: int, within: Set[int], like: Set[Any]) -> bool:
        """The same, of kinds of nodes with these attributes."""
        near = [role for role in self.occurrences if self.roles[role].attributes in like]
        names = set.intersection(*({*self.roles[role].numbers()} for role in near))
        path = (*self.inner[loop], loop)
        own, around = self.tables.of(path), self.tables.of(path[:-1])
        tried = [chosen for some in dict.fromkeys((frozenset(within & {*near}), frozenset(within & self.unsure)))
                 for chosen in self._together(some, like)]  # fmt: skip
        others = self._jobs_apart(within, like)
        out, no_run = (np.isin(table.job, others) for table in (own, around))
        beside = [run for run in self._beside(near, path[:-1]) if not no_run[run]]
        for name, chosen in product(sorted(names), tried):
            pieces = [self._pieces(loop, kind, name).without(out) for kind in chosen]
            early = np.where(no_run, 0, self._early(path, chosen, name))
            made = meter_of(len(self.meters), loop, pieces, own, around, self.known, beside, early)
            if made is not None:
                return self._gains(made, path, [role for role in near if self.where[role].loops[-1] in path])
        return False

    def _gains(self, meter: Meter, path: tuple[int, ...], near: Sequence[int]) -> bool:
        """Whether any of the roles ``near`` a meter comes by a law with it; if not, it was found by chance and is not
        kept."""
        self._tell(meter, path)
        before = self.unsure & {*near}
        for role in near:
            if role in before:
                self._comes(role, metered=True)
        if self.unsure >= before:
            self.meters.pop()
            for columns in self.tables.more.values():
                for name in [name for name in columns if name.endswith(f"{METERED}{meter.number}")]:
                    del columns[name]
            return False
        for role in near:
            if role not in before:
                self._comes_metered(role)
        self.sums[path][:0] = meter.sums()
        return True

    def _jobs_apart(self, within: Set[int], like: Set[Any]) -> list[int]:
        """Jobs in which other nodes of the same names come by a law: there nothing adds up."""
        names = {self.roles[role].name for role in within & self.unsure}
        told = [role for role in within - self.unsure
                if self.roles[role].name in names and self.roles[role].attributes not in like]  # fmt: skip
        return sorted({self.readings[number].rank.job for role in told for number, _ in self.occurrences[role]})

    def _together(self, roles: Set[int], like: Set[Any]) -> list[tuple[list[int], ...]]:
        """Kinds of nodes that may be of what adds up together: two of those with these attributes, or one."""
        kinds = [[role for role in sorted(roles) if self.roles[role].attributes == each]
                 for each in sorted(like, key=str)]  # fmt: skip
        return [*(combinations(kinds, 2) if len(kinds) <= MOST_KINDS else ()), *((kind,) for kind in kinds)]

    def _comes_metered(self, role: int) -> None:
        """A role whose coming has a law comes by what adds up, if a law of that gives it, too, and does not ask for
        where the role comes itself."""
        table = self.tables.of(self.where[role].loops)
        first, second, third = table.levels
        bare = replace(table, levels=(first, second, {n: column for n, column in third.items() if not summand(n)}))
        law = levels.find_metered(self._presence(role), bare, self.known)
        if law is not None and role not in self._roles_behind(law):
            self.present[role] = law

    def _roles_behind(self, law: Expression) -> set[int]:
        """The roles whose coming a law asks for, and what it asks for, and so on."""
        found: set[int] = set()
        names, met = expressions.names(law), set[str]()
        while names:
            met |= names
            of_sums = {of.role for name in names if (of := summand(name))}
            laws = [
                law for role in of_sums - found for law in (self.present[role], *self.numbers.get(role, {}).values())
            ]
            laws += [law for name in names if METERED in name for law in self.meters[int(name.split()[-1])].laws()]
            found |= of_sums
            names = set[str]().union(*map(expressions.names, laws)) - met
        return found

    def _beside(self, roles: Sequence[int], path: tuple[int, ...]) -> list[int]:
        """The last iteration of the last of these loops in each iteration of those around it, or of itself, that has
        one of these roles by itself."""
        found: set[int] = set()
        for role in roles:
            around = self.where[role].loops
            if around != path[: len(around)]:
                continue
            runs = np.arange(len(self.tables.of(path).job))
            for outer, inner in reversed([*pairwise(path[len(around) - 1 :])]):
                runs = self.tables.parents(inner, outer)[runs]
            rows = self._own(role)
            last = np.searchsorted(runs, rows, side="right") - 1
            found |= {*last[runs[last] == rows].tolist()}
        return sorted(found)

    def _early(self, path: tuple[int, ...], kinds: Sequence[Sequence[int]], name: str) -> Ints:
        """What nodes of these kinds say in iterations of the loop around the last of these before that."""
        (first, *_), *_ = kinds
        attributes = {self.roles[each[0]].attributes for each in kinds}
        before = [
            role for role, place in self.where.items()
            if place.loops == path[:-1] and self.roles[role].attributes in attributes
            and place.at[-1] < self.where[first].at[len(path) - 2] and name in self.roles[role].numbers()
        ]  # fmt: skip
        found = np.zeros(int(self.tables.offsets(path[-2])[-1]), np.int64)
        for role in before:
            found += self._spread(role, self._wanted(role)[name])
        return found

    def _tell(self, meter: Meter | Bucket, path: tuple[int, ...]) -> None:
        """Columns of a meter, for the last of these loops and for those around it."""
        self.meters.append(meter)
        parent = self.tables.parents(path[-1], path[-2])
        own, around = (self.tables.of(loops) for loops in (path, path[:-1]))
        laws = meter.laws()
        first, second = meter.columns(own.asked(*laws), around.asked(*laws), parent, len(around.job))
        self.tables.more[path[-1]] |= first
        for at in range(len(path) - 2, -1, -1):
            self.tables.more[path[at]] |= second
            if at:
                rows = len(self.tables.of(path[:at]).job)
                second = summed(second, self.tables.parents(path[at], path[at - 1]), rows)

    def _pieces(self, loop: int, roles: Sequence[int], name: str) -> Pieces:
        """What nodes of these kinds say in each iteration of a loop, one place after another: a kind has another place
        than those before it if it ever comes in an iteration with one of them."""
        places: list[Ints] = []
        taken = np.zeros(0, np.int64)
        for role in sorted(roles, key=lambda role: self.where[role].at[-1]):
            here, said = self._presence(role), self._spread(role, self._wanted(role)[name])
            if places and not (taken & here).any():
                places[-1] += said
                taken |= here
            else:
                places.append(said)
                taken = here
        parent = np.repeat(self.tables.parents(loop, self.inner[loop][-1]), len(places))
        return Pieces(np.stack(places, axis=1).ravel(), parent, len(places))

    def _spread(self, role: int, wanted: Ints) -> Ints:
        here = self._presence(role)
        here[np.flatnonzero(here)] = wanted
        return here

    def by_few(self) -> tuple[str, ...]:
        """What has laws that few examples say."""
        return tuple(what for what, law, wanted, table, own in self._laws()
                     if what not in self.lost and by_few_examples(law, wanted, table, own))  # fmt: skip

    def _laws(self) -> Iterator[tuple[str, Expression, Ints, Table, dict[str, Ints]]]:
        """What has a law, this, what it gives, and the columns it is of."""
        for loop, law in self.counts.items():
            around = self.inner[loop]
            yield f"count of loop {loop}", law, counts_of(self.readings, loop, around[-1]), self.tables.of(around), {}
        for role, law in self.present.items():
            yield self._coming(role), law, self._presence(role), self.tables.of(self.where[role].loops), {}
        for role, laws in self.numbers.items():
            numbers, part = self._wanted(role), self._own_table(role)
            own = {f"own {name}": column for name, column in numbers.items()}
            for name, law in laws.items():
                yield f"{self.titles[role]}: {name}", law, numbers[name], part, own

    def metadata(self) -> tuple[list[tuple[tuple[str, int, object], list[Expression]]], tuple[str, ...]]:
        """What the metadata of all traces say alike but for numbers, with the laws of these, and what has none."""
        found, left_out = [], []
        table, self.known.work.most = self.tables.ranks(), LITTLE
        for said in self.readings[0].rank.said:
            if not all(said in reading.rank.said for reading in self.readings):
                continue
            laws = [levels.find(np.array([reading.rank.numbers[name] for reading in self.readings], np.int64), table,
                                self.known, 0) for name in number_names(said)]  # fmt: skip
            if None in laws:
                left_out.append(said[0])
            else:
                found.append((said, [law for law in laws if law is not None]))
        return found, tuple(left_out)


def _not_alone(size: str, law: Expression) -> Expression:
    """The law of what comes where a group, whose ``size`` is a column, has more than one rank."""
    return ["if", [size, "==", "", 1], _NEVER, law]


def _of_meters(table: Table) -> dict[str, Ints]:
    return {name: column for name, column in table.levels[2].items() if " of meter " in name}


def _occurrences(readings: Sequence[Reading]) -> dict[int, list[tuple[int, Ints]]]:
    """By role: the readings that have it, and its nodes there."""
    found: dict[int, list[tuple[int, Ints]]] = defaultdict(list)
    for number, reading in enumerate(readings):
        own = np.array(reading.rank.nodes.role, np.int64)
        order = np.argsort(own, kind="stable")
        begins = np.flatnonzero(np.diff(own[order], prepend=-1))
        for nodes in np.split(order, begins[1:]) if len(own) else []:
            found[int(own[nodes[0]])].append((number, nodes))
    return found
