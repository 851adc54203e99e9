"""Parity with the reference's model of packets, to the nanosecond and in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packet_cases import DATA, golden, run_case

CASES = {case["name"]: case for case in golden(DATA)}


def differing(case: dict[str, Any], *, keep_packets: bool = False) -> list[str]:
    """The figures of the reference that differ from ours."""
    found = run_case(case, keep_packets=keep_packets).to_dict()
    expected = {**case["expected"], **({"tx": case["tx"]} if keep_packets else {})}
    return [key for key, value in expected.items() if found[key] != value]


@pytest.mark.parametrize("name", CASES)
def test_every_figure_is_that_of_the_reference(name: str) -> None:
    case = CASES[name]
    assert differing(case, keep_packets="tx" in case) == []


def test_all_cases_of_the_reference(shared_dir: Path) -> None:
    cases = list(golden(shared_dir / "golden" / "packet" / "network.jsonl.gz"))
    assert len(cases) == 143
    assert {case["name"]: found for case in cases if (found := differing(case))} == {}


def test_every_transmission_is_that_of_the_reference(shared_dir: Path) -> None:
    cases = list(golden(shared_dir / "golden" / "packet" / "packets.jsonl.gz"))
    assert len(cases) == 4
    assert {case["name"]: found for case in cases if (found := differing(case, keep_packets=True))} == {}


@pytest.mark.slow
def test_messages_of_whole_runs_end_when_those_of_the_reference_did(shared_dir: Path) -> None:
    """In the order in which the system layer sent them; one of 33 million transmissions stands for its kind."""
    count = 0
    for case in golden(shared_dir / "golden" / "packet" / "system.jsonl.gz"):
        messages = case["expected"]["messages"]
        rows = [[source, target, 3, 100, size, start] for source, target, _, size, start, _ in messages]
        kept = {key: case[key] for key in ("topology", "config", "first_stream")}
        result = run_case({**kept, "flows": rows})
        found = result.to_dict()
        ended = [[a, b, port, size, start, fct] for a, b, port, _, size, start, fct, _ in found["fct"]]
        assert sorted(ended) == sorted(messages), case["name"]
        assert len(found["pfc"]) == case["expected"]["pfc_frames"], case["name"]
        count += 1
    assert count == 29
