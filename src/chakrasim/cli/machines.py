"""``chakrasim machines``: the machines, boards and devices that are shipped."""

from __future__ import annotations

import argparse

from chakrasim.cli.machine_options import SIZE, add_size
from chakrasim.cli.output import print_sections, write_data
from chakrasim.notes import Notes
from chakrasim.text.layout import Section

SUMMARY = "List the shipped machines and devices, or print one as a file"
EXAMPLES = """\
examples:
  chakrasim machines
  chakrasim machines hgx-h100-8 > my-machine.yaml
  chakrasim machines h100 --gpus 256 --oversubscription 2 > my-cluster.yaml
  chakrasim machines h100 > my-device.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print the file of this machine or device, a start for your own"
    )
    add_size(parser.add_argument_group("a board with a size, as a machine file"))


def run(options: argparse.Namespace) -> int:
    """List or print. Raises InputError for a name that is not shipped, and for a size that cannot be."""
    from chakrasim.errors import InputError

    size = {name: getattr(options, name) for name in SIZE}
    given = [name for name, value in size.items() if value is not None]
    if options.name is None:
        if given:
            raise InputError(
                f"--{given[0]} needs the name of a board", expected="chakrasim machines h100 --gpus 256, say"
            )
        print_sections([_table(), _boards(), _devices()])
        return 0
    write_data(_text(options.name, size, bool(given)))
    return 0


def _text(name: str, size: dict[str, object], sized: bool) -> str:
    """A device's name alone is the device; with a size it is the board."""
    from chakrasim.machine import board_names, device_names, device_text, preset_text, sized_text

    if sized or (name in board_names() and name not in device_names()):
        return sized_text(name, **size)  # type: ignore[arg-type]
    return device_text(name) if name in device_names() else preset_text(name)


def _table() -> Section:
    from chakrasim.machine import load_machine, preset_names

    rows = []
    for name in preset_names():
        network = load_machine(name, Notes()).dimensions
        dims = " x ".join(f"{kind} {n}" for kind, n in zip(network.topology, network.npus_count, strict=True))
        rows.append((name, f"{network.ranks}", dims))
    return Section("Machines", ("name", "NPUs", "network"), tuple(rows), (0, 2))


def _boards() -> Section:
    from chakrasim.machine import board_names, load_board

    rows = []
    for name in board_names():
        board = load_board(name)
        ((family, keys),) = board.inside.items()
        nics = f"{board.nics.count} x {board.nics.bandwidth}"
        rows.append((name, f"{board.gpus}", f"{family}, {keys['bandwidth']}", nics))
    title = "Boards, machines with a size (--gpus N)"
    return Section(title, ("name", "GPUs", "inside", "NICs"), tuple(rows), (0, 2))


def _devices() -> Section:
    from chakrasim.machine import device_names, load_device

    rows = []
    for name in device_names():
        device = load_device(name)
        peak = f"{device.peak_of('bfloat16') / 1e12:,.0f} TFLOP/s"
        rows.append((name, f"{device.memory_bytes / 1e9:.0f} GB", f"{device.bandwidth / 1e9:,.0f} GB/s", peak))
    return Section("Devices (--device-profile)", ("name", "memory", "bandwidth", "16-bit peak"), tuple(rows))
