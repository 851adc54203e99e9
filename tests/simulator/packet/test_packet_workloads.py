"""Workloads on a network of packets: every message, and the finish of every rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from packet_cases import golden, star

sys.path.append(str(Path(__file__).parents[1]))

from cases import trace_of

import chakrasim
from chakrasim import InputError, SimulationResult, StallError

DATA = Path(__file__).resolve().parents[2] / "data" / "golden-packet-system.jsonl.gz"
CASES = {case["name"]: case for case in golden(DATA)}


def simulated(case: dict[str, Any], shared: Path | None = None, **how: Any) -> SimulationResult:
    workload = case.get("workload")
    if workload is None:
        assert shared is not None
        workload = str(shared / case["workload_path"])
    elif isinstance(workload, dict):
        workload = [trace_of(workload["every"])] * case["npus"]
    else:
        workload = [trace_of(nodes) for nodes in workload]
    groups = case.get("comm_group_path")
    return chakrasim.simulate(
        workload,
        system=case["system"],
        network={key: case[key] for key in ("topology", "config", "logical_dims", "sample_ns") if key in case},
        comm_groups=str(shared / groups) if shared is not None and groups else None,
        network_model="packet",
        **{"compat": True, **how},
    )


def differing(case: dict[str, Any], result: SimulationResult) -> list[str]:
    """What differs from the reference."""
    assert result.packets is not None
    expected = case["expected"]
    found = {
        "messages": result.packets.messages.tolist(),
        "finish": [list(pair) for pair in zip(result.finish_ns.tolist(), result.exposed_comm_ns.tolist(), strict=True)],
        "pfc_frames": result.packets.pauses,
    }
    return [key for key, value in found.items() if expected[key] != value]


@pytest.mark.parametrize("name", CASES)
def test_messages_and_ranks_end_as_in_the_reference(name: str) -> None:
    assert differing(CASES[name], simulated(CASES[name])) == []


def test_all_runs_of_the_reference(shared_dir: Path) -> None:
    cases = list(golden(shared_dir / "golden" / "packet" / "system.jsonl.gz"))
    assert len(cases) == 29
    wrong = {case["name"]: found for case in cases if (found := differing(case, simulated(case, shared_dir)))}
    assert wrong == {}


def test_receivers_know_of_a_message_with_its_last_byte() -> None:
    """Each of the twelve messages of a pipeline arrives an acknowledgement earlier than the reference says."""
    case = CASES["sys-pipe4"]
    late, early = simulated(case), simulated(case, compat=False)
    assert early.makespan_ns < late.makespan_ns
    assert early.packets is not None and (early.packets.messages[:, 5] > 0).all()


def test_a_run_repeats_to_the_last_figure() -> None:
    case = CASES["sys-a2a-oversub-pfc"]
    assert simulated(case).to_json() == simulated(case).to_json()


def test_messages_that_cannot_come_stall_the_run() -> None:
    case = dict(CASES["sys-pipe4"])
    case["config"] = {**case["config"], "ERROR_RATE_PER_LINK": 1.0}
    with pytest.raises(StallError):
        simulated(case)


@pytest.mark.parametrize(
    ("network", "how", "message"),
    [
        ({"topology": 1, "config": {}, "logical_dims": [2]}, {}, "this is no topology"),
        ({"logical_dims": []}, {}, "logical_dims: the logical dimensions are missing"),
        ({"logical_dims": [8]}, {}, "the ranks are not the first hosts; found 8 ranks"),
        ({"logical": [2]}, {}, "logical: unknown key"),
        ({}, {"network_model": "flow"}, "a network of packets, which the flow model does not know"),
        (None, {"network_model": None, "compat": True}, "compat has no effect: the unaware network has no packets"),
        (None, {"network_model": "aware", "settings": {}}, "settings has no effect: the aware network has no packets"),
        (None, {"logical_topology": {}}, "a logical topology stands beside a configuration of ns-3"),
        ({}, {"settings": {"CC_MODE": 3}}, "the network has a configuration of its own"),
    ],
)
def test_networks_that_are_wrong(network: dict[str, Any] | None, how: dict[str, Any], message: str) -> None:
    two = star(2, [])
    base = {"topology": two["topology"], "config": two["config"], "logical_dims": [2]}
    given: Any = {"topology": ["Ring"], "npus_count": [2], "bandwidth": [1.0], "latency": [0.0]}
    with pytest.raises(InputError, match=message):
        chakrasim.simulate(
            [trace_of([])] * 2,
            system=CASES["sys-pipe4"]["system"],
            network=given if network is None else base | network,
            **{"network_model": "packet", **how},
        )


def test_looking_at_queues_changes_nothing() -> None:
    """The monitor sees queues no longer than the longest, and the run is what it was."""
    name = next(name for name, case in CASES.items() if case["expected"]["pfc_frames"])
    plain, seen = simulated(CASES[name]), simulated({**CASES[name], "sample_ns": 500})
    assert plain.packets is not None and seen.packets is not None and seen.packets.samples is not None
    assert plain.finish_ns.tolist() == seen.finish_ns.tolist() and plain.packets.samples is None
    assert seen.packets.messages.tolist() == plain.packets.messages.tolist()
    ports = seen.packets.ports
    for port, _, waiting in seen.packets.samples.queues.each():
        assert waiting.max() <= ports.most_bytes[port - 1]
    assert ports.mean_bytes is not None and ports.mean_bytes.max() > 0


def test_the_summary_names_ports_with_pauses(tmp_path: Path) -> None:
    name = next(name for name, case in CASES.items() if case["expected"]["pfc_frames"])
    result = simulated({**CASES[name], "sample_ns": 500})
    assert result.packets is not None
    text = chakrasim.summary(result)
    assert "Fullest ports" in text and "pause frames received" in text
    longest = int(result.packets.ports.paused_ns.argmax())
    assert result.packets.ports.name(longest) in text.split("Ports told to pause")[1]
    content = json.loads(result.to_json())["packets"]
    assert content["pauses"] == result.packets.pauses > 0
    assert content["ports"]["paused_ns"][longest] == result.packets.ports.paused_ns[longest]
    assert min(result.packets.messages[:, 5] / result.packets.ideal_ns) >= 1
    chakrasim.write_timeline(result, tmp_path / "step.json")
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    paused = [event for event in events if event["name"] == "paused"]
    assert sum(event["dur"] for event in paused) == pytest.approx(result.packets.ports.paused_ns.sum() / 1000)
    assert any(event["ph"] == "C" and "bytes" in event["args"] for event in events)
