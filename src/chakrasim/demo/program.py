"""A training program as anybody might write it: nothing in it knows of chakrasim. Needs PyTorch.

The demo observes it on two ranks of this machine, and captures it for 64.
"""

from __future__ import annotations

from typing import Any

STEPS = 6
BATCH = 32


def network(nn: Any) -> Any:
    """A small convolutional network for images of 28 x 28."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def train() -> None:
    """Some steps of data-parallel training. Every rank of the job runs this."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(network(torch.nn), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()
    images, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(images), labels).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
