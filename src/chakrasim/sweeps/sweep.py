"""``chakrasim.sweep``: every point by arithmetic; the front, and some others drawn by chance, by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.estimation.request import Request, entries_of
from chakrasim.files.picture import Plotted
from chakrasim.files.workers import run_all
from chakrasim.progress import Progress
from chakrasim.startup import cores
from chakrasim.sweeps.cluster import run_on
from chakrasim.sweeps.conditions import Condition
from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.points import (
    ENGINE,
    NOT_TRIED,
    OK,
    Outcome,
    all_by_arithmetic,
    all_by_engine,
    by_reason,
    known,
    refused_at_once,
)
from chakrasim.sweeps.search import METHODS, OWN, search_of
from chakrasim.sweeps.sensitivity import Change, Elasticity, beside, changes, elasticities, knees
from chakrasim.sweeps.space import Point, Space, is_setting, read_space
from chakrasim.sweeps.store import FIGURES, Store

if TYPE_CHECKING:
    import pandas as pd

Workers = Callable[[Any, Sequence[Any]], Iterator[Any]]
"""What does work for each of some things, in order."""
Evaluate = Callable[[Sequence[Point], tuple[Condition, ...]], list[Outcome]]
CHUNK: Final = 64
"""Points that a process reckons at a time."""
LANES: Final = 512
LANES_CHUNK: Final = 1024
"""The same where settings of the machine vary, so many of which are reckoned at once."""
EXACT_CHUNK: Final = 1
SEARCHED_CHUNK: Final = 16
ALL_EXACT: Final = 32
"""Sweeps of no more points that go are simulated altogether."""
SAMPLED: Final = 0.01
MOST_GPUS: Final = 2048
"""Of points that are simulated: larger jobs take minutes each."""


@dataclass(frozen=True, eq=False)
class SweepResult(Plotted):
    """The outcome of ``chakrasim.sweep``.

    Attributes
    ----------
    space: what was gone through.
    outcomes: of each point, in the order of the product.
    front: the points that no other beats in all of ``space.front``; their figures are simulated, but those of more
        than `MOST_GPUS` GPUs.
    largest_difference: of arithmetic from simulation, as a share of the latter, over what was simulated; NaN where
        nothing was both.
    folder: where the tables are.
    """

    space: Space
    outcomes: tuple[Outcome, ...]
    front: tuple[int, ...]
    largest_difference: float
    folder: Path | None = None

    @property
    def refused(self) -> dict[str, int]:
        """How many points were refused, by reason, the most frequent first."""
        return by_reason(self.outcomes)

    @property
    def going(self) -> int:
        """How many points were not."""
        return sum(one.status == OK for one in self.outcomes)

    @property
    def untried(self) -> int:
        """How many points a search left out."""
        return sum(one is NOT_TRIED for one in self.outcomes)

    @property
    def simulated(self) -> int:
        """How many points have simulated figures."""
        return sum(one.by == ENGINE for one in self.outcomes)

    @property
    def best(self) -> int | None:
        """The fastest point; None where none goes."""
        return min(self.front, key=lambda row: (self.outcomes[row].step_s, row), default=None)

    @property
    def elasticities(self) -> tuple[Elasticity, ...]:
        """What the fastest point's time hangs on, by the points next to it."""
        return () if self.best is None else elasticities(self.space, self.outcomes, self.best)

    @property
    def knees(self) -> dict[str, int]:
        """Where the front of time and each other figure bends most."""
        return knees(self.space.front, self.outcomes, self.front)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What a tenth less time costs at the least, from the cheapest point."""
        return changes(self.space.front, self.outcomes, self.front)

    def point(self, row: int) -> Point:
        """The values of a point."""
        return self.space.point(row)

    def frame(self) -> pd.DataFrame:
        """A pandas frame: the varied keys, then the figures."""
        import pandas as pd

        rows = (
            [*(point[key] for key in self.space.vary), *(getattr(one, name) for name in FIGURES)]
            for point, one in zip(self.space.points(), self.outcomes, strict=True)
        )
        return pd.DataFrame(rows, columns=[*self.space.vary, *FIGURES])

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim sweep --json`` writes them."""
        return {
            "points": len(self.outcomes),
            "ok": self.going,
            **({"not_tried": self.untried} if self.untried else {}),
            "simulated": self.simulated,
            "largest_difference": known(self.largest_difference),
            "refused": self.refused,
            "best": None if self.best is None else self._row(self.best),
            "front": [self._row(row) for row in self.front],
            "elasticities": [
                {"key": one.key, "power": one.power, "low": self._row(one.low), "high": self._row(one.high)}
                for one in self.elasticities
            ],
            "knees": {axis: self._row(row) for axis, row in self.knees.items()},
            "changes": [
                {"cost": one.cost, "base": self._row(one.base), "to": self._row(one.to)} for one in self.changes
            ],
        }

    def _row(self, row: int) -> dict[str, Any]:
        point = self.point(row)
        return {**{key: point[key] for key in self.space.vary}, **self.outcomes[row].to_dict()}

    def _in_short(self) -> dict[str, str]:
        return {
            "points": f"{len(self.outcomes):,}",
            "that go": f"{self.going:,}",
            "front": str(len(self.front)),
        }


