"""A small Llama-like transformer, and the options that all training examples share."""

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Size:
    """How large the model and its batches are; ``batch`` is per rank."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    sequence: int
    batch: int


SIZES = {
    "tiny": Size(layers=2, width=64, heads=4, kv_heads=4, hidden=128, vocabulary=256, sequence=32, batch=2),
    "small": Size(layers=4, width=512, heads=8, kv_heads=4, hidden=1408, vocabulary=2048, sequence=256, batch=8),
    "7b": Size(layers=32, width=4096, heads=32, kv_heads=32, hidden=11008, vocabulary=32000, sequence=4096, batch=1),
    "70b": Size(layers=80, width=8192, heads=64, kv_heads=8, hidden=28672, vocabulary=32000, sequence=4096, batch=1),
}


class Attention(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head_width = size.width // size.heads
        self.q = nn.Linear(size.width, size.heads * self.head_width, bias=False)
        self.k = nn.Linear(size.width, size.kv_heads * self.head_width, bias=False)
        self.v = nn.Linear(size.width, size.kv_heads * self.head_width, bias=False)
        self.o = nn.Linear(size.heads * self.head_width, size.width, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, sequence, _ = x.shape
        # The number of heads is left open: under tensor parallelism a rank has some of them.
        q = self.q(x).view(batch, sequence, -1, self.head_width).transpose(1, 2)
        k = self.k(x).view(batch, sequence, -1, self.head_width).transpose(1, 2)
        v = self.v(x).view(batch, sequence, -1, self.head_width).transpose(1, 2)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, sequence, -1))


class FeedForward(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(size.width, eps=1e-5)
        self.attention = Attention(size)
        self.feed_forward_norm = nn.RMSNorm(size.width, eps=1e-5)
        self.feed_forward = FeedForward(size)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """Layers ``first`` to ``last`` (not included) of the model; the ends have the embedding and the output too."""

    def __init__(self, size: Size, first: int = 0, last: int | None = None) -> None:
        super().__init__()
        last = size.layers if last is None else last
        self.embedding = nn.Embedding(size.vocabulary, size.width) if first == 0 else None
        self.blocks = nn.ModuleList(Block(size) for _ in range(first, last))
        self.norm = nn.RMSNorm(size.width, eps=1e-5) if last == size.layers else None
        self.output = nn.Linear(size.width, size.vocabulary, bias=False) if last == size.layers else None
        cosine, sine = angles(size.sequence, size.width // size.heads)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        if self.norm is not None and self.output is not None:
            x = self.output(self.norm(x))
        return x


def angles(sequence: int, head_width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of rotary position embeddings, sequence x head width."""
    frequencies = 10000.0 ** (-torch.arange(0, head_width, 2).float() / head_width)
    angle = torch.outer(torch.arange(sequence).float(), frequencies).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn every pair of a head's values by the angle of its position."""
    left, right = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-right, left), dim=-1) * sine


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def random_batch(size: Size, device: str, seed: int, *, batch: int | None = None) -> tuple[Tensor, Tensor]:
    """Tokens and the tokens to be predicted, batch x sequence each."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(size.vocabulary, (batch or size.batch, size.sequence + 1), generator=generator)
    return tokens[:, :-1].contiguous().to(device), tokens[:, 1:].contiguous().to(device)


def options(**extra: int) -> argparse.Namespace:
    """The command line: --steps and --size, and whole-number options of an example with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--size", choices=SIZES, default="small")
    for name, default in extra.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser.parse_args()


def start() -> str:
    """Join the job and name the device of this rank; CPU ranks compute on one thread each."""
    import os

    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return "cpu"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl")
    return "cuda"
