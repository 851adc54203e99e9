"""The tables of a network of packets, as kernels see them.

An *item* is what stands in the queue of events: a packet on a link, the end of a transmission, a timer. A packet is the
same item from its making to its end: on a link it waits in the queue of events, in a node in the queue of a port, and
the data packet that is acknowledged becomes its acknowledgement. Items, ports and flows count from 1, and 0 is none;
item p is the end of port p's transmission, for each port p.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.uint32]
"""Indices: without a sign, so that kernels need not see whether to count from the end."""
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Reals = NDArray[np.float64]

whole: Callable[[Any], int] = np.int64  # type: ignore[assignment]
"""A field of a record as an integer with a sign and 64 bits: mixed with others it would become a real number."""

# Kinds of items.
NOTHING: Final = 0
"""Free, or called off."""
SENT: Final = 1
"""The end of a transmission."""
DATA: Final = 2
ACK: Final = 3
NACK: Final = 4
PAUSE: Final = 5
"""A frame that stops or lets go one priority."""
WAKE: Final = 6
"""A host's port tries to send."""
INJECT: Final = 7
"""Flows of one instant start."""
APP: Final = 8
"""The first of two steps in which a flow's queue pair comes to be,"""
ADD: Final = 9
"""and the second."""
TIMER: Final = 10
"""Of a flow's congestion control; `bytes` says which."""
RESEND: Final = 11
"""The retransmission timer of a flow."""
LET_GO: Final = 12
"""A host's pause of its own ends; `bits` is the priority."""
CUT: Final = 13
"""A link goes down; then the run goes on with MOVE."""
TOKEN: Final = 14
"""It is the turn of the next event of another queue."""

ITEM: Final = np.dtype(
    [
        ("next", "u4"),  # behind it in its queue
        ("flow", "u4"),
        ("port", "u4"),  # where it arrives, or arrived
        ("bytes", "u2"),  # bytes on the wire
        ("kind", "u1"),
        ("bits", "u1"),  # priority, and the words below
        ("seq", "i8"),
        ("value", "i8"),  # time stamp, or code of PINT
    ],
    align=True,
)
"""Half a line of a cache (32 bytes)."""
PRIORITY: Final = 7
MARKED: Final = 8
"""Of `bits`: congestion was met; of a pause frame: stop."""
HOP: Final = 16
"""Of `bits`: one switch more has written its record."""
HOPS_SHIFT: Final = 4

