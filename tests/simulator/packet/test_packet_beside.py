"""Both models beside one another: times that can be counted by hand, the command, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packet_cases import star

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.simulator.packet.alone.beside import BothModels, beside
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.run import run_packets
from chakrasim.simulator.packet.faults import NO_FAULTS


def both(case: dict[str, Any]) -> BothModels:
    packets = case_of(case, "case", NO_FAULTS, Notes())
    return beside(packets, run_packets(packets))


def test_a_message_alone() -> None:
    """2 us there, 80 us for 1 MB at 100 Gb/s, 2 us back; packets have 36 bytes more each, and a switch on the way."""
    found = both(star(2, [[0, 1, 3, 100, 10**6, 500]]))
    assert found.flow_ns.tolist() == [84_000]
    assert 84_000 * 0.036 * 0.9 < found.packet_ns[0] - 84_000 < 84_000 * 0.036 * 1.1
    assert found.difference[0] == found.packet_ns[0] / 84_000 - 1


def test_two_that_share_a_link_and_one_without_bytes() -> None:
    """Both at half the rate till the first has its 1 MB, then the other alone; nothing comes back of no bytes."""
    found = both(star(3, [[0, 2, 3, 100, 10**6, 0], [1, 2, 3, 100, 3 * 10**6, 0], [1, 0, 3, 100, 0, 0]]))
    assert found.flow_ns.tolist() == [164_000, 324_000, 2_000]
    assert (np.abs(found.difference) < 0.06).all()


def test_ways_are_those_of_the_packets() -> None:
    """Two spines, of which one is slow: each flow has the rate of the one that its hash says."""
    flows = [[0, 1, 3, 100, 10**6, 0]] + [[0, 1, 3, 100, 10**6, 10**7 * at] for at in range(1, 8)]
    case = star(2, flows, ENABLE_QCN=0, HAS_WIN=0)
    links = [[2, 0, "100Gbps", "1us", 0], [3, 1, "100Gbps", "1us", 0]]
    spines = [[leaf, 4 + spine, ("100Gbps", "25Gbps")[spine], "1us", 0] for leaf in (2, 3) for spine in (0, 1)]
    case["topology"] = {"nodes": 6, "switches": [2, 3, 4, 5], "links": [*links, *spines]}
    found = both(case)
    assert set(found.flow_ns.tolist()) == {88_000, 328_000}
    assert (np.abs(found.difference) < 0.1).all()


def test_flows_without_a_way_have_no_time() -> None:
    case = star(3, [[0, 1, 3, 100, 1000, 0], [0, 2, 3, 100, 1000, 0]])
    links = [[a, b, "100Gbps", "1us", 0] for a, b in ((4, 0), (4, 1), (2, 3))]
    case["topology"] = {"nodes": 5, "switches": [4], "links": links}
    found = both(case)
    assert np.isnan(found.difference).tolist() == [False, True]
    assert found.to_dict()["beside"][1] == [None, None, None]


def test_a_link_that_goes_down_is_refused() -> None:
    with pytest.raises(InputError, match="LINK_DOWN: rates on given ways know of no link that goes down"):
        both(star(2, [[0, 1, 3, 100, 1000, 0]], LINK_DOWN="5 2 0"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flows = [[at, 4, 3, 100, 100_000, 0] for at in range(4)] * 4
    (tmp_path / "case.json").write_text(json.dumps(star(5, flows)))
    words = ["flows", str(tmp_path / "case.json"), "--model", "flow,packet"]
    assert main([*words, "--json", str(tmp_path / "out.json")]) == 0
    said = capsys.readouterr().out
    assert "Flow beside packet" in said and "The 12 that differ most, of 16 flows" in said
    rows = json.loads((tmp_path / "out.json").read_text())["beside"]
    assert len(rows) == 16 and all(row[2] == row[1] / row[0] - 1 for row in rows)
