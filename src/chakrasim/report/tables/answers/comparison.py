"""A comparison of two runs as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from chakrasim.report.tables.cut import brief, more_line
from chakrasim.text.amounts import number_text, plural, share_text, time_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.comparison.result import Cause, Comparison

CANCELLED: Final = 10
"""Parts of a difference that are this many times as large as what is left of them."""
MOST_CAUSES: Final = 20
MOST_COUNTED: Final = 10
MOST_KERNELS: Final = 6
LETTERS: Final = 64
KERNEL_LETTERS: Final = 44


def comparison_sections(found: Comparison) -> list[Section]:
    """The verdict, the parts, the causes, and what else differs."""
    return [_runs(found), *_groups(found), _causes(found), *_kernels(found), *_counted(found), *_facts(found)]


def _runs(found: Comparison) -> Section:
    rows = tuple(
        (letter, time_text(side.total_ns), side.kind, side.what, side.source)
        for letter, side in (("A", found.a), ("B", found.b))
    )
    return Section(
        "Two runs", ("", "time", "kind", "of", "source"), rows, left=(0, 2, 3, 4), lines=(verdict_text(found),)
    )


def verdict_text(found: Comparison) -> str:
    """How much longer B takes, and the first cause."""
    a, whole = found.a.total_ns, found.difference_ns
    if not whole:
        return f"B takes as long as A: {time_text(a)}"
    first = found.causes[0]
    named = first.group if first.name == first.group else f"{first.group}, {brief(first.name, LETTERS)}"
    how = "longer" if whole > 0 else "less"
    return f"B takes {time_text(abs(whole))} {how} than A ({share_text(abs(whole), a)} of A); the first cause: {named}"


def _groups(found: Comparison) -> Iterator[Section]:
    order = sorted(found.groups.items(), key=lambda one: -abs(one[1][1] - one[1][0]))
    rows = tuple((name, time_text(a), time_text(b), signed(b - a), _share(found, b - a)) for name, (a, b) in order)
    if len(rows) > 1:
        yield Section("By part", ("part", "A", "B", "difference", "share"), (*rows, _sum(found)))


def _sum(found: Comparison) -> tuple[str, ...]:
    whole = found.difference_ns
    return "sum", time_text(found.a.total_ns), time_text(found.b.total_ns), signed(whole), _share(found, whole)


def _causes(found: Comparison) -> Section:
    shown = found.causes[:MOST_CAUSES]
    rows = [_row(found, cause) for cause in shown]
    rest = found.causes[MOST_CAUSES:]
    if rest:
        a, b = sum(one.a_ns for one in rest), sum(one.b_ns for one in rest)
        times = (time_text(a), time_text(b), signed(b - a), _share(found, b - a))
        rows.append(("", f"{plural(len(rest), 'other cause')} (--json has all)", *times, "", ""))
    total = _sum(found)
    rows.append((total[0], "", *total[1:], "", ""))
    heads = ("part", "cause", "A", "B", "difference", "share", "how often", "aligned by")
    counts = any(row[6] for row in rows)
    by = any(row[7] for row in rows)
    keep = [i for i in range(len(heads)) if (i != 6 or counts) and (i != 7 or by)]
    cut = tuple(tuple(row[i] for i in keep) for row in rows)
    left = tuple(keep.index(i) for i in (0, 1, 6, 7) if i in keep)
    return Section("Causes, the largest first", tuple(heads[i] for i in keep), cut, left, found.notes)


def _row(found: Comparison, cause: Cause) -> tuple[str, ...]:
    lone = {"a": "only in A", "b": "only in B"}.get(cause.only_in, "")
    return (
        cause.group,
        brief(cause.name, LETTERS),
        time_text(cause.a_ns),
        time_text(cause.b_ns),
        signed(cause.difference_ns),
        _share(found, cause.difference_ns),
        _often(cause),
        lone or cause.by,
    )


def _often(cause: Cause) -> str:
    if cause.count_a is None and cause.count_b is None:
        return ""
    a, b = (number_text(count or 0) for count in (cause.count_a, cause.count_b))
    return a if a == b else f"{a} -> {b}"


def _kernels(found: Comparison) -> Iterator[Section]:
    """What the device ran for the first causes of which both runs have something, where that differs."""
    causes = [one for one in found.causes if one.kernels_a and one.kernels_b and one.kernels_a != one.kernels_b]
    rows = tuple(
        (brief(one.name, KERNEL_LETTERS), *(_some(names) for names in (one.kernels_a, one.kernels_b)))
        for one in causes[:MOST_KERNELS]
    )
    lines = more_line(causes, rows, "row", " (--json has all)")
    if rows:
        yield Section("Other kernels for the same work", ("cause", "A", "B"), rows, (0, 1, 2), lines)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return brief(names[0], KERNEL_LETTERS) + more


def _counted(found: Comparison) -> Iterator[Section]:
    shown = found.counted[:MOST_COUNTED]
    rows = tuple(
        (one.name, f"{one.count_a:,}", f"{one.count_b:,}", *map(_mean, (one.mean_a_ns, one.mean_b_ns))) for one in shown
    )
    lines = more_line(found.counted, shown, "kind", " (--json has all)")
    if rows:
        heads = ("collective", "calls in A", "calls in B", "mean in A", "mean in B")
        yield Section("Collectives that differ, over all ranks", heads, rows, lines=lines)


def _mean(ns: float | None) -> str:
    return "-" if ns is None else time_text(ns)


def _facts(found: Comparison) -> Iterator[Section]:
    """What is not the same; of two different kinds of runs what is known of both."""
    a, b = found.a.facts, found.b.facts
    names = dict.fromkeys([*a, *b]) if found.a.kind == found.b.kind else [name for name in a if name in b]
    rows = tuple((name, a.get(name, "-"), b.get(name, "-")) for name in names if a.get(name) != b.get(name))
    if rows:
        yield Section("What else differs", ("what", "A", "B"), rows, (0, 1, 2))


def signed(ns: int) -> str:
    """A difference of times, with its sign."""
    return f"{'+' if ns > 0 else ''}{time_text(ns)}"


def _share(found: Comparison, ns: int) -> str:
    """Of the difference; nothing where parts cancel out so that what is left of them says nothing of a part."""
    if abs(ns) > CANCELLED * abs(found.difference_ns):
        return "-"
    return share_text(ns, found.difference_ns).replace("-0.0%", "0.0%")
