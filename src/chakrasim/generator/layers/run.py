"""A run of kernels, and of collectives beside them, timed: one, or many with other times in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.tape import Row
from chakrasim.jit import kernel
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.work import STREAM

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """Kernels and collectives of a run on their streams, from time 0, in each of some lanes.

    Attributes
    ----------
    duration_ns: float64[lanes]: until all is over.
    kernels_ns: float64[lanes, kernels]: of each kernel, slower beside collectives.
    exposed_ns: by role, float64[lanes]: in which nothing was computed because of its collectives.
    """

    duration_ns: Floats
    kernels_ns: Floats
    exposed_ns: Mapping[str, Floats]


def run_of(rows: Sequence[Row], numbers: Sequence[int], took_ns: Floats, held: Floats) -> Run:
    """Time a run, the rows ``numbers`` in order.

    Parameters
    ----------
    took_ns: float64[lanes, rows of the run]: of each row alone.
    held: float64[lanes, rows of the run]: the share of the processors that a collective holds meanwhile.
    """
    run = [rows[number] for number in numbers]
    place = {number: at for at, number in enumerate(numbers)}
    before = [[place[dep] for dep in row.data + row.control if place.get(dep, at) < at] for at, row in enumerate(run)]
    streams = {stream: at for at, stream in enumerate(dict.fromkeys([0, *(int(row.values[STREAM]) for row in run)]))}
    names = [str(row.values.get("pg_name", "")) for row in run]
    roles = {role: at for at, role in enumerate(dict.fromkeys(names))}
    communicates = np.array([row.type == NodeType.COMM_COLL_NODE for row in run], np.bool_)
    spent, exposed = np.zeros(took_ns.shape), np.zeros((len(took_ns), len(roles)))
    begins, ends, free = np.zeros(len(run)), np.zeros(len(run)), np.zeros(len(streams))
    lasts = np.zeros(len(took_ns))
    _run_lanes(
        np.array([streams[int(row.values[STREAM])] for row in run], np.int64),
        np.array([0, *accumulate(map(len, before))], np.int64),
        np.array([dep for deps in before for dep in deps], np.int64),
        communicates,
        np.array([roles[name] for name in names], np.int64),
        np.ascontiguousarray(took_ns), np.ascontiguousarray(held), begins, ends, free, spent, exposed, lasts,
    )  # fmt: skip
    return Run(lasts, spent[:, ~communicates], {role: exposed[:, at] for role, at in roles.items()})


@kernel
def _run_lanes(
    stream: Any, first: Any, before: Any, communicates: Any, role: Any, took: Any, held: Any, begins: Any, ends: Any,
    free: Any, spent: Any, exposed: Any, lasts: Any,
) -> None:  # fmt: skip
    lanes, count = took.shape
    for lane in range(lanes):
        free[:] = 0.0
        for at in range(count):
            last = -1
            for dep in range(first[at], first[at + 1]):
                if last < 0 or ends[before[dep]] > ends[last]:
                    last = before[dep]
            idle = free[stream[at]]
            begin = idle
            if last >= 0 and ends[last] > begin:
                begin = ends[last]
            work = took[lane, at]
            if not communicates[at]:
                # Each collective under way leaves its kernels less of the device.
                for other in range(at):
                    if not communicates[other] or ends[other] <= begin or begins[other] >= begin + work:
                        continue
                    share = held[lane, other]
                    alone = max(begins[other] - begin, 0.0)
                    beside = max(ends[other] - max(begins[other], begin), 0.0)
                    done = min(work - alone, beside * (1.0 - share))
                    work += done * share / (1.0 - share)
                if last >= 0 and begin > idle:
                    exposed[lane, role[last]] += begin - idle
                spent[lane, at] = begin + work - begin
            begins[at] = begin
            ends[at] = free[stream[at]] = begin + work
        last = 0
        for at in range(count):
            if ends[at] > ends[last]:
                last = at
        if count:
            lasts[lane] = ends[last]
            if ends[last] > free[0]:
                exposed[lane, role[last]] += ends[last] - free[0]
