"""The topologies of a network's dimensions: one file each, and the table from which all take them by name."""

from __future__ import annotations

from chakrasim.machine.topologies.table import BUILT_IN, TOPOLOGIES, register, topology_of
from chakrasim.machine.topologies.topology import Symmetry, Topology

__all__ = ["BUILT_IN", "TOPOLOGIES", "Symmetry", "Topology", "register", "topology_of"]
