"""Durations that a device's profile gave are no laws to be learned: the profile gives them again, of the sizes made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import InputError
from chakrasim.synthesis.grammar.durations import MEASURED
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import INT64, NodeType

if TYPE_CHECKING:  # Machines and how they are timed take longer to import than all else here: where they are asked for.
    from chakrasim.machine import DeviceProfile

DEVICE: Final = "device_profile"
"""What traces call the device by whose profile their nodes are timed."""


def device_of(jobs: Sequence[Job]) -> str:
    """The shipped device that all traces name, if its profile gives all their durations, to the ns; "" for none."""
    traces = [trace for job in jobs for trace in job.traces]
    name = traces[0].metadata.get(DEVICE)
    if not isinstance(name, str) or _profile(name) is None:
        return ""
    try:
        return name if all(trace.metadata.get(DEVICE) == name and _gives(name, trace) for trace in traces) else ""
    except InputError:  # There is more to say of it than how long it takes.
        return ""


def _gives(device: str, trace: Trace) -> bool:
    own = trace.attr(MEASURED)
    if not (own.present == (trace.types == NodeType.COMP_NODE)).all():
        return False
    again = timed(_without(trace), device)
    same = again.attr(MEASURED).integers(0) == own.integers(0), again.duration_micros == trace.duration_micros
    return all(bool(each.all()) for each in same)


def untimed(job: Job) -> Job:
    """The job without durations."""
    return replace(job, traces=tuple(map(_without, job.traces)))


def _without(trace: Trace) -> Trace:
    """They are 0, which keeps their place among the attributes."""
    nodes = np.flatnonzero(trace.attr(MEASURED).present)
    bare = edited(trace, [Change(MEASURED, INT64, nodes, np.zeros(len(nodes), np.int64))])
    return replace(bare, duration_micros=np.zeros_like(trace.duration_micros))


def timed(trace: Trace, device: str) -> Trace:
    """The trace with the durations that the device's profile gives its computations. Raises InputError for a device
    that does not ship."""
    from chakrasim.exchange.times import times_ns
    from chakrasim.machine.device.file import device_names

    profile = _profile(device)
    if profile is None:
        raise InputError("no such device ships", found=repr(device), expected=f"one of {', '.join(device_names())}",
                         remedy="learn the model again")  # fmt: skip
    nodes = np.flatnonzero(trace.types == NodeType.COMP_NODE)
    found = times_ns(trace, profile)[nodes]
    micros = np.zeros_like(trace.duration_micros)
    micros[nodes] = -(-found // 1000)
    return replace(edited(trace, [Change(MEASURED, INT64, nodes, found)]), duration_micros=micros)


@cache
def _profile(name: str) -> DeviceProfile | None:
    """Of a device that ships."""
    from chakrasim.machine import load_device
    from chakrasim.machine.device.file import device_names

    return load_device(name) if name in device_names() else None
