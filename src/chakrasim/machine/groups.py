"""Communicator groups: which ranks take part in a collective, and in which order (ASTRA-sim's group JSON)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from chakrasim.config.decode import decode_json, printable, read_bytes
from chakrasim.config.section import INT32_MAX
from chakrasim.config.values import as_sequence, describe, plain, step
from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too

_KIND = "communicator-group configuration"
MAX_FILE_BYTES = 64 * 2**20
"""A group file of a million ranks in three kinds of groups has some 30 MB."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class _Checked(dict[int, tuple[int, ...]]):
    """Groups that need no second look: a million ranks take half a second to check."""


@dataclass(frozen=True)
class CommGroups:
    """Members of each communicator group, by group id (> 0), in the order in which they were listed.

    The order matters: a group's ring follows it. Members are distinct ranks >= 0. Raises :class:`chakrasim.InputError`
    when built from anything else; whether the ranks exist is checked by :meth:`check_ranks`. ``source`` names the
    file in messages.
    """

    members: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    source: str = field(default=_KIND, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.members, _Checked):
            object.__setattr__(self, "members", _checked(self.members, "CommGroups"))

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[int]:
        return iter(self.members)

    def __contains__(self, group: object) -> bool:
        return group in self.members

    def __getitem__(self, group: int) -> tuple[int, ...]:
        return self.members[group]

    def check_ranks(self, ranks: int) -> None:
        """Raise :class:`chakrasim.InputError` if a group names a rank that a machine of that size does not have."""
        for group, members in self.members.items():
            if max(members) >= ranks:
                index = next(i for i, member in enumerate(members) if member >= ranks)
                place = f"$.{group}[{index}]"
                expected = f"a rank below {ranks}, the number of ranks of the machine"
                raise InputError("no such rank", file=self.source, place=place, found=members[index], expected=expected)

    def to_mapping(self) -> dict[str, list[int]]:
        """The groups as ASTRA-sim's JSON file holds them."""
        return {str(group): list(members) for group, members in self.members.items()}


GroupSource = str | Path | Mapping[str, Iterable[int]] | Mapping[int, Iterable[int]]


@lists_too
def load_groups(source: GroupSource | CommGroups | None, notes: Notes | None = None) -> CommGroups:
    """Read ASTRA-sim's communicator-group JSON: a path, a mapping (keys strings or integers) or :class:`CommGroups`.

    None means no groups. Raises :class:`chakrasim.InputError` for ids and members that :class:`CommGroups` refuses.
    """
    if source is None:
        return CommGroups()
    if isinstance(source, CommGroups):
        return source
    name, content = _KIND, source
    if isinstance(source, str | Path):
        name = printable(source)
        said = Notes() if notes is None else notes
        content = decode_json(read_bytes(source, _KIND, MAX_FILE_BYTES), name, said)  # type: ignore[assignment]
    if not isinstance(content, Mapping):
        _fail(f"not a {_KIND}", name, "$", content, "a mapping of group ids to lists of ranks")
    return CommGroups(_checked(content, name), name)


def _checked(content: Mapping[int, Iterable[int]] | Mapping[str, Iterable[int]], file: str) -> _Checked:
    groups = _Checked()
    for key, value in content.items():
        place = "$" + (step(key) if isinstance(key, str) else f".{describe(key)}")
        group = _group_id(key, place, file)
        if group in groups:
            raise InputError("the group is there twice", file=file, place=place, found=f"group {group}")
        groups[group] = _members(value, place, file)
    return groups


def _group_id(key: object, place: str, file: str) -> int:
    group = int(key) if isinstance(key, str) and _WHOLE.fullmatch(key) else key
    if isinstance(group, bool) or not isinstance(group, int):
        _fail("not a group id", file, place, key, "an integer > 0")
    if not 0 < group <= INT32_MAX:
        remedy = "group 0 stands for all ranks and cannot be listed" if group == 0 else None
        _fail("the group id is out of range", file, place, key, f"an integer from 1 to {INT32_MAX}", remedy)
    return group


def _members(value: object, place: str, file: str) -> tuple[int, ...]:
    listed = as_sequence(value)
    if listed is None:
        _fail("not a list", file, place, value, "a list of ranks")
    if not listed:
        raise InputError("the group has no members", file=file, place=place, expected="at least one rank")
    ranks = [member if type(member) is int else plain(member) for member in listed]
    for index, member in enumerate(ranks):
        if type(member) is not int or not 0 <= member <= INT32_MAX:
            _fail("not a rank", file, f"{place}[{index}]", member, f"an integer from 0 to {INT32_MAX}")
    if len(set(ranks)) != len(ranks):
        first: dict[object, int] = {}
        index = next(index for index, rank in enumerate(ranks) if first.setdefault(rank, index) != index)
        _fail("the rank is in the group twice", file, f"{place}[{index}]", ranks[index], "distinct ranks")
    return tuple(ranks)  # type: ignore[arg-type]


def _fail(message: str, file: str, place: str, found: object, expected: str, remedy: str | None = None) -> NoReturn:
    raise InputError(message, file=file, place=place, found=describe(found), expected=expected, remedy=remedy)
