"""What a job was made with, as far as anything says so: its maker, its traces, its groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chakrasim.errors import InputError, near
from chakrasim.trace.job.groups import is_number
from chakrasim.trace.job.job import Job, Parameter

_PAIR: Final = re.compile(r"([A-Za-z][A-Za-z_]*)[ =:]+([0-9]{1,15})(?![0-9.])")
_OF_A_RANK: Final = ("rank", "world_rank", "process_id", "stage")
_RESULTS: Final = re.compile("peak_.*|total_flops|placeholders|step|.*_ns")
"""What captured and recorded programs say that came of them."""


def parameters_of(job: Job) -> dict[str, Parameter]:
    """By name. What its maker states comes before what traces say of themselves, and that before sizes of groups."""
    found = dict(job.parameters) if job.parameters else dict(_of_traces(job))
    last = {name.rsplit(".", 1)[-1] for name in found}
    sizes = {role: len(groups[0]) for role, groups in job.process_groups.items() if groups and not is_number(role)}
    return found | {role: size for role, size in sizes.items() if role not in last}


def _of_traces(job: Job) -> Iterator[tuple[str, Parameter]]:
    """What the metadata of all traces say alike: numbers, and numbers that texts name, such as "dp 2, tp 4"."""
    first = job.traces[0].metadata
    others = [trace.metadata for trace in job.traces[1:]]
    for name, value in first.items():
        if name in _OF_A_RANK or _RESULTS.fullmatch(name) or any(other.get(name) != value for other in others):
            continue
        if isinstance(value, str):
            pairs = _PAIR.findall(value)
            if name == "arguments" and not pairs:
                pairs = [(f"argument_{i}", each) for i, each in enumerate(value.split(), 1) if each.isdecimal()]
            yield from ((each, int(number)) for each, number in pairs)
        elif isinstance(value, bool | int) and abs(value) < 1 << 62:
            yield name, value


def full_name(name: str, value: Parameter, known: Sequence[Mapping[str, Parameter]]) -> str:
    """The parameter that somebody means by a name or its last part, ``layers`` for ``model.layers``: of several the one
    in which the jobs differ, or whose values are of this kind. Raises InputError where there is none, or more than
    one."""
    if name in known[0]:
        return name
    ends = [each for each in known[0] if each.rsplit(".", 1)[-1] == name]
    for kept in (
        ends,
        [each for each in ends if len({own[each] for own in known}) > 1],
        [each for each in ends if type(known[0][each]) is type(value)],
    ):
        if len(kept) == 1:
            return kept[0]
    choices = [*known[0], *(each.rsplit(".", 1)[-1] for each in known[0])]
    raise InputError(
        "more than one parameter is called so" if ends else "the model has no such parameter",
        place=name,
        expected=", ".join(ends or known[0]),
        remedy="give its full name" if ends else near(name, choices),
    )
