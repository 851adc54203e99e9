"""The page of a simulation: how long, where the time goes, on which rank, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.report.page.answer import agreement_parts
from chakrasim.report.page.estimate import memory_bars, step_facts
from chakrasim.report.page.explanation import explanation_parts
from chakrasim.report.page.lanes import timeline_of
from chakrasim.report.page.parts import Bars, Fact, Heat, Image, Page, Part, Series, Text, plain, table_of
from chakrasim.report.picture.parts import COLOURS, LABELS
from chakrasim.report.tables.simulation import (
    by_role_section,
    collectives_section,
    equal_ranks,
    exposed_text,
    graph_links_section,
    links_section,
    operators_section,
    summary_sections,
)
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.text.amounts import plural, ranks_text, share_text, size_text, time_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.simulator.outcome.result import SimulationResult

MOST_BARS: Final = 64
MOST_CELLS: Final = 4096
MOST_EXPLAINED: Final = 60_000
"""Nodes of a job of which all is explained: of these it takes about a second."""
MOST_ON_PATH: Final = 3_000_000
"""Nodes of a job whose critical path is looked for: of these it takes about four seconds."""
MOST_LINKS: Final = 400
MOST_KINDS: Final = 400


def simulation_page(result: SimulationResult, *, question: str, step: StepEstimate | None = None) -> Page:
    """The page of ``chakrasim simulate``; figures are those of `SimulationResult.to_json`."""
    ran = len(result.finish_order) > 0
    parts = [part for part in (_parts(result, step) if ran else iter(())) if part is not None]
    return Page(
        question=question,
        verdict=tuple(_verdict(result, step)),
        parts=tuple(parts),
        assumed=(*_assumed(result), *(step.assumed if step else ())),
        warnings=result.warnings,
    )


def _verdict(result: SimulationResult, step: StepEstimate | None) -> Iterator[Fact]:
    makespan, means = result.makespan_ns, dict(zip(PARTS, result.parts_ns.mean(axis=0).tolist(), strict=True))
    if not len(result.finish_order):
        yield Fact("nothing was simulated", "the input is valid")
        return
    stuck = result.unfinished.size
    interval = "no interval: exact for the machine as described; how near that is to a real one nobody has measured"
    yield Fact("a step takes" if step else "the job takes", time_text(makespan), f"{makespan:,} ns; {interval}")
    if stuck:
        yield Fact("cannot end", plural(stuck, "rank"), ranks_text(result.unfinished.tolist()), bad=True)
    if step is not None:
        yield from step_facts(step)
    yield Fact("ranks", f"{len(result.finish_ns):,}", result.fold_reason)
    waits = means["waiting"] + means["bubble"]
    shares = [
        f"{LABELS.get(name, name)} {share_text(means[name], makespan)}" for name in ("waiting", "bubble") if means[name]
    ]
    yield Fact("compute", share_text(means["compute"] + means["overlap"], makespan),
               f"mean over ranks; {share_text(means['overlap'], makespan)} beside communication")  # fmt: skip
    yield Fact("exposed communication", share_text(means["exposed_comm"], makespan), "mean over ranks")
    if waits:
        yield Fact("waiting", share_text(waits, makespan), ", ".join(shares))
    yield Fact("moved", size_text(result.message_bytes), plural(result.messages, "message"))


def _assumed(result: SimulationResult) -> Iterator[str]:
    if result.replay is not None:
        yield f"no machine: durations as measured ({result.replay})"
        return
    yield f"network model: {result.network}"
    yield f"folding: {result.fold_reason}"


def _parts(result: SimulationResult, step: StepEstimate | None) -> Iterator[Part | None]:
    yield _where(result)
    yield from (table_of(section, "") for section in _steps_and_notes(result))
    yield from agreement_parts(result)
    if result.roles:
        yield _roles(result)
    yield _heat(result)
    yield timeline_of(result)
    yield from _path(result)
    yield from _operators(result, step)
    yield table_of(collectives_section(result, MOST_KINDS)) if result.collectives else None
    yield from _links(result)
    yield memory_bars(step) if step is not None else None
    if result.peak_memory_bytes is not None and result.peak_memory_bytes.any() and result.records:
        from chakrasim.report.picture.memory import memory_of

        yield Image("Memory over time", memory_of(result))
    if result.counts:
        counted = tuple((name, f"{n:,}") for name, n in result.counts.items())
        yield table_of(Section("Counted", ("what", "how many"), counted))


def _operators(result: SimulationResult, step: StepEstimate | None) -> Iterator[Part]:
    """What kinds of work attain, below what the device could, and as a table."""
    from chakrasim.report.picture.roofline import attained, roof_of, roofline_svg

    if attained(result)[0]:
        yield Image("Roofline", roofline_svg(result))
    if result.computation:
        roof = roof_of(result)
        peak = step.peak_flops if step is not None else roof.peak if roof is not None else None
        yield table_of(operators_section(result, peak))


def _steps_and_notes(result: SimulationResult) -> Iterator[Section]:
    """Measured steps beside simulated ones, and what is to be shouted; both are sections of the command's report."""
    from chakrasim.report.tables.steps import step_section

    steps = step_section(result.steps)
    if steps.rows or steps.lines:
        yield steps
    yield from (section for section in summary_sections(result) if section.loud)


