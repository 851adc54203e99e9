"""Cases of flows: the golden ones, those of scale, and a plain solver in fractions."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.flows import NONE, CapacityChanges, Flows
from chakrasim.trace.chakra.graph import offsets_of

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "golden-maxmin.jsonl.gz"
TREES = {64: ((4, 4, 4), (1, 4, 4)), 256: ((8, 8, 4), (1, 8, 8)), 1024: ((8, 8, 16), (1, 8, 8))}
"""m and w of the fat trees XGFT(3; m; w) by their hosts; every link has 50 bytes per ns and no latency."""
ROUNDS = {64: (3358217, 5433873353), 256: (13462943, 390639854587), 1024: (58458347, 27370603616141)}
"""Last end and sum of all ends, in whole ns, of `fat_tree_case` in rounds."""


def golden_cases() -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt") as lines:
        next(lines)
        yield from map(json.loads, lines)


def golden_flows(case: dict[str, Any]) -> tuple[np.ndarray[Any, Any], Flows, CapacityChanges]:
    """Capacities, flows and changes of a golden case."""
    flows = case["flows"]
    first = offsets_of(np.array([len(flow[2]) for flow in flows]))
    link = np.array([link for flow in flows for link in flow[2]], np.int32)
    changes = case.get("capacity_changes") or []
    columns = [[change[i] for change in changes] for i in range(3)]
    return (
        np.array([link[2] for link in case["links"]], np.float64),
        Flows(
            0, 0,
            [flow[1] for flow in flows],
            [flow[0] for flow in flows],
            weight=case.get("weights", 1.0),
            routes=Routes(first, link, np.ones(link.size)),
        ),
        CapacityChanges(*columns),
    )  # fmt: skip


def fat_tree_case(
    hosts: int, *, rounds: bool = True, equal: bool = False, hashed: bool = False, half: bool = False
) -> tuple[np.ndarray[Any, Any], Flows]:
    """All-to-all on a fat tree: host i's k-th flow goes to host i + k; d-mod-k routes, or drawn ones.

    ``rounds``: it starts when the (k-1)-th has ended; ``half``: one link between edge and aggregation at half capacity.
    """
    (m1, m2, _), (_, w2, w3) = TREES[hosts]
    edges, pods = hosts // m1, hosts // m1 // m2
    source, number = (part.ravel() for part in np.mgrid[0:hosts, 1:hosts])
    target = (source + number) % hosts
    if hashed:
        drawn = np.random.RandomState(1)
        up, core = drawn.randint(0, w2, target.size), drawn.randint(0, w3, target.size)
    else:
        up, core = target % w2, target // w2 % w3
    edge, to_edge = source // m1, target // m1
    pod, to_pod = edge // m2, to_edge // m2
    lengths = np.where(edge == to_edge, 2, np.where(pod == to_pod, 4, 6))
    first = offsets_of(lengths)
    begin, end = first[:-1], first[1:]
    link = np.zeros(first[-1], np.int32)
    link[begin], link[end - 1] = source, hosts + target
    above, top = lengths >= 4, lengths == 6
    second, third = 2 * hosts, 2 * hosts + 2 * edges * w2
    link[begin[above] + 1] = (second + edge * w2 + up)[above]
    link[end[above] - 2] = (second + edges * w2 + to_edge * w2 + up)[above]
    link[begin[top] + 2] = (third + (pod * w2 + up) * w3 + core)[top]
    link[begin[top] + 3] = (third + (pods * w2 + to_pod * w2 + up) * w3 + core)[top]
    capacity = np.full(third + 2 * pods * w2 * w3, 50.0)
    if half:
        capacity[second] = 25.0
    size = 1048576.0 if equal else 524288.0 + (source * 2654435761 + number * 40503) % 1048576
    after = np.where(number > 1, np.arange(target.size) - 1, NONE) if rounds else NONE
    return capacity, Flows(0, 0, size, after=after, routes=Routes(first, link, np.ones(link.size)))


def fair_rates(
    capacity: Sequence[Fraction], weight: Sequence[Fraction], crosses: Sequence[dict[int, Fraction]]
) -> list[Fraction]:
    """Max-min fair rates by plain progressive filling; ``crosses`` is link to coefficient for each flow."""
    level: dict[int, Fraction] = {}
    while len(level) < len(crosses):
        found: dict[int, Fraction] = {}
        for link in range(len(capacity)):
            pull = sum(
                (weight[f] * way[link] for f, way in enumerate(crosses) if link in way and f not in level), Fraction()
            )
            taken = sum(
                (level[f] * weight[f] * way[link] for f, way in enumerate(crosses) if link in way and f in level),
                Fraction(),
            )
            if pull:
                found[link] = (capacity[link] - taken) / pull
        lowest = min(found.values())
        full = {link for link, value in found.items() if value == lowest}
        level |= {f: lowest for f, way in enumerate(crosses) if f not in level and full & set(way)}
    return [level[f] * weight[f] for f in range(len(crosses))]


def exact_ends(
    capacity: Sequence[Fraction],
    flows: Sequence[tuple[Fraction, Fraction, Fraction, int, dict[int, Fraction]]],
    changes: Sequence[tuple[Fraction, int, Fraction]] = (),
    *,
    whole_ns: bool = False,
) -> list[Fraction | None]:
    """When flows (start, size, weight, after, crosses) end, in fractions; None for one that cannot.

    ``whole_ns``: ends are rounded up to whole nanoseconds, but for a millionth, and take bandwidth until then.
    """
    now, capacity = Fraction(), list(capacity)
    left = [flow[1] for flow in flows]
    start = [flow[0] if flow[3] < 0 else None for flow in flows]
    due: dict[int, Fraction] = {}
    ends: list[Fraction | None] = [None] * len(flows)
    pending = sorted(changes, key=lambda change: change[0])

    def rounded(time: Fraction) -> Fraction:
        return Fraction(math.ceil(time - Fraction(1, 10**6))) if whole_ns else time

    while True:
        for _ in flows:  # what has nothing to carry ends at once, and lets others start
            for g in range(len(flows)):
                first = start[g]
                if ends[g] is not None or first is None or first > now:
                    continue
                if flows[g][1] and flows[g][4] and not due.get(g, now + 1) <= now:
                    continue
                ends[g] = due[g] if g in due else rounded(first)
                for h in range(len(flows)):
                    if flows[h][3] == g:
                        start[h] = ends[g] + flows[h][0]
        while pending and pending[0][0] <= now:
            capacity[pending[0][1]] = pending[0][2]
            pending = pending[1:]
        moving = [f for f, t in enumerate(start) if ends[f] is None and t is not None and t <= now]
        rates = fair_rates(capacity, [flows[f][2] for f in moving], [flows[f][4] for f in moving])
        due = {f: rounded(now + max(left[f], 0) / rate) for f, rate in zip(moving, rates, strict=True) if rate}
        times = [*due.values(), *(t for f, t in enumerate(start) if t is not None and t > now and ends[f] is None)]
        times += [pending[0][0]] if pending else []
        if not times:
            return ends
        later = max(min(times), now)
        for f, rate in zip(moving, rates, strict=True):
            left[f] -= rate * (later - now)
        now = later
