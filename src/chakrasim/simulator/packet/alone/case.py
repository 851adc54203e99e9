"""What flows on a network of packets are read from: a case in JSON, or the three files of HPCC and ASTRA-sim's ns-3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from chakrasim.config.decode import decode_json, printable
from chakrasim.errors import InputError, near
from chakrasim.files.storage import read_bytes
from chakrasim.notes import Notes
from chakrasim.simulator.flow.alone.flows import NONE, Flows
from chakrasim.simulator.packet.faults import Faults
from chakrasim.simulator.packet.flows import PRIORITY, TARGET_PORT
from chakrasim.simulator.packet.network import Network, network_of
from chakrasim.simulator.packet.ns3.files import text_of
from chakrasim.simulator.packet.settings import read_pairs, settings_of, whole_number
from chakrasim.simulator.packet.state import Longs
from chakrasim.simulator.packet.topology import Topology, read_topology, topology_of

if TYPE_CHECKING:
    from chakrasim.machine.graph.graph import NetworkGraph
    from chakrasim.machine.graph.routing import Routing

CASE_KEYS: Final = ("name", "topology", "config", "flows", "first_stream", "stop_ns", "timestamped")
SILENT_KEYS: Final = ("expected", "reference", "tx")
"""Of a case: what is known of its outcome."""
LARGEST: Final = 1 << 50
REFERENCE_LIMIT: Final = 1 << 31
_FLOW: Final = "[source, target, priority, target's port, bytes, start_ns]"


@dataclass(frozen=True, eq=False)
class PacketCase:
    """A network and int64[f, 6] of source, target, priority, target's port, bytes and start in ns."""

    network: Network
    flows: Longs
    stop_ns: int | None = None


def load_case(path: str, faults: Faults, notes: Notes, seed: int | None = None) -> PacketCase:
    """The case in a file; a seed gives other random numbers than the reference's. Raises InputError."""
    name = printable(path)
    content = decode_json(read_bytes(path, expected="a case"), name, notes)
    if not isinstance(content, Mapping) or "topology" not in content:
        raise InputError(
            "this is no case of packets", file=name, place="$", expected=f"an object of {', '.join(CASE_KEYS)}"
        )
    return case_of(content, name, faults, notes, seed)


def case_of(content: Mapping[str, Any], file: str, faults: Faults, notes: Notes, seed: int | None = None) -> PacketCase:
    """The case in decoded JSON. ``stop_ns`` counts only with faults: without them a run ends by itself. Raises
    InputError."""
    for key in content:
        if key not in CASE_KEYS + SILENT_KEYS:
            known = near(key, CASE_KEYS)
            notes.warn(f"{file}: $.{key}: the key has no effect{f'; {known}' if known else ''}")
    for key in ("topology", "config", "flows"):
        if key not in content:
            _refuse(file, "$", f"{key} is missing", list(content), f"an object of {', '.join(CASE_KEYS)}")
    config = content["config"]
    if not isinstance(config, Mapping):
        _refuse(file, "$.config", "this is no configuration", config, "an object of keys and values")
    topology = topology_of(content["topology"], file)
    stamps = content.get("timestamped")
    network = network_of(
        topology,
        settings_of(config, file, notes, silent=faults.unknown_keys_pass),
        faults,
        seed=seed,
        first_stream=_number(content.get("first_stream"), file, "$.first_stream"),
        time_stamps=stamps if isinstance(stamps, bool) and faults.no_time_stamps else None,
        file=file,
    )
    rows = content["flows"]
    if not isinstance(rows, list):
        _refuse(file, "$.flows", "not a list", rows, f"a list of {_FLOW}")
    places = [f"$.flows[{at}]" for at in range(len(rows))]
    flows = _checked(rows, places, topology, faults, file)
    stop = _number(content.get("stop_ns"), file, "$.stop_ns")
    return PacketCase(network, flows, stop if faults.no_retransmission_timer else None)


def _refuse(file: str, place: str, message: str, found: object, expected: str) -> NoReturn:
    raise InputError(message, file=file, place=place, found=str(found)[:60], expected=expected)


