"""Drives the compiled loop: space, limits, progress, and passes repeated when the clock runs dry."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from chakrasim import jit
from chakrasim.errors import InputError
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.context import Limits
from chakrasim.simulator.kernels import layout as at

if TYPE_CHECKING:
    from chakrasim.simulator.arena.packet_network import PacketNetwork

Ints = NDArray[np.int64]
Progress = Callable[[int, int, int], None]
"""Called now and then with nodes completed, nodes in total and the simulated time in ns."""

STEPS_PER_CALL = 1_000_000
STEPS_UNCOMPILED = 10_000


class Watch(Protocol):
    """Who looks at a run on its way: every ``steps`` events or tasks at the least, and at its end."""

    steps: int

    def begin(self) -> None:
        """A run begins, or begins anew, with fewer ranks folded."""

    def look(self, m: Ints, network: FlowNetwork | PacketNetwork | None) -> None:
        """The run stands between two events of the tick ``m[at.NOW]``."""


class BrokenSymmetry(Exception):
    """A tie that the assumed symmetry cannot decide; ``digit`` is the one to be told apart."""

    def __init__(self, digit: int) -> None:
        self.digit = digit
        super().__init__(f"digit {digit}")


class TimeOutOfRange(Exception):
    """A time of 2^63 ns or more, met by a rank's node (number -1: not known which)."""

    def __init__(self, rank: int, number: int) -> None:
        self.rank = rank
        self.number = number
        super().__init__(f"rank {rank}, node number {number}")


def run(
    m: Ints,
    limits: Limits,
    total_nodes: int = 0,
    progress: Progress | None = None,
    network: FlowNetwork | PacketNetwork | None = None,
    watch: Watch | None = None,
) -> Ints:
    """Run a built arena until nothing moves; returns the arena, which may have grown.

    Raises InputError when a limit is reached, TimeOutOfRange when a time leaves the clock's range, and BrokenSymmetry.
    """
    from chakrasim.simulator.kernels import loop

    steps = STEPS_PER_CALL if jit.enabled() else STEPS_UNCOMPILED
    if watch is not None:
        steps = min(steps, watch.steps)
        watch.begin()
    while True:
        most = min(steps, limits.max_events + 1 - int(m[at.EVENTS]))
        reason = loop.run(m, most) if network is None else network.run(m, most)
        if watch is not None:
            watch.look(m, network)
        if reason == at.NEED_SPACE:
            m = _grow(m, limits)
        elif reason == at.FAILED and m[at.ERROR] == at.BROKEN_ROUTE:
            raise InputError("a topology's route takes a link that is not there", remedy="try it with fewer members")
        elif reason == at.FAILED:
            slot = int(m[at.ERROR_SLOT])
            raise TimeOutOfRange(int(m[slot + at.SLOT_RANK]) if slot else -1, int(m[at.ERROR_NODE]) if slot else -1)
        elif reason == at.BROKEN_SYMMETRY:
            raise BrokenSymmetry(int(m[at.HAZARD]) - 1)
        elif reason == at.DRY and not _pass_again(m):
            return m
        if m[at.EVENTS] > limits.max_events:
            raise InputError(
                f"the simulation has run {int(m[at.EVENTS])} events without coming to an end",
                expected=f"at most {limits.max_events}",
                remedy="raise the limit (max_events)",
            )
        if progress is not None:
            progress(int(m[at.NODES_DONE]), total_nodes, int(m[at.NOW]))


def _grow(m: Ints, limits: Limits) -> Ints:
    """The same arena with twice the space."""
    size = 2 * (m.size + int(m[at.RESERVE]) + 8 * int(m[at.INDEX_MASK]))
    if size * 8 > limits.arena_bytes:
        raise InputError(
            f"the simulation needs more than {limits.arena_bytes / 2**30:.1f} GiB of memory",
            remedy="raise the limit (max_bytes), or simulate less at a time (fewer chunks, fewer ranks)",
        )
    grown = np.zeros(size, np.int64)
    grown[: m.size] = m
    return grown


def _pass_again(m: Ints) -> bool:
    """When the clock has run dry: issue what is free. True if that set anything going."""
    from chakrasim.simulator.kernels import loop

    slots = slot_table(m)
    before = int(m[at.NODES_DONE]), int(m[at.EVENTS]), int(slots[:, at.SLOT_ONGOING].sum())
    if not slots[:, at.SLOT_FREE].any():
        return False
    m[at.PASSED] = 0
    if not loop.fire_again(m):
        return True
    return before != (int(m[at.NODES_DONE]), int(m[at.EVENTS]), int(slots[:, at.SLOT_ONGOING].sum()))


def slot_table(m: Ints) -> Ints:
    """The slot records, one row each."""
    start = int(m[at.SLOT_TABLE])
    return m[start : start + int(m[at.SLOTS]) * at.SLOT_WORDS].reshape(-1, at.SLOT_WORDS)


if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("chakrasim needs a little-endian machine")
