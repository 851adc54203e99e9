"""What a sweep goes through: a base, values of keys, and conditions; read from YAML."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from chakrasim.config.section import Section, open_section
from chakrasim.config.values import Scalar, parse_decimal, parse_integer, plain
from chakrasim.errors import InputError, near
from chakrasim.estimation.places import BESIDE, OTHER_NAMES, PLACES
from chakrasim.estimation.request import Request
from chakrasim.machine import Machine
from chakrasim.sweeps.conditions import Condition, condition_of

ASKED: Final = tuple(one.name for one in fields(Request))
SIZE: Final = ("gpus", "nic", "fabric", "oversubscription", "library", "device_profile")
"""Keys of what a machine is made with, beside its name and places of its file."""
KEYS: Final = ("model", "machine", *SIZE, "price_per_gpu_hour", "dp", *ASKED)
_WORDS: Final = ("dp_kind", "recompute", "dtype", "compile")
NUMBERS: Final = ("gpus", "price_per_gpu_hour", "dp", *(name for name in ASKED if name not in _WORDS))
"""Keys whose values others are worked out from."""
MACHINE_PARTS: Final = ("network", "compute", "machine")
"""Keys that begin so are places of the machine's file."""
_SETTING: Final = tuple(part + behind for part in MACHINE_PARTS for behind in ".[")
_PLACES: Final = frozenset(PLACES) - {*KEYS}
AXES: Final = ("step_s", "gpus", "memory_bytes", "energy_j", "money")
MOST_POINTS: Final = 10_000_000
MOST: Final = 1 << 62
"""No number reaches this."""
_AROUND: Final = ("pp", "vp", "dp", "gpus", "batch")
_EXPECTED: Final = "a list of values, or {from, to, step} or {from, to, factor}"

