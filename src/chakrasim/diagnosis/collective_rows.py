"""Which rows of a device trace communicate, and how long something was going on."""

from __future__ import annotations

import numpy as np

from chakrasim.collectives.kernel_names import is_communication_kernel
from chakrasim.collectives.spelling import host_backend_of
from chakrasim.diagnosis.device_rows import DeviceRows, Mask, select
from chakrasim.trace.kineto.columns import Ints


def collective_rows(rows: DeviceRows) -> Mask:
    """bool[n]: communication kernels, and collectives that the host carries out (``gloo:all_reduce``)."""
    trace = rows.trace
    on_device = rows.kernels & select(trace, trace.name, is_communication_kernel)
    on_host = rows.annotations & select(trace, trace.name, lambda text: host_backend_of(text) != "")
    on_host &= select(trace, trace.category, lambda text: not text.startswith("gpu_"))
    return on_device | on_host


def busy_ns(starts_ns: Ints, ends_ns: Ints) -> int:
    """Length of the union of spans."""
    if not len(starts_ns):
        return 0
    order = np.argsort(starts_ns, kind="stable")
    start, end = starts_ns[order], np.maximum.accumulate(ends_ns[order])
    before = np.concatenate([start[:1], end[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).sum())
