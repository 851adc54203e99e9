"""The columns that laws speak of: parameters of jobs, places of ranks, iterations of loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isclose, isfinite, lcm
from typing import Final

import numpy as np

from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.loops import Iterations
from chakrasim.trace.job.job import Parameter

Parameters = Mapping[str, Parameter]
FINEST: Final = 1000
"""Parts of a whole that parameters with fractions are of, at most; finer ones are no columns."""
MARK: Final = "mark "
TURNS: Final = "turns "


def columns_of(parameters: Sequence[Parameters], known: Sequence[Parameters] | None = None) -> list[dict[str, int]]:
    """Numbers of each job: those that are given, as parts where ``known`` jobs, or these, have fractions, and for words
    whether they are."""
    words: dict[str, set[str]] = defaultdict(set)
    for each in parameters:
        for name, value in each.items():
            if isinstance(value, str):
                words[name].add(value)
    said: dict[str, list[Parameter]] = defaultdict(list)
    for each in parameters if known is None else known:
        for name, value in each.items():
            said[name].append(value)
    parts = {name: parts_of(values) for name, values in said.items() if name not in words}
    found = []
    for each in parameters:
        own: dict[str, int] = {}
        for name, value in each.items():
            if isinstance(value, str):
                own |= {f"{name}={word}": int(value == word) for word in sorted(words[name])}
            elif parts[name]:
                own[name if parts[name] == 1 else f"{name} in parts of {parts[name]}"] = round(value * parts[name])
        found.append(own)
    shared = set.intersection(*({*own} for own in found)) if found else set()
    return [{name: own[name] for name in own if name in shared} for own in found]


def parts_of(values: Sequence[Parameter]) -> int:
    """Into how many parts a whole has to go for all of these numbers to be of such parts; 0 for more than `FINEST`."""
    if all(map(is_whole, values)):
        return 1
    numbers = [float(value) for value in values if not isinstance(value, str) and isfinite(value)]
    if len(numbers) < len(values):
        return 0
    near = [Fraction(number).limit_denominator(FINEST) for number in numbers]
    parts = lcm(*(each.denominator for each in near))
    return parts if parts <= FINEST and all(map(isclose, map(float, near), numbers)) else 0


def is_whole(value: Parameter) -> bool:
    """Whether a parameter is a number without a fraction."""
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def mark_of(loop: int, number: int = 0) -> str:
    """The column of what the iterations of a loop say of which they are."""
    return f"{MARK}{number + 1} of {loop}" if number else f"{MARK}of {loop}"


def marks_in(columns: Mapping[str, Ints], parent: Ints) -> dict[str, Ints]:
    """What iterations of a loop say of which they are, for those of a loop in it, ``parent`` being theirs around."""
    return {name: column[parent] for name, column in columns.items() if name.startswith(MARK)}


def missing(name: str) -> int:
    """The column of a rank for a role of which the job has no groups: it is alone."""
    return 1 if name.startswith("size") else 0


def path_columns(iterations: Sequence[Iterations], loops: Sequence[int]) -> dict[str, Ints]:
    """By name, for the iterations of the innermost of these loops: of each loop that is repeated, which iteration of
    its run it is, how many follow in it, how many it has, which it is of the trace, and how many follow there."""
    at = np.arange(len(iterations[-1]))
    found: dict[str, Ints] = {}
    for loop, own in reversed([*zip(loops, iterations, strict=True)]):
        if loop:
            index, parent = np.array(own.index, np.int64), np.array(own.parent, np.int64)
            count = run_lengths(index)
            found[f"index of {loop}"] = index[at]
            found[f"behind in {loop}"] = (count - 1 - index)[at]
            found[f"count of {loop}"] = count[at]
            found[f"pass of {loop}"] = at.astype(np.int64)
            found[f"rest of {loop}"] = len(own) - 1 - at.astype(np.int64)
            at = parent[at]
    return found


def turn_columns(at: Ints, loops: Sequence[int], parents: Sequence[Ints]) -> dict[str, Ints]:
    """By name, for nodes of one role in order: how many of it come before in the same iteration of each of the loops
    around its innermost one, and how many after. ``at`` int64[n]: its iterations; ``parents``: of each loop but the
    outermost, the iterations around its own."""
    found: dict[str, Ints] = {}
    for loop, parent in zip(reversed(loops[:-1]), reversed(parents), strict=True):
        at = parent[at]
        place = np.arange(len(at))
        found[f"{TURNS}before in {loop}"] = place - np.searchsorted(at, at)
        found[f"{TURNS}after in {loop}"] = np.searchsorted(at, at, side="right") - 1 - place
    return found


def run_lengths(index: Ints) -> Ints:
    """int64[n]: how many iterations the run has to which each belongs; ``index`` begins at 0 with each run."""
    begins = np.flatnonzero(index == 0)
    lengths = np.diff(begins, append=len(index))
    return np.repeat(lengths, lengths)
