"""Replay of measured durations: what nodes took where the trace was recorded, instead of what a machine makes of them.

A node runs as soon as what it depends on has ended, whatever else runs: the order that the hardware's queues forced is
in the dependencies. ``recorded``: collectives and messages take their recorded time by themselves. ``transfer``: they
begin when the last of their ranks has come, and take the part of the recorded time that was not waiting. A rank that
ended its part before the last had come (a buffered send, the root of a broadcast) waited for nobody: it takes its
recorded time, and nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace import NodeType, Trace
from chakrasim.trace.chakra.refusal import refuse_where

Ints = NDArray[np.int64]

LONGEST_NS = 1 << 62
_IN_RANGE = "0 to 2^62 - 1 ns"


@dataclass(frozen=True, eq=False)
class Measured:
    """By node, in file order: int64 ns of its own work, of the delay before it, and of its transfer (-1: none), and the
    number of the meeting that it takes part in (-1: none)."""

    duration_ns: Ints
    delay_ns: Ints
    transfer_ns: Ints
    meeting: Ints


def measured(trace: Trace, *, common_start: bool) -> Measured:
    """The measured times of a trace, in whole microseconds where the attributes to the nanosecond are missing.

    ``common_start`` leaves out what a rank started later than the earliest. Raises InputError with the node at fault.
    """
    micros = trace.duration_micros
    late = micros >= LONGEST_NS // 1000
    refuse_where(late, trace, "the duration is beyond the clock's range", expected=_IN_RANGE)
    duration = _times(trace, "duration_ns", micros.astype(np.int64) * 1000)
    delay = _times(trace, "delay_ns", np.zeros(len(trace), np.int64))
    if common_start:
        duration[trace.attr("is_start_offset").integers() != 0] = 0
    communicates = trace.types >= int(NodeType.COMM_SEND_NODE)
    transfer = trace.attr("transfer_ns").integers(-1)
    meeting = np.where(communicates & (transfer >= 0), trace.attr("meeting").integers(-1), -1)
    return Measured(duration, delay, transfer, meeting)


def _times(trace: Trace, name: str, default: Ints) -> Ints:
    column = trace.attr(name)
    times = np.where(column.present, column.integers(), default)
    wrong = (times < 0) | (times >= LONGEST_NS)
    refuse_where(wrong, trace, f"attribute {name!r} is no time", found=times.item, expected=_IN_RANGE)
    return times
