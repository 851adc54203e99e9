"""Which network a run has, and what the engine is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, cast, get_args

import numpy as np

from chakrasim.collectives.libraries.settings import Settings
from chakrasim.config.section import Source
from chakrasim.errors import InputError
from chakrasim.machine import Machine, Network
from chakrasim.machine.graph.changes import NO_RANK, Change, load_changes
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.notes import Notes
from chakrasim.simulator.context import NetworkModel, Protocol
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.channels import Channels
from chakrasim.simulator.lowering.library import Courses
from chakrasim.simulator.lowering.library_messages import SWITCHED

Congestion = Literal["aware", "unaware"]
SettingsSource = str | PathLike[str] | Mapping[str, Any]
WITHOUT_PXN = ("dimension-order", "given")
_DESCRIBED = "a mapping of topology, config and logical_dims, or the file of such a configuration"


@dataclass(frozen=True)
class PacketOptions:
    """What is said of a network of packets beside its model: whether it has the reference's faults, the logical
    topology beside an ns-3 configuration, and the keys of a configuration for any other network."""

    compat: bool = False
    logical_topology: Source | None = None
    settings: SettingsSource | None = None

    def refuse(self, why: str) -> None:
        """Raise InputError if anything is said."""
        for name, given in (
            ("compat", self.compat or None), ("logical_topology", self.logical_topology), ("settings", self.settings),
        ):  # fmt: skip
            if given is not None:
                raise InputError(
                    f"{name} has no effect: {why}", remedy=f"leave {name} out, or use network model packet"
                )


def described_packets(
    network: Any, model: NetworkModel | None, options: PacketOptions, notes: Notes
) -> tuple[Any, Any]:
    """The network of packets, if one is described as ns-3's, and the network as the ranks see it. Raises InputError."""
    from chakrasim.simulator.packet.ns3.files import is_configuration, packet_files
    from chakrasim.simulator.packet.ns3.system import packet_system

    as_mapping = isinstance(network, Mapping) and "topology" in network and "config" in network
    if not as_mapping and not is_configuration(network):
        if options.logical_topology is not None:
            raise InputError("a logical topology stands beside a configuration of ns-3", file="network",
                             expected=_DESCRIBED)  # fmt: skip
        return None, network
    if model not in (None, "packet"):
        raise InputError(
            f"a network of packets, which the {model} model does not know", remedy="use network model packet"
        )
    if options.settings is not None:
        raise InputError("the network has a configuration of its own", remedy="leave settings out")
    if as_mapping:
        replace(options, compat=False).refuse("the network has logical_dims")
        found = packet_system(network, options.compat, notes)
    else:
        found = packet_files(network, options.logical_topology, options.compat, notes)
    return found.network, shape_of(found.logical_dims)


def model_of(network_model: NetworkModel | None, congestion: Congestion | None, on: Machine) -> NetworkModel:
    """The network model of a run. Raises InputError."""
    if network_model is not None and congestion is not None:
        raise InputError("network_model and congestion say the same thing twice", remedy="give network_model only")
    if congestion not in (None, "aware", "unaware"):
        raise InputError("unknown congestion model", found=repr(congestion), expected="'aware' or 'unaware'")
    is_graph = isinstance(on.network, NetworkGraph)
    model: Any = network_model or congestion or on.network_model or ("flow" if is_graph else "unaware")
    if model not in get_args(NetworkModel):
        raise InputError("unknown network model", found=repr(model), expected="'unaware', 'aware', 'flow' or 'packet'")
    if is_graph and model not in ("flow", "packet"):
        raise InputError(
            f"the network is a graph of links, which the {model} model does not know",
            remedy="use network model flow or packet",
        )
    return cast(NetworkModel, model)


def network_of(
    on: Machine,
    model: NetworkModel,
    protocol: Protocol,
    changes: Source | Sequence[Change] | None,
    notes: Notes,
    options: PacketOptions | None = None,
    packets: Any = None,
) -> dict[str, Any]:
    """The network as a run needs it: the shape of the ranks, and the links of a graph; ``packets`` is a network of
    packets that is described already."""
    options = options or PacketOptions()
    if model == "packet" and packets is None:
        return _packets_of(on, protocol, changes, notes, options)
    if packets is None:
        options.refuse(f"the {model} network has no packets")
    if model != "flow":
        return {**_without_links(on, model, protocol, changes, notes), "packets": packets}
    return _flows_of(on, protocol, changes, notes)


