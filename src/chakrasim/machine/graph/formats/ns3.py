"""Topology files of ns-3 (HPCC, ASTRA-sim) and of SimAI: a head, the switches, then a cable a line.

::

    9 1 8                            nodes, switches, links
    8                                numbers of the switches
    8 0 400Gbps 0.0005ms 0           ends, rate, latency, error rate

SimAI's head has ``nodes gpus_per_server nvswitches switches links gpu_type``, and its second line names the NVSwitches
first. What is no switch is a host, and becomes a rank in the order of its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.formats.cables import as_cables, from_cables, warn_of_loss
from chakrasim.machine.graph.formats.quantities import BadQuantity, gigabits, nanoseconds, rate, time
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NO_ISLAND, NVSWITCH, RANK, SWITCH, NetworkGraph
from chakrasim.notes import Notes
from chakrasim.text.amounts import plural

_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_HEADS: Final = "`nodes switches links` (ns-3), or `nodes gpus_per_server nvswitches switches links gpu_type` (SimAI)"
_CABLE: Final = "5 words: `vertex vertex rate latency error`, such as `8 0 400Gbps 0.0005ms 0`"
_SHOWN: Final = 8


@dataclass(frozen=True)
class _Head:
    """The first line; ``gpus`` of a server, 0 in ns-3's form."""

    line: int
    nodes: int
    nvswitches: int
    switches: int
    links: int
    gpus: int = 0

    @property
    def forwarding(self) -> int:
        return self.nvswitches + self.switches


def read_ns3(text: str, source: Source) -> NetworkGraph:
    """The graph in a topology file of either form. Raises InputError with the line."""
    lines = text.split("\n")
    head = _head(lines, source)
    switches, begin = _switches(lines, head, source)
    rows = _rows(lines, begin, head, source)
    hosts = head.nodes - head.forwarding
    if hosts < 1 or hosts > max(1, 2 * head.links):
        expected = f"1 to {max(1, 2 * head.links)} hosts, as many as {plural(head.links, 'cable')} can join"
        source.refuse("the head leaves no fitting number of hosts", head.line, found=hosts, expected=expected)
    order = _order(switches, head)
    ends, rates = _columns(rows, order, head, source)
    _refuse_bare(ends, hosts, order, head, source)
    kind = np.full(head.nodes, SWITCH, np.int8)
    kind[:hosts] = RANK
    numbers = np.argsort(order)
    nvswitches = order[np.array(switches[: head.nvswitches], np.int64)]
    kind[nvswitches] = NVSWITCH
    if not head.forwarding:
        source.note("no switches: only ranks that a cable joins reach one another, as in ns-3")
    elif (order[:hosts] != np.arange(hosts)).any():
        source.note(f"switches stand before hosts: the {hosts} hosts are ranks 0 to {hosts - 1} in order of number")
    island = _islands(head, hosts, nvswitches, ends)
    return from_cables(source, [str(n) for n in numbers.tolist()], kind, island, ends, rates)


def _head(lines: list[str], source: Source) -> _Head:
    at = next((i for i, line in enumerate(lines) if line.strip()), None)
    if at is None:
        source.refuse("the file is empty", expected="a network")
    words = lines[at].split()
    numbers = words[:5] if len(words) == 6 else words
    if len(words) not in (3, 6) or not all(map(_WHOLE.fullmatch, numbers)):
        source.refuse("this is no head of a topology", at + 1, found=lines[at].strip(), expected=_HEADS)
    values = [int(word) for word in numbers]
    if len(words) == 3:
        head = _Head(at + 1, values[0], 0, values[1], values[2])
    else:
        head = _Head(at + 1, values[0], values[2], values[3], values[4], values[1])
        if head.gpus == 0:
            source.refuse("a server has no GPU", at + 1, found=0, expected="gpus_per_server of 1 or more")
    return head


