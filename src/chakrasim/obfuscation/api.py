"""``obfuscate``: jobs that can be shared, with what is guaranteed of them and what it costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from chakrasim.errors import InputError, near
from chakrasim.machine import load_device, load_machine
from chakrasim.notes import Notes, lists_too
from chakrasim.obfuscation.behaviour import Grid, only_behaviour
from chakrasim.obfuscation.inversion import SIZES, Inversion, inversion
from chakrasim.obfuscation.key import Pseudonyms, new_key
from chakrasim.obfuscation.motifs import only_motifs
from chakrasim.obfuscation.names import hide_in_trace, hide_names
from chakrasim.obfuscation.population.api import Guarantee, of_population
from chakrasim.obfuscation.population.budget import CHUNKS, DELTA, EPSILON
from chakrasim.obfuscation.population.parameters import stated
from chakrasim.obfuscation.price import MACHINES, Price, on_device, prices, some
from chakrasim.obfuscation.release import FOLDER, MODEL, ONE, Opened, PathLike, check_release, opened, write_release
from chakrasim.progress import Progress
from chakrasim.synthesis.api import synthesize
from chakrasim.synthesis.file import write_model
from chakrasim.synthesis.model import Learned
from chakrasim.text.shown import Shown
from chakrasim.trace.job.job import Job

T = TypeVar("T")

LEVELS: Final = ("names", "motifs", "behaviour", "population")
K: Final = 5
"""So many jobs have what is released of any at level motifs."""
RATIO: Final = 1.05
"""Of the grid that sizes and durations are rounded to."""


@dataclass(frozen=True, eq=False)
class Obfuscated(Shown):
    """What can be released.

    Attributes
    ----------
    level: of `LEVELS`; ``kind``: what was given: a trace, a job, or a folder of jobs.
    names: what each job of a folder is called in the release.
    jobs: what is released.
    price: the time of a step before and after, by machine.
    inversion: of level behaviour, by job, how many specs give the same release.
    model, guarantee: of level population, which releases a model of the jobs and none of them.
    notes: what is guaranteed, and what not.
    """

    level: str
    kind: str
    names: tuple[str, ...]
    jobs: tuple[Job, ...]
    price: tuple[Price, ...]
    inversion: tuple[Inversion, ...] = ()
    notes: tuple[str, ...] = ()
    model: Learned | None = None
    guarantee: Guarantee | None = None
    _inputs: tuple[str, ...] = field(default=(), repr=False)

    def write(self, path: PathLike, *, expand: bool = False) -> list[str]:
        """Write the release as `chakrasim obfuscate` does, whole or not at all; the names of its files. ``expand``: one
        trace per rank and a group file. Raises InputError."""
        self.check(path)
        if self.model is not None:
            write_model(path, self.model)
            return [os.fspath(path)]
        return write_release(path, self.kind, self.names, self.jobs, expand=expand)

    def check(self, path: PathLike) -> None:
        """Raise InputError for a place that the release cannot be written to."""
        check_release(path, MODEL if self.model else self.kind, self._inputs)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim obfuscate --json`` writes them. They are for the owner, not for the release."""
        return {
            "level": self.level,
            "kind": self.kind,
            "jobs": dict(zip(self.names, self._inputs, strict=False)),
            "nodes": sum(len(trace) for job in self.jobs for trace in job.traces),
            "price": [
                {"machine": one.machine, "before_ns": list(one.before_ns), "after_ns": list(one.after_ns),
                 "median_error": one.median_error, "interval": one.interval, "largest_error": one.largest_error,
                 "of": one.of, "fault": one.fault}
                for one in self.price
            ],
            "inversion": [one.to_json() for one in self.inversion],
            "guarantee": None if self.guarantee is None else asdict(self.guarantee),
            "notes": list(self.notes),
        }  # fmt: skip

    def _in_short(self) -> dict[str, str]:
        worst = max((abs(one.largest_error) for one in self.price), default=0.0)
        return {"level": self.level, "jobs": f"{len(self.jobs):,}", "largest error of a step": f"{worst:.2%}"}


