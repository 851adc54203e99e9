"""The open constants of a device, which measured steps say more about than short bursts of kernels do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf, log
from typing import Final

from chakrasim.machine import DeviceProfile
from chakrasim.machine.device.profile import Efficiency
from chakrasim.trace.work import WorkKind

SUSTAINED: Final = "sustained "
"""Before the type of a profile's ``sustained``."""
ATTENTION, BANDWIDTH, START = "attention", "bandwidth", "start"
PRIORS: Final = {SUSTAINED: 0.15, ATTENTION: 0.2, BANDWIDTH: 0.2, START: 0.4}
"""How far constants may be from those that ship, as standard deviations of their logarithms."""
MEMORY_BOUND: Final = (
    WorkKind.ELEMENTWISE, WorkKind.NORMALIZATION, WorkKind.SOFTMAX, WorkKind.EMBEDDING, WorkKind.REDUCTION,
    WorkKind.COPY, WorkKind.OPTIMIZER,
)  # fmt: skip
_PEAKS: Final = {"mxfp8": "float8", "nvfp4": "float4"}


def constants_of(profile: DeviceProfile, dtypes: Iterable[str]) -> tuple[str, ...]:
    """The names of the constants of steps whose products are of these types."""
    own = {_PEAKS.get(dtype, dtype) for dtype in dtypes}
    known = sorted({dtype if dtype in profile.peak else "default" for dtype in own})
    return (*(f"{SUSTAINED}{dtype}" for dtype in known), ATTENTION, BANDWIDTH, START)


def prior_of(name: str) -> float:
    """The standard deviation of a constant's logarithm."""
    return PRIORS[SUSTAINED if name.startswith(SUSTAINED) else name]


def value_of(profile: DeviceProfile, name: str) -> float:
    """What a profile has: a share, or nanoseconds."""
    if name.startswith(SUSTAINED):
        dtype = name.removeprefix(SUSTAINED)
        return profile.sustained.get(dtype, profile.sustained.get("default", 1.0))
    found = profile.efficiency_of(WorkKind.ATTENTION if name == ATTENTION else WorkKind.ELEMENTWISE)
    return {ATTENTION: found.compute, BANDWIDTH: found.bandwidth, START: found.start_ns}[name]


def most_of(profile: DeviceProfile, name: str) -> float:
    """The logarithm of what a constant may be multiplied by: shares end at 1."""
    if name == START:
        return inf
    shares = [value_of(profile, name)]
    if name == ATTENTION:
        shares.append(profile.efficiency_of(WorkKind.ATTENTION).backward)
    if name == BANDWIDTH:
        shares = [profile.efficiency_of(kind).bandwidth for kind in MEMORY_BOUND]
    return -log(max(shares))


def with_constants(profile: DeviceProfile, factors: Mapping[str, float]) -> DeviceProfile:
    """The profile with constants multiplied by these factors, shares up to 1."""
    sustained = dict(profile.sustained)
    for name, factor in factors.items():
        if name.startswith(SUSTAINED):
            sustained[name.removeprefix(SUSTAINED)] = min(value_of(profile, name) * factor, 1.0)
    kinds = {*profile.efficiency, WorkKind.ATTENTION} if ATTENTION in factors else {*profile.efficiency}
    efficiency = {kind: _changed(profile.efficiency_of(kind), kind, factors) for kind in sorted(kinds)}
    return replace(profile, sustained=sustained, efficiency=efficiency)


def _changed(one: Efficiency, kind: WorkKind, factors: Mapping[str, float]) -> Efficiency:
    if kind == WorkKind.ATTENTION:
        forward, backward = (min(share * factors.get(ATTENTION, 1.0), 1.0) for share in (one.compute, one.backward))
        one = replace(one, compute=forward, backward=backward)
    if kind in MEMORY_BOUND:
        large, small = (min(share * factors.get(BANDWIDTH, 1.0), 1.0) for share in (one.bandwidth, one.cached))
        one = replace(one, bandwidth=large, cached=small)
    return replace(one, start_ns=one.start_ns * factors.get(START, 1.0))
