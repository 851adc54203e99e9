"""Ends of host collectives that were written down late: who waited for them had gone on before."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.communication.host import HandedOver
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.nesting import Nesting, Pieces
from chakrasim.linker.evidence.threads import COLLECTIVE_RETURN_NS, RETURN_NS
from chakrasim.trace.linked.columns import RowKind

#: A thread is not scheduled for up to this long where cores are few.
LATE_NS = 10_000_000


def correct_late_ends(work: LaneEvents, nesting: Nesting, handed: HandedOver) -> None:
    """End collectives where the thread that handed them over went on, if it idled for most of what they took.

    The back end wakes who waits and writes its own end down after that; where cores are few the other thread runs
    first. Up to ``LATE_NS`` and half of the idle time are corrected, and counted as ``collective_ends_corrected``;
    not where the idle time ends just after another collective, which explains it.
    """
    host, pieces = work.host, nesting.pieces
    collectives = np.flatnonzero(host.kind == RowKind.HOST_COLLECTIVE)
    ends = np.sort(host.end_ns[collectives])
    last_piece = {int(pieces.owner[at]): at for at in np.flatnonzero(np.isin(pieces.owner, collectives)).tolist()}
    corrected = 0
    for collective, (giver, given, _) in handed.items():
        end, own = int(host.end_ns[collective]), last_piece.get(collective, -1)
        after = _next_on_thread(pieces, own)
        if own < 0 or pieces.end_ns[own] != end or (after >= 0 and pieces.owner[after] >= 0):
            continue
        low, high = _longest_wait(pieces, giver, max(given, int(pieces.start_ns[own])), end)
        if high >= end or high - low < RETURN_NS or end - high > (high - low) // 2:
            continue
        if np.searchsorted(ends, high - COLLECTIVE_RETURN_NS) < np.searchsorted(ends, high, side="right"):
            continue
        pieces.end_ns[own] = nesting.end_ns[collective] = host.end_ns[collective] = high
        if after >= 0:
            pieces.start_ns[after] = high
        corrected += 1
    work.counts["collective_ends_corrected"] = corrected


def _longest_wait(pieces: Pieces, thread: int, begun: int, end: int) -> tuple[int, int]:
    """From when to when a thread idled while a collective ran that ended at ``end``: the longest such time that ended
    shortly before that, or later; (end, end) where it did not."""
    low, high = np.searchsorted(pieces.lane, [thread, thread + 1])
    first = low + np.searchsorted(pieces.end_ns[low:high], end - LATE_NS)
    after = low + np.searchsorted(pieces.start_ns[low:high], end)
    idle = np.flatnonzero(pieces.owner[first:after] < 0) + first
    if not len(idle):
        return end, end
    since = np.maximum(pieces.start_ns[idle], begun)
    longest = int(np.argmax(pieces.end_ns[idle] - since))
    return int(since[longest]), int(pieces.end_ns[idle[longest]])


def _next_on_thread(pieces: Pieces, piece: int) -> int:
    """The piece that follows on the same thread; -1: none."""
    after = piece + 1
    return after if after < len(pieces) and pieces.lane[after] == pieces.lane[piece] else -1
