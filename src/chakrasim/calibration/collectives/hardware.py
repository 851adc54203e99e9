"""Machines that the data do not describe: taken as the machine that the user names, or as a shipped board."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache

from chakrasim.calibration.collectives.describe import network_of
from chakrasim.calibration.measurements.curves import Curve, MachineRow, Measurements
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import library_of
from chakrasim.errors import InputError
from chakrasim.machine.board import board_names, load_board
from chakrasim.machine.machine import Machine
from chakrasim.machine.machine_file import load_machine
from chakrasim.machine.site import Sites
from chakrasim.notes import Notes


def bases_of(measured: Measurements, machine: str | os.PathLike[str] | Machine | None, notes: Notes) -> dict[str, Site]:
    """By name, for machines that the data do not describe: what a library sees of the machine that stands for them."""
    undescribed: dict[str, Curve] = {}
    for curve in measured.curves:
        if not is_described(measured.machines.get(curve.machine)):
            undescribed.setdefault(curve.machine, curve)
    if machine is not None:
        if not undescribed:
            raise InputError("machine has no effect: the data describe all of their machines", remedy="leave it out")
        base = whole_machine(machine, notes)
        return {name: _with_network(base, measured.machines.get(name)) for name in undescribed}
    found = {}
    for name, curve in undescribed.items():
        board = board_like(curve.gpu)
        if board is not None:
            notes.warn(f"{name}: the data do not say what joins its GPUs and nodes: taken as {board}, "
                       "name another with machine")  # fmt: skip
            found[name] = _with_network(_board(board), measured.machines.get(name))
    return found


def _with_network(base: Site, row: MachineRow | None) -> Site:
    """With the network that a log names. Sockets are no network of their own, but the way to use one."""
    network = network_of(row.network) if row is not None else "unknown"
    return base if network in ("unknown", "tcp") else replace(base, network=network)


def is_described(row: MachineRow | None) -> bool:
    """Whether a row says what joins GPUs or nodes."""
    if row is None:
        return False
    return bool(row.intra_node or row.intra_GBps_per_gpu_per_dir or row.node_GBps_per_dir)


def site_like(base: Site, curve: Curve) -> Site:
    """The ranks of a curve on a machine like one. Raises InputError if they do not fit."""
    each, rest = divmod(curve.nranks, curve.nodes)
    if rest or each > base.board:
        raise InputError("the ranks of the curve do not fit the machine", place=curve.name,
                         found=f"{curve.nranks} ranks on {curve.nodes} nodes",
                         expected=f"as many on each node, at most {base.board}")  # fmt: skip
    several = curve.nodes > base.domain_nodes
    if several and not base.nics_per_node:
        raise InputError("the machine has no NICs, but the curve has several nodes", place=curve.name,
                         found=f"{curve.nodes} nodes", expected="a machine of several nodes")  # fmt: skip
    ports, speed = (base.nics_per_node, base.nic_GBps) if several else (0, 0.0)
    sockets = several and re.search("socket", curve.env, re.IGNORECASE)
    network = "tcp" if sockets else base.network if several else "none"
    return replace(base, nodes=curve.nodes, ranks_per_node=each, ranks=0, gpus_per_node=base.board,
                   nics_per_node=ports, nic_GBps=speed, network=network)  # fmt: skip


def whole_machine(machine: str | os.PathLike[str] | Machine, notes: Notes) -> Site:
    """What a library sees of a whole machine: of a board two of it, so that its NICs count."""
    source = machine if isinstance(machine, Machine) else os.fspath(machine)
    if isinstance(source, str) and source in board_names():
        return _board(source)
    return _site(load_machine(source, notes))


def board_like(gpu: str) -> str | None:
    """The shipped board of a GPU by its name; None for GPUs on PCIe and those that no board has."""
    if re.search("pcie", gpu, re.IGNORECASE):
        return None
    return next((name for name in board_names() if re.search(rf"(?<!\w){name}(?!\w)", gpu, re.IGNORECASE)), None)


@cache
def _board(name: str) -> Site:
    return _site(load_machine(name, gpus=2 * load_board(name).gpus))


def _site(machine: Machine) -> Site:
    library = machine.library or library_of(machine.make.library or "nccl")
    return Sites(machine.graph, machine.make, library).of(range(machine.ranks))