def sweep(
    source: Any, folder: str | Path | None = None, *, resume: bool = False, jobs: int | None = None,
    cluster: str | None = None, search: bool | str = False, runs: int | None = None, progress: Progress | None = None,
) -> SweepResult:  # fmt: skip
    """Go through a space of splits and machines.

    Parameters
    ----------
    source: a sweep's file, or the mapping that it holds: ``base``, ``vary``, ``where``, ``front``
        (docs/howto-sweep.md).
    folder: where the tables go: ``results.csv.gz``, ``front.csv``; and what lets a killed sweep go on. None: nowhere.
    resume: go on with what the folder has.
    jobs: processes; None: as many as there are cores.
    cluster: the address of a scheduler of Dask's instead, such as "tcp://host:8786".
    search: try few points, where those that were tried say that the front goes on; "optuna": where Optuna says.
    runs: how many points a search may try; None: a tenth of those that the conditions leave, 2,000 at most.

    Raises InputError for a model that is not known, a space that cannot be read or a folder with something else in it.
    """
    space = source if isinstance(source, Space) else read_space(source)
    for model in (space.base.get("model"), *space.vary.get("model", ())):
        if model is not None:
            entries_of(model, Request())
    method = search if isinstance(search, str) else OWN if search else ""
    if method not in ("", *METHODS):
        raise InputError("no such search", place="search", found=method, expected=", ".join(METHODS))
    if runs is not None and (not method or runs < 1):
        raise InputError("runs are those of a search", place="runs", found=runs, expected="1 or more, and a search")
    how = f"{method} {runs}" if method else ""
    store = Store(Path(folder), space, resume=resume, how=how) if folder is not None else None
    run = _Run(space, store, _workers(jobs, cluster), progress)
    try:
        if method:
            # A few at a time: other processes would not keep what they know of passes from one batch to the next.
            run.search(method, runs, _workers(1, cluster))
        else:
            run.every()
    except InputError:
        if store is not None:
            store.abandon()
        raise
    found = run.finish()
    if store is not None:
        store.finish(space, dict(enumerate(found.outcomes)), found.front)
    return found


def _workers(jobs: int | None, cluster: str | None) -> Workers:
    if cluster is not None:
        return partial(run_on, cluster)
    return partial(run_all, jobs=jobs or cores())


