"""The bundle pattern that ring, direct and halving-doubling share.

The three algorithms of the reference simulator run one packet engine. Each packet that it queues launches one bundle;
packets come in alternating blocks, ``parallel`` from the NPU to memory and then ``memory_run`` from memory to the NPU,
and only the latter reduce. The pattern is a property of the count of packets, so it is given here in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chakrasim.collectives.kinds import KINDS
from chakrasim.collectives.schedule import Collective, Request

REDUCE_SCATTERS = (Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_BLOCK)


class Run(NamedTuple):
    """``repeat`` successive bundles of the same kind."""

    repeat: int
    reduce: bool
    from_memory: bool
    send_back: bool


def runs(request: Request, parallel: int, memory_run: int, count: int) -> Iterator[Run]:
    """The kinds of ``count`` successive bundles, in runs.

    An all-reduce reduces in every second pair of blocks, a reduce-scatter in each. Bundles from memory send data back
    while more than ``parallel`` of their block remain, themselves included.
    """
    reduces = KINDS[request.collective].reduces
    if not reduces and not request.shared_bus:
        yield Run(count, False, False, False)
        return
    toggle = True
    while count > 0:
        reduce = reduces and (toggle or request.collective != Collective.ALL_REDUCE)
        for run in (
            Run(parallel, False, False, False),
            Run(memory_run - parallel, reduce, True, True),
            Run(min(parallel, memory_run), reduce, True, False),
        ):
            repeat = min(run.repeat, count)
            if repeat > 0:
                yield run._replace(repeat=repeat)
                count -= repeat
        toggle = not toggle


def block_bytes(request: Request) -> int:
    """Bytes of one member's block: its contribution to an all-gather, the n-th part of the buffer otherwise."""
    if request.collective == Collective.ALL_GATHER:
        return request.data_bytes
    return request.data_bytes // request.members
