"""Families of topologies: one file each, and the table from which all take them by name."""

from __future__ import annotations

from chakrasim.config.table import REQUIRED, Derived, Key
from chakrasim.machine.graph.families.family import COUNT, LATENCY, RATE, Family, bandwidth, latency, listed
from chakrasim.machine.graph.families.table import FAMILIES, family_of, register

__all__ = [
    "COUNT",
    "FAMILIES",
    "LATENCY",
    "RATE",
    "REQUIRED",
    "Derived",
    "Family",
    "Key",
    "bandwidth",
    "family_of",
    "latency",
    "listed",
    "register",
]
