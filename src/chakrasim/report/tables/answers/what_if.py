"""Tables of what would be in a simulated or replayed job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chakrasim.report.tables.cut import more_line
from chakrasim.scenarios.job_answer import JobAnswer
from chakrasim.scenarios.job_stragglers import JobStragglers
from chakrasim.scenarios.recorded import RecordedAnswer
from chakrasim.scenarios.simulated import Outcome
from chakrasim.text.amounts import time_text
from chakrasim.text.layout import Section
from chakrasim.trace.linked.columns import MOST_DELAY_ONLY

MOST_ROWS: Final = 12


def recorded_sections(found: RecordedAnswer) -> list[Section]:
    """The steps of one rank, before and after."""
    rows = tuple(
        (
            "all" if one.step < 0 else str(one.step),
            time_text(one.before_ns),
            time_text(round(one.after_ns)),
            f"{one.after_ns / one.before_ns - 1:+.2%}" if one.before_ns else "-",
            "-" if one.delay_only_share is None else f"{one.delay_only_share:.1%}",
        )
        for one in found.steps
    )
    unexplained = any((one.delay_only_share or 0.0) > MOST_DELAY_ONLY for one in found.steps)
    lines = (
        "delay only: the share of the step's critical path that no dependency explains, and that therefore cannot move",
        *([f"the longest such delay: {found.longest}"] if unexplained and found.longest else []),
        f"waits between streams: {found.waits:,}, of which {found.inferred:,} were found from calls and times",
    )
    columns = ("step", "before", "after", "change", "delay only")
    return [Section(f"What if {', '.join(found.asked)}", columns, rows, lines=lines)]


def simulated_sections(found: JobAnswer) -> list[Section]:
    """The answers, each with how it was found."""
    return list(_sections(found))


def _sections(found: JobAnswer) -> Iterator[Section]:
    outcomes = [*([found.outcome] if found.outcome else []), *found.scenarios]
    if outcomes:
        rows = tuple(_row(one) for one in outcomes[:MOST_ROWS])
        how = "order: things happen in the order of this run; engine: simulated again"
        more = (*more_line(outcomes, rows, "scenario"), how)
        yield Section(
            f"What if (now {time_text(found.before_ns)})", ("what", "makespan", "change", "by"), rows, (0, 3), more
        )
    else:
        yield Section(lines=(f"makespan {time_text(found.before_ns)}",))
    if found.stragglers is not None:
        yield from _stragglers(found.stragglers)
    if found.drawn is not None:
        content = found.drawn.to_dict()
        spread = tuple(
            (f"{float(level):.0%}", *(time_text(round(own[f"{name}_ns"])) for name in ("value", "low", "high")))
            for level, own in content["quantiles"].items()
        )
        head = f"mean {time_text(round(content['mean_ns']))}, deviation {time_text(round(content['sd_ns']))}"
        title = f"Ranks that differ by chance: {head}, of {content['draws']:,} draws"
        yield Section(title, ("quantile", "makespan", "from", "to"), spread, lines=("from, to: holds it with 95 %",))


def _row(one: Outcome) -> tuple[str, str, str, str]:
    change = one.after_ns / one.before_ns - 1 if one.before_ns else 0.0
    return (
        "; ".join(one.asked),
        time_text(round(one.after_ns)),
        f"{change:+.2%}",
        "engine" if one.by_engine else "order",
    )


def _stragglers(found: JobStragglers) -> Iterator[Section]:
    ideal = time_text(round(found.ideal_ns))
    title = f"Stragglers: {found.slowdown:.4f} times as long as with all equal nodes equal ({ideal})"
    yield Section(title, lines=(_worst(found),))
    every = [(value, f"{family} {name}") for family, own in found.only.items() for name, value in own.items()]
    every.sort(key=lambda entry: -entry[0])
    rows = tuple((name, f"{value:.4f}") for value, name in every[:MOST_ROWS])
    yield Section("Slowdown with only this as it is", ("what", "S_x"), rows, lines=more_line(every, rows, "row"))


def _worst(found: JobStragglers) -> str:
    ranks = ", ".join(map(str, found.worst))
    if found.removal is None or found.addition is None:
        return "nothing is slower than its equals"
    return (
        f"the worst ranks ({ranks}) explain {found.removal:.1%} of it by being ideal, and {found.addition:.1%} by "
        "being the only ones that are not"
    )
