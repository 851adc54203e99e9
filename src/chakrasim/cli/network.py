"""``chakrasim network``: what a file of a network holds, and the same network in another form."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import check_targets, report, tell_warnings
from chakrasim.cli.streams import tell
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import number_text, plural
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.machine.graph.summary import GraphSummary, LinkKind

SUMMARY = "Say what a network's file holds, or write it in another form"
EXAMPLES = """\
Read, told apart by content: our YAML and JSON, topologies of ns-3 and SimAI, SimGrid's platforms, htsim's .topo,
GraphML, node-link JSON; and of one server NCCL's topology XML and the text of `nvidia-smi topo -m`, repeated by
--servers.

examples:
  chakrasim network fabric.txt
  chakrasim network fabric.txt -o fabric.yaml
  chakrasim network system.xml --servers 32 --fabric rail -o cluster.txt --format simai
"""
FABRICS: Final = ("one-switch", "rail")
FORMATS: Final = ("yaml", "json", "ns3", "simai", "simgrid", "htsim", "graphml", "node-link")
_ENDINGS: Final = {
    ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".graphml": "graphml", ".topo": "htsim", ".xml": "simgrid",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("file", metavar="FILE", help="a network, in any form that is known")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the network")
    parser.add_argument("--format", choices=FORMATS, help="form of the output (default: by the ending of its name)")
    parser.add_argument(
        "--servers",
        type=whole_number(1, 2**20),
        metavar="N",
        help="how many servers there are like the one of FILE (default: 1)",
    )
    parser.add_argument(
        "--fabric",
        choices=FABRICS,
        help="what joins the servers: one switch, or one for each port's number (default: one-switch)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the counts as JSON; '-' is standard output, no tables")
    add_strict(parser)


def run(options: argparse.Namespace) -> int:
    """Read, count, print, write. Raises InputError."""
    check_targets({"--output": options.output, "--json": options.json}, [options.file])
    form = _form(options)
    from chakrasim.machine.graph.formats.api import graph_text
    from chakrasim.machine.graph.formats.server import Servers
    from chakrasim.machine.graph.summary import summary_of
    from chakrasim.machine.graph_file import read_graph

    notes = Notes()
    servers = Servers(options.servers or 1, options.fabric or "one-switch")
    graph = read_graph(options.file, notes, servers)
    text = graph_text(graph, form, options.output, notes) if form else ""
    tell_warnings(notes.warnings, options)
    for note in notes.notes:
        tell(f"chakrasim: note: {note}")
    if form:
        from chakrasim.files.outputs import write_whole

        write_whole(options.output, text.encode())
    summary = summary_of(graph)
    report(options, summary.to_mapping, lambda: sections(summary))
    return 0


def _form(options: argparse.Namespace) -> str:
    """The form of the output; nothing if none is written."""
    if options.output is None:
        if options.format is not None:
            raise InputError("--format without -o", remedy="name the file to write with -o")
        return ""
    known = _ENDINGS.get(os.path.splitext(options.output)[1].lower(), "")
    if not (options.format or known):
        expected = "--format, or a name that ends in " + ", ".join(_ENDINGS)
        raise InputError("the form of the output is not said", file=options.output, expected=expected)
    return str(options.format or known)


def sections(summary: GraphSummary) -> list[Section]:
    """The tables of a network."""
    rows = [(kind, f"{count:,}") for kind, count in summary.kinds.items()]
    shape = " x ".join(map(str, summary.logical))
    lines = [f"{plural(summary.links, 'link')} in {plural(summary.cables, 'cable')}; logical shape {shape}"]
    if summary.islands:
        lines[0] += f"; {plural(summary.islands, 'island')}"
    if summary.media < summary.links:
        lines.append(f"{summary.links - summary.media:,} of the links share another's capacity")
    if summary.forwarding:
        lines.append(f"{plural(summary.forwarding, 'rank')} let others' traffic pass")
    columns = ("ends", "links", "parallel", "capacity (GB/s)", "latency (ns)")
    return [
        Section(f"Network {summary.name}", ("kind", "vertices"), tuple(rows), lines=tuple(lines)),
        Section("Links", columns, tuple(map(_row, summary.by_kind))),
    ]


def _row(kind: LinkKind) -> tuple[str, ...]:
    amounts = (_span(kind.capacity), _span(kind.latency))
    return ("-".join(kind.ends), f"{kind.links:,}", f"{kind.parallel:,}" if kind.parallel else "-", *amounts)


def _span(values: tuple[float, float]) -> str:
    low, high = map(number_text, values)
    return low if low == high else f"{low} to {high}"
