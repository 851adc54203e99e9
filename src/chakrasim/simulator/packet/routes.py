"""Ways through the network: the port that a packet takes, among several by a hash (packet-network.md, 4.3)."""

from __future__ import annotations

from chakrasim.jit import inner, kernel, leaf
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.state import HOSTS, MANY, Longs, Net, whole

WORD = 0xFFFFFFFF


@inner
def times(a: int, b: int) -> int:
    """a b modulo 2^32, without leaving 63 bits."""
    return (a * (b & 0xFFFF) + ((a * (b >> 16) & 0xFFFF) << 16)) & WORD


@inner
def turned(a: int, bits: int) -> int:
    return (a << bits | a >> (32 - bits)) & WORD


@inner
def mixed(h: int, k: int) -> int:
    h ^= times(turned(times(k, 0xCC9E2D51), 15), 0x1B873593)
    return (turned(h, 13) * 5 + 0xE6546B64) & WORD


@inner
def hash_of(seed: int, a: int, b: int, c: int) -> int:
    """MurmurHash3 (32 bits) of three words."""
    h = mixed(mixed(mixed(seed, a), b), c) ^ 12
    h = times(h ^ h >> 16, 0x85EBCA6B)
    h = times(h ^ h >> 13, 0xC2B2AE35)
    return h ^ h >> 16


def address_of(host: int) -> int:
    """A host's address, of 32 bits (packet-network.md, 4.1)."""
    return 0x0B000001 + (whole(host) >> 8) * 0x10000 + (whole(host) & 255) * 0x100


address = inner(address_of)


@kernel
def hashes_of(seed: int, source: int, target: int, ports: Longs, found: Longs) -> None:
    """Into ``found``: by ports of a flow from one host to another, what the node with this seed chooses its way by."""
    for i in range(ports.size):
        found[i] = hash_of(seed, address(source), address(target), ports[i])


@leaf
def way_out(n: Net, port: int, flow: int, onward: bool) -> int:
    """The port through which a switch sends on a flow's packet that came in through a port, or, not ``onward``, its
    acknowledgement; 0 if there is none."""
    p, f = n.ports[port], n.flows[flow]
    way = whole(n.ways[p.routes + (f.target if onward else f.source)])
    return way if way < MANY else among(n, way - MANY, flow, onward, whole(p.node))


@inner
def among(n: Net, at: int, flow: int, onward: bool, seed: int) -> int:
    """One of several ways, by a hash of addresses and ports; those of acknowledgements are the other way round."""
    f = n.flows[flow]
    source, target, ports = address(f.source), address(f.target), whole(f.ports)
    if not onward:
        source, target = target, source
        ports = (ports << 16 | ports >> 16) & WORD
    return n.choices[at + 1 + hash_of(seed, source, target, ports) % whole(n.choices[at])]


@inner
def port_towards(n: Net, flow: int, onward: bool) -> int:
    """The port through which a flow's source, or its target, sends its packets."""
    f = n.flows[flow]
    own, other = whole(f.source), whole(f.target)
    if not onward:
        own, other = other, own
    way = whole(n.ways[own * n.g[HOSTS] + other])
    return way if way < MANY else among(n, way - MANY, flow, onward, state.NIC_SEED)


@inner
def queue_pair_ports(n: Net, flow: int) -> None:
    """Assign a flow to ports of its two hosts."""
    f = n.flows[flow]
    f.nic = port_towards(n, flow, state.YES)
    f.back = port_towards(n, flow, state.NO)
