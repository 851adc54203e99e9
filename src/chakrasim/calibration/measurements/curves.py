"""What was measured: curves of time over size, each of one collective on one machine, and rows of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.measurements.names import bus_factor
from chakrasim.calibration.measurements.nccl_debug import NcclDebug

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_RANKS: Final = 10_000_000
"""More ranks than this are a mistake."""


@dataclass(frozen=True, eq=False)
class Points:
    """Points of curves, as columns of one length n.

    ``curve`` int64[n] is an index into some sequence of curves; the others are as in `Curve`.
    """

    curve: Ints
    place: Bools
    bytes: Ints
    time_us: Floats
    low_us: Floats
    high_us: Floats
    repeats: Ints

    def __len__(self) -> int:
        return len(self.bytes)


@dataclass(frozen=True, eq=False)
class Curve:
    """Times of one collective on one machine, by size.

    ``gpus_per_node`` is what a node has, of which the ``nranks`` on ``nodes`` may use only some. ``collective`` is
    spelled as nccl-tests names its programs. ``hosts``: the nodes, where a log names them.

    Columns of one length n, out of place before in place, ascending sizes, no size twice: ``place`` bool[n] (in place),
    ``bytes`` int64[n] (as nccl-tests counts them: the whole buffer), ``time_us``, ``low_us``, ``high_us`` float64[n]
    (NaN where not known), ``repeats`` int64[n] (measurements of which ``time_us`` is the median; 0 without a time).
    """

    name: str
    source: str
    machine: str
    gpu: str
    nodes: int
    gpus_per_node: int
    nranks: int
    library: str
    version: str
    collective: str
    algo: str = "auto"
    proto: str = "auto"
    env: str = ""
    dtype: str = ""
    redop: str = ""
    hosts: tuple[str, ...] = ()
    place: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    time_us: Floats = field(default_factory=lambda: np.zeros(0))
    low_us: Floats = field(default_factory=lambda: np.zeros(0))
    high_us: Floats = field(default_factory=lambda: np.zeros(0))
    repeats: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def sizes(self) -> Ints:
        """The sizes of either place, ascending, each once."""
        return np.unique(self.bytes)

    @property
    def algbw_GBps(self) -> Floats:
        """Algorithm bandwidths in 10^9 bytes per second."""
        return self.bytes / (self.time_us * 1e3)

    @property
    def busbw_GBps(self) -> Floats:
        """Bus bandwidths in 10^9 bytes per second; NaN for a collective that is not known."""
        return self.algbw_GBps * bus_factor(self.collective, self.nranks)

    def rows(self, which: Bools) -> Curve:
        """The curve with some of its points."""
        return replace(self, **{name: getattr(self, name)[which] for name in _COLUMNS})

    def without_times(self, which: Bools) -> Curve:
        """The curve with nothing measured at some of its points."""
        if not which.any():
            return self
        time, low, high = (np.where(which, np.nan, column) for column in (self.time_us, self.low_us, self.high_us))
        return replace(self, time_us=time, low_us=low, high_us=high, repeats=np.where(which, 0, self.repeats))


_COLUMNS: Final = ("place", "bytes", "time_us", "low_us", "high_us", "repeats")


@dataclass(frozen=True)
class MachineRow:
    """What is known of a machine; None or "" where nothing is.

    Bandwidths are in 10^9 bytes per second and direction, but ``nic_Gbps`` in 10^9 bits. ``approximate``: the names of
    the numbers that were given as about so much (``~108``).
    """

    name: str
    gpu: str = ""
    gpus_per_node: int | None = None
    intra_node: str = ""
    intra_GBps_per_gpu_per_dir: float | None = None
    network: str = ""
    nics_per_node: int | None = None
    nic_Gbps: float | None = None
    node_GBps_per_dir: float | None = None
    cpu: str = ""
    basis: str = ""
    approximate: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Measurements:
    """Curves, and machines by name; a curve's machine may be missing among them.

    ``recorded``: what the library said of itself in the log that a curve is from, by the curve's name; by the file's
    name for a log without times.
    """

    curves: tuple[Curve, ...]
    machines: Mapping[str, MachineRow]
    recorded: Mapping[str, NcclDebug] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many points there are."""
        return sum(map(len, self.curves))


def with_points(curves: Sequence[Curve], points: Points) -> tuple[tuple[Curve, ...], int]:
    """The curves with their points in order, and how many points were measured again.

    Those of one curve, place and size become one: its median, the least low, the greatest high.
    """
    order = np.lexsort((points.bytes, points.place, points.curve))
    columns = {name: getattr(points, name)[order] for name in ("curve", *_COLUMNS)}
    first = np.ones(len(order), np.bool_)
    keys = np.stack([columns[name].astype(np.int64) for name in ("curve", "place", "bytes")])
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    again = len(order) - int(first.sum())
    if again:
        columns = _pooled(columns, first)
    ends = np.searchsorted(columns["curve"], np.arange(len(curves) + 1))
    return tuple(
        replace(curve, **{name: columns[name][ends[at] : ends[at + 1]] for name in _COLUMNS})
        for at, curve in enumerate(curves)
    ), again


def _pooled(columns: dict[str, NDArray[np.generic]], first: Bools) -> dict[str, NDArray[np.generic]]:
    starts = np.flatnonzero(first)
    pooled = {name: column[starts].copy() for name, column in columns.items()}
    times, repeats = columns["time_us"].astype(np.float64), columns["repeats"].astype(np.int64)
    lows, highs = columns["low_us"].astype(np.float64), columns["high_us"].astype(np.float64)
    for at, (begin, end) in enumerate(zip(starts, [*starts[1:], len(first)], strict=True)):
        if end - begin == 1:
            continue
        known = begin + np.flatnonzero(~np.isnan(times[begin:end]))
        if len(known):
            pooled["time_us"][at] = np.median(times[known])
            pooled["low_us"][at] = np.fmin(lows[known], times[known]).min()
            pooled["high_us"][at] = np.fmax(highs[known], times[known]).max()
            pooled["repeats"][at] = repeats[known].sum()
    return pooled
