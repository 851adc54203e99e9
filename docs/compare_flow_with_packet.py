"""The table of explanation-packet-network.md: 200 random cases by both models.

``python docs/compare_flow_with_packet.py`` prints it, in a minute; the cases that differ most go to standard error.
What is compared in a case is the time from the first start to the last end.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from chakrasim.notes import Notes
from chakrasim.simulator.packet.alone.beside import beside
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.run import run_packets
from chakrasim.simulator.packet.faults import NO_FAULTS

CASES = 200
MOST_BYTES = 300_000_000
CONTROLS = {1: "DCQCN", 3: "HPCC", 12: "window alone", 20: "Swift"}
PATTERNS = ("permutation", "incast", "all-to-all", "ring")
Row = dict[str, Any]


def random_row(seed: int) -> Row:
    """A case and how much longer its packets take than its rates, with and without headers."""
    draw = random.Random(f"beside {seed}")
    hosts = draw.choice((8, 16, 32, 64))
    switches, links, narrow = draw.choice((star, leaf_spine, leaf_spine, narrow_leaf_spine))(hosts)
    pattern = draw.choice(PATTERNS)
    pairs = pairs_of(pattern, hosts, draw)
    size = min(int(10 ** draw.uniform(4, 7.2)), MOST_BYTES // len(pairs))
    mode, payload = draw.choice(list(CONTROLS)), draw.choice((1000, 4000))
    window = int(mode == 3 or draw.random() < 0.7)
    slow, fast = "100000000000", "400000000000"
    config = {
        "CC_MODE": mode, "PACKET_PAYLOAD_SIZE": payload, "BUFFER_SIZE": 8, "RP_TIMER": 50, "ALPHA_RESUME_INTERVAL": 1,
        "HAS_WIN": window, "GLOBAL_T": 0, "VAR_WIN": 1, "MULTI_RATE": 0, "EWMA_GAIN": 1 / 256,
        "RATE_AI": "50Mb/s", "RATE_HAI": "500Mb/s",
        "KMIN_MAP": {slow: 400, fast: 800}, "KMAX_MAP": {slow: 1600, fast: 3200}, "PMAX_MAP": {slow: 0.2, fast: 0.2},
    }  # fmt: skip
    case = case_of(
        {
            "topology": {"nodes": hosts + switches, "switches": list(range(hosts, hosts + switches)), "links": links},
            "config": config,
            "flows": [[a, b, 3, 100, size, 0] for a, b in pairs],
        },
        "case", NO_FAULTS, Notes(),
    )  # fmt: skip
    result = run_packets(case)
    assert not result.unfinished
    both = beside(case, result)
    trip = case.network.max_rtt_ns
    flow, packet = float(both.flow_ns.max()), float(both.packet_ns.max())
    headers = 1 + case.network.header_bytes / payload
    return {
        "pattern": pattern, "hosts": hosts, "size": size, "control": CONTROLS[mode], "narrow": narrow,
        "raw": packet / flow - 1, "net": packet / ((flow - trip) * headers + trip) - 1,
        "flows": float(np.median(np.abs(both.difference))), "paused": len(result.to_dict()["pfc"]) > 0,
        "bdp": size / case.network.max_bdp,
    }  # fmt: skip


def star(hosts: int) -> tuple[int, list[list[Any]], bool]:
    return 1, [[hosts, host, "100Gbps", "1us", 0] for host in range(hosts)], False


def leaf_spine(hosts: int, spines: int = 0) -> tuple[int, list[list[Any]], bool]:
    """Leaves of 8 hosts; by default as much goes up as comes from below."""
    leaves, spines = max(hosts // 8, 2), spines or 2
    below = hosts // leaves
    links = [[hosts + host // below, host, "100Gbps", "1us", 0] for host in range(hosts)]
    between = [(hosts + leaf, hosts + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    return leaves + spines, links + [[a, b, "400Gbps", "1us", 0] for a, b in between], spines == 1


def narrow_leaf_spine(hosts: int) -> tuple[int, list[list[Any]], bool]:
    """One spine: half of what comes from below."""
    return leaf_spine(hosts, 1)


def pairs_of(pattern: str, hosts: int, draw: random.Random) -> list[tuple[int, int]]:
    if pattern == "incast":
        return [(source, 0) for source in range(1, draw.randrange(3, hosts + 1))]
    if pattern == "all-to-all":
        return [(a, (a + b) % hosts) for a in range(hosts) for b in range(1, hosts)]
    order = list(range(hosts))
    if pattern == "permutation":
        draw.shuffle(order)
    return [(order[i], order[(i + 1) % hosts]) for i in range(hosts)]


def line(name: str, rows: list[Row]) -> str:
    """A line of the table."""
    if not rows:
        return ""
    cells = [name, str(len(rows))]
    for key in ("raw", "net"):
        low, middle, high = (100 * np.percentile([row[key] for row in rows], p) for p in (5, 50, 95))
        cells.append(f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})")
    cells.append(f"{100 * np.median([row['flows'] for row in rows]):.1f} %")
    return f"| {' | '.join(cells)} |\n"


def table(rows: list[Row]) -> str:
    """All lines, by what tells the cases apart."""
    groups: list[tuple[str, Callable[[Row], bool]]] = [("all", lambda row: True)]
    groups += [(name, lambda row, name=name: row["pattern"] == name) for name in PATTERNS]
    for low, high in ((0, 1), (1, 10), (10, 100), (100, 10**9)):
        name = f"messages of {low} to {high} times that" if high < 10**9 else f"messages of more than {low} times that"
        name = name if low else "messages smaller than the bytes under way"
        groups.append((name, lambda row, low=low, high=high: low <= row["bdp"] < high))
    groups += [(name, lambda row, name=name: row["control"] == name) for name in CONTROLS.values()]
    groups += [("with pauses", lambda row: row["paused"]), ("half of the bandwidth goes up", lambda row: row["narrow"])]
    heads = ("cases", "", "packets take longer by", "beyond their headers", "a flow differs by")
    head = f"| {' | '.join(heads)} |\n{'| --- ' * len(heads)}|\n"
    return head + "".join(line(name, list(filter(chosen, rows))) for name, chosen in groups)


if __name__ == "__main__":
    found = [random_row(seed) for seed in range(CASES)]
    sys.stdout.write(table(found))
    for row in sorted(found, key=lambda row: -abs(row["net"]))[:8]:
        sys.stderr.write(f"{row}\n")