PORT: Final = np.dtype(
    [
        ("peer", "u4"),  # the port at the other end
        ("node", "u4"),
        ("row", "u4"),  # of its rate in the table of times
        ("routes", "u4"),  # of its node in the table of ways
        ("delay", "i8"),  # of the link, ns
        ("carried", "i8"),  # bytes that have gone out
        ("queued", "i4"),  # bytes that wait
        ("busy", "u1"),  # 1: it transmits, 2: its link is down
        ("filled", "u1"),  # a bit for each queue with packets
        ("paused", "u1"),  # a bit for each priority
        ("turn", "u1"),  # the priority served last
        ("host", "u1"),
        ("code", "u1"),  # of its rate in records of switches
        ("shift", "u1"),  # threshold: the free buffer shifted by so many bits
        ("acks", "u1"),  # host: the priority whose pause holds acknowledgements
        ("headroom", "i4"),  # bytes
        ("low", "i4"),  # ECN: bytes above which packets may be marked,
        ("high", "i4"),  # and above which all are
        ("chance", "f8"),  # just below the latter
        ("first", "u4"),  # host: where the list of its queue pairs begins
        ("pairs", "u4"),  # how many there are
        ("served", "u4"),  # the place of the one served last
        ("wake", "u4"),  # the item that will wake it
        ("wake_at", "i8"),  # ns
        ("rate", "i8"),  # bit/s
        ("last_time", "i8"),  # PINT: of the last transmission,
        ("last_size", "i4"),  # and its bytes
        ("marks", "i4"),  # packets marked
        ("usage", "f8"),  # PINT
        ("loss", "u4"),  # its link's generator of errors
        ("drops", "u4"),  # packets for which the switch had no room
    ],
    align=True,
)
QUEUE: Final = np.dtype(
    [
        ("head", "u4"),
        ("tail", "u4"),
        ("egress", "i4"),  # bytes waiting to leave through this port
        ("most", "i4"),
        ("ingress", "i4"),  # bytes in the buffer that came in through this port,
        ("beyond", "i4"),  # and those of them in the headroom
        ("stopped", "u4"),  # whether the other end has been told to pause
        ("unused", "u4"),
    ],
    align=True,
)
"""One of the eight queues of a port (`clock.queue_at`). A host has its acknowledgements in queue 0."""
NODE: Final = np.dtype(
    [("shared", "i8"), ("total", "i8"), ("pauses", "i8"), ("pause_from", "i8"), ("held", "i8"), ("room", "i8")],
    align=True,
)
"""Bytes of the shared buffer, taken and in all; of hosts, pauses of their own still allowed, and from when. Where
g[WEIGHED] is set, bytes in the whole buffer, and its size."""
FLOW: Final = np.dtype(
    [
        ("next", "i8"),  # sequence of the next byte to send
        ("una", "i8"),  # the first byte that is not acknowledged
        ("bytes", "i8"),
        ("rate", "i8"),  # bit/s
        ("avail", "i8"),  # when it may send again, ns
        ("bound", "i8"),  # effective window, bytes; 0: none
        ("place", "u4"),  # in the list of its port
        ("nic", "u4"),  # the port through which it sends
        ("source", "u4"),
        ("target", "u4"),
        ("expected", "i8"),  # receiver: next byte,
        ("acked", "i8"),  # byte up to which it has acknowledged,
        ("nack_until", "i8"),  # ns until which it repeats no nack,
        ("nack_last", "i8"),  # and what that was for
        ("ports", "u4"),  # of source and, above, of target
        ("back", "u4"),  # the port of its acknowledgements
        ("last", "i4"),  # bytes of its last packet
        ("priority", "u1"),
        ("state", "u1"),
        ("told", "u1"),  # the receiver knows that all has come
        ("clean", "u1"),  # nothing was sent twice: when it is over, nothing of it is under way
        ("window", "i8"),
        ("trip", "i8"),  # round trip, ns
        ("top", "i8"),  # highest rate
        ("began", "i8"),  # ns
        ("ended", "i8"),  # ns
        ("moved", "i8"),  # ns of the last new acknowledgement
        ("patience", "i8"),  # ns before it sends again
        ("timer", "u4"),  # retransmission,
        ("tries", "u4"),  # how often in a row it did,
        ("retreats", "u4"),  # and how often in a row the sender was sent back
        ("resent", "i8"),  # bytes that it went back over
    ],
    align=True,
)
# Of `FLOW.state`.
ABSENT: Final = 0
LIVE: Final = 1
OVER: Final = 2
GIVEN_UP: Final = 3
WAITING: Final = 4
"""There was no way to its target when it was to begin."""

# Codes of the queue pairs in a port's list: a priority where it has something to send and room in its window, or
HELD: Final = 8
DONE: Final = 9

BUCKET: Final = np.dtype([("head", "u4"), ("tail", "u4")], align=True)
LATER: Final = np.dtype([("time", "i8"), ("order", "i8"), ("entry", "u4")], align=True)
LOSS: Final = np.dtype([("rate", "f8"), ("stream", "u4")], align=True)
PAUSED: Final = np.dtype([("time", "i8"), ("port", "u4"), ("stop", "u2"), ("priority", "u2")], align=True)
"""A pause frame that was received, and where."""
LOGGED: Final = np.dtype(
    [("time", "i8"), ("seq", "i8"), ("port", "u4"), ("flow", "u4"), ("bytes", "u2"), ("kind", "u1"), ("bits", "u1")],
    align=True,
)
"""A transmission."""
SAMPLE: Final = np.dtype(
    [
        ("time", "i8"),
        ("value", "i8"),  # bytes that wait, or the rate that the control allows, bit/s
        ("una", "i8"),  # of a flow: bytes acknowledged; of a port: -1
        ("which", "u4"),  # the port, or the flow
    ],
    align=True,
)
"""What the monitor found to be another than before."""
NIC_SEED: Final = 0x8BADF00D
"""Of the hash by which a host chooses among its ports."""
NONE: Final = 0
YES: Final = True
NO: Final = False
"""Arguments of kernels are given by these names, as ``state.YES``: for every literal a function is compiled anew."""
MANY: Final = 1 << 31
"""In the table of ways: there are several, and this is where their list begins."""


