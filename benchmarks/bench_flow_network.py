"""The engine on graphs of links, every rank simulated, beside what is asked of each case.

    python benchmarks/bench_flow_network.py [case ...]

Cases: see CASES (default: all). Each runs twice in a process of its own; said are the CPU time of the second run (one
core, workload and machine at hand) and the most memory that the process held.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import chakrasim
from chakrasim import Protocol, SimulationResult, TraceBuilder, load_machine
from chakrasim.generator import generate_transformer
from chakrasim.machine import Machine
from chakrasim.machine.slow import parse_slow

Run = Callable[[], SimulationResult]


def ring(messages: bool) -> Run:
    """An all-reduce of 1 GiB on 1,024 ranks at one switch: one ring."""
    parts = [{"one-switch": {"bandwidth": "400 Gb/s", "latency": "250 ns"}}]
    collectives = {"splits": 1, "endpoint-delay": "0 ns", "algorithms": {"all-reduce": "ring"}}
    network = {"graph": {"ranks": 1024, "parts": parts}}
    machine = load_machine({"format": 1, "network": network, "collectives": collectives})
    return all_reduce(machine, Protocol(messages=messages))


def channels() -> Run:
    """The same on 1,024 H100: a ring for each of a board's eight NICs."""
    return all_reduce(load_machine("h100", gpus=1024), Protocol())


def all_reduce(machine: Machine, protocol: Protocol) -> Run:
    builder = TraceBuilder()
    builder.add(0, name="all-reduce", type=7, attrs={"comm_type": 0, "comm_size": 1 << 30, "is_cpu_op": False})
    return partial(chakrasim.simulate, builder.build(), ranks=1024, machine=machine, protocol=protocol, fold=False)


def step(dp: int) -> Run:
    """A training step of 8 micro-batches on each replica of 64 H100, one of them slower than the others."""
    parallel, batch = {"dp": dp, "tp": 8, "pp": 8}, {"global_batch": 8 * dp}
    job = generate_transformer({"model": "llama-7b", "parallel": parallel, "batch": batch}).job
    machine = replace(load_machine("h100", gpus=64 * dp), slow=parse_slow(["5=1.3"]))
    return partial(chakrasim.simulate, job, machine=machine, fold=False)


CASES: dict[str, tuple[Callable[[], Run], str]] = {
    "ring": (partial(ring, False), "0.1 s"),
    "channels": (channels, "0.1 s"),
    "messages": (partial(ring, True), "5 s"),
    "step": (partial(step, 16), "2 s"),
    "large": (partial(step, 256), "30 s, 4 GiB"),
}
"""What to run, and at most how long it may take."""


def measure(name: str) -> None:
    """Run a case twice in this process."""
    prepare, asked = CASES[name]
    run = prepare()
    for _ in range(2):
        begun = time.process_time()
        result = run()
        took = time.process_time() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ran = f"{len(result.finish_ns):6,} ranks, {result.messages:9,} messages, end {result.makespan_ns / 1e6:9,.3f} ms"
    print(f"{name:9} {ran}: {took:6.2f} s, {held:5.2f} GiB (asked: {asked})", flush=True)


def main() -> None:
    """Run the cases asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="case")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.cases or CASES:
        if options.here:
            measure(name)
        else:
            subprocess.run([sys.executable, __file__, name, "--here"], check=True)


if __name__ == "__main__":
    main()
