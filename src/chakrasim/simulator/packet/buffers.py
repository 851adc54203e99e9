"""How the buffers of switches are divided: what is kept for each port, what ports share (packet-network.md, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chakrasim.errors import InputError
from chakrasim.simulator.packet.settings import Settings
from chakrasim.simulator.packet.switches import RESERVE
from chakrasim.simulator.packet.topology import Link, Topology
from chakrasim.simulator.packet.ways import Ports

MOST_BYTES: Final = (1 << 31) - 1
"""Of thresholds and of room for one queue."""


LARGEST_HEADER: Final = 128


def headroom_of(link: Link, settings: Settings) -> int:
    """Bytes that may arrive over a link before a pause holds, and then some."""
    packets = settings.headroom_packets * (settings.packet_payload_size + LARGEST_HEADER)
    return min(link.rate * link.delay_ns // 8 // 10**9 * settings.headroom_factor + packets, MOST_BYTES)


@dataclass(frozen=True, eq=False)
class Buffers:
    """The buffers of all switches."""

    topology: Topology
    settings: Settings
    ports: Ports

    def headroom(self, port: int) -> int:
        """Bytes that may arrive through a port before a pause holds, and then some."""
        return headroom_of(self.topology.links[int(self.ports.link[port])], self.settings)

    def shared_bytes(self, switch: int) -> int:
        """What a switch's buffer has beside what is kept for each port."""
        own = self._ports_of(switch)
        rooms = sum(self.headroom(port) for port in own)
        return self.settings.buffer_size * (1 << 20) - rooms - RESERVE * len(own)

    def shifts(self) -> list[int]:
        """By port: the share of the free buffer that it may take, as a shift: one less for each doubling of its speed
        beyond that of the first host's first port."""
        links, link_of = self.topology.links, self.ports.link
        own = self._ports_of(self.topology.hosts[0])
        base_rate = links[int(link_of[own[0]])].rate if own else 1
        found = [0]
        for port in range(1, link_of.size):
            shift, rate = 3, links[int(link_of[port])].rate
            while rate > base_rate and shift > 0:
                shift, rate = shift - 1, rate // 2
            found.append(shift)
        return found

    def check(self, largest: int, file: str) -> None:
        """Raise InputError for a switch whose ports ask for more room than it has, or that no packet gets into.

        ``largest``: bytes of a full packet.
        """
        shift = self.shifts()
        for switch in self.topology.switches:
            rooms = {port: self.headroom(port) for port in self._ports_of(switch)}
            left = self.shared_bytes(switch)
            if left < 0 or any(max(room, left >> shift[port]) < largest for port, room in rooms.items()):
                needs = sum(rooms.values()) + (RESERVE + (largest << 3)) * len(rooms)
                raise InputError(
                    f"the buffer of switch {switch} is too small for its {len(rooms)} ports", file=file,
                    place="BUFFER_SIZE", found=f"{self.settings.buffer_size} MiB",
                    expected=f"{-(-needs >> 20)} MiB, of which {sum(rooms.values()):,} bytes are for packets under way",
                    remedy="raise BUFFER_SIZE, or lower HEADROOM_FACTOR",
                )  # fmt: skip

    def _ports_of(self, node: int) -> range:
        return range(int(self.ports.first[node]) + 1, int(self.ports.first[node + 1]) + 1)
