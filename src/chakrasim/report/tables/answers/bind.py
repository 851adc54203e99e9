"""What of a captured job was measured, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chakrasim.converter.binding.result import Bound
from chakrasim.text.amounts import plural, ranks_text, share_text, some_of, time_text
from chakrasim.text.layout import Section


def bind_sections(made: Bound, files: Sequence[str]) -> Iterator[Section]:
    """The tables of ``chakrasim bind``."""
    steps = "the whole trace" if made.steps == (-1,) else some_of(list(map(str, made.steps)), 8)
    rows = (
        ("captured", f"{made.job.ranks:,} ranks, {plural(len(made.traces), 'distinct trace')}, {made.source}"),
        ("recorded", f"{plural(made.recorded_ranks, 'rank')}, steps {steps}, {made.measured}"),
        ("written", f"{files[0]} to {files[-1]}" if len(files) > 1 else files[0]),
    )
    yield Section("Bound", rows=rows, left=(0, 1))
    columns = ("trace", "ranks", "measured on", "compute nodes", "measured", "work", "host between", "collectives")
    table = tuple(
        (
            str(number),
            f"{one.ranks:,}",
            ranks_text(one.recorded),
            f"{one.computing:,}",
            share_text(one.matched, one.computing),
            time_text(one.work_ns),
            time_text(one.gap_ns),
            f"{one.transfers:,}",
        )
        for number, one in enumerate(made.traces)
    )
    yield Section("Measured", columns, table, (2,))
    yield Section("Compute nodes of the captured traces", ("count", "which"), _sums(made, "captured"), (1,))
    yield Section("Calls of the recorded step", ("count", "which"), _sums(made, "recorded_calls"), (1,))


def _sums(made: Bound, name: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, int] = {}
    for one in made.traces:
        counted: Mapping[str, int] = getattr(one, name)
        for what, count in counted.items():
            found[what] = found.get(what, 0) + count
    return tuple((f"{count:,}", what) for what, count in found.items())
