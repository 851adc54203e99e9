"""Which ranks do the same: those at the same place of every group that messages are sent in.

Ranks of data, tensor and expert parallel groups run the same operators on tensors of the same shape; what a rank does
depends on its place where it talks to one other rank: stages of a pipeline, neighbours of a ring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Groups = Mapping[str, tuple[tuple[int, ...], ...]]


def classes(world: int, roles: Groups, message_roles: Collection[str]) -> dict[tuple[int, ...], list[int]]:
    """The ranks of each class, ascending, by their places in the groups of ``message_roles`` (-1: in none).

    Messages in the group of all ranks (""), of ranks that share no smaller one, make every rank a class of its own.
    """
    places: list[dict[int, int]] = []
    for role in sorted(message_roles):
        groups = roles.get(role, (tuple(range(world)),) if role == "" else ())
        places.append({rank: place for members in groups for place, rank in enumerate(members)})
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(world):
        found.setdefault(tuple(place.get(rank, -1) for place in places), []).append(rank)
    return found
