"""Fat trees as htsim's ``.topo`` files have them: nodes, tiers, pod size, and for each tier speeds, radices, latencies.

ToR t has the hosts from t x radix on, joins all aggregation switches of its pod (of all pods in two tiers), and the
aggregation switch at place p of its pod joins the cores p, p + (switches a pod), ...; a bundle is so many cables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError, near
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.formats.cables import warn_of_loss
from chakrasim.machine.graph.formats.quantities import number_text
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import RANK, NetworkGraph
from chakrasim.notes import Notes
from chakrasim.text.amounts import plural

_MOST_CABLES: Final = 1 << 20
_HEAD: Final = ("nodes", "tiers", "podsize")
_TIER: Final = ("downlink_speed_gbps", "radix_up", "radix_down", "queue_up", "queue_down", "oversubscribed", "bundle",
                "switch_latency_ns", "downlink_latency_ns")  # fmt: skip
_DEFAULTS: Final = {"oversubscribed": 1, "bundle": 1, "switch_latency_ns": 0, "queue_up": 0, "queue_down": 0}


def is_htsim(word: str) -> bool:
    """Whether a file may begin with this word."""
    return word.lower() in (*_HEAD, "tier")


@dataclass(frozen=True)
class _Tier:
    """The switches of a tier: how many of them in a pod (of cores: in all), and the cables down from each."""

    speed: float
    latency: float
    down: int
    up: int
    bundle: int


@dataclass
class _Values:
    """What the file says, by key, with the line of each."""

    source: Source
    head: dict[str, int]
    tiers: dict[int, dict[str, int]]
    lines: dict[tuple[int, str], int]

    def refuse(self, tier: int, key: str, message: str, found: object, expected: str, remedy: str = "") -> None:
        where = f"tier {tier}: " if tier >= 0 else ""
        line = self.lines.get((tier, key))
        self.source.refuse(f"{where}{key}: {message}", line, found=found, expected=expected, remedy=remedy)


def read_htsim(text: str, source: Source) -> NetworkGraph:
    """The fat tree. Raises InputError with the line."""
    values = _parsed(text, source)
    tiers = _tiers(values)
    queues = sum(bool(tier.get(key)) for tier in values.tiers.values() for key in ("queue_up", "queue_down"))
    if queues:
        source.note(f"{plural(queues, 'size')} of queues not read")
    waits = [number for number, tier in values.tiers.items() if tier["switch_latency_ns"]]
    if waits:
        source.note("latencies of switches are counted on the links that leave them")
    return _built(values, tiers)


def _parsed(text: str, source: Source) -> _Values:
    values = _Values(source, {}, {}, {})
    current = -1
    for at, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key = words[0].lower()
        known = _TIER if current >= 0 else _HEAD
        if key not in (*known, "tier"):
            expected = "one of " + ", ".join((*known, "tier"))
            source.refuse("unknown key", at, found=words[0], expected=expected, remedy=near(key, known))
        if len(words) < 2 or not re.fullmatch("[0-9]{1,9}", words[1], re.ASCII):
            source.refuse(f"{key} is no number", at, found=" ".join(words[1:]) or "nothing", expected="a whole number")
        if len(words) > 2 and not words[2].startswith("#"):
            source.refuse("more than a key and a number", at, found=line.strip(), expected=f"`{words[0]} {words[1]}`")
        number = int(words[1])
        if key == "tier":
            if number > 2 or number in values.tiers:
                source.refuse("tier", at, found=number, expected="each of 0, 1 and 2 at most once")
            current = number
            values.tiers[current] = {}
            continue
        column = values.head if current < 0 else values.tiers[current]
        if key in column:
            source.refuse(f"{key} stands there twice", at, found=line.strip(), expected="each key once")
        column[key] = number
        values.lines[current, key] = at
    return values


def _tiers(values: _Values) -> list[_Tier]:
    """The tiers with what is missing filled in or refused."""
    source, head = values.source, values.head
    for key in _HEAD:
        if head.get(key, 0) < 1:
            values.refuse(-1, key, "missing" if key not in head else "out of range", head.get(key), "1 or more")
    if head["tiers"] not in (2, 3):
        values.refuse(-1, "tiers", "out of range", head["tiers"], "2 or 3")
    if sorted(values.tiers) != list(range(head["tiers"])):
        listed = ", ".join(map(str, sorted(values.tiers))) or "none"
        source.refuse("tiers are missing or too many", found=listed, expected=f"tiers 0 to {head['tiers'] - 1}")
    found = []
    for number in range(head["tiers"]):
        tier = values.tiers[number] = {**_DEFAULTS, **values.tiers[number]}
        top = number == head["tiers"] - 1
        if top and "radix_up" in tier:
            values.refuse(number, "radix_up", "the top tier has none", tier["radix_up"], "no such line")
        for key in ("downlink_speed_gbps", "radix_down", "downlink_latency_ns", *(() if top else ("radix_up",))):
            if tier.get(key, 0) < 1:
                message = "missing" if key not in tier else "out of range"
                values.refuse(number, key, message, tier.get(key), "1 or more, as htsim takes 0 for missing")
        if tier["bundle"] < 1 or tier["oversubscribed"] < 1:
            key = "bundle" if tier["bundle"] < 1 else "oversubscribed"
            values.refuse(number, key, "out of range", tier[key], "1 or more")
        latency = float(tier["downlink_latency_ns"])
        found.append(
            _Tier(tier["downlink_speed_gbps"] / 8, latency, tier["radix_down"], tier.get("radix_up", 0), tier["bundle"])
        )
    return found


def _exact(values: _Values, tier: int, key: str, whole: int, part: int, what: str) -> int:
    """``whole / part``, refused if it has a rest."""
    if whole % part:
        message, expected = f"{what} come out as {whole} / {part}", "a whole number"
        values.refuse(tier, key, message, values.tiers[tier][key] if tier >= 0 else values.head[key], expected)
    return whole // part


def _built(values: _Values, tiers: list[_Tier]) -> NetworkGraph:
    """Count the switches by htsim's rules, check that the stated radices fit, and join them."""
    nodes, podsize, count = values.head["nodes"], values.head["podsize"], len(tiers)
    speed = [values.tiers[number]["downlink_speed_gbps"] for number in range(count)]
    oversubscribed = [values.tiers[number]["oversubscribed"] for number in range(count)]
    if tiers[0].bundle != 1:
        values.refuse(0, "bundle", "hosts have one cable", tiers[0].bundle, "1")
    pods = _exact(values, -1, "nodes", nodes, podsize, "pods")
    tors = _exact(values, 0, "radix_down", podsize, tiers[0].down, "ToRs of a pod")
    if tiers[0].down // tiers[0].up != oversubscribed[0]:
        found = f"{tiers[0].down} down, {tiers[0].up} up, oversubscribed {oversubscribed[0]}"
        values.refuse(0, "radix_up", "radices and oversubscription do not fit", found, "down / up = oversubscribed")
    uplinks = _exact(
        values, 1, "downlink_speed_gbps", nodes * speed[0], speed[1] * oversubscribed[0], "uplinks of ToRs"
    )
    aggs = _exact(values, 1, "radix_down", uplinks, pods * tiers[1].down, "aggregation switches of a pod")
    if aggs * tiers[1].bundle != tiers[0].up:
        found = f"{aggs} aggregation switches a pod x bundle {tiers[1].bundle}"
        values.refuse(1, "bundle", "does not fit radix_up of tier 0", found, f"{tiers[0].up} cables up from each ToR")
    cores = 0
    if count == 3:
        up = _exact(
            values, 2, "downlink_speed_gbps", uplinks * speed[1], speed[2] * oversubscribed[1], "uplinks of switches"
        )
        cores = _exact(values, 2, "radix_down", up, tiers[2].down, "cores")
        if cores % aggs or cores * tiers[2].bundle // aggs != tiers[1].up:
            found = f"{cores} cores x bundle {tiers[2].bundle} / {aggs} aggregation switches a pod"
            values.refuse(2, "bundle", "does not fit radix_up of tier 1", found, f"{tiers[1].up} cables up from each")
    if nodes + pods * tors * tiers[0].up + pods * aggs * tiers[1].up > _MOST_CABLES:
        values.refuse(-1, "nodes", "the tree has too many cables", nodes, f"at most {_MOST_CABLES:,} cables")
    return _joined(values, tiers, (pods, tors, aggs, cores))


