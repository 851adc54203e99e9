"""Random cases of packets: any form of network, any settings, any flows that the defaults take."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

SPEEDS = ("25Gbps", "40Gbps", "100Gbps", "200Gbps", "400Gbps", "800Gbps")
DELAYS = ("0ns", "10ns", "500ns", "1us", "0.003ms", "20us")
Links = list[list[Any]]


def random_case(draw: random.Random, *, small: bool = False) -> dict[str, Any]:
    """A case; a ``small`` one has few packets, for runs without compilation."""
    hosts, switches, links = draw.choice(FORMS)(draw)
    if draw.random() < 0.5:
        speeds, delays = [draw.choice(SPEEDS)], [draw.choice(DELAYS)]
    else:
        speeds, delays = list(draw.sample(SPEEDS, 3)), list(draw.sample(DELAYS, 3))
    error = draw.choice((0, 0, 0, 0, 0.001, 0.02))
    cables = [[a, b, draw.choice(speeds), draw.choice(delays), error if draw.random() < 0.3 else 0] for a, b in links]
    config = random_config(draw, speeds)
    if draw.random() < 0.3:
        config["HEADROOM_FACTOR"] = tight_headroom(cables, hosts)
    flows = random_flows(draw, hosts, 3 if small else 12, 4_000 if small else draw.choice((60_000, 300_000)), config)
    if draw.random() < 0.08:
        a, b = draw.choice(links)
        config["LINK_DOWN"] = f"{draw.choice((1, 3, 10))} {a} {b}"
        for flow in flows:
            flow[5] += 2_000_000_000
    topology = {"nodes": hosts + switches, "switches": list(range(hosts, hosts + switches)), "links": cables}
    return {"topology": topology, "config": config, "flows": flows, "first_stream": draw.randrange(100)}


def random_config(draw: random.Random, speeds: list[str]) -> dict[str, Any]:
    """Settings, each left out at times."""
    marks = {int(float(speed[:-4]) * 1e9): draw.choice(((1, 5), (5, 20), (20, 20), (100, 400))) for speed in speeds}
    config: dict[str, Any] = {
        "CC_MODE": draw.choice((1, 3, 7, 8, 10, 12, 20)),
        "PACKET_PAYLOAD_SIZE": draw.choice((64, 1000, 1000, 4096, 9000)),
        "KMIN_MAP": {str(rate): low for rate, (low, _) in marks.items()},
        "KMAX_MAP": {str(rate): high for rate, (_, high) in marks.items()},
        "PMAX_MAP": {str(rate): draw.choice((0.01, 0.2, 1.0)) for rate in marks},
        "BUFFER_SIZE": draw.choice((1, 1, 2, 16)),
    }
    others: dict[str, tuple[Any, ...]] = {
        "ENABLE_QCN": (0, 1),
        "HAS_WIN": (1, 1, 0) if config["CC_MODE"] != 3 else (1,),
        **dict.fromkeys(("GLOBAL_T", "VAR_WIN", "FAST_REACT", "MULTI_RATE", "SAMPLE_FEEDBACK"), (0, 1)),
        **dict.fromkeys(("CLAMP_TARGET_RATE", "RATE_BOUND", "ACK_HIGH_PRIO"), (0, 1)),
        "MI_THRESH": (0, 5),
        "U_TARGET": (0.5, 0.95),
        "INT_MULTI": (1, 16),
        "PINT_PROB": (0.3, 1.0),
        "RATE_AI": ("5Mbps", "50Mb/s", "1Gbps"),
        "RATE_HAI": ("10Mbps", "2Gbps"),
        "MIN_RATE": ("1Mb/s", "100Mb/s", "1Gbps"),
        "EWMA_GAIN": (0.00390625, 0.5),
        "ALPHA_RESUME_INTERVAL": (1, 55.5),
        "RATE_DECREASE_INTERVAL": (4, 0.5),
        "RP_TIMER": (0.5, 20, 900),
        "FAST_RECOVERY_TIMES": (1, 5),
        "L2_ACK_INTERVAL": (0, 1, 3000, 50_000, 10_000_000),
        "L2_CHUNK_SIZE": (0, 4000, 777),
        "L2_BACK_TO_ZERO": (0, 0, 1),
        "HEADROOM_FACTOR": (0, 3, 20),
        "PAUSE_TIME": (0, 5),
        "ERROR_RATE_PER_LINK": (0, 0, 0, 0.002),
        "NIC_TOTAL_PAUSE_TIME": (0, 0, 3),
    }
    for key, values in others.items():
        if draw.random() < 0.5:
            config[key] = draw.choice(values)
    return config


def tight_headroom(cables: Links, hosts: int) -> int:
    """The factor with which the switch whose links hold most has little left to share of 1 MiB."""
    from chakrasim.simulator.packet.settings import delay_ns, rate_bps

    under_way: Counter[int] = Counter()
    for a, b, rate, delay, _ in cables:
        for end in (a, b):
            under_way[end] += rate_bps(rate) * delay_ns(delay) // 8 // 10**9 if end >= hosts else 0
    return min(max(((1 << 20) - 150_000) // max(max(under_way.values()), 1), 0), 1000)


def random_flows(draw: random.Random, hosts: int, most: int, largest: int, config: dict[str, Any]) -> list[list[int]]:
    """Flows of any size, some to one host, some at one instant; a case may have none."""
    into = draw.randrange(hosts) if draw.random() < 0.5 else -1
    priorities = draw.choice(([3], [3], [1, 3], list(range(8))))
    payload = int(config["PACKET_PAYLOAD_SIZE"])
    flows = []
    for _ in range(draw.randrange(most + 1)):
        target = into if into >= 0 and draw.random() < 0.8 else draw.randrange(hosts)
        source = (target + draw.randrange(1, hosts)) % hosts
        size = draw.choice((0, 1, payload - 1, payload, payload + 1, 4000, draw.randrange(largest), largest))
        size = min(size, 100 * payload)
        start = draw.choice((0, 0, draw.randrange(50_000)))
        flows.append([source, target, draw.choice(priorities), 100, size, start])
    return flows


def direct(draw: random.Random) -> tuple[int, int, Links]:
    return 2, 0, [[0, 1]]


def star(draw: random.Random) -> tuple[int, int, Links]:
    hosts = draw.randrange(2, 9)
    return hosts, 1, [[hosts, host] for host in range(hosts)]


def dumbbell(draw: random.Random) -> tuple[int, int, Links]:
    half = draw.randrange(1, 5)
    left = 2 * half
    return left, 2, [[left + host // half, host] for host in range(left)] + [[left, left + 1]]


def chain(draw: random.Random) -> tuple[int, int, Links]:
    """Up to nine switches in a row, with a host at each."""
    n = draw.randrange(2, 10)
    return n, n, [[host, n + host] for host in range(n)] + [[n + at, n + at + 1] for at in range(n - 1)]


def leaf_spine(draw: random.Random) -> tuple[int, int, Links]:
    leaves, spines, below = draw.randrange(2, 4), draw.randrange(1, 4), draw.randrange(1, 4)
    hosts = leaves * below
    links = [[hosts + host // below, host] for host in range(hosts)]
    return (
        hosts,
        leaves + spines,
        links + [[hosts + leaf, hosts + leaves + spine] for leaf in range(leaves) for spine in range(spines)],
    )


def double_homed(draw: random.Random) -> tuple[int, int, Links]:
    """Each host has a port to each of two switches, which may be joined."""
    hosts = draw.randrange(2, 6)
    links = [[hosts + side, host] for host in range(hosts) for side in range(2)]
    return hosts, 2, links + ([[hosts, hosts + 1]] if draw.random() < 0.5 else [])


def fat_tree(draw: random.Random) -> tuple[int, int, Links]:
    """k = 4: 16 hosts, 8 edge, 8 aggregation and 4 core switches."""
    links = [[16 + host // 2, host] for host in range(16)]
    for pod in range(4):
        links += [[16 + 2 * pod + edge, 24 + 2 * pod + up] for edge in range(2) for up in range(2)]
        links += [[24 + 2 * pod + up, 32 + 2 * up + core] for up in range(2) for core in range(2)]
    return 16, 20, links


def two_fabrics(draw: random.Random) -> tuple[int, int, Links]:
    """Two links between the same two switches, of which the last carries all."""
    return 3, 2, [[0, 3], [1, 4], [3, 4], [3, 4], [2, 3]]


def circle(draw: random.Random) -> tuple[int, int, Links]:
    """Switches in a circle, a host at each: pauses may come to wait for one another."""
    n = draw.randrange(3, 8)
    return n, n, [[n + at, at] for at in range(n)] + [[n + at, n + (at + 1) % n] for at in range(n)]


FORMS = (direct, star, star, dumbbell, chain, leaf_spine, leaf_spine, double_homed, fat_tree, two_fabrics, circle)


def ring_of_switches(hosts: int, size: int, **config: Any) -> dict[str, Any]:
    """Switches in a circle, a host at each, which sends to the second next: every link waits for the next one.

    Ways both round the circle are equal only where there are four, so there should be five switches or more.
    """
    links = [[hosts + at, at, "100Gbps", "1us", 0] for at in range(hosts)]
    links += [[hosts + at, hosts + (at + 1) % hosts, "25Gbps", "1us", 0] for at in range(hosts)]
    flows = [[at, (at + 2) % hosts, 3, 100, size, 0] for at in range(hosts)]
    topology = {"nodes": 2 * hosts, "switches": list(range(hosts, 2 * hosts)), "links": links}
    return {"topology": topology, "config": {"CC_MODE": 12, "ENABLE_QCN": 0, "HAS_WIN": 0, **config}, "flows": flows}
