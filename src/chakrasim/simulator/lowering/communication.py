"""What the communication nodes of a trace ask for: collectives of groups, messages to peers.

Where a trace is shared by ranks (`chakrasim.trace.job.job`), its groups are roles and its peers positions in their
groups; both differ by rank and are filled in by `sharing`. Until then a role is a negative number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.attributes import TOO_LARGE, required, scaled
from chakrasim.trace import NodeType, Trace
from chakrasim.trace.chakra.graph import AttrColumn
from chakrasim.trace.chakra.refusal import refuse, refuse_where
from chakrasim.trace.job.groups import is_number
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import PARTS

Ints = NDArray[np.int64]
Column = Callable[[str], AttrColumn]

TAG_RANGE = 500_000_000
BOOL_LIST = 28


@dataclass(frozen=True)
class CollectiveUse:
    """A collective as nodes of a graph ask for it. ``group`` 0 is the default group; ``custom_node`` the id of a node
    with an implementation of its own, else -1; ``root`` a rank (of a role: a position), or -1 for the first member.

    ``parts``: of an all-to-all, what this rank has for each member, if they differ; ``matrix`` what all have for all,
    as an index of `Context.matrices`, once the ranks are put together (`parts.put_together`).
    """

    type: Collective
    size_bytes: int
    group: int
    involved: tuple[bool, ...] | None
    root: int
    custom_node: int
    parts: tuple[int, ...] = ()
    matrix: int = -1


@dataclass(frozen=True, eq=False)
class CollectiveNodes:
    """The collectives of some nodes: ``use`` int64[nodes] indexes ``uses``, ``group`` int64[nodes] ``groups``."""

    types: Ints
    use: Ints
    group: Ints
    uses: tuple[CollectiveUse, ...]
    groups: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Messages:
    """The sends and receives of some nodes: ``peer`` int64[nodes] indexes ``peers``.

    ``peers`` are ranks, or, where ``roles`` is not 0, positions in the group of that role. They are in order of first
    use, so that ranks that do the same with other peers have equal columns.
    """

    peer: Ints
    size_bytes: Ints
    tag: Ints
    peers: Ints
    roles: Ints
    own_rank: dict[int, int]
    """Nodes that name their own rank."""


def collectives(trace: Trace, column: Column, nodes: Ints, context: Context) -> CollectiveNodes:
    """The collectives that ``nodes`` ask for. Raises InputError with the node at fault."""
    types = required(column("comm_type"), nodes, "a collective")
    refuse_where(types > int(Collective.BARRIER), trace, "unknown collective type", nodes=nodes, found=types.item)
    numbers = group_numbers(trace, column, nodes, context)
    groups = _in_order_of_use(trace, nodes, numbers)
    local = {group: i for i, group in enumerate(groups)}
    involved, masks = _involved(trace, column, nodes)
    divided, parts = _parts(trace, column, nodes, types, context)
    table = np.stack(
        [
            types,
            _sizes(column, nodes, types, context),
            np.array([local[group] for group in numbers.tolist()]),
            involved,
            _roots(column, nodes),
            _custom_nodes(trace, nodes, context),
            divided,
        ],
        axis=1,
    )
    rows, which = np.unique(table, axis=0, return_inverse=True)
    uses = tuple(
        CollectiveUse(Collective(int(t)), int(s), groups[g], masks[int(i)], int(r), int(c), parts[int(p)])
        for t, s, g, i, r, c, p in rows
    )
    return CollectiveNodes(types, which.reshape(-1), table[:, 2], uses, tuple(groups))


def _in_order_of_use(trace: Trace, nodes: Ints, numbers: Ints) -> list[int]:
    """Distinct numbers in the order in which the nodes' ids first use them: equal for ranks that do the same."""
    by_id = numbers[np.argsort(trace.ids[nodes], kind="stable")]
    distinct, first = np.unique(by_id, return_index=True)
    return [int(number) for number in distinct[np.argsort(first)]]


def _sizes(column: Column, nodes: Ints, types: Ints, context: Context) -> Ints:
    """comm_size; a barrier moves nothing and needs none."""
    barrier = types == int(Collective.BARRIER)
    size = np.zeros(len(nodes), np.int64)
    size[~barrier] = _bytes(column, nodes[~barrier], "a collective", context)
    return size


def _bytes(column: Column, nodes: Ints, what: str, context: Context) -> Ints:
    """comm_size, scaled as the machine says; what has a byte keeps one."""
    size = required(column("comm_size"), nodes, what)
    found = np.maximum(scaled(size, context.comm_scale), np.minimum(size, 1))
    refuse_where(
        found >= TOO_LARGE,
        column("comm_size").trace,
        "comm_size is out of range",
        nodes=nodes,
        found=lambda i: f"{size[i]} bytes times {context.comm_scale:g}",
        expected="less than 2^62",
    )
    return found


def group_numbers(trace: Trace, column: Column, nodes: Ints, context: Context) -> Ints:
    """The group that pg_name names: 0 (or no name) is the group of all ranks, a negative number a role of the job."""
    names = column("pg_name")
    numbers = np.zeros(len(nodes), np.int64)
    present = np.flatnonzero(names.present[nodes])
    _, first, which = np.unique(names.bits[nodes[present]], return_index=True, return_inverse=True)
    found = [_group_number(trace, node, names.string(node), context) for node in nodes[present[first]].tolist()]
    numbers[present] = np.array(found, np.int64)[which.reshape(-1)]
    return numbers


