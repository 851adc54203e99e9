"""Rooflines, memory over time, and predicted against measured times: what points and lines stand for."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim import InputError
from chakrasim.analysis import memory_series, memory_summary
from chakrasim.cli.main import main
from chakrasim.report.page.simulation import simulation_page
from chakrasim.report.picture.agreement import Pair, agreement_svg, band_of, farthest
from chakrasim.report.picture.axes import HIGH, LEFT, TOP, WIDE
from chakrasim.report.picture.course import Course, course_svg, thinned
from chakrasim.report.picture.roofline import Roof, attained, roof_of
from chakrasim.simulator.outcome.local_memory import tensors_of, usage
from chakrasim.validation.megatron import validate_megatron

SVG = "{http://www.w3.org/2000/svg}"
ODD = "</title><script>alert(1)</script>\x00\x1b\ud800"


def titled(svg: str, tag: str) -> dict[str, dict[str, str]]:
    """Attributes by what is said where the mouse is."""
    return {one[0].text or "": one.attrib for one in ET.fromstring(svg).iter(f"{SVG}{tag}") if len(one)}


def words(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]


def pictures(result: cs.SimulationResult) -> dict[str, str]:
    parts = simulation_page(result, question="?").to_dict()["parts"]
    found = {part["title"]: part["source"] for part in parts if part["kind"] == "image"}
    return {title: b64decode(source.partition(",")[2]).decode() for title, source in found.items()}


@pytest.fixture(scope="module")
def generated() -> cs.SimulationResult:
    spec = {"model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1024, "sequence": 256},
            "parallel": {"tp": 2, "dp": 2}, "batch": {"micro_batches": 2}}  # fmt: skip
    return cs.simulate(cs.generate_transformer(spec).job, machine=cs.load_machine("h100", gpus=4))


# -- the roofline ------------------------------------------------------------------------------------------------------


def test_kinds_of_work_stand_at_what_they_attain_below_the_roof(generated: cs.SimulationResult) -> None:
    svg = generated.plot("roofline").svg
    dots, roof = titled(svg, "circle"), roof_of(generated)
    assert roof is not None and (roof.peak, roof.bandwidth) == (989.4e12, 3.35e12)
    by_kind = {said.split(":")[0]: own for said, own in dots.items()}
    known = {one.kind: one for one in generated.computation if one.flops.sum() and one.bytes.sum()}
    assert set(by_kind) == set(known) >= {"gemm", "attention"}
    x, y, shares = [], [], []
    for kind, own in by_kind.items():
        one = known[kind]
        x.append((math.log(one.flops.sum() / one.bytes.sum()), float(own["cx"])))
        y.append((math.log(one.flops.sum() / one.time_ns.sum()), float(own["cy"])))
        shares.append(float(one.time_ns.sum()))
    for pairs, size in ((x, 0.06), (y, 0.06)):
        values, places = np.array(pairs).T
        slope, begin = np.polyfit(values, places, 1)
        assert np.abs(places - slope * values - begin).max() < size
    largest = max(by_kind, key=lambda kind: float(by_kind[kind]["r"]))
    assert largest == max(known, key=lambda kind: int(known[kind].time_ns.sum()))
    assert all(one.speed <= roof.at(one.intensity) for one in attained(generated)[0])
    assert pictures(generated)["Roofline"] == svg


def test_a_roof_is_the_lesser_of_peak_and_bandwidth() -> None:
    roof = Roof("x", 100.0, 0.0, 10.0)
    assert [roof.at(one) for one in (1.0, 10.0, 1000.0)] == [10.0, 100.0, 100.0]


def test_without_operations_there_is_no_roofline(step: cs.SimulationResult) -> None:
    with pytest.raises(InputError, match="no node says its operations and bytes"):
        step.plot("roofline")
    with pytest.raises(InputError, match="no such picture of a simulation; found 'heat'; expected ranks, memory"):
        step.plot("heat")
    with pytest.raises(InputError, match="local memory was not tracked"):
        step.plot("memory")
    with pytest.raises(InputError, match="no times were measured"):
        step.plot("measured")
    assert not {"Roofline", "Memory over time"} & set(pictures(step))


# -- memory ------------------------------------------------------------------------------------------------------------


def test_live_tensors_of_ranks_over_time(run: Any) -> None:
    def node(number: int, reads: list[int], size: int) -> dict[str, Any]:
        lists = {"inputs": [text for one in reads for text in (f"t{one}", str(1 << 20))],
                 "outputs": [f"t{number}", str(size)]}  # fmt: skip
        attrs = {"is_cpu_op": False, **{name: own for name, own in lists.items() if own}}
        return {"id": number, "name": "<b>", "type": 4, "data_deps": [number - 1] if number else [],
                "duration_micros": 10, "attrs": attrs}  # fmt: skip

    small = [node(0, [], 1 << 20), node(1, [0], 1 << 20)]
    large = [node(0, [], 8 << 20), node(1, [], 8 << 20), node(2, [0], 2 << 20)]
    result = run(small, large, extra={"track-local-mem": 1})
    assert result.peak_memory_bytes is not None and result.peak_memory_bytes.tolist() == [2 << 20, 18 << 20]
    svg = result.plot("memory").svg
    lines = titled(svg, "path")
    assert list(lines) == ["rank 1: at most 18 MiB, at 20 us", "rank 0: at most 2 MiB, at 10 us"]
    assert {"rank 1: 18 MiB", "rank 0: 2 MiB"} <= set(words(svg))
    ticks, in_use = usage(tensors_of(result.records[1]))
    heights = [float(one) for one in re.findall(r"V([\d.]+)", lines["rank 1: at most 18 MiB, at 20 us"]["d"])]
    assert len(heights) == len(ticks)
    slope, begin = np.polyfit(in_use, heights, 1)
    assert slope < 0 and np.abs(heights - slope * in_use - begin).max() < 0.06
    assert list(titled(result.plot("memory", ranks=[0]).svg, "path")) == ["rank 0: at most 2 MiB, at 10 us"]
    assert pictures(result)["Memory over time"] == svg


def test_of_many_steps_the_highest_stay() -> None:
    rng = np.random.default_rng(1)
    times, values = np.cumsum(rng.integers(1, 9, 20_000)), rng.integers(0, 1000, 20_000)
    kept, shown = thinned(times, values, int(times[-1]), 500)
    assert len(kept) <= 504 and shown.max() == values.max() and shown[-1] == values[-1]
    assert (np.diff(kept) > 0).all() and set(zip(kept, shown, strict=True)) <= set(zip(times, values, strict=True))
    svg = course_svg([Course(ODD, kept, shown)], int(times[-1]), ODD)
    assert ET.fromstring(svg) is not None and "<script>" not in svg


def memory_trace(folder: Path, name: str = "trace.json") -> Path:
    """Device 0 grows to 300 bytes and shrinks, the host has 50; one event does not say what is in use."""

    def event(at: float, device: int, kind: int, **args: int) -> dict[str, Any]:
        own = {"Device Type": kind, "Device Id": device, "Addr": 1, "Bytes": 1, **args}
        return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": at,
                "args": own}  # fmt: skip

    held = [100, 300, 200]
    events = [event(10 + i, 0, 1, **{"Total Allocated": one, "Total Reserved": 512}) for i, one in enumerate(held)]
    events += [event(10.5, -1, 0, **{"Total Allocated": 50, "Total Reserved": 0}), event(11, 0, 1)]
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 2,
              "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    document = {"distributedInfo": {"rank": 3}, "traceEvents": [kernel, *events]}
    (folder / name).write_text(json.dumps(document))
    return folder / name


def test_recorded_memory_over_time(tmp_path: Path) -> None:
    series = memory_series(memory_trace(tmp_path))
    assert series.records() == [
        {"rank": 3, "device": device, "ts_ns": ts, "allocated_bytes": held, "reserved_bytes": had, "event": event}
        for device, ts, held, had, event in [(-1, 10_500, 50, 0, 4), (0, 10_000, 100, 512, 1), (0, 11_000, 300, 512, 2),
                                             (0, 12_000, 200, 512, 3)]
    ]  # fmt: skip
    assert series.notes == ("rank 3: left out 1 of 5 events [memory]: they have no time, or not the bytes in use",)
    assert memory_summary(tmp_path / "trace.json").records()[1] == {
        "rank": 3, "device": 0, "events": 3, "peak_allocated_bytes": 300, "peak_after_ns": 1000,
        "peak_reserved_bytes": 512, "last_allocated_bytes": 200,
    }  # fmt: skip
    lines = titled(series.plot().svg, "path")
    assert list(lines) == ["rank 3 device 0: at most 300 B, at 1 us", "rank 3 host: at most 50 B, at 500 ns"]


def test_the_command_draws_recorded_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = memory_trace(tmp_path), tmp_path / "memory.svg"
    assert main(["analyze", "memory", str(path), "--picture", str(picture)]) == 0
    assert "peak allocated" in capsys.readouterr().out.lower().replace("_", " ")
    assert picture.read_text() == memory_series(path).plot().svg
    assert main(["analyze", "memory", str(path), "--picture", str(tmp_path / "memory.png")]) == 2
    bare = {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2,
                             "args": {"device": 0, "stream": 7}}]}  # fmt: skip
    (tmp_path / "bare.json").write_text(json.dumps(bare))
    assert main(["analyze", "memory", str(tmp_path / "bare.json"), "--picture", str(tmp_path / "no.svg")]) == 2
    assert "no memory was recorded" in capsys.readouterr().err
    assert not (tmp_path / "no.svg").exists() and not (tmp_path / "memory.png").exists()


# -- predicted against measured ----------------------------------------------------------------------------------------


def test_predictions_stand_about_the_diagonal() -> None:
    pairs = [Pair(f"p{i}", 10.0**i, 10.0**i * (1.3 if i == 3 else 1.01), 10.0**i * 0.9, 10.0**i * 1.1)
             for i in range(1, 8)]  # fmt: skip
    svg = agreement_svg(pairs)
    dots = titled(svg, "circle")
    assert len(dots) == 7 and "p3: measured 1 us, predicted 1.3 us (+30.0%)" in dots
    for said, own in dots.items():
        off = (float(own["cx"]) - LEFT) / WIDE - (1 - (float(own["cy"]) - TOP) / HIGH)
        assert (abs(off) > 0.01) == said.startswith("p3")
    assert band_of(pairs) == pytest.approx(1.3) and band_of(pairs[:2]) == pytest.approx(1.01)
    assert (
        words(svg)[0] == "7 times; nine of ten within a factor of 1.300 (shaded); 7 inside their 90 % interval (bars)"
    )
    assert farthest(pairs)[0].name == "p3" and any(one.startswith("p3 +30.0%") for one in words(svg))


def test_many_predictions_make_a_small_picture_and_names_are_text() -> None:
    rng = np.random.default_rng(2)
    times = np.exp(rng.uniform(5, 15, 20_000))
    pairs = [Pair(ODD, one, one * 1.1, one, one * 1.2, f"{i % 3}") for i, one in enumerate(times.tolist())]
    svg = agreement_svg([*pairs, Pair("blank", 0.0, 1.0)])
    assert len(svg) < 60_000 and ET.fromstring(svg) is not None and "<script>" not in svg
    assert len(titled(svg, "circle")) == 3 == len(farthest(pairs))
    assert "1 without a time left out" in words(svg)[0]
    with pytest.raises(InputError, match="no times were measured; found 1 prediction"):
        agreement_svg([Pair("blank", 0.0, 1.0)])


@pytest.mark.slow
def test_a_validation_is_drawn_on_its_page(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    assert main(["validate", "megatron", "--report", str(page), "--quiet"]) == 0
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    (image,) = [part for part in json.loads(found[1])["parts"] if part["kind"] == "image"]
    validation = validate_megatron()
    assert b64decode(image["source"].partition(",")[2]).decode() == validation.plot().svg
    worst = max(validation.predictions, key=lambda one: abs(math.log(one.seconds / one.run.seconds)))
    assert image["lines"][0].startswith(worst.run.name)


def test_recorded_steps_stand_beside_their_simulation(tmp_path: Path) -> None:
    from chakrasim.demo import TRACES

    assert main(["trace", str(TRACES), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    result = cs.replay_recorded(str(tmp_path / "out" / "chakra"), "recorded")
    svg = result.plot("measured").svg
    assert len(titled(svg, "circle")) == len(result.steps) > 0
    assert pictures(result)["Simulated against measured"] == svg
