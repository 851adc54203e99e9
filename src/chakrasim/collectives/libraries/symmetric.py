"""Kernels on symmetric memory: without buffers between, reading and writing the ranks' memory (nccl-model.md, 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log1p

from chakrasim.collectives.libraries.search import Graphs
from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.versions import Library

_BLOCKS = 64
_PER_US = (1 << 30) / 1e6
"""GiB a second, in bytes a us."""

_BLOCK_COSTS = 0.025
"""Each multiprocessor in use counts as so much more time."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, the blocks that it is run with, and what it is expected to take, in us."""

    name: str
    blocks: int
    time_us: float


@dataclass(frozen=True)
class _Kind:
    """A kernel and what counts in its estimate: bytes on the bus, what a block's rate is multiplied by, most blocks."""

    name: str
    bus_bytes: float
    times: float
    blocks: int
    low_latency: bool


def fastest_kernel(
    found: Graphs, library: Library, collective: str, size_bytes: int, settings: Settings
) -> Kernel | None:
    """The kernel that the library expects the most of; nothing where it has none for the operation."""
    site = found.site
    alone = site.nodes == 1 and found.node.links and site.inside == "nvswitch"
    if library.name != "nccl" or library.rules < (2, 27) or not alone or site.nranks < 2 or site.capability < 70:
        return None
    best: Kernel | None = None
    for kind in _kinds(found, collective, size_bytes):
        kernel = _estimated(found, collective, kind, settings)
        if best is None or _cost(kernel) < _cost(best):
            best = kernel
    return best


def _cost(kernel: Kernel) -> float:
    return kernel.time_us * (1 + _BLOCK_COSTS * kernel.blocks)


def _kinds(found: Graphs, collective: str, size_bytes: int) -> Iterator[_Kind]:
    ranks = found.site.nranks
    multicast = found.nvls is not None and ranks > 2
    few = -(-(16 if found.site.capability < 100 else 32) // ranks)
    own = size_bytes if collective == "all_reduce" else size_bytes // ranks
    small = size_bytes < 2 << 30
    if collective == "all_reduce":
        if small:
            yield _Kind("AGxLL_R", ranks * own * 9, 1, _BLOCKS, True)
            if multicast:
                yield _Kind("AGxLLMC_R", ranks * own * 9, 1.1, _BLOCKS, True)
        yield _Kind("RSxLD_AGxST", 2 * own * (ranks - 1) / ranks, 1, _BLOCKS, False)
        if multicast:
            yield _Kind("RSxLDMC_AGxSTMC", own / ranks + own, ranks, few, False)
    elif collective in ("all_gather", "reduce_scatter"):
        gathers = collective == "all_gather"
        if small:
            yield _Kind("LL", ranks * own * 9, 1, _BLOCKS, True)
            if multicast and gathers:
                yield _Kind("LLMC", ranks * own * 9, 1.1, _BLOCKS, True)
        yield _Kind("ST" if gathers else "LD", (ranks - 1) * own, 1, _BLOCKS, False)
        if multicast:
            yield _Kind("STMC" if gathers else "LDMC", (ranks - 1) * own, 0.55 * ranks, few, False)


def _estimated(found: Graphs, collective: str, kind: _Kind, settings: Settings) -> Kernel:
    whole = collective == "all_reduce"
    if found.site.capability < 100:
        base, block = 4.5 if kind.low_latency else 7.8, 65 if whole else 44
        peak = 480 if kind.name == "RSxLDMC_AGxSTMC" else 320
    else:
        slow, quick = 19.5 if whole else 13.0, 8.5 if collective == "all_gather" else 11.0
        base, block = quick if kind.low_latency else slow, 55
        peak = 1000 if kind.name == "RSxLDMC_AGxSTMC" else 600

    def time(blocks: int) -> float:
        rate = _softmin(blocks * block * kind.times, peak, block) * _PER_US
        return base + _softplus(kind.bus_bytes / rate - 1)

    most = min(kind.blocks, settings.max_channels or _BLOCKS)
    best = time(most)
    enough = (blocks for blocks in range(max(settings.min_channels, 1), most) if time(blocks) <= 1.025 * best)
    blocks = next(enough, most)
    return Kernel(kind.name, blocks, time(blocks))


def _softmin(value: float, ceiling: float, softness: float) -> float:
    return ceiling - softness * log1p((exp(ceiling / softness) - 1) * exp(-value / softness))


def _softplus(value: float) -> float:
    return value if value > 100 else log1p(exp(value))
