"""Flows on a fabric, as tables: when they ended, and which links were busiest; of packets, what switches did."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.simulator.flow.alone.result import PERCENTILES, FlowResult
from chakrasim.simulator.packet.alone.result import PERCENTILES as PACKET_PERCENTILES
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.text.amounts import first_of, percent_text, plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_LINKS: Final = 10
MOST_FLOWS: Final = 4
MOST_PORTS: Final = 10
NAMES: Final = {0: "fastest", 100: "slowest"}


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
    found = zip(PERCENTILES, result.percentiles_ns(), strict=True)
    rows = tuple((NAMES.get(p, f"{p} %"), time_text(value)) for p, value in found if not np.isnan(value))
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


def packet_sections(result: PacketResult) -> list[Section]:
    """The result of `run_packets` for people."""
    found = result.to_dict()
    return [_packet_head(result, found), _packet_completion(result), _fullest_ports(found)]


def _packet_head(result: PacketResult, found: dict[str, object]) -> Section:
    names = {
        "transmissions": "packets sent on links",
        "ecn_marked": "packets marked",
        "dropped": "dropped by switches",
        "lost_on_links": "lost on links",
        "nacks": "refusals",
        "retransmissions": "timeouts of senders",
    }
    rows = [(name, f"{found[key]:,}") for key, name in names.items()]
    pauses = found["pfc"]
    assert isinstance(pauses, list)
    rows.append(("pause frames received", f"{len(pauses):,}"))
    total = size_text(float(result.flows[:, 4].sum()))
    lines = (result.stuck_text,) if result.unfinished else ()
    title = f"{plural(len(result.flows), 'flow')} of {total} as packets"
    return Section(title, rows=tuple(rows), lines=lines, loud=bool(lines))


def _packet_completion(result: PacketResult) -> Section:
    times = result.percentiles(result.fct_ns[result.fct_ns >= 0])
    slow = result.percentiles(result.slowdown)
    rows = tuple(
        (NAMES.get(p, f"{p} %"), time_text(ns), f"{factor:.3g}")
        for p, ns, factor in zip(PACKET_PERCENTILES, times, slow, strict=False)
    )
    return Section("Completion, until the last acknowledgement", ("of the flows", "took at most", "slowdown"), rows)


def _fullest_ports(found: dict[str, object]) -> Section:
    ports = found["ports"]
    assert isinstance(ports, list)
    fullest = sorted(ports, key=lambda row: (-row[2], row[0], row[1]))[:MOST_PORTS]
    rows = tuple((f"switch {s} port {p}", size_text(most), f"{marks:,}") for s, p, most, marks in fullest)
    return Section("Fullest ports", ("port", "most waiting", "marked"), rows)
