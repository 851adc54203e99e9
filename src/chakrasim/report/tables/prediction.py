"""Predicted collectives as tables, and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chakrasim.simulator.prediction import CollectivePrediction
from chakrasim.text.amounts import number_text, plural, size_text, time_text
from chakrasim.text.layout import Section


def prediction_json(found: Sequence[CollectivePrediction], *, one: bool) -> dict[str, Any]:
    """Plain values: of one prediction its figures, of several a list of them."""
    if one:
        return asdict(found[0])
    return {"collective": found[0].collective, "ranks": found[0].ranks, "sizes": [asdict(each) for each in found]}


def prediction_sections(found: Sequence[CollectivePrediction], *, one: bool) -> list[Section]:
    """The table that the command prints."""
    first = found[0]
    title = f"{first.collective}, {plural(first.ranks, 'rank')}"
    return [_one(first, f"{title}, {size_text(first.size_bytes)}") if one else _table(found, title)]


def _one(found: CollectivePrediction, title: str) -> Section:
    rows = [
        ("time", time_text(1e3 * found.time_us)),
        ("90 % interval", f"{time_text(1e3 * found.low_us)} to {time_text(1e3 * found.high_us)}"),
        ("algorithm bandwidth", f"{number_text(found.algbw_GBps)} GB/s"),
        ("bus bandwidth", f"{number_text(found.busbw_GBps)} GB/s"),
    ]
    if found.algorithm:
        rows += [("algorithm", found.algorithm), ("protocol", found.protocol), ("channels", f"{found.channels}")]
    return Section(title, (), (*rows, ("limited by", found.limited_by)), (0, 1))


def _table(found: Sequence[CollectivePrediction], title: str) -> Section:
    head = ("size (B)", "time (us)", "low", "high", "algbw (GB/s)", "busbw (GB/s)", "algorithm", "protocol", "channels",
            "limited by")  # fmt: skip
    rows = tuple(
        (
            f"{each.size_bytes}",
            *(f"{value:.2f}" for value in (each.time_us, each.low_us, each.high_us, each.algbw_GBps, each.busbw_GBps)),
            each.algorithm,
            each.protocol,
            f"{each.channels or ''}",
            each.limited_by,
        )
        for each in found
    )
    return Section(title, head, rows, (6, 7, 9))
