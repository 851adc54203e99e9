"""Captured against observed: the examples, run for real on gloo ranks and captured, side by side.

python benchmarks/bench_captured_vs_observed.py [--size tiny] [--only train_tp]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "collect"))

import observed

CASES = [
    ("train_ddp.py", 2, []),
    ("train_ddp.py", 4, []),
    ("train_fsdp2.py", 2, []),
    ("train_fsdp2.py", 4, []),
    ("train_tp.py", 2, []),
    ("train_tp.py", 4, []),
    ("train_tp.py", 2, ["--sequence-parallel", "1"]),
    ("train_tp.py", 4, ["--sequence-parallel", "1"]),
    ("train_tp.py", 4, ["--fsdp", "2"]),
    ("train_tp.py", 4, ["--fsdp", "2", "--sequence-parallel", "1"]),
    ("train_pp.py", 2, []),
    ("train_pp.py", 4, ["--size", "small"]),
    ("train_llama.py", 2, ["--checkpoint", "--micro-batches", "2", "--dtype", "fp32"]),
    ("train_llama.py", 4, ["--tp", "2", "--pp", "2", "--micro-batches", "4"]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--only", default="", help="cases whose script's name begins so")
    chosen = parser.parse_args()
    titles = f"{'example':44} {'rank':>4} {'collectives':>13} {'FLOPs':>23}"
    print(f"{titles} {'peak: captured':>15} {'observed':>12} {'error':>7}")
    for script, ranks, arguments in CASES:
        if not script.startswith(chosen.only):
            continue
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            size = ["--model" if script == "train_llama.py" else "--size", chosen.size]
            rows = observed.compare(Path(folder), script, ranks, [*size, *arguments])
        for row in rows:
            name = f"{script} x {ranks} {' '.join(arguments)}"
            same = "equal" if row.captured.collectives == row.observed.collectives else "DIFFER"
            flops = sum(row.captured.flops.values())
            counted = "equal" if row.captured.flops == row.observed.flops else "DIFFER"
            print(
                f"{name:44} {row.rank:>4} {len(row.captured.collectives):>7} {same} {flops:>15,} {counted}"
                f" {row.captured.peak_bytes:>15,} {row.observed.peak_bytes:>12,} {row.peak_error:>7.2%}"
            )
        print(f"  {time.perf_counter() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