def _where(result: SimulationResult) -> Bars:
    """The parts: their mean, then the ranks that compute most and least, each for all that do the same."""
    every = equal_ranks(result)
    compute = [int(result.parts_ns[ranks[0], :2].sum()) for ranks in every]
    order = sorted(range(len(every)), key=lambda i: -compute[i])
    if len(every) == 1:
        order = []
    half = MOST_BARS // 2
    chosen = order if len(order) <= MOST_BARS else [*order[:half], *order[-half:]]
    labels = ["mean of all ranks", *(_label(every[i].tolist()) for i in chosen)]
    at = [-1, *(int(every[i][0]) for i in chosen)]
    series = []
    for number, name in enumerate(PARTS):
        column = result.parts_ns[:, number]
        if column.any():
            values = (float(column.mean()), *(int(column[rank]) for rank in at[1:]))
            series.append(Series(LABELS.get(name, name), values, f"parts_ns.{name}", colour=COLOURS[name]))
    lines = [f"ASTRA-sim's exposed communication (finish less GPU busy time): {exposed_text(result.exposed_comm_ns)}"]
    if len(chosen) < len(order):
        lines.insert(0, f"{len(order) - len(chosen):,} of {len(order):,} kinds of ranks, between these, are left out; "
                        "the heat map has all ranks")  # fmt: skip
    return Bars("Where the time goes", tuple(labels), tuple(series), tuple(at), lines=tuple(lines))


def _label(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks):,} ranks: {ranks_text(ranks)}"


def _roles(result: SimulationResult) -> Bars:
    """Communication by what it is for: means over ranks, waiting apart."""
    whole = [(one.exposed_ns, one.waiting_ns, one.hidden_ns) for one in result.roles]
    kinds = (("exposed", "#f58518"), ("waiting for ranks", "#e45756"), ("beside compute", "#72b7b2"))
    series = tuple(
        Series(name, tuple(float(one[i].mean()) for one in whole), colour=colour)
        for i, (name, colour) in enumerate(kinds)
    )
    lines = by_role_section(result).lines
    return Bars("Communication by role, mean over ranks", tuple(one.role for one in result.roles), series, lines=lines)


def _heat(result: SimulationResult) -> Heat | None:
    count = len(result.finish_ns)
    if count < 2:
        return None
    columns: list[tuple[str, str, str, Any]] = [
        (LABELS.get(name, name), f"parts_ns.{name}", "ns", result.parts_ns[:, number])
        for number, name in enumerate(PARTS)
        if result.parts_ns[:, number].any()
    ]
    first = ("waiting", "exposed_comm", "bubble")
    columns.sort(key=lambda one: next((i for i, name in enumerate(first) if one[1].endswith(f".{name}")), len(first)))
    for number, role in enumerate(result.roles):
        for what, own in (("exposed", role.exposed_ns), ("waiting for ranks", role.waiting_ns)):
            key = f"roles.{number}.{'exposed_ns' if what == 'exposed' else 'waiting_ns'}"
            columns.append((f"{role.role}: {what}", key, "ns", own))
    columns.append(("finish", "finish_ns", "ns", result.finish_ns))
    columns.append(("bytes sent", "bytes_sent", "bytes", result.bytes_sent))
    if result.peak_memory_bytes is not None:
        columns.append(("peak of tracked memory", "peak_memory_bytes", "bytes", result.peak_memory_bytes))
    block = -(-count // MOST_CELLS)
    starts = np.arange(0, count, block)
    measures = tuple(
        Series(name, plain(own if block == 1 else np.maximum.reduceat(own, starts)), key if block == 1 else "", unit)
        for name, key, unit, own in columns
    )
    wide = max(8, 1 << int(np.ceil(np.log2(np.sqrt(2 * len(starts))))))
    lines = (f"a cell stands for {block} ranks, by the most of them",) if block > 1 else ()
    return Heat("Ranks", "rank", measures, min(wide, len(starts)), block, lines=lines)


def _path(result: SimulationResult) -> Iterator[Part]:
    nodes = sum(len(result.records[one].start_ns) for one in range(len(result.records)))
    if not result.records or result.job is None:
        yield Text("Critical path", lines=("the times of single nodes were not kept, so there is none",))
    elif nodes > MOST_ON_PATH:
        yield Text("Critical path", lines=(f"not looked for in a run of {nodes:,} nodes, since it takes long: "
                                           "chakrasim explain does",))  # fmt: skip
    else:
        from chakrasim.errors import InputError
        from chakrasim.explanation.explain import explain, explain_path

        try:
            found = explain(result, check=False) if nodes <= MOST_EXPLAINED else explain_path(result)
        except InputError as fault:
            yield Text("Critical path", lines=(f"not known: {fault}",))
            return
        yield from explanation_parts(found)
        if nodes > MOST_EXPLAINED:
            yield Text("What would move the end", lines=(f"not asked in a run of {nodes:,} nodes, since it takes long: "
                                                         "chakrasim explain does",))  # fmt: skip


def _links(result: SimulationResult) -> Iterator[Part]:
    for section in (links_section(result, MOST_LINKS), graph_links_section(result, MOST_LINKS)):
        if section.rows:
            yield table_of(section)
    graph = result.job.context.graph if result.job is not None else None
    if graph is not None and result.graph_links:
        from chakrasim.report.picture.network import network_picture
        from chakrasim.report.picture.network_files import network_svg

        load = {link.name: link.busy_share for link in result.graph_links}
        yield Image("Links by load", "".join(network_svg(network_picture(graph, load))))
    if result.packets is not None:
        from chakrasim.report.tables.flows import workload_packet_sections

        yield from map(table_of, workload_packet_sections(result.packets, result.makespan_ns))
