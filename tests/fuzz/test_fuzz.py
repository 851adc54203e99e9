"""Damaged files: one of our errors, or the result that the official parser's reading of the same bytes gives."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from mutations import RANKS, files, mutant, outcome

import chakrasim as cs
from chakrasim.trace import parse_trace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trace"))
import official

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_SEEDS", "600"))


@pytest.fixture(scope="module")
def intact() -> dict[str, bytes]:
    return files()


def test_the_intact_files_simulate(intact: dict[str, bytes], tmp_path: Path) -> None:
    result = outcome(mutant(0, intact).__class__(0, "", intact), tmp_path, congestion="aware")
    assert isinstance(result, cs.SimulationResult)
    assert len(result.finish_ns) == RANKS


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_damaged_files_never_escape(intact: dict[str, bytes], tmp_path: Path, congestion: str) -> None:
    results = 0
    for seed in range(0 if congestion == "aware" else 1, SEEDS, 2):
        case = mutant(seed, intact)
        found = outcome(case, tmp_path, congestion=congestion)
        if isinstance(found, cs.SimulationResult):
            results += 1
            if case.damaged.endswith(".et"):
                data = case.contents[case.damaged]
                official.assert_same(parse_trace(data), *official.read(data))
        else:
            assert str(found).count("\n") == 0 or isinstance(found, cs.StallError), f"seed {seed}: {found}"
            assert str(found), f"seed {seed}"
    assert 0 < results < SEEDS / 2
