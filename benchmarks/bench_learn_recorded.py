"""How well programs are learned from recorded jobs: step times of jobs made from the parameters of recordings that were
held out, against these, as both replay; and how far two recordings of the same job are apart, the floor.

``bench_learn_recorded.py FOLDER --keep DIR --held 10 --seed 17``: the folder is as ``record_jobs.py`` writes it:
recordings, each with NAME.parameters.json beside it, and repeats of some as NAME.0 and so on; with NAME.steps.json, as
well, steps are compared with those that nobody recorded. ``--design 10`` leaves out those held out, and holds out so
many of the others: to try changes on.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import chakrasim as cs
from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.converter.retarget.job_input import load_job
from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.notes import Notes
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import INT64

Floats = NDArray[np.float64]
SHOWN: Final = 8
ENDING: Final = ".parameters.json"
UNRECORDED: Final = ".steps.json"
BUSY: Final = 0.9
"""A job of which the device works for more than this share of the time is bound by it."""


@dataclass(frozen=True)
class Took:
    """What a job takes as it replays, in ns: all its steps, the device's work, and calls of the host; and shares of
    parts."""

    steps: int
    step: int
    device: int
    host: int
    parts: Floats

    @property
    def share(self) -> float:
        return self.device / max(self.step, 1)


def took(job: Job) -> Took:
    """Replay it."""
    result = cs.replay_recorded(job)
    device = host = 0
    for trace in job.traces:
        own, of_host = trace.attr("duration_ns").integers_or(0), trace.attr("is_cpu_op").integers_or(0) != 0
        device, host = device + int(own[~of_host].sum()), host + int(own[of_host].sum())
    parts = result.parts_ns.sum(axis=0)
    number = job.traces[0].attr("step")
    steps = len({*number.integers_or(0)[number.present].tolist()})
    return Took(steps, result.makespan_ns, device, host, parts / max(int(parts.sum()), 1))


def unrecorded(folder: Path, pairs: dict[str, tuple[Took, Took]]) -> None:
    """Steps beside those that nobody recorded: of what was made, and of the recordings themselves."""
    took = {name: np.median(json.loads(path.read_text())) for name in pairs
            if (path := folder / f"{name}{UNRECORDED}").exists()}  # fmt: skip
    for what, busy in ((f"of which the device is busy {BUSY:.0%}", True), ("of the others", False)):
        own = [name for name in took if (pairs[name][1].share >= BUSY) == busy]
        for at, which in enumerate(("made", "recorded")):
            off = {name: pairs[name][at].step / pairs[name][1].steps / took[name] - 1 for name in own}
            told(f"held out, step beside that of no recording, {which}, {len(own)} {what}", off)


def slower(job: Job, factor: float) -> Job:
    """The job on a host so many times as slow."""
    traces = []
    for trace in job.traces:
        nodes = np.flatnonzero(trace.attr("is_cpu_op").integers_or(0))
        times = (trace.attr("duration_ns").integers_or(0)[nodes] * factor).astype(np.int64)
        traces.append(edited(trace, [Change("duration_ns", INT64, nodes, times)]))
    return replace(job, traces=tuple(traces))


def converted(folder: Path, keep: Path) -> dict[str, Path]:
    """Prefixes of the jobs by name, converted once."""
    found = {}
    for stated in sorted(folder.glob(f"*{ENDING}")):
        name = stated.name.removesuffix(ENDING)
        prefix = keep / name / "chakra"
        if not Path(f"{prefix}{ENDING}").exists():
            trace_directory(folder / name, keep / name, force=True)
            Path(f"{prefix}{ENDING}").write_bytes(stated.read_bytes())
        found[name] = prefix
    return found


def told(title: str, errors: dict[str, float]) -> None:
    """Median, 90th percentile and worst of signed errors."""
    if not errors:
        return
    off = np.abs([*errors.values()])
    worst = ", ".join(f"{name} {e:+.1%}" for name, e in sorted(errors.items(), key=lambda each: -abs(each[1]))[:SHOWN])
    mean = np.mean([*errors.values()])
    print(f"{title}: median {np.median(off):.1%}, p90 {np.quantile(off, 0.9):.1%}, worst {off.max():.1%};"
          f" mean of signed {mean:+.1%}; {worst}")  # fmt: skip


def compared(title: str, pairs: dict[str, tuple[Took, Took]]) -> None:
    """Made, or recorded again, beside recorded."""
    for what in ("step", "device", "host"):
        off = {name: getattr(made, what) / max(getattr(real, what), 1) - 1 for name, (made, real) in pairs.items()}
        told(f"{title}, {what} of {len(pairs)}", off)
    bound = {name: made.step / real.step - 1 for name, (made, real) in pairs.items() if real.share >= BUSY}
    told(f"{title}, step of {len(bound)} of which the device is busy {BUSY:.0%}", bound)
    halves = [float(np.abs(made.parts - real.parts).sum() / 2) for made, real in pairs.values()]
    print(f"{title}, half the differences of shares of parts: median {np.median(halves):.3f}, worst {max(halves):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="where the converted jobs are kept")
    parser.add_argument("--held", type=int, default=10)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--design", type=int, default=0)
    options = parser.parse_args()
    every = converted(options.folder, options.keep)
    names = [name for name in every if "." not in name]
    one = random.Random(options.seed)
    held = sorted(one.sample(names, options.held))
    names = [name for name in names if name not in held]
    if options.design:
        held = sorted(one.sample(names, options.design))
        names = [name for name in names if name not in held]
    print(f"learned from {len(names)}, held out {' '.join(held)}")
    wanted = [name for name in every if name in held or "." in name or f"{name}.0" in every]
    real = {name: took(load_job(str(every[name]), notes=Notes())) for name in wanted}
    again: dict[str, list[str]] = defaultdict(list)
    for name in real:
        again[name.split(".")[0]].append(name)
    floor = {f"{a}/{b}": (real[a], real[b]) for own in again.values() for a, b in combinations(own, 2)}
    if floor:
        compared("floor: the same job recorded again", floor)
    begin, notes = time.process_time(), Notes()
    learned = cs.learn([str(every[name]) for name in names], notes=notes)
    print(f"learned in {time.process_time() - begin:.1f} s of CPU,"
          f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")  # fmt: skip
    for note in (*notes.notes, *notes.warnings):
        print("  said:", note)
    kinds = sum(not what.endswith("duration_ns") for what in learned.lost)
    print(f"laws that are near: {len(learned.lost)}, of which {kinds} are not of durations")
    begin = time.process_time()
    pairs: dict[str, tuple[Took, Took]] = {}
    same: dict[str, tuple[Took, Took]] = {}
    for name in held:
        stated = json.loads(Path(f"{every[name]}{ENDING}").read_text())
        (made,) = cs.synthesize(learned, stated, notes=Notes(), seed=options.seed)
        pairs[name] = took(made.job), real[name]
        same[name] = took(slower(made.job, real[name].host / pairs[name][0].host)), real[name]
    print(f"made in {time.process_time() - begin:.1f} s of CPU")
    for name, (ours, theirs) in pairs.items():
        print(f"  {name}: step {ours.step / 1e6:.1f} / {theirs.step / 1e6:.1f} ms, device {ours.device / 1e6:.2f} /"
              f" {theirs.device / 1e6:.2f}, host {ours.host / 1e6:.1f} / {theirs.host / 1e6:.1f}")  # fmt: skip
    compared("held out", pairs)
    unrecorded(options.folder, pairs)
    told("held out, step where calls of the host are all together as long as recorded",
         {name: ours.step / theirs.step - 1 for name, (ours, theirs) in same.items()})  # fmt: skip


if __name__ == "__main__":
    main()
