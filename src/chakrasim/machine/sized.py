"""Machines with a size: so many GPUs of a board behind a fabric, as the machine file that describes them."""

from __future__ import annotations

import re
from fractions import Fraction
from textwrap import wrap
from typing import Any, Final

from chakrasim.collectives.kinds import KINDS
from chakrasim.config.section import no_such
from chakrasim.errors import InputError
from chakrasim.machine.board import Board, load_board

FABRICS: Final = ("rail", "fat-tree", "one-switch")
LEAF_PORTS: Final = 64
"""Of the switches of fabrics: down, and as many up. 64 x 400 Gb/s is half of a switch of 51.2 Tb/s, as in SimAI's
Spectrum-X template (64 NICs on a leaf, 64 spines)."""
MOST_PODS: Final = 128
_NIC: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(G|T|Gb/s|Gbps|Gbit/s|Tb/s|Tbps|Tbit/s)", re.IGNORECASE)

Mapping = dict[str, Any]
PLAIN_COLLECTIVES: Final[Mapping] = {
    "splits": 1,
    "endpoint-delay": "0 ns",
    "algorithms": {kind.key: "direct" if kind.of_pairs else "ring" for kind in KINDS.values()},
}
"""On a graph of links, unless its file says otherwise."""


def sized_machine(
    name: str, gpus: int | None = None, nic: str | None = None, fabric: str | None = None,
    oversubscription: float | None = None,
) -> Mapping:  # fmt: skip
    """The machine file of ``gpus`` GPUs (one board's unless given; whole nodes, if more) of a board, with NICs of
    another speed, a fabric of `FABRICS` ("rail" unless given), and its leaves' bandwidth down by their bandwidth up (1
    unless given).

    One board, or a part of one, has no NICs and no fabric. Raises :class:`chakrasim.InputError` for an unknown name,
    boards that are not whole, and what does not go together.
    """
    board = load_board(name)
    count = board.gpus if gpus is None else gpus
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 2**20:
        raise InputError("gpus out of range", found=count, expected="1 to 1,048,576")
    _refuse(board, count, fabric, oversubscription)
    rate = _rate(nic) if nic is not None else board.nics.bandwidth
    parts: list[Mapping] = [board.inside]
    island = island_of(board, count)
    if count > island:
        each = board.nics.count * island // board.gpus
        nics = {"per-island": each, "pcie": board.nics.pcie, "latency": board.nics.pcie_latency}
        over = Fraction(oversubscription or 1)
        parts += [{"nics": nics}, _fabric(board, fabric or "rail", count // island, each, rate, over)]
    graph = {
        "ranks": count,
        "islands": {"gpus": island},
        "parts": parts,
        "routing": {"rule": "ecmp", "seed": 1, "nvswitch-first": True},
    }
    logical = [island, count // island] if count > island else [island]
    return _machine(board, count, island, {"graph": graph, "logical": logical, "network-model": "flow"})


def island_of(board: Board, count: int) -> int:
    """GPUs of each island of ``count``: a whole board, or the most nodes of one that make equal islands.

    Jobs of 128 or 512 GPUs on racks of 72 stand on 64 of each.
    """
    if count <= board.gpus:
        return count
    node = board.make.node_gpus or board.gpus
    return max((size for size in range(node, board.gpus + 1, node) if count % size == 0), default=0)


def sized_text(
    name: str, gpus: int | None = None, nic: str | None = None, fabric: str | None = None,
    oversubscription: float | None = None,
) -> str:  # fmt: skip
    """The same as the text of a machine file."""
    import yaml

    entries = sized_machine(name, gpus, nic, fabric, oversubscription)
    source = "\n".join(f"  {line}" for line in wrap(str(entries.pop("source")), 116))
    del entries["format"]
    called = entries.pop("name")
    rest = yaml.safe_dump(entries, sort_keys=False, width=120, default_flow_style=None)
    return f"format: 1\nname: {called}\nsource: >\n{source}\n\n{rest}"


def _machine(board: Board, count: int, island: int, network: Mapping) -> Mapping:
    used = f" Of each {board.gpus} GPUs, {island} are used, so that all islands are equal."
    part = used if island < min(count, board.gpus) else ""
    return {
        "format": 1,
        "name": f"{board.name}-{count}",
        "source": f"{board.what}{part} {board.source}",
        "network": network,
        "issue": "streams",
        **({"compute": {"profile": board.profile}} if board.profile else {}),
        "memory": {"bandwidth": board.memory, "expansion": _host_memory(board)},
        "collectives": {"library": board.make.library, "site": board.make.entries(), **PLAIN_COLLECTIVES},
    }


def _host_memory(board: Board) -> Mapping:
    """The host's memory behind each GPU's PCIe link; remote memory has whole GB/s."""
    bandwidth = f"{float(board.nics.pcie.split()[0]):.0f} GB/s"
    return {"kind": "per-npu", "latency": board.nics.pcie_latency, "bandwidth": bandwidth}


def _refuse(board: Board, count: int, fabric: str | None, oversubscription: float | None) -> None:
    if fabric is not None and fabric not in FABRICS:
        raise no_such("no such fabric", fabric, FABRICS)
    node = board.make.node_gpus or board.gpus
    if not island_of(board, count):
        near = count // node * node
        what = "board" if node == board.gpus else "node"
        raise InputError(
            f"{board.name} has {node} GPUs on a {what}",
            found=f"{count} GPUs",
            expected=f"at most {board.gpus}, or whole {what}s: {near} or {near + node}",
        )
    if oversubscription is None:
        return
    good = not isinstance(oversubscription, bool) and isinstance(oversubscription, int | float)
    if not good or not 1e-3 <= oversubscription <= 1e3:
        raise InputError("oversubscription out of range", found=oversubscription, expected="a factor, 0.001 to 1,000")
    if fabric == "one-switch":
        raise InputError("one switch has no uplinks, so nothing to oversubscribe", remedy="leave one of them out")


def _rate(nic: str) -> str:
    """ "400G", "400 Gb/s" and the like as our files write it."""
    match = _NIC.fullmatch(str(nic).strip())
    if match is None or not float(match[1]):
        raise InputError("not the speed of a NIC", found=repr(nic), expected='bits a second, such as "400G"')
    return f"{match[1]} {match[2][0].upper()}b/s"


def _fabric(board: Board, fabric: str, islands: int, each: int, rate: str, over: Fraction) -> Mapping:
    """The part that joins the NICs, ``each`` of an island. Leaves have at most LEAF_PORTS NICs, and spines so many that
    cables are as fast as NICs; where the oversubscription asks for a part of a spine, all cables are a little slower or
    faster."""
    latency = board.nics.latency
    if fabric == "one-switch":
        return {"one-switch": {"bandwidth": rate, "latency": latency}}
    ports = islands * each
    leaf = min(LEAF_PORTS, islands if fabric == "rail" else ports)
    spines = max(1, int(leaf / over + Fraction(1, 2)))
    number, unit = rate.split()
    uplink = f"{float(Fraction(number) * leaf / spines / over):.12g} {unit}"
    if fabric == "rail":
        keys = {"leaf-gpus": leaf, "spines": spines, "nic": rate, "latency": latency, "uplink": uplink}
        return {"rails": keys}
    if ports <= 2 * LEAF_PORTS * LEAF_PORTS:
        return {"leaf-spine": {"hosts-per-leaf": leaf, "spines": spines, "bandwidth": rate, "latency": latency,
                               "uplink": uplink}}  # fmt: skip
    pods = -(-ports // (leaf * LEAF_PORTS))
    if pods > MOST_PODS:
        most = MOST_PODS * leaf * LEAF_PORTS
        raise InputError(
            "too many NICs for a fat tree of three tiers", found=f"{ports:,}", expected=f"at most {most:,}"
        )
    levels = {"down": [leaf, LEAF_PORTS, pods], "up": [1, spines, LEAF_PORTS], "bandwidth": [rate, uplink, uplink]}
    return {"xgft": {**levels, "latency": latency}}
