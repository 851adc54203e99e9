"""``chakrasim flows --model packet``: flows on a network of packets."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes

STUCK = 3
FILES = ("network", "settings", "flows")


def run_packet_model(options: argparse.Namespace) -> int:
    """Run and report; 3 if flows did not finish, unless faults of the reference are wanted. Raises InputError."""
    from chakrasim.simulator.packet.alone.run import run_packets

    notes = Notes()
    case = _case(options, notes)
    tell_warnings(notes.warnings, options)
    if not options.quiet:
        announce_compilation("simulator")
    result = run_packets(case, keep_packets=options.packets)
    stuck = (result.stuck_text,) if result.unfinished else ()
    tell_warnings(stuck, options)
    result = replace(result, warnings=(*notes.warnings, *stuck))
    from chakrasim.report.tables.flows import packet_sections

    report(options, result.to_dict, lambda: packet_sections(result))
    return STUCK if stuck and not options.compat else 0


def _case(options: argparse.Namespace, notes: Notes) -> Any:
    from chakrasim.simulator.packet.alone.case import load_case, read_case
    from chakrasim.simulator.packet.faults import ALL_FAULTS, NO_FAULTS

    faults = ALL_FAULTS if options.compat else NO_FAULTS
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
