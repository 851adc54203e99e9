"""``chakrasim flows``: flows on a fabric, without a workload."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chakrasim.cli.machine_options import add_machine, add_routing, given_of, machine_of
from chakrasim.cli.options import add_strict, interval, real_number
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.machine.graph.changes import Change
    from chakrasim.machine.graph.graph import NetworkGraph
    from chakrasim.machine.graph.routing import Routing
    from chakrasim.simulator.flow.alone.flows import Flows
    from chakrasim.simulator.flow.alone.result import FlowResult

SUMMARY = "Let flows share a fabric, without a workload"
EXAMPLES = """\
examples:
  chakrasim flows case.json --exact --json ends.json
  chakrasim flows --machine h100 --gpus 256 --pattern all-to-all:1MiB --routing ecmp --seed 7
  chakrasim flows --network fabric.graphml --pattern incast:16x1MiB
  chakrasim flows my-flows.csv --machine h100 --gpus 64
  chakrasim flows case.json --model packet --json out.json
  chakrasim flows case.json --model flow,packet
  chakrasim flows --machine h100 --gpus 64 --pattern permutation:4MiB --model flow,packet
  chakrasim flows --network topology.txt --settings config.txt --flows flows.txt --model packet --compat

A case brings its links along: {"links": [[from, to, bytes per ns], ...], "flows": [[start_ns, bytes, [links]], ...]}
and, where wanted, "weights", "after" and "capacity_changes". A file of flows has the columns source, destination,
size_bytes and, where wanted, start_ns, after, weight, label.

