"""What the time of a collective is made of.

Each term is a time in us that one mechanism would take if its constant were nominal: so many hops of a protocol at 1 us
each, so many bytes at the speed of the wire. A term is named ``CONSTANT/detail``: the constant is what differs from
machine to machine and is calibrated, the detail is weighed once and for all (`chakrasim.collectives.libraries.model`).

What a kernel does step by step is nccl-model.md, section 4. A rank of a ring copies its own part and passes on the
others', so that large sizes take bytes on the wire and bytes copied beside. LL moves 8 bytes a thread at a time, so
that a step costs the same until each thread has more than that. Pipelines fill up for a while: what that takes grows
with the root of the time on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt
from typing import Any, Final

import numpy as np

from chakrasim.collectives.libraries.choice import Choice
from chakrasim.collectives.libraries.site import Site

Numbers = Any
"""A number, or an array of them."""
CONSTANTS: Final = {
    "launch": "the kernel and its start",
    "LL.hop": "a step with LL inside a node",
    "LL.fill": "what a step with LL takes longer once all threads have a line",
    "LL.pass": "each further line of the threads of a chain with LL",
    "LL.wire": "bytes with LL inside a node",
    "LL128.hop": "a step with LL128 inside a node",
    "LL128.wire": "bytes with LL128 inside a node",
    "Simple.hop": "a step with Simple inside a node",
    "Simple.wire": "bytes with Simple inside a node",
    "ramp": "filling pipelines inside a node",
    "copy": "bytes copied in a GPU's memory",
    "reduce": "bytes added up in a GPU's memory",
    "nvls.hop": "start of a collective in the switch",
    "nvls.wire": "bytes of a collective in the switch",
    "p2p.hop": "messages between pairs inside a node",
    "p2p.wire": "bytes between pairs inside a node",
    "p2p.copy": "bytes that a rank sends to itself",
    "p2p.ramp": "filling pipelines between pairs inside a node",
    "host": "bytes through CPUs, between PCIe slots",
    "net.base": "the start of what goes between nodes",
    "net.LL.hop": "a step of a ring with LL through several nodes",
    "net.LL128.hop": "a step of a ring with LL128 through several nodes",
    "net.Simple.hop": "a step of a ring with Simple through several nodes",
    "net.tree.LL.hop": "a step of a tree with LL over several nodes",
    "net.tree.hop": "a step of a tree with LL128 and Simple, or of switches, over several nodes",
    "net.fill": "what a step with LL takes longer between nodes once all threads have a line",
    "net.LL.wire": "bytes with LL between nodes, whose flags a processor looks at",
    "net.post": "messages of a step between nodes that wait for others of its channels",
    "net.wire": "bytes with LL128 and Simple between nodes",
    "net.ramp": "filling pipelines between nodes",
    "net.p2p.hop": "messages between pairs on several nodes",
    "net.p2p.wire": "bytes between pairs on several nodes",
    "net.crowd": "bytes between more than two nodes that meet in the network",
    "net.p2p.crowd": "the same between pairs",
    "net.message": "bytes of one message between nodes",
}
"""What may differ between machines, all factors of the nominal."""
SIDES: Final = (
    (
        frozenset({"LL.wire", "LL128.wire", "Simple.wire", "nvls.wire"}),
        frozenset({"net.wire", "net.LL.wire", "net.crowd"}),
    ),
    (frozenset({"ramp"}), frozenset({"net.ramp"})),
)
"""Constants of what passes inside nodes, and between them meanwhile: of the two the longer counts (`sides_of`)."""
PAIRED: Final = frozenset({"all_to_all", "gather", "scatter", "message"})
"""What is sent pair by pair."""
COPY_GBPS: Final = 1000.0
"""Nominal, of copies by the collective's own blocks."""
CHANNEL_GBPS: Final = 14.0
"""Nominal, of one channel between two nodes: what the library counts on (nccl-model.md, 6)."""
BLOCK_GBPS: Final = {100: 70.0, 90: 38.7, 80: 24.0, 0: 26.5}
"""Nominal, of one channel, by the least capability (tables of NCCL 2.30)."""
PROXY_GBPS: Final = 6.0
"""Nominal, of the processor that looks at the flags of what one port sends with LL."""
_KNEE: Final = 4.0
"""The power of the mean that two overlapping times come to."""
SLICE_BYTES: Final = 1 << 20
"""With Simple, of rings, at the usual buffer size."""
TINY_BYTES: Final = 128
"""Messages up to it are slower on Slingshot."""
_LINE: Final = 4096
"""Bytes that the 512 threads of a block move at a time with LL."""
GROWN: Final = {"LL": 2.0, "LL128": 16 / 15, "Simple": 1.0}
"""Bytes on the wire by bytes of data: flags go along with them (nccl-model.md, 1 and 5)."""


