"""Pictures of results: what bars and points stand for, and what a name cannot do."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim import InputError
from chakrasim.comparison.parts import Part, Told
from chakrasim.comparison.result import Cause
from chakrasim.report.picture.axes import Figure
from chakrasim.report.picture.gantt import gantt_svg
from chakrasim.report.picture.scatter import Dot, scatter_svg

SVG = "{http://www.w3.org/2000/svg}"
ODD = "</title><script>alert(1)</script>\x00\x1b"


def bars(svg: str) -> dict[str, tuple[float, float]]:
    """Begin and length in pixels by what is said where the mouse is."""
    rects = [one for one in ET.fromstring(svg).iter(f"{SVG}rect") if len(one)]
    return {one[0].text or "": (float(one.attrib["x"]), float(one.attrib["width"])) for one in rects}


@pytest.fixture(scope="module")
def estimates() -> list[cs.StepEstimate]:
    return [cs.estimate("llama-7b", machine=name, gpus=16, batch=64) for name in ("h100", "a100")]


def test_a_simulation_is_the_picture_of_its_ranks(step: cs.SimulationResult, tmp_path: Path) -> None:
    picture = step.plot(ranks=[2])
    assert picture.svg == picture._repr_svg_() == gantt_svg(step, [2])
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg
    with pytest.raises(InputError, match="kind of picture is not known"):
        picture.save(tmp_path / "a.png")
    with pytest.raises(InputError, match="beside is of a SweepResult"):
        step.plot(beside="gpus")
    assert [one.name for one in tmp_path.iterdir()] == ["a.svg"]


def test_parts_of_an_estimate_follow_each_other_to_the_step(estimates: list[cs.StepEstimate]) -> None:
    found = estimates[0]
    *parts, whole = bars(found.plot().svg).values()
    known = [value for value in found.parts_s.values() if value]
    assert len(parts) == len(known) > 2
    assert [width for _, width in parts] == [
        pytest.approx(max(value / found.step_s * whole[1], 0.5), abs=0.1) for value in known
    ]
    assert [x for x, _ in parts] == [
        pytest.approx(whole[0] + sum(known[:i]) / found.step_s * whole[1], abs=0.1) for i in range(len(known))
    ]
    assert found.interval_text in found.plot().svg
    odd = replace(found, model=ODD).plot().svg
    assert ET.fromstring(odd) is not None and "<script>" not in odd


def test_causes_of_a_difference_add_up(estimates: list[cs.StepEstimate]) -> None:
    found = cs.compare(*estimates)
    shown = bars(found.plot().svg)
    first = found.causes[0]
    scale = shown[next(iter(shown))][1] / abs(first.difference_ns)
    *parts, whole = shown.values()
    assert len(parts) == sum(bool(one.difference_ns) for one in found.causes)
    assert whole[1] == pytest.approx(abs(found.difference_ns) * scale, abs=0.5)
    assert "B takes" in found.plot().svg
    with pytest.raises(InputError, match="nothing to draw"):
        cs.compare(estimates[0], estimates[0]).plot()


def test_many_causes_both_ways_and_strange_names(estimates: list[cs.StepEstimate]) -> None:
    found = cs.compare(*estimates)
    causes = tuple(Cause(ODD, f"{i}", 100 + i, 100 - i if i % 2 else 110 + 3 * i) for i in range(1, 41))
    sides = [replace(side, groups={"all": Told("", (Part(ODD, sum(getattr(one, f"{name}_ns") for one in causes)),))})
             for name, side in (("a", found.a), ("b", found.b))]  # fmt: skip
    made = replace(found, a=sides[0], b=sides[1], causes=causes)
    svg = made.plot().svg
    shown = bars(svg)
    assert len(shown) == 22 and any(text.startswith("20 other causes: ") for text in shown)
    assert "<script>" not in svg and {"#e45756", "#54a24b"} <= {one.attrib["fill"] for one in ET.fromstring(svg).iter()
                                                               if one.tag == f"{SVG}rect"}  # fmt: skip
    # The last part ends where the sum does.
    (x, width), whole = [*shown.values()][-2:]
    assert min(abs(x - sum(whole)), abs(x + width - sum(whole))) < 0.3


def test_points_of_a_sweep_have_names_and_the_front_is_marked() -> None:
    base = {"model": "llama-7b", "machine": "h100", "batch": 64}
    found = cs.sweep({"base": base, "vary": {"gpus": [8, 16], "tp": [1, 2, 3]}}, jobs=1)
    for beside, value in ((None, "GPUs"), ("memory_bytes", "memory of the fullest GPU")):
        svg = (found.plot() if beside is None else found.plot(beside=beside)).svg
        dots = [*ET.fromstring(svg).iter(f"{SVG}circle")]
        assert len(dots) == found.going == 4 and value in svg
        marked = {str(dot[0].text).split(":")[0] for dot in dots if dot.attrib["fill"] == "#e45756"}
        assert marked == {f"gpus {found.point(row)['gpus']}, tp {found.point(row)['tp']}" for row in found.front}
    with pytest.raises(InputError, match="no such figure of a sweep"):
        found.plot(beside="step_s")
    with pytest.raises(InputError, match="nothing to draw"):
        replace(found, outcomes=found.outcomes[:0], front=()).plot()


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [1e-9, 5e3], [-2.0, 7.0], [1e18, 1e18 + 1e3], [3.0, 100.0]])
def test_points_lie_within_their_frame(values: list[float]) -> None:
    figure = Figure(ODD, str)
    svg = scatter_svg([Dot(value, value, ODD) for value in values], figure, figure)
    root = ET.fromstring(svg)
    frame = [*root.iter(f"{SVG}rect")][1].attrib
    for dot in root.iter(f"{SVG}circle"):
        x, y = float(dot.attrib["cx"]), float(dot.attrib["cy"])
        assert float(frame["x"]) < x < float(frame["x"]) + float(frame["width"]) and math.isfinite(y)
        assert float(frame["y"]) < y < float(frame["y"]) + float(frame["height"])
    assert "<script>" not in svg
    assert len([*root.iter(f"{SVG}path")]) < 60
