"""Data that tell whose they are: what each rank gives to a collective or message, and what it must receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from chakrasim.collectives.kinds import KINDS_BY_NAME
from chakrasim.replay.plan import RECV, SEND, Operation, ReplayPlan

_VALUES: Final = 11
"""How many values there are: sums over dozens of ranks stay exact in small types."""


@dataclass(frozen=True)
class Part:
    """A rank's part in an operation: its place among so many ``members``, and that of the root or of the other side."""

    place: int
    members: int
    other: int


def part_of(plan: ReplayPlan, rank: int, operation: Operation) -> Part:
    """The part of ``rank``."""
    if operation.group < 0:
        return Part(rank, 2, operation.peer)
    members = plan.groups[operation.group].members
    return Part(members.index(rank), len(members), members.index(operation.peer) if operation.peer in members else -1)


def sent(operation: Operation, part: Part) -> list[int]:
    """The values of the equal parts of the input: one for each member where it has parts for them, else one."""
    if operation.kind not in (SEND, RECV) and KINDS_BY_NAME[operation.kind].divides_input:
        return [_value(part.place, to) for to in range(part.members)]
    return [_value(part.place, part.place)]


def received(operation: Operation, part: Part) -> list[int]:
    """The values of the equal parts of the output; [] for who receives nothing."""
    kind, everyone = operation.kind, range(part.members)
    if kind == SEND or (kind in ("reduce", "gather") and part.place != part.other):
        return []
    if kind == RECV:
        return [_value(part.other, part.other)]
    if kind in ("all_reduce", "reduce"):
        return [sum(_value(one, one) for one in everyone)]
    if kind == "broadcast":
        return [_value(part.other, part.other)]
    if kind in ("all_gather", "gather"):
        return [_value(one, one) for one in everyone]
    if kind == "all_to_all":
        return [_value(one, part.place) for one in everyone]
    if kind == "scatter":
        return [_value(part.other, part.place)]
    return [sum(_value(one, part.place) for one in everyone)]


def _value(giver: int, taker: int) -> int:
    return (7 * giver + 3 * taker) % _VALUES + 1


# -- tensors, which are given: torch is not imported here --

_EPSILON: Final = {"torch.float64": 2**-52, "torch.float32": 2**-23, "torch.float16": 2**-10, "torch.bfloat16": 2**-7}


def fill(tensor: Any, values: list[int]) -> None:
    """Give each equal part of a tensor its value."""
    for part, value in zip(tensor.chunk(len(values)), values, strict=True):
        part.fill_(value)


def wrong_part(tensor: Any, values: list[int]) -> str:
    """The first part that does not have its value all over, in words; "" if all have. Sums of floats may be rounded,
    small integers wrap."""
    for number, (part, value) in enumerate(zip(tensor.chunk(len(values)), values, strict=True)):
        if part.dtype.is_floating_point:
            right = (part.double() - value).abs() <= 4 * value * _EPSILON[str(part.dtype)]
        else:
            right = part.long() % 256 == value % 256
        if not bool(right.all()):
            return f"part {number} has {part.flatten()[:4].tolist()}, not {value} all over"
    return ""