class _Run:
    """A sweep under way."""

    def __init__(self, space: Space, store: Store | None, workers: Workers, progress: Progress | None) -> None:
        self.space, self.store, self.workers, self.progress = space, store, workers, progress
        self.outcomes: dict[int, Outcome] = {}
        self.differences: list[float] = []

    def every(self) -> None:
        """Reckon all points."""
        self._run("arithmetic", _chunks(self.space), all_by_arithmetic)

    def search(self, method: str, runs: int | None, workers: Workers) -> None:
        """Reckon those that a search tries."""
        for row, point in enumerate(self.space.points()):
            self.outcomes[row] = refused_at_once(point, self.space.where) or NOT_TRIED
        rows = [row for row, one in self.outcomes.items() if one is NOT_TRIED]
        search, tried = search_of(method, self.space, rows, runs), dict[int, Outcome]()
        usual, self.workers = self.workers, workers
        while batch := search.next(tried):
            chunks = [batch[at : at + SEARCHED_CHUNK] for at in range(0, len(batch), SEARCHED_CHUNK)]
            self._run("search", chunks, all_by_arithmetic, before=len(tried), total=search.runs)
            tried |= {row: self.outcomes[row] for row in batch}
        self.workers = usual

    def finish(self) -> SweepResult:
        """Simulate the front, and some points beside it."""
        size = len(self.space)
        going = [row for row in range(size) if self.outcomes[row].status == OK]
        small = [row for row in going if self._simulable(row)]
        self._simulate(small if len(small) <= ALL_EXACT else _drawn(small))
        while True:
            front = self._front(going)
            best = min(front, key=lambda row: (self.outcomes[row].step_s, row), default=None)
            # What the best is compared with key by key is simulated as it is.
            near = () if best is None else chain(*beside(self.space, self.outcomes, best).values())
            wanted = dict.fromkeys([*front, *near])
            missing = [row for row in wanted if self._simulable(row) and self.outcomes[row].by != ENGINE]
            if not missing:
                break
            self._simulate(missing)
        worst = max(self.differences, default=math.nan)
        outcomes = tuple(self.outcomes[row] for row in range(size))
        return SweepResult(self.space, outcomes, tuple(front), worst, self.store.folder if self.store else None)

    def _simulable(self, row: int) -> bool:
        return self.outcomes[row].gpus <= MOST_GPUS

    def _front(self, going: Sequence[int]) -> list[int]:
        axes = [axis for axis in self.space.front if any(not math.isnan(self._of(row, axis)) for row in going)]
        figures = np.array([[self._of(row, axis) for axis in axes] for row in going]).reshape(len(going), len(axes))
        return [going[at] for at in front_of(figures).tolist()]

    def _of(self, row: int, axis: str) -> float:
        return float(getattr(self.outcomes[row], axis))

    def _simulate(self, rows: Sequence[int]) -> None:
        before = {row: self.outcomes[row].step_s for row in rows}
        chunks = [rows[at : at + EXACT_CHUNK] for at in range(0, len(rows), EXACT_CHUNK)]
        self._run("simulation", chunks, all_by_engine)
        self.differences += [abs(before[row] / self.outcomes[row].step_s - 1) for row in rows]

    def _run(
        self, what: str, chunks: Sequence[Sequence[int]], evaluate: Evaluate, before: int = 0, total: int | None = None
    ) -> None:
        """Outcomes of all points of the chunks: those that the folder has, then the others; ``before``: how many of
        ``total`` were done already."""
        left, done, total = [], before, total or sum(map(len, chunks))
        for chunk in chunks:
            kept = self.store.load(_name(what, chunk), chunk) if self.store is not None else None
            if kept is None:
                left.append(chunk)
            else:
                self.outcomes.update(zip(chunk, kept, strict=True))
                done += len(chunk)
        best_s = _fastest(self.outcomes.values())
        work = partial(_evaluate, self.space, evaluate)
        for chunk, outcomes in zip(left, self.workers(work, left), strict=True):
            if self.store is not None:
                self.store.save(_name(what, chunk), chunk, outcomes)
            self.outcomes.update(zip(chunk, outcomes, strict=True))
            done += len(chunk)
            best_s = min(best_s, _fastest(outcomes))
            if self.progress is not None:
                self.progress(done, total, f"{what}, best so far {best_s:.3f} s" if best_s < math.inf else what)


def _fastest(outcomes: Iterable[Outcome]) -> float:
    return min((one.step_s for one in outcomes if one.status == OK), default=math.inf)


def _chunks(space: Space) -> Sequence[Sequence[int]]:
    settings = any(is_setting(key) and len(values) > 1 for key, values in space.vary.items())
    return space.blocks(LANES, LANES_CHUNK if settings else CHUNK)


def _evaluate(space: Space, evaluate: Evaluate, chunk: Sequence[int]) -> list[Outcome]:
    return evaluate([space.point(row) for row in chunk], space.where)


def _name(what: str, chunk: Sequence[int]) -> str:
    return f"{what}-{chunk[0]:08d}-{len(chunk)}"


def _drawn(going: Sequence[int]) -> list[int]:
    """A hundredth of them, always the same."""
    count = max(math.ceil(SAMPLED * len(going)), 1)
    return sorted(random.Random(len(going)).sample(list(going), count))
