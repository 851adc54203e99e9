"""The roofline: what kinds of work attain by how much they compute for each byte, below what the device could.

S. Williams, A. Waterman, D. Patterson: Roofline, Communications of the ACM 52 (4), 2009: what work of so many
operations a byte attains is at most the lesser of the peak and its bytes at the bandwidth of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from chakrasim.errors import InputError
from chakrasim.estimation.simulated import usual_type
from chakrasim.report.picture.axes import HIGH, LEFT, TOP, WIDE, Axis, Figure, Plane, labels
from chakrasim.report.picture.files import xml_text
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import number_text, share_text

DOT, ROOF = "#4c78a8", "#e45756"
LARGEST, LEAST = 14.0, 3.0
"""Radii of points: the area is the share of the time."""
INTENSITY: Final = Figure("FLOP a byte", number_text)
SPEED: Final = Figure("TFLOP/s", lambda flops: number_text(flops / 1e12), 1e12)


class Roof(NamedTuple):
    """What a device could do at most: FLOP/s in the type that is used most, outside matrix units (0: not known), and
    bytes a second of its memory."""

    device: str
    peak: float
    vector: float
    bandwidth: float

    def at(self, intensity: float) -> float:
        """FLOP/s that work of so many operations a byte attains at most."""
        return min(self.peak, intensity * self.bandwidth)


class Attained(NamedTuple):
    """What a kind of work attains over all ranks: operations a byte, FLOP/s, and its share of the time of all kinds."""

    kind: str
    intensity: float
    speed: float
    share: float


def roof_of(result: SimulationResult) -> Roof | None:
    """The device of a simulation: its profile, or the roofline of its system; None where it has neither."""
    if result.job is None or result.replay is not None or not result.records:
        return None
    profile, system = result.job.context.profile, result.system
    if profile is not None:
        dtype = usual_type(result.records[0].graph.trace)
        name = f"{profile.name}, {dtype}" if dtype else profile.name
        return Roof(name, profile.peak_of(dtype), profile.vector, profile.bandwidth)
    if system.roofline_enabled and system.peak_perf_flops and system.local_mem_bw:
        return Roof("the system's roofline", system.peak_perf_flops, 0.0, system.local_mem_bw)
    return None


def attained(result: SimulationResult) -> tuple[list[Attained], list[str]]:
    """The kinds of work that say what they do, those that take longest first, and the names of the others."""
    whole = sum(float(kind.time_ns.sum()) for kind in result.computation)
    found, silent = [], []
    for kind in sorted(result.computation, key=lambda one: -int(one.time_ns.sum())):
        time_ns, flops, moved = float(kind.time_ns.sum()), float(kind.flops.sum()), float(kind.bytes.sum())
        if time_ns and flops and moved:
            found.append(Attained(kind.kind, flops / moved, flops / time_ns * 1e9, time_ns / whole))
        else:
            silent.append(kind.kind)
    return found, silent


def roofline_svg(result: SimulationResult) -> str:
    """The picture. Raises InputError where nodes do not say what they compute."""
    found, silent = attained(result)
    if not found:
        raise InputError(
            "there is nothing to draw: no node says its operations and bytes",
            found="no kinds of work" if not silent else f"kinds without them: {', '.join(silent)}",
            remedy="simulate a generated or captured job",
        )
    roof = roof_of(result)
    speeds, across = [one.speed for one in found], [one.intensity for one in found]
    if roof is not None:
        speeds += [roof.peak, *([roof.vector] if roof.vector else [])]
        across.append(roof.peak / roof.bandwidth)
    plane = Plane(Axis(INTENSITY, across, log=True), Axis(SPEED, speeds, log=True))
    marks = [(plane.x(one.intensity), plane.y(one.speed), _label(one, roof)) for one in found]
    words = [] if roof is None else _names(plane, roof)
    content = [*(_roof(plane, roof) if roof else ()), *(_dot(plane, one, roof) for one in found)]
    content += labels([*words, *marks])
    return plane.svg(_line(roof, silent), content)


def _line(roof: Roof | None, silent: Sequence[str]) -> str:
    said = "the device's roof is not known" if roof is None else roof.device
    of_roof = "" if roof is None else "; per cent: of what the roof allows"
    left = f"; without operations or bytes: {', '.join(silent)}" if silent else ""
    return f"kinds of work on {said}; areas: shares of the time{of_roof}{left}"


def _label(one: Attained, roof: Roof | None) -> str:
    return one.kind if roof is None else f"{one.kind} {share_text(one.speed, roof.at(one.intensity))}"


def _dot(plane: Plane, one: Attained, roof: Roof | None) -> str:
    said = f"{one.kind}: {SPEED.text(one.speed)} TFLOP/s at {number_text(one.intensity)} FLOP a byte"
    if roof is not None:
        below = share_text(one.speed, roof.at(one.intensity))
        said += f", {share_text(one.speed, roof.peak)} of the peak, {below} of what the roof allows"
    said += f", {share_text(one.share, 1.0)} of the time"
    radius = max(LARGEST * math.sqrt(one.share), LEAST)
    return (
        f'<circle cx="{plane.x(one.intensity):.1f}" cy="{plane.y(one.speed):.1f}" r="{radius:.1f}" fill="{DOT}" '
        f'fill-opacity="0.8"><title>{xml_text(said)}</title></circle>'
    )


def _roof(plane: Plane, roof: Roof) -> Iterator[str]:
    """The memory's slope up to the peak, the peak, and what is done outside matrix units."""
    low, _ = plane.across.ends
    floor, _ = plane.up.ends
    begin = max(low, floor / roof.bandwidth)
    ridge = roof.peak / roof.bandwidth
    path = f"M{plane.x(begin):.1f} {plane.y(roof.at(begin)):.1f}L{plane.x(ridge):.1f} {plane.y(roof.peak):.1f}"
    yield f'<path d="{path}H{LEFT + WIDE}" fill="none" stroke="{ROOF}" stroke-width="1.5"/>'
    if roof.vector and TOP < plane.y(roof.vector) < TOP + HIGH:
        start = plane.x(max(roof.vector / roof.bandwidth, begin))
        place = f"M{start:.1f} {plane.y(roof.vector):.1f}H{LEFT + WIDE}"
        yield f'<path d="{place}" stroke="{ROOF}" stroke-dasharray="5 4"/>'


def _names(plane: Plane, roof: Roof) -> list[tuple[float, float, str]]:
    """What the roof's lines are, and where that stands."""
    right, begin = LEFT + WIDE + 6.0, max(plane.across.ends[0], plane.up.ends[0] / roof.bandwidth)
    middle = math.sqrt(begin * roof.peak / roof.bandwidth)
    said = [(right, plane.y(roof.peak) + 14, f"peak {SPEED.text(roof.peak)} TFLOP/s")]
    said.append((plane.x(middle) + 6, plane.y(roof.at(middle)) + 16, f"{number_text(roof.bandwidth / 1e9)} GB/s"))
    if roof.vector:
        said.append((right, plane.y(roof.vector), f"outside matrix units {SPEED.text(roof.vector)}"))
    return said