def _group_number(trace: Trace, node: int, name: str, context: Context) -> int:
    if name in context.roles:
        return -1 - context.roles.index(name)
    if name in ("", "0"):
        return 0
    groups = context.groups
    if not is_number(name) or int(name) not in groups:
        listed = ", ".join(map(str, list(groups)[:8])) + (", ..." if len(groups) > 8 else "")
        refuse(
            trace,
            node,
            f"communicator group {name[:40]!r} is not known",
            expected=f"one of the groups {listed}" if groups else "a communicator-group file",
            remedy="give the groups with --comm-group",
        )
    return int(name)


def _involved(trace: Trace, column: Column, nodes: Ints) -> tuple[Ints, list[tuple[bool, ...] | None]]:
    """Index of each node's involved_dim in the list of distinct ones; 0: none given."""
    given = column("involved_dim")
    masks: list[tuple[bool, ...] | None] = [None]
    numbers = np.zeros(len(nodes), np.int64)
    for i in np.flatnonzero(given.present[nodes]):
        node = int(nodes[i])
        if int(given.kind[node]) != BOOL_LIST:
            refuse(trace, node, "involved_dim has the wrong type", expected="a bool_list")
        mask = tuple(bool(x) for x in given.list(node))
        if mask not in masks:
            masks.append(mask)
        numbers[i] = masks.index(mask)
    return numbers, masks


def _parts(
    trace: Trace, column: Column, nodes: Ints, types: Ints, context: Context
) -> tuple[Ints, list[tuple[int, ...]]]:
    """Index of each node's parts in the list of distinct ones; 0: they are equal. Of all-to-alls only."""
    given, size = column(PARTS), column("comm_size")
    distinct: dict[tuple[int, ...], int] = {(): 0}
    numbers = np.zeros(len(nodes), np.int64)
    for i in np.flatnonzero(given.present[nodes] & (types == int(Collective.ALL_TO_ALL))):
        node = int(nodes[i])
        parts = given.list(node)
        if not all(isinstance(part, int) and not isinstance(part, bool) and part >= 0 for part in parts):
            refuse(trace, node, f"{PARTS} is no list of sizes", expected="a list of bytes, one for each member")
        if sum(parts) != int(size.integers(0)[node]):
            refuse(trace, node, f"{PARTS} does not add up to comm_size", found=sum(parts))
        if len(set(parts)) > 1:
            whole = np.array(parts, np.int64)
            scaled_parts = np.maximum(scaled(whole, context.comm_scale), np.minimum(whole, 1))
            numbers[i] = distinct.setdefault(tuple(scaled_parts.tolist()), len(distinct))
    return numbers, list(distinct)


def _roots(column: Column, nodes: Ints) -> Ints:
    """The root of a rooted collective: attribute ``root_rank`` or ``root``, else -1."""
    for name in ("root_rank", "root"):
        given = column(name)
        if given.present[nodes].any():
            return given.integers(-1)[nodes]
    return np.full(len(nodes), -1, np.int64)


def _custom_nodes(trace: Trace, nodes: Ints, context: Context) -> Ints:
    if not context.system.per_node_custom:
        return np.full(len(nodes), -1, np.int64)
    ids = trace.ids[nodes].astype(np.int64)
    return np.where(np.isin(ids, list(context.system.per_node_custom)), ids, -1)


def messages(trace: Trace, column: Column, nodes: Ints, context: Context) -> Messages:
    """The messages of ``nodes``, which are sends and receives. Raises InputError with the node at fault."""
    sends = trace.types[nodes] == int(NodeType.COMM_SEND_NODE)
    peer = np.zeros(len(nodes), np.int64)
    role = np.zeros(len(nodes), np.int64)
    tag = np.zeros(len(nodes), np.int64)
    size = np.zeros(len(nodes), np.int64)
    own_rank: dict[int, int] = {}
    for chosen, what, other, own in (
        (sends, "a send", "comm_dst", "comm_src"),
        (~sends, "a receive", "comm_src", "comm_dst"),
    ):
        some = nodes[chosen]
        if not len(some):
            continue
        peer[chosen], role[chosen] = _peers(trace, column, some, what, other, context)
        said = column(own)
        ranks = said.integers()
        own_rank |= {int(node): int(ranks[node]) for node in some[said.present[some]]}
        tag[chosen] = required(column("comm_tag"), some, what)
        own_tag = tag[chosen]
        refuse_where(own_tag >= 2**31, trace, "the tag is out of range", nodes=some, found=own_tag.item)
        size[chosen] = _bytes(column, some, what, context)
    distinct, which = np.unique(np.stack([role, peer], axis=1), axis=0, return_inverse=True)
    order = np.array(_in_order_of_use(trace, nodes, which.reshape(-1)), np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Messages(place[which.reshape(-1)], size, tag % TAG_RANGE, distinct[order, 1], distinct[order, 0], own_rank)


def _peers(trace: Trace, column: Column, nodes: Ints, what: str, name: str, context: Context) -> tuple[Ints, Ints]:
    """Who is at the other end of sends (or of receives): ranks, or positions in groups of a role, and that role."""
    peer = np.zeros(len(nodes), np.int64)
    role = np.zeros(len(nodes), np.int64)
    shared = column(PEER).present[nodes] & ~column(name).present[nodes]
    if not shared.all():
        peer[~shared] = required(column(name), nodes[~shared], what)
    if shared.any():
        peer[shared] = required(column(PEER), nodes[shared], what)
        role[shared] = group_numbers(trace, column, nodes[shared], context)
    message = f"{PEER} is no position in the group of a role"
    refuse_where(role > 0, trace, message, nodes=nodes, found=lambda _: int(role.max()))
    message, most = f"{what} names a rank that does not exist", context.ranks - 1
    refuse_where(peer > most, trace, message, nodes=nodes, found=peer.item, expected=f"0 to {most}")
    return peer, role
