"""How the traces of the demo were recorded: a real training run on a few CPU ranks (gloo). Needs PyTorch.

    torchrun --nproc-per-node 4 docs/record_demo.py FOLDER

writes ``host.R.json.gz``, ``device.R.json.gz`` and ``manifest.R.json`` of every rank R: three steps of data-parallel
training of a small convolutional network, after two steps of warm-up.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chakrasim.collect import observe
from chakrasim.demo.program import network

STEPS = 3
WARMUP = 2
BATCH = 64


def record(folder: Path) -> None:
    """Train and record. Every rank of the job runs this."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(network(torch.nn), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()
    images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
    with observe(folder, wait=0, warmup=WARMUP, active=STEPS) as steps:
        for _ in steps(range(WARMUP + STEPS)):
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
