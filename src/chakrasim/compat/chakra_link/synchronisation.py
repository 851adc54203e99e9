"""Synchronisation as the reference linker attaches it to GPU operators (chakra-toolchain.md, 3.7 and 3.8)."""

from __future__ import annotations

import numpy as np

from chakrasim.compat.chakra_link.device import DeviceSide, names_with
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import STREAM_IS_TEXT, KinetoTrace


def sync_lists(device: DeviceSide, notes: Notes) -> dict[int, list[int]]:
    """For events (by row) that others wait for: the CPU operators (by row) that do, in the order found.

    What the reference's analysis fails on gives no entries and a warning.
    """
    table = _table(device.trace, notes)
    lists: dict[int, list[int]] = {}
    if not table:
        return lists
    trace = device.trace
    external = trace.external_id
    keys = np.array(list(table), np.int64)
    by_thread = device.order[np.argsort(device.thread[device.order], kind="stable")]
    waiting = by_thread[np.isin(external[by_thread], keys)]
    following = np.searchsorted(device.ts[device.cpu], device.ts[waiting], side="right")
    sources = _last_rows(device, [source for entry in table.values() for source in entry])
    for row, at in zip(waiting.tolist(), following.tolist(), strict=True):
        if at == len(device.cpu):
            continue
        waiter = int(device.cpu[at])
        for source in table[int(external[row])]:
            event = sources.get(source)
            # The reference asks the wrong one of the two lists, so that an entry can come twice.
            if event is not None and event not in lists.get(waiter, ()):
                lists.setdefault(event, []).append(waiter)
    return lists


def _last_rows(device: DeviceSide, wanted: list[int]) -> dict[int, int]:
    """The last event in time with each of these External ids."""
    external = device.trace.external_id[device.order]
    places = np.flatnonzero(np.isin(external, np.array(wanted, np.int64)))
    return dict(zip(external[places].tolist(), device.order[places].tolist(), strict=True))


def _table(trace: KinetoTrace, notes: Notes) -> dict[int, list[int]]:
    """External ids of the events that each External id waits for, from the critical path of the first step."""
    fault = _certain_fault(trace)
    if fault is None and trace.where(trace.category, "cuda_sync").any():
        from chakrasim.compat.hta_critical_path.path import critical_path
        from chakrasim.compat.hta_critical_path.result import chakra_sync_dependencies

        path = critical_path(trace, version="pinned")
        if path.failure is None and path.success:
            table, lost = chakra_sync_dependencies(path, trace)
            if lost:
                notes.warn(f"{trace.source}: left out {lost} synchronisations between events without External id")
            return {int(waiting): sources for waiting, sources in table.items()}
        fault = f"{path.failure} ({path.reason})" if path.failure else "no valid graph"
    if fault is not None:
        notes.warn(
            f"{trace.source}: no synchronisation dependencies, since the analysis of the reference fails: {fault}"
        )
    return {}


def _certain_fault(trace: KinetoTrace) -> str | None:
    """The exception that ends the reference's analysis whatever the events, if any."""
    if not len(names_with(trace, trace.name, "ProfilerStep")):
        return "TypeError (no ProfilerStep in the trace)"
    calls = trace.where(trace.category, "cuda_runtime")
    if not calls.any():
        return "KeyError 'cuda_runtime' (no call of the device's runtime in the trace)"
    if trace.has(STREAM_IS_TEXT).any():
        return "TypeError (a stream is text, as on AMD)"
    return None
