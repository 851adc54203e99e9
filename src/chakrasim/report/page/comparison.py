"""The page of ``chakrasim compare``: the verdict, the causes as bars, and the tables."""

from __future__ import annotations

from typing import Final

from chakrasim.comparison.result import Comparison
from chakrasim.report.page.answer import sections_page
from chakrasim.report.page.parts import Bars, Fact, Page, Part, Series
from chakrasim.report.tables.answers.comparison import comparison_sections, signed, verdict_text
from chakrasim.report.tables.cut import brief
from chakrasim.text.amounts import time_text

MOST_BARS: Final = 40
LETTERS: Final = 80


def comparison_page(found: Comparison, *, question: str, warnings: tuple[str, ...] = ()) -> Page:
    """Figures are those of `Comparison.to_json`."""
    verdict = [
        Fact(f"{letter} takes", time_text(side.total_ns), f"{side.source}: {side.kind}, {side.what}")
        for letter, side in (("A", found.a), ("B", found.b))
    ]
    verdict.append(Fact("difference", signed(found.difference_ns), verdict_text(found)))
    return sections_page(question, comparison_sections(found), verdict, _causes(found), warnings)


def _causes(found: Comparison) -> list[Part]:
    """How much longer B takes for each of the first causes; what it is quicker at goes to the other side."""
    order = [i for i, cause in enumerate(found.causes[:MOST_BARS]) if cause.difference_ns]
    if not order:
        return []
    chosen = [found.causes[i] for i in order]
    labels = tuple(brief(f"{one.group}: {one.name}", LETTERS) for one in chosen)
    series = Series("B less A", tuple(one.difference_ns for one in chosen), "causes.*.difference_ns")
    left = len(found.causes) - len(chosen)
    lines = (f"{left:,} smaller causes are in the JSON only",) if left else ()
    return [Bars("What makes the difference, the largest first", labels, (series,), tuple(order), lines=lines)]
