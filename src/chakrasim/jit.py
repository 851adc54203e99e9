"""Compilation of the hot loops: Numba where allowed, plain Python otherwise, with a cache that never fails.

``CHAKRASIM_JIT=0`` (or Numba's own ``NUMBA_DISABLE_JIT=1``) runs the same functions uncompiled, for debugging.
``CHAKRASIM_CACHE_DIR`` names the folder for compiled code; the default is the user's cache folder. Compiled code is
kept, for each room (``trace``, ``simulator``, ...), under a digest of all kernel sources of that room, because Numba
notices a change in a function's own file but not in a callee's. So a kernel calls only kernels of its own room.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def enabled() -> bool:
    """Whether kernels are compiled."""
    return os.environ.get("CHAKRASIM_JIT", "1") != "0" and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@cache
def cache_dir(room: str) -> Path | None:
    """The folder for a room's compiled code, or None where none can be written (then every process compiles anew)."""
    base = os.environ.get("CHAKRASIM_CACHE_DIR")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(home, "chakrasim")
    user = os.getuid() if hasattr(os, "getuid") else 0
    temporary = Path(tempfile.gettempdir()) / f"chakrasim-{user}"
    for root in (Path(base), temporary):
        folder = root / f"{room}-{_source_digest(room)}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                # Compiled code is loaded unseen: in a folder open to all, only what is our own.
                if root is not temporary or root.stat().st_uid == user:
                    return folder
        except OSError:
            continue
    return None


def is_cold(room: str) -> bool:
    """Whether the next run has to compile first: nothing is cached for this room's sources yet."""
    if not enabled() or not _kernel_sources(room):
        return False
    folder = cache_dir(room)
    return folder is None or next(folder.rglob("*.nbi"), None) is None


def room_of(module: str) -> str:
    """The room (sub-package of chakrasim) that a module belongs to."""
    return [*module.split("."), ""][1] or "none"


def _kernel_sources(room: str) -> list[bytes]:
    """The texts of a room's files that hold kernels."""
    texts = (path.read_bytes() for path in sorted((Path(__file__).parent / room).rglob("*.py")))
    return [text for text in texts if any(mark in text for mark in (b"@kernel", b"@inner", b"@leaf"))]


def _source_digest(room: str) -> str:
    digest = hashlib.sha256()
    for text in _kernel_sources(room):
        digest.update(text)
    return digest.hexdigest()[:16]


def kernel(function: F) -> F:
    """A hot loop that Python calls: compiled on its first call and kept on disk, or left as it is.

    No bounds checks, C-like division, and no reference counts (kernels get arrays and make none).
    """
    if not enabled():
        return function
    config, njit = _numba()
    folder = cache_dir(room_of(function.__module__))
    before = config.CACHE_DIR
    if folder is not None:
        config.CACHE_DIR = str(folder)
    try:
        compiled: F = njit(cache=folder is not None, error_model="numpy", nogil=True, _nrt=False)(function)
    finally:
        config.CACHE_DIR = before
    _load_lightly(compiled)
    return compiled


def _load_lightly(compiled: Any) -> None:
    """Load kept code without first preparing the compiler, which a run from the cache never needs.

    Preparing it is a seventh of a small run's time. Numba prepares it again, at the latest, when it compiles. Should a
    version of Numba not have these parts, nothing changes.
    """
    cache = getattr(compiled, "_cache", None)
    load = getattr(cache, "_load_overload", None)
    guard = getattr(cache, "_guard_against_spurious_io_errors", None)
    if load is None or guard is None:
        return

    def load_overload(signature: Any, target_context: Any) -> Any:
        with guard():
            return load(signature, target_context)

    cache.load_overload = load_overload  # type: ignore[union-attr]


def inner(function: F) -> F:
    """A part of a kernel, called only by kernels: compiled into them, with nothing for Python to call."""
    if not enabled():
        return function
    _, njit = _numba()
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: F = njit(error_model="numpy", nogil=True, _nrt=False, **options)(function)
    return compiled


def leaf(function: F) -> F:
    """A small part of a kernel that is always put in place of its call: calls cost more than such functions do."""
    if not enabled():
        return function
    _, njit = _numba()
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    compiled: F = njit(error_model="numpy", nogil=True, _nrt=False, **options)(function)
    return compiled


def _numba() -> tuple[Any, Any]:
    """Numba's configuration and compiler, imported when first needed; its stubs do not know all options."""
    import numba
    from numba.core import config

    return config, numba.njit
