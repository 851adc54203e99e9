"""Generating a transformer on 1,024 ranks: seconds and memory of the whole process, and simulating it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPEC = "model: llama-7b\nparallel: {dp: 16, tp: 8, pp: 8, sp: true}\nbatch: {global_batch: 512}\n"
COMMANDS = (
    ("generate", "transformer", "--spec", "spec.yaml", "--output", "job"),
    ("simulate", "job", "--machine", "hgx-h100-1024-400g"),
)


def main() -> None:
    """Each command in processes of its own; the first run may compile."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "spec.yaml").write_text(SPEC)
        for command in COMMANDS:
            seconds = []
            for _ in range(6):
                begin = time.perf_counter()
                subprocess.run([sys.executable, "-m", "chakrasim", *command, "--quiet"], check=True, cwd=folder)
                seconds.append(time.perf_counter() - begin)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{command[0]}: median {sorted(seconds[1:])[2]:.2f} s, at most {peak:.0f} MiB until here")


if __name__ == "__main__":
    main()
