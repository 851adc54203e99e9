"""Which collectives can wait for themselves for ever: queues that are fed from two sides (astra-system.md, 8.7 to 9).

A chunk waits in a queue of the dimension of its phase, where only so many chunks run at a time; a phase ends when all
ranks of its ring run it. An all-reduce that is split (localBWAware) goes up the dimensions by reduce-scatters and down
again by all-gathers, and with one queue per dimension both wait in the queue of each dimension between the first and
the last. Either side keeps its order, but which comes first depends on when a rank was ready. So one rank of a ring can
have all its places taken by chunks on their way up, another by chunks on their way down, and neither runs what the
other waits for. These are different chunks: it takes twice as many as there are places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.plans import Plan


def can_stall(plan: Plan, context: Context) -> bool:
    """Whether ranks that come at different times could wait for each other for ever in this collective."""
    return _is_fed_twice(plan, context) and 2 * context.running_limit <= plan.chunks


def _is_fed_twice(plan: Plan, context: Context) -> bool:
    """Whether a queue is fed from two sides. What waits in it from the beginning, in order, is none."""
    if len(plan.phases) < 3 or context.protocol.num_queues_per_dim > 1:
        return False  # with several queues the ways up and down have their own
    sides = Counter(phase.dim for phase in plan.phases[1:])
    return max(sides.values(), default=0) > 1


def warn_of_stalls(plans: Iterable[Sequence[Plan]], context: Context) -> None:
    """Warn of the collectives that can stall."""
    stalling = list({id(plan): plan for own in plans for plan in own if can_stall(plan, context)}.values())
    if stalling:
        context.notes.warn(
            f"if ranks come to it at different times, the run may never end: {cause_of(stalling, context)}; "
            f"{remedy_of(stalling)}"
        )


def cause_of(plans: Sequence[Plan], context: Context) -> str:
    """What lets these collectives stall, in words."""
    largest = max(plans, key=lambda plan: plan.use.size_bytes)
    more = f" (and {len(plans) - 1} more)" if len(plans) > 1 else ""
    return (
        f"an all-reduce of {largest.use.size_bytes} bytes{more} in {largest.chunks} chunks, of which "
        f"{context.running_limit} may run at a time in a dimension (active-chunks-per-dimension), uses a dimension on "
        "the way up and on the way down (localBWAware), and ranks may give their places to different chunks"
    )


def remedy_of(plans: Sequence[Plan]) -> str:
    """What keeps these collectives from stalling."""
    needed = max(plan.chunks for plan in plans) // 2 + 1
    return f"set active-chunks-per-dimension to {needed} or more, or collective-optimization to baseline"
