"""Where and how it runs makes no difference: uncompiled, other hash seeds and threads, caches that cannot be written.

Each case is a process of its own. Where the cache for compiled code is empty on purpose, one tiny kernel stands for
the real ones (``CHAKRASIM_JIT=0`` for the rest): compiling them all takes half a minute.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cases import Case, collective, compute, network_of, receive, send, system_of, trace_of

import chakrasim

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"

NUMBERS = """
import sys
sys.path.insert(0, sys.argv[1])
from test_environment import small_cases
for case in small_cases():
    for mode in ("aware", "unaware"):
        for fold in (True, False):
            print(case.run(congestion=mode, fold=fold).to_json())
"""

KERNEL = """
import sys
import numpy as np
from chakrasim.jit import kernel
sys.path.insert(0, sys.argv[1])
from tiny_kernel import total
print(total(np.arange(5, dtype=np.int64)))
"""

TINY = """
from chakrasim.jit import kernel

@kernel
def total(m):
    s = 0
    for i in range(m.size):
        s += m[i]
    return s
"""


def small_cases() -> list[Case]:
    """A handful of inputs that go through every layer."""
    ring = network_of(("Ring", 4, 50.0, 500.0))
    mixed = network_of(("Switch", 4, 100.0, 500.0), ("Ring", 2, 50.0, 700.0))
    groups = {1: [0, 2], 2: [1, 3]}
    pipeline = [
        [compute(0, 5), send(1, 1, 100_000, 0, [0])],
        [receive(0, 0, 100_000), compute(1, 5, [0]), send(2, 2, 100_000, 0, [1])],
        [receive(0, 1, 100_000), send(1, 3, 100, 0, [0])],
        [receive(0, 2, 100), compute(1, 5, [0])],
    ]
    shared_bus = system_of("ring", model_shared_bus=1, L=1, o=2, g=3, G=0.01)
    return [
        Case([[collective(0, 0, 1 << 20), compute(1, 3), collective(2, 2, 4096, [0])]], ring),
        Case([[collective(0, 6, 1 << 16)]], ring, system_of("direct2")),
        Case([[collective(0, 7, 1 << 16)]], mixed, system_of("halvingDoubling", "ring", active_chunks_per_dimension=2)),
        Case([[collective(0, 0, 5000, group=str(1 + rank % 2))] for rank in range(4)], ring, groups=groups),
        Case(pipeline, ring, options={"rendezvous": True}),
        Case([[collective(0, 0, 1 << 16)]], ring, shared_bus),
    ]


def _run(program: str, *arguments: str | Path, **environment: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), **{key: str(value) for key, value in environment.items()}}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def numbers() -> str:
    text = _run(NUMBERS, HERE)
    assert text.count("finish") >= 24
    return text


def test_uncompiled_it_says_the_same(numbers: str) -> None:
    assert _run(NUMBERS, HERE, CHAKRASIM_JIT="0") == numbers


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("seed", "threads"), [("4242", "2"), ("1", "1")])
def test_hash_seed_and_thread_count_do_not_change_a_byte(seed: str, threads: str, numbers: str) -> None:
    assert _run(NUMBERS, HERE, PYTHONHASHSEED=seed, NUMBA_NUM_THREADS=threads) == numbers


def test_traces_on_read_only_media(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    chakrasim.write(folder / "w", [trace_of([collective(0, 0, 1 << 20)])] * 4)
    for path in folder.iterdir():
        path.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    try:
        result = chakrasim.simulate(folder / "w", system=system_of(), network=network_of(("Ring", 4, 50.0, 500.0)))
    finally:
        folder.chmod(0o700)
    assert result.makespan_ns > 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "tiny_kernel.py").write_text(TINY)
    return tmp_path


def test_an_empty_cache_is_filled_and_used(tiny: Path) -> None:
    cache = tiny / "cache"
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR=cache) == "10\n"
    kept = sorted(path for path in cache.rglob("*") if path.is_file())
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR=cache) == "10\n"
    assert [path.stat().st_mtime_ns for path in kept] == times


@pytest.mark.slow
def test_a_cache_folder_that_cannot_be_made_is_no_obstacle(tiny: Path) -> None:
    (tiny / "file").write_text("not a folder")
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR=tiny / "file" / "cache", TMPDIR=tiny) == "10\n"
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR="/proc/nothing/here", TMPDIR=tiny) == "10\n"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_no_obstacle(tiny: Path) -> None:
    cache = tiny / "cache"
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR=cache) == "10\n"
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert _run(KERNEL, tiny, CHAKRASIM_CACHE_DIR=cache, TMPDIR=tiny) == "10\n"
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o700)


@pytest.mark.slow
def test_two_processes_may_fill_one_empty_cache_at_once(tiny: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "CHAKRASIM_CACHE_DIR": str(tiny / "cache")}
    command = [sys.executable, "-c", KERNEL, str(tiny)]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    answers = [process.communicate(timeout=200) for process in both]
    assert [out for out, _ in answers] == [b"10\n", b"10\n"]
    assert [error for _, error in answers] == [b"", b""]
