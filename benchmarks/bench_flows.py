"""The speed of flows that share links, on fat trees of 64 to 1,024 hosts, beside SimGrid where that is at hand.

    python benchmarks/bench_flows.py [case ...] [--simgrid PROGRAM]

CPU time of the solver alone, one core, the second of two runs. PROGRAM is `simgrid_rounds.cpp`, compiled; it runs the
cases in rounds for which it takes no minutes. Cases: see CASES (default: all but merged).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from chakrasim.simulator.flow.alone.flows import NO_CHANGES
from chakrasim.simulator.flow.alone.solve import How, solve

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "simulator" / "flow"))
from flow_cases import fat_tree_case

CASES: dict[str, tuple[int, dict[str, bool], float, str]] = {
    "rounds-equal-256": (256, {"equal": True}, 0.0, "equal"),
    "rounds-random-256": (256, {}, 0.0, "random"),
    "rounds-equal": (1024, {"equal": True}, 0.0, "equal"),
    "rounds-random": (1024, {}, 0.0, ""),
    "rounds-hashed": (1024, {"hashed": True}, 0.0, ""),
    "once-equal": (1024, {"rounds": False, "equal": True}, 0.0, ""),
    "once-half": (1024, {"rounds": False, "equal": True, "half": True}, 0.0, ""),
    "merged": (1024, {"rounds": False}, 0.01, ""),
}
"""Hosts, kind of `fat_tree_case`, merged share of the time, and what SimGrid calls it."""


def measure(name: str, simgrid: str | None) -> None:
    """Run a case twice, and say how long the second took."""
    hosts, kind, merge, peer = CASES[name]
    capacity, flows = fat_tree_case(hosts, **kind)
    assert flows.routes is not None
    how = How(exact=not kind.get("rounds", True), merge=merge)
    for _ in range(1 if merge else 2):
        begun = time.process_time()
        solved = solve(capacity, flows, flows.routes, np.zeros(len(flows)), NO_CHANGES, how)
        took = time.process_time() - begun
    end_ns = solved.finish_ns.max()
    text = f"{name:18} {len(flows):9,} flows, {solved.classes:9,} classes: end {end_ns:15,.2f} ns, {took:7.3f} s"
    if peer and simgrid:
        done = subprocess.run([simgrid, str(hosts), peer], capture_output=True, text=True, check=True)
        their_end_ns, their_time = done.stdout.split()
        text += (
            f"; SimGrid: {float(their_end_ns):,.0f} ns, {their_time} s, {float(their_time) / took:.1f} times as long"
        )
    print(text, flush=True)


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="case")
    parser.add_argument("--simgrid", metavar="PROGRAM")
    options = parser.parse_args()
    for name in options.cases or [name for name in CASES if name != "merged"]:
        measure(name, options.simgrid)


if __name__ == "__main__":
    main()
