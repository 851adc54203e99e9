"""HTA's critical path: its own results on recorded, hand-made and random traces, and a slow model on more."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from critical_path_model import Fails, Model, Unmodelled
from critical_path_traces import TraceMaker, random_question
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.compat.hta_critical_path.path import critical_path
from chakrasim.compat.hta_critical_path.result import CriticalPath, chakra_sync_dependencies, compat_figures, shorten
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.read import read_kineto

DATA = Path(__file__).resolve().parents[1] / "data" / "critical-path"
VERSIONS = ("new", "pinned")


def load(document: dict[str, Any], folder: Path) -> KinetoTrace:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return read_kineto(path)


def cases(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as file:
        yield from map(json.loads, file)


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Names of figures that are not as expected. Percentages agree to six digits."""
    wrong = [key for key, value in expected.items() if key != "bound_by_pct" and found.get(key) != value]
    shares = found.get("bound_by_pct", {})
    wanted = expected.get("bound_by_pct", {})
    if shares.keys() != wanted.keys() or any(abs(shares[key] - wanted[key]) > 2e-6 for key in wanted):
        wrong.append("bound_by_pct")
    return wrong


def ask(kineto: KinetoTrace, case: dict[str, Any], version: Any) -> CriticalPath:
    instance = tuple(case["instance"]) if isinstance(case["instance"], list) else case["instance"]
    extra = case["launch_edges"]
    return critical_path(
        kineto, version=version, annotation=case["annotation"], instance=instance, zero_weight_launch_edges=extra
    )


@pytest.mark.parametrize("file", ["probes.jsonl.gz", "recorded.jsonl.gz", "random.jsonl.gz"])
def test_the_reference_s_own_results(file: str, tmp_path: Path) -> None:
    wrong = []
    for case in cases(file):
        kineto = load(case["trace"], tmp_path)
        for version in VERSIONS:
            figures = compat_figures(ask(kineto, case, version), kineto)
            if different := differences(figures, case[version]):
                wrong.append((case["name"], version, different, figures.get("error")))
    assert wrong == []


COMPARED = (
    *("ok", "clipped_rows", "cp_nodes", "cp_edges_by_type", "cp_weight", "cp_path_sha1", "cp_sync_edges"),
    *("all_sync_edges", "bound_by_pct", "chakra_sync_dependencies"),
)


def test_every_recorded_trace_of_the_shared_data(shared_dir: Path) -> None:
    wrong = []
    opened: dict[str, KinetoTrace] = {}
    for file in sorted((shared_dir / "golden" / "analysis").glob("cp_*.json")):
        golden = json.loads(file.read_text())
        path = shared_dir / "traces" / golden["trace"]
        if golden["trace"] not in opened:
            opened[golden["trace"]] = read_kineto(path)
        kineto = opened[golden["trace"]]
        instance = None if golden["instance"] == "None" else ast.literal_eval(golden["instance"])
        case = {"annotation": golden["annotation"], "instance": instance, "launch_edges": ".z1." in file.name}
        figures = compat_figures(ask(kineto, case, file.name.split(".")[1]), kineto)
        if different := differences(figures, {key: golden[key] for key in COMPARED if key in golden}):
            wrong.append((file.name, different))
    assert wrong == []


def compare_with_the_model(random: Random, folder: Path) -> bool:
    """Whether the model knew."""
    document = TraceMaker(random).document
    annotation, instance, extra = random_question(random)
    kineto = load(document, folder)
    known = False
    for version in VERSIONS:
        case = {"annotation": annotation, "instance": instance, "launch_edges": extra}
        path = ask(kineto, case, version)
        try:
            expected = Model(document, version == "pinned", annotation, instance, extra).result
        except Unmodelled:
            continue
        except Fails as failure:
            assert path.failure == str(failure), (version, path.reason)
            known = True
            continue
        known = True
        figures = compat_figures(path, kineto)
        figures["cp_path"] = [path.node(node) for node in path.path_nodes.tolist()]
        edges = zip(path.edge_source, path.edge_target, path.edge_kind, path.edge_weight, strict=True)
        names = ("OPERATOR_KERNEL", "DEPENDENCY", "KERNEL_LAUNCH_DELAY", "KERNEL_KERNEL_DELAY", "SYNC_DEPENDENCY")
        figures["edges"] = sorted(
            [*path.node(source), *path.node(target), names[kind], float(weight)]
            for source, target, kind, weight in edges
        )
        figures["events"] = [event if event >= 0 else None for event in path.edge_event[path.path_edges].tolist()]
        assert {key: figures.get(key) for key in expected} == expected, version
    return known


