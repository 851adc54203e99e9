"""Pages of why: the critical path as a timeline, and who is on it and who makes others wait, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chakrasim.explanation.result import Explanation
from chakrasim.report.page.parts import Bars, Fact, Lane, Page, Part, Series, Timeline, table_of
from chakrasim.report.tables.answers.explanation import explanation_sections
from chakrasim.text.amounts import share_text, time_text

MOST_PIECES: Final = 3_000
MOST_LATE: Final = 40


def explanation_page(found: Explanation, *, question: str) -> Page:
    """The page of ``chakrasim explain``; figures are those of `Explanation.to_dict`."""
    waiting = sum(row.waiting_ns for row in found.ranks)
    first = max(found.ranks, key=lambda row: row.on_path_ns, default=None)
    verdict = [Fact("the job takes", time_text(found.makespan_ns), f"{found.makespan_ns:,} ns")]
    if first is not None:
        share = share_text(first.on_path_ns, found.makespan_ns)
        verdict.append(Fact("longest on the critical path", f"rank {first.name}", f"{share} of it"))
    verdict.append(Fact("waiting for other ranks", time_text(waiting), "over all ranks"))
    verdict.append(Fact("slow ranks", f"{len(found.slow_ranks)}", "compute over 1 % longer than their equals"))
    return Page(question, tuple(verdict), tuple(explanation_parts(found)), warnings=found.warnings)


def explanation_parts(found: Explanation) -> Iterator[Part]:
    """The critical path, who was late, and the tables of the explanation."""
    yield _path(found)
    late = sorted(
        (i for i, row in enumerate(found.ranks) if row.delay_cost_ns), key=lambda i: -found.ranks[i].delay_cost_ns
    )
    if late:
        shown = late[:MOST_LATE]
        caused = tuple(found.ranks[i].delay_cost_ns for i in shown)
        costs = Series("made others wait", caused, "explain:ranks.*.delay_cost_ns", colour="#e45756")
        lines = [
            "waiting of others that the rank's nodes caused, over all ranks; of a folded job a bar is a class of ranks"
        ]
        if len(late) > len(shown):
            lines.append(f"{len(late) - len(shown):,} ranks that caused less are left out")
        labels = tuple(f"rank {found.ranks[i].name}" for i in shown)
        yield Bars("Who was late", labels, (costs,), tuple(shown), lines=tuple(lines))
    for section in explanation_sections(found):
        if section.rows or section.lines:
            yield table_of(section)


def _path(found: Explanation) -> Timeline:
    pieces = [piece for piece in found.path if piece.end_ns > piece.start_ns]
    kept = sorted(sorted(pieces, key=lambda one: one.start_ns - one.end_ns)[:MOST_PIECES], key=lambda one: one.start_ns)
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(piece.kind for piece in kept))}
    names: dict[str, int] = {}
    events = tuple(
        (
            kinds[one.kind],
            one.start_ns,
            one.end_ns,
            names.setdefault(_name(one.rank, one.name), len(names)),
            kinds[one.kind],
        )
        for one in kept
    )
    lines = [f"{len(found.path):,} pieces, which sum to the makespan"]
    if len(kept) < len(pieces):
        lost = sum(one.end_ns - one.start_ns for one in pieces) - sum(one.end_ns - one.start_ns for one in kept)
        lines.append(f"{len(pieces) - len(kept):,} shorter ones, {time_text(lost)} together, are left out")
    lanes = tuple(Lane(kind, "path") for kind in kinds)
    return Timeline("Critical path", lanes, events, tuple(names), tuple(kinds), lines=tuple(lines))


def _name(rank: int, name: str) -> str:
    return f"rank {rank}: {name[:120]}"
