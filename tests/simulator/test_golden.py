"""Parity with the reference simulator, rank by rank: through files on disk and the Python call, folded and not."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import trace_of, with_protocol

import chakrasim
from chakrasim import SimulationResult, Trace

DATA = Path(__file__).resolve().parents[1] / "data"
SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = ("golden-analytical.jsonl.gz", "golden-options.jsonl.gz")
KINDS = {
    "coll", "dag", "roofline", "groups", "pipeline", "mem", "ctrl", "involved", "dims4", "queues", "inject",
    "rendezvous", "bus", "replay", "window", "broadcast", "ids", "remainder",
}  # fmt: skip


def _cases(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def _traces(case: dict[str, Any]) -> list[Trace]:
    workload = case["workload"]
    if isinstance(workload, dict):
        return [trace_of(workload["every"])] * case["npus"]
    return [trace_of(nodes) for nodes in workload]


def _numbers(result: SimulationResult) -> list[list[int]]:
    """Finish and exposed by rank; the reference prints a negative exposed time modulo 2**64."""
    return [[f, e % 2**64] for f, e in zip(result.finish_ns.tolist(), result.exposed_comm_ns.tolist(), strict=True)]


def _runs(case: dict[str, Any]) -> Iterator[tuple[str, list[list[int]]]]:
    for mode, expected in case["expected"].items():
        yield mode, [expected["every"]] * case["npus"] if isinstance(expected, dict) else expected


def _simulate(case: dict[str, Any], traces: list[Trace], mode: str, fold: bool) -> SimulationResult:
    return chakrasim.simulate(
        traces,
        system=case["system"],
        network=case["network"],
        memory=case.get("memory"),
        comm_groups=case.get("comm_group"),
        congestion=mode,  # type: ignore[arg-type]
        fold=fold,
        **with_protocol(case.get("options", {})),
    )


def _simulate_files(case: dict[str, Any], traces: list[Trace], mode: str, folder: Path) -> SimulationResult:
    """The same from files, written as a user of the reference has them."""
    folder.mkdir()
    chakrasim.write(folder / "w", traces)
    (folder / "system.json").write_text(json.dumps(case["system"]))
    (folder / "network.yml").write_text(yaml.safe_dump(case["network"]))
    (folder / "memory.json").write_text(json.dumps(case.get("memory", {"memory-type": "NO_MEMORY_EXPANSION"})))
    groups = None
    if "comm_group" in case:
        groups = folder / "groups.json"
        groups.write_text(json.dumps(case["comm_group"]))
    return chakrasim.simulate(
        folder / "w",
        system=folder / "system.json",
        network=folder / "network.yml",
        memory=folder / "memory.json",
        comm_groups=groups,
        congestion=mode,  # type: ignore[arg-type]
        **with_protocol(case.get("options", {})),
    )


def test_the_sample_has_every_kind_of_case() -> None:
    kinds = Counter(case["kind"] for name in FILES for case in _cases(DATA / name))
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 5
    assert kinds.total() >= 120


@pytest.mark.parametrize("name", FILES)
def test_every_number_of_the_sample_equals_the_reference(name: str, tmp_path: Path) -> None:
    wrong = []
    for i, case in enumerate(_cases(DATA / name)):
        traces = _traces(case)
        for mode, expected in _runs(case):
            results = {"files": _simulate_files(case, traces, mode, tmp_path / f"{i}-{mode}")}
            if not SHARED.is_dir():  # else these are among all golden cases
                results |= {f"fold {fold}": _simulate(case, traces, mode, fold) for fold in (True, False)}
            wrong += [(case["name"], mode, how) for how, result in results.items() if _numbers(result) != expected]
    assert wrong == []


@pytest.mark.parametrize("name", ["analytical", "analytical-options"])
@pytest.mark.parametrize("fold", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_number_of_all_golden_cases_equals_the_reference(name: str, fold: bool, shared_dir: Path) -> None:
    wrong = []
    runs = 0
    for case in _cases(shared_dir / "golden" / f"{name}.jsonl.gz"):
        traces = _traces(case)
        for mode, expected in _runs(case):
            runs += 1
            if _numbers(_simulate(case, traces, mode, fold)) != expected:
                wrong.append((case["name"], mode))
    assert wrong == []
    assert runs >= 200


@pytest.mark.slow
def test_files_give_the_numbers_of_all_golden_cases(shared_dir: Path, tmp_path: Path) -> None:
    wrong = []
    for name in ("analytical", "analytical-options"):
        for i, case in enumerate(_cases(shared_dir / "golden" / f"{name}.jsonl.gz")):
            traces = _traces(case)
            for mode, expected in _runs(case):
                result = _simulate_files(case, traces, mode, tmp_path / f"{name}-{i}-{mode}")
                if _numbers(result) != expected:
                    wrong.append((case["name"], mode))
    assert wrong == []


def test_a_symmetric_workload_folds_in_the_golden_sample() -> None:
    folded = 0
    for case in _cases(DATA / FILES[0]):
        for mode, _ in _runs(case):
            folded += len(_simulate(case, _traces(case), mode, True).class_ranks) < case["npus"]
    assert folded >= 40
