"""Tables of a job with failures."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.reliability.goodput import Goodput
from chakrasim.text.amounts import percent_text, time_text
from chakrasim.text.layout import Section


def goodput_sections(found: Goodput) -> list[Section]:
    """The ratio with its interval, beside closed forms; where time goes; what it costs."""
    return list(_sections(found))


def _sections(found: Goodput) -> Iterator[Section]:
    spec = found.spec
    rows = [
        ("effective training time", f"{percent_text(found.ettr)}, nine of ten runs of {spec.days:g} days "
         f"{percent_text(found.low)} to {percent_text(found.high)}"),
        ("exact formula", f"{percent_text(found.exact)} (Aupy, Robert, Vivien 2013; spares always there)"),
        ("HPCA 2025", f"{percent_text(found.hpca25)} (first order"
         + (", at its own best interval)" if spec.checkpoint_interval_s is None else ")")),
        ("checkpoint", f"{time_text(1e9 * spec.checkpoint_write_s)}, every {_time(found.interval_s)}; "
         f"best every {_time(found.best_interval_s)}"),
        ("a failure each", _time(found.mtbf_s)),
        ("drawn", f"{found.failures:,} failures in {found.runs:,} runs; standard error {100 * found.error:.3f} %"),
        ("steps", f"{found.steps_in_days:,.0f} in {spec.days:g} days"),
    ]  # fmt: skip
    if found.days_of_steps is not None:
        rows.append(("wanted", f"{spec.steps:,} steps in {found.days_of_steps:.1f} days"))
    for name, value, unit in (("money", found.money, ""), ("energy", found.energy_kwh, " kWh")):
        if value is not None:
            rows.append((name, f"{value:,.0f}{unit}"))
    yield Section("Training with failures", (), tuple(rows), (0, 1))
    shares = tuple(
        (name.replace("_", " "), percent_text(value), percent_text(found.exact_parts[name]))
        for name, value in found.parts.items()
    )
    yield Section("Where time goes", ("part", "share", "exact formula"), shares)
    lost = sorted(found.by_component.items(), key=lambda item: -item[1])
    yield Section("Lost to failures", ("component", "share"), tuple((name, percent_text(own)) for name, own in lost))


def _time(seconds: float | None) -> str:
    return "never" if seconds is None else time_text(1e9 * seconds)