@lists_too
def obfuscate(
    source: PathLike | Job | Sequence[Job],
    *,
    level: str,
    key: bytes | None = None,
    k: int = K,
    ratio: float = RATIO,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    chunks: int = CHUNKS,
    device: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    machines: Sequence[str] = MACHINES,
    lenient: bool = False,
    notes: Notes | None = None,
    progress: Progress | None = None,
) -> Obfuscated:
    """What can be shared of a trace, a job, or a folder of jobs, at a level: docs/howto-share-a-trace.md says what each
    guarantees, and against whom.

    Raises InputError for what cannot be read, and for jobs that a level cannot be made of.

    Parameters
    ----------
    source:
        A trace's file, a prefix of Chakra traces of all ranks, a folder of jobs, or jobs in memory.
    level:
        "names": pseudonyms for all names. "motifs": of a folder, what many jobs have in common.
        "behaviour": communication and computing times alone, rounded. "population": of a folder, a model with
        differential privacy for each job.
    key:
        Of the pseudonyms, 16 bytes or more. By default a random one that nobody keeps.
    k:
        So many jobs have what level motifs releases of any.
    ratio:
        Of the grid that level behaviour rounds to.
    epsilon, delta, chunks:
        Of level population: what one job may change, and in how many chunks programs are learned.
    device:
        What computations are timed on at level behaviour: a shipped device, or a profile; None: they have durations.
    machines:
        On which the price is found: boards, presets, machine files; none: no price.
    lenient, notes, progress:
        Of damaged traces use what is intact; receives warnings; told what is being done.
    """
    said = Notes() if notes is None else notes
    _check(level, machines)
    pseudonyms = Pseudonyms(new_key() if key is None else key)
    given = opened(source, lenient=lenient, notes=said)
    if given.kind == ONE:
        return _trace(given, level, pseudonyms, said)
    if level == "population":
        model, guarantee = _population(given, epsilon, delta, chunks, said, progress)
        price = _price_of_model(given.jobs, model, machines, said, progress)
        return Obfuscated(level, given.kind, (), (), price, (), (*said,), model, guarantee, given.names)
    if level == "names":
        made = _Made(given.jobs, [hide_names(job, pseudonyms) for job in given.jobs])
    else:
        made = _motifs(given, k, pseudonyms, said) if level == "motifs" else _behaviour(given, ratio, device, said)
    return _jobs(given, level, made, prices(made.before, made.after, machines, progress), pseudonyms, said)


def _check(level: str, machines: Sequence[str]) -> None:
    if level not in LEVELS:
        raise InputError("there is no such level", found=repr(level), expected=", ".join(LEVELS),
                         remedy=near(level, LEVELS))  # fmt: skip
    for name in machines:
        load_machine(name)


def _jobs(
    given: Opened, level: str, made: _Made, price: tuple[Price, ...], pseudonyms: Pseudonyms, notes: Notes
) -> Obfuscated:
    inputs = given.names if made.left is None else _at(made.left, given.names)
    names = ["job"] if given.kind != FOLDER else [pseudonyms.of("job", name) for name in inputs]
    # Sorted by what they are called now: the order of the jobs told something of them.
    order = sorted(range(len(names)), key=names.__getitem__)
    columns = (_at(order, names), _at(order, made.after), price, _at(order, made.inversion) if made.inversion else ())
    return Obfuscated(level, given.kind, *columns, (*notes,), None, None, _at(order, inputs))


@dataclass(frozen=True, eq=False)
class _Made:
    """Jobs after, each at the place of the job before that its price is found by."""

    before: Sequence[Job]
    after: Sequence[Job]
    inversion: tuple[Inversion, ...] = ()
    left: tuple[int, ...] | None = None
    """Which of the jobs given, if not all."""


