"""The network of a whole run as ASTRA-sim's ns-3 front end has it: topology, configuration, logical dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from chakrasim.errors import InputError, near
from chakrasim.notes import Notes
from chakrasim.simulator.packet.faults import faults_of
from chakrasim.simulator.packet.network import Network, network_of
from chakrasim.simulator.packet.settings import settings_of
from chakrasim.simulator.packet.topology import Topology, topology_of

KEYS: Final = ("topology", "config", "logical_dims", "first_stream", "sample_ns")
FILE: Final = "network"


@dataclass(frozen=True, eq=False)
class PacketSystem:
    """A network of packets whose first hosts are the ranks, and the dimensions in which these are ordered."""

    network: Network
    logical_dims: tuple[int, ...]


def packet_system(network: Mapping[str, Any], compat: bool, notes: Notes) -> PacketSystem:
    """The network that a mapping describes; ``compat`` has the reference's faults. Raises InputError."""
    for key in network:
        if key not in KEYS:
            raise InputError("unknown key", file=FILE, place=str(key), expected=", ".join(KEYS), remedy=near(key, KEYS))
    faults = faults_of(compat)
    topology = topology_of(network["topology"], FILE)
    sizes = dims_of(network.get("logical_dims"), topology, FILE, "logical_dims")
    settings = settings_of(network["config"], FILE, notes, silent=faults.unknown_keys_pass)
    built = network_of(topology, settings, faults, first_stream=network.get("first_stream"), file=FILE)
    every = network.get("sample_ns", 0)
    if type(every) is not int or not 0 <= every < 1 << 40:
        raise InputError("no time between looks", file=FILE, place="sample_ns", found=every, expected="ns, 0 for none")
    return PacketSystem(replace(built, sample_ns=every), sizes)


def dims_of(dims: object, topology: Topology, file: str, place: str) -> tuple[int, ...]:
    """The logical dimensions, whose product is the number of ranks. Raises InputError."""
    if not isinstance(dims, list | tuple) or not dims or not all(_is_size(size) for size in dims):
        raise InputError(
            "the logical dimensions are missing", file=file, place=place, found=dims, expected="such as [8]"
        )
    sizes = tuple(int(size) for size in dims)
    ranks = prod(sizes)
    if topology.hosts[:ranks] != tuple(range(ranks)):
        raise InputError(
            "the ranks are not the first hosts", file=file, place=place, found=f"{ranks} ranks",
            expected=f"hosts 0 to {ranks - 1}, and switches behind them",
        )  # fmt: skip
    return sizes


def _is_size(size: object) -> bool:
    text = str(size)
    return text.isdecimal() and len(text) < 9 and 1 <= int(text) <= 1 << 20
