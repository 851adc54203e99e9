"""Commands on the prefix of a job whose ranks share traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim
from chakrasim import Job, TraceBuilder, write_job

Cli = Callable[..., Any]
MACHINE = """\
format: 1
name: four
network: [{topology: Switch, npus: 4, bandwidth: 50 GB/s, latency: 500 ns}]
memory: {bandwidth: 100 GB/s}
collectives: {splits: 2, optimization: localBWAware, algorithms: {all-reduce: ring}}
"""


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Four ranks in two groups: compute, an all-reduce in each; and a machine."""
    builder = TraceBuilder()
    builder.add(1, name="comp", type=4, duration_micros=20, attrs={"is_cpu_op": False})
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20, "pg_name": "tp"}
    builder.add(2, name="reduce", type=7, data_deps=[1], attrs=attrs)
    write_job(tmp_path / "s", Job((builder.build(),), np.zeros(4, np.int64), {"tp": ((0, 1), (2, 3))}))
    (tmp_path / "four.yaml").write_text(MACHINE)
    return str(tmp_path / "s")


def test_simulate(cli: Cli, prefix: str, tmp_path: Path) -> None:
    machine = tmp_path / "four.yaml"
    outcome = cli("simulate", prefix, "--machine", machine, "--json", "-")
    content = json.loads(outcome.out)
    expected = chakrasim.simulate(prefix, machine=machine)
    assert content["makespan_ns"] == expected.makespan_ns
    assert expected.fold_reason == "4 ranks in 1 class of 4 equal ranks"
    again = cli(
        "simulate", f"{prefix}.ranks.json", "--machine", machine, "--json", "-", "--timeline", tmp_path / "t.json"
    )
    assert json.loads(again.out) == content
    assert '"group":1' in (tmp_path / "t.json").read_text()


def test_outputs_replace_no_file_of_the_job(refused: Callable[..., str], prefix: str, tmp_path: Path) -> None:
    for given in (prefix, f"{prefix}.ranks.json"):
        for file in (f"{prefix}.ranks.json", f"{prefix}.class-0.et"):
            told = refused("simulate", given, "--machine", tmp_path / "four.yaml", "--json", file)
            assert "would replace an input" in told


def test_info_counts_roles(cli: Cli, prefix: str) -> None:
    content = json.loads(cli("info", prefix, "--json", "-").out)
    assert (content["ranks"], content["distinct"], content["nodes"]) == (4, 1, 8)
    assert content["process_groups"] == {"tp": [2, 2, 2]}
    counted = {"type": "all-reduce", "size_bytes": 1 << 20, "group": "tp", "count": 4, "bytes": 4 << 20}
    assert content["collectives"] == [counted]
    assert "  tp         2        2\n" in cli("info", f"{prefix}.ranks.json").out


def test_info_expects_the_jobs_ranks(refused: Callable[..., str], prefix: str) -> None:
    assert "not the number of ranks that was asked for; found 4; expected 5" in refused("info", prefix, "--ranks", 5)


def test_what_wants_a_file_says_so(refused: Callable[..., str], prefix: str, tmp_path: Path) -> None:
    assert f"name one of its traces, such as {prefix}.class-0.et" in refused(
        "jsonize", prefix, "-o", tmp_path / "j.json"
    )
    assert f"chakrasim simulate {prefix} --timeline FILE" in refused("timeline", prefix, "-o", tmp_path / "t.json")


def test_merge_takes_the_expanded_traces(cli: Cli, prefix: str, tmp_path: Path) -> None:
    assert cli("merge", prefix, "-o", tmp_path / "all.et").out.startswith("8 nodes of 4 ranks written")
