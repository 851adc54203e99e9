"""What a congestion control is: the kernels that hosts and switches call, and what it takes along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Hook = Callable[[Any, int, int], None]


@dataclass(frozen=True, eq=False)
class Control:
    """A congestion control, as kernels (`chakrasim.jit.inner`) of the network `n` and two numbers.

    Attributes
    ----------
    name
        for people
    begin
        ``(n, flow, 0)``: a flow starts, at the rate of its port; its words are 0
    on_ack
        ``(n, flow, item)``: its sender has an acknowledgement, ``n.items[item]``
    on_timer
        ``(n, flow, which)``: a timer that it started (`pairs.start_timer`) has run out
    end
        ``(n, flow, 0)``: the flow is over; its timers are to be stopped
    at_dequeue
        ``(n, port, item)``: a data packet leaves a switch through a port
    words, words_a_hop
        of 8 bytes that a flow has in ``n.words`` and ``n.reals``, and more of them for each switch of the longest way,
        which then writes into a packet's ``n.records``, too
    header_bytes
        that each packet takes along
    stamped
        whether data packets bring the time of their sending, in ``n.items[item].value``, there and back
    """

    name: str
    begin: Hook
    on_ack: Hook
    on_timer: Hook | None = None
    end: Hook | None = None
    at_dequeue: Hook | None = None
    words: int = 1
    words_a_hop: int = 0
    header_bytes: int = 0
    stamped: bool = False
