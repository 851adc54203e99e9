"""The same work for many ranks, in as many processes as cores and memory allow."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import TypeVar

from chakrasim.errors import InputError
from chakrasim.files.inputs import open_input
from chakrasim.files.signatures import GZIP
from chakrasim.startup import cores

A = TypeVar("A")
R = TypeVar("R")

BASE_BYTES = 150 << 20
"""What a process takes before it reads anything."""
SHARE_OF_MEMORY = 0.7


def how_many(files: Sequence[Sequence[Path]], jobs: int | None, memory_limit: int | None) -> int:
    """Processes for ranks with these files: no more than ranks, ``jobs`` (None: cores), and what fits in
    ``memory_limit`` bytes (None: most of what the machine has free); at least one."""
    most = max((sum(map(unpacked_bytes, paths)) for paths in files), default=0)
    memory = memory_limit if memory_limit is not None else int(free_bytes() * SHARE_OF_MEMORY)
    return max(1, min(jobs or cores(), len(files), memory // (BASE_BYTES + 2 * most)))


def unpacked_bytes(path: Path) -> int:
    """The size of a file, unpacked if it is gzip (whose trailer holds it modulo 2^32)."""
    try:
        with open_input(path, "a trace") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(2) != GZIP or size < 18:
                return size
            file.seek(-4, os.SEEK_END)
            return max(size, int.from_bytes(file.read(4), "little"))
    except (OSError, InputError):
        return 0


def free_bytes() -> int:
    """Memory that the machine has to give, as far as it says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError, IndexError):
        return 4 << 30


def run_all(work: Callable[[A], R], given: Sequence[A], jobs: int) -> Generator[R, None, None]:
    """``work`` of each, in order; its first exception ends all. Raises InputError when a process dies."""
    if jobs < 2 or len(given) < 2:
        yield from map(work, given)
        return
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(jobs, len(given)), context, _end_with_the_parent) as pool:
        try:
            yield from pool.map(work, given)
        except BrokenProcessPool:
            pool.shutdown(cancel_futures=True)
            remedy = "give fewer --jobs or a lower --memory-limit"
            raise InputError(
                "a process was ended from outside, most likely for want of memory", remedy=remedy
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            mine = set(multiprocessing.active_children()) - others
            for process in mine:
                process.kill()  # else they would go on writing into a folder that is being removed
            for process in mine:
                process.join()
            raise


def _end_with_the_parent() -> None:
    """In a worker: end when the process that gives it work has gone, killed for instance."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=lambda: wait([parent.sentinel]) and os._exit(1), daemon=True).start()