def _motifs(given: Opened, k: int, pseudonyms: Pseudonyms, notes: Notes) -> _Made:
    if given.kind != FOLDER:
        raise InputError("motifs are what many jobs have in common", found=given.kind, expected=FOLDER)
    found = only_motifs(given.jobs, k, pseudonyms, notes)
    notes.note(
        f"of {found.nodes:,} nodes {found.changed:,} have the motif of others, and {found.numbers:,} numbers changed"
    )
    return _Made([given.jobs[at] for at in found.left], found.jobs, left=found.left)


def _population(
    given: Opened, epsilon: float, delta: float, chunks: int, notes: Notes, progress: Progress | None
) -> tuple[Learned, Guarantee]:
    if given.kind != FOLDER:
        raise InputError("a population is many jobs", found=given.kind, expected=FOLDER)
    return of_population(given.jobs, epsilon=epsilon, delta=delta, chunks=chunks, notes=notes, progress=progress)


def _price_of_model(
    jobs: Sequence[Job], model: Learned, machines: Sequence[str], notes: Notes, progress: Progress | None
) -> tuple[Price, ...]:
    """Steps of some of the jobs and of those that the model makes of their parameters. What it notes of them is no
    warning: with --strict one job would decide whether there is a release."""
    pairs = []
    names = {*model.parameters[0]}
    for job in some(jobs) if machines else ():
        settings = {name: value for name, value in stated(job).items() if name in names}
        try:
            pairs.append((job, next(synthesize(model, settings, notes=Notes())).job))
        except InputError as fault:
            notes.note(f"the model makes no job of the parameters of one: {fault}")
    made = [other for _, other in pairs]
    return prices([one for one, _ in pairs], made, machines, progress, len(jobs)) if pairs else ()


def _behaviour(
    given: Opened, ratio: float, device: str | os.PathLike[str] | Mapping[str, Any] | None, notes: Notes
) -> _Made:
    grid, profile = Grid(ratio), None if device is None else load_device(device)
    found = [only_behaviour(job, grid, profile) for job in given.jobs]
    shown = tuple(inversion(job, own, grid, profile) for job, own in zip(given.jobs, found, strict=True))
    _warn_of_inversion(shown, ratio, notes)
    return _Made([on_device(job, profile) for job in given.jobs], found, shown)


def _at(order: Sequence[int], column: Sequence[T]) -> tuple[T, ...]:
    return tuple(column[at] for at in order)


def _trace(given: Opened, level: str, pseudonyms: Pseudonyms, notes: Notes) -> Obfuscated:
    """A rank's trace by itself, which has no step, and so no price."""
    if level != "names":
        raise InputError(f"level {level} needs a job, all its ranks", found=ONE,
                         remedy="give the prefix of the traces, or take level names")  # fmt: skip
    notes.note("one trace has no step by itself: the price is not known")
    alone = Job((hide_in_trace(given.jobs[0].traces[0], pseudonyms),), given.jobs[0].trace_of_rank)
    return Obfuscated(level, ONE, ("trace",), (alone,), (), notes=(*notes,), _inputs=given.names)


def _warn_of_inversion(found: Sequence[Inversion], ratio: float, notes: Notes) -> None:
    """Tell loudly what nothing hides."""
    unknown = sum(one.same is None for one in found)
    if unknown:
        notes.warn(f"{unknown} of {len(found)} jobs do not say which spec made them, or the generator makes another "
                   "job of it: how many specs give the same release is not known, so take it for 1")  # fmt: skip
    bare = sum(one.same == 1 for one in found)
    if bare:
        notes.warn(f"{bare} of {len(found)} jobs: no other spec was found that gives the same release, so that the "
                   f"model's dimensions can be read off it; take a coarser grid than --ratio {ratio:g}")  # fmt: skip
    told = [one.told for one in found if one.told and one.same != 1]
    if told:
        names = [name for name in SIZES if any(name in one for one in told)]
        notes.warn(f"{len(told)} of {len(found)} jobs: all specs found that give the same release have one value of "
                   f"{', '.join(names)}, so that these can be read off it at --ratio {ratio:g}")  # fmt: skip
