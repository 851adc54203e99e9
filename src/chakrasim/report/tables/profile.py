"""What a trace of the PyTorch profiler holds, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.analysis.info.profile import ProfileInfo
from chakrasim.report.tables.cut import brief, more_line
from chakrasim.text.amounts import number_text, plural, ranks_text, share_text, size_text, time_text
from chakrasim.text.layout import Section

MOST_ROWS = 20


def profile_sections(info: ProfileInfo) -> Iterator[Section]:
    """The tables of ``chakrasim info`` for a host, device or linked trace."""
    timed = info.span_ns > 0
    rows = [("kind", info.kind + (f", schema {info.schema}" if info.schema else ""))]
    joined = bool(info.edges)
    rows.append(("elements", plural(info.elements, "row" if joined else "event" if timed else "node")))
    if timed:
        busy = f", devices busy {share_text(info.busy_ns, info.span_ns)}" if info.busy_ns else ""
        rows.append(("span", time_text(info.span_ns) + busy))
        meaning = "all work over the longest chain of dependencies" if joined else "host and device work over the span"
        rows.append(("parallelism", f"{number_text(info.parallelism)} ({meaning})"))
    if info.steps:
        rows.append(("steps", f"{ranks_text(info.steps)} ({len(info.steps)})"))
    streams = f", {plural(info.streams, 'stream')}" if info.streams else ""
    rows.append(("threads", plural(info.threads, "thread") + streams))
    nested = f"{plural(info.depth, 'operator')} inside one another at most"
    rows.append(("depth", f"{plural(info.depth, 'row')} on the longest chain of dependencies" if joined else nested))
    if info.tensors:
        rows.append(("tensors", f"{info.tensors:,}, {size_text(info.tensor_bytes)} of storage seen"))
    yield Section(rows=tuple(rows), left=(0, 1))
    for title, name, amounts in (
        ("By category" if timed else "By sort", "category" if timed else "sort", info.by_kind),
        ("Most time" if timed else "Most nodes", "name", info.top),
    ):
        columns = (name, "count", "time") if timed else (name, "count")
        table = tuple(
            (brief(amount.name, 80), f"{amount.count:,}", time_text(amount.total_ns))[: len(columns)]
            for amount in amounts[:MOST_ROWS]
        )
        yield Section(title, columns, table)
    kinds = tuple((amount.name, f"{amount.count:,}") for amount in info.edges)
    yield Section("Dependencies by kind and evidence", ("dependency", "count"), kinds)
    collectives = tuple(
        (
            calls.operation,
            "-" if calls.size_bytes < 0 else size_text(calls.size_bytes),
            calls.group or "-",
            f"{calls.count:,}",
            time_text(calls.total_ns) if timed else "-",
        )
        for calls in info.collectives[:MOST_ROWS]
    )
    rest = more_line(info.collectives, collectives, "kind")
    yield Section("Collectives", ("collective", "size", "group", "count", "time"), collectives, (0, 2), rest)
