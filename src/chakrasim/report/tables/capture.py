"""A capture in words and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrasim.report.tables.prediction import step_sections
from chakrasim.text.amounts import number_text, plural, ranks_text, size_text, time_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.collect.capturing.api import Capture
    from chakrasim.estimation.result import StepEstimate


def sections(capture: Capture, step: StepEstimate | None = None) -> list[Section]:
    """The tables of a capture, below what it takes on a machine, if that is known, with all that both assume."""
    found = capture.captured
    rows = []
    for index, entry in enumerate(found.classes):
        summary = entry.result.summary
        verdict = capture.verdict(entry)
        row: tuple[str, ...] = (
            f"{index}",
            ranks_text(entry.ranks),
            f"{summary.nodes:,}",
            number_text(summary.total_flops / 1e12),
            size_text(summary.bytes_moved),
            size_text(summary.peak_bytes),
        )
        if verdict is not None:
            row += (time_text(summary.compute_ns or 0), "fits" if verdict[0] else "OUT OF MEMORY")
        rows.append(row)
    columns: tuple[str, ...] = ("class", "ranks", "nodes", "TFLOP", "moved", "peak memory")
    if capture.profile is not None:
        columns += ("compute", f"on {capture.profile.name}")
    title = f"{plural(found.world, 'rank')}, {plural(len(found.classes), 'trace')}"
    head = [] if step is None else step_sections(step)[:2]
    assumed = Section("Assumed", lines=capture.assumptions if step is None else step.assumed)
    tables = [Section(title, columns, tuple(rows), (1,)), _kinds(capture), _traffic(capture), _memory(capture)]
    return [*head, *tables, assumed]


def _kinds(capture: Capture) -> Section:
    """FLOPs by kind of work."""
    kinds = list(dict.fromkeys(kind for entry in capture.captured.classes for kind in entry.result.summary.flops))
    rows = tuple(
        (f"{index}", *(number_text(entry.result.summary.flops.get(kind, 0) / 1e12) for kind in kinds))
        for index, entry in enumerate(capture.captured.classes)
    )
    return Section("TFLOP by kind", ("class", *kinds), rows, left=())


def _traffic(capture: Capture) -> Section:
    """Collectives and messages by type and role: of each class that has them in a way of its own."""
    table: dict[tuple[str, str, int, int], list[int]] = {}
    for index, entry in enumerate(capture.captured.classes):
        for traffic in entry.result.summary.traffic:
            table.setdefault((traffic.type, traffic.role, traffic.count, traffic.bytes), []).append(index)
    rows = tuple(
        (kind, role or "all ranks", f"{count:,}", size_text(size), ranks_text(classes))
        for (kind, role, count, size), classes in sorted(table.items())
    )
    return Section(
        "Collectives and messages of a rank", ("type", "group", "count", "bytes", "classes"), rows, (0, 1, 4)
    )


def _memory(capture: Capture) -> Section:
    """What is live at the peak."""
    names = list(dict.fromkeys(name for entry in capture.captured.classes for name in entry.result.summary.peak))
    rows = tuple(
        (f"{index}", *(size_text(entry.result.summary.peak.get(name, 0)) for name in names))
        for index, entry in enumerate(capture.captured.classes)
    )
    lines = []
    for index, entry in enumerate(capture.captured.classes):
        verdict = capture.verdict(entry)
        if verdict is not None and not verdict[0]:
            lines.append(f"class {index} is {verdict[1]}")
    return Section("Memory at the peak", ("class", *names), rows, (), tuple(lines), loud=bool(lines))
