"""``chakrasim machines``: the machines that are shipped."""

from __future__ import annotations

import argparse

from chakrasim.cli.output import print_sections, write_out
from chakrasim.report.layout import Section

SUMMARY = "List the shipped machines, or print one as a machine file"
EXAMPLES = """\
examples:
  chakrasim machines
  chakrasim machines hgx-h100-8 > my-machine.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this machine's file, a start for your own")


def run(options: argparse.Namespace) -> int:
    """List or print. Raises InputError for a name that is not shipped."""
    from chakrasim.machine import preset_text

    if options.name is not None:
        write_out(preset_text(options.name))
        return 0
    print_sections([_table()])
    return 0


def _table() -> Section:
    from chakrasim.machine import load_machine, preset_names

    rows = []
    for name in preset_names():
        network = load_machine(name, []).network
        dims = " x ".join(f"{kind} {n}" for kind, n in zip(network.topology, network.npus_count, strict=True))
        rows.append((name, f"{network.ranks}", dims))
    return Section("Machines", ("name", "NPUs", "network"), tuple(rows), (0, 2))
