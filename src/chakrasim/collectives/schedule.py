"""What a collective algorithm hands to the engine: one small program per group member.

A program is what one member does in one phase of a collective, written as rows. The engine runs every program with the
same rule and knows no algorithm by name:

* **start**: perform ``start_ops``, then launch the first ``initial_bundles`` rows' bundles;
* **a message has been received**: launch the next row's bundle. A bundle is the delay between the decision to process a
  message and the right to act on it: the endpoint delay, plus a reduction if the row says so;
* **a bundle is done**: perform the operations of the next row not yet performed (rows are performed in order,
  whichever bundle was done). If ``gate_rows`` rows have been performed already and fewer than ``gate_receives``
  messages have been received, nothing is performed; past the gate up to ``gate_burst`` rows at a time, as far as
  bundles are done;
* **all bundles done**: the phase is complete.

Peers are given relative to the member's own index, so that members that do the same share one program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS, ROOTED
from chakrasim.errors import InputError
from chakrasim.trace.kinds import CollectiveType

Collective = CollectiveType
"""Collective types, by the schema's own enumeration."""

WITHOUT_REFERENCE = frozenset((*ROOTED, Collective.BARRIER))
"""Collectives that the reference simulator has no algorithm for: those with a root, and the barrier."""


class ScheduleError(InputError, ValueError):
    """A collective that cannot be scheduled as asked; also a ``ValueError``: only the caller knows file and place."""


@dataclass(frozen=True)
class Request:
    """What an algorithm is asked for: one phase of a collective on one group.

    Parameters
    ----------
    collective:
        What the phase does.
    members:
        Size of the group, at least 2.
    data_bytes:
        Bytes that the phase starts with: the contribution of one member for all-gather and gather, the whole buffer
        for every other collective.
    clockwise:
        Direction of rings; clockwise sends to the next higher member index.
    window:
        Most peers at a time of the direct algorithm; None is all of them.
    local:
        Whether the group is a communicator group smaller than the system (direct reduces by another pattern there).
    variant:
        Which of an algorithm's alternatives to use: 0 or 1, the two trees of the double binary tree.
    root:
        Member index of the root of a rooted collective.
    parameters:
        The algorithm's own parameters: all that it states when it is registered, each as given or as stated.
    shared_bus:
        Whether ``Row.from_memory`` and ``Row.send_back`` have to be right. Without, rows merge into longer runs.
    """

    collective: Collective
    members: int
    data_bytes: int
    clockwise: bool = True
    window: int | None = None
    local: bool = False
    variant: int = 0
    root: int = 0
    shared_bus: bool = True
    parameters: Mapping[str, int] = field(default_factory=dict)


class Peer(IntEnum):
    """How the peer number of an operation turns into a member index (own index i, n members)."""

    OFFSET = 0
    """(i + peer) mod n"""
    XOR = 1
    """i xor peer"""


class Op(NamedTuple):
    """One operation on the network: post a send to, or a receive from, a peer."""

    send: bool
    peer: int
    size_bytes: int


class Row(NamedTuple):
    """``repeat`` equal steps of a program: the bundle that each launches, the operations that each performs.

    ``from_memory`` and ``send_back`` matter only to the shared-bus model: the direction of the transfer (False: from
    the NPU to memory) and whether the data return.
    """

    repeat: int
    bundle_bytes: int
    reduce: bool
    from_memory: bool
    send_back: bool
    ops: tuple[Op, ...]


NO_GATE = 2**62


@dataclass(frozen=True)
class Program:
    """What one member does in one phase. The number of bundles is the sum of ``repeat`` over the rows."""

    rows: tuple[Row, ...]
    initial_bundles: int = 1
    start_ops: tuple[Op, ...] = ()
    gate_rows: int = NO_GATE
    gate_receives: int = 0
    gate_burst: int = 1
    peer: Peer = Peer.OFFSET

    @property
    def bundles(self) -> int:
        return sum(row.repeat for row in self.rows)


@dataclass(frozen=True)
class Schedule:
    """One phase of a collective for all members of a group.

    ``program_of`` has one int32 per member: ``programs[program_of[i]]`` is what member i does. ``final_bytes`` is what
    the next phase of the same collective starts with. ``endpoint_delay_always`` tells that even in a communicator group
    the endpoint delay (not the fixed 10 ns of local rings) applies, as for the double binary tree.
    """

    programs: tuple[Program, ...]
    program_of: NDArray[np.int32]
    final_bytes: int
    endpoint_delay_always: bool = False


def uniform(program: Program, members: int, final_bytes: int) -> Schedule:
    """The schedule in which all members do the same."""
    return Schedule((program,), np.zeros(members, np.int32), final_bytes)


def message(size_bytes: int) -> int:
    """A message's size: at least one byte, because the reference simulator aborts on an empty one."""
    return max(1, size_bytes)


def final_size(collective: Collective, members: int, data_bytes: int) -> int:
    """Bytes that a phase leaves to the next one (``data_bytes`` of its request)."""
    return KINDS[collective].result_bytes(data_bytes, members)
