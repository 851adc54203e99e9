"""Several jobs and where they run, as a file says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import exists
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.kinds import choice, path, text, version, whole
from chakrasim.config.section import TIME_MAX, Section, Source, open_section, resolve
from chakrasim.config.table import REQUIRED, Key, Kind, Values, list_of, names, read
from chakrasim.config.units import TIME, whole_quantity
from chakrasim.config.values import as_sequence
from chakrasim.errors import InputError
from chakrasim.machine import load_groups
from chakrasim.notes import Notes
from chakrasim.simulator.jobs import PlacedJob, check_placement
from chakrasim.simulator.lowering.workload import load_workload, workload_exists
from chakrasim.trace import Job

Ints = NDArray[np.int64]


def _place(section: Section, key: str) -> object:
    """``packed``, ``spread``, a seed for random ranks, or the ranks themselves."""
    value = section.entries[key]
    listed = as_sequence(value)
    if listed is not None:
        items = section.listing(key, "ranks of the machine")
        return np.array([whole(0).read(items, index) for index in items.entries], np.int64)
    if isinstance(value, Mapping):
        drawn = section.strictly_below(key, ("random",))
        if "random" not in drawn:
            drawn.fail("random", "the key is missing", expected="a seed")
        return int(whole(0).read(drawn, "random"))
    word = text.read(section, key)
    if word not in ("packed", "spread"):
        section.refuse(key, "unknown placement", "packed, spread, {random: SEED}, or a list of ranks")
    return word


PLACE: Final = Kind(_place, "`packed`, `spread`, `{random: SEED}`, or a list of ranks", {})
JOB: Final = (
    Key("name", text, REQUIRED, "for people, each once"),
    Key("trace", text, REQUIRED, "prefix of the job's traces; from the current directory, or beside this file"),
    Key("ranks", whole(1), None, "how many run the trace, where one is for all"),
    Key("comm-group", path(exists), None, "communicator groups of the traces, by the job's own ranks; likewise"),
    Key("place", PLACE, "packed", "which ranks of the machine run it: the lowest that are free; one of each island (or "
        "leaf, where there are no islands) in turn; free ones by chance; or these"),
    Key("islands", choice(("any", "whole")), "any", "`whole`: take ranks of islands only where nobody else is"),
    Key("start", whole_quantity(TIME, "ns", '"3 ms"', TIME_MAX - 1, "time, whole ns"), 0, "when it starts", "start_ns"),
)  # fmt: skip
JOBS: Final = (
    Key("format", version, 1, "version of this format"),
    Key("jobs", list_of(JOB, "a list of jobs", "jobs"), REQUIRED, "placed in this order; lists of ranks come first"),
)  # fmt: skip


def load_jobs(
    source: Source | Sequence[PlacedJob],
    places: NDArray[np.int32],
    notes: Notes,
    *,
    lenient: bool = False,
    max_bytes: int | None = None,
) -> list[PlacedJob]:
    """Read several jobs and place them on the ranks of a machine.

    Parameters
    ----------
    source:
        A path, the mapping such a file holds, or jobs that are placed.
    places:
        int32[ranks of the machine]: the island, or leaf, of each (`Machine.places`).

    Raises :class:`chakrasim.InputError`, also for jobs that do not fit or would share a rank.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        owner: dict[int, str] = {}
        for job in source:
            check_placement(job, places.size, owner)
        return list(source)
    section = open_section(source, "jobs file", "yaml", notes)
    section.refuse_unknown(names(JOBS))
    return _Placing(section, places, notes, lenient, max_bytes).jobs


class _Placing:
    """The jobs of a file, one after another."""

    def __init__(
        self, section: Section, places: NDArray[np.int32], notes: Notes, lenient: bool, max_bytes: int | None
    ) -> None:
        entries = read(section, JOBS)["jobs"]
        self._items, self._places = section.listing("jobs", "a list of jobs"), places
        self._reading: dict[str, Any] = {"lenient": lenient, "notes": notes, "max_bytes": max_bytes}
        self._loaded: dict[tuple[str, int | None], Job] = {}
        self._free = np.ones(places.size, np.bool_)
        for values in entries:
            if isinstance(values["place"], np.ndarray):
                self._free[values["place"][values["place"] < places.size]] = False
        self.jobs: list[PlacedJob] = []
        owner: dict[int, str] = {}
        for i, values in enumerate(entries):
            job = self._placed(i, values)
            try:
                check_placement(job, places.size, owner)
            except InputError as error:
                self._refuse((i, "place"), error)
            self._free[job.ranks] = False
            self.jobs.append(job)

    def _refuse(self, key: tuple[int, str], error: InputError) -> NoReturn:
        """Say what is wrong with an entry, and where it stands."""
        self._items.fail(key, error.message, expected=error.expected or "", remedy=error.remedy or "")

    def _placed(self, i: int, values: Values) -> PlacedJob:
        name = values["name"]
        if not name or any(name == job.name for job in self.jobs):
            what = "two jobs have one name" if name else "no name"
            self._items.fail((i, "name"), what, found=name, expected="a name of its own")
        job = self._load(i, values)
        if values["ranks"] not in (None, job.ranks):
            what = f"{values['ranks']} ranks are asked for, but the traces are of {job.ranks}"
            self._items.fail((i, "ranks"), what, remedy="leave ranks out")
        groups = load_groups(values["comm_group"], self._reading["notes"])
        groups.check_ranks(job.ranks)
        return PlacedJob(name, job, self._choose(i, values, job.ranks), values["start_ns"], groups.members)

    def _load(self, i: int, values: Values) -> Job:
        """The job's traces; jobs of the same traces share them."""
        prefix = resolve(values["trace"], self._items.folder, workload_exists)
        key = (prefix, values["ranks"])
        if key not in self._loaded:
            try:
                self._loaded[key] = load_workload(prefix, values["ranks"], **self._reading)
            except InputError as error:
                if workload_exists(prefix):
                    raise
                self._refuse((i, "trace"), error)
        return self._loaded[key]

    def _choose(self, i: int, values: Values, count: int) -> Ints:
        """The ranks of the machine for a job of ``count``."""
        place = values["place"]
        if isinstance(place, np.ndarray):
            return place
        left, places = np.flatnonzero(self._free), self._places
        whole_islands = values["islands"] == "whole"
        if whole_islands:
            left = left[~np.isin(places[left], places[~self._free])]
        if left.size < count:
            free = f"{left.size} of the machine's {places.size}" + " (on islands of their own)" * whole_islands
            self._items.fail((i, "place"), f"the job does not fit: it has {count} ranks, and {free} are free")
        if place == "packed":
            return left[:count]
        _, island = np.unique(places[left], return_inverse=True)
        if place == "spread":
            by_island, sizes = np.argsort(island, kind="stable"), np.bincount(island)
            turn = np.zeros(left.size, np.int64)
            turn[by_island] = np.arange(left.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        else:
            chance = np.random.Generator(np.random.PCG64(place))
            turn = chance.permutation(int(island.max()) + 1)[island] if whole_islands else chance.permutation(left.size)
        return left[np.argsort(turn, kind="stable")][:count]
