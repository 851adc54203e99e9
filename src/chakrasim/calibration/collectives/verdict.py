"""Curves that contradict the hardware they were measured on, with the cause that fits.

A curve is judged by its largest sizes, where bytes on the wire are most of the time: it is called out if it takes much
longer there than the model says of the description, and if the wire it was measured on was mostly idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.describe import network_of, site_of
from chakrasim.calibration.collectives.design import Described
from chakrasim.calibration.collectives.groups import grouped
from chakrasim.calibration.measurements.curves import MachineRow, Measurements
from chakrasim.calibration.measurements.names import bus_factor
from chakrasim.calibration.measurements.nccl_debug import NcclDebug
from chakrasim.collectives.libraries.model import Model, estimate
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import PAIRED, node_GBps
from chakrasim.text.amounts import size_text

LARGE: Final = 64 << 20
"""Sizes from which bandwidth is judged."""
IDLE: Final = 0.6
"""A wire that carries more than this share of what it can contradicts nothing."""
_MOVING: Final = 0.6
"""The share of a time that bytes on the wire must have, by the model, to be judged."""
_SLOW: Final = {"ring": 1.7, "all_to_all": 2.5, "message": 3.0, "pcie": 2.2, "other": 2.2}
"""From these ratios of measured to predicted time a curve is called out. What goes pair by pair depends on the routes
between many pairs, what goes over PCIe on the board, and other networks than these differ much among themselves."""
_KNOWN: Final = ("infiniband", "roce", "efa", "slingshot")
_BESIDE: Final = 1.7
"""The same where rings of the same group were called out."""
_FALLS: Final = 2.5
"""Bandwidth that is so many times lower at the largest size than at its best falls."""
_SPREAD: Final = 3.0
"""High times (of several pairs or nodes) that are so many times the median show slow pairs."""
_SOCKETS_GBPS: Final = 13.0
"""What sockets of a node hardly exceed."""
_SOCKETS: Final = re.compile("socket", re.IGNORECASE)
_LATE: Final = 4.0
_LATE_US: Final = 100.0
"""Small sizes that take so many times longer than predicted, and so long."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a curve.

    Attributes
    ----------
    curve, machine, library, environment: whose.
    where: "between nodes", "inside a node".
    measured_GBps, wire_GBps: what a node (inside: a GPU) carried in a direction at its largest size, and could; 0 where
        bandwidth is not what is wrong.
    slower: how many times longer than the hardware would take.
    cause: that fits.
    left_out: whether the curve does not speak for the machine. Where only some pairs are slow, the median does.
    """

    curve: str
    machine: str
    library: str
    environment: str
    where: str
    measured_GBps: float
    wire_GBps: float
    slower: float
    cause: str
    left_out: bool = True


@dataclass(frozen=True)
class _Reading:
    """What a curve's largest sizes say; ``best`` and ``last`` are sizes with their GB/s on the wire."""

    one: Described
    wire: float
    best: tuple[int, float]
    last: tuple[int, float]
    slower: float

    @property
    def used(self) -> float:
        return self.last[1] / self.wire

    @property
    def falls(self) -> float:
        return self.best[1] / self.last[1]


def verdicts_of(curves: Iterable[Described], measured: Measurements, model: Model) -> tuple[Verdict, ...]:
    """Verdicts on the curves that contradict their machines' description; every curve has times at all its points."""
    found: list[Verdict] = []
    for members in grouped(curves).values():
        found += _of_group([_as_hardware(one, measured.machines) for one in members], measured.recorded, model)
    return tuple(found)


def _as_hardware(one: Described, machines: Mapping[str, MachineRow]) -> Described:
    """The curve as if its environment did not say what is wrong."""
    row = machines.get(one.curve.machine)
    if row is None or one.site.network != "tcp" or network_of(row.network) == "tcp":
        return one
    return replace(one, site=site_of(replace(one.curve, env=""), row))


def _of_group(members: Sequence[Described], recorded: Mapping[str, NcclDebug], model: Model) -> Iterable[Verdict]:
    readings = [reading for one in members if (reading := _reading(one, model)) is not None]
    rings = [reading for reading in readings if reading.one.kind not in PAIRED]
    bad_rings = [reading for reading in rings if _is_slow(reading, False)]
    # A log says it once, for all of its tables.
    debug = next((recorded[one.curve.name] for one in members if one.curve.name in recorded), None)
    told = set()
    for reading in readings:
        if _is_slow(reading, bool(bad_rings)):
            told.add(reading.one.curve.name)
            yield _verdict(reading, recorded.get(reading.one.curve.name, debug), bool(rings) and not bad_rings)
    for one in members:
        if one.curve.name not in told and (other := _slow_pairs(one) or _late(one, model)) is not None:
            yield other


def _reading(one: Described, model: Model) -> _Reading | None:
    """None where no size is large enough to be judged."""
    curve, site = one.curve, one.site.merged()
    sizes = np.unique(curve.bytes[curve.bytes >= LARGE])
    if not len(sizes) or not _carried(site, one):
        return None
    times = np.array([curve.time_us[curve.bytes == size].min() for size in sizes])
    size = int(sizes[-1])
    found = estimate(one.site, one.library, one.terms(size, False), size, None, model)
    whole = (found.fixed_ns + found.moving_ns) / 1e3
    if found.moving_ns / 1e3 < _MOVING * whole:
        return None
    carried = sizes / times / 1e3 * _carried(site, one)
    best = int(np.argmax(carried))
    wire = _wire(site, one)
    return _Reading(
        one, wire, (int(sizes[best]), float(carried[best])), (size, float(carried[-1])), float(times[-1]) / whole
    )


