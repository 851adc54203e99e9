"""What a replay runs: a program for each live rank, and an account of what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chakrasim.text.amounts import first_of

if TYPE_CHECKING:
    from chakrasim.replay.operators import OperatorCall

SEND: Final = "send"
RECV: Final = "recv"
COMPUTE: Final = "compute"
BARRIER: Final = "barrier"


@dataclass(frozen=True)
class Product:
    """``times`` times the product of ``batch`` matrices m x k and k x n."""

    batch: int
    m: int
    n: int
    k: int
    times: int = 1

    @property
    def flops(self) -> int:
        """Floating-point operations in all."""
        return 2 * self.batch * self.m * self.n * self.k * self.times


@dataclass(frozen=True)
class Operation:
    """What one rank does at one place of its program.

    Attributes
    ----------
    kind: a collective by its name in the schema, in lower case, `SEND`, `RECV` or `COMPUTE`.
    size_bytes: what Chakra calls ``comm_size``: of an all-gather or gather the part of one rank, of other collectives
        the whole input (of a scatter that of the root); 0 for compute.
    dtype: PyTorch's name of the element type.
    group: index into ``ReplayPlan.groups``; -1 for messages and compute.
    peer: live rank of the root or of the other side; -1 where there is none.
    tag: of a message.
    meeting: a number that is equal on all ranks that take part, in the order of which all ranks run; -1 for compute.
    waits: positions in the program of the communication that must have ended before this begins.
    duration_ns, products: of compute: how long it is to take, or what it is to multiply.
    calls: operators to be run, of compute.
    start_ns: when it began in the trace, since the earliest of all ranks.
    node, name: of the trace, for messages.
    """

    kind: str
    size_bytes: int = 0
    dtype: str = "uint8"
    group: int = -1
    peer: int = -1
    tag: int = 0
    meeting: int = -1
    waits: tuple[int, ...] = ()
    duration_ns: int = 0
    products: tuple[Product, ...] = ()
    calls: tuple[OperatorCall, ...] = ()
    start_ns: int = 0
    node: int = -1
    name: str = ""


@dataclass(frozen=True)
class Group:
    """A process group: its name in the trace, and its members among the live ranks."""

    name: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """What of a job is to be run: the ``compute`` that stands in, ``only`` these kinds (None: all), the ``first`` so
    many collectives and messages (0: all), all-to-alls whose sizes differ made equal (``rebalance``)."""

    compute: str = "none"
    only: tuple[str, ...] | None = None
    first: int = 0
    rebalance: bool = False


@dataclass(frozen=True)
class Coverage:
    """Nodes of the live ranks' traces that share a fate: ``why`` is "" for what is replayed."""

    what: str
    count: int
    size_bytes: int
    why: str = ""


@dataclass(frozen=True)
class ReplayPlan:
    """What is to be run.

    Attributes
    ----------
    source: the name that was given.
    trace_ranks: ranks that the trace has; ranks: that run.
    groups: of the live ranks; group 0 is that of all of them.
    programs: by live rank.
    meetings: how many collectives and messages there are.
    coverage: what becomes of the nodes.
    notes: what was assumed or changed, in sentences with counts.
    """

    source: str
    trace_ranks: int
    ranks: int
    groups: tuple[Group, ...]
    programs: tuple[tuple[Operation, ...], ...]
    meetings: int
    coverage: tuple[Coverage, ...]
    notes: tuple[str, ...] = field(default=())

    def members(self, rank: int, operation: Operation) -> int:
        """How many ranks take part."""
        return 2 if operation.group < 0 else len(self.groups[operation.group].members)


def describe(plan: ReplayPlan, rank: int, position: int) -> str:
    """An operation in words, for messages."""
    operation = plan.programs[rank][position]
    place = f"node {operation.node}, {operation.name!r}" if operation.name else f"node {operation.node}"
    if operation.kind == COMPUTE:
        return f"compute ({place})"
    size = f"{operation.kind} of {operation.size_bytes:,} bytes"
    if operation.kind in (SEND, RECV):
        way = "to" if operation.kind == SEND else "from"
        return f"{size} {way} rank {operation.peer} ({place})"
    return f"{size} of ranks {first_of(plan.groups[operation.group].members)} ({place})"
