"""The options that say which machine: its name, its size, single figures of it, slow ranks."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chakrasim.cli.options import real_number, whole_number
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.machine import Machine

SIZE = ("gpus", "nic", "fabric", "oversubscription")
_WAYS = {"routing": "rule", "seed": "seed"}


def add_machine(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, settings: bool = True) -> None:
    """The machine, and what changes it; without ``settings``, ``--set`` is left to the command."""
    what = "a preset or board (see chakrasim machines), or a machine file"
    parser.add_argument("--machine", metavar="NAME|FILE", help=what)
    add_size(parser)
    if settings:
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="PATH=VALUE",
            help="change a figure of the machine file: network[0].latency='1 us', "
            "network.graph.parts.nics.pcie='16 GB/s'",
        )
    parser.add_argument(
        "--slow",
        action="append",
        default=[],
        metavar="RANKS=FACTOR",
        help="ranks (5, 0-7,16) or boards ('board 2') whose compute takes that many times as long: 5=1.3",
    )


def add_size(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The size of a board's machine."""
    parser.add_argument("--gpus", type=whole_number(1, 2**20), metavar="N", help="how many, of a board such as h100")
    parser.add_argument("--nic", metavar="SPEED", help="of each NIC, such as 400G; default: the board's")
    parser.add_argument("--fabric", metavar="KIND", help="rail, fat-tree or one-switch; default: rail")
    parser.add_argument(
        "--oversubscription",
        type=real_number,
        metavar="X",
        help="of leaves: bandwidth down by bandwidth up; default: 1",
    )


def add_routing(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """How flows find their ways through the machine's graph."""
    rules = "shortest, ecmp, spray, d-mod-k, s-mod-k, dimension-order, adaptive, given"
    parser.add_argument("--routing", metavar="RULE", help=f"how flows find their ways: {rules}; default: the machine's")
    parser.add_argument("--seed", type=whole_number(0, 2**63 - 1), metavar="N", help="of the hash that chooses ways")


def changes_machine(options: argparse.Namespace) -> bool:
    """Whether there is more than a name: a size, a figure, slow ranks or a routing."""
    return bool(given_of(options))


def given_of(options: argparse.Namespace) -> list[str]:
    """The names of those that are given."""
    return [
        name for name in (*SIZE, "set", "slow", "library", *_WAYS) if getattr(options, name, None) not in (None, [])
    ]


def machine_for(name: str, ranks: int, notes: Notes) -> Machine:
    """The machine of this name for a job of so many ranks: a board's of that size. Raises InputError."""
    from chakrasim.machine import load_machine
    from chakrasim.machine.board import board_names

    machine = load_machine(name, notes, gpus=ranks if name in board_names() else None)
    if machine.ranks != ranks:
        raise InputError("the machine has another size than the job", file=machine.name or name,
                         found=f"{machine.ranks:,} GPUs", expected=f"{ranks:,}")  # fmt: skip
    return machine


def sized_machine(options: argparse.Namespace, notes: Notes, ranks: int | None = None) -> Machine | str:
    """The machine by its name, or, where any of `SIZE` is given, the board's of that size; of ``ranks`` GPUs unless
    --gpus says how many. Raises InputError."""
    size = {name: getattr(options, name) for name in SIZE}
    if all(value is None for value in size.values()):
        return str(options.machine)
    from chakrasim.machine import load_machine

    return load_machine(options.machine, notes, **(size | {"gpus": ranks if options.gpus is None else options.gpus}))


def machine_of(options: argparse.Namespace, notes: Notes | None = None) -> Machine:
    """The machine that the options describe. Raises InputError."""
    from chakrasim.machine import load_machine
    from chakrasim.machine.settings import parse_settings
    from chakrasim.machine.slow import parse_slow

    if options.machine is None:
        given = given_of(options)
        raise InputError(f"--{given[0]} needs --machine" if given else "no machine is given", expected="--machine NAME")
    size = {name: getattr(options, name) for name in SIZE}
    library = getattr(options, "library", None)
    machine = load_machine(options.machine, notes, **size, settings=parse_settings(options.set), library=library)
    ways = {_WAYS[name]: getattr(options, name) for name in _WAYS if getattr(options, name, None) is not None}
    routing: Any = replace(machine.routing, **ways)
    return replace(machine, slow=(*machine.slow, *parse_slow(options.slow)), routing=routing)
