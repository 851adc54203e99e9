"""The text of ``nvidia-smi topo -m``: how each pair of devices of a server is joined.

``NV#`` is # NVLinks; PIX one PCIe switch, PXB several, PHB the host bridge, NODE host bridges of one NUMA node, SYS
sockets. The table has no rates: `ASSUMED` is taken, with a warning, unless `Servers` states them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chakrasim.machine.graph.formats.server import Server, Servers, graph_of_servers
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NIC, NVSWITCH, PCIE, RANK, SWITCH, NetworkGraph
from chakrasim.text.amounts import plural

ASSUMED: Final = {"nvlink": 25.0, "pcie": 24.0, "nic": 25.0, "socket": 16.0}
"""GB/s and direction: an NVLink of A100 or H100, PCIe gen 4 x16 as NCCL takes it, 200 Gb/s, AMD's sockets as NCCL takes
them."""

_LEVELS: Final = ("PIX", "PXB", "PHB", "NODE", "SYS")
_MOST_NVLINKS: Final = 18
"""Of a GPU to this day: more can only be the same ones, counted for each peer behind an NVSwitch."""
_CELL: Final = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_DEVICE: Final = re.compile(r"GPU[0-9]{1,4}|NIC[0-9]{1,4}|mlx[0-9]_[0-9]{1,4}|[a-z]\w*_[0-9]{1,4}")
_COLOURS: Final = re.compile("\x1b\\[[0-9;]*m")


@dataclass
class _Table:
    """The devices and the cell of each pair, in both orders; NUMA nodes by device."""

    devices: list[str]
    cells: dict[tuple[str, str], str]
    node: dict[str, str]


def is_topo(words: list[str]) -> bool:
    """Whether a file may begin with a line of these words: the head of the table, or the command."""
    plain = [_COLOURS.sub("", word) for word in words]
    return plain[:1] == ["GPU0"] or "nvidia-smi" in plain


def read_topo(text: str, source: Source, servers: Servers) -> NetworkGraph:
    """The server, as often as ``servers`` says. Raises InputError with the line."""
    table = _table(_COLOURS.sub("", text).split("\n"), source)
    rates = {key: getattr(servers, key) or value for key, value in ASSUMED.items()}
    used = ["pcie", "socket"] if any(cell in _LEVELS for cell in table.cells.values()) else []
    used += ["nvlink"] if any(cell.startswith("NV") for cell in table.cells.values()) else []
    used += ["nic"] if servers.count > 1 else []
    guessed = [key for key in sorted(used) if getattr(servers, key) is None]
    if guessed:
        listed = ", ".join(f"{key} {rates[key]:g} GB/s" for key in guessed)
        source.warn(f"the table states no rates: {listed} and direction are taken")
    server = Server()
    for device in table.devices:
        server.vertex(device, RANK if device.startswith("GPU") else NIC)
    _tree(table, server, rates, source)
    _nvlinks(table, server, rates, source)
    server.ports = [(name, rates["nic"], 0.0) for name in server.of_kind(NIC)]
    return graph_of_servers(server, servers, source)


def _table(lines: list[str], source: Source) -> _Table:
    head = next((at for at, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if head is None:
        source.refuse("there is no head of the table", expected="a line that begins with GPU0 and names all devices")
    devices = []
    for word in lines[head].split():
        if not _DEVICE.fullmatch(word):
            break
        devices.append(word)
    if len(set(devices)) != len(devices):
        source.refuse("a device is named twice", head + 1, found=" ".join(devices), expected="each device once")
    table = _Table(devices, {}, {})
    numa = "NUMA" in lines[head]
    rows: list[str] = []
    for at in range(head + 1, len(lines)):
        words = lines[at].split()
        if not words or words[0] not in devices:
            if len(rows) < len(devices) and words and _DEVICE.fullmatch(words[0]):
                expected = f"a row of one of {devices[0]} to {devices[-1]}"
                source.refuse("a row of no column", at + 1, found=words[0], expected=expected)
            if rows and words and len(rows) >= len(devices):
                break
            continue
        if words[0] in rows:
            source.refuse("a device has two rows", at + 1, found=words[0], expected="one")
        rows.append(words[0])
        _row(words, at + 1, table, numa, source)
    if rows != devices:
        missing = [device for device in devices if device not in rows] or rows
        expected = f"a row for each of {plural(len(devices), 'column')}, in their order"
        source.refuse("rows are missing", head + 1, found=f"none for {missing[0]}", expected=expected)
    _refuse_asymmetry(table, source)
    return table


def _row(words: list[str], line: int, table: _Table, numa: bool, source: Source) -> None:
    name, cells = words[0], words[1 : 1 + len(table.devices)]
    for device, cell in zip(table.devices, cells, strict=False):
        if not _CELL.fullmatch(cell) or (cell == "X") != (device == name) or cell == "NV0":
            expected = "X for itself, else NV# or one of " + ", ".join(_LEVELS)
            source.refuse(f"{name} to {device}", line, found=cell, expected=expected)
        table.cells[name, device] = "SYS" if cell == "SOC" else cell
    if len(cells) != len(table.devices):
        found = plural(len(cells), "cell")
        source.refuse(f"the row of {name} is too short", line, found=found, expected=str(len(table.devices)))
    rest = words[1 + len(table.devices) :]
    if rest:
        # CPU affinity, then NUMA node where the head has it; both tell sockets apart.
        table.node[name] = rest[1] if numa and len(rest) > 1 else rest[0]


def _refuse_asymmetry(table: _Table, source: Source) -> None:
    for (a, b), cell in table.cells.items():
        if table.cells[b, a] != cell:
            found = f"{cell}, and {table.cells[b, a]} from {b} to {a}"
            source.refuse(f"{a} to {b} and back differ", found=found, expected="the same in both rows")


def _tree(table: _Table, server: Server, rates: dict[str, float], source: Source) -> None:
    """PCIe switches over what they join, host bridges over these, sockets over these."""
    members = {device: {device} for device in table.devices}
    top = {device: device for device in table.devices}
    for level in _LEVELS[:-1]:
        groups = _grouped(table, members, level)
        for at, group in enumerate(groups):
            heads = list(dict.fromkeys(top[device] for device in group))
            named = level if level != "NODE" else "socket"
            if len(heads) > 1 or (level == "NODE" and group):
                kind = PCIE if level in ("PIX", "PXB") else SWITCH
                above = server.vertex(f"{named.lower()}{at}", kind)
                for head in heads:
                    server.cable(head, above, rates["pcie"])
                top.update(dict.fromkeys(group, above))
    sockets = list(dict.fromkeys(top.values()))
    for at, one in enumerate(sockets):
        for other in sockets[at + 1 :]:
            server.cable(one, other, rates["socket"])
    if not table.node and len(table.devices) > 1:
        source.warn("no column of CPU or NUMA affinity: GPUs joined by NVLink alone count as on sockets of their own")


def _grouped(table: _Table, members: dict[str, set[str]], level: str) -> list[list[str]]:
    """Devices joined by this level or a lower one; at NODE also those of one NUMA node."""
    near = set(_LEVELS[: _LEVELS.index(level) + 1])
    for (a, b), cell in table.cells.items():
        together = cell in near or (
            level == "NODE" and a in table.node and table.node.get(a) == table.node.get(b) and cell not in ("SYS", "X")
        )
        if together and members[a] is not members[b]:
            members[a] |= members[b]
            for device in members[b]:
                members[device] = members[a]
    groups: list[list[str]] = []
    seen: set[str] = set()
    for device in table.devices:
        if device not in seen:
            seen |= members[device]
            groups.append([other for other in table.devices if other in members[device]])
    return groups


def _nvlinks(table: _Table, server: Server, rates: dict[str, float], source: Source) -> None:
    """Direct cables, or a star where the table counts the same NVLinks once for each peer."""
    gpus = server.of_kind(RANK)
    count = {pair: int(cell[2:]) for pair, cell in table.cells.items() if cell.startswith("NV")}
    most = max((sum(count.get((gpu, peer), 0) for peer in gpus) for gpu in gpus), default=0)
    if most <= _MOST_NVLINKS:
        for at, a in enumerate(gpus):
            for b in gpus[at + 1 :]:
                if (a, b) in count:
                    server.forwarding |= {a, b}
                    server.cable(a, b, count[a, b] * rates["nvlink"])
        return
    links = {gpu: {count[gpu, peer] for peer in gpus if (gpu, peer) in count} for gpu in gpus}
    if any(len(found) > 1 for found in links.values()):
        expected = f"at most {_MOST_NVLINKS} NVLinks of a GPU, or the same number to every peer (NVSwitch)"
        source.refuse("the NVLinks fit no GPU and no NVSwitch", found=f"{most} of one GPU", expected=expected)
    server.vertex("nvswitch", NVSWITCH)
    for gpu, found in links.items():
        if found:
            server.cable(gpu, "nvswitch", found.pop() * rates["nvlink"])
    source.note(f"more than {_MOST_NVLINKS} NVLinks of a GPU in sum: an NVSwitch joins them")
