"""The ranks of a replay as processes of this machine, watched so that none waits for ever."""

from __future__ import annotations

import os
import pickle
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from chakrasim.errors import InputError, StallError
from chakrasim.replay.execute import START_S, Samples, Settings
from chakrasim.replay.plan import ReplayPlan, describe
from chakrasim.startup import own_environment, own_python

_LOOK_S = 0.05
_GRACE_S = 5.0

MARKS = 3
POSITION, BEGUN, BEATS = range(MARKS)
"""What a rank tells of itself in the file of progress: its position in the program + 1 (0: it does something else), how
many operations it has begun, and a count that goes on while it lives."""

Progress = Callable[[int, int], None]


def run_processes(plan: ReplayPlan, settings: Settings, progress: Progress | None = None) -> list[Samples]:
    """Run every rank in a process of its own; their samples by rank.

    Raises StallError if a rank fails or no rank gets anywhere for longer than the timeout; all are ended then.
    """
    with tempfile.TemporaryDirectory(prefix="chakrasim-replay-") as name:
        folder = Path(name)
        (folder / "plan").write_bytes(pickle.dumps((plan, settings)))
        np.zeros((plan.ranks, MARKS), np.int64).tofile(folder / "progress")
        started: list[subprocess.Popen[bytes]] = []
        logs: list[IO[bytes]] = []
        try:
            for rank in range(plan.ranks):
                logs.append((folder / f"log.{rank}").open("wb"))
                started.append(_start(folder, rank, plan.ranks, logs[-1]))
            _watch(plan, settings, folder, started, progress)
            return [pickle.loads((folder / f"result.{rank}").read_bytes()) for rank in range(plan.ranks)]
        finally:
            _end(started)
            for log in logs:
                log.close()


def _start(folder: Path, rank: int, ranks: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = own_environment()
    loopback = Path("/sys/class/net/lo")
    if loopback.exists():
        # All ranks are here; the machine's name need not lead anywhere.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    environment.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // ranks, 1)))
    command = own_python("chakrasim.replay.worker", str(folder), str(rank))
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _watch(
    plan: ReplayPlan,
    settings: Settings,
    folder: Path,
    started: list[subprocess.Popen[bytes]],
    progress: Progress | None,
) -> None:
    passes = (settings.warmup + settings.iterations) * (2 if settings.pipelined else 1)
    total = passes * sum(operation.meeting >= 0 for operation in plan.programs[0])
    before, since = b"", time.monotonic()
    # A rank whose operation times out says so itself; who hangs otherwise is ended a little later.
    longest = max(operation.duration_ns for program in plan.programs for operation in program)
    patience = settings.timeout_s + longest / 1e9 + _GRACE_S
    while True:
        codes = [process.poll() for process in started]
        if any(code not in (None, 0) for code in codes):
            _let_speak(started)
            raise _stalled(plan, folder, [process.poll() for process in started], "a rank failed")
        if all(code == 0 for code in codes):
            return
        state = (folder / "progress").read_bytes()
        if state != before:
            before, since = state, time.monotonic()
            if progress is not None:
                progress(min(int(np.frombuffer(state, np.int64)[BEGUN]), total), total)
        begun = bool(np.frombuffer(state, np.int64).reshape(-1, MARKS)[:, BEGUN].any())
        limit = patience if begun else START_S + patience
        if time.monotonic() - since > limit:
            raise _stalled(plan, folder, codes, f"no rank got anywhere for {limit:g} s")
        time.sleep(_LOOK_S)


def _let_speak(started: list[subprocess.Popen[bytes]]) -> None:
    """The others notice that one has gone, and say where they were."""
    end = time.monotonic() + _GRACE_S
    while time.monotonic() < end and any(process.poll() is None for process in started):
        time.sleep(_LOOK_S)


def _stalled(plan: ReplayPlan, folder: Path, codes: list[int | None], why: str) -> Exception:
    """What each rank was doing."""
    waits = []
    for rank, code in enumerate(codes):
        said = _said(folder / f"error.{rank}")
        if said.startswith("InputError: "):
            return InputError(said.removeprefix("InputError: "))
        if said:
            waits.append(said)
            continue
        number = int(np.fromfile(folder / "progress", np.int64).reshape(-1, MARKS)[rank, POSITION])
        if number > 0:
            doing = f"is in {describe(plan, rank, number - 1)}"
        else:
            doing = _said(folder / f"doing.{rank}") or "is starting"
        tail = _said(folder / f"log.{rank}").splitlines()[-1:] if code not in (None, 0) else []
        ended = "" if code in (None, 0) else f" (ended with status {code})"
        waits.append(f"rank {rank} {doing}{ended}" + "".join(f": {line[:300]}" for line in tail))
    return StallError(f"the replay cannot go on: {why}; " + "; ".join(waits[:4]), waits=tuple(waits))


def _said(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    """End the processes started here that still run."""
    for process in started:
        if process.poll() is None:
            process.terminate()
    for process in started:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
