"""Topologies by name: those of the package, and any that are registered from outside."""

from __future__ import annotations

from typing import Final

from chakrasim.extensions import enter, registered_name
from chakrasim.machine.topologies.fully_connected import FULLY_CONNECTED
from chakrasim.machine.topologies.ring import RING
from chakrasim.machine.topologies.switch import SWITCH
from chakrasim.machine.topologies.topology import Topology

BUILT_IN: Final = (RING, FULLY_CONNECTED, SWITCH)
"""Compiled with the engine; any other when it is first simulated."""

TOPOLOGIES: Final[dict[str, Topology]] = {topology.name: topology for topology in BUILT_IN}
"""By name."""


def register(topology: Topology) -> Topology:
    """Make a topology known under its name, which can be given once only; returns it."""
    return enter(TOPOLOGIES, topology.name, topology, "topology")


def topology_of(text: str) -> Topology:
    """The topology that a configuration names: by the name that it is registered by, or as ``module:name``.

    Raises :class:`chakrasim.InputError`, without file and place, for a name that is not known.
    """
    return TOPOLOGIES[registered_name(text, TOPOLOGIES, "topology", "chakrasim.topologies")]
