"""Ports of sources that lead flows over wanted links: switches choose by a hash of addresses and ports, which are free.

A library's connections last, so that each keeps to one way; here that is the way of the graph's own routing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.machine.graph.routing import Routes
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.routes import hashes_of
from chakrasim.simulator.packet.state import Longs

TRIES: Final = (64, 1 << 10, 1 << 14)
"""Ports that are tried: more where fewer have not led there."""


class Steering:
    """Finds ports on one network, each once; ``target_port`` is that of all flows, ``first_port`` the lowest."""

    def __init__(self, network: Network, first_port: int, target_port: int) -> None:
        self._network, self._target_port = network, target_port
        self._ports = first_port + np.arange(TRIES[-1])
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
            good, hashed = np.zeros(tries, np.int64), np.zeros(tries, np.int64)
            for seed, several, wanted in choices:
                hashes_of(seed, source, target, ports | self._target_port << 16, hashed)
                good += hashed % several == wanted
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
