"""A device and the formula of its times: a roofline whose efficiency depends on the size and the kind of the work.

For work of ``F`` operations that moves ``B`` bytes in memory, and whose longest chain of dependent steps has ``s``
links (k of a matrix product, the keys of an attention), launched as ``c`` kernels::

    compute = F / (peak * efficiency.compute)        memory = B / (bandwidth * share)
    bound   = (compute^knee + memory^knee)^(1 / knee)
    time    = c * start + (bound^tail + (s * step)^tail)^(1 / tail)

With knee and tail infinite this is max(compute, memory, chain) after a start. Real kernels overlap less than perfectly
around the ridge of the roofline, which a finite knee rounds off; small work is bound by the chain, which no parallel
hardware shortens, and the tail blends that in. The share of the bandwidth is `efficiency.bandwidth`, and where the
kernels are so small that what one writes the next finds in the cache, `efficiency.cached`. All shares are at most 1, so
that no time is below the roofline's, and every term grows with what it is made of, so that more work never takes less
time.

The roofline is that of Williams, Waterman and Patterson (CACM 52(4), 2009); the sum of powers as a rounded maximum is
Churchill and Usagi's blend of asymptotes (AIChE Journal 18(6), 1972). docs/howto-calibrate-a-device.md says how well it
does, and why tiles and waves are left to profiles that state a `tiling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.device.power import Power
from chakrasim.machine.device.tiling import Tiling
from chakrasim.trace.work import Work, WorkKind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MATRIX_KINDS: Final = (WorkKind.OTHER, WorkKind.GEMM, WorkKind.ATTENTION, WorkKind.CONVOLUTION)
"""Kinds that run at the peak of the matrix units; the others at that of the vector units. Work of which nothing is
known but its operations and bytes is taken for matrix products, which is where operations are."""

PRODUCTS: Final = (WorkKind.OTHER, WorkKind.GEMM, WorkKind.CONVOLUTION)
"""Kinds whose speed in long runs is `DeviceProfile.sustained`."""

STANDS_IN: Final = {
    WorkKind.CONVOLUTION: WorkKind.GEMM,
    WorkKind.OTHER: WorkKind.GEMM,
    WorkKind.ATTENTION: WorkKind.GEMM,
    WorkKind.REDUCTION: WorkKind.ELEMENTWISE,
    WorkKind.NORMALIZATION: WorkKind.ELEMENTWISE,
    WorkKind.SOFTMAX: WorkKind.ELEMENTWISE,
    WorkKind.EMBEDDING: WorkKind.ELEMENTWISE,
    WorkKind.COPY: WorkKind.ELEMENTWISE,
    WorkKind.OPTIMIZER: WorkKind.ELEMENTWISE,
    WorkKind.ROTARY: WorkKind.ELEMENTWISE,
}
"""Whose efficiency a kind has that a profile does not give. Every profile gives GEMM and ELEMENTWISE."""

PROCESSORS: Final = 132
"""Of a device of which nobody says how many it has: those of an H100 SXM5."""
STEEPNESS: Final = 8.0
"""Of the change from kernels whose data fit into the cache to those whose data do not, all but done between three
quarters and four thirds of `Efficiency.cache_bytes`: of 2, 4, 6, 8 and 12 what, fitted to an H100's normalizations of
up to 1,700 tokens, is nearest at 2,000."""

BACKWARD_PRODUCTS: Final = 2.5
"""Attention of more products of queries, keys and heads' size is a backward pass: forward there are two, backward four
or five, and a part less where values are narrower than keys."""
WIDE_HEAD: Final = 128

_OTHER_NAMES: Final = {
    "": "bfloat16",
    "half": "float16",
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "mxfp8", "mxfloat8"), "float8"),
    **dict.fromkeys(("nvfp4", "mxfp4", "float4_e2m1fn_x2"), "float4"),
}
_NARROW: Final = ("float16", "bfloat16", "float8", "int8", "float4")


@dataclass(frozen=True)
class Efficiency:
    """How well a device does work of one kind; see the module for the formula.

    Attributes
    ----------
    start_ns: what a kernel takes that has nothing to do, launch included as far as it was measured.
    step_ns: of each link of the chain of dependent steps.
    compute, bandwidth: share of the peak and of the memory's bandwidth that large work reaches, above 0 to 1.
    knee, tail: exponents of the roundings, at least 1.
    tiling: of matrix products, where the device's are known to go in waves of blocks.
    cached: share of the memory's bandwidth that small kernels reach, no less than ``bandwidth``.
    cache_bytes: traffic of a kernel at which it is halfway between both; 0: all are large.
    backward: of attention, the share of the peak that a large backward pass reaches; 0: ``compute``.
    narrow: of attention, what heads of 64 reach of that; those of 128 and more all of it, smaller ones less.
    """

    start_ns: float
    step_ns: float
    compute: float
    bandwidth: float
    knee: float
    tail: float
    tiling: Tiling | None = None
    cached: float = 0.0
    cache_bytes: float = 0.0
    backward: float = 0.0
    narrow: float = 1.0

    def times_ns(
        self, compute_ns: Floats, memory_ns: Floats, steps: Floats, kernels: Floats, traffic: Floats
    ) -> Floats:
        """Times in ns of work that takes ``compute_ns`` and ``memory_ns``, for ``traffic`` bytes, at full peak and
        bandwidth."""
        bound = _blend(compute_ns / self.compute, memory_ns * self._slowdown(traffic / kernels), self.knee)
        return kernels * self.start_ns + _blend(bound, steps * self.step_ns, self.tail)

    def attention_slowdown(self, work: Work, chosen: Ints) -> Floats:
        """How much longer the attention ``chosen`` (int64[n]) computes than the forward pass of wide heads."""
        product = 2.0 * work.batch[chosen] * work.m[chosen] * work.n[chosen] * work.k[chosen]
        backward = (product > 0) & (work.flops[chosen] > BACKWARD_PRODUCTS * product)
        size = np.where(work.k[chosen] > 0, work.k[chosen], WIDE_HEAD)
        halvings = np.maximum(np.log2(WIDE_HEAD / size), 0.0)
        slower = np.where(backward, self.compute / (self.backward or self.compute), 1.0)
        return np.asarray(slower * self.narrow**-halvings)

    def _slowdown(self, each: Floats) -> Floats | float:
        """1 by the share of the bandwidth of kernels that move so many bytes each."""
        if not self.cache_bytes:
            return 1.0 / self.bandwidth
        small, large = 1.0 / max(self.cached, self.bandwidth), 1.0 / self.bandwidth
        over = np.minimum(each / self.cache_bytes, 1e6) ** STEEPNESS
        return np.asarray(small + (large - small) * over / (1.0 + over))


def _blend(a: Floats, b: Floats, power: float) -> Floats:
    """(a^power + b^power)^(1 / power), without overflow."""
    large, small = np.maximum(a, b), np.minimum(a, b)
    ratio = np.divide(small, large, out=np.zeros_like(large), where=large > 0)
    return np.asarray(large * (1.0 + ratio**power) ** (1.0 / power))


@dataclass(frozen=True)
class DeviceProfile:
    """What a device can do, and how well it does it.

    Attributes
    ----------
    name, source: for people; the source says where each figure comes from.
    memory_bytes: capacity of the device's memory.
    bandwidth: of that memory, bytes per second.
    peak: FLOP/s of the matrix units by type, with PyTorch's names ("bfloat16", "float8", "tfloat32", ...).
    vector: FLOP/s outside the matrix units.
    efficiency: by kind; GEMM and ELEMENTWISE at least, the others as in `STANDS_IN`.
    processors: streaming multiprocessors or compute units, of which each block of a communication's kernel holds one
        while it runs.
    sustained: by type, or "default", the share of the speed of a single matrix product that one of many in a row
        keeps under the limit of power; 1 where there is neither. Attention has no part in it: its shares are measured
        in long loops.
    power: what it draws, or None where nobody says it.
    """

    name: str
    source: str
    memory_bytes: int
    bandwidth: float
    peak: Mapping[str, float]
    vector: float
    efficiency: Mapping[WorkKind, Efficiency]
    processors: int = PROCESSORS
    sustained: Mapping[str, float] = field(default_factory=dict)
    power: Power | None = None

    def durations_ns(self, work: Work) -> Ints:
        """How long each piece of work takes, int64[n] ns, rounded up: its kernels with what starting them costs.

        Work without operations and bytes takes no time. No element depends on another. Work that would take longer than
        2^62 ns takes that.
        """
        compute, memory = self.bounds_ns(work)
        compute /= self._kept(work)
        steps = chain_steps(work)
        kernels = work.kernels.astype(np.float64)
        times = np.zeros(len(work))
        for kind in np.unique(work.kind).tolist():
            chosen = np.flatnonzero(work.kind == kind)
            found = self.efficiency_of(kind)
            result: Floats = np.zeros(len(chosen))
            if found.tiling is not None:
                compute[chosen] *= found.tiling.slowdown(work, chosen)
                result = found.tiling.result_bytes(work, chosen) / self.bandwidth * 1e9
            operands = np.maximum(memory[chosen] - result, 0.0)
            if kind == WorkKind.ATTENTION:
                compute[chosen] *= found.attention_slowdown(work, chosen)
            bounds = compute[chosen], operands, steps[chosen]
            times[chosen] = found.times_ns(*bounds, kernels[chosen], operands * (self.bandwidth / 1e9))
            times[chosen] += result / found.bandwidth
        times[(compute == 0) & (memory == 0)] = 0
        # Rounded first, so that the last bit of a double does not add a nanosecond.
        return np.ceil(np.minimum(times, 2.0**62).round(6)).astype(np.int64)

    def bounds_ns(self, work: Work) -> tuple[Floats, Floats]:
        """float64[n] ns each: the operations at full peak, the bytes at full bandwidth. No efficiency is above 1. Of
        causal attention those operations count that are not left out."""
        traffic = work.bytes_read.astype(np.float64) + work.bytes_written
        return work.flops * _kept_by_mask(work) / self._peaks(work) * 1e9, traffic / self.bandwidth * 1e9

    def efficiency_of(self, kind: int) -> Efficiency:
        """The efficiency that work of a kind has, its own or that of the kind that stands in for it."""
        known = self.efficiency.get(WorkKind(kind))
        return known if known is not None else self.efficiency[STANDS_IN[WorkKind(kind)]]

    def peak_of(self, dtype: str) -> float:
        """FLOP/s of matrix products in a type. "" stands for bfloat16, the usual one of training. Where the matrix
        units lack a type of 8 or 16 bits, one of 16 bits takes its place, and float32 that of tfloat32; other types
        then run on the vector units. float32 is that as such, not tfloat32."""
        return next((self.peak[known] for known in _candidates(dtype) if known in self.peak), self.vector)

    def sustained_of(self, dtype: str) -> float:
        """The share of a single product's speed that products in a type keep in long runs."""
        default = self.sustained.get("default", 1.0)
        known = next((name for name in _candidates(dtype) if name in self.peak), "")
        return self.sustained.get(known, default)

    def _kept(self, work: Work) -> Floats:
        kept = np.ones(len(work))
        if not self.sustained:
            return kept
        products = np.isin(work.kind, PRODUCTS)
        for dtype in np.unique(work.dtype[products]).tolist():
            kept[products & (work.dtype == dtype)] = self.sustained_of(dtype)
        return kept

    def _peaks(self, work: Work) -> Floats:
        peaks = np.full(len(work), self.vector)
        matrix = np.isin(work.kind, MATRIX_KINDS)
        for dtype in np.unique(work.dtype).tolist():
            peaks[matrix & (work.dtype == dtype)] = self.peak_of(dtype)
        return peaks


