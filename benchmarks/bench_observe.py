"""Observed training runs on gloo ranks: whether they are complete, replay as measured, and what observing costs.

Run: ``python benchmarks/bench_observe.py [--size small] [--only ddp-2 ...] [--json FILE]``. Needs PyTorch. For DDP,
FSDP2 and tensor parallelism on 2 and 4 ranks, one thread each, it prints

- the doctor's verdict, and how many of the back end's collectives were matched between ranks;
- median measured and simulated step (wait and transfer apart, start offsets), 5th to 95th percentile of the error;
- the time of a step with and without observing, in one run, in turns: medians of wall and of processor time, and the
  fastest steps, which other programs on the machine disturb least;
- bytes on disk per operator, of host and device trace together.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNS = {f"{name}-{ranks}": (name, ranks) for name in ("ddp", "fsdp2", "tp") for ranks in (2, 4)}
ACTIVE, ROUNDS, BLOCK = 10, 3, 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="small")
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    parser.add_argument("--json")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        alternate(Path(options.worker[0]), options.worker[1], options.size)
        return
    if find_spec("torch") is None:
        print("skipped: needs PyTorch")
        return
    results = {}
    for name in options.only:
        results[name] = measure(*RUNS[name], options.size)
        print(line(name, results[name]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


def measure(example: str, ranks: int, size: str) -> dict[str, Any]:
    """All figures of one example."""
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder) / "traces"
        script = EXAMPLES / f"train_{example}.py"
        torchrun(
            ranks,
            *("-m", "chakrasim", "collect", str(script), "-o", str(traces), "--wait", "2", "--active", str(ACTIVE)),
            *("--no-verdict", "--", "--size", size, "--steps", str(ACTIVE + 5)),
        )
        cost = Path(folder) / "cost"
        cost.mkdir()
        torchrun(ranks, __file__, "--size", size, "--worker", str(cost), example)
        return {**completeness(traces), **fidelity(traces, Path(folder) / "out"), **overhead(cost)}


def torchrun(ranks: int, *command: str) -> None:
    """Run a program on some ranks; what they print is shown if they fail."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    head = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    done = subprocess.run([*head, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")


def completeness(traces: Path) -> dict[str, Any]:
    """The verdict, the back end's collectives in the host traces, those linked and matched, bytes per operator."""
    import chakrasim as cs
    from chakrasim.linker.across_ranks.meetings import meet

    verdict = cs.doctor(traces)
    linked = [cs.link(files.host, files.device) for files in _files(traces)]
    recorded, operators, size = 0, 0, 0
    for files in _files(traces):
        text = gzip.decompress(files.host.read_bytes())
        recorded += text.count(b'"name": "gloo:')
        operators += text.count(b'"id":')
        size += files.host.stat().st_size + files.device.stat().st_size
    met = meet(linked)
    whole = np.array([group.size for group in met.groups])[met.group]
    wanted = np.where(met.is_message, 2, whole)
    matched = (met.attendance[met.meeting] == wanted) & met.agrees[met.meeting]
    return {
        "verdict": verdict.verdict,
        "findings": [finding.code for finding in verdict.findings],
        "collectives_recorded": recorded,
        "collectives_linked": sum(len(trace.communication) for trace in linked),
        "collectives_matched": int(matched.sum()),
        "bytes_per_operator": size / operators,
        "operators_per_step": operators / len(linked) / ACTIVE,
    }


def _files(traces: Path) -> list[Any]:
    from chakrasim.diagnosis.files.discover import discover

    return discover(traces)


def fidelity(traces: Path, out: Path) -> dict[str, Any]:
    """Simulated against measured steps of all ranks."""
    import chakrasim as cs

    cs.trace_directory(traces, out)
    steps = cs.replay_recorded(str(out / "chakra"), "transfer").steps
    errors = [step.simulated_ns / step.measured_ns - 1 for step in steps]
    return {
        "steps": len(steps),
        "measured_ms": statistics.median(step.measured_ns for step in steps) / 1e6,
        "simulated_ms": statistics.median(step.simulated_ns for step in steps) / 1e6,
        "error_p5": float(np.percentile(errors, 5)),
        "error_p95": float(np.percentile(errors, 95)),
        "worst_error": max(errors, key=abs),
    }


