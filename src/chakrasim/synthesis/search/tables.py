"""What is known of every iteration of every loop, over all jobs: the examples in which laws are looked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from chakrasim.synthesis.columns import marks_in, missing, path_columns
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.loops import ROOT
from chakrasim.synthesis.read import Reading, rank_names
from chakrasim.synthesis.search.levels import Table
from chakrasim.synthesis.search.totals import Inside, Totals


class Tables:
    """Columns of every loop's iterations, over all readings."""

    def __init__(self, readings: Sequence[Reading], jobs: Sequence[Mapping[str, int]]) -> None:
        self.readings = readings
        self.jobs = jobs
        self.made: dict[tuple[int, ...], Table] = {}
        self.around: dict[int, Ints] = {}
        self.begins: dict[int, Ints] = {}
        self.more: dict[int, dict[str, Ints]] = defaultdict(dict)
        """Of meters, by loop."""
        self.totals: Totals | None = None
        self.rank_names = rank_names([reading.rank.columns for reading in readings])

    def job_columns(self) -> dict[str, Ints]:
        """The parameters, by job."""
        return {name: np.array([own[name] for own in self.jobs], np.int64) for name in self.jobs[0]}

    def ranks(self) -> Table:
        """One row a trace."""
        return self.of((ROOT,))

    def of(self, loops: tuple[int, ...]) -> Table:
        """For each iteration of the last of these loops, the others being those around it from the outermost on."""
        if loops not in self.made:
            self.made[loops] = self._make(loops)
        made = self.made[loops]
        first, second, third = made.levels
        inside = None if self.totals is None else Inside(self.totals, loops)
        return Table(made.job, made.rank, (first, second, {**third, **self._more(loops)}), inside)

    def _more(self, loops: tuple[int, ...]) -> dict[str, Ints]:
        """What was told of the iterations of the last of these loops, and what those around them say."""
        if len(loops) < 2 or not any(self.more[loop] for loop in loops[:-1]):
            return self.more[loops[-1]]
        parent = self.parents(loops[-1], loops[-2])
        return marks_in(self._more(loops[:-1]), parent) | self.more[loops[-1]]

    def offsets(self, loop: int) -> Ints:
        """int64[readings + 1]: where the iterations of a loop begin."""
        if loop not in self.begins:
            self.begins[loop] = np.cumsum([0, *(len(reading.iterations[loop]) for reading in self.readings)])
        return self.begins[loop]

    def parents(self, loop: int, around: int) -> Ints:
        """int64[n]: of each iteration of a loop that of the one around it, by place in the table of that."""
        if loop not in self.around:
            parents = [np.array(reading.iterations[loop].parent, np.int64) for reading in self.readings]
            offsets = self.offsets(around).tolist()
            self.around[loop] = np.concatenate([own + at for own, at in zip(parents, offsets, strict=False)])
        return self.around[loop]

    def _make(self, loops: tuple[int, ...]) -> Table:
        job, rank, rows = [], [], []
        for number, reading in enumerate(self.readings):
            count = len(reading.iterations[loops[-1]])
            job.append(np.full(count, reading.rank.job))
            rank.append(np.full(count, number))
            rows.append(path_columns([reading.iterations[loop] for loop in loops], loops))
        jobs, ranks = np.concatenate(job), np.concatenate(rank)
        first = {name: np.array([own[name] for own in self.jobs], np.int64)[jobs] for name in self.jobs[0]}
        second = {
            name: np.array([reading.rank.columns.get(name, missing(name)) for reading in self.readings], np.int64)[
                ranks
            ]
            for name in self.rank_names
        }
        third = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
        return Table(jobs, ranks, (first, second, third))


def counts_of(readings: Sequence[Reading], loop: int, around: int) -> Ints:
    """int64[n]: how many iterations a loop has in each of the one ``around``."""
    return np.concatenate([
        np.bincount(np.array(reading.iterations[loop].parent, np.int64), minlength=len(reading.iterations[around]))
        for reading in readings
    ]).astype(np.int64)  # fmt: skip
