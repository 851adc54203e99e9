"""Families by name: those of the package, and any that are registered from outside."""

from __future__ import annotations

from typing import Final

from chakrasim.extensions import enter, registered_name
from chakrasim.machine.graph.families.cascade import CASCADE
from chakrasim.machine.graph.families.cube_mesh import CUBE_MESH
from chakrasim.machine.graph.families.dragonfly import DRAGONFLY
from chakrasim.machine.graph.families.dragonfly_plus import DRAGONFLY_PLUS
from chakrasim.machine.graph.families.family import Family
from chakrasim.machine.graph.families.fat_tree import FAT_TREE
from chakrasim.machine.graph.families.full_mesh import FULL_MESH
from chakrasim.machine.graph.families.leaf_spine import LEAF_SPINE
from chakrasim.machine.graph.families.nics import NICS
from chakrasim.machine.graph.families.nvswitch import NVSWITCH_ISLANDS
from chakrasim.machine.graph.families.optical import OPTICAL_CIRCUITS
from chakrasim.machine.graph.families.rail_only import RAIL_ONLY
from chakrasim.machine.graph.families.rails import RAILS
from chakrasim.machine.graph.families.star import STAR
from chakrasim.machine.graph.families.torus import TORUS
from chakrasim.machine.graph.families.xgft import XGFT

BUILT_IN: Final = (
    *(NVSWITCH_ISLANDS, FULL_MESH, CUBE_MESH, NICS),
    *(STAR, LEAF_SPINE, FAT_TREE, XGFT, RAILS, RAIL_ONLY),
    *(DRAGONFLY, DRAGONFLY_PLUS, CASCADE, TORUS, OPTICAL_CIRCUITS),
)

FAMILIES: Final[dict[str, Family]] = {family.name: family for family in BUILT_IN}
"""By name."""


def register(family: Family) -> Family:
    """Make a family known under its name, which can be given once only; returns it."""
    return enter(FAMILIES, family.name, family, "family")


def family_of(text: str) -> Family:
    """The family that a configuration names: by the name that it is registered by, or as ``module:name``.

    Raises :class:`chakrasim.InputError`, without file and place, for a name that is not known.
    """
    return FAMILIES[registered_name(text, FAMILIES, "family of topologies", "chakrasim.families")]
