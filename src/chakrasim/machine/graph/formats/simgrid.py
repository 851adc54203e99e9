"""Platform files of SimGrid: zones with their hosts, routers, links and routes, and clusters.

A link of SimGrid is a capacity without ends; a route says which capacities lie between two hosts. So a route of
several links becomes a chain of links of the graph with vertices of its own between them, and uses of one SimGrid link
are links with one medium: what shares in SimGrid shares here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from chakrasim.machine.graph.formats.simgrid_clusters import add_cluster, add_hosts, add_star
from chakrasim.machine.graph.formats.simgrid_draft import FAT, SHARED, SPLIT, Draft, Resource
from chakrasim.machine.graph.formats.simgrid_own import is_written, read_written
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, needed, refuse_misplaced
from chakrasim.machine.graph.graph import RANK, NetworkGraph
from chakrasim.text.amounts import plural

_ROUTINGS: Final = ("Full", "Floyd", "Dijkstra", "DijkstraCache", "Cluster")
_FORWARDING: Final = ("Floyd", "Dijkstra", "DijkstraCache")
_ZONES: Final = ("zone", "AS")
_ZONE_ROUTES: Final = ("zoneRoute", "ASroute")
_BYPASSES: Final = ("bypassRoute", "bypassZoneRoute", "bypassASroute")
_IN_ZONE: Final = (
    *(*_ZONES, *_ZONE_ROUTES, *_BYPASSES, "host", "router", "link", "route", "cluster", "cabinet", "backbone"),
    *("host_link", "include", "peer", "trace", "trace_connect", "prop", "storage", "storage_type"),
)
_PROPS: Final = ("prop",)
_INSIDE: Final = {
    "platform": (
        "config",
        "random",
        "process",
        "actor",
        *_ZONES,
        "cluster",
        "include",
        "peer",
        "trace",
        "trace_connect",
    ),
    **dict.fromkeys(_ZONES, _IN_ZONE),
    **dict.fromkeys((*_ZONE_ROUTES, *_BYPASSES, "route"), ("link_ctn",)),
    **dict.fromkeys(("config", "cluster", "cabinet", "peer", "link", "disk"), _PROPS),
    "host": ("prop", "disk", "mount"),
    **dict.fromkeys(("process", "actor"), ("argument", "prop")),
    **dict.fromkeys(("storage", "storage_type"), ("prop", "model_prop")),
}
_PROFILES: Final = ("bandwidth_file", "latency_file", "state_file")
_LEFT: Final = {"include": "join the files first", "peer": "zones of Vivaldi coordinates are no graph"}


def read_simgrid(root: Element, source: Source) -> NetworkGraph:
    """The graph of a platform. Raises InputError with the line."""
    version = root.attributes.get("version", "")
    if version[:1] not in ("4", "5"):
        expected = "4 or 4.1; the tool simgrid_update_xml renews older files"
        source.refuse("the version of the platform is not read", root.line, found=version, expected=expected)
    refuse_misplaced(root, _INSIDE, source)
    if is_written(root):
        return read_written(root, source)
    draft = Draft(source)
    every = [*root.below()]
    gateways = {
        element.attributes.get(key, "")
        for element in every
        if element.name in _ZONE_ROUTES
        for key in ("gw_src", "gw_dst")
    }
    links: dict[str, Resource] = {}
    for element in every:
        if element.name in ("link", "backbone"):
            _resource(element, links, draft)
    _Reader(draft, links, gateways).inside(root, "")
    _say_what_is_left(every, draft)
    _refuse_bare(draft, root)
    return draft.graph()


def _resource(element: Element, links: dict[str, Resource], draft: Draft) -> None:
    name = needed(element, "id", draft.source)
    if name in links:
        draft.source.refuse("two links have one id", element.line, found=name, expected="each id once")
    policy = draft.policy(element, "sharing_policy", SHARED)
    links[name] = Resource(name, draft.rate(element, "bandwidth"), draft.time(element, "latency"), policy)


class _Reader:
    """Goes through the zones in order."""

    def __init__(self, draft: Draft, links: dict[str, Resource], gateways: set[str]) -> None:
        self.draft, self.links, self.gateways = draft, links, gateways
        self.routed: set[tuple[str, str]] = set()

    def inside(self, element: Element, routing: str) -> None:
        """What stands in the platform or in a zone, in the order in which SimGrid needs it."""
        for child in element.children:
            if child.name in _ZONES:
                self._zone(child)
            elif child.name == "cluster":
                add_cluster(child, self.draft, self.gateways)
            elif child.name == "host":
                host = self.draft.vertex(needed(child, "id", self.draft.source), child.line, RANK)
                if routing in _FORWARDING:
                    self.draft.transit.add(host)
            elif child.name == "router":
                self.draft.vertex(needed(child, "id", self.draft.source), child.line)
            elif child.name == "route":
                self._route(child, "src", "dst")
            elif child.name in _ZONE_ROUTES:
                self._route(child, "gw_src", "gw_dst")
            elif child.name in _LEFT:
                self.draft.source.refuse(f"<{child.name}> is not read", child.line, remedy=_LEFT[child.name])
        if routing == "Cluster":
            self._cluster_zone(element)

    def _zone(self, element: Element) -> None:
        source = self.draft.source
        routing = needed(element, "routing", source)
        if routing not in _ROUTINGS and not (routing == "None" and len([*element.all("host")]) < 2):
            expected = "one of " + ", ".join(_ROUTINGS)
            source.refuse("zones of this routing are not read", element.line, found=routing, expected=expected)
        self.inside(element, routing)

    def _cluster_zone(self, element: Element) -> None:
        """Hosts by <host_link>, cabinets, a backbone."""
        draft, cables = self.draft, []
        for child in element.all("host_link"):
            host = draft.known(needed(child, "id", draft.source), child.line)
            cables.append((host, self._link(child, "up"), self._link(child, "down")))
        for cabinet in element.all("cabinet"):
            capacity, latency = draft.rate(cabinet, "bw"), draft.time(cabinet, "lat")
            for host in add_hosts(cabinet, draft):
                link = Resource(f"{host} of {cabinet.line}", capacity, latency, SPLIT)
                cables.append((host, link, link))
        backbone = next((self.links[needed(one, "id", draft.source)] for one in element.all("backbone")), None)
        router = next((needed(one, "id", draft.source) for one in element.all("router")), "")
        add_star(needed(element, "id", draft.source), cables, backbone, router, element, draft)

    def _link(self, element: Element, key: str) -> Resource:
        name = needed(element, key, self.draft.source)
        whole = self.links.get(re.sub("_(UP|DOWN)$", "", name))
        if name not in self.links and whole is not None and whole.policy == SPLIT:
            return replace(whole, name=name, policy=SHARED)
        if name not in self.links:
            expected = "the id of a <link>"
            self.draft.source.refuse("there is no such link", element.line, found=name, expected=expected)
        return self.links[name]

    def _route(self, element: Element, first: str, last: str) -> None:
        draft, source = self.draft, self.draft.source
        a, b = (draft.known(needed(element, key, source), element.line) for key in (first, last))
        if a == b:
            return
        symmetrical = element.attributes.get("symmetrical", "YES").upper()
        if symmetrical not in ("YES", "NO"):
            source.refuse("symmetrical", element.line, found=symmetrical, expected="YES or NO")
        for pair in ((a, b), (b, a)) if symmetrical == "YES" else ((a, b),):
            if pair in self.routed:
                expected = "one route for each pair; routes are symmetrical unless they say NO"
                source.refuse(
                    "the route is there already", element.line, found=f"{pair[0]} to {pair[1]}", expected=expected
                )
            self.routed.add(pair)
        if first == "gw_src":
            draft.transit.update((a, b))
        self._chain(a, b, element, symmetrical == "YES")

    def _chain(self, a: str, b: str, element: Element, symmetrical: bool) -> None:
        """The links of a route, with vertices of their own between them."""
        draft, source = self.draft, self.draft.source
        uses = []
        for use in element.all("link_ctn"):
            link, direction = self._link(use, "id"), use.attributes.get("direction", "NONE")
            if direction not in ("UP", "DOWN", "NONE") or (direction == "NONE") == (link.policy == SPLIT):
                expected = "UP or DOWN of a SPLITDUPLEX link, no direction of another"
                source.refuse("direction", use.line, found=direction, expected=expected)
            uses.append((link, direction))
        if not uses:
            source.refuse("the route has no link", element.line, expected='<link_ctn id="..."/>')
        names = [a, *(draft.vertex(f"{a}~{b}~{n}", element.line) for n in range(1, len(uses))), b]
        for (link, direction), one, other in zip(uses, names, names[1:], strict=False):
            if symmetrical:
                draft.cable(one, other, link, direction)
            else:
                draft.way(one, other, link, direction)


def _say_what_is_left(every: list[Element], draft: Draft) -> None:
    source = draft.source
    profiles = sum(bool(element.attributes.get(key)) for element in every for key in _PROFILES)
    profiles += sum(element.name == "trace_connect" for element in every)
    if profiles:
        source.warn(
            f"{plural(profiles, 'profile')} of capacity, latency or state over time not read; give changes instead"
        )
    bypasses = sum(element.name in _BYPASSES for element in every)
    if bypasses:
        source.warn(f"{plural(bypasses, 'bypass route')} not read")
    fat = sum(resource.policy == FAT for _, _, resource, _, _ in draft.links)
    if fat:
        source.warn(f"{plural(fat, 'link')} of policy FATPIPE: flows on one of them share it here, and would not there")
    if draft.bare:
        source.warn(f"{plural(draft.bare, 'number')} without a unit: bytes a second and seconds, as in SimGrid")
    forwarding = sum(draft.kinds[name] == RANK for name in draft.transit)
    if forwarding:
        source.note(f"{plural(forwarding, 'host')} let others' traffic pass, as in SimGrid")
    chains = sum("~" in name for name in draft.kinds)
    if chains:
        source.note(f"{plural(chains, 'vertex')} added between the links of routes that have several")


def _refuse_bare(draft: Draft, root: Element) -> None:
    joined = {end for a, b, *_ in draft.links for end in (a, b)}
    hosts = [name for name, kind in draft.kinds.items() if kind == RANK]
    if not hosts:
        draft.source.refuse("the platform has no host", root.line, expected="<host> or <cluster>")
    bare = [name for name in hosts if name not in joined]
    if bare and len(hosts) > 1:
        expected = "every host in a <route>, or in a <cluster>"
        draft.source.refuse(f"{plural(len(bare), 'host')} without a link", root.line, found=bare[0], expected=expected)