class Net(NamedTuple):
    """A network, what is on it, and what will happen.

    Attributes
    ----------
    items, ports, queues, nodes, flows
        records as above
    buckets, filled
        by ns modulo the ring's size: the items of that ns; a bit for each bucket that has some (32 in a word)
    later
        heap of items beyond the ring
    pairs, codes
        the queue pairs in the list of each host's port, and their codes
    words, reals
        the state of congestion control: g[WORDS] a flow, as integers and, in the same memory, as doubles
    records
        g[RECORDS] an item: what switches wrote into data packets (HPCC)
    ways
        by node times hosts plus host: the port towards it, 0, or MANY + where in `choices` the number of ways stands,
        with these behind it
    times
        ns by row of a rate plus bytes
    losses
        records as above
    streams
        six integers for each generator of errors, the first for marking; then the words of the C library's
    starts
        flows in order of their start
    changed
        ports whose links go down now or, with a minus, come back
    moved
        flows in order of their source, when a link goes down
    ended
        flows in order of their end
    pauses, log
        what was received and, if wanted, sent
    samples, seen
        what the monitor found; and the last of it, by port, then two words (rate, bytes) by flow
    g, x
        numbers and real numbers, as below
    """

    items: Any
    ports: Any
    queues: Any
    nodes: Any
    flows: Any
    buckets: Any
    filled: Longs
    later: Any
    pairs: Places
    codes: Bytes
    words: Longs
    reals: Reals
    records: Longs
    ways: Places
    choices: Places
    times: Ints
    losses: Any
    streams: Longs
    starts: Places
    changed: Longs
    moved: Places
    ended: Places
    pauses: Any
    log: Any
    samples: Any
    seen: Longs
    g: Longs
    x: Reals


# Of `Net.g`: where the run is,
(
    PRIMED, ALIVE, NOW, FREE, SPARE, LATER_COUNT, LATER_ORDER, STARTED, ENDED, PAUSES, LOGS, PENDING,
    EVENTS, PACKETS, MARKS, DRAWS, DROPPED, NACKS, LOST, RESENT, UNROUTED, RAND,
    # and how it goes
    MASK, CUT_AT, CUT_LINK, BURST, MODE, HEADER, PAYLOAD, ACK_BYTES, STAMPED, RATE_BOUND, WINDOWS_VARY,
    MARKING, CHUNK, ACK_INTERVAL, BACK_TO_ZERO, NIC_PAUSES, LOGGING, KEEPING, HOSTS, WORDS, RECORDS, DRIVEN,
    MOST_RTT, AI, HAI, MIN_RATE,
    # the monitor
    SAMPLE_NS, SAMPLE_FROM, SAMPLE_UNTIL, SAMPLES, SAMPLED_ENDS,
    # congestion control
    ALPHA_NS, DECREASE_NS, RECOVERY_NS, RECOVERY_STAGES, CLAMP_TARGET,
    FAST_REACT, MULTI_RATE, SAMPLE_FEEDBACK, MI_THRESHOLD, INT_UNIT, PINT_LIMIT, DCTCP_AI, MOST_HOPS,
    # faults of the reference
    WAKE_OF_ALL, PAUSES_NOTHING, ACKS_ALIKE, INTERVAL_FROM_START, DUPLICATES_SILENT, INFINITE_IS_ZERO,
    NO_RESENDING, WRAPS, CHUNKED_END, BYTES_STAY, REJECTS_ACKS, PAUSES_HELD, LEAST_WINDOW, WEIGHED,
    # driven by a workload
    RECEIVED, LEARNS_LATE, UNLISTED, LISTS, FLOWS_USED, FREE_FLOW, GLOBALS,
) = range(87)  # fmt: skip
LINE: Final = 64
"""Bytes of a line of the cache."""
# Of `Net.x`.
GAIN, U_TARGET, PINT_LOG_BASE, TWO, LINE_RATES, REAL_GLOBALS = 0, 1, 2, 3, 4, 12


def records(count: int, kind: Any) -> Any:
    """A table of so many records, all zero, that begins with a line of the cache: none of 32 bytes lies in two."""
    raw = np.zeros(count * kind.itemsize + LINE, np.uint8)
    first = -raw.ctypes.data % LINE
    return raw[first : first + count * kind.itemsize].view(kind).view(np.recarray)


def longer(table: Any, size: int) -> Any:
    """The same table with room for more."""
    new = records(size, table.dtype) if table.dtype.names else np.zeros(size, table.dtype)
    new[: table.size] = table
    return new
