"""ASTRA-sim's validation on TPU v3: all-reduces of 8 and 32 cores, as curves without a scale."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import numpy as np

from chakrasim.calibration.measurements.csv_rows import read_csv
from chakrasim.errors import InputError
from chakrasim.experiments.published import published
from chakrasim.experiments.result import BYTES, PER_CENT, SECONDS, SHARE, WORD, Cell, Experiment, Table
from chakrasim.generator.collective import collective_job
from chakrasim.machine import load_machine
from chakrasim.progress import Progress, told
from chakrasim.simulator.api import simulate
from chakrasim.validation.scoreboard.baselines import every_second
from chakrasim.validation.scoreboard.predictions import Floats

MACHINES: Final = ("tpu-v3-8", "tpu-v3-32-torus", "tpu-v3-32-ring")
LARGEST: Final = 448 << 20
SIZES: Final = (128, 64 << 10, 2_621_440, 40 << 20, 117_440_512, 234_881_024, 352_321_536, LARGEST)
"""Of those that were published; the last is the full scale."""
COLUMNS: Final = ("machine", "size_bytes", "latency")
MOST_SIZES: Final = 500


def run(data: str | os.PathLike[str] | None, *, progress: Progress | None = None) -> Experiment:
    """The experiment; ``data``: CSV with `COLUMNS`, latencies in any unit, whose every second size is held out."""
    theirs = published("wiki")
    measured = _read(os.fspath(data)) if data is not None else {}
    rows = [row for name in told(MACHINES, str, progress) for row in _curve(name, theirs["tpus"].get(name, {}))]
    columns = (("machine", WORD), ("a core's bytes", BYTES), ("all-reduce", SECONDS), ("of full scale", SHARE),
               ("published", SHARE), ("difference", PER_CENT))  # fmt: skip
    curves = Table("All-reduces, simulated", columns, tuple(rows), against=("published", "of full scale"))
    off = [abs(one) for one in curves.numbers("difference")]
    tables, answers = (
        [curves],
        [("largest difference", f"{max(off):.1f} % of full scale at {len(off)} quoted readings")],
    )
    if measured:
        tables.append(held := _held_out(measured))
        worst = max(map(abs, held.numbers("largest difference")))
        answers.append(("largest difference, held out", f"{worst:.2f} % of full scale, each second size hidden"))
    return Experiment(
        "wiki-tpus",
        "Do simulated all-reduces of TPU v3 follow the measured ones?",
        tuple(answers),
        tuple(tables),
        (
            "networks as ASTRA-sim's files have them: rings of 80 GiB/s a link and 1 us, of 8, of 4 x 8, of 32; memory "
            "450 GB/s a core",
            "all-reduces go round in rings, one chunk at a time; messages meet no others (congestion-unaware)",
            f"a curve is divided by its value at {LARGEST:,} bytes, as the published ones are",
            *(["what was measured has no unit: one factor for each curve is fitted to the sizes shown, none to "
               "the others"]
              if measured else []),
        ),
        (
            "times: the published curves have no unit; bandwidth, latency and algorithm do not show, since any time in "
            "proportion to the size has the published shares",
            "the published curves as a whole: plots without a licence, of which three readings each are quoted; give a "
            "CSV file of yours with --data",
            "sizes below 40 MiB: they are lines at zero in the plots",
        ),
        theirs["source"],
    )  # fmt: skip


def _times_s(machine: str, sizes: tuple[int, ...]) -> Floats:
    """float64[n] in s: all-reduces on all ranks of a preset."""
    ranks = load_machine(machine).ranks
    jobs = (collective_job("all_reduce", size, ranks) for size in sizes)
    return np.array([simulate(job, machine=machine).makespan_ns / 1e9 for job in jobs])


def _curve(machine: str, quoted: Mapping[int, float]) -> list[tuple[Cell, ...]]:
    times = _times_s(machine, SIZES)
    shares = (times / times[-1]).tolist()
    told_of = [quoted.get(size) for size in SIZES]
    off = [None if known is None else 100 * (share - known) for share, known in zip(shares, told_of, strict=True)]
    columns = (SIZES, times.tolist(), shares, told_of, off)
    return [(machine, *row) for row in zip(*columns, strict=True)]


def _held_out(measured: Mapping[str, Mapping[int, float]]) -> Table:
    """Each half of a curve's sizes by turns, the simulation scaled to the other half."""
    rows: list[tuple[Cell, ...]] = []
    for machine, curve in measured.items():
        sizes = tuple(sorted(curve))
        known = np.array([curve[size] for size in sizes]) / max(curve.values())
        times, part = _times_s(machine, sizes), every_second(np.zeros(len(sizes), np.int64), np.array(sizes))
        off = np.zeros(len(sizes))
        for hidden in (part == 0, part == 1):
            shown_times, shown_known = times[~hidden], known[~hidden]
            scale = float(shown_times @ shown_known / (shown_times @ shown_times))
            off[hidden] = 100 * (scale * times[hidden] - known[hidden])
        worst = int(np.argmax(np.abs(off)))
        rows.append((machine, len(sizes), float(off[worst]), sizes[worst], float(np.abs(off).mean())))
    columns = (("machine", WORD), ("sizes", "count"), ("largest difference", PER_CENT), ("at", BYTES),
               ("mean", PER_CENT))  # fmt: skip
    return Table("Held out, in per cent of full scale", columns, tuple(rows))


def _read(path: str) -> dict[str, dict[int, float]]:
    """Latencies by machine and size. Raises InputError."""
    table = read_csv(path, COLUMNS, f"a CSV file with the columns {', '.join(COLUMNS)}")
    found: dict[str, dict[int, float]] = {}
    machines, sizes, latencies = map(table.texts, COLUMNS)
    for row, machine in enumerate(machines):
        if machine not in MACHINES:
            table.fail(row, "machine", "no machine of this experiment", machine, f"one of {', '.join(MACHINES)}")
        latency = table.amount(row, "latency", latencies[row])
        if latency != latency:
            table.fail(row, "latency", "blank", latencies[row], "a number above 0")
        curve, size = found.setdefault(machine, {}), table.whole(row, "size_bytes", sizes[row])
        if size in curve:
            table.fail(row, "size_bytes", "a size for the second time", size, "each size of a machine once")
        curve[size] = latency
    odd = [f"{len(curve)} of {machine}" for machine, curve in found.items() if not 4 <= len(curve) <= MOST_SIZES]
    if odd or not found:
        raise InputError("too few sizes to hold half of them out, or too many to simulate", file=path,
                         found=", ".join(odd) or "no rows", expected=f"4 to {MOST_SIZES} of each machine")  # fmt: skip
    return found