def alternate(cost: Path, example: str, size: str) -> None:
    """In a rank: train, with blocks of steps that are observed and that are not in turns."""
    import runpy

    import torch

    from chakrasim.collect.observing.script import _steps_of_optimizers

    turns = Turns(cost)
    sys.argv = [example, "--size", size, "--steps", str(2 + ROUNDS * (2 * BLOCK + 1))]
    sys.path.insert(0, str(EXAMPLES))
    with _steps_of_optimizers(torch, turns.step):
        runpy.run_path(str(EXAMPLES / f"train_{example}.py"), run_name="__main__")
    times = {"plain": turns.plain, "observed": turns.observed}
    (cost / f"{os.environ['RANK']}.json").write_text(json.dumps(times))


class Turns:
    """Times of steps, (wall, processor) in seconds, of blocks in turns; two steps go ahead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain: list[tuple[float, float]] = []
        self.observed: list[tuple[float, float]] = []
        self.number = -2
        self.block: Any = None
        self.steps: Any = None
        self.begun = (0.0, 0.0)

    def step(self) -> None:
        """A training step has ended."""
        now = (time.perf_counter(), time.process_time())
        took = (now[0] - self.begun[0], now[1] - self.begun[1])
        at = self.number % (2 * BLOCK + 1)
        if self.number >= 0 and at < BLOCK:
            self.plain.append(took)
        elif self.number >= 0 and at > BLOCK:
            self.observed.append(took)
        self.number += 1
        self._turn(self.number % (2 * BLOCK + 1))
        self.begun = (time.perf_counter(), time.process_time())

    def _turn(self, at: int) -> None:
        from chakrasim.collect.observing.observation import Schedule, observing

        if self.steps is not None:
            self.steps.step()
        if self.number > 0 and at == 0 and self.block is not None:
            self.block.__exit__(None, None, None)
            self.block = self.steps = None
        if self.number >= 0 and at == BLOCK:
            self.block = observing(self.folder / f"traces{self.number}", Schedule(0, 1, BLOCK), force=True)
            self.steps = self.block.__enter__()


def overhead(cost: Path) -> dict[str, Any]:
    """Observed over plain steps, by the medians of wall and of processor time of all ranks."""
    parts = [json.loads(file.read_bytes()) for file in sorted(cost.glob("*.json"))]
    medians = {
        kind: [statistics.median(times[at] for part in parts for times in part[kind]) for at in (0, 1)]
        for kind in ("plain", "observed")
    }
    plain, observed = medians["plain"], medians["observed"]
    fastest = {kind: min(times[0] for part in parts for times in part[kind]) for kind in ("plain", "observed")}
    return {
        "plain_ms": plain[0] * 1e3,
        "observed_ms": observed[0] * 1e3,
        "overhead_wall": observed[0] / plain[0] - 1,
        "overhead_processor": observed[1] / plain[1] - 1,
        "overhead_fastest": fastest["observed"] / fastest["plain"] - 1,
    }


def line(name: str, result: dict[str, Any]) -> str:
    """A run's figures as text."""
    found = f" ({', '.join(result['findings'])})" if result["findings"] else ""
    linked = f"{result['collectives_matched']}/{result['collectives_linked']}/{result['collectives_recorded']}"
    error = result["simulated_ms"] / result["measured_ms"] - 1
    return (
        f"{name}: {result['verdict']}{found}; collectives matched/linked/recorded {linked}; "
        f"step {result['measured_ms']:.1f} ms measured, {result['simulated_ms']:.1f} simulated ({error:+.2%}; 5-95 % "
        f"{result['error_p5']:+.2%} to {result['error_p95']:+.2%}, worst {result['worst_error']:+.2%}, n="
        f"{result['steps']}); observing {result['plain_ms']:.1f} -> {result['observed_ms']:.1f} ms "
        f"({result['overhead_wall']:+.1%} wall, {result['overhead_processor']:+.1%} processor, "
        f"{result['overhead_fastest']:+.1%} fastest step); "
        f"{result['bytes_per_operator']:.0f} bytes/operator, {result['operators_per_step']:.0f} operators/step"
    )


if __name__ == "__main__":
    main()
