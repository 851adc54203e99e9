"""`chakrasim capture`: files, the summary, and which ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from captures import EXAMPLES

from chakrasim import read, simulate
from chakrasim.cli.main import main
from chakrasim.trace.chakra.files import parse_trace
from chakrasim.trace.job.file import read_job
from same_content import same_content


def run(folder: Path, *options: str, script: str = "train_pp.py") -> Path:
    """Capture the tiny pipeline on four ranks."""
    output = folder / "step"
    command = ["capture", str(EXAMPLES / script), "--world-size", "4", "--output", str(output), *options]
    assert main([*command, "--", "--size", "small"]) == 0
    return output


@pytest.mark.slow
def test_equal_ranks_share_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run(tmp_path, "--json", str(tmp_path / "sum.json"), "--device-profile", "h100", script="train_ddp.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.class-0.et", "step.ranks.json", "sum.json"]
    summary = json.loads((tmp_path / "sum.json").read_text())
    job = read_job(output)
    assert job.ranks == summary["ranks"] == 4
    (entry,) = summary["classes"]
    assert entry["total_flops"] == job.traces[0].attr("num_ops").integers().sum()
    assert summary["total_flops"] == 4 * entry["total_flops"]
    assert entry["memory"]["fits"] is True
    assert max(entry["memory"]["timeline"]["live"]) == entry["memory"]["peak_bytes"]
    assert entry["compute_ns"] == job.traces[0].attr("duration_ns").integers().sum()
    text = capsys.readouterr().out
    assert "4 ranks, 1 trace" in text and "fits" in text
    metadata = job.traces[0].metadata
    assert metadata["producer"] == "chakrasim capture" and metadata["ranks"] == 4
    assert simulate(output, machine="hgx-h100-4").makespan_ns > entry["compute_ns"]


@pytest.mark.slow
def test_expanded_files_are_the_same_job(tmp_path: Path) -> None:
    output = run(tmp_path, "--expand", "--quiet")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"step.{rank}.et" for rank in range(4)),
        "step.comm_group.json",
    ]
    shared = tmp_path / "shared"
    shared.mkdir()
    job = run(shared, "--quiet")
    for one, other in zip(read(output), read(job), strict=True):
        assert same_content(one, other)


@pytest.mark.slow
def test_chosen_ranks_only(tmp_path: Path) -> None:
    run(tmp_path, "--ranks", "1,2", "--quiet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.1.et", "step.2.et", "step.comm_group.json"]
    trace = parse_trace((tmp_path / "step.1.et").read_bytes(), "step.1.et")
    receives = trace.attr("comm_src")
    assert set(receives.integers()[receives.present].tolist()) <= {0, 1, 2}
