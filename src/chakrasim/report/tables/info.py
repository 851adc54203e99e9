"""What a workload holds, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.analysis.info.workload import WorkloadInfo
from chakrasim.report.tables.cut import more_line
from chakrasim.text.amounts import number_text, plural, size_text, time_text
from chakrasim.text.layout import Section

MOST_COLLECTIVES = 40


def info_sections(info: WorkloadInfo) -> Iterator[Section]:
    """The tables of ``chakrasim info``."""
    low, mean, high = (time_text(micros * 1000) for micros in info.compute_micros)
    versions = ", ".join(f"{version or 'none stated'} ({count:,})" for version, count in info.versions.items())
    rows = [
        ("ranks", f"{info.ranks:,} ({plural(info.distinct, 'distinct trace')})"),
        ("schema version", f"{versions}, by ranks"),
        ("nodes", f"{info.nodes:,} over all ranks"),
        ("depth", f"{plural(info.depth, 'node')} on the longest chain of dependencies"),
        (
            "critical path",
            f"{time_text(info.critical_path_micros * 1000)}, parallelism {number_text(info.parallelism)}",
        ),
        ("compute", low if info.compute_micros[0] == info.compute_micros[2] else f"{low} to {high}, mean {mean}"),
        ("operations", f"{info.compute_ops:.4g} stated by compute nodes (num_ops)"),
        ("sent", f"{size_text(info.send_bytes)} in {plural(info.sends, 'send')}"),
        ("received", f"{size_text(info.receive_bytes)} in {plural(info.receives, 'receive')}"),
    ]
    yield Section(rows=tuple(rows), left=(0, 1))
    faults = {
        "ids are there twice": info.duplicate_ids,
        "dependencies name nodes that do not exist": info.unknown_dependencies,
        "nodes can never run (dependencies in a circle)": info.nodes_in_cycles,
    }
    lines = tuple(f"{count:,} {what}: a simulation will refuse this" for what, count in faults.items() if count)
    yield Section(lines=lines, loud=True)
    groups = tuple(
        (role, f"{count:,}", f"{low:,}" if low == high else f"{low:,} to {high:,}")
        for role, (count, low, high) in info.process_groups.items()
    )
    if groups:
        yield Section("Process groups", ("role", "groups", "members"), groups)
    types = tuple((name, f"{count:,}") for name, count in info.nodes_by_type.items())
    yield Section("Nodes by type (all ranks)", ("type", "count"), types)
    shown = sorted(info.collectives, key=lambda c: (-c.bytes, c.type, c.size_bytes, c.group))[:MOST_COLLECTIVES]
    collectives = tuple(
        (
            c.type,
            "-" if c.size_bytes < 0 else size_text(c.size_bytes),
            c.group or "all",
            f"{c.count:,}",
            size_text(c.bytes),
        )
        for c in shown
    )
    rest = more_line(info.collectives, shown, "kind", " of fewer bytes")
    columns = ("collective", "size", "group", "count", "bytes")
    yield Section("Collectives (all ranks), most bytes first", columns, collectives, (0, 2), rest)
