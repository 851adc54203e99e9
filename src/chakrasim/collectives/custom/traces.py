"""Custom collectives given as Chakra execution traces, one file per member.

Messages are of the sizes in the file: the size of the collective that uses them does not matter. Computation takes its
recorded duration (astra-system.md, sections 11.6 and 12.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.custom.program import CustomKind, CustomProgram, Ints, linked
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.chakra.refusal import refuse_where

_KINDS = {4: CustomKind.COMP, 5: CustomKind.SEND, 6: CustomKind.RECV}
"""By node type of the schema."""

_TAG_SPACE = 500_000_000
_NS_PER_MICRO = 1000


def lower_traces(
    traces: Sequence[Trace], members: Sequence[int], notes: Notes, *, to_itself: bool = False
) -> tuple[CustomProgram, ...]:
    """The programs of a custom collective.

    Raises `InputError` for nodes that cannot be used: of another type than COMP, COMM_SEND, COMM_RECV, without a needed
    attribute, with a peer outside the group or the member itself; for duplicate ids, dangling dependencies and cycles.

    Parameters
    ----------
    traces:
        One per member, in ascending order of the members' rank numbers (the order of the files). Equal objects give
        equal objects.
    members:
        The ranks of the group as listed; the peers in the traces are indices into it.
    notes:
        Gets a line for everything that was not taken as it stands in a file.
    to_itself:
        Whether the network carries messages from a rank to itself.
    """
    if len(traces) != len(members):
        raise InputError(
            "the custom collective has another number of members than the group that uses it",
            file=traces[0].source if traces else None,
            found=f"{len(traces)} files",
            expected=f"{len(members)}, one per member",
        )
    lowered: dict[int, CustomProgram] = {}
    programs = []
    for trace, rank in zip(traces, sorted(members), strict=True):
        if id(trace) not in lowered:
            lowered[id(trace)] = lower_trace(trace, len(members), notes)
        program = lowered[id(trace)]
        if not to_itself:
            _refuse_messages_to_itself(trace, program, rank, members)
        programs.append(program)
    return tuple(programs)


def lower_trace(trace: Trace, members: int, notes: Notes) -> CustomProgram:
    """One member's program; see `lower_traces`."""
    if len(trace) == 0:
        raise InputError("a custom collective without nodes", file=trace.source, expected="at least one node")
    kind = _kinds(trace)
    sends, receives = kind == CustomKind.SEND, kind == CustomKind.RECV
    messages = sends | receives
    destination = _number(trace, "comm_dst", sends, 32, notes)
    source = _number(trace, "comm_src", receives, 32, notes)
    peer = np.where(sends, destination, np.where(receives, source, -1))
    refuse_where(
        peer >= members,
        trace,
        "a message to or from a rank outside the group",
        found=lambda node: f"peer {int(peer[node])}",
        expected=f"0 to {members - 1}",
    )
    ids = trace.ids.tolist()
    parents = [trace.data_deps[node].tolist() + trace.ctrl_deps[node].tolist() for node in range(len(trace))]
    return linked(
        ids,
        parents,
        trace.source,
        trace.place,
        kind=kind,
        peer=peer,
        size_bytes=_number(trace, "comm_size", messages, 63, notes),
        tag=_reduced_tag(_number(trace, "comm_tag", messages, 32, notes)),
        delay_ns=_delays(trace, kind == CustomKind.COMP),
    )


def _kinds(trace: Trace) -> Ints:
    kind = np.full(len(trace), -1, np.int64)
    for number, meaning in _KINDS.items():
        kind[trace.types == number] = meaning
    refuse_where(
        kind < 0,
        trace,
        "a custom collective cannot hold this node",
        found=lambda node: f"node type {int(trace.types[node])}",
        expected="COMP_NODE (4), COMM_SEND_NODE (5) or COMM_RECV_NODE (6)",
    )
    return kind


def _number(trace: Trace, name: str, needed: NDArray[np.bool_], bits: int, notes: Notes) -> Ints:
    """An attribute of the nodes where it is ``needed``, as an unsigned number of 32 or 63 bits; 0 elsewhere.

    Numbers of more than 32 bits are cut to 32 as the reference does, with a warning; those of more than 63 are refused.
    """
    column = trace.attr(name)
    refuse_where(
        needed & ~(column.present & column.is_integer),
        trace,
        f"{name} is missing or no integer",
        found=lambda node: repr(column.value(node)) if column.present[node] else "none",
        expected=f"an integer attribute {name}",
    )
    values = np.where(needed, column.bits, np.uint64(0))
    large = values >> np.uint64(bits) > 0
    if bits != 32:
        message = f"{name} is negative or absurdly large"
        refuse_where(large, trace, message, found=column.value, expected="0 to 2^63 - 1")
    elif large.any():
        node = int(large.argmax())
        values &= np.uint64(0xFFFFFFFF)
        notes.warn(
            f"{trace.source}: {trace.place(node)}: {name} {column.value(node)} does not fit 32 bits and is read as "
            f"{int(values[node])} ({large.sum()} nodes)"
        )
    return values.astype(np.int64)


def _reduced_tag(tag: Ints) -> Ints:
    """Tags as the reference forms them: a signed remainder of the number read as 32 bits."""
    signed = np.where(tag >= 1 << 31, tag - (1 << 32), tag)
    return np.asarray(np.sign(signed) * (np.abs(signed) % _TAG_SPACE), np.int64)


def _delays(trace: Trace, comps: NDArray[np.bool_]) -> Ints:
    micros = np.where(comps, trace.duration_micros, np.uint64(0))
    refuse_where(
        micros > np.uint64(((1 << 63) - 1) // _NS_PER_MICRO),
        trace,
        "duration of 2^63 ns or more",
        found=lambda node: f"duration_micros {int(micros[node])}",
        expected="less than 292 years",
    )
    return np.where(comps, np.maximum(micros.astype(np.int64) * _NS_PER_MICRO, 1), 0)


def _refuse_messages_to_itself(trace: Trace, program: CustomProgram, rank: int, members: Sequence[int]) -> None:
    refuse_where(
        (program.peer >= 0) & (np.asarray(members)[program.peer] == rank),
        trace,
        "a message of a rank to itself",
        found=lambda node: f"peer {int(program.peer[node])}, which is rank {rank} itself",
        expected="another rank; groups that use a custom collective list their ranks in ascending order",
    )
