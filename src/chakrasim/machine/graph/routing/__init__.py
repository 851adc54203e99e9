"""Routes of flows on a graph of links (graph-networks.md, 4 and 5)."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.machine.graph.routing.failures import reroute
    from chakrasim.machine.graph.routing.find import find_routes, find_ways
    from chakrasim.machine.graph.routing.keys import ROUTING_KEYS, parse_routing, routing_kind
    from chakrasim.machine.graph.routing.rings import ChannelRings, channel_rings
    from chakrasim.machine.graph.routing.routes import Routes
    from chakrasim.machine.graph.routing.rule import GivenPath, NextLinks, Routing
    from chakrasim.machine.graph.routing.ways import Ways

__all__ = [
    "ROUTING_KEYS",
    "ChannelRings",
    "GivenPath",
    "NextLinks",
    "Routes",
    "Routing",
    "Ways",
    "channel_rings",
    "find_routes",
    "find_ways",
    "parse_routing",
    "reroute",
    "routing_kind",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "find": ("find_routes", "find_ways"),
        "keys": ("ROUTING_KEYS", "parse_routing", "routing_kind"),
        "failures": ("reroute",),
        "rings": ("ChannelRings", "channel_rings"),
        "routes": ("Routes",),
        "rule": ("GivenPath", "NextLinks", "Routing"),
        "ways": ("Ways",),
    },
)
