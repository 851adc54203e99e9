"""Pages of answers that are tables: any command's sections, and those of what-if and trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from chakrasim.report.page.parts import Bars, Fact, Image, Page, Part, Series, plain, table_of
from chakrasim.report.picture.agreement import pairs_note, usable
from chakrasim.report.picture.measured import Measured, agreement_of, pairs_of
from chakrasim.scenarios.job_answer import JobAnswer
from chakrasim.scenarios.recorded import RecordedAnswer
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import plural, ranks_text, time_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.converter.folder.trace_folder import TraceReport

MOST_BARS: Final = 200


def sections_page(
    question: str,
    sections: Sequence[Section],
    verdict: Sequence[Fact] = (),
    parts: Sequence[Part] = (),
    warnings: Sequence[str] = (),
) -> Page:
    """A page of what a command prints, further parts before it."""
    tables = tuple(table_of(section) for section in sections if section.rows or section.lines)
    return Page(question, tuple(verdict), (*parts, *tables), warnings=tuple(warnings))


def agreement_parts(result: Measured) -> list[Part]:
    """Predicted against measured times, and the farthest of them in words; none where nothing was measured."""
    pairs = usable(pairs_of(result))
    if not pairs:
        return []
    title = "Simulated against measured" if isinstance(result, SimulationResult) else "Predicted against measured"
    return [Image(title, agreement_of(result), lines=tuple(pairs_note(pairs)))]


def what_if_page(answer: object, sections: Sequence[Section], *, question: str, warnings: Sequence[str]) -> Page:
    """The page of ``chakrasim what-if``, whatever was asked; figures are those of the answer's ``to_dict``."""
    verdict: list[Fact] = []
    parts: list[Part] = []
    if isinstance(answer, JobAnswer):
        verdict.append(Fact("the job takes now", time_text(answer.before_ns), f"{answer.before_ns:,} ns"))
        verdict += _outcome(answer)
        parts += _scenarios(answer)
    elif isinstance(answer, RecordedAnswer):
        labels = tuple("all steps" if one.step < 0 else f"step {one.step}" for one in answer.steps)
        before = Series(
            "before", tuple(one.before_ns / 1e3 for one in answer.steps), "steps.*.before_us", "microseconds"
        )
        after = Series("after", tuple(one.after_ns / 1e3 for one in answer.steps), "steps.*.after_us", "microseconds")
        parts += [Bars(f"{one.name} the change", labels, (one,)) for one in (before, after)]
    return sections_page(question, sections, verdict, parts, warnings)


def _outcome(answer: JobAnswer) -> Iterator[Fact]:
    found = answer.outcome
    if found is None:
        return
    how = "simulated again" if found.by_engine else "by the order in which things happened"
    yield Fact("; ".join(found.asked), time_text(round(found.after_ns)), f"{found.change:+.2%}, {how}")


def _scenarios(answer: JobAnswer) -> Iterator[Part]:
    if not answer.scenarios:
        return
    order = sorted(range(len(answer.scenarios)), key=lambda i: answer.scenarios[i].after_ns)[:MOST_BARS]
    chosen = [answer.scenarios[i] for i in order]
    lines = [f"now {time_text(answer.before_ns)}"]
    if len(chosen) < len(answer.scenarios):
        lines.append(f"the {len(chosen)} fastest of {len(answer.scenarios):,}")
    after = Series("makespan", plain([one.after_ns for one in chosen]), "scenarios.*.after_ns")
    yield Bars("Scenarios, the fastest first", tuple("; ".join(one.asked) for one in chosen), (after,), tuple(order),
               lines=tuple(lines))  # fmt: skip


def trace_page(report: TraceReport, sections: Sequence[Section], *, question: str) -> Page:
    """The page of ``chakrasim trace``; figures are those of its report."""
    ranks = report.ranks
    missing = list(report.missing)
    verdict = [
        Fact(
            "ranks",
            f"{len(ranks):,}",
            f"no trace of {ranks_text(missing)}" if missing else "all of the run",
            bool(missing),
        ),
        Fact(
            "nodes",
            f"{sum(rank.nodes for rank in ranks):,}",
            plural(sum(rank.collectives for rank in ranks), "collective"),
        ),
        Fact("warnings", f"{len(report.warnings) + sum(len(rank.warnings) for rank in ranks):,}"),
    ]
    labels = tuple(f"rank {rank.rank}" for rank in ranks)
    nodes = Series("nodes", tuple(rank.nodes for rank in ranks), "ranks.*.nodes", "count")
    starts = Series("starts after", tuple(rank.start_offset_ns for rank in ranks), "ranks.*.start_offset_ns")
    parts = [Bars("Nodes", labels, (nodes,)), Bars("When ranks start, after the first", labels, (starts,))]
    told = [*report.warnings, *(warning for rank in ranks for warning in rank.warnings)]
    return sections_page(question, sections, verdict, parts, told)
