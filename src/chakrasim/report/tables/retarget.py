"""What a job of another size was made of, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chakrasim.converter.retarget.api import Retargeted
from chakrasim.converter.retarget.groups import Fate
from chakrasim.text.amounts import plural, some_of
from chakrasim.text.layout import Section


def retarget_sections(made: Retargeted, files: Sequence[str]) -> Iterator[Section]:
    """The tables of ``chakrasim retarget``."""
    rows = (
        ("ranks", f"{made.ranks:,} of {made.ranks_before:,} in {made.source}"),
        ("traces", f"{plural(len(made.job.traces), 'distinct trace')}"),
        ("written", f"{files[0]} to {files[-1]}" if len(files) > 1 else files[0]),
    )
    yield Section("Retargeted", rows=rows, left=(0, 1))
    alike: dict[tuple[str, ...], list[str]] = {}
    for fate in made.fates:
        alike.setdefault(_of(fate), []).append(fate.title)
    groups = tuple((some_of(titles, 6), *row) for row, titles in alike.items())
    yield Section("Process groups", ("name", "fate", "groups", "members", "because"), groups, (0, 1, 4))
    assumed = tuple((f"{count:,}", what) for what, count in made.assumptions)
    yield Section("Assumed (nodes of the traces)", ("count", "assumption"), assumed, (1,))


def _of(fate: Fate) -> tuple[str, ...]:
    counts, members = (len(fate.before), len(fate.after)), fate.members
    steps = (f"{before:,} -> {after:,}" for before, after in (counts, members))
    return ("grows" if fate.grows else "stays", *steps, fate.why)