def _carried(site: Site, one: Described) -> float:
    """Bytes that leave a node (of one node: a GPU) by bytes of the collective."""
    n, each = site.nranks, site.nranks / site.nodes
    if one.kind == "all_to_all" and site.nodes > 1:
        return each * (n - each) / n
    return bus_factor(one.curve.collective, n)


def _wire(site: Site, one: Described) -> float:
    if site.nodes == 1:
        return site.inside_GBps
    return site.nic_GBps if one.kind == "message" else node_GBps(site)


def _is_slow(reading: _Reading, beside_bad: bool) -> bool:
    kind, site = reading.one.kind, reading.one.site.merged()
    least = _SLOW["pcie"] if site.inside == "pcie" and site.nodes == 1 else _SLOW["ring"]
    if site.nodes > 1 and site.network not in _KNOWN:
        least = _SLOW["other"]
    if kind in PAIRED and site.nodes > 1:
        least = _SLOW["message" if kind == "message" else "all_to_all"]
        least = _BESIDE if beside_bad else least
    return reading.slower >= least and reading.used < IDLE


def _verdict(reading: _Reading, debug: NcclDebug | None, rings_are_well: bool) -> Verdict:
    one, site = reading.one, reading.one.site.merged()
    if site.nodes == 1:
        where, cause = "inside a node", _cause_inside(reading, site)
    else:
        where, cause = "between nodes", _cause_between(reading, site, debug, rings_are_well)
    return Verdict(*_whose(one), where, reading.last[1], reading.wire, reading.slower, cause)


def _whose(one: Described) -> tuple[str, str, str, str]:
    machine, library, environment = one.group
    return one.curve.name, machine, library.removesuffix("-"), environment


def _cause_between(reading: _Reading, site: Site, debug: NcclDebug | None, rings_are_well: bool) -> str:
    carried, environment = reading.last[1], reading.one.curve.env
    network = debug.network if debug is not None else ""
    if "socket" in (network or "").lower():
        return "TCP sockets: the log says that the library uses them, not the network's own transport"
    if _SOCKETS.search(environment):
        return "TCP sockets, as the environment says"
    paired = "rings are well: congestion, or settings of the network's plugin for messages"
    if reading.falls >= _FALLS:
        other = "a link that fails under load, or one slow pair"
        return f"{_falling(reading)}: {paired if rings_are_well else other}"
    if reading.one.kind in PAIRED and rings_are_well:
        return f"messages between pairs are slow, {paired}"
    if carried <= _SOCKETS_GBPS and reading.used < 0.35:
        return "as TCP sockets give: the network's own transport or plugin is not loaded, see NCCL_DEBUG=INFO"
    ports = site.nics_per_node * (site.ranks_per_node / site.board)
    working = round(carried / 0.8 / site.nic_GBps)
    if 1 <= working <= ports / 2:
        half = ", or no GPUDirect: data go through the host's memory" if reading.used >= 0.22 else ""
        return f"as {working} of {ports:.0f} ports give{half}"
    return "no GPUDirect, so that data go through the host's memory, or a slower link than described"


def _cause_inside(reading: _Reading, site: Site) -> str:
    carried = reading.last[1]
    if reading.falls >= _FALLS:
        return _falling(reading) + ": GPUs or links that slow down under load"
    if site.inside == "pcie":
        return "GPUs do not reach each other directly, data go through the host's memory: P2P is off (ACS, NCCL_P2P)"
    if carried <= 12:
        return "as the host's memory gives: NVLink and P2P are off" if site.vendor == "nvidia" else "P2P is off"
    if carried <= 60 and reading.used < 0.25:
        return "as PCIe gives: NVLink is off" if site.vendor == "nvidia" else "as PCIe gives: XGMI is off"
    return f"as {max(round(20 * reading.used) / 20, 0.05):.0%} of the links give: some are down, or shared"


def _falling(reading: _Reading) -> str:
    (best, high), (last, low) = reading.best, reading.last
    return f"falls from {high:.3g} GB/s at {size_text(best)} to {low:.3g} GB/s at {size_text(last)}"


def _slow_pairs(one: Described) -> Verdict | None:
    """Where times of several pairs or nodes lie far above their median."""
    curve = one.curve
    which = (curve.bytes >= LARGE) & (curve.repeats >= 5)
    ratio = curve.high_us[which] / curve.time_us[which]
    if not len(ratio) or not np.nanmedian(ratio) >= _SPREAD:
        return None
    where = "between nodes" if one.site.merged().nodes > 1 else "inside a node"
    text = f"a tenth of the pairs or nodes takes {np.nanmedian(ratio):.3g} times the median or longer: slow pairs"
    return Verdict(*_whose(one), where, 0.0, 0.0, float(np.nanmedian(ratio)), text, left_out=False)


def _late(one: Described, model: Model) -> Verdict | None:
    """Small sizes that take far longer than any launch."""
    curve = one.curve
    small = np.flatnonzero(curve.bytes <= 65536)
    if len(small) < 3:
        return None
    sizes, places = curve.bytes[small].tolist(), curve.place[small].tolist()
    found = [
        estimate(one.site, one.library, one.terms(s, p), s, None, model) for s, p in zip(sizes, places, strict=True)
    ]
    ratio = float(np.median(curve.time_us[small] / np.array([(e.fixed_ns + e.moving_ns) / 1e3 for e in found])))
    if ratio < _LATE or np.median(curve.time_us[small]) < _LATE_US:
        return None
    where = "between nodes" if one.site.merged().nodes > 1 else "inside a node"
    text = "small sizes take far longer than a launch and hops: the latency of a proxy or of a busy host"
    return Verdict(*_whose(one), where, 0.0, 0.0, ratio, text, left_out=False)
