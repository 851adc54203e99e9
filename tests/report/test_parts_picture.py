"""The picture of where the time goes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.report.picture.parts import parts_svg, write_parts
from chakrasim.trace import CollectiveType, NodeType

MACHINE = {
    "format": 1,
    "network": [{"topology": "Switch", "npus": 4, "bandwidth": "10 GB/s", "latency": "1 us"}],
    "memory": {"bandwidth": "1000 GB/s"},
    "collectives": {"splits": 1, "algorithms": {"all-reduce": "ring"}},
}


def result(micros: int) -> cs.SimulationResult:
    builder = cs.TraceBuilder()
    builder.add(0, "work", NodeType.COMP_NODE, duration_micros=micros, attrs={"is_cpu_op": False})
    comm = {"is_cpu_op": False, "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": 1 << 20}
    builder.add(1, "sum", NodeType.COMM_COLL_NODE, data_deps=[0], attrs=comm)
    return cs.simulate(builder.build(), ranks=4, machine=MACHINE)


def test_bars_are_as_long_as_the_times(tmp_path: Path) -> None:
    results = {"fast <1>": result(100), "slow": result(1000)}
    write_parts(tmp_path / "parts.svg", results)
    root = ElementTree.parse(tmp_path / "parts.svg").getroot()
    bars = [node for node in root.iter() if node.tag.endswith("rect") and len(node)]
    widths = np.array([float(bar.get("width", "0")) for bar in bars])
    times = [result.parts_ns.mean(axis=0) for result in results.values()]
    expected = np.concatenate([parts[parts > 0] for parts in times])
    assert widths / widths.sum() == pytest.approx(expected / expected.sum(), abs=2e-4)
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert "fast <1>" in texts and "exposed communication" in texts and "idle" not in texts
    shares = [float(share) for share in re.findall(r", ([0-9.]+) %", parts_svg({"slow": results["slow"]}))]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_without_results_there_is_no_picture() -> None:
    with pytest.raises(cs.InputError, match="there is no time to draw"):
        parts_svg({})
