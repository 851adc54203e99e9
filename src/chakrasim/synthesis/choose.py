"""The parameters of a job to be made: those that somebody sets, and for the others what goes with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isclose, log2
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import is_whole, parts_of
from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.laws import Examples, plain_law, simple
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.parameters import full_name
from chakrasim.trace.job.job import Parameter

ENOUGH: Final = 4
"""Jobs that a law between parameters has to hold for."""
MANY: Final = 20
CASES: Final = 1
"""Cases that such a law may have where there are ``MANY`` jobs."""
LAWS: Final = 30
"""Laws of two columns that are tried, about."""
BEYOND_CHANCE: Final = 8
"""Bits of what is wanted beyond those that tell the laws tried from each other: fewer are given by chance."""


@dataclass(frozen=True)
class Choice:
    """Parameters of a job: ``parameters`` all of them, ``like`` the job that open ones are taken from, ``follow`` those
    that others say, ``outside`` what no job learned from was like, for people."""

    parameters: dict[str, Parameter]
    like: str
    follow: tuple[str, ...]
    outside: tuple[str, ...]


def choices(learned: Learned, settings: Mapping[str, Parameter], random: np.random.Generator) -> Iterator[Choice]:
    """Parameters with these settings, without end. Raises InputError for names or words that the model does not
    know."""
    known = learned.parameters
    wanted: dict[str, Parameter] = {}
    for given, value in settings.items():
        name = full_name(given, value, known)
        if wanted.setdefault(name, value) != value:
            raise InputError("a parameter is set twice", place=name, found=f"{wanted[name]!r} and {value!r}")
        _check(name, value, [own[name] for own in known])
    near = _nearest(known, wanted)
    names = [*wanted, *(name for name in known[0] if name not in wanted)]
    laws = {name: _follows(known, names[:at], name) for at, name in enumerate(names) if name not in wanted}
    follow = tuple(name for name, law in laws.items() if law is not None)
    every = [*learned.model.laws(), *(law for law in laws.values() if law is not None)]
    limits = expressions.all_limits(every)
    while True:
        like = near[int(random.integers(len(near)))]
        found: dict[str, Parameter] = dict(wanted)
        for name, law in laws.items():
            found[name] = known[like][name] if law is None else _number(law, found)
        ordered = {name: found[name] for name in known[0]}
        yield Choice(ordered, learned.jobs[like], follow, tuple(_outside(known, ordered, limits)))


def _number(law: Expression, found: Mapping[str, Parameter]) -> int:
    columns = {one: np.array([int(found[one])], np.int64) for one in expressions.names(law)}
    return int(expressions.value(law, columns, 1)[0])


def _check(name: str, value: Parameter, said: Sequence[Parameter]) -> None:
    words = sorted({each for each in said if isinstance(each, str)})
    whole = all(map(is_whole, said))
    if isinstance(value, str) != bool(words) or (words and value not in words) or (whole and not is_whole(value)):
        expected = (
            ", ".join(words[:12]) if words else "a number without a fraction, as in all jobs" if whole else "a number"
        )
        raise InputError("the model knows no such value", place=name, found=repr(value), expected=expected)


def _nearest(known: Sequence[Mapping[str, Parameter]], wanted: Mapping[str, Parameter]) -> list[int]:
    """The jobs that agree with most of what is wanted."""
    agree = [sum(own[name] == value for name, value in wanted.items()) for own in known]
    return [i for i, count in enumerate(agree) if count == max(agree)]


def _follows(known: Sequence[Mapping[str, Parameter]], before: Sequence[str], name: str) -> Expression | None:
    """How a number follows from others, where it differs among the jobs and a law of theirs gives all of it."""
    said = [own[name] for own in known]
    if len(known) < ENOUGH or len({*said}) < 2 or not all(map(is_whole, said)):
        return None
    numbers = [one for one in before if all(is_whole(own[one]) for own in known)]
    wanted = np.array([int(value) for value in said], np.int64)
    columns = {one: np.array([int(own[one]) for own in known], np.int64) for one in numbers}
    examples = simple(Examples(wanted, columns))
    if len(examples) * log2(1 + float(np.ptp(wanted))) < log2(LAWS * (1 + len(examples.columns)) ** 2) + BEYOND_CHANCE:
        return None
    return plain_law(examples, CASES if len(known) >= MANY else 0, tests=0)


def _outside(
    known: Sequence[Mapping[str, Parameter]], found: Mapping[str, Parameter], limits: Sequence[tuple[str, str, int]]
) -> list[str]:
    """Numbers beyond those of the jobs, or at cases of laws of which they say nothing, and choices that no job had
    together."""
    said = []
    for name, value in found.items():
        own = [each[name] for each in known]
        if isinstance(value, str) or isinstance(own[0], str):
            continue
        numbers = [float(each) for each in own]
        if not min(numbers) <= value <= max(numbers):
            said.append(f"{name} {value:,} lies outside of what the jobs had, {min(numbers):,.6g} to"
                        f" {max(numbers):,.6g}")  # fmt: skip
        elif (parts := parts_of(own)) and not isclose(value * parts, round(value * parts)):
            said.append(f"{name} {value} is taken as {round(value * parts) / parts:g}: the jobs have 1/{parts} parts")
        elif value not in own:
            tests = [(sign, number) for column, sign, number in limits if column == name]
            said += [*dict.fromkeys(_at_limit(name, value, numbers, *test) for test in tests)][:1]
    said = [one for one in said if one]
    chosen = [name for name in found if 1 < len({each[name] for each in known}) <= 4 and not _counts(known, name)]
    for i, one in enumerate(chosen):
        for other in chosen[i + 1 :]:
            if all((each[one], each[other]) != (found[one], found[other]) for each in known):
                said.append(f"no job had {one} {found[one]} with {other} {found[other]}")
    return said + [
        f"{one} and {other} went together in all jobs, and do not here ({found[one]}, {found[other]}): which of them"
        " what is made goes by is not known"
        for one, other in _torn_apart(known, found) if {one, other} - {*chosen}
    ]  # fmt: skip


def _at_limit(name: str, value: Parameter, own: Sequence[float], sign: str, limit: int) -> str:
    """What is not known where a law compares a number, which no job had, with a limit; empty if all is."""
    if sign == "==":
        return f"no job had {name} {value:,}, and values of it are cases of their own"
    first = [each for each in own if (each < limit if sign == "<" else each <= limit)]
    low, high = max(first, default=min(own)), min({*own} - {*first}, default=max(own))
    between = low < float(value) < high
    return f"no job had {name} between {low:,.6g} and {high:,.6g}, where a case begins" if between else ""


def _torn_apart(known: Sequence[Mapping[str, Parameter]], found: Mapping[str, Parameter]) -> list[tuple[str, str]]:
    """Pairs of parameters of which one said the other in all jobs, or whether that is 0, and here does not."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name in found:
        own = [each[name] for each in known]
        for zero, values in ((False, own), (True, [value == 0 for value in own])):
            place = {value: at for at, value in enumerate(dict.fromkeys(values))}
            if len(place) > 1:
                alike.setdefault((zero and own[0] == 0, zero, *map(place.__getitem__, values)), []).append(name)
    return [*dict.fromkeys(pair for key, names in alike.items() for pair in combinations(names, 2)
                           if _differ(known, found, *pair, zero=bool(key[1])))]  # fmt: skip


def _differ(
    known: Sequence[Mapping[str, Parameter]], found: Mapping[str, Parameter], one: str, other: str, *, zero: bool
) -> bool:
    """Whether what goes together one to one in the jobs, or in proportion, does not here."""
    if zero:
        return (found[one] == 0) != (found[other] == 0)
    pairs, here = {(each[one], each[other]) for each in known}, (found[one], found[other])
    ratios = {_ratio(*pair) for pair in pairs}
    even = len(ratios) == 1 and ratios != {None}
    if not even and len(pairs) == len(known):
        return False
    if here[0] in {pair[0] for pair in pairs} or here[1] in {pair[1] for pair in pairs}:
        return here not in pairs
    return even and _ratio(*here) not in ratios


def _ratio(one: Parameter, other: Parameter) -> float | None:
    return None if isinstance(one, str) or isinstance(other, str) or not other else one / other


def _counts(known: Sequence[Mapping[str, Parameter]], name: str) -> bool:
    """Whether a parameter is a number that is more than yes or no."""
    return any(not isinstance(each[name], (bool, str)) for each in known)
