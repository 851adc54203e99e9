"""Process groups of a captured program, by role: the groups that were made in one place for one purpose.

All ranks make all groups, as `torch.distributed.new_group` asks for, so that one rank's program shows all groups.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from chakrasim.collect.capturing.pretended.device import program_place

_MESH: Final = "mesh_"


@dataclass
class _Role:
    """A name and the groups that have it; no rank is in two of them."""

    name: str
    key: object
    groups: dict[tuple[int, ...], None] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)


class Groups:
    """Collects the groups as they are made.

    A group of a `DeviceMesh` has the role of its dimension ("tp"), another one that of its description, else "pg_1":
    groups that are made by one line of the program have one role. The group of all ranks is "".
    """

    def __init__(self, world: int) -> None:
        self.world = world
        self._roles: list[_Role] = []
        self._of_name: dict[str, tuple[str, tuple[int, ...]]] = {}

    def add(self, ranks: Sequence[int] | None, description: str | None, handle: str | None) -> None:
        """A group was made; ``handle`` is PyTorch's name of it, None where this rank is no member."""
        members = tuple(range(self.world)) if ranks is None else tuple(int(rank) for rank in ranks)
        name = "" if len(set(members)) == self.world else self._role(members, description)
        if handle is not None:
            self._of_name[handle] = name, members

    def find(self, handle: str) -> tuple[str, tuple[int, ...]]:
        """Role and members of a group; the group of all ranks for a handle that was not seen being made."""
        return self._of_name.get(handle, ("", tuple(range(self.world))))

    def narrowest(self, one: int, other: int) -> tuple[str, tuple[int, ...]] | None:
        """Role and members of the smallest group that has both ranks; None if only that of all ranks has.

        Both ranks find the same one, since both have seen all groups made, in the same order.
        """
        found = [(role.name, group) for role in self._roles for group in role.groups if one in group and other in group]
        return min(found, key=lambda entry: len(entry[1]), default=None)

    def roles(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The groups of every role."""
        return {role.name: tuple(role.groups) for role in self._roles}

    def _role(self, members: tuple[int, ...], description: str | None) -> str:
        key: object = _purpose(description) or program_place()
        for role in self._roles:
            if role.key == key and (members in role.groups or role.members.isdisjoint(members)):
                role.groups[members] = None
                role.members.update(members)
                return role.name
        taken = {role.name for role in self._roles}
        stem = _purpose(description)
        name = stem or f"pg_{sum(1 for role in taken if role.startswith('pg_')) + 1}"
        number = 2
        while name in taken:
            name = f"{stem or 'pg'}.{number}"
            number += 1
        self._roles.append(_Role(name, key, {members: None}, set(members)))
        return name


def _purpose(description: str | None) -> str:
    """The role that a group's description names; "" if it says nothing."""
    if not description or description in ("undefined", "mesh_default"):
        return ""
    name = description.removeprefix(_MESH)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
