"""Captured programs with measured durations, against steps that were not measured.

Programs run on gloo ranks of this machine and are recorded. Of every second recorded step the durations are moved to
the captured program (`bind`), of as many ranks and of more; its step is compared with the other recorded steps, and
with those of a run on more ranks. In ``waiting.py`` an operator that waits stands for the work of a device, so that the
ranks do not share this machine's cores; with more ranks than cores no other program says anything of more ranks.

python benchmarks/bench_bind.py [--only waiting]

With ``--recorded FOLDER`` programs are bound that `record_jobs.py` recorded on a GPU, a folder for each family: their
steps are compared with those that nobody recorded. ``--every 3`` takes every third.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import chakrasim as cs

ROOT = Path(__file__).resolve().parents[1]
STEPS = 8
WAITING = """
import time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

@torch.library.custom_op("bench::work", mutates_args=(), schema="(Tensor x, float seconds) -> Tensor")
def work(x: torch.Tensor, seconds: float) -> torch.Tensor:
    time.sleep(seconds)
    return x.clone()

work.register_fake(lambda x, seconds: torch.empty_like(x))
work.register_autograd(lambda context, gradient: (gradient, None))
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.linear, self.seconds = torch.nn.Linear(256, 256), seconds

    def forward(self, x):
        return torch.relu(self.linear(torch.ops.bench.work(x, self.seconds)))

model = DistributedDataParallel(torch.nn.Sequential(*(Block(0.02 * (1 + i)) for i in range(6))))
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
for _ in range(14):
    loss = model(torch.ones(16, 256)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
#: Script, its arguments, ranks that are recorded to bind, ranks that are predicted.
CASES = [
    ("waiting.py", [], 2, (2, 4, 8)),
    ("train_ddp.py", ["--size", "tiny", "--steps", "14"], 2, (2,)),
    ("train_tp.py", ["--size", "tiny", "--steps", "14"], 2, (2,)),
    ("train_pp.py", ["--size", "tiny", "--steps", "14"], 2, (2,)),
    ("train_fsdp2.py", ["--size", "tiny", "--steps", "14"], 2, (2,)),
]


def recorded(folder: Path, script: Path, arguments: list[str], ranks: int) -> dict[int, float]:
    """Record a run; the time of each step in ms, that of the slowest rank."""
    command = [sys.executable, "-m", "chakrasim", "collect", "--nproc", str(ranks), str(script), "-o", str(folder)]
    command += ["--active", str(STEPS), "--no-verdict", "--", *arguments]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=surroundings, cwd=script.parent, capture_output=True)
    times: dict[int, float] = {}
    for rank in range(ranks):
        notes = cs.link(folder / f"host.{rank}.json.gz", folder / f"device.{rank}.json.gz").annotations
        for step, length in zip(notes.step.tolist(), notes.duration_ns.tolist(), strict=True):
            if step >= 0:
                times[step] = max(times.get(step, 0.0), length / 1e6)
    return times


def main() -> None:
    """Print predicted and measured step times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose script's name begins so")
    parser.add_argument("--recorded", type=Path, help="folder of families recorded on a GPU")
    parser.add_argument("--every", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.recorded:
        for family in sorted({one.parent for one in chosen.recorded.glob("*/*.parameters.json")}):
            on_a_gpu(family, chosen.every)
        return
    for name, arguments, ranks, sizes in CASES:
        if not name.startswith(chosen.only):
            continue
        with tempfile.TemporaryDirectory() as place:
            case(Path(place), name, arguments, ranks, sizes)


def on_a_gpu(family: Path, every: int) -> None:
    """Recorded programs of a family: each is captured here, bound, and compared with its steps on the GPU."""
    off = []
    names = sorted(one.name.removesuffix(".parameters.json") for one in family.glob("???.parameters.json"))
    for name in names[::every]:
        words = [str(family / f"{name}.parameters.json"), "--family", family.name, "--train"]
        job = cs.capture(ROOT / "benchmarks" / "record_jobs.py", world_size=1, arguments=words).job
        made, took = cs.bind(job, family / name), json.loads((family / f"{name}.steps.json").read_text())
        (one,) = made.traces
        step, measured = cs.replay_recorded(made.job).makespan_ns / 1e6, statistics.median(took) / 1e6
        off.append(step / measured - 1)
        found = {what: count / one.computing for what, count in one.captured.items()}
        print(f"{family.name} {name}: {one.share:.1%} of {one.computing} nodes; {step:.1f} ms, measured"
              f" {measured:.1f}, {off[-1]:+.1%}; left out {one.left_ns / 1e6:.2f} ms;"
              f" {', '.join(f'{share:.0%} {what}' for what, share in found.items())}", flush=True)  # fmt: skip
    sizes = sorted(map(abs, off))
    print(f"{family.name}, {len(off)} programs: median {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%},"
          f" mean of signed {statistics.mean(off):+.1%}")  # fmt: skip


def case(place: Path, name: str, arguments: list[str], ranks: int, sizes: tuple[int, ...]) -> None:
    """One program: recorded on some ranks, predicted on some numbers of them."""
    script = ROOT / "examples" / name
    if not script.exists():
        script = place / name
        script.write_text(WAITING)
    times = recorded(place / str(ranks), script, arguments, ranks)
    bound_on = sorted(times)[::2]
    for size in sizes:
        held_out = {step: took for step, took in times.items() if step not in bound_on}
        if size != ranks:
            held_out = recorded(place / str(size), script, arguments, size)
        job = cs.capture(script, world_size=size, arguments=arguments, with_gpu=False).job
        made = cs.bind(job, place / str(ranks), steps=bound_on)
        cs.write_job(place / f"bound{size}", made.job)
        # Machines know nothing of gloo between processes of one machine: collectives keep what they took.
        found = cs.replay_recorded(cs.read(place / f"bound{size}"), "recorded")
        predicted, measured = found.makespan_ns / 1e6, statistics.median(held_out.values())
        spread = statistics.quantiles(held_out.values(), n=4)
        shares = min(one.share for one in made.traces)
        print(
            f"{name:16} bound on {ranks} ranks, run on {size}: {shares:6.1%} of nodes; measured {measured:8.2f} ms "
            f"(quartiles {spread[0]:.2f} to {spread[2]:.2f}), predicted {predicted:8.2f} ms, "
            f"error {predicted / measured - 1:+.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