@dataclass(frozen=True)
class Operation:
    """One call: its kind by name, bytes as nccl-tests counts them, and of each element (0: not known)."""

    kind: str
    size_bytes: int
    in_place: bool = False
    item_bytes: int = 0


@dataclass
class Terms:
    """Times in us by name: ``fixed`` is what passes before bytes flow, ``moving`` is proportional to bytes.

    ``apart`` is the share of what moves that does so while nothing else passes; the rest overlaps (`overlapped`). Where
    bytes pass inside nodes and between them, both are terms; of them the longer counts (`sides_of`), which only the
    weights can say.
    """

    fixed: dict[str, float] = field(default_factory=lambda: {"launch/": 1.0})
    moving: dict[str, float] = field(default_factory=dict)
    apart: float = 1.0


def sides_of(names: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Of terms by name the indices of those inside nodes and of those between them, of whose sums the longer counts."""
    plain = ["" if name.endswith("lines") else name.partition("/")[0] for name in names]
    found = [tuple([at for at, name in enumerate(plain) if name in side] for side in pair) for pair in SIDES]
    return [(near, far) for near, far in found if near and far]


def overlapped(fixed: Numbers, moving: Numbers, apart: Numbers) -> tuple[Numbers, Numbers]:
    """What the two come to where part of what moves does so while the fixed passes: of that part and the fixed about
    the longer one counts, with a soft knee."""
    beside = moving * (1 - apart)
    most = np.maximum(np.maximum(fixed, beside), 1e-30)
    low, high = fixed / most, beside / most
    both = np.maximum(low**_KNEE + high**_KNEE, 1.0) ** (1 / _KNEE)
    return most * both * (low / both) ** _KNEE, moving * apart + most * both * (high / both) ** _KNEE


def terms_of(site: Site, choice: Choice, operation: Operation) -> Terms:
    """The terms of one operation."""
    site, found = site.merged(), Terms()
    if operation.kind in PAIRED:
        _pairs(found, site, choice, operation)
    elif choice.algorithm == "symmetric":
        found.fixed["launch/symmetric"] = choice.predicted_us
    elif choice.algorithm == "tree":
        _tree(found, site, choice, operation)
    elif choice.algorithm in ("nvls", "nvlstree"):
        _switch(found, site, choice, operation)
    elif operation.kind in ("broadcast", "reduce"):
        _chain(found, site, choice, operation)
    else:
        _ring(found, site, choice, operation)
    return found


def node_GBps(site: Site) -> float:
    """What the ports near a node's ranks carry in a direction; 0 where there is one node."""
    if site.nodes == 1:
        return 0.0
    return max(1.0, site.nics_per_node * site.ranks_per_node / site.board) * site.nic_GBps


def block_GBps(site: Site) -> float:
    """What the block of one channel moves: what the library takes for the most of trees in a node."""
    return next((most for least, most in BLOCK_GBPS.items() if site.capability >= least), min(BLOCK_GBPS.values()))


def _through_blocks(site: Site, choice: Choice) -> float:
    """What leaves a node in GB/s, by its ports and by the blocks of the channels, each of which takes its time."""
    return 1 / hypot(1 / node_GBps(site), 1 / (choice.channels * block_GBps(site)))


def _ring(found: Terms, site: Site, choice: Choice, operation: Operation) -> None:
    n, size, protocol = site.nranks, operation.size_bytes, choice.protocol
    turns = 2 if operation.kind == "all_reduce" else 1
    steps, far = turns * (n - 1), turns * (site.nodes - 1)
    scope = "pcie." if not far and site.inside == "pcie" else ""
    _steps(found, protocol, scope, steps - far, far)
    if protocol == "LL":
        part, lines = size / n / _LINE, size / n / (choice.channels * 8 * choice.threads)
        fill = "net.fill/" if far else f"LL.fill/{scope}"
        found.fixed |= {fill: steps * part / (1 + part), f"{fill}base": part / (1 + part)}
        found.moving[f"{'net.LL' if far else 'LL'}.wire/{scope}lines"] = steps * max(0.0, lines - 1)
    if far and protocol != "LL128":
        slices = _slices(protocol, size / n / choice.channels)
        found.fixed[f"net.post/{protocol}"] = far * (choice.channels * slices - 1)
    if 0 < far < steps:
        found.apart = site.nodes / n
    detail = "parts." if far and operation.kind != "all_reduce" else f"{operation.kind}."
    _wire(found, site, choice, size * steps / n, detail)
    copied, plain = size / n / COPY_GBPS / 1e3, "Simple" if protocol == "Simple" else "LL"
    if operation.kind == "all_gather":
        if not operation.in_place:
            found.moving[f"copy/{plain}"] = copied
    else:
        found.moving[f"reduce/{operation.kind}.{plain}"] = copied
        if operation.item_bytes == 1:
            found.moving["reduce/bytes"] = copied


def _steps(found: Terms, protocol: str, scope: str, near: int, far: int) -> None:
    """Of a ring: steps inside nodes are what they are in one node, and a little more where the network is busy."""
    found.fixed[f"{protocol}.hop/{scope}near"] = near
    if protocol != "LL":
        found.fixed[f"{protocol}.hop/{scope}base"] = 1.0
    if far:
        found.fixed |= {"net.base/": 1.0, f"net.{protocol}.hop/": far, f"net.{protocol}.hop/near": near}


def _slices(protocol: str, part: float) -> int:
    """Messages of a step and channel: Simple cuts what is longer than a 32nd of a slice in two (nccl-model.md, 1)."""
    return 2 if protocol == "Simple" and part > SLICE_BYTES / 32 else 1


def _wire(found: Terms, site: Site, choice: Choice, size: float, detail: str) -> None:
    """Bytes on the wire, of links inside nodes and of the network."""
    protocol = choice.protocol
    kind = f"{site.inside}." if site.inside in ("pcie", "xgmi") else ""
    if site.ranks_per_node > 1:
        time = size * GROWN[protocol] / site.inside_GBps / 1e3
        found.moving[f"{protocol}.wire/{kind}{detail}{protocol}"] = time
        if protocol == "Simple" or (protocol == "LL128" and site.nodes == 1):
            found.fixed[f"ramp/{kind}{detail}{protocol}"] = sqrt(time * 10)
    if site.nodes > 1:
        _network(found, site, choice, size * GROWN[protocol], detail)
    elif site.inside == "pcie":
        _through_host(found, site, size, protocol if protocol == "LL" else detail + protocol)


def _network(found: Terms, site: Site, choice: Choice, size: float, detail: str) -> None:
    protocol, net = choice.protocol, _through_blocks(site, choice)
    if protocol == "LL":
        net = min(node_GBps(site), max(1.0, node_GBps(site) / site.nic_GBps) * PROXY_GBPS)
    time = size / net / 1e3
    found.moving[f"{'net.LL.wire' if protocol == 'LL' else 'net.wire'}/{detail}{protocol}"] = time
    if site.nodes > 2:
        found.moving[f"net.crowd/{detail}"] = time
    if protocol == "Simple":
        found.fixed[f"net.ramp/{detail}{protocol}"] = sqrt(time * 10)


def _through_host(found: Terms, site: Site, size: float, detail: str) -> None:
    """What CPUs between PCIe slots cost: more the more GPUs share them, and the link between sockets."""
    time = size / site.inside_GBps / 1e3
    found.moving["host/wire"] = time * (site.nranks - 2) / 2
    if site.nranks > site.board / 2:
        found.moving[f"host/socket.{detail}"] = time


def _tree(found: Terms, site: Site, choice: Choice, operation: Operation) -> None:
    size, protocol = operation.size_bytes, choice.protocol
    depth, near = 2 * (site.nodes.bit_length() - 1), 2 * (site.nranks // site.nodes - 1)
    found.fixed[f"{protocol}.hop/tree.near"] = near
    if protocol == "LL":
        part = size / choice.channels / 8 / _LINE
        found.fixed["net.fill/tree" if depth else "LL.hop/tree.fill"] = (near + depth) * part / (1 + part)
    else:
        found.fixed[f"{protocol}.hop/tree.base"] = 1.0
    if depth:
        hop = "net.tree.LL.hop" if protocol == "LL" else "net.tree.hop"
        found.fixed |= {"net.base/": 1.0, f"{hop}/{protocol}": depth, f"{hop}/near.{protocol}": near}
    _wire(found, site, choice, _crossing(site, size), "tree.")


def _crossing(site: Site, size: int) -> float:
    """Bytes that leave a node's ports in a double binary tree over nodes: a leaf of two nodes sends and gets half of
    each tree, of more the inner nodes send to two more. In one node all but the ends of chains send up and down."""
    if site.nodes == 1:
        return 2 * size * (site.nranks - 1) / site.nranks
    return float(size) if site.nodes == 2 else 2 * size * (site.nodes - 1) / site.nodes


def _switch(found: Terms, site: Site, choice: Choice, operation: Operation) -> None:
    n, size = site.nranks, operation.size_bytes
    whole = operation.kind == "all_reduce"
    time = (size if whole else size * (n - 1) / n) / site.inside_GBps / 1e3
    name = "" if whole else "part"
    found.fixed |= {f"nvls.hop/{name}": 1.0, f"nvls.hop/{name}ramp": sqrt(10 * time)}
    if site.nodes > 1:
        found.fixed["net.tree.hop/nvls"] = 2 * (site.nodes.bit_length() - 1)
        found.moving["net.wire/nvls"] = _crossing(site, size) / _through_blocks(site, choice) / 1e3
    found.moving[f"nvls.wire/{name}"] = time


def _chain(found: Terms, site: Site, choice: Choice, operation: Operation) -> None:
    n, size, protocol = site.nranks, operation.size_bytes, choice.protocol
    far = site.nodes > 1
    if protocol == "LL":
        part, lines = size / _LINE, size / (choice.channels * 8 * choice.threads)
        found.fixed["net.fill/chain" if far else "LL.fill/chain"] = part / (1 + part)
        found.fixed["LL.pass/chain"] = max(0.0, lines - 1)
    else:
        found.fixed[f"{'net.' if far else ''}{protocol}.hop/chain"] = n - 1
    _wire(found, site, choice, float(size), "chain.")


def _pairs(found: Terms, site: Site, choice: Choice, operation: Operation) -> None:
    n, each = site.nranks, site.nranks // site.nodes
    if operation.kind == "message":
        part, near, far = float(operation.size_bytes), int(site.nodes == 1), int(site.nodes > 1)
    else:
        part, near, far = operation.size_bytes / n, each - 1, n - each
    found.fixed["p2p.hop/near"] = near
    if operation.kind == "message" and far:
        time = part * hypot(1 / site.nic_GBps, 1 / (max(choice.per_peer, 1) * CHANNEL_GBPS)) / 1e3
        found.fixed |= {"net.p2p.hop/base": 1.0, "net.message/ramp": sqrt(10 * time)}
        found.moving["net.message/"] = time
    elif far:
        time = part * far * hypot(each / node_GBps(site), 1 / (far * max(choice.per_peer, 1) * CHANNEL_GBPS)) / 1e3
        found.fixed |= {"net.p2p.hop/base": 1.0, "net.p2p.hop/far": far, "net.p2p.hop/ramp": sqrt(10 * time)}
        found.moving["net.p2p.wire/"] = time
        if site.network == "slingshot" and part <= TINY_BYTES:
            found.fixed["net.p2p.hop/tiny"] = far
        if each > 1 and site.nodes > 2:
            found.moving["net.p2p.crowd/"] = time
    else:
        _pairs_inside(found, site, choice, operation, part, near)


def _pairs_inside(found: Terms, site: Site, choice: Choice, operation: Operation, part: float, peers: int) -> None:
    kind = f"{site.inside}." if site.inside in ("pcie", "xgmi") else ""
    time = part * peers / site.inside_GBps / 1e3
    if choice.protocol == "LL":
        found.fixed["p2p.hop/fill"] = sqrt(part) / 100
        if kind:
            found.moving[f"p2p.wire/{kind}"] = time
        if site.inside == "pcie":
            _through_host(found, site, part * peers, "LL")
        return
    found.fixed |= {"p2p.hop/base": 1.0, f"p2p.ramp/{kind}": sqrt(10 * time)}
    found.moving |= {f"p2p.wire/{kind}": time, f"p2p.wire/{kind}crowd": time * max(peers - 1, 0) / 6}
    if operation.kind == "all_to_all" and not operation.in_place:
        found.moving["p2p.copy/"] = part / COPY_GBPS / 1e3
    if site.inside == "pcie":
        _through_host(found, site, part * peers, "pairs.Simple")
