"""One small model, captured and run for real on gloo ranks: collectives, FLOPs and peak memory of a steady step."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import observed

CASES = [
    ("train_ddp.py", 2, ["--size", "tiny"]),
    ("train_fsdp2.py", 2, ["--size", "tiny"]),
    ("train_tp.py", 4, ["--size", "tiny", "--fsdp", "2"]),
    ("train_pp.py", 2, ["--size", "tiny"]),
    # FSDP2 x tensor and sequence x pipeline parallel, mixed precision.
    ("train_llama.py", 4, ["--model", "tiny", "--tp", "2", "--pp", "2", "--micro-batches", "4"]),
]
"""`benchmarks/bench_captured_vs_observed.py` has more."""


@pytest.mark.slow
@pytest.mark.parametrize(("script", "ranks", "arguments"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_captured_is_observed(tmp_path: Path, script: str, ranks: int, arguments: list[str]) -> None:
    for row in observed.compare(tmp_path, script, ranks, arguments):
        assert row.captured.collectives == row.observed.collectives
        assert row.captured.collectives
        assert row.captured.flops == row.observed.flops
        assert sum(row.captured.flops.values()) > 0
        assert abs(row.peak_error) < 0.05
