"""Record training steps of models of several sizes on the GPU of this machine, for `bench_learn_recorded.py`.

``record_jobs.py OUT --family llama --count 40 --seed 1`` writes a folder for each size, as ``chakrasim collect`` would,
and its parameters beside it; ``--repeat 3`` records the first sizes again, which tells how far two recordings of the
same job are apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import chakrasim as cs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from model import Llama, Size, loss_of, random_batch

REPEATED = 4
WAIT, WARMUP, ACTIVE = 6, 2, 3


@dataclass(frozen=True)
class Convolutions:
    """A residual network for images: ``blocks`` of two convolutions at each of three widths."""

    blocks: int
    width: int
    image: int
    batch: int


class Residual(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.short = nn.Conv2d(inputs, width, 1, stride, bias=False) if inputs != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.short(x))


def network(size: Convolutions) -> nn.Module:
    """The network, with ten classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, size.width, 3, 1, 1, bias=False), nn.BatchNorm2d(size.width), nn.ReLU()]
    inputs = size.width
    for stage in range(3):
        for block in range(size.blocks):
            width = size.width << stage
            layers.append(Residual(inputs, width, 2 if stage and not block else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def llama_size(one: random.Random) -> Size:
    """A decoder by chance, of a step of some ms to some 100 ms on a large GPU."""
    heads, head = one.choice([4, 6, 8, 12, 16, 20]), one.choice([64, 128])
    width = heads * head
    hidden = 128 * round(width * one.choice([2.5, 2.75, 3, 3.5, 4]) / 128)
    return Size(one.choice([2, 3, 4, 5, 6, 8]), width, heads, heads, hidden, 1024 * one.randint(4, 32),
                one.choice([512, 768, 1024, 1536, 2048]), one.choice([2, 3, 4, 6, 8]))  # fmt: skip


def convolutions_size(one: random.Random) -> Convolutions:
    """A network by chance."""
    return Convolutions(one.choice([1, 2, 3, 4]), 16 * one.randint(2, 12), one.choice([32, 48, 64, 96]),
                        one.choice([32, 48, 64, 96, 128]))  # fmt: skip


def record(size: Any, folder: Path, device: str) -> dict[str, int]:
    """Record steps of it; its parameters."""
    torch.manual_seed(0)
    if isinstance(size, Size):
        model: nn.Module = Llama(size).to(device, torch.bfloat16)
        data, targets = random_batch(size, device, 0)
    else:
        model = network(size).to(device)
        data = torch.randn(size.batch, 3, size.image, size.image, device=device)
        targets = torch.randint(10, (size.batch,), device=device)
    loss_function = loss_of if isinstance(size, Size) else functional.cross_entropy
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    with cs.observe(folder, wait=WAIT, warmup=WARMUP, active=ACTIVE, verdict=False) as steps:
        for _ in steps(range(WAIT + WARMUP + ACTIVE + 1)):
            loss = loss_function(model(data), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()
    del model, optimizer, data, targets, loss
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return asdict(size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", choices=("llama", "convolutions"), default="llama")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=0, help="record the first sizes so often again")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = {"llama": llama_size, "convolutions": convolutions_size}[options.family]
    one = random.Random(f"{options.family} {options.seed}")
    sizes = [draw(one) for _ in range(options.count)]
    order = [(f"{number:03}", size) for number, size in enumerate(sizes)]
    order += [(f"{number:03}.{again}", sizes[number]) for again in range(options.repeat) for number in range(REPEATED)]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, size in order:
        parameters = record(size, options.out / name, device)
        (options.out / f"{name}.parameters.json").write_text(json.dumps(parameters))
        print(name, parameters, flush=True)


if __name__ == "__main__":
    main()