def _without_links(
    on: Machine, model: NetworkModel, protocol: Protocol, changes: object, notes: Notes
) -> dict[str, Any]:
    if on.library is not None:
        what = f"{on.library.asked} runs collectives as activities of links, which the {model} network has not"
        raise InputError(what, remedy="use network model flow")
    if changes is not None:
        raise InputError(f"links of the {model} network do not change", remedy="use network model flow")
    idle = {"messages": protocol.messages, "channels": protocol.channels, "routing": on.routing != Routing()}
    why = f"has no effect on the {model} network: use network model flow"
    notes.warn(*(f"{name} {why}" for name, given in idle.items() if given))
    return {"network": on.network, "network_model": model, "protocol": protocol}


def _links_of(on: Machine, protocol: Protocol) -> tuple[NetworkGraph, Courses | None, Network]:
    """The graph, the library's collectives on it, and the shape of the ranks. Raises InputError."""
    if protocol.group_dimensions:
        raise InputError("a network of links has no dimensions to give to groups", remedy="leave group_dimensions out")
    graph = on.graph
    courses = None if on.library is None else Courses(on)
    if courses is not None and protocol.channels:
        remedy = "set NCCL_MAX_NCHANNELS in its environment, or run without one: --library none"
        raise InputError("channels are the library's to choose", remedy=remedy)
    return graph, courses, on.network if isinstance(on.network, Network) else shape_of(graph.logical)


def _flows_of(
    on: Machine, protocol: Protocol, changes: Source | Sequence[Change] | None, notes: Notes
) -> dict[str, Any]:
    graph, courses, shape = _links_of(on, protocol)
    return {
        "network": shape,
        "network_model": "flow",
        "protocol": protocol,
        "graph": graph,
        "routing": on.routing,
        "changes": _all_changes(on, graph, changes, notes),
        "activities": None if protocol.messages else Activities(graph, on.routing, protocol.channels, courses),
        "alone": Activities(graph, on.routing, courses=courses) if protocol.messages and courses else None,
        "channels": Channels(graph, on.routing, protocol.channels)
        if protocol.messages and graph is on.network
        else None,
    }


def _packets_of(
    on: Machine, protocol: Protocol, changes: Source | Sequence[Change] | None, notes: Notes, options: PacketOptions
) -> dict[str, Any]:
    """A machine's links as a network of packets; collectives run message by message."""
    from chakrasim.simulator.packet.faults import faults_of
    from chakrasim.simulator.packet.graph.network import network_of_graph
    from chakrasim.simulator.packet.graph.ways import followed
    from chakrasim.simulator.packet.ns3.files import values_of

    graph, courses, shape = _links_of(on, protocol)
    values, file = (
        values_of(options.settings) if options.settings is not None else ({}, f"{on.name or 'machine'}: packets")
    )
    routing = followed(on.routing, notes)
    if courses is not None and np.unique(graph.island[: graph.ranks]).size > 1 and routing.rule not in WITHOUT_PXN:
        routing = replace(routing, pxn=True)
    given = {**on.packets, **values}
    packets = network_of_graph(graph, routing, given, file, faults_of(options.compat), notes)
    plain = None if courses is None else Courses(replace(on, settings=_unswitched(on.settings)))
    return {
        "network": shape,
        "network_model": "packet",
        "protocol": protocol,
        "graph": graph,
        "routing": routing,
        "packets": packets,
        "changes": _downs_and_ups(graph, _all_changes(on, graph, changes, notes)),
        "alone": Activities(graph, routing, courses=courses) if courses else None,
        "unswitched": Activities(graph, routing, courses=plain) if plain else None,
        "channels": Channels(graph, routing, protocol.channels) if courses or graph is on.network else None,
    }


def _unswitched(settings: Settings) -> Settings:
    """What was set, without switches that add up."""
    recorded = tuple(one for one in settings.recorded if not one.algorithm.startswith(SWITCHED))
    return replace(settings, nvls=False, collnet=False, recorded=recorded)


def _all_changes(
    on: Machine, graph: NetworkGraph, changes: Source | Sequence[Change] | None, notes: Notes
) -> tuple[Change, ...]:
    return (*on.changes, *(() if changes is None else load_changes(changes, graph, notes, on.changes)))


def _downs_and_ups(graph: NetworkGraph, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Changes of which packets know each. Raises InputError."""
    for change in changes:
        what = "a rank that fails takes its job with it" if change.rank != NO_RANK else ""
        if change.capacity not in (None, 0):
            what = f"{graph.link_names[int(change.links[0])]} gets another speed"
        if what:
            raise InputError(
                f"{what}, which the packet network does not know", file="changes", place=f"at {change.at_ns} ns",
                expected="cables, switches and NICs that go down and come up", remedy="use network model flow",
            )  # fmt: skip
    return changes


def shape_of(logical: Sequence[int]) -> Network:
    """Dimensions that say how ranks are ordered, and no more: nobody asks for their links."""
    counts = tuple(count for count in logical if count > 1) or (2,)
    return Network(("Switch",) * len(counts), counts, (1.0,) * len(counts), (0.0,) * len(counts))
