"""Flows on a network of packets, as tables: when they ended, and what the switches did."""

from __future__ import annotations

from typing import Final

from chakrasim.simulator.packet.alone.result import PERCENTILES, PacketResult
from chakrasim.text.amounts import plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_PORTS: Final = 10
NAMES: Final = {0: "fastest", 100: "slowest"}


def packet_sections(result: PacketResult) -> list[Section]:
    """The result of `run_packets` for people."""
    found = result.to_dict()
    return [_head(result, found), _completion(result), _ports(found)]


def _head(result: PacketResult, found: dict[str, object]) -> Section:
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


def _completion(result: PacketResult) -> Section:
    times = result.percentiles(result.fct_ns[result.fct_ns >= 0])
    slow = result.percentiles(result.slowdown)
    rows = tuple(
        (NAMES.get(p, f"{p} %"), time_text(ns), f"{factor:.3g}")
        for p, ns, factor in zip(PERCENTILES, times, slow, strict=False)
    )
    return Section("Completion, until the last acknowledgement", ("of the flows", "took at most", "slowdown"), rows)


def _ports(found: dict[str, object]) -> Section:
    ports = found["ports"]
    assert isinstance(ports, list)
    fullest = sorted(ports, key=lambda row: (-row[2], row[0], row[1]))[:MOST_PORTS]
    rows = tuple((f"switch {s} port {p}", size_text(most), f"{marks:,}") for s, p, most, marks in fullest)
    return Section("Fullest ports", ("port", "most waiting", "marked"), rows)
