"""Figure 6 of Chakra's artefact (MLSys 2026): how near recorded jobs, linked, converted and replayed, come to what was
measured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.errors import InputError
from chakrasim.experiments.published import published
from chakrasim.experiments.result import COUNT, PER_CENT, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.progress import Progress, told
from chakrasim.simulator.api import replay_recorded
from chakrasim.simulator.outcome.steps import StepTime
from chakrasim.text.amounts import plural

SHIPPED: Final = Path(__file__).parents[1] / "demo" / "traces"
"""Four ranks of a small network, PyTorch on CPU, that come with the package."""

STEPS: Final = (("job", WORD), ("rank", COUNT), ("step", COUNT), ("measured", SECONDS), ("simulated", SECONDS),
                ("error", PER_CENT), ("delay only", PER_CENT))  # fmt: skip
"""Columns of replayed steps."""


def run(data: str | os.PathLike[str] | None, *, progress: Progress | None = None) -> Experiment:
    """The experiment; ``data``: a folder of PyTorch's traces, or of such folders, to be replayed beside the shipped
    run."""
    theirs = published("mlsys26")
    jobs = [("shipped: 4 ranks, gloo", SHIPPED), *(jobs_in(Path(data)) if data is not None else ())]
    rows, refused = [], []
    for name, folder in told(jobs, lambda one: one[0], progress):
        try:
            rows += [replay_row(name, step) for step in replayed(folder)]
        except InputError as error:
            if folder == SHIPPED or len(jobs) == 2:
                raise
            refused.append(f"{name}: {error}")
    steps = Table("Recorded steps, replayed", STEPS, tuple(rows), against=("measured", "simulated"))
    errors, delays = ([abs(one) for one in steps.numbers(name)] for name in ("error", "delay only"))
    beside = _published(theirs["figure-6"])
    rebuilt, simulated = ([abs(one) for one in beside.numbers(name)] for name in ("rebuilt", "simulated"))
    return Experiment(
        "mlsys26-figure-6",
        "How near do recorded jobs come to what was measured, when they are linked, converted and replayed?",
        (
            ("error here", f"{_mean_and_largest(errors)} of {plural(len(errors), 'step')}"),
            ("unexplained here", f"{_mean_and_largest(delays)} of a step's critical path is delay that no dependency "
             "explains, replayed as recorded"),
            ("published, rebuilt", f"{_mean_and_largest(rebuilt)} of {plural(len(rebuilt), 'job')}: Chakra's totals"),
            ("published, simulated", f"{_mean_and_largest(simulated)} of the same: ASTRA-sim's"),
        ),
        (steps, beside),
        (
            "computation takes what was recorded; a collective begins when its last rank arrives, and takes the "
            "transfer time that was recorded; of a rank that is alone all takes what was recorded",
            "delays between dependent events are replayed as recorded: an error of 0 says that the graph is whole, not "
            "that everything in it is explained",
        ),
        ("the same jobs: the artefact's traces were not to be had; these are others", *refused),
        theirs["source"],
    )  # fmt: skip


def _mean_and_largest(shares: Sequence[float]) -> str:
    return f"mean {sum(shares) / max(len(shares), 1):.2f} %, largest {max(shares, default=0.0):.2f} %"


def jobs_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """The folder, or where it holds nothing but folders these, by name. Raises InputError for none."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as fault:
        raise InputError("no folder of traces", file=folder, found=fault.strerror or str(fault)) from None
    if entries and all(entry.is_dir() for entry in entries):
        yield from ((entry.name, entry) for entry in entries)
    else:
        yield folder.name, folder


def replayed(folder: Path) -> tuple[StepTime, ...]:
    """Every recorded step of a job's PyTorch traces beside its replay. Raises InputError."""
    with TemporaryDirectory() as made:
        report = trace_directory(folder, os.path.join(made, "chakra"))
        # A rank alone has nobody to wait for: its collectives take what was recorded.
        return replay_recorded(report.prefix, "transfer" if len(report.ranks) > 1 else "recorded").steps


def replay_row(job: str, step: StepTime) -> tuple[Cell, ...]:
    """A row of `STEPS`."""
    delay = None if step.delay_only_share is None else 100 * step.delay_only_share
    return job, step.rank, step.step, step.measured_ns / 1e9, step.simulated_ns / 1e9, step.error_pct, delay


def _published(figure: dict[str, list[int]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for job, (recorded, *others, _) in figure.items():
        rows.append((job, *(us / 1e6 for us in (recorded, *others)), *(100 * (us / recorded - 1) for us in others)))
    columns = (("job", WORD), ("recorded, s", SECONDS), ("rebuilt, s", SECONDS), ("simulated, s", SECONDS),
               ("rebuilt", PER_CENT), ("simulated", PER_CENT))  # fmt: skip
    return Table("Published: recorded by Kineto, rebuilt by Chakra, simulated by ASTRA-sim", columns, tuple(rows))
