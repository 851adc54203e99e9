"""A topology of someone else's: a mesh, which is a ring without the link from its last member to its first."""

from __future__ import annotations

from chakrasim.machine.topologies import Topology, register


def ports(members: int) -> int:
    """Port 0 leads up, port 1 down."""
    return 2


def route(here: int, to: int, members: int) -> tuple[int, int]:
    return here, 0 if to > here else 1


def ends(owner: int, port: int, members: int) -> tuple[int, int]:
    return owner, owner + 1 if port == 0 else owner - 1


MESH = register(Topology("Mesh", ports, route, ends))