def _number(value: object, file: str, place: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        _refuse(file, place, "not a whole number in range", value, "0 or more")
    return value


def _checked(rows: list[Any], places: list[str], topology: Topology, faults: Faults, file: str) -> Longs:
    """Flows in an array, each within its limits."""
    most = REFERENCE_LIMIT if faults.sizes_wrap else LARGEST
    for row, place in zip(rows, places, strict=True):
        if not isinstance(row, list) or len(row) != 6 or not all(type(value) is int for value in row):
            _refuse(file, place, "this is no flow", row, _FLOW)
        source, target, priority, port, size, start = row
        for host in (source, target):
            if not 0 <= host < topology.nodes or not topology.is_host[host]:
                _refuse(file, place, "this is no host", host, "a node that is no switch")
        if source == target:
            _refuse(file, place, "a flow to its own host", row, "two hosts")
        if not 0 <= priority <= 7 or not 0 <= port < 1 << 16 or not 0 <= start < 1 << 61:
            _refuse(file, place, "out of range", row, "priority 0 to 7, port 0 to 65535, start 0 or more")
        if not 0 <= size < most:
            why = "bytes, below 2 GiB: the reference goes wrong above" if faults.sizes_wrap else "bytes, below 2^50"
            _refuse(file, place, "the size is out of range", size, why)
    return np.array(rows, np.int64).reshape(-1, 6)


def read_case(
    topology: str, settings: str, flows: str, faults: Faults, notes: Notes, seed: int | None = None
) -> PacketCase:
    """The case in three files: topology, configuration, flows. Raises InputError with file and line."""
    graph = read_topology(text_of(topology, "a topology"), topology)
    values = read_pairs(text_of(settings, "a configuration"))
    silent = faults.unknown_keys_pass
    network = network_of(graph, settings_of(values, settings, notes, silent=silent), faults, seed=seed, file=settings)
    return PacketCase(network, read_flows(text_of(flows, "flows"), flows, graph, faults))


def case_on(
    graph: NetworkGraph, routing: Routing, flows: Flows, values: Mapping[str, Any], file: str, faults: Faults,
    notes: Notes,
) -> PacketCase:  # fmt: skip
    """Flows on a graph of links, by a routing that packets follow; ``values`` are keys of a configuration, from
    ``file``. Raises InputError."""
    from chakrasim.simulator.packet.graph.network import network_of_graph
    from chakrasim.simulator.packet.graph.ways import followed

    for is_so, what in ((flows.after != NONE, "follows another"), (flows.weight != 1.0, "has a weight")):
        if is_so.any():
            raise InputError(f"flow {int(np.argmax(is_so))} {what}, of which packets know nothing",
                             remedy="use --model flow")  # fmt: skip
    network = network_of_graph(graph, followed(routing, notes), values, file, faults, notes)
    rows = np.empty((len(flows), 6), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2:4] = flows.source, flows.destination, (PRIORITY, TARGET_PORT)
    rows[:, 4], rows[:, 5] = np.ceil(flows.size_bytes), np.rint(flows.start_ns)
    places = [f"flow {number}" for number in range(len(flows))]
    return PacketCase(network, _checked(rows.tolist(), places, network.topology, faults, "flows"))


def read_flows(text: str, file: str, topology: Topology, faults: Faults) -> Longs:
    """Flows in a file's text: their number, then `source target priority port bytes start` a line, start in seconds."""
    lines = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.split()]
    count = whole_number(lines[0][1][0]) if lines and len(lines[0][1]) == 1 else None
    if count is None:
        _refuse(file, "line 1", "the number of flows is missing", text[:40], "a number, then a flow a line")
    rows, places = [], []
    for at, words in lines[1 : count + 1]:
        try:
            *numbers, start = words
            rows.append([*map(int, numbers), round(float(start) * 1e9)])
        except (ValueError, OverflowError):
            _refuse(file, f"line {at}", "this is no flow", " ".join(words), "source target priority port bytes start_s")
        places.append(f"line {at}")
    if len(rows) < count:
        _refuse(file, "line 1", "flows are missing", len(rows), f"{count}, as the first line says")
    return _checked(rows, places, topology, faults, file)
