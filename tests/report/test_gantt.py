"""The picture of ranks over time: bars where nodes ran, in lanes, in the colours of the legend."""

from __future__ import annotations

import dataclasses
import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import chakrasim as cs
from chakrasim import InputError
from chakrasim.cli.main import main
from chakrasim.demo import GROUPS, STEP
from chakrasim.generator import generate_transformer
from chakrasim.report.picture.gantt import LEFT, MOST_RANKS, RIGHT, WIDTH, gantt_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(text: str) -> tuple[dict[str, list[tuple[float, float, float]]], list[str], dict[str, str]]:
    """Bars (x, y, width) by kind, texts, and colours by kind in the legend."""
    root = ET.fromstring(text)
    bars: dict[str, list[tuple[float, float, float]]] = {}
    colour: dict[str, str] = {}
    for path in root.iter(f"{SVG}path"):
        kind = path[0].text or ""
        colour[kind] = path.attrib["fill"]
        found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v18H[\d.]+z", path.attrib["d"])
        assert found
        bars.setdefault(kind, []).extend((float(x), float(y), float(w)) for x, y, w in found)
    legend = {}
    items = [one for one in root if one.tag in (f"{SVG}rect", f"{SVG}text")]
    for rect, text_ in itertools.pairwise(items):
        if rect.tag == f"{SVG}rect" and rect.attrib["width"] == "11":
            legend[text_.text or ""] = rect.attrib["fill"]
    assert legend == colour
    return bars, [one.text or "" for one in root.iter(f"{SVG}text")], legend


@pytest.fixture(scope="module")
def result() -> cs.SimulationResult:
    return cs.simulate(STEP, machine="hgx-h100-16", comm_groups=GROUPS, congestion="aware")


def test_bars_are_where_nodes_ran(result: cs.SimulationResult) -> None:
    bars, texts, _ = drawn(gantt_svg(result, [8]))
    assert set(bars) == {"forward", "backward", "optimizer", "send", "receive", "all-reduce of 4", "all-reduce of 2"}
    record = result.records[int(result.classes[8])]
    graph = record.graph
    scale = (WIDTH - LEFT - RIGHT) / result.makespan_ns
    for kind, word in (("optimizer", "optimizer"), ("receive", "receive")):
        names = [graph.trace.name(int(node)) for node in graph.order]
        own = [i for i, name in enumerate(names) if word in name and record.end_ns[i] > record.start_ns[i]]
        assert len(bars[kind]) == len(own)
        lengths = record.end_ns - record.start_ns
        expected = sorted((LEFT + record.start_ns[i] * scale, lengths[i] * scale) for i in own)
        assert [(x, w) for x, _, w in sorted(bars[kind])] == [pytest.approx(one, abs=0.06) for one in expected]
    assert {"rank 8", "compute", "communication", "receive", "0 ms", "30 ms"} <= {*texts}


def test_ranks_lie_below_each_other_in_the_order_asked_for(result: cs.SimulationResult) -> None:
    bars, texts, _ = drawn(gantt_svg(result, [12, 3]))
    labels = [text for text in texts if text.startswith("rank")]
    assert labels == ["rank 12 (the same as rank 8)", "rank 3 (the same as rank 0)"]
    assert len({y for _, y, _ in bars["forward"]}) == 2
    assert len({y for each in bars.values() for _, y, _ in each}) == 6
    assert [text for text in drawn(gantt_svg(result))[1] if text.startswith("rank")] == ["rank 0", "rank 8"]


def test_roles_passes_and_strange_names(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256},
        "parallel": {"tp": 2, "pp": 2, "dp": 2}, "batch": {"micro_batches": 2},
    }  # fmt: skip
    found = cs.simulate(generate_transformer(spec).job, machine="h100")
    kinds = set(drawn(gantt_svg(found))[0])
    assert {"tp all-reduce", "dp all-reduce", "forward", "backward", "optimizer", "receive"} <= kinds
    builder = cs.TraceBuilder()
    builder.add(1, '<b>"&', 4, duration_micros=5, attrs={"is_cpu_op": False, "op_kind": "</title><script>"})
    odd = cs.simulate([builder.build()] * 2, machine="hgx-h100-2")
    number = cs.TraceBuilder()
    number.add(1, "n", 4, duration_micros=5, attrs={"is_cpu_op": False, "op_kind": 7, "phase": [1]})
    unsaid = cs.simulate([number.build()] * 2, machine="hgx-h100-2")
    assert set(drawn(gantt_svg(unsaid))[0]) == {"compute"} and "computation" not in unsaid.to_json()
    text = gantt_svg(odd)
    assert set(drawn(text)[0]) == {"</title><script>"} and "<script>" not in text


def test_what_cannot_be_drawn(result: cs.SimulationResult) -> None:
    with pytest.raises(InputError, match="there is no rank 16"):
        gantt_svg(result, [16])
    with pytest.raises(InputError, match="too many ranks"):
        gantt_svg(result, [*range(MOST_RANKS + 1)])
    with pytest.raises(InputError, match="nothing to draw"):
        gantt_svg(dataclasses.replace(result, records=()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--ranks 3 -o x.svg", "--ranks is of a simulated job; give --machine"),
        ("--machine hgx-h100-16 --by none -o x.svg", "--by does not go with --machine"),
        ("--machine hgx-h100-16 -o x.dot", "expected one of .svg"),
        ("--machine hgx-h100-16 --ranks x -o x.svg", "expected ranks, such as 3,12"),
        ("--machine hgx-h100-16 --ranks 99 -o x.svg", "there is no rank 99"),
    ],
)
def test_the_command_refuses(line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["--comm-group", str(GROUPS)] if "--machine" in line else []
    assert main(["draw", str(STEP), *groups, *line.replace("x.", f"{tmp_path}/x.").split()]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
