"""Data that tell whose they are: what each rank gives to a collective or message, and what it must receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from chakrasim.collectives.kinds import KINDS_BY_NAME
from chakrasim.replay.plan import RECV, SEND, Operation, ReplayPlan

_VALUES: Final = 11
"""How many values there are, at most."""
_WHOLE: Final = {"float64": 1 << 53, "float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
"""Up to which number types of floats have all whole ones."""


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
    values = _values(operation, part)
    if operation.kind not in (SEND, RECV) and KINDS_BY_NAME[operation.kind].divides_input:
        return [_value(part.place, to, values) for to in range(part.members)]
    return [_value(part.place, part.place, values)]


def received(operation: Operation, part: Part) -> list[int]:
    """The values of the equal parts of the output; [] for who receives nothing."""
    kind, everyone, values = operation.kind, range(part.members), _values(operation, part)
    if kind == SEND or (kind in ("reduce", "gather") and part.place != part.other):
        return []
    if kind == RECV:
        return [_value(part.other, part.other)]
    if kind in ("all_reduce", "reduce"):
        return [sum(_value(one, one, values) for one in everyone)]
    if kind == "broadcast":
        return [_value(part.other, part.other)]
    if kind in ("all_gather", "gather"):
        return [_value(one, one) for one in everyone]
    if kind == "all_to_all":
        return [_value(one, part.place) for one in everyone]
    if kind == "scatter":
        return [_value(part.other, part.place)]
    return [sum(_value(one, part.place, values) for one in everyone)]


def _values(operation: Operation, part: Part) -> int:
    """How many values there are: so few, where they are added up, that sums of floats stay exact in any order."""
    whole = _WHOLE.get(operation.dtype)
    if whole is None or operation.kind in (SEND, RECV) or not KINDS_BY_NAME[operation.kind].reduces:
        return _VALUES
    return min(max(whole // part.members, 1), _VALUES)


def _value(giver: int, taker: int, values: int = _VALUES) -> int:
    return (7 * giver + 3 * taker) % values + 1


# -- tensors, which are given: torch is not imported here --

_MOST_ROUNDED: Final = 15 / 16
"""Of a sum, the share that rounding may take: nothing at all is always wrong."""


def fill(tensor: Any, values: list[int]) -> None:
    """Give each equal part of a tensor its value."""
    for part, value in zip(tensor.chunk(len(values)), values, strict=True):
        part.fill_(value)


def wrong_part(tensor: Any, values: list[int], members: int) -> str:
    """The first part that does not have its value all over, in words; "" if all have. Sums beyond the
    whole numbers of a type of floats may be rounded at the addition of each of ``members``; small integers wrap."""
    for number, (part, value) in enumerate(zip(tensor.chunk(len(values)), values, strict=True)):
        if part.dtype.is_floating_point:
            whole = _WHOLE[str(part.dtype).removeprefix("torch.")]
            rounded = 0.0 if value <= whole else value * min(2 * members / whole, _MOST_ROUNDED)
            right = (part.double() - value).abs() <= rounded
        else:
            right = part.long() % 256 == value % 256
        if not bool(right.all()):
            return f"part {number} has {part.flatten()[:4].tolist()}, not {value} all over"
    return ""
