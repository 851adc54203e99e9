"""Random networks of packets: bytes are conserved, buffers hold, flows end, runs repeat, compiled or not.

``python tests/simulator/packet/test_packet_properties.py LOW HIGH`` runs the cases of the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_cases import right
from packet_checks import checked_run, same_again
from random_packets import random_case, ring_of_switches

from chakrasim.errors import InputError
from chakrasim.simulator.packet import state as at

UNCOMPILED = 12
"""Small cases that are also run without compilation."""


def outcome(draw: random.Random) -> str:
    """What happened in a random case, in words."""
    case = random_case(draw)
    try:
        result = checked_run(case, draw.choice((50, 1000, 10_000)))
    except InputError as refused:
        assert "is too small for its" in str(refused), refused
        return "refused"
    if draw.random() < 0.3:
        same_again(case, result)
    g = result.net.g
    words = {"lost": at.LOST, "dropped": at.DROPPED, "paused": at.PAUSES, "marked": at.MARKS, "resent": at.RESENT}
    found = [word for word, index in words.items() if g[index]]
    if result.unfinished:
        found.append("locked" if "circle" in result.stuck_text else "cut-off")
    return " ".join(found or ["quiet"])


def of_seed(seed: int) -> str:
    return outcome(random.Random(f"packets {seed}"))


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_random_networks(draw: random.Random) -> None:
    outcome(draw)


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(5))
def test_thousands_of_random_networks(thousand: int) -> None:
    seen = Counter(word for seed in range(1000 * thousand, 1000 * thousand + 1000) for word in of_seed(seed).split())
    assert min(seen[word] for word in ("lost", "paused", "marked", "resent", "quiet")) > 0, seen


@pytest.mark.parametrize("switches", [5, 6])
def test_pauses_that_wait_for_one_another_are_told_with_their_ports(switches: int) -> None:
    result = right(ring_of_switches(switches, 1_000_000, BUFFER_SIZE=1))
    assert result.unfinished == list(range(switches))
    _, ports = result.stuck_text.split("pauses wait for one another in a circle: ")
    onward = {f"switch {switches} port 2", *(f"switch {switches + i} port 3" for i in range(1, switches))}
    assert set(ports.split(", ")) == onward, "the ports that lead to the next switch"


def test_the_circle_without_a_lock_ends() -> None:
    """Windows hold back what pauses would have to."""
    result = right(ring_of_switches(5, 1_000_000, BUFFER_SIZE=1, HAS_WIN=1))
    assert not result.unfinished and not result.net.g[at.PAUSES]


@pytest.mark.slow
def test_a_switch_of_many_priorities_holds_no_more_than_its_buffer() -> None:
    links = [[8, host, "100Gbps", "1us", 0] for host in range(8)]
    config = {"CC_MODE": 12, "ENABLE_QCN": 0, "HAS_WIN": 0, "BUFFER_SIZE": 1, "HEADROOM_FACTOR": 6}
    flows = [[host, 0, priority, 100, 100_000, 0] for host in range(1, 8) for priority in range(8)]
    topology = {"nodes": 9, "switches": [8], "links": links}
    assert checked_run({"topology": topology, "config": config, "flows": flows}).net.g[at.DROPPED]


def digests(seeds: range) -> list[str]:
    """Of the results of small cases."""
    found = []
    for seed in seeds:
        case = random_case(random.Random(f"small packets {seed}"), small=True)
        try:
            text = json.dumps(right(case).to_dict())
        except InputError as refused:
            text = str(refused)
        found.append(hashlib.sha256(text.encode()).hexdigest())
    return found


def test_small_random_networks_uncompiled() -> None:
    done = subprocess.run(
        [sys.executable, __file__, "--digests"],
        env={**os.environ, "CHAKRASIM_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert json.loads(done.stdout) == digests(range(UNCOMPILED))


def go_through(low: int, high: int) -> None:
    """Run the cases of many seeds; print what goes wrong, and one line at the end."""
    seen, wrong = Counter[str](), 0
    for seed in range(low, high):
        try:
            seen.update(of_seed(seed).split())
        except Exception as fault:
            wrong += 1
            print(f"== {seed}: {type(fault).__name__}: {str(fault)[:500]}", flush=True)
    print(f"{low}..{high}: {wrong} wrong; {dict(sorted(seen.items()))}")


if __name__ == "__main__":
    if sys.argv[1] == "--digests":
        print(json.dumps(digests(range(UNCOMPILED))))
    else:
        go_through(int(sys.argv[1]), int(sys.argv[2]))
