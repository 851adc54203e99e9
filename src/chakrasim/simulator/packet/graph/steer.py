"""Ports of sources that lead flows over wanted links: switches choose by a hash of addresses and ports, which are free.

A library's connections last, so that each keeps to one way; here that is the way of the graph's own routing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.routing import Routes
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import Longs

Words = NDArray[np.uint64]
TRIES: Final = (64, 1 << 10, 1 << 14)
"""Ports that are tried: more where fewer have not led there."""
_WORD: Final = np.uint64(0xFFFFFFFF)


class Steering:
    """Finds ports on one network, each once; ``target_port`` is that of all flows, ``first_port`` the lowest."""

    def __init__(self, network: Network, first_port: int, target_port: int) -> None:
        self._network, self._target_port = network, target_port
        self._ports = first_port + np.arange(TRIES[-1], dtype=np.uint64)
        self._known: dict[tuple[int, ...], int] = {}

    def ports_for(self, source: Any, target: Any, routes: Routes) -> Longs:
        """int64[h]: with which port each message from one rank to another takes the links of its route, as far as
        these are among the ways that packets have."""
        assert self._network.link_ports is not None
        ends = zip(np.asarray(source).tolist(), np.asarray(target).tolist(), strict=True)
        found = []
        for i, (a, b) in enumerate(ends):
            key = (a, b, *self._network.link_ports[routes.of(i)[0]].tolist())
            if key not in self._known:
                self._known[key] = self._found(*key)
            found.append(self._known[key])
        return np.array(found, np.int64)

    def _found(self, source: int, target: int, *out: int) -> int:
        choices = self._choices(target, out)
        for tries in TRIES:
            ports = self._ports[:tries]
            words = ports | np.uint64(self._target_port << 16)
            good = np.zeros(tries, np.int64)
            for seed, several, wanted in choices:
                hashed = _hash(seed, _address(source), _address(target), words)
                good += hashed % np.uint64(several) == wanted
            best = int(np.argmax(good))
            if good[best] == len(choices):
                break
        return int(ports[best])

    def _choices(self, target: int, out: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """Where there is a choice: the seed of the hash, how many ways there are, and which is wanted."""
        network, found = self._network, []
        hosts = set(network.topology.hosts)
        for port in out:
            node = int(network.ports.node[port])
            ways = network.ways.of(node, target)
            if len(ways) > 1 and port in ways:
                found.append((state.NIC_SEED if node in hosts else node, len(ways), ways.index(port)))
        return found


def _address(host: int) -> int:
    return 0x0B000001 + (host >> 8) * 0x10000 + (host & 255) * 0x100


def _hash(seed: int, a: int, b: int, c: Words) -> Words:
    """`routes.hash_of` of many third words."""
    h = _mixed(_mixed(np.uint64(seed), np.uint64(a)), np.uint64(b))
    h = _mixed(h, c) ^ np.uint64(12)
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & _WORD
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & _WORD
    return h ^ h >> np.uint64(16)


def _turned(a: Any, bits: int) -> Any:
    return (a << np.uint64(bits) | a >> np.uint64(32 - bits)) & _WORD


def _mixed(h: Any, k: Any) -> Any:
    k = _turned(k * np.uint64(0xCC9E2D51) & _WORD, 15) * np.uint64(0x1B873593) & _WORD
    return (_turned(h ^ k, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & _WORD
