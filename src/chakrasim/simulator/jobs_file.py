"""Several jobs and where they run, as a file says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.kinds import switch, text, version, whole
from chakrasim.config.section import TIME_MAX, Section, Source, open_section, resolve
from chakrasim.config.table import REQUIRED, Key, Kind, Values, list_of, names, read
from chakrasim.config.units import TIME, whole_quantity
from chakrasim.config.values import as_sequence
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.simulator.jobs import PlacedJob, check_placement
from chakrasim.simulator.lowering.workload import load_workload, workload_exists

Ints = NDArray[np.int64]
MOST_JOBS: Final = 10_000


def _place(section: Section, key: str) -> object:
    """``packed``, ``spread``, a seed for random ranks, or the ranks themselves."""
    value = section.entries[key]
    listed = as_sequence(value)
    if listed is not None:
        items = section.listing(key, "ranks of the machine")
        return np.array([whole(0).read(items, index) for index in items.entries], np.int64)
    if isinstance(value, dict) or hasattr(value, "keys"):
        return int(whole(0).read(section.strictly_below(key, ("random",)), "random"))
    word = text.read(section, key)
    if word not in ("packed", "spread"):
        section.refuse(key, "unknown placement", "packed, spread, {random: SEED}, or a list of ranks")
    return word


PLACE: Final = Kind(_place, "`packed`, `spread`, `{random: SEED}`, or a list of ranks", {})
JOB: Final = (
    Key("name", text, REQUIRED, "for people, each once"),
    Key("trace", text, REQUIRED, "prefix of the job's traces; from the current directory, or beside this file"),
    Key("ranks", whole(1), None, "how many run the trace, where one is for all"),
    Key("place", PLACE, "packed", "which ranks of the machine run it: the lowest that are free; one of each island in "
        "turn; free ones by chance; or these"),
    Key("islands", switch, False, "`packed` and random: begin on an island that is free as a whole", "whole_islands"),
    Key("start", whole_quantity(TIME, "ns", '"3 ms"', TIME_MAX - 1, "time, whole ns"), 0, "when it starts", "start_ns"),
)  # fmt: skip
JOBS: Final = (
    Key("format", version, 1, "version of this format"),
    Key("jobs", list_of(JOB, "a list of jobs", "jobs"), REQUIRED, "placed in this order"),
)  # fmt: skip


def load_jobs(
    source: Source | Sequence[PlacedJob],
    machine_ranks: int,
    islands: NDArray[np.int32] | None,
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
    islands:
        int32[machine_ranks]: the board, box or server of each rank; None where there are none.

    Raises :class:`chakrasim.InputError`, also for jobs that do not fit or would share a rank.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        jobs = list(source)
    else:
        section = open_section(source, "jobs file", "yaml", notes)
        section.refuse_unknown(names(JOBS))
        jobs = _placed(section, machine_ranks, islands, notes, lenient, max_bytes)
    check_placement(jobs, machine_ranks)
    return jobs


def _placed(
    section: Section,
    machine_ranks: int,
    islands: NDArray[np.int32] | None,
    notes: Notes,
    lenient: bool,
    max_bytes: int | None,
) -> list[PlacedJob]:
    entries = read(section, JOBS)["jobs"]
    items = section.listing("jobs", "a list of jobs")
    free = np.ones(machine_ranks, np.bool_)
    given = [values["place"] for values in entries if isinstance(values["place"], np.ndarray)]
    for ranks in given:
        free[ranks[ranks < machine_ranks]] = False
    jobs: list[PlacedJob] = []
    for i, values in enumerate(entries):
        if any(values["name"] == job.name for job in jobs):
            items.fail((i, "name"), "two jobs have one name", found=values["name"])
        prefix = resolve(values["trace"], section.folder, workload_exists)
        job = load_workload(prefix, values["ranks"], lenient, notes, max_bytes=max_bytes)
        try:
            ranks = _choose(values, job.ranks, free, islands)
        except InputError as error:
            items.fail((i, "place"), error.message, found=error.found, expected=error.expected or "")
        free[ranks[ranks < machine_ranks]] = False
        jobs.append(PlacedJob(values["name"], job, ranks, values["start_ns"]))
    return jobs


def _choose(values: Values, count: int, free: NDArray[np.bool_], islands: NDArray[np.int32] | None) -> Ints:
    """The ranks of a job of ``count``. Raises InputError where there are not as many."""
    place = values["place"]
    if isinstance(place, np.ndarray):
        return place
    left = np.flatnonzero(free)
    if values["whole_islands"] and islands is not None:
        taken = np.unique(islands[~free])
        left = left[~np.isin(islands[left], taken)]
    if left.size < count:
        raise InputError("the job does not fit", found=f"{left.size} free ranks", expected=f"{count}")
    if place == "packed":
        return left[:count]
    if place == "spread":
        if islands is None:
            return left[:count]
        turn = np.zeros(left.size, np.int64)
        for island in np.unique(islands[left]):
            own = np.flatnonzero(islands[left] == island)
            turn[own] = np.arange(own.size)
        return left[np.lexsort((left, turn))][:count]
    return _at_random(int(place), left, count, islands if values["whole_islands"] else None)


def _at_random(seed: int, left: Ints, count: int, islands: NDArray[np.int32] | None) -> Ints:
    """Free ranks in the order of a seeded permutation, of whole islands where these are given."""
    chance = np.random.Generator(np.random.PCG64(seed))
    if islands is None:
        return chance.permutation(left)[:count]
    order = chance.permutation(np.unique(islands[left]))
    position = {int(island): i for i, island in enumerate(order)}
    return left[np.argsort([position[int(island)] for island in islands[left]], kind="stable")][:count]
