"""Flows on a fabric, as tables: when they ended, and which links were busiest; of packets, against what they would take
alone, and which ports were in trouble."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.simulator.arena.packet_network import PacketFigures
from chakrasim.simulator.flow.alone.result import PERCENTILES, FlowResult
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.beside import BothModels
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.figures.flows import PERCENTILES as PACKET_PERCENTILES
from chakrasim.simulator.packet.figures.flows import FlowSpread
from chakrasim.simulator.packet.figures.ports import PortFigures
from chakrasim.text.amounts import first_of, percent_text, plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_LINKS: Final = 10
MOST_FLOWS: Final = 4
MOST_PORTS: Final = 8
MOST_PAUSED: Final = 5
NO_END: Final = 1 << 62
"""The largest size of the last class of flows."""
NAMES: Final = {0: "fastest", 100: "slowest"}
MOST_BESIDE: Final = 12
SPREAD: Final = {0: "least", 50: "half of the flows", 100: "most"}


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
    ports, span_ns = result.port_figures, result.end_ns - result.begin_ns
    return [_packet_head(result), _packet_completion(result), *port_sections(ports, span_ns)]


def workload_packet_sections(figures: PacketFigures, span_ns: int) -> list[Section]:
    """Of a workload's run: packets and messages, and the ports with the most trouble."""
    counts = {
        "packets sent on links": figures.transmissions,
        "packets marked": figures.marked,
        "dropped by switches": figures.dropped,
        "lost on links": figures.lost,
        "refusals": figures.refused,
        "timeouts of senders": figures.resent,
        "pause frames received": figures.pauses,
    }
    rows = [(name, f"{count:,}") for name, count in counts.items() if count or count == figures.transmissions]
    for p, x in zip(PACKET_PERCENTILES, figures.spread.slowdown, strict=False):
        if p in (50, 99, 100):
            rows.append((f"slowdown of {'the slowest message' if p == 100 else f'{p:g} % of messages'}", f"{x:.3g}x"))
    return [Section("Packets", rows=tuple(rows)), *port_sections(figures.ports, span_ns)]


def port_sections(ports: PortFigures, span_ns: int) -> list[Section]:
    """The ports with the most trouble: the fullest, and those that were told to be still."""
    return [_fullest(ports), _paused(ports, span_ns)]


def _packet_head(result: PacketResult) -> Section:
    g = result.net.g
    names = {
        "packets sent on links": at.PACKETS,
        "packets marked": at.MARKS,
        "dropped by switches": at.DROPPED,
        "lost on links": at.LOST,
        "refusals": at.NACKS,
        "timeouts of senders": at.RESENT,
        "pause frames received": at.PAUSES,
    }
    rows = [(name, f"{int(g[word]):,}") for name, word in names.items() if g[word] or word == at.PACKETS]
    again = int(result.flow_figures.resent_bytes.sum())
    rows += [("sent again", size_text(again))] if again else []
    total = size_text(float(result.flows[:, 4].sum()))
    lines = (result.stuck_text,) if result.unfinished else ()
    title = f"{plural(len(result.flows), 'flow')} of {total} as packets: {time_text(result.end_ns - result.begin_ns)}"
    return Section(title, rows=tuple(rows), lines=lines, loud=bool(lines))


def _packet_completion(result: PacketResult) -> Section:
    """A row for all sizes and, where there are several classes of them, one for each: times, then slowdowns."""
    found = result.flow_figures.classes()
    shown = {most: own for most, own in found.items() if own.flows and (most is None or len(found) > 2)}
    names = [f"{p:g} %" if p < 100 else "slowest" for p in PACKET_PERCENTILES]
    rows = [(_class_name(most), f"{own.flows:,}", *_cells(own)) for most, own in shown.items()]
    title = "Completion until the last acknowledgement, and slowdown against the flow alone"
    return Section(title, ("size", "flows", *names), tuple(rows))


def _class_name(most: int | None) -> str:
    return "all" if most is None else "larger" if most == NO_END else f"to {size_text(most)}"


