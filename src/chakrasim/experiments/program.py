"""The training program of the tutorial that goes from PyTorch to ASTRA-sim: its network, batch and optimizer.

Nothing in it knows of chakrasim. Images are random numbers of the size of handwritten digits: no step takes longer or
shorter for what they show, and nothing is downloaded. Started as several processes it trains data-parallel on gloo.
"""

from __future__ import annotations

import os
from typing import Any

STEPS = 8
BATCH = 64


def network(torch: Any) -> Any:
    """Two convolutions of 40 and 32 channels, and a linear layer."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 40, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(40, 32, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )


def train() -> None:
    """Some steps."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, several = network(torch), int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss_of = torch.nn.CrossEntropyLoss()
    for _ in range(STEPS):
        images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
        loss = loss_of(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if several:
        dist.destroy_process_group()


if __name__ == "__main__":
    train()
