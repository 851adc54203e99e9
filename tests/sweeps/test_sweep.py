"""Sweeps: the table, the front, and going on after an end that nobody asked for."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chakrasim.errors import InputError
from chakrasim.estimation.api import estimate
from chakrasim.sweeps import sweep as sweeping
from chakrasim.sweeps.plan import plan
from chakrasim.sweeps.points import ENGINE, MEMORY, all_by_arithmetic
from chakrasim.sweeps.space import read_space
from chakrasim.sweeps.sweep import sweep

SMALL: dict[str, Any] = {
    "base": {"model": "llama-7b", "machine": "h100", "gpus": 8, "batch": 16, "seq": 2048, "price_per_gpu_hour": 2},
    "vary": {"tp": [1, 2, 3, 8], "pp": [1, 2], "micro_batch": [1, 2]},
    "where": ["dp * tp * pp == gpus"],
}
FIGURES = ["step_s", "low_s", "high_s", "gpus", "memory_bytes", "energy_j", "money", "status", "reason", "by"]


def rows_of(folder: Path) -> list[dict[str, str]]:
    with gzip.open(folder / "results.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_every_point_in_order(tmp_path: Path) -> None:
    found = sweep(SMALL, tmp_path / "out", jobs=1)
    rows = rows_of(tmp_path / "out")
    assert list(rows[0]) == ["tp", "pp", "micro_batch", *FIGURES]
    keys = [(int(row["tp"]), int(row["pp"]), int(row["micro_batch"])) for row in rows]
    assert keys == [(tp, pp, size) for tp in (1, 2, 3, 8) for pp in (1, 2) for size in (1, 2)]
    assert {row["reason"] for row in rows if row["tp"] == "3"} == {"dp * tp * pp == gpus"}
    assert {row["status"] for row in rows} == {"ok", "refused"}
    assert found.frame()["step_s"].notna().sum() == sum(row["status"] == "ok" for row in rows)
    for row in rows:
        if row["status"] == "ok":
            assert float(row["low_s"]) < float(row["step_s"]) < float(row["high_s"])
            assert float(row["money"]) == pytest.approx(8 * 2 * float(row["step_s"]) / 3600, rel=1e-6)


def test_what_is_simulated_is_what_estimate_says(tmp_path: Path) -> None:
    found = sweep(SMALL, jobs=1)
    assert found.best is not None
    point, best = found.point(found.best), found.outcomes[found.best]
    same = {name: point[name] for name in ("gpus", "batch", "seq", "tp", "pp", "micro_batch")}
    step = estimate("llama-7b", machine="h100", **same)
    assert (best.by, best.step_s, best.memory_bytes) == ("engine", step.step_s, step.memory_bytes)
    assert (best.low_s, best.high_s) == (step.low_s, step.high_s)


def test_of_many_points_the_front_and_some_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "ALL_EXACT", 2)
    found = sweep(SMALL, jobs=1)
    by = [one.by for one in found.outcomes]
    assert {by[row] for row in found.front} == {"engine"} and "arithmetic" in by
    assert 0 <= found.largest_difference < 0.1
    monkeypatch.setattr(sweeping, "ALL_EXACT", 100)
    assert sweep(SMALL, jobs=1).front == found.front


def test_what_does_not_fit_is_refused() -> None:
    space = {"base": {"model": "llama3-70b", "machine": "h100", "gpus": 8, "batch": 8, "recompute": "full", "pp": 1},
             "vary": {"tp": [1, 8]}}  # fmt: skip
    found = sweep(space, jobs=1)
    assert found.refused == {MEMORY: 2} and found.best is None
    assert all(one.memory_bytes > 80e9 and math.isnan(one.step_s) for one in found.outcomes)


def test_values_that_no_point_can_have_are_said() -> None:
    base = {"model": "llama-7b", "machine": "h100", "gpus": 8}
    assert sweep({"base": base, "vary": {"tp": [-1, 0.5]}}, jobs=1).refused == {"tp: out of range": 2}
    with pytest.raises(InputError, match="neither a model that is built in"):
        sweep({"base": {**base, "model": "lama"}, "vary": {"tp": [1]}}, jobs=1)


def test_places_of_the_machine_are_keys() -> None:
    space = {"base": {"model": "llama-7b", "machine": "h100", "gpus": 16, "batch": 16, "seq": 2048, "tp": 8, "pp": 1},
             "vary": {"nic": ["100G", "400G"]}}  # fmt: skip
    slow, fast = sweep(space, jobs=1).outcomes
    assert slow.step_s > fast.step_s
    with pytest.raises(InputError, match="no such place"):
        sweep({**space, "vary": {"network[0].bandwith.x": [1, 2]}}, jobs=1)


def test_machines_that_differ_in_links_are_reckoned_as_one_by_one() -> None:
    link = "network.graph.parts."
    vary = {f"{link}nvswitch.bandwidth": ["450 GB/s", "120 GB/s"], "tp": [2, 8],
            f"{link}rails.nic": ["90 Gb/s", "1 Tb/s"], "compute.profile": ["h100", "a100"],
            "micro_batch": [1, 4]}  # fmt: skip
    base = {"model": "llama-7b", "machine": "h100", "gpus": 16, "batch": 16, "seq": 2048, "pp": 1}
    space = read_space({"base": base, "vary": vary})
    points = list(space.points())
    found = all_by_arithmetic(points, space.where)
    assert found == [all_by_arithmetic([point], space.where)[0] for point in points]
    assert len({one.step_s for one in found if one.status == "ok"}) > 20
    blocks = space.blocks(3, 8)
    assert sorted(row for block in blocks for row in block) == list(range(len(space)))
    first = [{key: points[row][key] for key in ("tp", "micro_batch")} for row in blocks[0]]
    assert first[0] == first[2] != first[3]


def test_settings_that_change_more_than_links_are_no_lanes() -> None:
    base = {"model": "llama-7b", "machine": "hgx-h100-32", "device_profile": "h100", "batch": 32, "seq": 2048,
            "tp": 2, "pp": 1}  # fmt: skip
    vary = {"network[0].npus": [2, 8], "network[0].bandwidth": ["400 GB/s", "9 GB/s"], "network[1].npus": [2, 4],
            "network[1].latency": ["1 us", "2 ms"]}  # fmt: skip
    space = read_space({"base": base, "vary": vary})
    found = all_by_arithmetic(list(space.points()), space.where)
    assert found == [all_by_arithmetic([point], space.where)[0] for point in space.points()]
    assert {one.gpus for one in found} == {4, 8, 16, 32} and len({one.step_s for one in found}) == len(found)


def test_a_damaged_or_missing_part_is_done_again(tmp_path: Path) -> None:
    sweep(SMALL, tmp_path / "whole", jobs=1)
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    parts = sorted((tmp_path / "again" / "parts").iterdir())
    parts[0].write_bytes(parts[0].read_bytes()[:-9])
    parts[-1].unlink()
    (tmp_path / "again" / "results.csv.gz").unlink()
    with pytest.raises(InputError, match="go on with --resume"):
        sweep(SMALL, tmp_path / "again", jobs=1)
    sweep(SMALL, tmp_path / "again", resume=True, jobs=1)
    for name in ("results.csv.gz", "front.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(InputError, match="has another sweep"):
        sweep({**SMALL, "where": []}, tmp_path / "again", resume=True, jobs=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        sweep(SMALL, tmp_path / "full", jobs=1)


def test_any_key_of_spec_library_and_machine_varies(tmp_path: Path) -> None:
    base = {"model": "llama-7b", "machine": "h100", "gpus": 16, "batch": 32, "seq": 2048, "tp": 2, "pp": 2, "zero": 0}
    slower: dict[str, list[Any]] = {
        "overlap.dp": [True, False], "overlap.tp": [True, False], "gradient_dtype": ["bfloat16", "float32"],
        "model.layers": [16, 32], "library": ["none", "nccl-2.21.5"], "oversubscription": [1, 4],
        "overlap.bucket": ["25 MiB", "1 MiB"],
    }  # fmt: skip
    for key, values in slower.items():
        more = {"fabric": "fat-tree", "gpus": 256, "batch": 512} if key == "oversubscription" else {}
        found = sweep({"base": {**base, **more}, "vary": {key: values}}, jobs=1)
        steps = [one.step_s for one in found.outcomes]
        assert all(one.by == ENGINE for one in found.outcomes) and steps[0] <= steps[1], key
        assert key == "overlap.bucket" or steps[0] < steps[1] * 0.9999, key
    spec = {"model": {"preset": "llama-7b"}, "optimizer": "sgd", "overlap": {"dp": False}}
    (tmp_path / "m.yaml").write_text(json.dumps(spec))
    named = sweep({"base": {**base, "overlap.dp": False}, "vary": {"optimizer": ["sgd"]}}, jobs=1)
    written = sweep({"base": {**base, "model": str(tmp_path / "m.yaml"), "clip_gradients": True, "fused_loss": True},
                     "vary": {"overlap.dp": [False]}}, jobs=1)  # fmt: skip
    assert named.outcomes[0].step_s == written.outcomes[0].step_s
    refused = sweep({"base": base, "vary": {"schedule": ["1f1b", "none of them"]}}, jobs=1)
    assert [one.status for one in refused.outcomes] == ["ok", "refused"]
    assert refused.outcomes[1].reason.startswith("schedule: ")


CODE = """
import sys, json
from chakrasim.sweeps.sweep import sweep
sweep(json.load(open(sys.argv[1])), sys.argv[2], resume=True)
"""


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_the_table_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SMALL))
    sweep(SMALL, tmp_path / "whole", jobs=1)
    killed = 0
    for after_s in [0.05 * step for step in range(1, 101)]:
        folder = tmp_path / f"k{after_s:.2f}"
        words = [sys.executable, "-c", CODE, str(tmp_path / "s.json"), str(folder)]
        process = subprocess.Popen(words, start_new_session=True)
        time.sleep(after_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        sweep(SMALL, folder, resume=True, jobs=1)
        for name in ("results.csv.gz", "front.csv"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert killed > 20


def test_a_cluster_gives_the_same_table(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    sweep(SMALL, tmp_path / "here", jobs=1)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as own:
        sweep(SMALL, tmp_path / "there", cluster=own.scheduler_address)
    for name in ("results.csv.gz", "front.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_cluster_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"a cluster needs Dask; pip install 'chakrasim\[cluster\]'"):
        sweep(SMALL, jobs=1, cluster="tcp://127.0.0.1:1")


def test_a_plan_has_the_best_of_what_fits() -> None:
    found = plan("llama-7b", machine="h100", gpus=8, batch=32, seq=2048, recompute="none", jobs=1)
    told = found.to_json()
    times = [one.step.step_s for one in (found.best, *found.runners_up)]
    assert times == sorted(times)
    assert found.best.step.memory_bytes <= 0.9 * found.best.step.memory_capacity_bytes
    split = told["best"]
    assert split["dp"] * split["tp"] * split["pp"] == 8 and split["step_s"] == pytest.approx(times[0])
    assert sum(found.refused.values()) < found.tried
    assert all("takes" in one["why"] for one in told["runners_up"])
    names = ("tp", "pp", "vp", "micro_batch")
    chosen = {name: split[name] for name in names if split[name] != 1 or name != "vp"}
    step = estimate("llama-7b", machine="h100", gpus=8, batch=32, seq=2048, recompute="none", **chosen)
    assert step.step_s == pytest.approx(times[0], rel=1e-9)


def test_a_plan_takes_the_batch_that_the_spec_states_and_no_other() -> None:
    def assumed(batch: dict[str, int], dp: int = 0) -> tuple[str, tuple[Any, ...]]:
        parallel = {"parallel": {"dp": dp}} if dp else {}
        found = plan({"model": "llama-7b", "batch": batch, **parallel}, machine="h100", gpus=8, tp=8, pp=1, vp=1,
                     recompute="full", zero=3, jobs=1)  # fmt: skip
        return found.assumed[0], tuple(one.split["micro_batch"] for one in (found.best, *found.runners_up))

    usual = "a batch of 1,024 sequences"
    assert assumed({"global_batch": 16})[0] == "the spec's batch of 16 sequences"
    assert assumed({"micro_batch": 2}) == (usual, (2,))
    assert assumed({"micro_batches": 2})[0] == usual
    assert assumed({"micro_batches": 4, "micro_batch": 2}, dp=1)[0] == "the spec's batch of 8 sequences"


@pytest.mark.parametrize(("sequence", "batch"), [(16, 4096), (1024, 4096), (2048, 2048)])
def test_a_plan_of_short_sequences_has_no_more_of_them_than_of_longer_ones(sequence: int, batch: int) -> None:
    model = {"layers": 1, "hidden": 64, "heads": 4, "vocabulary": 256, "sequence": sequence}
    found = plan({"model": model}, machine="h100", gpus=8, tp=1, pp=1, vp=1, micro_batch=4, recompute="full", zero=1,
                 jobs=1)  # fmt: skip
    assert found.assumed == (f"a batch of {batch:,} sequences",)


def test_a_plan_of_what_cannot_fit_says_by_how_much() -> None:
    with pytest.raises(InputError, match=r"no split fits in memory; found .* at least; expected .* of"):
        plan("llama3-70b", machine="h100", gpus=8, batch=8, jobs=1)
    with pytest.raises(InputError, match="do not make whole replicas"):
        plan("llama-7b", machine="h100", gpus=8, tp=8, pp=3, batch=8, jobs=1)


def test_a_sweep_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    wrong = {"base": {"model": "llama-7b", "machine": "h100", "gpus": 8, "batch": 8},
             "vary": {"tp": [2, 4], "network.graph.parts.rails.nope": ["25 GB/s", "50 GB/s"]}}  # fmt: skip
    with pytest.raises(InputError, match="no such place"):
        sweep(wrong, tmp_path / "found", jobs=1)
    assert not (tmp_path / "found").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no such place"):
        sweep(wrong, tmp_path / "empty", jobs=1)
    assert [*(tmp_path / "empty").iterdir()] == []
