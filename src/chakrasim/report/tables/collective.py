"""The tables of ``chakrasim analyze collectives``."""

from __future__ import annotations

import numpy as np

from chakrasim.analysis.collectives import Collectives, CollectiveSplit, RankWaits
from chakrasim.text.amounts import number_text, plural, share_text, size_text, time_text
from chakrasim.text.layout import Section


def collective_sections(split: CollectiveSplit, most: int = 20) -> list[Section]:
    """The share of waiting, the ranks, the ``most`` collectives that cost the others most, and notes."""
    notes = Section("Notes", lines=split.notes, loud=True)
    return [_headline(split), _ranks(split.ranks), _costliest(split.collectives, most), notes]


def _headline(split: CollectiveSplit) -> Section:
    if not len(split.collectives):
        return Section(lines=("no collective could be compared across ranks",), loud=True)
    total, wait = int(split.arrivals.duration_ns.sum()), int(split.arrivals.wait_ns.sum())
    line = (
        f"{plural(len(split.collectives), 'collective')} of {plural(len(split.ranks), 'rank')}: "
        f"{share_text(wait, total)} of the time in them was waiting for others"
    )
    return Section("Collectives: waiting and transfer", lines=(line,))


def _ranks(ranks: RankWaits) -> Section:
    rows = [
        (
            str(row["rank"]),
            str(row["collectives"]),
            time_text(row["duration_ns"]),
            time_text(row["wait_suffered_ns"]),
            share_text(row["wait_suffered_ns"], row["duration_ns"]),
            str(row["times_last"]),
            time_text(row["wait_caused_ns"]),
            f"{time_text(row['shift_ns'])} ± {time_text(row['residual_ns'])}",
        )
        for row in ranks.records()
    ]
    columns = ("rank", "collectives", "time in them", "waited", "share", "was last", "cost others", "clock shift")
    return Section("By rank", columns, tuple(rows))


def _costliest(table: Collectives, most: int) -> Section:
    records = table.records()
    chosen = np.argsort(-table.cost_ns, kind="stable")[:most].tolist()
    rows = [
        (
            f"{record['group'] or '?'} #{record['number']}",
            record["operation"],
            size_text(record["bytes"]),
            f"{record['ranks']} of {record['members']}" if record["members"] else str(record["ranks"]),
            str(record["last_rank"]),
            time_text(record["late_ns"]),
            time_text(record["cost_ns"]),
            time_text(record["transfer_ns"]),
            number_text(record["busbw_gbs"]) if record["busbw_gbs"] is not None else "-",
        )
        for record in (records[at] for at in chosen)
    ]
    shown = f"The {len(chosen)} that cost most" if len(chosen) < len(records) else "All, the costliest first"
    columns = ("group", "operation", "size", "ranks", "last", "late by", "cost others", "transfer", "bus GB/s")
    return Section(shown, columns, tuple(rows), left=(0, 1))
