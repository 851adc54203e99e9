"""What stragglers cost, as tables."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.scenarios.distribution import StepDistribution
from chakrasim.scenarios.quantiles import LEVELS
from chakrasim.scenarios.straggler_answer import StragglerAnswer
from chakrasim.scenarios.stragglers import Share, Stragglers
from chakrasim.text.amounts import plural, time_text
from chakrasim.text.layout import Section

MOST_ROWS: Final = 8
_SAID: Final = {"optype": "kind", "stage": "stage", "dp_rank": "replica"}


def straggler_sections(found: StragglerAnswer) -> list[Section]:
    """The tables that the command prints."""
    sections = [_head(found.found), _alone(found.found), _shares(found.found)]
    if found.beside is not None:
        before, after = found.beside.before_s, found.beside.after_s
        rows = (
            ("replayed", _seconds(before.mean()), _seconds(after.mean()), _percent(after.mean() / before.mean() - 1)),
            ("fastest", _seconds(before.min()), _seconds(after.min()), _percent(after.min() / before.min() - 1)),
            ("slowest", _seconds(before.max()), _seconds(after.max()), _percent(after.max() / before.max() - 1)),
        )
        title = f"What if {', '.join(found.beside.asked)}"
        sections.append(Section(title, ("step", "before", "after", "change"), rows))
    if found.drawn is not None:
        sections.append(_distribution(found.drawn, found.drawn_after))
    return sections


def _head(found: Stragglers) -> Section:
    measured, replayed, ideal = (each.mean() for each in (found.measured_s, found.replayed_s, found.ideal_s))
    slow = found.replayed_s / found.ideal_s
    rows = (
        ("measured", _seconds(measured)),
        ("replayed", f"{_seconds(replayed)}, {_percent(replayed / measured - 1)} of what was measured"),
        ("ideal", f"{_seconds(ideal)}: all operations of a kind alike"),
        ("slowdown", f"{found.slowdown:.4g}; of single steps {slow.min():.4g} to {slow.max():.4g}"),
    )
    return Section(f"Stragglers in {plural(len(found.step), 'step')}, means", (), rows, (0, 1))


def _alone(found: Stragglers) -> Section:
    """The largest slowdowns, over all dimensions."""
    named = [
        (value, f"{_SAID[dimension]} {name}")
        for dimension in found.only_s
        for name, value in found.slowdown_of(dimension).items()
    ]
    ordered = sorted(named, key=lambda each: -each[0])
    rows = tuple((name, f"{value:.4g}") for value, name in ordered[:MOST_ROWS])
    left = len(ordered) - len(rows)
    lines = (f"{left} more in --json",) if left > 0 else ()
    return Section("Slowdown with only these as recorded", ("what", "slowdown"), rows, (0,), lines)


def _shares(found: Stragglers) -> Section:
    workers = [f"dp rank {replica}, stage {stage} (rank {rank})" for replica, stage, rank in found.worst_workers]
    rows = (
        ("last stage", *_share(found.last_stage)),
        ("worst 3 % of workers", *_share(found.worst)),
    )
    lines = [f"worst: {'; '.join(workers[:MOST_ROWS])}"]
    if len(workers) > MOST_ROWS:
        lines.append(f"and {len(workers) - MOST_ROWS} more in --json")
    columns = ("of", "gone without them", "there with them alone")
    return Section("Share of the slowdown", columns, rows, (0,), tuple(lines))


def _share(share: Share) -> tuple[str, str]:
    one, other = ("n/a" if np.isnan(each) else f"{100 * each:.1f} %" for each in (share.removal, share.addition))
    return one, other


def _distribution(drawn: StepDistribution, after: StepDistribution | None) -> Section:
    title = f"A step, from {plural(len(drawn.time_s), 'draw')} of {plural(drawn.learned, 'recorded step')}"
    every = [drawn] if after is None else [drawn, after]
    rows = [
        ("mean", *(_seconds(each.time_s.mean()) for each in every)),
        ("deviation", *(_seconds(each.time_s.std()) for each in every)),
    ]
    for level in LEVELS:
        found = [each.quantile(level) for each in every]
        texts = [f"{_seconds(one.value)} ({_seconds(one.low)} to {_seconds(one.high)})" for one in found]
        rows.append((f"{100 * level:g} %", *texts))
    columns = ("at most", "time (95 % interval)") if after is None else ("at most", "before", "after")
    lines = (f"drawn in blocks: what a {drawn.block} did belongs together" if drawn.block != "step" else
             "drawn in blocks of whole steps",)  # fmt: skip
    return Section(title, columns, tuple(rows), (0,), lines)


def _seconds(value: float) -> str:
    return time_text(1e9 * value)


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"