def _switches(lines: list[str], head: _Head, source: Source) -> tuple[list[int], int]:
    """The numbers of the switches, and the index of the line behind them."""
    found: list[int] = []
    at = head.line
    known = set[int]()
    while at < len(lines) and (len(found) < head.forwarding or not lines[at].strip() or at == head.line):
        words = lines[at].split()
        if not all(map(_WHOLE.fullmatch, words)):
            break
        for word in words:
            number = int(word)
            if number >= head.nodes:
                expected = f"0 to {head.nodes - 1}, the head's {plural(head.nodes, 'node')}"
                source.refuse("a switch is no vertex", at + 1, found=number, expected=expected)
            if number in known:
                source.refuse("a switch is named twice", at + 1, found=number, expected="each switch once")
            known.add(number)
            found.append(number)
        at += 1
    if len(found) != head.forwarding:
        short = "short" if len(found) < head.forwarding else "long"
        source.refuse(
            f"the list of switches is too {short}", head.line + 1, found=plural(len(found), "number"),
            expected=f"{head.forwarding}, as line {head.line} says",
            remedy="name every switch here, or put the head right",
        )  # fmt: skip
    return found, at


def _rows(lines: list[str], begin: int, head: _Head, source: Source) -> list[tuple[int, list[str]]]:
    """The words of each cable's line, with the line's index. Text behind the cables is not read, as in ns-3."""
    rows = [(at, words) for at in range(begin, len(lines)) if (words := lines[at].split())]
    behind = len(rows)
    while behind > head.links and not rows[behind - 1][1][0][:1].isdigit():
        behind -= 1
    if behind < len(rows):
        source.note(f"{plural(len(rows) - behind, 'line')} of text behind the cables not read")
        rows = rows[:behind]
    if len(rows) != head.links:
        source.refuse(
            "the number of cables is not that of the head", head.line, found=plural(len(rows), "line") + " of cables",
            expected=f"{head.links}, as the head says",
            remedy="put the head right, or add what is missing; parallel cables count each",
        )  # fmt: skip
    return rows


def _order(switches: list[int], head: _Head) -> NDArray[np.int64]:
    """The vertex of each number of the file: hosts first."""
    forwarding = np.zeros(head.nodes, np.bool_)
    forwarding[switches] = True
    order = np.empty(head.nodes, np.int64)
    order[np.argsort(forwarding, kind="stable")] = np.arange(head.nodes)
    return order


