"""Large training steps: CPU seconds and memory of `simulate`, each case in a process of its own.

    python benchmarks/bench_scale.py [--repeats N] [case ...]

Cases: equal (65,536 ranks), straggler (1,024 ranks), stragglers (16,384 ranks), experts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

DENSE = "model: llama-7b\nparallel: {{dp: {dp}, tp: 8, pp: 8, sp: true}}\nbatch: {{global_batch: {batch}}}\n"
EXPERTS = """model: {preset: llama-7b, moe: {experts: 64, top_k: 2}}
parallel: {dp: 128, tp: 8, pp: 1, ep: 64, sp: true}
batch: {global_batch: 128}
"""
CASES: dict[str, tuple[str, int, str, str]] = {
    "equal": (DENSE.format(dp=1024, batch=8192), 8192, "", "65,536 ranks, all equal (bar: 10 s)"),
    "straggler": (DENSE.format(dp=16, batch=128), 128, "5: 1.3", "1,024 ranks, one slow (bar: 1.5 s)"),
    "stragglers": (DENSE.format(dp=256, batch=2048), 2048, "5: 1.3", "16,384 ranks, one slow (bar: 30 s, 2 GB)"),
    "experts": (EXPERTS, 128, "", "1,024 ranks, experts on 64 (bar: 10 s)"),
}
"""By name: the step's spec, boards of 8, `slow` of the machine, and what is told."""

RUN = """
import json, resource, sys, time
import chakrasim
chakrasim.simulate("small", machine="hgx-h100-8")
begin = time.process_time()
result = chakrasim.simulate("job", machine="machine.yaml", network_model="unaware")
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, peak, result.makespan_ns, result.fold_reason]))
"""


def prepare(folder: Path, spec: str, boards: int, slow: str) -> None:
    """The job, the machine, and a small run that loads what is compiled."""
    import chakrasim

    (folder / "spec.yaml").write_text(spec)
    command = ("generate", "transformer", "--spec", "spec.yaml", "--output", "job", "--quiet")
    subprocess.run([sys.executable, "-m", "chakrasim", *command], check=True, cwd=folder)
    kind = ("generate", "collective", "--type", "all_reduce", "--size", "1MiB", "--ranks", "8", "--output", "small")
    subprocess.run([sys.executable, "-m", "chakrasim", *kind, "--quiet"], check=True, cwd=folder)
    preset = Path(chakrasim.__file__).parent / "machine" / "presets" / "hgx-h100-1024-400g.yaml"
    text = preset.read_text().replace("npus: 128", f"npus: {boards}")
    (folder / "machine.yaml").write_text(text + (f"\nslow: {{{slow}}}\n" if slow else ""))


def run(folder: Path) -> list[Any]:
    done = subprocess.run([sys.executable, "-c", RUN], check=True, cwd=folder, capture_output=True, text=True)
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.cases or CASES:
        spec, boards, slow, told = CASES[name]
        with tempfile.TemporaryDirectory() as made:
            prepare(Path(made), spec, boards, slow)
            runs = [run(Path(made)) for _ in range(arguments.repeats)]
        seconds = median(one[0] for one in runs)
        print(f"{told:45s} {seconds:8.2f} s {max(one[1] for one in runs):8.0f} MiB   {runs[0][2]:,} ns, {runs[0][3]}")


if __name__ == "__main__":
    main()
