"""Figure 7 of Chakra's artefact (MLSys 2026): what collectives take in all on InfiniBand of 400 and 100 Gb/s."""

from __future__ import annotations

from functools import partial
from typing import Final

from chakrasim.experiments.published import published
from chakrasim.experiments.result import RATIO, SECONDS, WORD, Experiment, Table
from chakrasim.generator.layers.condense import condense
from chakrasim.generator.transformer import generate_transformer
from chakrasim.machine import load_device, load_machine
from chakrasim.progress import Progress, told
from chakrasim.simulator.api import simulate
from chakrasim.trace import Job

GPUS, DEVICE = 32, "h100"
NICS: Final = ("400G", "100G")
SPEC: Final = {
    "model": "mixtral-8x7b",
    "parallel": {"dp": 8, "tp": 4, "ep": 8, "sp": True, "zero": 1},
    "batch": {"micro_batch": 1, "micro_batches": 2},
}


def run(*, progress: Progress | None = None) -> Experiment:
    """The experiment."""
    theirs = published("mlsys26")
    durations_ns = load_device(DEVICE).durations_ns
    job = generate_transformer(SPEC, rewrite=partial(condense, durations_ns=durations_ns)).job
    fast, slow = (_totals(job, nic) for nic in told(NICS, lambda nic: f"NICs of {nic}", progress))
    rows = tuple(
        (kind, fast[kind], slow[kind], slow[kind] / fast[kind], *(us / 1e6 for us in known), known[1] / known[0])
        for kind, known in theirs["figure-7"].items()
    )
    columns = (("collective", WORD), ("400 Gb/s", SECONDS), ("100 Gb/s", SECONDS), ("slower", RATIO),
               ("published at 400", SECONDS), ("published at 100", SECONDS), ("published slower", RATIO))  # fmt: skip
    totals = Table("Time in collectives of a GPU, by kind", columns, rows, bars=("400 Gb/s", "100 Gb/s"),
                   against=("published slower", "slower"))  # fmt: skip
    return Experiment(
        "mlsys26-figure-7",
        "How much longer do collectives take on InfiniBand of 100 than of 400 Gb/s?",
        tuple((str(row[0]), f"{row[3]:.2f} times, published {row[6]:.2f} times") for row in rows),
        (totals,),
        (
            f"the step is generated: Mixtral 8x7B on {GPUS} H100 in boards of eight; tp 4 with sequence "
            "parallelism inside a board, ep 8 and dp 8 over all boards, optimizer states sharded, two "
            "micro-batches of 4,096 tokens",
            "one NIC of the stated speed for each GPU, a fabric without bottleneck; NCCL chooses algorithms and "
            "protocols",
            "a collective lasts from the arrival of its last rank to its end; no other traffic than the job's",
            "routing is balanced: every rank sends every other as much",
        ),
        (
            "absolute times: neither the published workload nor the size of its job is stated; the ratios are compared",
            "ratios above 4, the ratio of the speeds: the published times hold what no bandwidth explains",
        ),
        theirs["source"],
    )  # fmt: skip


def _totals(job: Job, nic: str) -> dict[str, float]:
    """Seconds that a GPU spends in collectives, by kind."""
    found: dict[str, float] = {}
    for one in simulate(job, machine=load_machine(DEVICE, gpus=GPUS, nic=nic)).collectives:
        found[one.type] = found.get(one.type, 0.0) + one.calls * one.mean_ns / GPUS / 1e9
    return found