exit codes: 0 every flow ended; 2 unusable input (or, with --strict, any warning); 3 some flow cannot end
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    inputs = parser.add_argument_group("input")
    inputs.add_argument("file", nargs="?", metavar="FILE", help="a case (JSON), or flows for a machine (JSON or CSV)")
    inputs.add_argument("--pattern", metavar="NAME:SIZE", help="incast:16x1MiB, permutation:4MiB or all-to-all:1MiB")
    add_machine(inputs)
    inputs.add_argument("--network", metavar="FILE", help="a file of a network alone, instead of --machine")
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model",
        choices=("flow", "packet", "flow,packet"),
        default="flow",
        metavar="MODEL",
        help="how links are shared: flow, max-min fair (default); packet, by queues and control; flow,packet: both",
    )
    packets = parser.add_argument_group("packets (--model packet)")
    packets.add_argument(
        "--settings", metavar="FILE", help="the configuration of hosts and switches, with --network or --machine"
    )
    packets.add_argument("--flows", metavar="FILE", help="flows as HPCC's simulator reads them, with --network")
    packets.add_argument("--compat", action="store_true", help="as ns-3's model does it, its faults included")
    packets.add_argument(
        "--sample", type=interval, metavar="TIME", help="look at queues and rates so often: 500ns, 1us (with outputs)"
    )
    packets.add_argument("--files", action="store_true", help="write the files that the settings name, as ns-3 does")
    packets.add_argument("--packets", action="store_true", help="every transmission into the JSON, as tx")
    add_routing(model)
    model.add_argument("--changes", metavar="FILE", help="links, switches and ranks that fail, come back, change speed")
    model.add_argument("--exact", action="store_true", help="times are real numbers, not whole nanoseconds")
    model.add_argument(
        "--merge",
        type=real_number,
        default=0.0,
        metavar="X",
        help="take ends within this share of the time together, for very many unequal flows: 0.01; default: 0",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    output.add_argument("--csv", metavar="FILE", help="packets: write queues and rates over time")
    output.add_argument(
        "--timeline", metavar="FILE", help="packets: write flows, pauses, queues and rates for Perfetto"
    )
    output.add_argument("--plot", metavar="FILE", help="packets: draw queues, pauses and rates over time, as SVG")
    output.add_argument("--quiet", action="store_true", help="no tables and no progress, only warnings and errors")
    add_strict(output)


def run(options: argparse.Namespace) -> int:
    """Run and report. Raises InputError."""
    inputs = [options.file, options.machine, options.network, options.changes, options.settings, options.flows]
    check_targets({f"--{name}": getattr(options, name) for name in ("json", *PICTURES)}, inputs)
    if options.model != "flow":
        return _as_packets(options)
    own = [
        name
        for name in ("settings", "flows", "compat", "packets", "sample", "files", *PICTURES)
        if getattr(options, name)
    ]
    _refuse(own, "only --model packet has packets")
    notes = Notes()
    given = _input(options, notes)
    tell_warnings(notes.warnings, options)
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.cli.progress import progress_bar

    with progress_bar("flows") if not options.quiet and sys.stderr.isatty() else nullcontext() as progress:
        result = _run(given, options, progress)
    stuck = (result.stuck_text,) if result.stuck.size else ()
    tell_warnings((*result.warnings, *stuck), options)
    result = replace(result, warnings=(*notes.warnings, *result.warnings, *stuck))
    from chakrasim.report.tables.flows import flow_sections

    report(options, result.to_dict, lambda: flow_sections(result))
    return STUCK if result.stuck.size else 0


def _as_packets(options: argparse.Namespace) -> int:
    """The same on a network of packets: of a machine or a graph, or of files of its own."""
    from chakrasim.cli.packet_flows import run_packet_model

    _refuse(["changes"] if options.changes is not None else [], "--model packet knows no changes")
    notes = Notes()
    with_flows = options.pattern is not None or (options.file is not None and options.network is not None)
    if options.machine is None and not with_flows:
        return run_packet_model(options, notes, None)
    _refuse(["flows"] if options.flows is not None else [], "a machine or graph has flows in FILE or by --pattern")
    given = _input(options, notes)
    if not isinstance(given, tuple):
        raise InputError("a case of links has no hosts", file=options.file, expected="flows: source, destination, "
                         "size_bytes", remedy="use --model flow")  # fmt: skip
    from chakrasim.simulator.flow.alone.api import check_ranks

    check_ranks(given[0], given[3])
    own = {} if options.machine is None else machine_of(options, Notes()).packets
    return run_packet_model(options, notes, (own, *given))


STUCK = 3
"""The exit code where some flow cannot end."""
PICTURES = ("csv", "timeline", "plot")
"""What shows packets over time."""


def _input(options: argparse.Namespace, notes: Notes) -> Any:
    """A case, or a graph and the flows on it."""
    from chakrasim.simulator.flow.alone.flow_files import Case, read_flow_file

    if not 0 <= options.merge < 1:
        raise InputError("--merge is a share of the time", found=options.merge, expected="from 0 to below 1, as 0.01")
    if (options.file is None) == (options.pattern is None):
        both = "a file and --pattern are given" if options.file else "no flows are given"
        raise InputError(both, expected="one of the two: chakrasim flows FILE, or --pattern NAME:SIZE")
    flows = None if options.file is None else read_flow_file(options.file, notes)
    if isinstance(flows, Case):
        others = [name for name in ("machine", "network", "changes") if getattr(options, name) is not None]
        _refuse([*others, *given_of(options)], "a case has its own links and routes")
        return flows
    graph, routing, changes = _network(options, notes)
    if options.changes is not None:
        from chakrasim.machine.graph.changes import load_changes

        changes = (*changes, *load_changes(options.changes, graph, notes, changes))
    return graph, routing, changes or None, flows if flows is not None else _pattern(options, graph)


def _refuse(names: Sequence[str], why: str) -> None:
    """Complain about options that have no effect here."""
    if names:
        raise InputError(f"{why}: --{names[0]} does not go with it", remedy=f"leave --{names[0]} out")


def _pattern(options: argparse.Namespace, graph: NetworkGraph) -> Flows:
    from chakrasim.simulator.flow.alone.patterns import pattern_flows

    return pattern_flows(options.pattern, graph.ranks, 1 if options.seed is None else options.seed)


def _network(options: argparse.Namespace, notes: Notes) -> tuple[NetworkGraph, Routing, tuple[Change, ...]]:
    """The graph, how routes are found on it, and what happens to it."""
    if options.network is not None:
        if options.machine is not None:
            raise InputError("--machine and --network are two networks", remedy="leave one of them out")
        _refuse([name for name in given_of(options) if name not in ("routing", "seed")], "--network is a whole network")
        from chakrasim.machine.graph.routing import Routing
        from chakrasim.machine.graph_file import read_graph

        rule = Routing() if options.routing is None else Routing(rule=options.routing)
        rule = rule if options.seed is None else replace(rule, seed=options.seed)
        return read_graph(options.network, notes), rule, ()
    if options.machine is None:
        raise InputError("no network is given", expected="--machine NAME --gpus N, or --network FILE")
    if options.slow:
        raise InputError("--slow has no effect: flows compute nothing", remedy="leave --slow out")
    machine = machine_of(options, notes)
    return machine.graph, machine.routing, machine.changes


def _run(given: Any, options: argparse.Namespace, progress: Any) -> FlowResult:
    from chakrasim.simulator.flow.alone.api import check_ranks, run_flows, share_links
    from chakrasim.simulator.flow.alone.flow_files import Case, naming

    how: dict[str, Any] = {"exact": options.exact, "merge": options.merge, "progress": progress}
    if isinstance(given, Case):
        return share_links(given.link_names, given.capacity, given.flows, changes=given.changes, **how)
    graph, routing, changes, flows = given
    with naming(options.file) if options.file else nullcontext():
        check_ranks(graph, flows)
    return run_flows(graph, flows, routing=routing, changes=changes, **how)
