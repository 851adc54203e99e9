"""How alike two jobs, or two sets of jobs, are, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from chakrasim.comparison.jobs.result import Decision, JobsComparison, OnMachine, PairOfJobs
from chakrasim.text.amounts import number_text, percent_text, plural, share_text, time_text
from chakrasim.text.layout import Section

_MOST: Final = 12
_WHAT: Final = {"flops": "operations", "moved": "bytes of compute", "sent": "bytes sent", "calls": "calls"}


def compare_jobs_sections(found: JobsComparison) -> Iterator[Section]:
    """The tables of ``chakrasim compare-jobs``."""
    count = len(found.pairs)
    rows = tuple(
        (side, f"{jobs:,}", f"{valid:,} of {count:,}", source)
        for side, jobs, valid, source in zip("AB", found.counts, found.valid, (found.a, found.b), strict=True)
    )
    yield Section("Two jobs" if found.counts == (1, 1) else "Two sets of jobs", ("", "jobs", "valid", "source"), rows,
                  (0, 3), lines=found.notes)  # fmt: skip
    if count == 1:
        yield from _one(found.pairs[0])
    elif count:
        yield _many(found)
    times = [(pair, one) for pair in found.pairs for one in pair.machines]
    columns = ("machine", "A", "B", "A over B", "parts apart", "exposed in A", "in B", "busiest link of A", "of B")
    table = tuple(_time_row(pair, one, several=count > 1) for pair, one in times[:_MOST])
    head = ("jobs", *columns) if count > 1 else columns
    lines = (f"{len(times) - _MOST:,} more in the JSON",) if len(times) > _MOST else ()
    faults = tuple(
        f"{one.machine}: {side}: {fault}"
        for _, one in times
        for side, fault in zip("AB", one.faults, strict=True)
        if fault
    )
    yield Section("Times", head, table, (0, 1) if count > 1 else (0,), lines=(*lines, *faults[:_MOST]))
    decided = tuple(_decision_row(one) for one in found.decisions[:_MOST])
    yield Section("Decisions", ("which", "by", "among", "Kendall", "by A", "by B", "regret"), decided, (0, 1, 4, 5))
    yield _privacy(found)


def _one(pair: PairOfJobs) -> Iterator[Section]:
    rows = tuple((name, number_text(a), number_text(b)) for name, (a, b) in pair.structure.items())
    lines = (
        f"shares of roles {percent_text(pair.roles_apart)} apart, of in-degrees "
        f"{percent_text(pair.in_degrees_apart)}, of out-degrees {percent_text(pair.out_degrees_apart)}",
    )
    yield Section("Structure", ("figure", "A", "B"), rows, (0,), lines=lines)
    work = tuple(
        (_WHAT[one.what], one.kind, f"{one.a:,}", f"{one.b:,}", percent_text(one.relative)) for one in pair.work[:_MOST]
    )
    more = (f"{plural(len(pair.work) - _MOST, 'smaller difference')} in the JSON",) if len(pair.work) > _MOST else ()
    yield Section(
        "Work, the largest difference first", ("what", "of", "A", "B", "difference"), work, (0, 1), lines=more
    )


def _many(found: JobsComparison) -> Section:
    """Medians and the worst over pairs."""
    figures = {
        "shares of roles apart": [pair.roles_apart for pair in found.pairs],
        "in-degrees apart": [pair.in_degrees_apart for pair in found.pairs],
        "out-degrees apart": [pair.out_degrees_apart for pair in found.pairs],
        "largest difference of work": [pair.largest for pair in found.pairs],
        "step time, either way": [
            abs(one.difference) for pair in found.pairs for one in pair.machines if one.difference is not None
        ],
        "parts apart": [one.apart for pair in found.pairs for one in pair.machines if one.apart is not None],
    }
    rows = tuple(
        (name, percent_text(median(values)), percent_text(max(values))) for name, values in figures.items() if values
    )
    return Section(f"Over {plural(len(found.pairs), 'pair')} of jobs", ("figure", "median", "largest"), rows, (0,))


def _time_row(pair: PairOfJobs, one: OnMachine, *, several: bool) -> tuple[str, ...]:
    times = ("-" if time is None else time_text(time) for time in one.step_ns)
    change = "-" if one.difference is None else f"{one.difference:+.2%}"
    exposed = (percent_text(share) if share is not None else "-" for share in one.exposed_share)
    links = (f"{name}, {percent_text(share)}" if name else "-"
             for name, share in zip(one.link, one.link_share, strict=True))  # fmt: skip
    apart = "-" if one.apart is None else percent_text(one.apart)
    row = (one.machine, *times, change, apart, *exposed, *links)
    return (pair.a, *row) if several else row


def _decision_row(one: Decision) -> tuple[str, ...]:
    rank = "-" if one.kendall is None else f"{one.kendall:+.3f}"
    return (f"fastest {one.what}", one.where, f"{one.among:,}", rank, *one.chosen, f"{one.regret:.2%}")


def _privacy(found: JobsComparison) -> Section:
    told = found.privacy
    distances = [distance for *_, distance in told.nearest]
    rows = [("A's jobs to the nearest of B", f"{min(distances):.4f}", f"{median(distances):.4f}")]
    if told.own:
        rows.append(("B's jobs to the nearest other", f"{min(told.own):.4f}", f"{median(told.own):.4f}"))
    names = f": {', '.join(told.examples[:4])}" if told.examples else ""
    share = share_text(told.names_shared, told.names)
    lines = (
        f"{told.names_shared:,} of A's {told.names:,} names ({share}) occur in B{names}",
        f"{told.works_shared:,} of A's {told.works:,} names with exact sizes occur in B",
    )
    return Section("Privacy: distances", ("from", "least", "median"), tuple(rows), (0,), lines=lines)
