"""What only shows when ranks are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.subject import ERROR, WARNING
from chakrasim.diagnosis.facts import RankFacts
from chakrasim.linker.communication.group_table import MOST_RANKS
from chakrasim.text import remedies
from chakrasim.text.amounts import ranks_text, time_text
from chakrasim.trace.linked.columns import MOST_DELAY_ONLY


def check_ranks(facts: Sequence[RankFacts], *, have_one_clock: bool) -> Iterator[Finding]:
    """Findings over all ranks; ``have_one_clock``: shared collectives tell how their clocks differ."""
    yield from check_delays(facts)
    yield from _absurd(facts)
    yield from _missing(facts)
    yield from _different(facts)
    if not have_one_clock:
        yield from _windows(facts)


def _absurd(facts: Sequence[RankFacts]) -> Iterator[Finding]:
    told = [fact for fact in facts if fact.world_size > MOST_RANKS]
    if told:
        yield Finding(
            "absurd-world-size",
            WARNING,
            f"the traces tell of {told[0].world_size:,} ranks, which no run has",
            "this number is not used",
            "record again, or give the trace that the recorder wrote",
            ranks=tuple(fact.rank for fact in told),
            evidence={"world_size": told[0].world_size},
        )


def _missing(facts: Sequence[RankFacts]) -> Iterator[Finding]:
    have = sorted(fact.rank for fact in facts)
    if not have:
        return
    worlds = Counter(fact.world_size for fact in facts if 0 < fact.world_size <= MOST_RANKS)
    if len(worlds) > 1:
        shown = ", ".join(f"{size} ({count})" for size, count in sorted(worlds.items()))
        yield Finding(
            "different-jobs",
            ERROR,
            f"the traces state different numbers of ranks: {shown}",
            "they are of different runs",
            "keep the traces of one run in a folder",
            evidence={"world_sizes": {str(size): count for size, count in sorted(worlds.items())}},
        )
        return
    world = next(iter(worlds)) if worlds else have[-1] + 1
    missing = world - sum(rank < world for rank in have)
    if missing:
        lacking = sorted(set(range(min(world, MOST_RANKS))) - set(have))
        named = ranks_text(lacking)
        others = ", ..." if missing > len(lacking) and not named.endswith("...") else ""
        known = f"the run had {world:,} ranks" if worlds else f"the highest rank is {have[-1]:,}"
        yield Finding(
            "missing-ranks",
            WARNING,
            f"{known}, but {missing:,} of them have no trace: {named}{others}",
            "collectives cannot be compared with the missing ranks; a simulation needs all ranks, or one alone with "
            "recorded durations",
            "add the missing traces",
            ranks=tuple(lacking),
            evidence={"world_size": world, "found": len(have), "missing": missing},
        )
    beyond = [rank for rank in have if worlds and rank >= world]
    if beyond:
        yield Finding(
            "rank-beyond-world",
            ERROR,
            f"the run had {world:,} ranks, but there are traces of {ranks_text(beyond)}",
            "ranks are numbered wrongly, or traces of several runs are mixed",
            "correct the names, or give a map",
            ranks=tuple(beyond),
            evidence={"world_size": world},
        )


def _different(facts: Sequence[RankFacts]) -> Iterator[Finding]:
    steps = {fact.rank: fact.steps for fact in facts if fact.events}
    if len(set(steps.values())) > 1:
        common = Counter(steps.values()).most_common(1)[0][0]
        odd = tuple(rank for rank, numbers in steps.items() if numbers != common)
        yield Finding(
            "different-steps",
            WARNING,
            f"ranks {ranks_text(odd)} recorded other steps than most: {_range(steps[odd[0]])}, not {_range(common)}",
            "only steps that all ranks recorded can be compared or simulated together",
            "give every rank the same schedule",
            ranks=odd,
            evidence={str(rank): list(numbers) for rank, numbers in steps.items()},
        )
    without = tuple(fact.rank for fact in facts if fact.events and not fact.kernels)
    if without and any(fact.kernels for fact in facts):
        yield Finding(
            "ranks-without-kernels",
            ERROR,
            f"ranks {ranks_text(without)} have no kernels, others do",
            "their device time is missing",
            remedies.ACTIVITIES,
            ranks=without,
        )


def _range(numbers: Sequence[int]) -> str:
    return (
        "none" if not numbers else f"step {numbers[0]}" if len(numbers) == 1 else f"steps {numbers[0]} to {numbers[-1]}"
    )


def _windows(facts: Sequence[RankFacts]) -> Iterator[Finding]:
    """Ranks that were not recorded at the same time."""
    spans = [fact for fact in facts if fact.span_ns]
    if len(spans) < 2:
        return
    latest = max(spans, key=lambda fact: fact.start_ns)
    earliest = min(spans, key=lambda fact: fact.start_ns + fact.span_ns)
    gap = latest.start_ns - (earliest.start_ns + earliest.span_ns)
    if gap > 0:
        yield Finding(
            "windows-apart",
            WARNING,
            f"rank {latest.rank} starts {time_text(gap)} after rank {earliest.rank} has ended, and no collectives tell "
            "how their clocks differ",
            "the ranks were not recorded at the same time, or their clocks differ: they cannot be put on one time line",
            "record all ranks in the same steps",
            ranks=(earliest.rank, latest.rank),
            evidence={"gap_ns": gap},
        )


def check_delays(facts: Sequence[RankFacts]) -> Iterator[Finding]:
    """A finding if delays that nothing explains are much of some step's critical path."""
    high = [
        (share, fact, step)
        for fact in facts
        for step, share in fact.delay_only_share.items()
        if share > MOST_DELAY_ONLY
    ]
    if not high:
        return
    share, worst, step = max(high, key=lambda entry: entry[0])
    numbers = sorted({fact.rank for _, fact, _ in high})
    others = f" (the most of ranks {ranks_text(numbers)})" if len(numbers) > 1 else ""
    where = "the whole trace" if step == "-1" else f"step {step}"
    longest = worst.longest_delay
    source, remedy = _why_delayed(worst)
    yield Finding(
        "unexplained-delays",
        WARNING,
        f"{100 * share:.1f} % of the critical path of {where} on rank {worst.rank} is delay that no dependency explains"
        + others
        + (f"; the longest: {longest}" if longest else ""),
        f"{source}: a replay repeats them as they were, so its error says nothing about them; a "
        "simulation on a machine leaves them out",
        remedy,
        tuple(numbers),
        evidence={"delay_only_share": {str(fact.rank): fact.delay_only_share for fact in facts}},
    )


def _why_delayed(facts: RankFacts) -> tuple[str, str]:
    """Where such delays come from, and what helps."""
    longest = facts.longest_delay
    if longest is not None and longest.begins_stream and longest.share > 0.5:
        return (
            "most of it is before the first work of a stream, which waited for what is not in the trace, such as work "
            "launched before the recording began",
            "begin to record when the device is idle (torch.cuda.synchronize()), or leave the first step out",
        )
    if facts.kernels > 0:
        return (
            "most often these are waits between streams that were not recorded",
            f"record synchronisation: {remedies.SYNC_EVENTS}",
        )
    return "most often these are threads that waited for a processor", "record on a machine that is not busy"