def _joined(values: _Values, tiers: list[_Tier], counts: tuple[int, int, int, int]) -> NetworkGraph:
    pods, tors, aggs, cores = counts
    builder = GraphBuilder(values.source.name)
    hosts = builder.add_ranks(values.head["nodes"])
    tor, agg = builder.add_switches("tor", pods * tors), builder.add_switches("agg", pods * aggs)
    core = builder.add_switches("core", cores)
    wait = [float(values.tiers[number]["switch_latency_ns"]) for number in range(len(tiers))]

    def join(below: int, above: int, tier: int) -> None:
        """Cables down from a switch of a tier; a switch's own latency counts on the way out of it."""
        latency = tiers[tier].latency
        up = latency + (wait[tier - 1] if tier else 0.0)
        back = (tiers[tier].speed, latency + wait[tier])
        builder.cable(below, above, tiers[tier].speed, up, back=back, count=tiers[tier].bundle)

    for host in hosts:
        join(host, tor[host // tiers[0].down], 0)
    for number, switch in enumerate(tor):
        pod = number // tors
        for above in agg[pod * aggs : (pod + 1) * aggs] if cores else agg:
            join(switch, above, 1)
    if cores:
        for number, switch in enumerate(agg):
            for up in range(tiers[1].up // tiers[2].bundle):
                join(switch, core[number % aggs + aggs * up], 2)
    return builder.build()


# -- writing -----------------------------------------------------------------------------------------------------------


def write_htsim(graph: NetworkGraph, file: str, notes: Notes) -> str:
    """The file of a fat tree whose links stand in htsim's order. Raises InputError for any other graph."""
    text = _guess(graph)
    try:
        back = read_htsim(text, Source(file, Notes())) if text else None
    except InputError:
        back = None
    if back is None or not _same(graph, back):
        raise InputError(
            "the graph is no fat tree of htsim's: equal tiers, whole Gbps and ns, links in its order",
            file=file,
            remedy="write it as yaml, json, graphml or node-link",
        )
    warn_of_loss(graph, back, file, "htsim", notes)
    return text


def _same(graph: NetworkGraph, back: NetworkGraph) -> bool:
    columns = ("source", "target", "capacity", "latency", "medium")
    return graph.ranks == back.ranks and all(
        np.array_equal(getattr(graph, name), getattr(back, name)) for name in columns
    )


def _guess(graph: NetworkGraph) -> str:
    """The file, if the graph is such a tree; reading it back shows whether it is."""
    ranks, cables = graph.ranks, graph.links // 2
    first = np.arange(0, graph.links - 1, 2)
    low, high = graph.source[first].astype(np.int64), graph.target[first].astype(np.int64)
    if (
        graph.links % 2
        or cables <= ranks
        or not (low[:ranks] == np.arange(ranks)).all()
        or (graph.kind[high] == RANK).any()
    ):
        return ""
    tors = int(high[:ranks].max()) - ranks + 1
    of_tor = low[ranks:] < ranks + tors
    middle = ranks + int(np.count_nonzero(of_tor))
    aggs = int(high[ranks:middle].max()) - ranks - tors + 1 if middle > ranks else 0
    cores = graph.vertices - ranks - tors - aggs
    starts = [0, ranks, *([middle] if middle < cables else [])]
    if aggs < 1 or cores < 0 or (cores > 0) != (middle < cables):
        return ""
    bundles = [int(np.count_nonzero((low == low[at]) & (high == high[at]))) for at in starts]
    pods = aggs // max(1, len(set(high[ranks:middle][low[ranks:middle] == ranks].tolist()))) if cores else 1
    lines = [f"Nodes {ranks}", f"Tiers {len(starts)}", f"Podsize {ranks // max(1, pods)}"]
    wait = 0.0
    for tier, at in enumerate(starts):
        latency = float(graph.latency[2 * at]) - wait
        wait = float(graph.latency[2 * at + 1]) - latency
        switches = (tors, aggs, cores)[tier]
        end = [*starts, cables][tier + 1]
        lines += ["", f"Tier {tier}", f"Downlink_speed_Gbps {number_text(graph.capacity[2 * at], 8)}"]
        down = (end - at) // switches
        lines.append(f"Radix_Down {down}")
        if tier < len(starts) - 1:
            up = ([*starts, cables][tier + 2] - end) // switches
            lines.append(f"Radix_Up {up}")
            lines.append(f"Oversubscribed {max(1, _oversubscription(graph, at, end, down, up))}")
        lines += [f"Downlink_Latency_ns {number_text(latency)}", f"Bundle {bundles[tier]}"]
        lines += [f"Switch_Latency_ns {number_text(wait)}"] if wait else []
    return "\n".join(lines) + "\n"


def _oversubscription(graph: NetworkGraph, at: int, end: int, down: int, up: int) -> int:
    return round(down * graph.capacity[2 * at] / (up * graph.capacity[2 * end])) if up else 1
