"""Double binary tree: data are reduced up a binary tree and the result comes down it again.

The two trees of the pair differ in who is the root: the last member (variant 0) or the first (variant 1). A phase is an
all-reduce of all its data whatever the collective's type, as in the reference simulator.

Members are numbered q = 0 ... n-1 such that the root is 0. With t the lowest set bit of q, the parent of q > 0 is q
with t replaced by 2t, which for n a power of two numbers a full binary tree in order. Where that parent does not exist
(other n, and the node below the root), it is q without t. So the root has one child and every other node at most two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.schedule import Op, Program, Request, Row, Schedule, message


def schedule(request: Request) -> Schedule:
    """The schedule on the tree of ``request.variant``: one message of all data up and one down each edge."""
    nodes = np.arange(request.members, dtype=np.int64)
    if request.variant == 0:
        nodes = (nodes + 1) % request.members
    links = np.stack(_links(nodes, request.members), axis=1)
    codes = np.sign(links) * np.frexp(np.abs(links))[1]  # all distances are powers of two: codes of 7 bits
    keys = codes @ np.array([2**16, 2**8, 1])
    _, examples, program_of = np.unique(keys, return_index=True, return_inverse=True)
    size = message(request.data_bytes)
    programs = tuple(_program(parent, left, right, size) for parent, left, right in links[examples].tolist())
    return Schedule(programs, program_of.astype(np.int32), request.data_bytes, endpoint_delay_always=True)


def _links(nodes: NDArray[np.int64], members: int) -> tuple[NDArray[np.int64], ...]:
    """How far parent, left and right child are from each node (int64[n] each; 0 where there is none)."""
    top = 1 << ((members - 1).bit_length() - 1)
    low = nodes & -nodes
    parent = (nodes - low) | (2 * low)
    parent = np.where(parent < members, parent, nodes - low) - nodes
    left = -(low // 2)
    right = low // 2
    while np.any(missing := nodes + right >= members):
        right[missing] //= 2
    return parent, np.where(nodes == 0, top, left), right


def _program(parent: int, left: int, right: int, size: int) -> Program:
    """What a node does: the root has no parent, a leaf no children; all messages and bundles have ``size`` bytes."""
    children = tuple(child for child in (left, right) if child)
    with_parent = (Op(True, parent, size), Op(False, parent, size)) if parent else ()
    if not children:
        up = Row(1, size, False, False, False, with_parent)
        return Program((up, Row(1, size, False, True, False, ())))
    first = tuple(Row(1, size, True, True, False, ()) for _ in children[1:])
    up = Row(1, size, True, True, True, with_parent)
    down = Row(1, size, True, True, True, tuple(Op(True, child, size) for child in children))
    rows = (*first, up, down) if parent else (*first, down)
    return Program(rows, initial_bundles=0, start_ops=tuple(Op(False, child, size) for child in children))
