"""Record training steps of models of several sizes on the GPU of this machine, for `bench_learn_recorded.py` and
`bench_bind.py`.

``record_jobs.py OUT --family llama --count 40 --seed 1`` writes a folder for each size, as ``chakrasim collect`` would,
its parameters beside it, and in NAME.steps.json what steps took, in ns, while nobody recorded; ``--repeat 3`` records
the first sizes again, which tells how far two recordings of the same job are apart. With ``--busy`` sizes are such that
a large GPU is busy even where the profiler slows the host.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import chakrasim as cs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from model import Llama, Size, loss_of, random_batch

REPEATED = 4
UNTIMED, TIMED = 3, 10
WAIT, WARMUP, ACTIVE = 2, 2, 2


@dataclass(frozen=True)
class Convolutions:
    """A residual network for images: ``blocks`` of two convolutions at each of three widths."""

    blocks: int
    width: int
    image: int
    batch: int


@dataclass(frozen=True)
class Encoding:
    """An encoder of PyTorch's own layers with dropout, under autocast."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    sequence: int
    batch: int


class Encoder(nn.Module):
    """Predicts each token of its input."""

    def __init__(self, size: Encoding) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Parameter(torch.zeros(size.sequence, size.width))
        layer = nn.TransformerEncoderLayer(size.width, size.heads, size.hidden, 0.1, "gelu", batch_first=True,
                                           norm_first=True)  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, size.layers, nn.LayerNorm(size.width), enable_nested_tensor=False)
        self.output = nn.Linear(size.width, size.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16):
            return self.output(self.layers(self.embedding(tokens) + self.position))


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


def llama_size(one: random.Random, busy: bool) -> Size:
    """A decoder by chance, of a step of some ms to some 100 ms on a large GPU."""
    heads, head = one.choice([12, 16, 18, 20, 24] if busy else [4, 6, 8, 12, 16, 20]), one.choice([64, 128])
    width = heads * head
    hidden = 128 * round(width * one.choice([2.5, 2.75, 3, 3.5, 4]) / 128)
    vocabulary = 1024 * one.randint(4, 32)
    if busy:
        sequence, tokens = one.choice([1024, 1536, 2048, 4096]), 1024 * one.randint(16, 40)
        return Size(one.choice([2, 3, 4]), width, heads, heads, hidden, vocabulary, sequence, tokens // sequence)
    return Size(one.choice([2, 3, 4, 5, 6, 8]), width, heads, heads, hidden, vocabulary,
                one.choice([512, 768, 1024, 1536, 2048]), one.choice([2, 3, 4, 6, 8]))  # fmt: skip


def encoder_size(one: random.Random, busy: bool) -> Encoding:
    """An encoder by chance."""
    heads = one.choice([12, 16, 20, 24, 32] if busy else [4, 8, 12, 16])
    sequence = one.choice([128, 256, 384, 512, 1024])
    tokens = 1024 * (one.randint(24, 48) if busy else one.randint(2, 16))
    hidden = 64 * heads * one.choice([2, 3, 4])
    return Encoding(one.choice([2, 3, 4]), 64 * heads, heads, hidden, 1024 * one.randint(4, 32), sequence,
                    tokens // sequence)  # fmt: skip


def convolutions_size(one: random.Random, busy: bool) -> Convolutions:
    """A network by chance."""
    blocks, width = one.choice([1, 2, 3, 4]), 16 * (one.randint(4, 9) if busy else one.randint(2, 12))
    image = one.choice([48, 64, 80, 96] if busy else [32, 48, 64, 96])
    return Convolutions(blocks, width, image, one.choice([128, 160, 192, 256] if busy else [32, 48, 64, 96, 128]))


def started(size: Any, device: str) -> tuple[nn.Module, Any, Tensor, Tensor]:
    """Model, function of the loss, and one batch."""
    torch.manual_seed(0)
    with torch.device(device):
        if isinstance(size, Convolutions):
            data = torch.randn(size.batch, 3, size.image, size.image)
            return network(size), functional.cross_entropy, data, torch.randint(10, (size.batch,))
        if isinstance(size, Encoding):
            tokens = torch.randint(size.vocabulary, (size.batch, size.sequence))
            return Encoder(size), loss_of, tokens, tokens
        model = Llama(size).to(torch.bfloat16)
    return model, loss_of, *random_batch(size, device, 0)


def step_of(size: Any, device: str) -> Callable[[], None]:
    """A model, and what does a training step of it."""
    model, loss_function, data, targets = started(size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        loss = loss_function(model(data), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return step


def record(size: Any, folder: Path, device: str) -> list[int]:
    """Record steps of it; what steps took before, in ns."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    step = step_of(size, device)
    took = []
    for _ in range(UNTIMED + TIMED):
        begin = time.perf_counter_ns()
        step()
        took.append(time.perf_counter_ns() - begin)
    with cs.observe(folder, wait=WAIT, warmup=WARMUP, active=ACTIVE, verdict=False) as steps:
        for _ in steps(range(WAIT + WARMUP + ACTIVE + 1)):
            step()
    return took[UNTIMED:]


KIND = {"llama": Size, "encoder": Encoding, "convolutions": Convolutions}
DRAW = {"llama": llama_size, "encoder": encoder_size, "convolutions": convolutions_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", choices=DRAW, default="llama")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=0, help="record the first sizes so often again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="sizes that keep a large GPU busy")
    parser.add_argument("--train", action="store_true", help="OUT is a NAME.parameters.json: train it, record nothing")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.train:
        step = step_of(KIND[options.family](**json.loads(options.out.read_text())), device)
        for _ in range(UNTIMED):
            step()
        return
    one = random.Random(f"{options.family} {options.seed}")
    sizes = [DRAW[options.family](one, options.busy) for _ in range(options.count)]
    order = [(f"{number:03}", size) for number, size in enumerate(sizes)]
    order += [(f"{number:03}.{again}", sizes[number]) for again in range(options.repeat) for number in range(REPEATED)]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, size in order:
        took = record(size, options.out / name, device)
        (options.out / f"{name}.steps.json").write_text(json.dumps(took))
        (options.out / f"{name}.parameters.json").write_text(json.dumps(asdict(size)))
        print(name, asdict(size), f"{median(took) / 1e6:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
