"""Which CPU operator of the device trace each host node is, as the reference decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.compat.chakra_link.device import DeviceSide
from chakrasim.compat.chakra_link.host import reachable
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Ints


@dataclass(frozen=True, eq=False)
class Matching:
    """Which CPU operator of the device trace each host node is: ``n`` host nodes, ``u`` different ids.

    Attributes
    ----------
    rows: int64[n], rows of the host trace by id, equal ids in file order.
    node: int64[n], index of their ids in ``ids``.
    ids: int64[u], the different ids, ascending. Of nodes with equal ids the reference linker knows the last.
    operator: int64[u], index into ``DeviceSide.cpu``, -1 where the node has no partner.
    waits_for: int64[u], index of an id up to this one whose node this one's thread waited for, -1 where none.
    kernels: int64[k], rows of the device trace, grouped by the External id of their parent.
    begin, end: int64[u], the part of ``kernels`` that each node launched.
    """

    rows: Ints
    node: Ints
    ids: Ints
    operator: Ints
    waits_for: Ints
    kernels: Ints
    begin: Ints
    end: Ints


def match(host: HostTrace, device: DeviceSide) -> Matching:
    """The partners of all host nodes."""
    rows = np.argsort(host.ids, kind="stable")
    ids, node = np.unique(host.ids[rows], return_inverse=True)
    count = len(ids)
    owners = rows[np.searchsorted(node, np.arange(count), side="right") - 1]
    known = reachable(host, owners)
    rf_id = host.rf_id[owners]
    rf_map_keys, rf_map = _last_by(device.trace.rf_id[device.cpu])
    at = _find(rf_map_keys, rf_id)
    linked = np.flatnonzero(known & (at >= 0))
    operator = np.full(count, -1, np.int64)
    operator[linked] = rf_map[at[linked]]
    external = device.trace.external_id[device.cpu[operator[linked]]]
    marks = np.zeros(count, np.int64)
    marks[linked] = device.mark[operator[linked]]
    waits_for = np.full(count, -1, np.int64)
    waiting = np.flatnonzero(marks != 0)
    if len(waiting):
        # The latest node up to this one that is the operator of the mark's record-function id.
        keys, codes = np.unique(rf_id[linked], return_inverse=True)
        place = codes * (count + 1) + linked
        sort = np.argsort(place)
        code = _find(keys, marks[waiting])
        hit = np.searchsorted(place[sort], code * (count + 1) + waiting, side="right") - 1
        found = linked[sort[np.maximum(hit, 0)]]
        good = (code >= 0) & (hit >= 0) & (codes[sort[np.maximum(hit, 0)]] == code)
        waits_for[waiting] = np.where(good, found, -1)

    launched = np.flatnonzero(device.has_parent)
    sort = launched[np.argsort(device.parent[launched], kind="stable")]
    kernels, parents = device.gpu[sort], device.parent[sort]
    begin, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    begin[linked] = np.searchsorted(parents, external, side="left")
    end[linked] = np.searchsorted(parents, external, side="right")
    return Matching(rows, node, ids, operator, waits_for, kernels, begin, end)


def _last_by(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct keys (but -1), ascending, and where each stands last."""
    there = np.flatnonzero(keys >= 0)[::-1]
    distinct, first = np.unique(keys[there], return_index=True)
    return distinct, there[first]


def _find(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted value stands among the ascending ``keys``, -1 where it does not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)
