"""What a person reads after a run: how long, where the time went, which collectives and links mattered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chakrasim.report.tables.cut import more_line
from chakrasim.report.tables.flows import workload_packet_sections
from chakrasim.report.tables.steps import step_section
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import number_text, plural, ranks_text, share_text, size_text, time_text
from chakrasim.text.layout import Section, plain_text
from chakrasim.trace import NodeType

Ints = NDArray[np.int64]

MOST_CLASSES = 16
MOST_LINKS = 10
MOST_COLLECTIVES = 40
HIDDEN = 0.01
"""Share of the run below which communication that a rank waits for is not worth a thought."""

PART_MEANINGS = {
    "compute": "GPU computes, nothing communicates",
    "overlap": "GPU computes while communication runs",
    "exposed_comm": "communication runs, the GPU does not",
    "waiting": "collectives wait for other ranks, the GPU does not compute",
    "bubble": "messages have not been sent that the rank waits for",
    "memory": "remote memory only",
    "cpu": "CPU operations only",
    "idle": "nothing runs, the rank is not done",
    "done": "the rank is done, others are not",
}


def summary(result: SimulationResult) -> str:
    """The tables that the command line prints, as text, the warnings at its end."""
    warnings = Section("Warnings" if result.warnings else "", lines=result.warnings)
    return plain_text([*summary_sections(result), warnings])


def summary_sections(result: SimulationResult) -> list[Section]:
    """The report, piece by piece, in the order in which it is read."""
    return [section for section in _sections(result) if section.rows or section.lines]


def _sections(result: SimulationResult) -> Iterator[Section]:
    yield _headline(result)
    if len(result.finish_order):
        yield step_section(result.steps)
    yield _nothing_moved(result)
    if len(result.finish_order):
        yield _where_time_goes(result)
        yield by_role_section(result)
        yield _by_class(result)
    yield collectives_section(result)
    yield links_section(result)
    yield graph_links_section(result)
    if result.packets is not None:
        yield from workload_packet_sections(result.packets, result.makespan_ns)
    yield _counts(result)


def _headline(result: SimulationResult) -> Section:
    finish = result.finish_ns
    makespan = result.makespan_ns
    rows = [
        ("makespan", f"{time_text(makespan)} ({makespan:,} ns)"),
        ("ranks", f"{len(finish):,}, {_model(result)}"),
    ]
    ended = np.setdiff1d(np.arange(finish.size), result.unfinished)
    if result.unfinished.size:
        rows.append(
            ("cannot end", f"{plural(result.unfinished.size, 'rank')}: {ranks_text(result.unfinished.tolist())}")
        )
    if len(result.finish_order) and ended.size:
        first, last = int(ended[np.argmin(finish[ended])]), int(ended[np.argmax(finish[ended])])
        low, middle, high = (time_text(float(of(finish[ended]))) for of in (np.min, np.median, np.max))
        spread = (
            f"all {'others' if result.unfinished.size else 'ranks'} at {high}"
            if finish[first] == finish[last]
            else f"first {low} (rank {first}), median {middle}, last {high} (rank {last})"
        )
        rows.append(("finish", spread))
    rows.append(("folding", result.fold_reason))
    rows.append(
        (
            "moved",
            f"{size_text(result.message_bytes)} ({result.message_bytes:,} B) in {plural(result.messages, 'message')}",
        )
    )
    if result.peak_memory_bytes is not None:
        peak = result.peak_memory_bytes
        rows.append(("peak memory", f"{size_text(int(peak.max(initial=0)))} (rank {int(peak.argmax())})"))
    return Section(rows=tuple(rows), left=(0, 1))


def _model(result: SimulationResult) -> str:
    if result.replay is None:
        return f"{result.network} network"
    taken = "measured durations" if result.replay == "recorded" else "measured compute and transfer times"
    return f"no machine: {taken} replayed"


def _nothing_moved(result: SimulationResult) -> Section:
    if result.replay is not None or result.message_bytes or not len(result.finish_order):
        return Section()
    nodes = sum(int(np.count_nonzero(record.graph.trace.types == NodeType.COMM_COLL_NODE)) for record in result.records)
    if not nodes and not result.collectives:
        return Section()
    why = (
        "nodes are replayed with their recorded durations (replay-only)"
        if result.system.replay_only
        else "look for groups of one member, sizes of 0, and broadcasts, which replay their recorded duration"
    )
    text = f"NO BYTES WERE MOVED although the workload has collectives: {why}"
    return Section(lines=(text,), loud=True)


def _where_time_goes(result: SimulationResult) -> Section:
    makespan = result.makespan_ns
    means = result.parts_ns.mean(axis=0)
    rows = [
        (name, time_text(mean), share_text(mean, makespan), PART_MEANINGS[name])
        for name, mean in zip(PARTS, means.tolist(), strict=True)
        if mean or name in ("compute", "exposed_comm")
    ]
    rows.append(("sum", time_text(makespan), share_text(makespan, makespan), "the makespan"))
    line = f"ASTRA-sim's exposed communication (finish less GPU busy time): {exposed_text(result.exposed_comm_ns)}"
    return Section(
        "Where the time goes (mean over ranks)", ("part", "time", "share", "meaning"), tuple(rows), (0, 3), (line,)
    )


def by_role_section(result: SimulationResult) -> Section:
    """What communication is for, where streams run side by side."""
    makespan = result.makespan_ns
    rows = []
    for one in result.roles:
        means = [float(times.mean()) for times in (one.exposed_ns, one.waiting_ns, one.hidden_ns)]
        rows.append((one.role, *(f"{time_text(mean)} ({share_text(mean, makespan)})" for mean in means)))
    lines = ("roles may communicate at one time, which the parts above count once",) if len(rows) > 1 else ()
    columns = ("role", "exposed", "waiting for ranks", "beside compute")
    return Section("Communication by role (mean over ranks)", columns, tuple(rows), (0,), lines)


def exposed_text(exposed_ns: Ints) -> str:
    """The mean, unless there is no such time: the sum of operations side by side may be longer than the run."""
    below = int((exposed_ns < 0).sum())
    if not below:
        return f"mean {time_text(float(exposed_ns.mean()))}"
    return f"n/a, since GPU operations that ran side by side add up to more than the run ({plural(below, 'rank')})"


def _by_class(result: SimulationResult) -> Section:
    """One row for ranks that did the same."""
    parts = [i for i in range(len(PARTS)) if result.parts_ns[:, i].any() or PARTS[i] in ("compute", "exposed_comm")]
    every = equal_ranks(result)
    members = every[:MOST_CLASSES]
    rows = []
    for ranks in members:
        rank = int(ranks[0])
        times = [time_text(int(result.parts_ns[rank, i])) for i in parts]
        finish, exposed_ns = time_text(int(result.finish_ns[rank])), int(result.exposed_comm_ns[rank])
        exposed = time_text(exposed_ns) if exposed_ns >= 0 else "n/a"
        rows.append((ranks_text(ranks.tolist()), f"{len(ranks):,}", finish, *times, exposed))
    lines = more_line(every, members, "class")
    columns = ("ranks", "count", "finish", *(PARTS[i] for i in parts), "ASTRA-sim exposed")
    return Section("By rank (ranks that do the same in one row)", columns, tuple(rows), (0,), lines)


def equal_ranks(result: SimulationResult) -> list[Ints]:
    """The ranks of each class; where every rank was simulated, those with equal times."""
    if len(result.class_ranks) < len(result.finish_ns):
        return class_members(result, len(result.class_ranks))
    figures = np.column_stack([result.finish_ns, result.exposed_comm_ns, result.parts_ns])
    _, first, group, counts = np.unique(figures, axis=0, return_index=True, return_inverse=True, return_counts=True)
    pieces = np.split(np.argsort(group.reshape(-1), kind="stable"), np.cumsum(counts)[:-1])
    return [pieces[i] for i in np.argsort(first)]


def class_members(result: SimulationResult, most: int) -> list[Ints]:
    """The ranks of the first ``most`` classes, each ascending."""
    order = np.argsort(result.classes, kind="stable")
    starts = np.searchsorted(result.classes[order], np.arange(len(result.class_ranks) + 1))
    return [order[starts[i] : starts[i + 1]] for i in range(min(most, len(result.class_ranks)))]


def collectives_section(result: SimulationResult, most: int = MOST_COLLECTIVES) -> Section:
    """The kinds of collectives, those that take most time first."""
    shown = sorted(result.collectives, key=lambda figures: -figures.calls * figures.mean_ns)[:most]
    rows = tuple(
        (
            figures.type,
            size_text(figures.size_bytes),
            f"{figures.groups:,} x {figures.members:,}",
            figures.algorithm,
            f"{figures.calls:,}",
            time_text(figures.mean_ns),
            number_text(figures.algbw),
            number_text(figures.busbw),
        )
        for figures in shown
    )
    lines = (
        *more_line(result.collectives, shown, "kind", ", which took less time"),
        "calls: over all ranks; algbw and busbw in GB/s (10^9 bytes per second) as the NCCL tests define them",
    )
    columns = ("collective", "size", "groups x members", "algorithm", "calls", "mean time", "algbw", "busbw")
    return Section("Collectives, most time first", columns, rows, (0, 2, 3), lines if rows else ())


def links_section(result: SimulationResult, most: int = MOST_LINKS) -> Section:
    """The busiest links of a congestion-aware run."""
    links = result.links
    if links is None or not len(links.name):
        return Section()
    busiest = np.argsort(-links.busy_ns, kind="stable")[:most].tolist()
    rows = tuple(
        (
            links.name[i],
            time_text(int(links.busy_ns[i])),
            share_text(int(links.busy_ns[i]), result.makespan_ns),
            size_text(int(links.bytes[i])),
            f"{int(links.messages[i]):,}",
            f"{int(links.most_queued[i]):,}",
        )
        for i in busiest
    )
    mean = share_text(float(links.busy_ns.mean()), result.makespan_ns)
    lines = [f"{plural(len(links.name) * links.copies, 'link')} used, {mean} busy on average"]
    if links.copies > 1:
        lines.append(f"each row stands for {links.copies:,} equal links")
    columns = ("link", "busy", "utilisation", "bytes", "messages", "most queued")
    return Section("Busiest links", columns, rows, (0,), tuple(lines))


def graph_links_section(result: SimulationResult, most: int = MOST_LINKS) -> Section:
    """The links of a flow network by load, with who used them."""
    links = result.graph_links
    rows = tuple(
        (
            link.name,
            share_text(link.busy_share, 1.0),
            size_text(link.bytes),
            "; ".join(f"{user.name} ({share_text(user.bytes, link.bytes)})" for user in link.users),
        )
        for link in links[:most]
    )
    lines = [f"{plural(len(links), 'link')} used"] if links else []
    waits = int(result.parts_ns[:, PARTS.index("exposed_comm")].max(initial=0))
    if links and waits < HIDDEN * result.makespan_ns:
        largest = share_text(waits, result.makespan_ns)
        lines.append(f"communication is hidden: no rank waits for it alone in more than {largest} of the run,")
        lines.append("so that faster links would hardly shorten it")
    return Section("Links with the most load", ("link", "utilisation", "bytes", "used by"), rows, (0, 3), tuple(lines))


def _counts(result: SimulationResult) -> Section:
    return Section("Counted", ("what", "how many"), tuple((name, f"{n:,}") for name, n in result.counts.items()))


def operators_section(result: SimulationResult, peak_flops: float | None = None) -> Section:
    """What the kinds of work attain, over all ranks; of the device's peak where that is known."""
    rows = []
    whole = sum(float(kind.time_ns.sum()) for kind in result.computation)
    for kind in sorted(result.computation, key=lambda one: -int(one.time_ns.sum())):
        time_s, flops, moved = float(kind.time_ns.sum()) / 1e9, float(kind.flops.sum()), float(kind.bytes.sum())
        speed = flops / time_s if time_s else 0.0
        rows.append((
            kind.kind,
            f"{kind.nodes.mean():,.0f}",
            time_text(kind.time_ns.mean()),
            share_text(time_s * 1e9, whole),
            f"{speed / 1e12:,.1f}",
            f"{100 * speed / peak_flops:.1f} %" if peak_flops else "-",
            f"{moved / time_s / 1e9:,.0f}" if time_s else "-",
            f"{flops / moved:,.1f}" if moved else "-",
        ))  # fmt: skip
    heads = ("kind", "nodes a rank", "time a rank", "share", "TFLOP/s", "of peak", "GB/s", "FLOP/byte")
    return Section("Operators: what they attain", heads, tuple(rows))
