"""A topology with its settings, ports and routes, checked: what does not change while packets move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from chakrasim.errors import InputError
from chakrasim.simulator.packet.buffers import Buffers
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.control.table import CONTROLS, DCQCN, HPCC, OURS
from chakrasim.simulator.packet.faults import Faults
from chakrasim.simulator.packet.settings import Settings
from chakrasim.simulator.packet.state import Longs
from chakrasim.simulator.packet.topology import Topology
from chakrasim.simulator.packet.ways import Down, Ports, Ways, find_ways, ports_of

HEADER_BYTES: Final = 36
KNOWN_RATES: Final = tuple(gigabit * 10**9 for gigabit in (25, 50, 100, 200, 400, 1200, 2400))
"""Those of HPCC's records; others read as the first (packet-network.md, 8.2)."""
HOPS_KNOWN: Final = 5
MOST_HOPS: Final = 14
MOST_PAIRS: Final = 1 << 26
Find = Callable[[Down], Ways]
"""Finds the routes while links are down."""


@dataclass(frozen=True, eq=False)
class Network:
    """A topology with its settings, ports and routes: what does not change while packets move."""

    topology: Topology
    settings: Settings
    faults: Faults
    ports: Ports
    ways: Ways
    find: Find
    seed: int | None = None
    first_stream: int | None = None
    time_stamps: bool = True
    sample_ns: int = 0
    """Between two looks at queues under a workload; 0: none."""
    link_ports: Longs | None = None
    """Of a graph, int64[l]: the port through which each of its links is left."""
    bdp: Longs = field(init=False)
    mode: int = field(init=False)
    control: Control | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bdp", self.ways.bdp())
        mode = self.settings.cc_mode
        object.__setattr__(self, "mode", 0 if self.faults.only_its_controls and mode in OURS else mode)
        object.__setattr__(self, "control", CONTROLS.get(self.mode))

    def ways_without(self, port: int) -> Ways:
        """The routes when the link of a port is down."""
        return self.find(frozenset([int(self.ports.link[port])]))

    @property
    def buffers(self) -> Buffers:
        """How the switches' buffers are divided."""
        return Buffers(self.topology, self.settings, self.ports)

    @property
    def int_bytes(self) -> int:
        """What congestion control takes along in each packet."""
        return 0 if self.control is None else self.control.header_bytes

    @property
    def header_bytes(self) -> int:
        """What a data packet has beside its payload."""
        return HEADER_BYTES + self.int_bytes

    @property
    def ack_bytes(self) -> int:
        """Of an acknowledgement."""
        return max(60 - 34 - 12 - self.int_bytes, 0) + 12 + self.int_bytes + 22

    @property
    def max_rtt_ns(self) -> int:
        """The largest base round trip of all pairs of hosts."""
        return max(int(self.ways.round_trip_ns.max(initial=0)), 0)

    @property
    def max_bdp(self) -> int:
        """The most bytes that a pair has under way at full rate."""
        return int(self.bdp.max(initial=0))


def network_of(
    topology: Topology,
    settings: Settings,
    faults: Faults,
    *,
    seed: int | None = None,
    first_stream: int | None = None,
    time_stamps: bool | None = None,
    find: Find | None = None,
    file: str = "config",
) -> Network:
    """Check the settings against the topology and find the routes. ``find`` does, where a breadth-first search is not
    wanted. Raises InputError with the key."""
    _check_room(topology)
    ports = ports_of(topology)
    parallel = not faults.last_of_parallel_links
    found = find or partial(find_ways, topology, ports, settings.packet_payload_size, parallel=parallel)
    stamps = time_stamps if time_stamps is not None else not faults.no_time_stamps
    network = Network(topology, settings, faults, ports, found(frozenset()), found, seed, first_stream, stamps)
    _check(network, file)
    return network


