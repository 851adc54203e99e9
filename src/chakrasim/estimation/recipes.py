"""How far frameworks are from what a device's kernels and links could do.

A device profile says what kernels take one by one. A training program adds gaps between them, runs some that are less
fused than they could be, hides a part of its collectives in ways that the generator does not write down, or waits for
them longer than their links take. ``recipes.yaml`` has a few factors for each framework, fitted to published steps,
with what was known when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError, near
from chakrasim.trace.work import Work, WorkKind

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.machine import DeviceProfile
    from chakrasim.machine.site import Make

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SHIPPED: Final = Path(__file__).with_name("recipes.yaml")
_MATRIX: Final = (WorkKind.GEMM, WorkKind.CONVOLUTION)
HOPPER: Final = 90
"""Compute capability of the first GPUs whose vendor's attention kernels are faster than FlashAttention-2."""
_ALIGNED: Final = 8
"""Values of 16 bits that fill 16 bytes, which matrix units read at a time (NVIDIA, Matrix Multiplication Background
User's Guide, requirements of alignment)."""


@dataclass(frozen=True)
class Recipe:
    """Factors of time, 1 meaning what the profile or the links say.

    Attributes
    ----------
    host_ns: of the host for each kernel, behind which a device that is quicker falls; ``partial_host_ns``: where parts
        of layers are CUDA graphs; ``full_host_ns``: where the step is one.
    gap_ns: of the device between two kernels; ``full_gap_ns``: where the step is a CUDA graph.
    count_ns: of the device, while the host counts the tokens of experts and launches what they need; ``token_ns``: for
        each token, on top; ``partial_count_ns``, ``full_count_ns``: instead of ``count_ns``, where parts of layers are
        CUDA graphs, and instead of both, where the step is one; ``arm_host``: factor of the first three where hosts are
        Arm's, which are quicker at it; ``arm_token``: of ``token_ns`` there, on boards whose domains are racks.
    attention: of attention's kernels; ``recent_attention``: on GPUs since Hopper, whose vendor's kernels are faster.
    experts: of the grouped products of experts; ``wide_experts``: where these are of 16 bits.
    state_space: of scans of state spaces.
    other: of what memory bounds; ``optimizer``: of the optimizer's step.
    unaligned: of products whose rows do not begin at multiples of 16 bytes.
    collectives: by role, of what their links take.
    """

    host_ns: float = 0.0
    partial_host_ns: float = 0.0
    full_host_ns: float = 0.0
    gap_ns: float = 0.0
    full_gap_ns: float = 0.0
    count_ns: float = 0.0
    token_ns: float = 0.0
    partial_count_ns: float = 0.0
    full_count_ns: float = 0.0
    arm_host: float = 1.0
    arm_token: float = 1.0
    attention: float = 1.0
    recent_attention: float = 1.0
    experts: float = 1.0
    wide_experts: float = 1.0
    state_space: float = 1.0
    other: float = 1.0
    optimizer: float = 1.0
    unaligned: float = 1.0
    tp: float = 1.0
    ep: float = 1.0
    cp: float = 1.0

    def collective(self, role: str) -> float:
        """The factor of a role's collectives inside a domain."""
        return float(getattr(self, role, 1.0))

    def launch_ns(self, spec: Spec) -> int:
        """The host's time for a kernel; what the spec says comes first."""
        own = {"full": self.full_host_ns, "partial": self.partial_host_ns}.get(spec.cuda_graphs, self.host_ns)
        return spec.launch_ns or round(own)

    def durations_ns(self, profile: DeviceProfile, spec: Spec, make: Make) -> Callable[[Work], Ints]:
        """What work takes on a device as this framework has it run; ``make``: of the machine."""
        recent = make.vendor == "nvidia" and make.capability >= HOPPER
        full = spec.cuda_graphs == "full"
        gap, token = (self.full_gap_ns, 0.0) if full else (self.gap_ns, self.token_ns)
        count = {"full": self.full_count_ns, "partial": self.partial_count_ns}.get(spec.cuda_graphs, self.count_ns)
        index_bytes = 4 * (spec.model.moe.top_k if spec.model.moe is not None else 1)
        if make.cpu == "arm":
            count, token = count * self.arm_host, token * self.arm_token
        attention = self.recent_attention if recent else self.attention

        def durations(work: Work) -> Ints:
            factor = self._factors(work, attention, spec)
            found = profile.durations_ns(work) * factor + gap * work.kernels
            found += np.where(work.kind == WorkKind.OTHER, count + token * work.bytes_read / index_bytes, 0.0)
            times: Ints = np.ceil(np.minimum(found, 2.0**62)).astype(np.int64)
            return times

        return durations

    def _factors(self, work: Work, attention: float, spec: Spec) -> Floats:
        """float64[n]. Where attention keeps no scores, products in batches are of experts or of scans: scans have the
        chunk or the state among their sizes."""
        matrix = np.isin(work.kind, _MATRIX)
        batched = matrix & (work.batch > 1)
        factor = np.full(len(work), self.other)
        factor[matrix] = 1.0
        factor[work.kind == WorkKind.OPTIMIZER] = self.optimizer
        factor[work.kind == WorkKind.ATTENTION] = attention
        experts = self.wide_experts if spec.matrix_dtype == "none" else self.experts
        factor[batched] = experts if spec.flash_attention else attention
        if spec.model.hybrid is not None:
            scans = batched & (work.dtype == spec.dtype) & (work.batch > spec.model.hybrid.groups)
            factor[scans & (np.minimum(work.m, work.n) <= spec.model.hybrid.chunk)] = self.state_space
        unaligned = matrix & ((work.k % _ALIGNED != 0) | (work.n % _ALIGNED != 0))
        factor[unaligned] *= self.unaligned
        return factor


@cache
def recipes() -> Mapping[str, Recipe]:
    """Those that ship, by name."""
    import yaml

    content = yaml.safe_load(_SHIPPED.read_text(encoding="utf-8"))
    own = content["recipes"].items()
    return {name: Recipe(**{key: float(value) for key, value in values.items()}) for name, values in own}


def recipe_named(name: str) -> Recipe:
    """The recipe of a name. Raises InputError for none."""
    known = recipes()
    if name not in known:
        raise InputError("no such recipe", place="recipe", found=repr(name[:40]), expected=", ".join(known),
                         remedy=near(name, list(known)) or None)  # fmt: skip
    return known[name]


def usual_recipe(spec: Spec) -> str:
    """The name of the recipe of a step of which nobody says what framework runs it."""
    if spec.kernels == "fused":
        if not spec.flash_attention:
            return "plain"
        return "megatron" if spec.model.moe is None else "megatron-experts"
    return "torch-compiled" if spec.kernels == "compiled" else "torch-eager"
