"""The linked trace as text: the host's nodes as they stood, with new ids, and a node for each kernel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.chakra_link.device import DeviceSide, names_with
from chakrasim.trace.host.columns import SPAN_ID, SPAN_NAME, SPAN_NODE, SPAN_PARENT, HostTrace
from chakrasim.trace.kineto.columns import DUR_IS_FLOAT, TEXT, TS_IS_FLOAT, Ints

if TYPE_CHECKING:
    from chakrasim.compat.chakra_link.matching import Matching


def linked_text(
    host: HostTrace, text: bytes, device: DeviceSide, matching: Matching, sync: dict[int, list[int]]
) -> bytes:
    """The linked trace as JSON (chakra-toolchain.md, 3.12). ``text``: ``host.text`` as bytes."""
    ids = _new_ids(matching)
    sync_dep = _sync_dependencies(device, matching, ids, sync)
    parents = _new_parents(host, matching, ids)
    links = _links(device, matching, ids.nodes)
    described = _kernel_texts(device, matching.kernels)
    nodes: list[bytes] = []
    columns = (ids.nodes[matching.node], ids.kernels, parents, matching.begin[matching.node], ids.kernel_counts)
    spans = host.spans[matching.rows][:, [SPAN_NODE, SPAN_ID, SPAN_PARENT, SPAN_NAME]].reshape(-1, 8).tolist()
    flat = host.schema == "1.0.1"
    for span, node, own, first, parent, begin, count in zip(
        spans, matching.node.tolist(), *(column.tolist() for column in columns), strict=True
    ):
        node_begin, node_end, id_begin, id_end, up_begin, up_end, name_begin, name_end = span
        node_end -= 1  # the closing brace
        if flat:
            up_begin = up_end = 0
        link, waits = links[node]
        added = f'{link},"sync_dep":{sync_dep[own]}' if own in sync_dep else link
        edits = [(id_begin, id_end, b"%d" % own), (up_begin, up_end, b"%d" % parent)]
        nodes.append(_edited(text, node_begin, node_end, edits, added))
        for number, kernel in enumerate(range(begin, begin + count), first):
            name, rest = described[kernel]
            edits = [(id_begin, id_end, b"%d" % number), (up_begin, up_end, b"%d" % own)]
            edits.append((name_begin, name_end, name))
            added = f',"sync_dep":{sync_dep[number]}' if number in sync_dep else ""
            if flat:
                added += f',"ctrl_deps":{own}'
            nodes.append(_edited(text, node_begin, node_end, edits, f"{waits}{rest}{added}"))
    if len(matching.ids) < len(matching.rows):
        nodes = _by_id(nodes, matching, ids)
    header = json.dumps(host.header, separators=(",", ":")).encode()
    opening = header[:-1] + (b',"nodes":[' if len(header) > 2 else b'"nodes":[')
    return b"%b%b]}" % (opening, b",\n".join(nodes))


@dataclass(frozen=True, eq=False)
class NewIds:
    """New ids: ``nodes`` int64[u] of each host id, ``kernels`` int64[n] of the first kernel of each host node, which
    has ``kernel_counts`` int64[n] of them, and ``next``, the first that is free."""

    nodes: Ints
    kernels: Ints
    kernel_counts: Ints
    next: int


def _new_ids(matching: Matching) -> NewIds:
    """One counter over host nodes by id, each followed by its kernels.

    Equal host ids share their new id, and the first node with it gets the kernels.
    """
    first = np.diff(matching.node, prepend=-1)
    kernels = (matching.end - matching.begin)[matching.node] * first
    used = np.cumsum(first + kernels)
    start = used - kernels
    return NewIds(start[first == 1] - 1, start, kernels, int(used[-1]))


def _by_id(nodes: list[bytes], matching: Matching, ids: NewIds) -> list[bytes]:
    """The texts of nodes and kernels by new id where host ids are equal: nodes stand before kernels."""
    keys: list[tuple[int, int]] = []
    for node, first, count in zip(
        matching.node.tolist(), ids.kernels.tolist(), ids.kernel_counts.tolist(), strict=True
    ):
        keys += [(int(ids.nodes[node]), 0), *((first + at, 1) for at in range(count))]
    return [nodes[at] for at in sorted(range(len(nodes)), key=keys.__getitem__)]


def _edited(text: bytes, begin: int, end: int, edits: list[tuple[int, int, bytes]], added: str) -> bytes:
    """``text[begin:end]`` with parts replaced (empty ranges: none) and ``added`` and a closing brace at its end."""
    parts = []
    for left, right, new in sorted(edits):
        if right:
            parts += [text[begin:left], new]
            begin = right
    return b"".join((*parts, text[begin:end], added.encode(), b"}"))


def _new_parents(host: HostTrace, matching: Matching, ids: NewIds) -> Ints:
    """int64[n]: new ids of the parents; those that no node has get ids above all others, in the order met."""
    parents = host.parent[matching.rows]
    at = np.minimum(np.searchsorted(matching.ids, parents), len(matching.ids) - 1)
    result = ids.nodes[at]
    made: dict[int, int] = {}
    for place in np.flatnonzero(matching.ids[at] != parents).tolist():
        result[place] = made.setdefault(int(parents[place]), ids.next + len(made))
    return result


def _links(device: DeviceSide, matching: Matching, new_ids: Ints) -> list[tuple[str, str]]:
    """The fields that a partner in the device trace adds to each node, as JSON text, and those of them that go over to
    its kernels; "" where there is none."""
    links = [("", "")] * len(new_ids)
    linked = np.flatnonzero(matching.operator >= 0)
    operator = matching.operator[linked]
    rows = device.cpu[operator]
    inclusive = _numbers(device.duration[rows], device.trace.has(DUR_IS_FLOAT)[rows])
    exclusive = _numbers(device.exclusive[operator], device.exclusive_is_float[operator])
    ts = _numbers(device.ts[rows], device.trace.has(TS_IS_FLOAT)[rows])
    waits = matching.waits_for[linked]
    others = np.where(waits >= 0, new_ids[waits], -1).tolist()
    for at, total, own, start, other in zip(linked.tolist(), inclusive, exclusive, ts, others, strict=True):
        inter = f',"inter_thread_dep":{"null" if other < 0 else other}'
        links[at] = f',"inclusive_dur":{total},"exclusive_dur":{own},"ts":{start}{inter}', inter
    return links


def _kernel_texts(device: DeviceSide, kernels: Ints) -> list[tuple[bytes, str]]:
    """For each kernel its name and the fields that it has of its own, as JSON text."""
    trace = device.trace
    duration = _numbers(device.duration[kernels], trace.has(DUR_IS_FLOAT)[kernels])
    ts = _numbers(device.ts[kernels], trace.has(TS_IS_FLOAT)[kernels])
    texts = {0: '""'}
    for index in np.unique(np.concatenate((trace.name[kernels], trace.category[kernels]))).tolist():
        texts[index] = json.dumps(trace.strings[index])
    groups = _groups(device, kernels)
    columns = (trace.name, trace.category, trace.phase, trace.stream)
    rows = zip(*(column[kernels].tolist() for column in columns), groups, duration, ts, strict=True)
    return [
        (
            texts[name].encode(),
            f',"cat":{texts[category]},"ph":{json.dumps(chr(phase))},"inclusive_dur":{length},"exclusive_dur":{length},'
            f'"ts":{start},"stream":{"null" if stream == -1 else stream}' + group,
        )
        for name, category, phase, stream, group, length, start in rows
    ]


def _groups(device: DeviceSide, kernels: Ints) -> list[str]:
    """For each kernel its process group as JSON text; "" where the reference linker does not look or finds none."""
    trace = device.trace
    column = trace.rare_column("Process Group Name")
    names = {
        row: bits
        for row, kind, bits in zip(column.rows.tolist(), column.kind.tolist(), column.bits.tolist(), strict=True)
        if kind == TEXT
    }
    asked = np.isin(trace.name[kernels], names_with(trace, trace.name[kernels], "ncclDevKernel")).tolist()
    return [
        f',"pg_name":{json.dumps(trace.strings[names[row]])}' if wanted and row in names else ""
        for row, wanted in zip(kernels.tolist(), asked, strict=True)
    ]


def _numbers(values: NDArray[np.float64], is_float: NDArray[np.bool_]) -> list[str]:
    """Numbers as Python writes them: floats with a point or exponent, integers without."""
    return [
        repr(value) if real else str(int(value)) for value, real in zip(values.tolist(), is_float.tolist(), strict=True)
    ]


def _sync_dependencies(
    device: DeviceSide, matching: Matching, ids: NewIds, sync: dict[int, list[int]]
) -> dict[int, list[int]]:
    """``sync_dep`` by new id (chakra-toolchain.md, 3.12, steps 3 and 4)."""
    wanted: dict[int, list[int]] = {}
    if not sync:
        return wanted
    positions = np.full(len(device.trace), -1, np.int64)
    positions[device.cpu] = np.arange(len(device.cpu))
    node_of = np.full(len(device.cpu), -1, np.int64)
    linked = np.flatnonzero(matching.operator >= 0)
    node_of[matching.operator[linked]] = linked  # of several the last
    rows = np.flatnonzero(ids.kernel_counts)
    for node, first, count in zip(
        matching.node[rows].tolist(), ids.kernels[rows].tolist(), ids.kernel_counts[rows].tolist(), strict=True
    ):
        begin = int(matching.begin[node])
        for number, kernel in enumerate(range(begin, begin + count), first):
            targets: dict[int, None] = {}
            for row in sync.get(int(matching.kernels[kernel]), ()):
                waiter = int(node_of[positions[row]])
                if waiter >= 0:
                    targets[int(ids.nodes[waiter] if waiter <= node else matching.ids[waiter])] = None
            for target in targets:
                wanted.setdefault(target, []).append(number)
    # The reference looks a target up among the original ids even where it is a new id already.
    places = dict(zip(matching.ids.tolist(), ids.nodes.tolist(), strict=True))
    return {places.get(target, target): kernels for target, kernels in wanted.items()}
