"""One rank of a local replay, as its own process: ``python -m chakrasim.replay.worker FOLDER RANK``."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np

from chakrasim.errors import ChakrasimError
from chakrasim.replay.execute import Stuck, run_rank
from chakrasim.replay.launch import BEATS, BEGUN, MARKS, POSITION


def main(folder: Path, rank: int) -> int:
    """Run the rank's program of the plan in ``folder``; what it measured, or why not, is left there."""
    plan, settings = pickle.loads((folder / "plan").read_bytes())
    marks = np.memmap(folder / "progress", np.int64, "r+", shape=(plan.ranks, MARKS))
    doing = ""

    def mark(what: str, position: int) -> None:
        nonlocal doing
        marks[rank, POSITION] = position + 1
        marks[rank, BEGUN] += what == "begins"
        marks[rank, BEATS] += 1
        if position < 0 and what != doing:
            doing = what
            (folder / f"doing.{rank}").write_text(what)

    try:
        samples, _ = run_rank(plan, rank, rank, settings, str(folder / "store"), mark)
    except Stuck as fault:
        (folder / f"error.{rank}").write_text(str(fault))
        return 1
    except ChakrasimError as fault:
        (folder / f"error.{rank}").write_text(f"{type(fault).__name__}: {fault}")
        return 2
    (folder / f"result.{rank}").write_bytes(pickle.dumps(samples))
    return 0


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), int(sys.argv[2]))
    # Threads of a back end that waits for a rank that has gone must not keep this process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
