"""Durations of a device on the compute nodes of a pass."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from chakrasim.generator.layers.condense import work_of_rows
from chakrasim.generator.layers.tape import DURATION, Tape
from chakrasim.trace.chakra.graph import Ints
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.work import Work


def timed(tape: Tape, durations_ns: Callable[[Work], Ints]) -> Tape:
    """The same pass, whose compute nodes say how long they take by ``durations_ns``, such as a device profile's."""
    computes = [i for i, row in enumerate(tape.rows) if row.type == NodeType.COMP_NODE]
    times = durations_ns(work_of_rows([tape.rows[i] for i in computes]))
    rows = list(tape.rows)
    for i, time_ns in zip(computes, times.tolist(), strict=True):
        rows[i] = replace(rows[i], values={**rows[i].values, DURATION: time_ns})
    other = copy(tape)
    other.rows = rows
    return other
