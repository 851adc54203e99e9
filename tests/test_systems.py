"""What other systems lack is not taken for granted: Python with the names removed that Windows and macOS do not have.

This is no run on such a system: it shows only that no module needs those names to be imported, and that the road from
recorded traces to a simulation does without them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.collect.capturing import workers as capture_workers
from chakrasim.demo import TRACES
from chakrasim.startup import cores

#: Names of the standard library that only POSIX systems, or only Linux, have.
LACKING = """
import mmap, multiprocessing, os, signal, sys
import numba, numpy, rich.console, yaml  # these know their systems
import concurrent.futures.process, json, subprocess, tempfile
for name in ("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getgroups", "sched_getaffinity", "sysconf",
             "mkfifo", "mknod", "killpg", "setsid", "getpgid", "getpgrp", "statvfs", "pathconf", "uname", "wait",
             "nice", "fchmod", "chown", "lchown", "getloadavg", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
os.supports_dir_fd = set()
for name in ("SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGPIPE", "setitimer", "alarm", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("MADV_DONTNEED", "PROT_READ", "MAP_PRIVATE", "MAP_SHARED"):
    if hasattr(mmap, name):
        delattr(mmap, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"):
    sys.modules[name] = None
multiprocessing.get_all_start_methods = lambda: ["spawn"]
"""
MODULES = """
import importlib, pkgutil, chakrasim
for found in pkgutil.walk_packages(chakrasim.__path__, "chakrasim."):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as fault:
        if fault.name.partition(".")[0] != "torch":
            raise
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LACKING + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_imported(tmp_path: Path) -> None:
    # PyTorch takes what it finds of its system when it is imported; ours come after it.
    run('sys.modules["torch"] = None\n' + MODULES, tmp_path)


def test_the_road_from_traces_to_a_simulation(tmp_path: Path) -> None:
    code = f"""
from chakrasim.cli.main import main
assert main(["doctor", {str(TRACES)!r}, "--quiet"]) in (0, 1)
assert main(["trace", {str(TRACES)!r}, "-o", "out", "--quiet", "--jobs", "1"]) == 0
assert main(["link", {str(TRACES)!r}, "-o", "linked", "--quiet", "--jobs", "1"]) == 0
assert main(["simulate", "out/chakra", "--machine", "hgx-h100-4", "--comm-group", "out/comm_group.json"]) == 0
assert main(["analyze", "stragglers", {str(TRACES)!r}]) == 0
assert main(["timeline", "linked/linked.0.json", "-o", "t.json.gz"]) == 0
assert main(["replay", "out/chakra", "--dry-run", "--quiet"]) == 0
"""
    assert "makespan" in run(code, tmp_path)


def test_capturing_says_that_it_needs_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(InputError, match=r"this system cannot make \(fork\); capture under Linux"):
        capture_workers.require_fork()


def test_processors_are_counted_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() >= 1
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert cores() == 7
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert cores() == 1
