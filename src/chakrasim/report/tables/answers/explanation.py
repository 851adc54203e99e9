"""Tables of an explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from chakrasim.explanation.result import CHANGES, Explanation, Share, SlowRank
from chakrasim.report.tables.cut import more_line
from chakrasim.text.amounts import plural, share_text, time_text
from chakrasim.text.layout import Section

MOST_ROWS: Final = 12
MOST_SLOW: Final = 5
TITLES: Final = {
    "ranks": "Ranks: slower and faster by what they compute",
    "kinds": "Communication by kind",
    "links": "Links",
    "op_classes": "Classes of operators",
    "modules": "Modules",
}


def explanation_sections(found: Explanation) -> list[Section]:
    """The makespan, what its critical path is made of, and who takes part in it."""
    return list(_sections(found))


def _sections(found: Explanation) -> Iterator[Section]:
    end = found.makespan_ns
    waiting = sum(row.waiting_ns for row in found.ranks)
    sums = sum(row.delay_cost_ns for row in found.ranks)
    yield Section(lines=(
        f"makespan {time_text(end)}; critical path over all ranks: {len(found.path):,} pieces, which sum to it",
        f"waiting for other ranks, over all ranks: {time_text(waiting)}; waiting caused sums to {time_text(sums)}",
    ))  # fmt: skip
    if found.slow_ranks:
        yield Section(lines=tuple(_slow(found, one) for one in found.slow_ranks[:MOST_SLOW]))
    made: Counter[str] = Counter()
    for piece in found.path:
        made[piece.kind] += piece.end_ns - piece.start_ns
    rows = tuple((kind, time_text(ns), share_text(ns, end)) for kind, ns in made.most_common())
    yield Section("The critical path, by what was done", ("what", "time", "share"), rows)
    for family, title in TITLES.items():
        yield _family(title, _order(getattr(found, family)), end)
    yield Section(lines=_reading(found))


def _slow(found: Explanation, one: SlowRank) -> str:
    row = next(row for row in found.ranks if row.name == one.rank)
    longer = f"{one.compute_ns / one.median_ns - 1:.1%}" if one.median_ns else "longer"
    return (
        f"rank {one.rank} is slow: it computes {time_text(round(one.compute_ns))}, {longer} more than the median of "
        f"{plural(one.equals, 'rank')} with as many nodes, and makes others wait {time_text(row.delay_cost_ns)} in all"
    )


def _order(rows: Sequence[Share]) -> list[Share]:
    return sorted(rows, key=lambda row: (-row.on_path_ns, -row.delay_cost_ns, -row.total_ns))


def _family(title: str, rows: Sequence[Share], end: int) -> Section:
    columns = ("name", "on the path", "share", "slack", "waited", "made others wait", "10 % slower", "10 % faster",
               "per ns slower", "until", "faster", "until")  # fmt: skip
    slower, faster = CHANGES.index(0.1), CHANGES.index(-0.1)
    cells = tuple(
        (
            str(row.name),
            time_text(row.on_path_ns),
            share_text(row.on_path_ns, end),
            "-" if row.slack_ns is None else time_text(row.slack_ns),
            time_text(row.waiting_ns),
            time_text(row.delay_cost_ns),
            *("-" if row.changes_ns is None else _signed(row.changes_ns[one]) for one in (slower, faster)),
            *_slope(row.slower, row.slower_until_ns),
            *_slope(row.faster, row.faster_until_ns),
        )
        for row in rows[:MOST_ROWS]
    )
    return Section(title, columns, cells, lines=more_line(rows, cells, "row"))


def _signed(ns: float) -> str:
    return f"{'-' if ns < 0 else '+'}{time_text(abs(round(ns)))}" if round(ns) else "0"


def _slope(slope: float | None, until: float | None) -> tuple[str, str]:
    if slope is None:
        return "-", "-"
    return f"{slope:+.3f}" if slope else "0", "for ever" if until is None else time_text(round(until))


def _reading(found: Explanation) -> tuple[str, ...]:
    lines = ["A slope is the change of the makespan per ns added to (or taken from) all that the row's nodes take, "
             "up to the time beside it."]  # fmt: skip
    if not all(row.by_engine for row in (*found.ranks, *found.op_classes)):
        lines.append("Slopes are those of the order in which things happened; where contention or an order may change, "
                     "simulate the change (chakrasim what-if).")  # fmt: skip
    if found.rank_classes is not None:
        lines.append(
            "Equal ranks were simulated as one: a row is of all ranks of its class, whose computing changes together; "
            "waiting is their sum."
        )
    return tuple(lines)
