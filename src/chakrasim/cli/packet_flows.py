"""``chakrasim flows --model packet``: flows on a network of packets."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from chakrasim.cli.output import announce_compilation, check_targets, check_timeline, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes

STUCK = 3
FILES = ("network", "settings", "flows")
USUAL_NS = 1000
"""Between two looks at queues and rates, where nobody says."""


def run_packet_model(options: argparse.Namespace, notes: Notes, on_graph: tuple[Any, ...] | None) -> int:
    """Run and report; 3 if flows did not finish, unless faults of the reference are wanted. ``on_graph``: keys of a
    configuration, a graph, how routes are found on it, what happens to it, and the flows; None: all come as files of
    packets. Raises InputError."""
    from chakrasim.simulator.packet.alone.run import run_packets

    case = _case(options, notes) if on_graph is None else _case_on(on_graph, options, notes)
    tell_warnings(notes.warnings, options)
    if not options.quiet:
        announce_compilation("simulator")
    result = run_packets(case, keep_packets=options.packets, monitor=_monitor(options, case))
    stuck = (result.stuck_text,) if result.unfinished else ()
    tell_warnings((*result.warnings, *stuck), options)
    result = replace(result, warnings=(*notes.warnings, *result.warnings, *stuck))
    _write(options, result)
    if options.model == "flow,packet":
        from chakrasim.report.tables.flows import beside_sections
        from chakrasim.simulator.packet.alone.beside import beside

        both = beside(case, result)
        report(options, both.to_dict, lambda: beside_sections(both))
    else:
        from chakrasim.report.tables.flows import packet_sections

        report(options, result.to_dict, lambda: packet_sections(result))
    return STUCK if stuck and not options.compat else 0


def _case_on(given: tuple[Any, ...], options: argparse.Namespace, notes: Notes) -> Any:
    from chakrasim.simulator.packet.alone.case import case_on
    from chakrasim.simulator.packet.faults import faults_of
    from chakrasim.simulator.packet.ns3.files import values_of

    own, graph, routing, changes, flows = given
    if changes:
        raise InputError("links of this network change on the way, which flows as packets do not know",
                         remedy="use --model flow, or simulate a workload with --network-model packet")  # fmt: skip
    values, file = ({}, graph.name or "graph") if options.settings is None else values_of(options.settings)
    return case_on(graph, routing, flows, {**own, **values}, file, faults_of(options.compat), notes)


def _case(options: argparse.Namespace, notes: Notes) -> Any:
    from chakrasim.simulator.packet.alone.case import load_case, read_case
    from chakrasim.simulator.packet.faults import faults_of

    faults = faults_of(options.compat)
    given = [name for name in FILES if getattr(options, name) is not None]
    if options.file is None:
        if len(given) < len(FILES):
            missing = ", ".join(f"--{name}" for name in FILES if name not in given)
            raise InputError(
                "the network of packets is not all there", found=f"no {missing}",
                expected="a case, or --network TOPOLOGY --settings CONFIG --flows FLOWS",
            )  # fmt: skip
        return read_case(options.network, options.settings, options.flows, faults, notes, options.seed)
    if given:
        raise InputError(f"a case has its network: --{given[0]} does not go with it", remedy="leave one of them out")
    return load_case(options.file, faults, notes, options.seed)


def _monitor(options: argparse.Namespace, case: Any) -> Any:
    """When queues and rates are looked at: for outputs that show them, and for the file that the settings name."""
    from chakrasim.simulator.packet.alone.reference_files import monitor_of
    from chakrasim.simulator.packet.observed.monitor import Monitor

    settings = case.network.settings
    check_timeline(options.timeline)
    if options.files:
        names = ("fct_output_file", "pfc_output_file", "qlen_mon_file")
        paths = {name.upper(): getattr(settings, name) for name in names if getattr(settings, name)}
        if not paths:
            expected = "FCT_OUTPUT_FILE, PFC_OUTPUT_FILE or QLEN_MON_FILE in the settings"
            raise InputError("--files has nothing to write: the settings name no files", expected=expected)
        given = {f"--{name}": getattr(options, name) for name in ("json", "csv", "timeline", "plot")}
        check_targets(given | paths, [options.file, *(getattr(options, name) for name in FILES)])
    if options.sample or options.csv or options.timeline or options.plot:
        return Monitor(options.sample or USUAL_NS, int(case.flows[:, 5].min(initial=1 << 61)))
    return monitor_of(settings) if options.files else None


def _write(options: argparse.Namespace, result: Any) -> None:
    """Write the outputs beside the tables and the JSON."""
    from chakrasim.files.outputs import write_whole

    if options.files:
        from chakrasim.simulator.packet.alone.reference_files import reference_files

        for path, text in reference_files(result).items():
            write_whole(path, text.encode())
    if options.csv:
        lines = (",".join(map(str, row)) for row in result.samples.rows())
        write_whole(options.csv, "\n".join(["time_ns,kind,name,value", *lines, ""]).encode())
    if options.timeline:
        from chakrasim.report.timeline.packets import write_packet_timeline

        write_packet_timeline(result, options.timeline)
    if options.plot:
        from chakrasim.report.picture.queues import write_queues

        write_queues(options.plot, result)
