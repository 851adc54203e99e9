"""What a replay measured, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.replay.result import CollectiveRow, Latency, ReplayResult
from chakrasim.report.tables.cut import more_line
from chakrasim.text.amounts import number_text, plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_ROWS = 40


def replay_sections(result: ReplayResult) -> Iterator[Section]:
    """The tables of ``chakrasim replay``."""
    plan = result.plan
    where = "nothing was run" if result.dry_run else f"on {result.device}, PyTorch {result.torch}"
    rows = [
        ("ranks", f"{plan.ranks:,} of {plan.trace_ranks:,} in the trace"),
        ("back end", f"{result.backend}, {where}"),
        ("iterations", f"{result.iterations:,} after {result.warmup:,} for warm-up"),
        ("an iteration", f"{plural(plan.meetings, 'operation')}, {plural(len(plan.groups), 'group')}"),
    ]
    if result.pipelined is not None:
        rows.append(("all together", _times(result.pipelined)))
    if result.batches is not None:
        rows.append((f"{result.batch:,} at a time", _times(result.batches)))
    if result.checked is not None:
        rows.append(("data", f"received as sent {result.checked:,} times"))
    yield Section("Dry run" if result.dry_run else "Replay", rows=tuple(rows), left=(0, 1))
    shown = result.collectives[:MOST_ROWS]
    rest = more_line(result.collectives, shown, "kind", " of fewer bytes")
    head = ("collective", "size", "ranks", "dtype", "count")
    if result.dry_run:
        table = tuple(_what(row) for row in shown)
        yield Section("Collectives that would be run, most bytes first", head, table, (0, 3), rest)
    else:
        measured = ("min", "mean", "p50", "p95", "p99", "max", "algbw", "busbw")
        table = tuple(_what(row) + _measured(row) for row in shown)
        rest += ("each alone, from when all ranks have come together; rates in GB/s by PARAM's formulas",)
        yield Section("Collectives, most bytes first", head + measured, table, (0, 3), rest)
    coverage = tuple(
        (row.what, f"{row.count:,}", size_text(row.size_bytes) if row.size_bytes else "-", row.why or "replayed")
        for row in result.coverage
    )
    yield Section(
        "What was replayed, and what not (all live ranks)", ("node", "count", "bytes", "fate"), coverage, (0, 3)
    )
    yield Section("Assumed", lines=plan.notes)


def _what(row: CollectiveRow) -> tuple[str, ...]:
    return row.collective, size_text(row.size_bytes), str(row.group_size), row.dtype, f"{row.count:,}"


def _measured(row: CollectiveRow) -> tuple[str, ...]:
    latency = row.latency
    if latency is None:
        return ("-",) * 8
    times = (latency.min_ns, latency.mean_ns, latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns)
    rates = ("-" if rate is None else number_text(rate) for rate in (row.algbw_gb_s, row.busbw_gb_s))
    return (*(time_text(round(value)) for value in times), *rates)


def _times(latency: Latency) -> str:
    return f"mean {time_text(latency.mean_ns)}, {time_text(latency.min_ns)} to {time_text(latency.max_ns)}"
