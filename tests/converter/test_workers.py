"""Processes that work for a command end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CODE = """
import os, sys, time
from contextlib import closing
from pathlib import Path
from chakrasim.cli import main, machines
from chakrasim.files.workers import run_all

def work(number):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(60)

def run(options):
    with closing(run_all(work, [1, 2], 2)) as results:
        return len(list(results))

machines.run = run
sys.exit(main.main(["machines"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)])
def test_workers_end_with_the_command(number: int, status: int, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stderr=subprocess.PIPE)
    end = time.monotonic() + 30
    while len(os.listdir(tmp_path)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    workers = [int(name) for name in os.listdir(tmp_path)]
    assert len(workers) == 2
    process.send_signal(number)
    assert process.wait(timeout=20) == status
    assert process.stderr is not None
    assert process.stderr.read() == (b"chakrasim: terminated; nothing was written\n" if status == 143 else b"")
    while any(map(_lives, workers)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(_lives, workers))


def _lives(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
