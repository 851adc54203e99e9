"""What holds of every linked trace, and short ways to ask about one."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.rows.replay import replay
from chakrasim.trace.linked.columns import DEVICE_KINDS, EdgeKind, LinkedTrace, RowKind

BLOCKING = (EdgeKind.SYNC_EVENT, EdgeKind.SYNC_STREAM, EdgeKind.SYNC_CONTEXT, EdgeKind.SYNC_COPY)


def check(linked: LinkedTrace, exact: bool = True, clocks_agree: bool = True) -> None:
    """The invariants; and the recorded times come out again: to the nanosecond (``exact``), to a microsecond for each
    row that began before its sources ended, or not at all (clocks do not agree)."""
    n = len(linked)
    assert (linked.edge_source < linked.edge_target).all()
    assert (linked.wait_ns >= 0).all() and (linked.duration_ns >= 0).all() and (linked.delay_ns >= 0).all()
    assert (linked.head <= np.arange(n)).all() and (linked.part[linked.head] == 0).all()
    assert (linked.parent < np.arange(n)).all()
    _check_threads(linked)
    start, end = replay(linked)
    if not clocks_agree:
        return
    if exact:
        assert (start == linked.start_ns).all() and (end == linked.end_ns).all()
    else:
        slack = 1000 * max(linked.counts.get("rows_begun_before_their_sources_ended", 0), 1)
        assert np.abs(end - linked.end_ns).max(initial=0) <= slack


def _check_threads(linked: LinkedTrace) -> None:
    """The rows of a thread do not overlap."""
    host = ~linked.is_device
    for lane in np.unique(linked.lane[host]).tolist():
        rows = np.flatnonzero(host & (linked.lane == lane))
        assert (linked.end_ns[rows[:-1]] <= linked.start_ns[rows[1:]]).all()


def name_of(linked: LinkedTrace, row: int) -> str:
    """The row's name, with the number of its part behind a colon if that is not 0; "gap" for gaps."""
    if linked.kind[row] == RowKind.GAP:
        return "gap"
    part = int(linked.part[row])
    return linked.strings[int(linked.name[row])] + (f":{part}" if part else "")


def edges(linked: LinkedTrace, *kinds: EdgeKind) -> list[tuple[str, str]]:
    """The edges of these kinds by names, sorted."""
    which = np.flatnonzero(np.isin(linked.edge_kind, kinds))
    pairs = zip(linked.edge_source[which].tolist(), linked.edge_target[which].tolist(), strict=True)
    return sorted((name_of(linked, a), name_of(linked, b)) for a, b in pairs)


def evidence(linked: LinkedTrace, *kinds: EdgeKind) -> set[int]:
    """What proves the edges of these kinds."""
    return set(linked.edge_evidence[np.isin(linked.edge_kind, kinds)].tolist())


def row(linked: LinkedTrace, name: str) -> int:
    """The first row with this name (see `name_of`)."""
    return next(at for at in range(len(linked)) if name_of(linked, at) == name)


def device_rows(linked: LinkedTrace) -> list[str]:
    """Names of the device's rows in order."""
    return [name_of(linked, at) for at in np.flatnonzero(np.isin(linked.kind, DEVICE_KINDS)).tolist()]
