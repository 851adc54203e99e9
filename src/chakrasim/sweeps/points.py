"""One point of a sweep: what it takes, or why it does not go."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from chakrasim.errors import InputError
from chakrasim.estimation.api import as_usual, estimate_step, profile_of
from chakrasim.estimation.arithmetic import Arithmetic
from chakrasim.estimation.parts import seconds_by_state
from chakrasim.estimation.request import Request
from chakrasim.estimation.split import peak_bytes, spec_of
from chakrasim.estimation.uncertainty import Doubts, kind_of, load_spread
from chakrasim.machine import Machine, load_device, load_machine
from chakrasim.sweeps.conditions import Condition
from chakrasim.sweeps.lanes import Settings, parts_of
from chakrasim.sweeps.space import ASKED, SIZE, Point, is_place, is_setting

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec

OK, REFUSED, UNTRIED = "ok", "refused", "not tried"
ARITHMETIC, ENGINE = "arithmetic", "engine"
MEMORY: Final = "does not fit in memory"
_MACHINES: Final = 64
_LANES: Final = 4
_FILES: Final = 128
_PARTICULAR: Final = re.compile(r" \([^)]*\)")
"""Figures in a message, without which it is the same for all points that it is said of."""


@dataclass(frozen=True)
class Outcome:
    """What a point comes to; figures are NaN where they are not known.

    ``reason``: why it was refused, in words that are the same for the same reason. ``by``: "arithmetic" or "engine".
    """

    step_s: float = math.nan
    low_s: float = math.nan
    high_s: float = math.nan
    gpus: int = 0
    memory_bytes: int = 0
    energy_j: float = math.nan
    money: float = math.nan
    status: str = OK
    reason: str = ""
    by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; None where nothing is known."""
        return {name: known(value) for name, value in vars(self).items()}

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Outcome:
        """From `to_dict`."""
        values: dict[str, Any] = {name: math.nan if value is None else value for name, value in figures.items()}
        return cls(**values)


def known(value: Any) -> Any:
    """The value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def by_reason(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many were refused, by reason, the most frequent first."""
    counts = Counter(one.reason for one in outcomes if one.status == REFUSED)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class _Source:
    """What a machine is read from, beside settings: a name, a file or the text of a mapping; options."""

    name: str
    made: tuple[Any, ...]
    """The values of `SIZE`."""

    @lru_cache(maxsize=_FILES)  # noqa: B019  # equal ones are the same to it
    def load(self, settings: Settings) -> Machine:
        """The machine with settings. Raises InputError for what cannot be read."""
        source = json.loads(self.name) if self.name.startswith("{") else self.name
        made = dict(zip(SIZE, self.made, strict=True))
        profile = made.pop("device_profile")
        machine = load_machine(source, settings=dict(settings) or None, **made)
        if profile is not None:
            machine = replace(machine, profile=load_device(profile))
        profile_of(machine)
        return machine


Loaded = tuple[Machine, Arithmetic]


@dataclass(frozen=True)
class Prepared:
    """A point that goes: the step, the machine and its arithmetic, what was assumed, and the bytes of the fullest
    GPU."""

    spec: Spec
    machine: Machine
    arithmetic: Arithmetic
    assumed: tuple[str, ...]
    memory_bytes: int


def prepared(
    point: Point, where: tuple[Condition, ...], filled: float = 1.0, on: Loaded | None = None
) -> Prepared | Outcome:
    """The step that a point asks for, or why it is refused; ``filled``: the share of the memory that it may take;
    ``on``: its machine, if that is known."""
    refused = refused_at_once(point, where)
    if refused is not None:
        return refused
    values = with_dp(point)
    machine, arithmetic = _machine_of(values) if on is None else on
    asked = {name: values[name] for name in ASKED if values.get(name) is not None}
    try:
        if "dp" in point and values["dp"] * shared(values) != machine.ranks:
            raise InputError("dp * tp * pp * cp is not the number of GPUs")
        places = {name: value for name, value in values.items() if is_place(name)}
        spec, assumed = spec_of(values["model"], machine, Request(**asked), places)
    except InputError as error:
        reason = _PARTICULAR.sub("", error.message)
        place = (error.place or "").removeprefix("$.")
        reason = f"{place}: {reason}" if place in ASKED or is_place(place) else reason
        return _refused(values, reason, machine.ranks)
    peak = peak_bytes(spec)
    if peak > filled * profile_of(machine).memory_bytes:
        return Outcome(gpus=machine.ranks, memory_bytes=peak, status=REFUSED, reason=MEMORY)
    return Prepared(spec, machine, arithmetic, as_usual(spec, assumed), peak)


NOT_TRIED: Final = Outcome(status=UNTRIED)
"""Of points that a search left out."""


def refused_at_once(point: Point, where: tuple[Condition, ...]) -> Outcome | None:
    """Why a condition refuses a point, if one does, which costs nothing."""
    values = with_dp(point)
    return next((_refused(values, one.text) for one in where if not one.holds(values)), None)


def by_arithmetic(point: Point, where: tuple[Condition, ...], filled: float = 1.0) -> Outcome:
    """A point, reckoned."""
    return all_by_arithmetic([point], where, filled)[0]


