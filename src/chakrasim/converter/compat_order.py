"""Kernel: the dependencies and the order of the reference converter (see `compat_graph`), and the nodes as a file.

Numbers only, and only what is as it should be: for anything else it gives up, and Python finds out what is wrong.
"""

from __future__ import annotations

from chakrasim.converter.compat_columns import (
    CHILD,
    COLUMNS,
    DEVICE,
    FIRST_CHILD,
    FLAGS,
    HEAD,
    HEAD_SIZE,
    ID,
    KIND,
    METADATA,
    NEEDED,
    NODES,
    OTHER_WAIT,
    PARENT,
    PLACE,
    REACHED_FROM,
    STACK,
    TAIL,
    TAIL_SIZE,
    THREAD,
    USED,
    WAIT,
    WAITS,
    Bytes,
    Words,
)
from chakrasim.converter.compat_literals import copy, put, put_varint, varint_size
from chakrasim.jit import inner, leaf


@leaf
def column(nodes: int, ids: int, number: int) -> int:
    """Where a column of ``work`` begins."""
    return ids + number * (nodes + 1)


@inner
def row_of(work: Words, identity: int, ids: int) -> int:
    """The row of an id; -1: there is none."""
    return work[identity] - 1 if 0 <= identity < ids else -1


@inner
def number_rows(columns: Words, nodes: int, work: Words, ids: int) -> int:
    """Rows by id, and places in the order; 0 if an id is there twice, or a kernel is called like something else."""
    place = column(nodes, ids, PLACE)
    for r in range(nodes):
        identity, flags = columns[r * COLUMNS + ID], columns[r * COLUMNS + FLAGS]
        if work[identity] or (flags & DEVICE and flags & (METADATA | THREAD)):
            return 0
        work[identity] = r + 1
    for r in range(nodes):
        parent = row_of(work, columns[r * COLUMNS + PARENT], ids)
        if not columns[r * COLUMNS + FLAGS] & DEVICE:
            work[place + r] = 2 * r + 1
        elif parent >= 0 and not columns[parent * COLUMNS + FLAGS] & DEVICE:
            work[place + r] = 2 * parent + 2
    return 1


@inner
def sort_children(columns: Words, nodes: int, work: Words, ids: int) -> None:
    """The children of each node that are in the order, by id."""
    place, first = column(nodes, ids, PLACE), column(nodes, ids, FIRST_CHILD)
    child, filled = column(nodes, ids, CHILD), column(nodes, ids, STACK)
    for r in range(nodes):
        parent = row_of(work, columns[r * COLUMNS + PARENT], ids)
        if parent >= 0 and work[place + r]:
            work[first + parent + 1] += 1
    for r in range(nodes):
        work[first + r + 1] += work[first + r]
        work[filled + r] = work[first + r]
    for identity in range(ids):
        r = work[identity] - 1
        parent = row_of(work, columns[r * COLUMNS + PARENT], ids) if r >= 0 and work[place + r] else -1
        if parent >= 0:
            work[child + work[filled + parent]] = r
            work[filled + parent] += 1


@inner
def search(columns: Words, nodes: int, work: Words, ids: int, thread: int) -> int:
    """What the nodes below a thread wait for, in the order of the search; 0 if another thread reached one before."""
    first, child = column(nodes, ids, FIRST_CHILD), column(nodes, ids, CHILD)
    reached, stack = column(nodes, ids, REACHED_FROM), column(nodes, ids, STACK)
    wait, other = column(nodes, ids, WAIT), column(nodes, ids, OTHER_WAIT)
    work[stack] = thread
    depth, last = 1, -1
    while depth:
        depth -= 1
        r = work[stack + depth]
        if work[reached + r]:
            if work[reached + r] != thread + 1:
                return 0
            continue
        work[reached + r] = thread + 1
        on_host = not columns[r * COLUMNS + FLAGS] & DEVICE
        if on_host and columns[r * COLUMNS + WAITS]:
            work[wait + r] = columns[r * COLUMNS + WAITS] + 1
        if last >= 0 and work[wait + r] != last + 1:
            work[(other if work[wait + r] else wait) + r] = last + 1
        if on_host:
            last = columns[r * COLUMNS + ID]
        for at in range(work[first + r + 1] - 1, work[first + r] - 1, -1):
            below = work[child + at]
            if not work[reached + below]:
                work[stack + depth] = below
                depth += 1
    return 1


@inner
def mark_needed(columns: Words, nodes: int, work: Words, ids: int) -> int:
    """Mark what is waited for; 0 if that is not there, or not before what waits for it."""
    place, needed = column(nodes, ids, PLACE), column(nodes, ids, NEEDED)
    for number in (WAIT, OTHER_WAIT):
        wait = column(nodes, ids, number)
        for r in range(nodes):
            target = work[wait + r] - 1
            if target < 0:
                continue
            row = row_of(work, target, ids)
            if row < 0 or not work[place + row] or target >= columns[r * COLUMNS + ID]:
                return 0
            work[needed + row] = 1
    return 1


@inner
def put_node(columns: Words, r: int, parent: int, first: int, second: int, source: Bytes, out: Bytes, o: int) -> int:
    """A node behind its length; -1 for what it does not have."""
    row = r * COLUMNS
    head, tail = columns[row + HEAD], columns[row + TAIL]
    control = 1 + varint_size(parent) if parent >= 0 else 0
    data = (varint_size(first) if first >= 0 else 0) + (varint_size(second) if second >= 0 else 0)
    size = columns[row + HEAD_SIZE] + 2 + columns[row + TAIL_SIZE] + (1 + control if control else 0)
    o = put_varint(out, o, size + (2 + data if data else 0))
    o = copy(source, head, head + columns[row + HEAD_SIZE], out, o)
    o = put(out, put(out, o, 24), columns[row + KIND])
    if control:
        o = put_varint(out, put(out, put(out, o, 34), control - 1), parent)
    if data:
        o = put(out, put(out, o, 42), data)
        if first >= 0:
            o = put_varint(out, o, first)
        if second >= 0:
            o = put_varint(out, o, second)
    return copy(source, tail, tail + columns[row + TAIL_SIZE], out, o)


def arrange(columns: Words, nodes: int, ids: int, source: Bytes, out: Bytes, work: Words, state: Words) -> int:
    """Write the nodes to ``out``, those that wait for none and for which none waits left out; 1, or 0 if it gave up.

    ``ids`` is more than the largest id, ``work`` has `work_size` zeros. ``state`` gets the nodes written and the bytes.
    """
    if not number_rows(columns, nodes, work, ids):
        return 0
    sort_children(columns, nodes, work, ids)
    for r in range(nodes):
        if columns[r * COLUMNS + FLAGS] & THREAD and not search(columns, nodes, work, ids, r):
            return 0
    if not mark_needed(columns, nodes, work, ids):
        return 0
    place, needed = column(nodes, ids, PLACE), column(nodes, ids, NEEDED)
    wait, other = column(nodes, ids, WAIT), column(nodes, ids, OTHER_WAIT)
    o, written = 0, 0
    for identity in range(ids):
        r = work[identity] - 1
        if r < 0 or not work[place + r] or not (work[wait + r] or work[needed + r]):
            continue
        parent = columns[r * COLUMNS + PARENT]
        row = row_of(work, parent, ids)
        before = row >= 0 and work[place + row] and work[place + row] < work[place + r]
        o = put_node(columns, r, parent if before else -1, work[wait + r] - 1, work[other + r] - 1, source, out, o)
        written += 1
    state[NODES], state[USED] = written, o
    return 1
