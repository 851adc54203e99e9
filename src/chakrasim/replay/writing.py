"""A rank's program: communication in the order of the meetings, compute between, each with what it waits for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chakrasim.replay.meetings import Call, mask_of
from chakrasim.replay.operators import OperatorCall, call_of
from chakrasim.replay.plan import COMPUTE, Operation, Product
from chakrasim.replay.recorded import Facts, Wish

Shape = tuple[int, int, int, int]

DONE, SILENT, TIMED = range(3)
"""What became of compute nodes: they are stood in for, they say nothing to go by, they have only a duration."""


class ProgramWriter:
    """Writes one rank's program.

    Everything that is waited for stands earlier in the order of the meetings: the first meeting that is not over can
    therefore always go on, whatever the ranks do.
    """

    def __init__(self, facts: Facts, calls: Sequence[Call], compute: str) -> None:
        self.facts, self.compute = facts, compute
        self.calls = calls
        self.replayed = mask_of(call.number for call in calls)
        self.program: list[Operation] = []
        self.fates: Counter[int] = Counter()
        self._position: dict[int, int] = {}
        self._waited = 0
        self._begin_stretch()

    def write(
        self, compute: Sequence[Wish], meeting: Mapping[int, int], dtypes: Mapping[int, str]
    ) -> tuple[Operation, ...]:
        """The program; compute stands in front of what comes later in the trace. ``meeting`` is by `Call.number`,
        ``dtypes`` by meeting: one element type for all that take part."""
        posted = 0
        upcoming, pending = deque(compute), deque[Wish]()
        for call in sorted(self.calls, key=lambda call: meeting[call.number]):
            while upcoming and upcoming[0].place < call.wish.place:
                pending.append(upcoming.popleft())
            for _ in range(len(pending)):
                wish = pending.popleft()
                if wish.after & self.replayed & ~posted:
                    pending.append(wish)
                else:
                    self._compute(wish)
            self._end_stretch()
            waits, number = self._waits(call.wish), meeting[call.number]
            self._position[call.number] = len(self.program)
            start = self.facts.start_ns(call.wish.node)
            self.program.append(
                replace(call.operation, meeting=number, waits=waits, dtype=dtypes[number], start_ns=start)
            )
            posted |= 1 << call.number
        for wish in (*pending, *upcoming):
            self._compute(wish)
        self._end_stretch()
        return tuple(self.program)

    def _waits(self, wish: Wish) -> tuple[int, ...]:
        """What must end first, without what has been waited for already."""
        needed = wish.after & self.replayed & ~self._waited
        if not needed:
            return ()
        self._waited |= needed
        return tuple(self._position[number] for number in _bits(needed))

    # -- compute: nodes with nothing between them are one operation ----------------------------------------------------

    def _begin_stretch(self, first: int = -1, waits: tuple[int, ...] = ()) -> None:
        self._first, self._first_waits = first, waits
        self._duration_ns = 0
        self._products: list[tuple[Shape, int]] = []
        self._calls: list[OperatorCall] = []

    def _end_stretch(self) -> None:
        if self._first >= 0:
            products = tuple(Product(*shape, times) for shape, times in self._products)
            name = self.facts.trace.name(self._first)
            self.program.append(
                Operation(
                    COMPUTE,
                    waits=self._first_waits,
                    duration_ns=self._duration_ns,
                    products=products,
                    calls=tuple(self._calls),
                    start_ns=self.facts.start_ns(self._first),
                    node=self._first,
                    name=name,
                )
            )
        self._begin_stretch()

    def _compute(self, wish: Wish) -> None:
        multiply, run = self.compute == "matmul", self.compute == "operators"
        shape = self.facts.product(wish.node) if multiply else None
        duration = self.facts.duration_ns(wish.node) if shape is None and not run else 0
        if shape is None and not duration and not run:
            self.fates[SILENT] += 1
            return
        self.fates[DONE] += 1
        self.fates[TIMED] += multiply and shape is None
        waits = self._waits(wish)
        if waits or self._first < 0:
            self._end_stretch()
            self._begin_stretch(wish.node, waits)
        self._duration_ns += duration
        if run:
            self._calls.append(call_of(self.facts.trace, wish.node))
        if shape is not None:
            times = 1
            if self._products and self._products[-1][0] == shape:
                times += self._products.pop()[1]
            self._products.append((shape, times))


def _bits(mask: int) -> list[int]:
    """The numbers of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
