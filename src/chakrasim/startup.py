"""Starting quickly, and starting others safely."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def cores() -> int:
    """Processors that this process may use; where the system does not say, all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_blas_thread() -> None:
    """Let NumPy, when it is imported, start no threads for products of matrices, unless the user said how many.

    Nothing here multiplies large matrices, and the threads of OpenBLAS wait in a loop that takes a tenth of a small
    run's processor time. Processes that this one starts do the same.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def without_gc() -> Iterator[None]:
    """No garbage collection for a while.

    Importing modules and loading compiled code makes many objects and no garbage; collecting took an eighth of a small
    run's time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_START = """\
import runpy, sys
source, module = sys.argv.pop(1), sys.argv.pop(1)
installed = [at for at, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages"))]
sys.path.insert(installed[0] if installed else len(sys.path), source)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def own_python(module: str, *arguments: str) -> list[str]:
    """The command that runs this chakrasim's ``module`` in a process of its own.

    Modules come from where Python has its own, from here and from what is installed, in this order, and never from the
    current folder, where a file named ``numpy.py`` would be run.
    """
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-P", "-c", _START, source, module, *arguments]


def own_environment() -> dict[str, str]:
    """The environment for it: an empty place in ``PYTHONPATH`` is the current folder, too."""
    environment = dict(os.environ)
    if "PYTHONPATH" in environment:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, environment["PYTHONPATH"].split(os.pathsep)))
    return environment
