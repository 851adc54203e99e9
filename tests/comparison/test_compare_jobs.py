"""Two jobs, or two sets of jobs, beside each other."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.comparison.jobs.figures import apart, kendall, regret
from chakrasim.trace.job.job import Job


def job(hidden: int = 1 << 20, *, width: int = 2, name: str = "gemm", ranks: int = 8) -> Job:
    """Operators side by side, then a collective of all ranks."""
    builder = cs.TraceBuilder()
    work = {"is_cpu_op": False, "num_ops": hidden * 4096, "tensor_size": hidden, "op_kind": "gemm", "dtype": "bfloat16"}
    for at in range(width):
        builder.add(at, name=f"{name} {at}", type=4, attrs=work)
    sent = {"is_cpu_op": False, "comm_type": 0, "comm_size": hidden}
    builder.add(width, name="sum", type=7, data_deps=[*range(width)], attrs=sent)
    return Job((builder.build(),), np.zeros(ranks, np.int64))


def test_a_job_is_like_itself() -> None:
    found = cs.compare_jobs(job(), job())
    (pair,) = found.pairs
    assert (pair.largest, pair.roles_apart, pair.in_degrees_apart, pair.out_degrees_apart) == (0, 0, 0, 0)
    assert [one.difference for one in pair.machines] == [0, 0, 0] and found.valid == (1, 1)
    assert found.privacy.nearest == (("<memory>", "<memory>", 0.0),) and found.privacy.works_shared == 3
    (decision,) = found.decisions
    assert (decision.what, decision.among, decision.kendall, decision.regret) == ("machine", 3, 1.0, 0.0)


def test_figures_of_a_job_of_twice_the_size() -> None:
    found = cs.compare_jobs(job(2 << 20, width=3), job(), machines=["h100"])
    (pair,) = found.pairs
    assert pair.structure["width"] == (3, 2) and pair.structure["depth"] == (2, 2)
    assert pair.structure["nodes"] == (32, 24) and pair.structure["mean degree"] == (0.75, round(2 / 3, 4))
    amounts = {(one.what, one.kind): (one.a, one.b, one.relative) for one in pair.work}
    assert amounts["flops", "gemm"] == (8 * 3 << 33, 8 * 2 << 32, pytest.approx(2 / 3))
    assert amounts["sent", "all-reduce, all ranks"] == (16 << 20, 8 << 20, 0.5)
    assert pair.roles_apart == pytest.approx(3 / 4 - 2 / 3)
    assert pair.machines[0].difference is not None and pair.machines[0].difference > 0.5
    assert not found.decisions and "no decisions" in found.notes[0]


def test_kendall_and_regret() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        a, b = random.integers(0, 5, 9).tolist(), random.integers(0, 5, 9).tolist()
        signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in combinations(range(9), 2)]
        whole = math.sqrt(sum(x * x for x, _ in signs) * sum(y * y for _, y in signs))
        assert kendall(a, b) == pytest.approx(sum(x * y for x, y in signs) / whole)
    assert kendall([1, 1], [1, 2]) is None
    assert regret([3, 1, 2], [4.0, 6.0, 5.0]) == 0.5
    assert (apart({"a": 1}, {"b": 9}), apart({"a": 1}, {"a": 9}), apart({}, {"a": 1})) == (1, 0, 1)


def test_sets_are_compared_by_name_and_names_that_leak_are_told(tmp_path: Path) -> None:
    sizes = {"small": 1 << 20, "middle": 1 << 22, "large": 1 << 24}
    for name, size in sizes.items():
        (tmp_path / "b" / name).mkdir(parents=True)
        cs.write_job(tmp_path / "b" / name / "job", job(size, name="secret"))
        (tmp_path / "a" / name).mkdir(parents=True)
        cs.write_job(tmp_path / "a" / name / "job", job(size + size // 64, name="made"))
    cs.write_job(tmp_path / "a" / "more", job())
    report, page = tmp_path / "said.json", tmp_path / "page.html"
    words = ["compare-jobs", str(tmp_path / "a"), str(tmp_path / "b"), "--machine", "h100", "--machine", "a100"]
    assert main([*words, "--json", str(report), "--report", str(page), "--quiet"]) == 0
    said = json.loads(report.read_text())
    assert said["format"] == "chakrasim-compare-jobs/1" and said["jobs"] == [4, 3] and said["valid"] == [3, 3]
    assert [pair["a"] for pair in said["pairs"]] == ["large/job", "middle/job", "small/job"]
    assert all(pair["largest_relative_difference"] == pytest.approx(1 / 65) for pair in said["pairs"])
    assert [one["kendall"] for one in said["decisions"]] == [1.0] * 5
    assert said["privacy"]["examples"] == ["sum"] and said["privacy"]["works_shared"] == 1
    assert max(near[2] for near in said["privacy"]["nearest"][:3]) < min(said["privacy"]["own"])
    assert "jobs without one of the same name: 1 of A, 0 of B" in said["notes"] and "Privacy" in page.read_text()


def test_a_job_that_does_not_run_is_a_finding() -> None:
    builder = cs.TraceBuilder()
    builder.add(0, name="receive", type=6, attrs={"comm_src": 1, "comm_size": 8, "comm_tag": 0})
    other = cs.TraceBuilder()
    other.add(0, name="gemm", type=4, duration_micros=5)
    stuck = Job((builder.build(), other.build()), np.array([0, 1]))
    found = cs.compare_jobs(stuck, job(ranks=2), machines=["h100"])
    assert found.valid == (0, 1) and found.pairs[0].machines[0].faults[0] and not found.pairs[0].machines[0].faults[1]


@pytest.mark.parametrize("words", [["nowhere", "nowhere"], [".", "."], ["pre", "pre", "--machine", "nothing"],
                                   ["pre", "pre", "--machine", "h100", "--machine", "h100"]])  # fmt: skip
def test_what_is_refused(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    cs.write_job(tmp_path / "pre", job())
    monkeypatch.chdir(tmp_path / "empty" if words[0] == "." else tmp_path)
    assert main(["compare-jobs", *words]) == 2
