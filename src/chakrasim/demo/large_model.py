"""The demo's large model: a Llama-like 7B on 1,024 GPUs, from a description, on three networks."""

from __future__ import annotations

from pathlib import Path

from chakrasim.demo.layout import Say, milliseconds, table
from chakrasim.generator import transformer_job
from chakrasim.report.picture.parts import write_parts
from chakrasim.simulator.api import simulate
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult

SPEC = {
    "model": "llama-7b",
    "parallel": {"dp": 128, "tp": 8, "zero": 3},
    "batch": {"micro_batch": 4, "micro_batches": 1},
}
NETWORKS = ("400g", "200g", "100g")
PICTURE = "llama-7b-1024.svg"


def large_model(folder: Path, say: Say) -> None:
    """Generate, simulate, and draw where the time goes into ``folder``."""
    say(
        "A Llama-like model of 7 billion parameters on 1,024 H100: tensor parallel 8, parameters sharded over 128, four"
    )
    say("sequences of 4,096 tokens on each. No trace of it exists: it is generated from a description of three lines.")
    say("(chakrasim capture takes it from the PyTorch program instead, without a GPU.) Network between boards of 8:\n")
    job = transformer_job(SPEC)
    results = {name: simulate(job, machine=f"hgx-h100-1024-{name}") for name in NETWORKS}
    say(table([("Gb/s per GPU", "step", "compute", "overlap", "exposed comm"), *map(_row, results.items())]))
    write_parts(folder / PICTURE, results)
    say(f"\nWhere the time goes, as a picture: {folder / PICTURE}")


def _row(entry: tuple[str, SimulationResult]) -> tuple[str, ...]:
    name, result = entry
    shares = 100 * result.parts_ns.mean(axis=0) / result.makespan_ns
    mean = dict(zip(PARTS, shares.tolist(), strict=True))
    cells = (f"{mean[part]:.1f} %" for part in ("compute", "overlap", "exposed_comm"))
    return (name.removesuffix("g"), milliseconds(result.makespan_ns), *cells)
