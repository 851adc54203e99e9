"""ResNet-50, and a model like DLRM, as text workloads of ASTRA-sim 1.0: one line a layer, times by a device profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from chakrasim.machine import DeviceProfile
from chakrasim.trace.work import Work, WorkKind

VALUE_BYTES: Final = 2
TABLES, WIDTH, INDEXED = 26, 128, 1
"""Of DLRM: tables of embeddings, values of a row, and rows that a sample looks up in a table."""


@dataclass(frozen=True)
class Layer:
    """A product of m x k by k x n for each sample (of embeddings: what is moved); ``inputs``: values that it reads."""

    name: str
    m: int
    n: int
    k: int
    inputs: int
    kind: WorkKind = WorkKind.GEMM


def resnet50() -> Iterator[Layer]:
    """He et al. 2015, arXiv:1512.03385, table 1: convolutions as the products that they amount to."""

    def convolution(name: str, size: int, channels: int, into: int, window: int, stride: int = 1) -> Layer:
        read = channels * (size * stride) ** 2
        return Layer(name, size * size, into, channels * window * window, read, WorkKind.CONVOLUTION)

    yield convolution("stem", 112, 3, 64, 7, 2)
    channels = 64
    for stage, (blocks, inner, size) in enumerate(((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)), 2):
        for block in range(blocks):
            name = f"conv{stage}_{block + 1}"
            stride = 2 if stage > 2 and block == 0 else 1
            yield convolution(f"{name}a", size * stride, channels, inner, 1)
            yield convolution(f"{name}b", size, inner, inner, 3, stride)
            yield convolution(f"{name}c", size, inner, 4 * inner, 1)
            if block == 0:
                yield convolution(f"{name}s", size, channels, 4 * inner, 1, stride)
            channels = 4 * inner
    yield Layer("fc", 1, 1000, channels, channels)


def dlrm() -> Iterator[Layer]:
    """Naumov et al. 2019, arXiv:1906.00091, sizes of MLPerf's benchmark: the embeddings, then both networks."""
    yield Layer("embeddings", TABLES * INDEXED, WIDTH, 1, TABLES * INDEXED * WIDTH, WorkKind.EMBEDDING)
    crossed = WIDTH + (TABLES + 1) * TABLES // 2
    for side, sizes in (("bottom", (13, 512, 256, WIDTH)), ("top", (crossed, 1024, 1024, 512, 256, 1))):
        for number, (into, out) in enumerate(pairwise(sizes), 1):
            yield Layer(f"{side}{number}", 1, out, into, into)


def resnet50_text(samples: int, tp: int, profile: DeviceProfile, dtype: str) -> str:
    """``samples`` on each of groups of ``tp`` ranks in a row, which share every layer's output channels: outputs are
    gathered, gradients of inputs summed among them; gradients of weights are summed over the groups."""
    layers = [*resnet50()]
    micros = _micros(layers, samples, tp, profile, dtype)
    lines = []
    for layer, (forward, gradient) in zip(layers, micros, strict=True):
        out, into = (samples * values * VALUE_BYTES for values in (layer.m * layer.n, layer.inputs))
        weights = layer.n * layer.k * VALUE_BYTES // tp
        lines.append(
            f"{layer.name} -1 {forward} ALLGATHER {out // tp} {gradient} ALLREDUCE {into} {gradient} ALLREDUCE "
            f"{weights} 0"
        )
    return "\n".join([f"HYBRID_TRANSFORMER model_parallel_NPU_group: {tp}", str(len(lines)), *lines, ""])


def dlrm_text(samples: int, profile: DeviceProfile, dtype: str) -> str:
    """``samples`` on each rank: all ranks share the embeddings, and exchange what they looked up; gradients of the
    networks are summed over all."""
    layers = [*dlrm()]
    exchanged = samples * TABLES * WIDTH * VALUE_BYTES
    lines = []
    for layer, (forward, gradient) in zip(layers, _micros(layers, samples, 1, profile, dtype), strict=True):
        if layer.kind == WorkKind.EMBEDDING:
            lines.append(f"{layer.name} -1 {forward} ALLTOALL {exchanged} 0 ALLTOALL {exchanged} {gradient} NONE 0 0")
        else:
            weights = layer.n * layer.k * VALUE_BYTES
            lines.append(f"{layer.name} -1 {forward} NONE 0 {gradient} NONE 0 {gradient} ALLREDUCE {weights} 0")
    bottom = max(at for at, layer in enumerate(layers) if layer.name.startswith("bottom"))
    return "\n".join([f"HYBRID_DLRM {bottom}", str(len(lines)), *lines, ""])


def _micros(layers: list[Layer], samples: int, tp: int, profile: DeviceProfile, dtype: str) -> list[tuple[int, int]]:
    """Whole microseconds, at least 1, of a layer's forward pass, and of each of its two gradients, which take as many
    operations: of a rank."""
    m, n, k, inputs = (np.array([getattr(one, name) for one in layers], np.int64) for name in ("m", "n", "k", "inputs"))
    n = -(-n // tp)
    m *= samples
    kind = np.array([one.kind for one in layers], np.int64)
    moved = kind == WorkKind.EMBEDDING
    ones = np.ones(len(layers), np.int64)
    work = Work(
        kind=kind, flops=np.where(moved, 0, 2 * m * n * k), bytes_written=m * n * VALUE_BYTES,
        bytes_read=(samples * inputs + n * k * ~moved) * VALUE_BYTES,
        batch=ones * ~moved, m=m * ~moved, n=n * ~moved, k=k * ~moved,
        causal=np.zeros(len(layers), np.bool_), dtype=np.full(len(layers), dtype), kernels=ones,
    )  # fmt: skip
    times = np.maximum(-(-profile.durations_ns(work) // 1000), 1).tolist()
    return [(time, time) for time in times]