def _columns(
    rows: list[tuple[int, list[str]]], order: NDArray[np.int64], head: _Head, source: Source
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Ends, capacities and latencies of all cables. Most lines have words that others have: each is read once."""
    vertex = {str(number): at for number, at in enumerate(order.tolist())}
    ends: tuple[list[int], list[int]] = ([], [])
    rates: tuple[list[float], list[float]] = ([], [])
    losing = 0
    for at, words in rows:
        try:
            a, b, speed, latency, error = words
            first, second = vertex[a], vertex[b]
            ends[0].append(first)
            ends[1].append(second)
            rates[0].append(rate(speed))
            rates[1].append(time(latency))
        except (KeyError, ValueError):
            _refuse_row(words, at + 1, head, source)
        if first == second:
            source.refuse("a cable joins a vertex to itself", at + 1, found=f"{a} {b}", expected="two vertices")
        if error != "0":
            losing += _error_rate(error, at + 1, source)
    if losing:
        source.warn(f"{plural(losing, 'cable')} with an error rate, which counts for nothing: nothing is lost here")
    return (np.array(ends[0], np.int64), np.array(ends[1], np.int64)), (
        np.array(rates[0], np.float64),
        np.array(rates[1], np.float64),
    )


def _refuse_row(words: list[str], line: int, head: _Head, source: Source) -> None:
    """Raise InputError for the first thing that is wrong in a line."""
    for word in words[:2]:
        if not _WHOLE.fullmatch(word) or int(word) >= head.nodes or str(int(word)) != word:
            expected = f"0 to {head.nodes - 1}, since the head says {plural(head.nodes, 'node')}"
            source.refuse("this is no vertex", line, found=word, expected=expected)
    if len(words) != 5:
        joined = " ".join(words)
        remedy = "write a rate and its unit as one word" if len(words) > 5 else ""
        source.refuse(f"the line has {plural(len(words), 'word')}", line, found=joined, expected=_CABLE, remedy=remedy)
    for read, what, word in ((rate, "rate", words[2]), (time, "latency", words[3])):
        try:
            read(word)
        except BadQuantity as fault:
            message = f"{what}: {fault.message}"
            source.refuse(message, line, found=word, expected=fault.expected, remedy=fault.remedy)


def _error_rate(word: str, line: int, source: Source) -> bool:
    """Whether packets are lost."""
    try:
        value = float(word) if word.isascii() and "_" not in word else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        source.refuse("error rate: out of range", line, found=word, expected="0 to 1")
    return value > 0


def _refuse_bare(
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
    hosts: int,
    order: NDArray[np.int64],
    head: _Head,
    source: Source,
) -> None:
    joined = np.bincount(np.concatenate(ends), minlength=hosts)[:hosts]
    bare = np.flatnonzero(joined == 0)
    if bare.size and hosts > 1:
        numbers = np.argsort(order)[bare[:_SHOWN]].tolist()
        source.refuse(
            f"{plural(bare.size, 'host')} without a cable", head.line, found=", ".join(map(str, numbers)),
            expected="every host in the line of a cable",
            remedy="add the cable, or name the vertex among the switches",
        )  # fmt: skip


def _islands(
    head: _Head, hosts: int, nvswitches: NDArray[np.int64], ends: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.int32]:
    """A server is an island; an NVSwitch stands in that of all its GPUs."""
    island = np.full(head.nodes, NO_ISLAND, np.int32)
    if not head.gpus:
        return island
    island[:hosts] = np.arange(hosts) // head.gpus
    low, high = np.full(head.nodes, hosts), np.full(head.nodes, -1)
    for one, other in (ends, ends[::-1]):
        gpu = other < hosts
        np.minimum.at(low, one[gpu], island[other[gpu]])
        np.maximum.at(high, one[gpu], island[other[gpu]])
    inside = nvswitches[low[nvswitches] == high[nvswitches]]
    island[inside] = low[inside]
    return island


def write_ns3(graph: NetworkGraph, file: str, notes: Notes) -> str:
    """ns-3's form. Raises InputError for what would be another network, warns of what is not held."""
    switches = np.flatnonzero(graph.kind != RANK)
    head = f"{graph.vertices} {switches.size} {graph.links // 2}\n"
    return _written(graph, head, switches, file, "ns3", notes)


def write_simai(graph: NetworkGraph, file: str, notes: Notes) -> str:
    """SimAI's form; servers are islands of equal size."""
    nvswitches, others = np.flatnonzero(graph.kind == NVSWITCH), np.flatnonzero(graph.kind > RANK)
    switches = others[graph.kind[others] != NVSWITCH]
    island = graph.island[: graph.ranks]
    gpus = int(np.count_nonzero(island == island[0])) if (island >= 0).all() else graph.ranks
    if (island >= 0).any() and (island != np.arange(graph.ranks) // gpus).any():
        raise InputError(
            "the islands are no servers of equal size, one behind the other, which the form simai needs",
            file=file, remedy="write it as yaml, json, graphml or node-link",
        )  # fmt: skip
    numbers = (graph.vertices, gpus, nvswitches.size, switches.size, graph.links // 2)
    notes.note(f"{file}: the type of the GPUs is not known, and written as NONE")
    head = " ".join(map(str, numbers)) + " NONE\n"
    return _written(graph, head, np.concatenate([nvswitches, switches]), file, "simai", notes)


def _written(graph: NetworkGraph, head: str, switches: NDArray[np.int64], file: str, form: str, notes: Notes) -> str:
    first = as_cables(graph, file, form)
    columns = (graph.source[first], graph.target[first], graph.capacity[first], graph.latency[first])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    body = "".join(f"{a} {b} {gigabits(c)} {nanoseconds(d)} 0\n" for a, b, c, d in rows)
    text = f"{head}{' '.join(map(str, switches.tolist()))}\n{body}"
    warn_of_loss(graph, read_ns3(text, Source(file, Notes())), file, form, notes)
    return text
