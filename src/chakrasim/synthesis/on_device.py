"""Durations that a device's profile gave are no laws to be learned: the profile gives them again, of the sizes made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import InputError
from chakrasim.exchange.times import times_ns
from chakrasim.machine import DeviceProfile, load_device
from chakrasim.machine.device.file import device_names
from chakrasim.synthesis.grammar.durations import MEASURED
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import INT64, NodeType

DEVICE: Final = "device_profile"
"""What traces call the device by whose profile their nodes are timed."""


def device_of(jobs: Sequence[Job]) -> str:
    """The shipped device that all traces name, if its profile gives all their durations, to the ns; "" for none."""
    traces = [trace for job in jobs for trace in job.traces]
    name = traces[0].metadata.get(DEVICE)
    if name not in device_names() or any(trace.metadata.get(DEVICE) != name for trace in traces):
        return ""
    try:
        return str(name) if all(_gives(_profile(str(name)), trace) for trace in traces) else ""
    except InputError:  # There is more to say of it than how long it takes.
        return ""


def _gives(profile: DeviceProfile, trace: Trace) -> bool:
    own = trace.attr(MEASURED)
    nodes = np.flatnonzero(trace.types == NodeType.COMP_NODE)
    if not own.present[nodes].all() or own.present.sum() != len(nodes):
        return False
    found = times_ns(_without(trace), profile)[nodes]
    micros = np.zeros(len(trace), np.int64)
    micros[nodes] = _micros(found)
    return bool((found == own.integers(0)[nodes]).all() and (trace.duration_micros == micros).all())


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
    if device not in device_names():
        raise InputError("no such device ships", found=repr(device), expected=f"one of {', '.join(device_names())}",
                         remedy="learn the model again")  # fmt: skip
    nodes = np.flatnonzero(trace.types == NodeType.COMP_NODE)
    found = times_ns(trace, _profile(device))[nodes]
    micros = np.zeros_like(trace.duration_micros)
    micros[nodes] = _micros(found)
    return replace(edited(trace, [Change(MEASURED, INT64, nodes, found)]), duration_micros=micros)


def _micros(time_ns: Ints) -> Ints:
    return -(-time_ns // 1000)


@cache
def _profile(name: str) -> DeviceProfile:
    return load_device(name)
