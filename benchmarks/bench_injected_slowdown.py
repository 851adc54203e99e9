"""A slowdown that is injected into a run of our own, and what the other run's trace predicts of it.

Four ranks of PyTorch's gloo train a small model; an operator that waits stands for the work of a device, so that the
ranks do not share this machine's cores. The run is recorded twice: as it is, and with that operator slower on rank 2.
From each recording the other's step is predicted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import chakrasim as cs
from chakrasim.scenarios.asked import asked_of
from chakrasim.scenarios.simulated import SimulatedScenarios

RANKS, STEPS, WORK_S, SLOW = 4, 8, 0.4, 2


def train(rank: int, folder: str, factor: float, port: int) -> None:
    """One rank; its step times are printed into a file of the folder."""
    import os

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)

    @torch.library.custom_op("bench::work", mutates_args=(), schema="(Tensor x, float seconds) -> Tensor")
    def work(x: torch.Tensor, seconds: float) -> torch.Tensor:
        time.sleep(seconds)
        return x.clone()

    work.register_autograd(lambda context, gradient: (gradient, None))
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Linear(128, 128)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    seconds = WORK_S * (factor if rank == SLOW else 1.0)
    times = []
    with cs.observe(folder, warmup=2, active=STEPS) as watch:
        for _ in range(STEPS + 4):
            begin = time.perf_counter()
            loss = model(torch.ops.bench.work(torch.ones(8, 128), seconds)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            watch.step()
            times.append(time.perf_counter() - begin)
    Path(folder, f"times.{rank}").write_text(" ".join(map(str, times[3 : 3 + STEPS - 1])))
    dist.destroy_process_group()


def recorded(folder: Path, factor: float, port: int) -> float:
    """Record a run; the median of its measured step times in s."""
    import torch.multiprocessing as processes

    processes.spawn(train, (str(folder), factor, port), nprocs=RANKS)
    times = [list(map(float, (folder / f"times.{rank}").read_text().split())) for rank in range(RANKS)]
    (*(path.unlink() for path in folder.glob("times.*")),)
    return statistics.median(max(step) for step in zip(*times, strict=True))


def predicted(folder: Path, change: str) -> float:
    """The median over steps of what a step takes with a change over what it takes without."""
    out = folder / "chakra"
    made = cs.trace_directory(folder, out)
    result = cs.replay_recorded(made.prefix, "transfer", comm_groups=made.comm_group)
    job = SimulatedScenarios(result)
    steps = job.steps([asked_of(change)])[1:]
    return statistics.median(after for _, _, after in steps) / statistics.median(before for _, before, _ in steps)


def main() -> int:
    """Print measured and predicted ratios."""
    for factor, port in ((1.5, 29611), (2.0, 29621), (3.0, 29631)):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            plain, slow = recorded(Path(first), 1.0, port), recorded(Path(second), factor, port + 1)
            target = f"rank:{SLOW}&node:*bench::work*"
            up, down = predicted(Path(first), f"{target}={factor}"), predicted(Path(second), f"{target}={1 / factor}")
            ratio = slow / plain
            print(f"work x {factor}: measured {ratio:.3f}, predicted {up:.3f} ({up / ratio - 1:+.1%}); "
                  f"taken away: measured {1 / ratio:.3f}, predicted {down:.3f} ({down * ratio - 1:+.1%})")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
