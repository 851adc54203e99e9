"""What is guaranteed of a release, and what it costs, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chakrasim.obfuscation.api import Obfuscated
from chakrasim.obfuscation.price import Price
from chakrasim.text.amounts import plural, time_text
from chakrasim.text.layout import Section


def obfuscation_sections(found: Obfuscated, files: Sequence[str]) -> Iterator[Section]:
    """The tables of ``chakrasim obfuscate``."""
    nodes = sum(len(trace) for job in found.jobs for trace in job.traces)
    of = f"{found.kind}: {plural(len(found.jobs), 'job')}, {nodes:,} nodes in the release"
    files_text = files[0] if len(files) == 1 else f"{files[0]} to {files[-1]}"
    own = found.guarantee
    rows = [("level", found.level), ("of", of if own is None else f"{found.kind}: a model"), ("files", files_text)]
    if own is not None:
        rows.append(("privacy", f"epsilon {own.epsilon:.4g}, delta {own.delta:.3g}, for one job added or removed"))
        rows.append(("from", f"{plural(own.points, 'job')} that most of {own.chunks} programs make"))
        if own.left_out or own.unknown:
            rows.append(("without", f"{plural(own.left_out, 'kind')} of nodes; {plural(own.unknown, 'number')} are 0"))
    known = [one for one in found.inversion if one.same is not None]
    if known:
        least = min(known, key=lambda one: one.same or 0)
        text = f"{least.same:,} specs give the same release, of {least.specs:,}: {least.likely:,} likely, "
        text += f"{least.tried:,} of them tried" + (", the least of all jobs" if len(known) > 1 else "")
        rows.append(("A", text))
        rows.append(("told", ", ".join(least.told) or "no size has one value in all of these"))
    yield Section("Obfuscated", rows=tuple(rows), left=(0, 1))
    if not found.price:
        return
    single = len(found.jobs) == 1
    prices = []
    for one in found.price:
        if one.fault:
            prices.append((one.machine, *[""] * 3, one.fault))
        elif single:
            times = (time_text(one.before_ns[0]), time_text(one.after_ns[0]))
            prices.append((one.machine, *times, f"{one.errors[0]:+.2%}", ""))
        else:
            errors = (f"{one.median_error:.2%}", _within(one), f"{one.largest_error:+.2%}")
            prices.append((one.machine, *errors, f"{len(one.errors):,} of {plural(one.of, 'job')}"))
    columns = ("before", "after", "error", "") if single else ("median error", "interval (95 %)", "largest", "of")
    yield Section("Price: the time of a step", ("machine", *columns), tuple(prices), (0, len(columns)))


def _within(one: Price) -> str:
    """The interval of the median of all jobs."""
    if one.interval is None:
        return "exact" if len(one.errors) == one.of else "none"
    return "{:.2%} to {:.2%}".format(*one.interval)
