"""How much of what the ranks did no dependency explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.subject import WARNING
from chakrasim.diagnosis.facts import RankFacts
from chakrasim.text import remedies
from chakrasim.text.amounts import ranks_text
from chakrasim.trace.linked.columns import MOST_DELAY_ONLY


def check_delays(ranks: Sequence[RankFacts]) -> Iterator[Finding]:
    """A finding if delays that nothing explains are much of some step's critical path."""
    high = [
        (share, facts, step)
        for facts in ranks
        for step, share in facts.delay_only_share.items()
        if share > MOST_DELAY_ONLY
    ]
    if not high:
        return
    share, worst, step = max(high, key=lambda entry: entry[0])
    numbers = sorted({facts.rank for _, facts, _ in high})
    others = f" (the most of ranks {ranks_text(numbers)})" if len(numbers) > 1 else ""
    where = "the whole trace" if step == "-1" else f"step {step}"
    on_device = worst.kernels > 0
    source = "waits between streams that were not recorded" if on_device else "threads that waited for a processor"
    remedy = f"record synchronisation: {remedies.SYNC_EVENTS}" if on_device else "record on a machine that is not busy"
    yield Finding(
        "unexplained-delays",
        WARNING,
        f"{100 * share:.1f} % of the critical path of {where} on rank {worst.rank} is delay that no dependency explains"
        + others,
        f"most often these are {source}: a replay repeats them as they were, so its error says nothing about them; a "
        "simulation on a machine leaves them out",
        remedy,
        tuple(numbers),
        evidence={"delay_only_share": {str(facts.rank): facts.delay_only_share for facts in ranks}},
    )
