"""The parameters of a job to be made: those that somebody sets, and for the others what goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.laws import Examples, plain_law
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.parameters import full_name
from chakrasim.trace.job.job import Parameter

ENOUGH: Final = 4
"""Jobs that a law between parameters has to hold for."""


@dataclass(frozen=True)
class Choice:
    """Parameters of a job: ``parameters`` all of them, ``like`` the job that open ones are taken from, ``follow`` those
    that others say, ``outside`` what no job learned from was like, for people."""

    parameters: dict[str, Parameter]
    like: str
    follow: tuple[str, ...]
    outside: tuple[str, ...]


def choose(learned: Learned, settings: Mapping[str, Parameter], random: np.random.Generator) -> Choice:
    """Parameters with these settings. Raises InputError for names or words that the model does not know."""
    known = learned.parameters
    wanted = {full_name(name, value, known): value for name, value in settings.items()}
    for name, value in wanted.items():
        _check(name, value, [own[name] for own in known])
    near = _nearest(known, wanted)
    like = int(near[int(random.integers(len(near)))])
    found: dict[str, Parameter] = dict(wanted)
    follow = []
    names = [*wanted, *(name for name in known[0] if name not in wanted)]
    for at, name in enumerate(names):
        if name in wanted:
            continue
        law = _follows(known, names[:at], name)
        value = known[like][name]
        if law is not None:
            columns = {one: np.array([int(found[one])], np.int64) for one in expressions.names(law)}
            value = int(expressions.value(law, columns, 1)[0])
            follow.append(name)
        found[name] = value
    ordered = {name: found[name] for name in known[0]}
    return Choice(ordered, learned.jobs[like], tuple(follow), tuple(_outside(known, ordered)))


def _check(name: str, value: Parameter, said: Sequence[Parameter]) -> None:
    words = sorted({each for each in said if isinstance(each, str)})
    if isinstance(value, str) != bool(words) or (words and value not in words):
        expected = ", ".join(words[:12]) if words else "a number"
        raise InputError("the model knows no such value", place=name, found=repr(value), expected=expected)


def _nearest(known: Sequence[Mapping[str, Parameter]], wanted: Mapping[str, Parameter]) -> list[int]:
    """The jobs that agree with most of what is wanted."""
    agree = [sum(own[name] == value for name, value in wanted.items()) for own in known]
    return [i for i, count in enumerate(agree) if count == max(agree)]


def _follows(known: Sequence[Mapping[str, Parameter]], before: Sequence[str], name: str) -> Expression | None:
    """How a number follows from others, where it differs among the jobs and a law of theirs gives all of it."""
    said = [own[name] for own in known]
    if len({*said}) < 2 or len({*said}) < 3 <= len(said) < ENOUGH or not all(_whole(value) for value in said):
        return None
    numbers = [one for one in before if all(_whole(own[one]) for own in known)]
    if len(known) < max(ENOUGH, 3):
        return None
    wanted = np.array([int(value) for value in said], np.int64)
    columns = {one: np.array([int(own[one]) for own in known], np.int64) for one in numbers}
    return plain_law(Examples(wanted, columns))


def _whole(value: Parameter) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _outside(known: Sequence[Mapping[str, Parameter]], found: Mapping[str, Parameter]) -> list[str]:
    """Numbers beyond those of the jobs, and pairs of choices that no job had."""
    said = []
    for name, value in found.items():
        own = [each[name] for each in known]
        if isinstance(value, str) or isinstance(own[0], str):
            continue
        low, high = min(map(float, own)), max(map(float, own))
        if not low <= value <= high:
            said.append(f"{name} {value:,} lies outside of what the jobs had, {low:,.6g} to {high:,.6g}")
    choices = [name for name in found if 1 < len({each[name] for each in known}) <= 4 and not _counts(known, name)]
    for i, one in enumerate(choices):
        for other in choices[i + 1 :]:
            if all((each[one], each[other]) != (found[one], found[other]) for each in known):
                said.append(f"no job had {one} {found[one]} with {other} {found[other]}")
    return said


def _counts(known: Sequence[Mapping[str, Parameter]], name: str) -> bool:
    """Whether a parameter is a number that is more than yes or no."""
    return any(not isinstance(each[name], (bool, str)) for each in known)
