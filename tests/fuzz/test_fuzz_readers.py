"""Damaged Kineto and host traces: one of our errors, or a sound result that no window size changes."""

from __future__ import annotations

import os
import random
from pathlib import Path

from reader_mutants import check, host_bytes, kineto_bytes, mutant, outcome, same_as_slow
from same_traces import assert_same_host, assert_same_kineto

from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import KinetoTrace

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_SEEDS", "300"))


def test_damaged_traces_never_escape(tmp_path: Path) -> None:
    intact = {"kineto": kineto_bytes(), "host": host_bytes()}
    path = tmp_path / "mutant.json"
    read = strictly = equal = 0
    for seed in range(SEEDS):
        name, data = mutant(seed, intact)
        path.write_bytes(data)
        trace, said = outcome(name, path, 1 << 20, lenient=True)
        again, said_again = outcome(name, path, random.Random(seed).choice((16, 100, 700)), lenient=True)
        assert said == said_again, f"seed {seed}"
        assert all("\n" not in text for text in said), f"seed {seed}"
        strict, _ = outcome(name, path, 1 << 20)
        if trace is None:
            assert again is None and strict is None, f"seed {seed}"
            continue
        read += 1
        check(trace)
        if isinstance(trace, KinetoTrace):
            assert isinstance(again, KinetoTrace)
            assert_same_kineto(trace, again)
        elif isinstance(again, HostTrace):
            assert_same_host(trace, again)
        if strict is not None:
            strictly += 1
            equal += same_as_slow(name, path, strict)
    assert SEEDS / 2 < read < SEEDS and 0 < equal <= strictly < read
