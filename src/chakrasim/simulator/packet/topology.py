"""Nodes, switches and links of a network of packets, as HPCC's files have them (packet-network.md, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator.packet.settings import delay_ns, rate_bps, whole_number

MOST_NODES: Final = 1 << 20
SLOWEST_LINK: Final = 10**6
"""Bit/s: no packet takes longer than 32 bits have room for."""
_LINK: Final = "two nodes, rate, delay and error rate, such as 8 0 400Gbps 0.0005ms 0"


@dataclass(frozen=True)
class Link:
    """A cable between two nodes."""

    a: int
    b: int
    rate: int
    delay_ns: int
    error_rate: float


@dataclass(frozen=True)
class Topology:
    """Nodes 0 to ``nodes`` - 1, of which some are switches and the others hosts, and the links in their order."""

    nodes: int
    switches: tuple[int, ...]
    links: tuple[Link, ...]

    @cached_property
    def is_host(self) -> NDArray[np.bool_]:
        """bool[nodes]: whether each is no switch."""
        found = np.ones(self.nodes, np.bool_)
        found[list(self.switches)] = False
        return found

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The nodes that are no switches."""
        return tuple(np.flatnonzero(self.is_host).tolist())


def read_topology(text: str, file: str) -> Topology:
    """The topology in a file's text. Raises InputError with the line."""
    rows = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.split()]
    if not rows:
        raise InputError("the file is empty", file=file, expected="a topology")
    line, head = rows[0]
    numbers = _numbers(head)
    if len(numbers) != 3:
        _refuse(file, f"line {line}", "this is no head of a topology", " ".join(head)[:60], "nodes switches links")
    nodes, count, links = numbers
    at = 1
    named: list[str] = []
    while len(named) < count and at < len(rows):
        named += rows[at][1]
        at += 1
    while at < len(rows) and len(rows[at][1]) == 1:
        named += rows[at][1]
        at += 1
    switches = _numbers(named)
    if len(named) != count or len(switches) != count:
        _refuse(file, f"line {line + 1}", "these are not the switches", " ".join(named)[:60], f"{count} numbers")
    found = rows[at : at + links]
    if len(found) < links:
        _refuse(file, f"line {line}", "links are missing", str(len(found)), f"{links}, as the head says")
    entries = [(f"line {number}", words) for number, words in found]
    return _checked(nodes, switches, entries, file)


def topology_of(value: Any, file: str) -> Topology:
    """The topology in a case: {"nodes": n, "switches": [...], "links": [[a, b, rate, delay, error rate], ...]}."""
    place = "$.topology"
    if not isinstance(value, Mapping) or not {"nodes", "switches", "links"} <= set(value):
        _refuse(file, place, "this is no topology", str(value)[:60], "an object of nodes, switches and links")
    nodes, switches, links = value["nodes"], value["switches"], value["links"]
    if not _is_count(nodes) or not isinstance(switches, list) or not isinstance(links, list):
        _refuse(file, place, "this is no topology", str(value)[:60], "a number of nodes, two lists")
    for switch in switches:
        if not _is_count(switch):
            _refuse(file, f"{place}.switches", "this is no switch", str(switch)[:60], "numbers of nodes")
    entries = []
    for at, link in enumerate(links):
        where = f"{place}.links[{at}]"
        if not isinstance(link, list):
            _refuse(file, where, "this is no link", str(link)[:60], _LINK)
        entries.append((where, [str(word) for word in link]))
    return _checked(nodes, switches, entries, file)


def _numbers(words: list[str]) -> list[int]:
    """Those of the words that are whole numbers."""
    return [number for word in words if (number := whole_number(word)) is not None]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_NODES


def _refuse(file: str, place: str, message: str, found: str, expected: str) -> NoReturn:
    raise InputError(message, file=file, place=place, found=found, expected=expected)


def _checked(nodes: int, switches: list[int], entries: list[tuple[str, list[str]]], file: str) -> Topology:
    expected = f"0 to {nodes - 1}, each once"
    if not 0 < nodes <= MOST_NODES:
        _refuse(file, "nodes", "the number of nodes is out of range", str(nodes), f"1 to {MOST_NODES:,}")
    if len(set(switches)) != len(switches) or any(switch >= nodes for switch in switches):
        _refuse(file, "switches", "these are not the switches", str(switches)[:60], expected)
    links = []
    for place, words in entries:
        try:
            a, b, rate, delay, error = words
            if rate_bps(rate) < SLOWEST_LINK:
                raise ValueError("a rate of 1Mbps or more")
            link = Link(int(a), int(b), rate_bps(rate), delay_ns(delay), float(error))
        except ValueError as fault:
            told = str(fault) if str(fault).startswith("a ") else _LINK
            _refuse(file, place, "this is no link", " ".join(words)[:60], told)
        if not (0 <= link.a < nodes and 0 <= link.b < nodes and link.a != link.b and 0 <= link.error_rate <= 1):
            _refuse(file, place, "this is no link", " ".join(words)[:60], f"{_LINK}, of different nodes below {nodes}")
        links.append(link)
    if len(switches) == nodes:
        _refuse(file, "switches", "there is no host", f"{nodes} switches", "a node that is no switch")
    joined = {end for link in links for end in (link.a, link.b)}
    if len(joined) < nodes:
        alone = next(node for node in range(nodes) if node not in joined)
        found = f"node {alone}" + (f" and {nodes - len(joined) - 1} more" if nodes - len(joined) > 1 else "")
        _refuse(file, "links", "a node has no link", found, f"links of all nodes, 0 to {nodes - 1}")
    return Topology(nodes, tuple(switches), tuple(links))