def _candidates(dtype: str) -> tuple[str, ...]:
    """The types of peaks that may hold for a type, the first that a profile has."""
    dtype = _OTHER_NAMES.get(dtype, dtype)
    if dtype in _NARROW:
        wider = ("float8",) if dtype == "float4" else ()
        return dtype, *wider, "bfloat16", "float16"
    return (dtype, "float32") if dtype == "tfloat32" else (dtype,)


def _kept_by_mask(work: Work) -> Floats:
    """float64[n]: the part of the pairs of queries and keys that is computed, where a query sees the keys up to its
    own: the last query sees the last key, or, of more queries than keys, the last ones all keys."""
    causal = (work.kind == WorkKind.ATTENTION) & work.causal
    m, n = np.maximum(work.m, 1).astype(np.float64), np.maximum(work.n, 1).astype(np.float64)
    both = np.minimum(m, n)
    kept = 1.0 - (both - 1.0) * both / (2.0 * m * n)
    shapeless = (work.m == 0) | (work.n == 0)
    return np.where(causal, np.where(shapeless, 0.5, kept), 1.0)


def chain_steps(work: Work) -> Floats:
    """float64[n]: links of the chain of dependent steps: k additions of a product's element, the keys of a query."""
    product = (work.kind == WorkKind.GEMM) | (work.kind == WorkKind.CONVOLUTION)
    return np.where(product, work.k, np.where(work.kind == WorkKind.ATTENTION, work.n, 0)).astype(np.float64)