def test_a_slow_model_agrees(tmp_path: Path) -> None:
    known = sum(compare_with_the_model(Random(seed), tmp_path) for seed in range(100))
    assert known > 80


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_a_slow_model_agrees_on_whatever_is_drawn(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    compare_with_the_model(Random(seed), tmp_path_factory.mktemp("drawn"))


STEP = {"ph": "X", "name": "ProfilerStep#1", "cat": "user_annotation", "pid": 1, "tid": 1, "args": {}}


def small_trace(**launch: Any) -> dict[str, Any]:
    """A step of 1 ms, one operator, its launch and its kernel."""
    base = 10**12
    args = {"correlation": 11, "External id": 5}
    events = [
        STEP | {"ts": base, "dur": 1000},
        {"ph": "X", "name": "load_batch", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": base + 2, "dur": 90,
         "args": {}},
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": base + 10, "dur": 40, "args": {}},
        {"ph": "X", "name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": base + 20, "dur": 10,
         "args": args} | launch,
        {"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": base + 100, "dur": 200,
         "args": args | {"stream": 7, "device": 0}},
    ]  # fmt: skip
    return {"traceEvents": events}


def test_loading_data_is_told_apart(tmp_path: Path) -> None:
    kineto = load(small_trace(), tmp_path)
    plain = critical_path(kineto)
    assert plain.bound_by() == pytest.approx(
        {
            "cpu_bound": 100 * 10 / 290,
            "gpu_compute_bound": 100 * 200 / 290,
            "gpu_kernel_launch_overhead": 100 * 80 / 290,
        }
    )
    loading = critical_path(kineto, data_load_events=["load_"])
    assert [loading.node(node) for node in loading.path_nodes[:2]] == [[1, "S"], [2, "S"]]
    assert loading.bound_by()["data_loading"] == pytest.approx(100 * 8 / 298)
    assert critical_path(kineto, version="pinned", data_load_events=["load_"]).bound_by() == plain.bound_by()


def test_a_text_as_stream_stops_only_the_pinned_version(tmp_path: Path) -> None:
    document = small_trace()
    document["traceEvents"][3]["args"]["stream"] = "default"
    kineto = load(document, tmp_path)
    assert critical_path(kineto).success
    failed = critical_path(kineto, version="pinned")
    assert (failed.failure, failed.reason) == ("TypeError", "1 events have a stream that is text")


def test_nothing_to_analyse(tmp_path: Path) -> None:
    nothing = load({"traceEvents": []}, tmp_path)
    assert [critical_path(nothing, version=version).failure for version in ("new", "pinned")] == ["KeyError"] * 2
    host = load({"traceEvents": [STEP | {"ts": 0, "dur": 5}, STEP | {"ts": 1, "dur": 2, "name": "other"}]}, tmp_path)
    assert critical_path(host).failure == "AssertionError"
    assert critical_path(host, version="pinned").failure == "KeyError"
    assert critical_path(host, annotation="nowhere").failure == "None"
    assert critical_path(host, instance=1).failure == "UndefinedVariableError"


def test_what_chakra_s_linker_takes(tmp_path: Path) -> None:
    (case,) = (case for case in cases("recorded.jsonl.gz") if case["name"] == "event_sync.z0")
    kineto = load(case["trace"], tmp_path)
    assert chakra_sync_dependencies(ask(kineto, case, "new"), kineto) == ({"1536": [1526]}, 0)
    assert chakra_sync_dependencies(ask(kineto, case, "pinned"), kineto) == ({"1512": [1511], "1536": [1526]}, 0)


def test_names_are_shortened_as_the_reference_does() -> None:
    assert shorten("void at::kernel<int, (a)1>(float, int)", "new") == "at::kernel"
    assert shorten("Memcpy DtoH (Device -> Pinned)", "new") == "Memcpy DtoH (Device -> Pinned)"
    assert shorten("Memcpy DtoH (Device -> Pinned)", "pinned") == ""
    assert shorten("two words", "new") == "two words"
    assert shorten("two words", "pinned") == "words"
