"""``chakrasim machines``: the machines and devices that are shipped."""

from __future__ import annotations

import argparse

from chakrasim.cli.output import print_sections, write_data
from chakrasim.notes import Notes
from chakrasim.text.layout import Section

SUMMARY = "List the shipped machines and devices, or print one as a file"
EXAMPLES = """\
examples:
  chakrasim machines
  chakrasim machines hgx-h100-8 > my-machine.yaml
  chakrasim machines h100 > my-device.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print the file of this machine or device, a start for your own"
    )


def run(options: argparse.Namespace) -> int:
    """List or print. Raises InputError for a name that is not shipped."""
    from chakrasim.machine import device_names, device_text, preset_text

    if options.name is not None:
        write_data(device_text(options.name) if options.name in device_names() else preset_text(options.name))
        return 0
    print_sections([_table(), _devices()])
    return 0


def _table() -> Section:
    from chakrasim.machine import load_machine, preset_names

    rows = []
    for name in preset_names():
        network = load_machine(name, Notes()).network
        dims = " x ".join(f"{kind} {n}" for kind, n in zip(network.topology, network.npus_count, strict=True))
        rows.append((name, f"{network.ranks}", dims))
    return Section("Machines", ("name", "NPUs", "network"), tuple(rows), (0, 2))


def _devices() -> Section:
    from chakrasim.machine import device_names, load_device

    rows = []
    for name in device_names():
        device = load_device(name)
        peak = f"{device.peak_of('bfloat16') / 1e12:,.0f} TFLOP/s"
        rows.append((name, f"{device.memory_bytes / 1e9:.0f} GB", f"{device.bandwidth / 1e9:,.0f} GB/s", peak))
    return Section("Devices (--device-profile)", ("name", "memory", "bandwidth", "16-bit peak"), tuple(rows))