def _cells(own: FlowSpread) -> list[str]:
    slow = [f" ({x:.3g}x)" for x in own.slowdown] or [""] * len(own.completion_ns)
    return [f"{time_text(ns)}{x}" for ns, x in zip(own.completion_ns, slow, strict=True)]


def _fullest(ports: PortFigures) -> Section:
    """Ports that had no room for packets, then those with the longest queues, down to a hundredth of the longest."""
    order = np.lexsort((ports.port, ports.node, -ports.most_bytes, -ports.dropped))
    least = max(int(ports.most_bytes.max(initial=0)) // 100, 1)
    chosen = [row for row in order.tolist() if ports.most_bytes[row] >= least or ports.dropped[row]][:MOST_PORTS]
    columns = {
        "port": [ports.name(row) for row in chosen],
        "most waiting": [size_text(float(ports.most_bytes[row])) for row in chosen],
    }
    if ports.mean_bytes is not None:
        columns["mean waiting"] = [size_text(float(ports.mean_bytes[row])) for row in chosen]
    columns["sent"] = [size_text(float(ports.sent_bytes[row])) for row in chosen]
    columns["busy"] = [percent_text(float(ports.busy_share[row])) for row in chosen]
    for name, values in (("marked", ports.marked), ("dropped", ports.dropped)):
        if values.any():
            columns[name] = [f"{values[row]:,}" for row in chosen]
    return Section("Fullest ports", tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _paused(ports: PortFigures, span_ns: int) -> Section:
    """Ports by the time for which they were told to be still."""
    order = np.lexsort((ports.port, ports.node, -ports.paused_ns))
    rows = []
    for row in order.tolist()[:MOST_PAUSED]:
        if ports.pauses[row]:
            paused = int(ports.paused_ns[row])
            share = percent_text(paused / max(span_ns, 1))
            rows.append((ports.name(row), f"{ports.pauses[row]:,}", time_text(paused), share))
    title = f"Ports told to pause, {np.count_nonzero(ports.pauses):,} in all"
    return Section(title, ("port", "times", "in all", "of the run"), tuple(rows))


def beside_sections(result: BothModels) -> list[Section]:
    """What `beside` found, for people: all flows where they are few, those that differ most of many."""
    return [*packet_sections(result.packets), _last_end(result), _by_flow(result)]


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:+.1f} %"


def _time(ns: float) -> str:
    return "does not end" if np.isnan(ns) else time_text(ns)


def _last_end(result: BothModels) -> Section:
    known = ~np.isnan(result.difference)
    if not known.any():
        return Section("Flow beside packet", lines=("no flow has a time in both models",))
    starts = result.packets.flows[known, 5]
    ends = [float((starts + times[known]).max() - starts.min()) for times in (result.flow_ns, result.packet_ns)]
    rows = [("all flows, first start to last end", *map(time_text, ends), _percent(ends[1] / ends[0] - 1))]
    shares = np.percentile(result.difference[known], tuple(SPREAD), method="inverted_cdf")
    rows += [(f"difference: {SPREAD[p]}", "", "", _percent(share)) for p, share in zip(SPREAD, shares, strict=True)]
    return Section("Flow beside packet", ("", "flow", "packet", "packet is longer by"), tuple(rows))


def _by_flow(result: BothModels) -> Section:
    order = np.argsort(-np.abs(np.nan_to_num(result.difference)), kind="stable")
    chosen = sorted(order[:MOST_BESIDE].tolist())
    rows = []
    for flow in chosen:
        source, target, _, _, size, _ = result.packets.flows[flow].tolist()
        times = [_time(float(ns[flow])) for ns in (result.flow_ns, result.packet_ns)]
        rows.append((str(flow), f"{source} to {target}", size_text(size), *times, _percent(result.difference[flow])))
    count = len(result.packets.flows)
    title = "By flow" if count <= MOST_BESIDE else f"The {MOST_BESIDE} that differ most, of {plural(count, 'flow')}"
    return Section(title, ("flow", "from", "size", "flow", "packet", "packet is longer by"), tuple(rows), (0, 1))
