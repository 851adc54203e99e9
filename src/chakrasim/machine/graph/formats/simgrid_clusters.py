"""Clusters of SimGrid: flat, torus, fat tree, dragonfly, with its vertices and links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from chakrasim.machine.graph.formats.simgrid_draft import FAT, MOST_LINKS, SHARED, SPLIT, Draft, Resource, needed
from chakrasim.machine.graph.formats.xml_tree import Element
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
    sizes = _parameters(element, f"{_N}(,{_N}){{0,7}}", "sizes of dimensions, such as 4,4,2", draft)[0]
    _refuse_count(element, len(hosts), prod(sizes), draft)
    draft.transit.update(hosts)
    for at, host in enumerate(hosts):
        stride = 1
        for dimension, size in enumerate(sizes):
            place = at // stride % size
            if size > 1:
                ahead = at + (stride if place < size - 1 else -stride * (size - 1))
                draft.cable(host, hosts[ahead], _named(link, host, dimension))
            stride *= size


def _fat_tree(element: Element, hosts: list[str], link: Resource, draft: Draft) -> None:
    """An extended generalised fat tree: ``levels;children;parents;cables``. Labels of vertices have a digit a level,
    the first fastest; child and parent agree in all but the one of the parent's level."""
    form = f"{_N};{_N}(,{_N})*;{_N}(,{_N})*;{_N}(,{_N})*"
    expected = "levels;children;parents;cables of each level, such as 2;4,4;1,2;1,2"
    (levels,), children, parents, cables = _parameters(element, form, expected, draft)
    if not len(children) == len(parents) == len(cables) == levels:
        found = element.attributes["topo_parameters"]
        draft.source.refuse("topo_parameters", element.line, found=found, expected=f"{levels} numbers in each list")
    _refuse_count(element, len(hosts), prod(children), draft)
    below = hosts
    for level in range(1, levels + 1):
        radix = [*parents[:level], *children[level:]]
        count = prod(radix)
        stride = prod(parents[: level - 1])
        if count * children[level - 1] * cables[level - 1] > MOST_LINKS:
            draft.source.refuse("the platform has too many links", element.line, expected=f"at most {MOST_LINKS:,}")
        above = [draft.vertex(f"{link.name}_switch{level}_{n}", element.line) for n in range(count)]
        for at, child in enumerate(below):
            low, high = at % stride, at // (stride * children[level - 1])
            for choice in range(parents[level - 1]):
                parent = above[low + stride * (choice + parents[level - 1] * high)]
                for cable in range(cables[level - 1]):
                    draft.cable(child, parent, _named(link, child, parent, cable))
        below = above


def _dragonfly(element: Element, hosts: list[str], link: Resource, draft: Draft) -> None:
    """``groups,blue;chassis,black;routers,green;nodes``: as in SimGrid, several cables of a pair of routers are one of
    so many times the rate; router J of group I holds the cable to group J."""
    form = f"{_N},{_N};{_N},{_N};{_N},{_N};{_N}"
    expected = "groups,cables;chassis,cables;routers,cables;nodes, such as 3,4;4,3;5,1;2"
    (groups, blue), (chassis, black), (slots, green), (nodes,) = _parameters(element, form, expected, draft)
    _refuse_count(element, len(hosts), groups * chassis * slots * nodes, draft)
    group = chassis * slots
    if groups > group:
        found, expected = plural(groups, "group"), f"at most {group}, the routers of a group"
        draft.source.refuse("a group has too few routers", element.line, found=found, expected=expected)
    routers = [draft.vertex(f"{link.name}_router{n}", element.line) for n in range(groups * group)]
    for at, host in enumerate(hosts):
        draft.cable(host, routers[at // nodes], _named(link, host))

    def join(a: int, b: int, times: int) -> None:
        wide = replace(link, capacity=link.capacity * times)
        draft.cable(routers[a], routers[b], _named(wide, routers[a], routers[b]))

    for first in range(0, groups * group, slots):
        for one in range(slots):
            for other in range(one + 1, slots):
                join(first + one, first + other, green)
    for first in range(0, groups * group, group):
        for one in range(chassis):
            for other in range(one + 1, chassis):
                for slot in range(slots):
                    join(first + one * slots + slot, first + other * slots + slot, black)
    for one in range(groups):
        for other in range(one + 1, groups):
            join(one * group + other, other * group + one, blue)
