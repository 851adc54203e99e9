"""A network as a graph, from a file of any form: one that holds the whole graph, a machine file, ASTRA-sim's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chakrasim.machine.graph.formats import api
from chakrasim.machine.graph.formats.server import ONE_SERVER, Servers
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.machine_file import load_machine
from chakrasim.machine.network import load_network
from chakrasim.notes import Notes


def read_graph(path: str | os.PathLike[str], notes: Notes | None = None, servers: Servers = ONE_SERVER) -> NetworkGraph:
    """The graph in a file of any form that is known; which it is is told by its content, not by its name.

    Of our machine file and ASTRA-sim's network file it is what their keys stand for (`Network.to_graph`). ``notes``
    collects what was dropped, guessed or is worth knowing. ``servers`` says how often the server of a file of NCCL or
    nvidia-smi is there, and what joins them. Raises :class:`chakrasim.InputError` with the line, what was found there,
    what was expected and what to do.
    """
    said = Notes() if notes is None else notes

    def other(document: Mapping[str, Any]) -> NetworkGraph | None:
        if "topology" in document:
            return load_network(os.fspath(path), said).to_graph()
        if "network" not in document:
            return None
        network = load_machine(os.fspath(path), said).network
        return network if isinstance(network, NetworkGraph) else network.to_graph()

    return api.read_graph(path, said, servers, other)
