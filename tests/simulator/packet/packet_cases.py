"""Cases of flows on networks of packets: those of the reference, and small ones of our own."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chakrasim.notes import Notes
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.alone.run import prepare, run_on, run_packets
from chakrasim.simulator.packet.faults import ALL_FAULTS, NO_FAULTS, Faults
from chakrasim.simulator.packet.observed.monitor import Monitor

DATA = Path(__file__).resolve().parents[2] / "data" / "golden-packet.jsonl.gz"
RATE = "100Gbps"
MAPS = {
    "KMIN_MAP": {100_000_000_000: 400}, "KMAX_MAP": {100_000_000_000: 1600}, "PMAX_MAP": {100_000_000_000: 0.2}
}  # fmt: skip


def golden(path: Path = DATA) -> Iterator[dict[str, Any]]:
    """The cases in a file."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def run_case(case: dict[str, Any], faults: Faults = ALL_FAULTS, *, keep_packets: bool = False) -> PacketResult:
    """Run a case, by default with all faults of the reference."""
    return run_packets(case_of(case, "case", faults, Notes()), keep_packets=keep_packets)


def star(hosts: int, flows: list[list[int]], **config: Any) -> dict[str, Any]:
    """Hosts around one switch, 100 Gb/s and 1 us each; the switch has the highest number."""
    links = [[hosts, host, RATE, "1us", 0] for host in range(hosts)]
    topology = {"nodes": hosts + 1, "switches": [hosts], "links": links}
    return {
        "topology": topology,
        "config": {**MAPS, "CC_MODE": 12, "L2_ACK_INTERVAL": 1, "L2_CHUNK_SIZE": 4000, **config},
        "flows": flows,
    }


def right(case: dict[str, Any]) -> PacketResult:
    """Run a case without faults."""
    return run_case(case, NO_FAULTS)


def waiting_at(time_ns: int, mode: int) -> int:
    """Bytes that wait for one host at a time, to which four send without end under a control of congestion."""
    marks = {"KMIN_MAP": {10**11: 20}, "KMAX_MAP": {10**11: 80}, "PMAX_MAP": {10**11: 0.5}}
    flows = [[source, 4, 3, 100, 10**8, 0] for source in range(4)]
    how = {"GLOBAL_T": 0, "RP_TIMER": 50, "MULTI_RATE": 0, "EWMA_GAIN": 0.0625}
    case = case_of(star(5, flows, CC_MODE=mode, **marks, **how), "case", NO_FAULTS, Notes())
    net, _ = run_on(prepare(case.network, case.flows), case.network, time_ns)
    return int(net.queues.egress.max())


def watched_pair() -> dict[str, Any]:
    """All figures of two flows into one port, with queues and rates over time."""
    case = star(3, [[0, 2, 3, 100, 5000, 0], [1, 2, 3, 100, 4321, 0]])
    return run_packets(case_of(case, "case", NO_FAULTS, Notes()), monitor=Monitor(300)).to_dict()