def _check(network: Network, file: str) -> None:
    settings, faults = network.settings, network.faults
    port_that_ends(network, file)
    if faults.whole_microseconds:
        _check_timers(settings, file)
    if settings.cc_mode == HPCC and not settings.has_win:
        raise InputError("HPCC divides by its window", file=file, place="HAS_WIN", found=0, expected="1 with CC_MODE 3")
    if not faults.unmarked_rates_mark_all and settings.enable_qcn:
        switches = set(network.topology.switches)
        for link in network.topology.links:
            maps = (("KMIN_MAP", settings.kmin_map), ("KMAX_MAP", settings.kmax_map), ("PMAX_MAP", settings.pmax_map))
            for key, thresholds in maps:
                if {link.a, link.b} & switches and link.rate not in thresholds:
                    raise InputError(
                        "a link's speed has no threshold for marks", file=file, place=key,
                        found=f"link {link.a}-{link.b} of {link.rate} bit/s",
                        expected=f"one of {', '.join(map(str, sorted(thresholds))) or 'none given'}",
                        remedy=f"add {link.rate} and its value to {key}, or set ENABLE_QCN 0",
                    )  # fmt: skip
    if settings.cc_mode == HPCC and not faults.five_hops and network.ways.hops.max(initial=0) > MOST_HOPS + 1:
        raise InputError(
            "a way has more switches than HPCC's records", file=file, place="CC_MODE",
            found=int(network.ways.hops.max()) - 1, expected=f"up to {MOST_HOPS}",
        )  # fmt: skip
    if settings.cc_mode == HPCC and not faults.unknown_rates_as_25g and len(line_rates(network)) > 8:
        raise InputError(
            "HPCC's records have room for eight speeds of links", file=file, place="CC_MODE",
            found=len(line_rates(network)), expected="8 at most",
        )  # fmt: skip
    if not faults.thresholds_wrap:
        network.buffers.check(settings.packet_payload_size + network.header_bytes, file)


def _check_room(topology: Topology) -> None:
    """Raise InputError for more hosts than tables of all pairs have room for."""
    hosts = max(topology.hosts) + 1
    if hosts * (hosts + topology.nodes) > MOST_PAIRS:
        raise InputError(
            "the network is too large", file="topology", found=f"{hosts:,} hosts, {topology.nodes:,} nodes",
            expected=f"hosts x (hosts + nodes) up to {MOST_PAIRS:,}",
        )  # fmt: skip


def _check_timers(settings: Settings, file: str) -> None:
    """Raise InputError for timers that stop the clock when they are cut to whole us."""
    for key in ("alpha_resume_interval", "rate_decrease_interval", "rp_timer"):
        if settings.cc_mode == DCQCN and getattr(settings, key) < 1:
            raise InputError(
                "cut to whole us this timer comes again at once, for ever", file=file, place=key.upper(),
                found=getattr(settings, key), expected="1 or more, or a run without the faults of the reference",
            )  # fmt: skip


def least_window(network: Network) -> int:
    """Bytes without which a flow does not get on: where whole chunks are acknowledged, a chunk."""
    settings = network.settings
    return settings.l2_chunk_size if settings.l2_back_to_zero and not network.faults.chunked_end else 0


def port_that_ends(network: Network, file: str = "config") -> int:
    """One of the two ports of the link that goes down. Raises InputError if there is none."""
    down = network.settings.link_down
    if down is None:
        return 0
    numbers = network.ports
    found = [
        port
        for port in range(int(numbers.node.size) - 1, 0, -1)
        if (numbers.node[port], numbers.node[numbers.peer[port]]) == (down.a, down.b)
    ]
    if not found:
        raise InputError(
            "there is no such link", file=file, place="LINK_DOWN", found=f"{down.a} {down.b}",
            expected="the two ends of a link",
        )  # fmt: skip
    return found[0]


def line_rates(network: Network) -> list[int]:
    """Rates as HPCC's records tell them apart."""
    if network.faults.unknown_rates_as_25g:
        return list(KNOWN_RATES)
    return sorted({link.rate for link in network.topology.links})


def most_hops(network: Network) -> int:
    """Records that a data packet has room for (HPCC)."""
    if network.faults.five_hops:
        return HOPS_KNOWN
    return max(HOPS_KNOWN, min(MOST_HOPS, int(network.ways.hops.max(initial=1)) - 1))