Point = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """The product of ``vary`` over ``base``, as far as ``where`` holds; ``front``: what is to be small."""

    base: Mapping[str, Any]
    vary: Mapping[str, tuple[Any, ...]]
    where: tuple[Condition, ...] = ()
    front: tuple[str, ...] = ("step_s", "gpus", "memory_bytes", "money")
    file: str = "sweep"

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.vary.values())

    def points(self, begin: int = 0, end: int | None = None) -> Iterator[Point]:
        """The points of the product in order, the last key fastest."""
        return map(self.point, range(len(self))[begin:end])

    def point(self, row: int) -> Point:
        """The values of one point."""
        own = {}
        for key, values in reversed([*self.vary.items()]):
            row, at = divmod(row, len(values))
            own[key] = values[at]
        return {**self.base, **{key: own[key] for key in self.vary}}

    def blocks(self, lanes: int, size: int) -> list[list[int]]:
        """The rows of all points in blocks of about ``size``, of which as many as go, up to ``lanes``, differ in
        settings of the machine alone; then come those that differ in what changes no pass of a replica, so that blocks
        have little to reckon in common."""
        rows = np.arange(len(self)).reshape([len(values) for values in self.vary.values()])
        settings = [axis for axis, key in enumerate(self.vary) if is_setting(key)]
        keys = [*self.vary]
        own = sorted(
            (axis for axis in range(rows.ndim) if axis not in settings), key=lambda axis: keys[axis] in _AROUND
        )
        count = math.prod(rows.shape[axis] for axis in settings)
        table = rows.transpose(own + settings).reshape(-1, count)
        lanes = min(lanes, count)
        each = max(size // lanes, 1)
        return [
            table[first : first + each, lane : lane + lanes].ravel().tolist()
            for lane in range(0, count, lanes)
            for first in range(0, len(table), each)
        ]

    def canonical(self) -> str:
        """The same text for the same space."""
        own = {"base": self.base, "vary": self.vary, "where": [one.text for one in self.where], "front": self.front}
        return json.dumps(own, sort_keys=False, separators=(",", ":"), default=str)


def read_space(source: Any) -> Space:
    """A space from a file or a mapping. Raises InputError."""
    root = open_section(source, "sweep", "yaml", None)
    root = replace(root, entries={key: _plain(value) for key, value in root.entries.items()})
    root.refuse_unknown(("base", "vary", "where", "front"))
    base = _base(root)
    vary = {}
    varied = root.below("vary", ("KEY: values",))
    for key in varied.entries:
        _check_key(varied, key)
        if key in base:
            varied.refuse(key, "this key is in base, too", "a key in one of the two")
        vary[key] = _values(varied, key)
    where = [
        condition_of(text, root.file, f"{root.at('where')}[{i}]")
        for i, text in enumerate(root.sequence("where", "a list of conditions") if "where" in root else ())
    ]
    found = Space(base, vary, tuple(where), _front(root), str.__str__(root.file))
    for name in ("model", "machine"):
        if None in vary.get(name, (base.get(name),)):
            root.fail("base", f"no {name}", expected=f"{name}: ..., in base or vary")
    machines = vary.get("machine", (base.get("machine"),))
    _check_beside(root, {**base, **vary}, machines)
    if not vary:
        root.fail("vary", "nothing to vary", expected="keys with several values")
    if len(found) > MOST_POINTS:
        root.fail("vary", "too many points", found=len(found), expected=f"{MOST_POINTS:,} at most")
    return found


def _plain(value: Any) -> Any:
    """YAML's texts as the numbers and words that they stand for."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if not isinstance(value, Scalar):
        return plain(value)
    if value.quoted or value.is_null:
        return str(value) if value.quoted else None
    whole, word = parse_integer(value), value.lower()
    if whole is not None:
        return whole
    number = parse_decimal(value)
    return number if number is not None else {"true": True, "false": False}.get(word, str(value))


def _base(root: Section) -> Point:
    section = root.below("base", KEYS)
    for key in section.entries:
        _check_key(section, key)
        _check_value(section, key, key, section.entries[key])
    return dict(section.entries)


def _check_key(section: Section, key: str) -> None:
    if key in KEYS or key in PLACES or is_setting(key):
        return
    if key in OTHER_NAMES:
        section.fail(key, "this key has another name here", expected=OTHER_NAMES[key])
    part, _, _ = key.rpartition(".")
    beside = [place for place in PLACES if place.rpartition(".")[0] == part] if part else []
    expected = ", ".join(beside or KEYS) + (", or a place of the machine's file or of a spec" if not beside else "")
    section.fail(key, "unknown key", expected="one of " + expected,
                 remedy=near(key, (*KEYS, *PLACES)) or "such as network[0].bandwidth or overlap.dp")  # fmt: skip


def _check_value(section: Section, key: str, place: object, value: Any) -> None:
    """Refuse what is no number where others follow from it, what is no word or no text, and what is no single value of
    a machine."""
    if value is None:
        return
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        section.fail(place, "not text: it has half of a character", found=value, expected="a number or a word")
    if key in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
            section.fail(place, "not a number", found=value, expected="a number below 2^62, not quoted")
    elif (key in SIZE or is_setting(key)) and isinstance(value, list | Mapping):
        section.fail(place, "not a single value", found=value, expected="a number or a word")
    elif key == "library" and not isinstance(value, str):
        section.fail(place, "not the name of a library", found=value, expected="a name such as nccl-2.27.7")
    _check_finite(section, place if isinstance(place, tuple) else (place,), value)


def _check_finite(section: Section, place: tuple[object, ...], value: Any) -> None:
    """Refuse a number that is none, at any depth."""
    if isinstance(value, list | Mapping):
        for at, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            _check_finite(section, (*place, at), one)
    elif isinstance(value, float) and not math.isfinite(value):
        section.fail(place, "not a number", found=value, expected="a number below 1e308")


def _check_beside(root: Section, given: Collection[str], machines: Iterable[Any]) -> None:
    """Refuse keys of which one would silently hide the other."""
    for place, others in BESIDE.items():
        for other in others:
            if place in given and other in given:
                root.fail("vary", f"{place} and {other} say the same thing", remedy="leave one of the two out")
    own = [key for key in given if key in SIZE or is_setting(key)]
    if own and any(isinstance(machine, Machine) for machine in machines):
        root.fail("base", f"{own[0]} has no effect on this machine", expected="a Machine is complete")


def is_place(key: str) -> bool:
    """Whether a key is a place of a spec."""
    return key in _PLACES


def is_setting(key: str) -> bool:
    """Whether a key is a place of the machine's file."""
    return key.startswith(_SETTING)


def _front(root: Section) -> tuple[str, ...]:
    if "front" not in root:
        return Space.front
    axes = root.sequence("front", "a list of " + ", ".join(AXES))
    for axis in axes:
        if axis not in AXES:
            root.refuse("front", "no such figure", "some of " + ", ".join(AXES))
    if not axes:
        root.refuse("front", "no figure", "some of " + ", ".join(AXES))
    return tuple(map(str, axes))


def _values(section: Section, key: str) -> tuple[Any, ...]:
    value = section.entries[key]
    if not isinstance(value, Mapping):
        values = section.sequence(key, _EXPECTED)
        if not values or any(isinstance(one, list | Mapping) for one in values):
            section.refuse(key, "no values", _EXPECTED)
        for at, one in enumerate(values):
            _check_value(section, key, (key, at), one)
        return tuple(values)
    known = ("from", "to", "step", "factor")
    own = section.strictly_below(key, known)
    if not {"from", "to"} <= own.entries.keys() or ("step" in own) == ("factor" in own):
        section.refuse(key, "not a range", _EXPECTED)
    numbers: dict[str, float] = {}
    for name in own.entries:
        one = own.entries[name]
        if isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one):
            own.refuse(name, "not a number", "a number")
        numbers[name] = one
    low, high = numbers["from"], numbers["to"]
    if numbers.get("step", 1) <= 0 or numbers.get("factor", 2) <= 1 or low > high or ("factor" in own and low <= 0):
        section.refuse(key, "a range that does not go up", "from <= to, step > 0, factor > 1")
    found: list[float] = []
    at = 0
    while len(found) <= MOST_POINTS:
        next_ = low + at * numbers["step"] if "step" in numbers else low * numbers["factor"] ** at
        if next_ > high * (1 + 1e-12):
            return tuple(found)
        found.append(next_)
        at += 1
    raise InputError("too many values", file=section.file, place=section.at(key), expected=f"{MOST_POINTS:,} at most")