def all_by_arithmetic(points: Sequence[Point], where: tuple[Condition, ...], filled: float = 1.0) -> list[Outcome]:
    """Points, reckoned; those that differ only in settings of the machine together, as far as it goes."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, point in enumerate(points):
        known = (value if isinstance(value, Hashable) else id(value) for name, value in point.items()
                 if not is_setting(name))  # fmt: skip
        groups.setdefault(tuple(known), []).append(at)
    found: dict[int, Outcome] = {}
    for rows in groups.values():
        for own, on in _lanes_of([points[row] for row in rows], where):
            alike = [points[rows[at]] for at in own]
            found.update(zip([rows[at] for at in own], _reckoned(alike, where, filled, on), strict=True))
    return [found[at] for at in range(len(points))]


def _reckoned(points: Sequence[Point], where: tuple[Condition, ...], filled: float, on: Loaded | None) -> list[Outcome]:
    """Points that are the same step, on the lanes of an arithmetic."""
    found = prepared(points[0], where, filled, on)
    if isinstance(found, Outcome):
        return [found] * len(points)
    ranks, profile, kind = found.machine.ranks, profile_of(found.machine), kind_of(found.spec)
    outcomes = []
    for point, took in zip(points, found.arithmetic.steps(found.spec), strict=True):
        seconds, moving, bubble = took.step_ns / 1e9, took.moving_ns / 1e9, took.bubble_ns / 1e9
        doubts = Doubts(kind, profile.name, len(found.assumed), moving / seconds, bubble / seconds)
        low, high = load_spread().interval(seconds, doubts)
        energy = math.nan
        if profile.power is not None:
            energy = ranks * profile.power.energy(seconds_by_state(took.parts_s(seconds))).joules
        money = _money(point, seconds, ranks)
        outcomes.append(Outcome(seconds, low, high, ranks, found.memory_bytes, energy, money, OK, "", ARITHMETIC))
    return outcomes


def _lanes_of(points: Sequence[Point], where: tuple[Condition, ...]) -> Iterable[tuple[tuple[int, ...], Loaded | None]]:
    """Points that differ in settings alone, by what reckons them; None: what reads their machine."""
    values, every = with_dp(points[0]), tuple(range(len(points)))
    if not all(condition.holds(values) for condition in where):
        return [(every, None)]
    if len(points) == 1 or isinstance(values["machine"], Machine):
        return [((at,), None) for at in every]
    return _known_lanes(_source_of(values), tuple(map(_settings, points)))


def by_engine(point: Point, where: tuple[Condition, ...], filled: float = 1.0) -> Outcome:
    """A point, simulated."""
    found = prepared(point, where, filled)
    if isinstance(found, Outcome):
        return found
    step = estimate_step(found.spec, found.machine, found.assumed)
    energy = math.nan if step.energy is None else step.energy.joules * step.gpus
    money = _money(point, step.step_s, step.gpus)
    return Outcome(step.step_s, step.low_s, step.high_s, step.gpus, found.memory_bytes, energy, money, OK, "", ENGINE)


def all_by_engine(points: Sequence[Point], where: tuple[Condition, ...]) -> list[Outcome]:
    """Points, simulated one by one."""
    return [by_engine(point, where) for point in points]


def with_dp(point: Point) -> Point:
    """The point with ``gpus`` and ``dp``, as far as each follows from the other; rounded down where they do not go
    together, so that conditions see it."""
    values = {name: _whole(value) for name, value in point.items()}
    each = shared(values)
    if values.get("gpus") is None and values.get("dp") is not None and each:
        values["gpus"] = values["dp"] * each
    elif values.get("dp") is None and values.get("gpus") is not None and each:
        values["dp"] = values["gpus"] // each
    return {"cp": 1, "vp": 1, **{name: value for name, value in values.items() if value is not None}}


def shared(values: Mapping[str, Any]) -> int:
    """Ranks of a replica; 0 where tp or pp is left open."""
    sizes: list[Any] = [values.get("tp"), values.get("pp"), values.get("cp") or 1]
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else 0


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _machine_of(values: Mapping[str, Any]) -> Loaded:
    machine = values["machine"]
    if isinstance(machine, Machine):
        return _arithmetic_of(machine)
    return _loaded(_source_of(values), _settings(values))


def _source_of(values: Mapping[str, Any]) -> _Source:
    machine = values["machine"]
    name = machine if isinstance(machine, str) else json.dumps(machine)
    return _Source(name, tuple(values.get(key) for key in SIZE))


def _settings(values: Mapping[str, Any]) -> Settings:
    return tuple((name.removeprefix("machine."), value) for name, value in values.items() if is_setting(name))


_KNOWN: Final[list[Loaded]] = []
"""The last machine that was no file or name, whose passes are kept."""


def _arithmetic_of(machine: Machine) -> Loaded:
    if not _KNOWN or _KNOWN[0][0] is not machine:
        profile_of(machine)
        _KNOWN[:] = [(machine, Arithmetic(machine))]
    return _KNOWN[0]


@lru_cache(maxsize=_MACHINES)
def _loaded(source: _Source, settings: Settings) -> Loaded:
    machine = source.load(settings)
    return machine, Arithmetic(machine)


@lru_cache(maxsize=_LANES)
def _known_lanes(source: _Source, settings: tuple[Settings, ...]) -> list[tuple[tuple[int, ...], Loaded | None]]:
    """Rows of settings, by their machine and its arithmetic; None for what is read alone."""
    found: list[tuple[tuple[int, ...], Loaded | None]] = []
    for rows, own, lanes in parts_of(settings, source.load):
        machine = None if lanes is None else source.load(own)
        found.append((rows, None if machine is None else (machine, Arithmetic(machine, lanes))))
    return found


def _money(point: Point, seconds: float, gpus: int) -> float:
    price = point.get("price_per_gpu_hour")
    return math.nan if price is None else float(price) * gpus * seconds / 3600


def _refused(values: Mapping[str, Any], reason: str, gpus: int = 0) -> Outcome:
    known = values.get("gpus")
    return Outcome(gpus=gpus or (int(known) if isinstance(known, int | float) else 0), status=REFUSED, reason=reason)
