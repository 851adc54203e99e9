"""Flows on a fabric, as tables: when they ended, and which links were busiest."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.simulator.flow.alone.result import PERCENTILES, FlowResult
from chakrasim.text.amounts import first_of, percent_text, plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_LINKS: Final = 10
MOST_FLOWS: Final = 4


def flow_sections(result: FlowResult) -> list[Section]:
    """The result of `run_flows` for people."""
    return [_head(result), _completion(result), _links(result)]


def _head(result: FlowResult) -> Section:
    count = len(result.finish_ns)
    lines = [f"{plural(count, 'flow')}, {size_text(float(result.flows.size_bytes.sum()))}: {time_text(result.end_ns)}"]
    if result.classes < count:
        lines.append(f"solved as {plural(result.classes, 'class')} of equal flows")
    if result.merge:
        lines.append(f"ends within {100 * result.merge:g} % of the time are taken together: ends are off by up to that")
    if result.stuck.size:
        lines.append(result.stuck_text)
    return Section("Flows", lines=tuple(lines), loud=bool(result.stuck.size))


def _completion(result: FlowResult) -> Section:
    names = {0: "fastest", 100: "slowest"}
    found = zip(PERCENTILES, result.percentiles_ns(), strict=True)
    rows = tuple((names.get(p, f"{p} %"), time_text(value)) for p, value in found if not np.isnan(value))
    return Section("Completion (from a flow's start to its end)", ("of the flows", "took at most"), rows)


def _links(result: FlowResult) -> Section:
    rows = []
    for link in result.most_loaded[:MOST_LINKS].tolist():
        if result.link_bytes[link] <= 0:
            break
        users = result.crossing(link)
        share = percent_text(float(result.busy_share[link]))
        named = f"{users.size:,}: {first_of(users.tolist(), MOST_FLOWS)}"
        rows.append((result.link_names[link], size_text(float(result.link_bytes[link])), share, named))
    return Section("Most loaded links", ("link", "carried", "busy", "flows"), tuple(rows), (0, 3))
