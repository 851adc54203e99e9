"""Clusters of SimGrid: flat, torus, fat tree, dragonfly, with its vertices and links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from chakrasim.config.table import Values
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.cascade import CASCADE
from chakrasim.machine.graph.families.family import Family
from chakrasim.machine.graph.families.torus import TORUS
from chakrasim.machine.graph.families.xgft import XGFT
from chakrasim.machine.graph.formats.simgrid_draft import FAT, SHARED, SPLIT, Draft, Resource
from chakrasim.machine.graph.formats.xml_tree import Element, needed
from chakrasim.machine.graph.graph import RANK
from chakrasim.text.amounts import plural

_MOST_HOSTS: Final = 1 << 19
_RANGE: Final = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", re.ASCII)


def add_cluster(element: Element, draft: Draft, gateways: set[str]) -> None:
    """A <cluster>: its hosts, what joins them, and its router if it is the ``gateways`` of others."""
    hosts = add_hosts(element, draft)
    capacity, latency = draft.rate(element, "bw"), draft.time(element, "lat")
    link = Resource(
        needed(element, "id", draft.source), capacity, latency, draft.policy(element, "sharing_policy", SPLIT)
    )
    if link.policy == FAT:
        draft.source.warn(f"line {element.line}: FATPIPE cables of the cluster are shared by flows on one cable here")
    topology = element.attributes.get("topology", "FLAT").upper()
    ends = _limited(element, hosts, draft, topology)
    if topology == "FLAT":
        _flat(element, ends, link, draft, gateways)
        return
    builders = {"TORUS": _torus, "FAT_TREE": _fat_tree, "DRAGONFLY": _dragonfly}
    if topology not in builders:
        expected = "one of FLAT, " + ", ".join(builders)
        draft.source.refuse("unknown topology of a cluster", element.line, found=topology, expected=expected)
    builders[topology](element, ends, link, draft)


def add_hosts(element: Element, draft: Draft) -> list[str]:
    """The hosts of a cluster or cabinet."""
    prefix, suffix = element.attributes.get("prefix", ""), element.attributes.get("suffix", "")
    text = needed(element, "radical", draft.source)
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high or len(found) + high - low >= _MOST_HOSTS:
            expected = f"ranges of numbers such as 0-15,20, at most {_MOST_HOSTS:,} hosts"
            draft.source.refuse("radical", element.line, found=text, expected=expected)
        found += [draft.vertex(f"{prefix}{n}{suffix}", element.line, RANK) for n in range(low, high + 1)]
    return found


def _limited(element: Element, hosts: list[str], draft: Draft, topology: str) -> list[str]:
    """The vertex by which each host is joined: behind its limiter, if it has one."""
    if not element.attributes.get("limiter_link"):
        return hosts
    if topology in ("TORUS", "FAT_TREE"):
        draft.source.warn(f"line {element.line}: limiter_link is left out of {plural(len(hosts), 'host')}")
        return hosts
    capacity = draft.rate(element, "limiter_link")
    found = []
    for host in hosts:
        found.append(draft.vertex(f"{host}_limiter", element.line))
        draft.cable(host, found[-1], Resource(f"{host} limiter", capacity, 0.0, SHARED))
    return found


def _named(link: Resource, *parts: object) -> Resource:
    """The resource of one cable."""
    return replace(link, name=" ".join(map(str, (link.name, *parts))))


# -- flat --------------------------------------------------------------------------------------------------------------


def _flat(element: Element, ends: list[str], link: Resource, draft: Draft, gateways: set[str]) -> None:
    prefix, suffix = element.attributes.get("prefix", ""), element.attributes.get("suffix", "")
    router = element.attributes.get("router_id") or f"{prefix}{link.name}_router{suffix}"
    backbone = None
    if element.attributes.get("bb_bw"):
        capacity, latency = draft.rate(element, "bb_bw"), draft.time(element, "bb_lat")
        backbone = Resource(
            f"{link.name} backbone", capacity, latency, draft.policy(element, "bb_sharing_policy", SHARED)
        )
    cables = [(end, _named(link, end), _named(link, end)) for end in ends]
    add_star(link.name, cables, backbone, router if router in gateways or not backbone else "", element, draft)


def add_star(
    name: str,
    cables: Sequence[tuple[str, Resource, Resource]],
    backbone: Resource | None,
    router: str,
    element: Element,
    draft: Draft,
) -> None:
    """Hosts, each with its resource up and its resource down, around a router; a backbone is crossed once by all that
    goes from host to host, or between a host and the router."""
    if router and router not in draft.kinds:
        draft.vertex(router, element.line)
    if backbone is None:
        centre = router or draft.vertex(f"{name}_centre", element.line)
        for host, up, down in cables:
            _both(host, centre, up, down, draft)
        return
    inside, outside = draft.vertex(f"{name}_in", element.line), draft.vertex(f"{name}_out", element.line)
    draft.way(inside, outside, backbone)
    if router:
        draft.way(inside, router, backbone)
        draft.way(router, outside, backbone)
    for host, up, down in cables:
        draft.way(host, inside, up, "UP")
        draft.way(outside, host, down, "DOWN")


def _both(a: str, b: str, up: Resource, down: Resource, draft: Draft) -> None:
    if up == down:
        draft.cable(a, b, up)
        return
    draft.way(a, b, up, "UP")
    draft.way(b, a, down, "DOWN")


# -- torus, fat tree, dragonfly ----------------------------------------------------------------------------------------


def _parameters(element: Element, pattern: str, expected: str, draft: Draft) -> list[list[int]]:
    text = needed(element, "topo_parameters", draft.source)
    if not re.fullmatch(pattern, text.replace(" ", ""), re.ASCII):
        draft.source.refuse("topo_parameters", element.line, found=text, expected=expected)
    return [[int(number) for number in part.split(",")] for part in text.replace(" ", "").split(";")]


def _refuse_count(element: Element, hosts: int, needed_hosts: int, draft: Draft) -> None:
    if hosts != needed_hosts:
        expected = f"{needed_hosts}, as topo_parameters say"
        draft.source.refuse("radical gives another number of hosts", element.line, found=hosts, expected=expected)


_N = "[1-9][0-9]{0,6}"


def _torus(element: Element, hosts: list[str], link: Resource, draft: Draft) -> None:
    """A cable to the next in each dimension; two members have two, as in SimGrid."""
    (sizes,) = _parameters(element, f"{_N}(,{_N}){{0,7}}", "sizes of dimensions, such as 4,4,2", draft)
    _refuse_count(element, len(hosts), prod(sizes), draft)
    draft.transit.update(hosts)
    keys = {"sizes": tuple(sizes), "wrap": (True,), "double": True, "bandwidth": (1.0,), "latency": (0.0,)}
    for at, (a, b) in enumerate(_cables(TORUS, keys, element, hosts, link, draft)):
        draft.cable(a, b, _named(link, at))


def _fat_tree(element: Element, hosts: list[str], link: Resource, draft: Draft) -> None:
    """An extended generalised fat tree: ``levels;children;parents;cables``."""
    form = f"{_N};{_N}(,{_N})*;{_N}(,{_N})*;{_N}(,{_N})*"
    expected = "levels;children;parents;cables of each level, such as 2;4,4;1,2;1,2"
    (levels,), *lists = _parameters(element, form, expected, draft)
    if not all(len(numbers) == levels for numbers in lists):
        found = element.attributes["topo_parameters"]
        draft.source.refuse("topo_parameters", element.line, found=found, expected=f"{levels} numbers in each list")
    down, up, cables = map(tuple, lists)
    _refuse_count(element, len(hosts), prod(down), draft)
    keys = {"down": down, "up": up, "cables": cables, "bandwidth": (1.0,), "latency": (0.0,)}
    for at, (a, b) in enumerate(_cables(XGFT, keys, element, hosts, link, draft)):
        draft.cable(a, b, _named(link, at))


def _dragonfly(element: Element, hosts: list[str], link: Resource, draft: Draft) -> None:
    """Cray's Cascade; parallel cables are one that is so many times as fast."""
    form = f"{_N},{_N};{_N},{_N};{_N},{_N};{_N}"
    expected = "groups,cables;chassis,cables;routers,cables;nodes, such as 3,4;4,3;5,1;2"
    (groups, blue), (chassis, black), (routers, green), (nodes,) = _parameters(element, form, expected, draft)
    _refuse_count(element, len(hosts), groups * chassis * routers * nodes, draft)
    keys = {"groups": groups, "chassis": chassis, "routers": routers, "hosts": nodes, "bandwidth": 1.0, "latency": 0.0}
    keys |= {"blue": blue, "black": black, "green": green}
    joined = Counter(_cables(CASCADE, keys, element, hosts, link, draft))
    for at, ((a, b), count) in enumerate(joined.items()):
        draft.cable(a, b, _named(replace(link, capacity=link.capacity * count), at))


def _cables(
    family: Family, keys: Values, element: Element, hosts: list[str], link: Resource, draft: Draft
) -> Iterator[tuple[str, str]]:
    """The ends of the cables of a family of ours, whose switches are added: ``c_router0``, ``c_switch1_0``."""
    made = GraphBuilder()
    made.add_ranks(len(hosts))
    try:
        family.build(made, **keys)
    except ValueError as error:
        draft.source.refuse(str(error), element.line, found=element.attributes["topo_parameters"])
    switches = (name.replace("level", "switch").replace("-", "_") for name in made.names[len(hosts) :])
    names = [*hosts, *(draft.vertex(f"{link.name}_{name}", element.line) for name in switches)]
    return ((names[a], names[b]) for a, b in made.cables())
