"""Observing a program that knows nothing of it: its steps end where its first optimizer has stepped."""

from __future__ import annotations

import functools
import gc
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chakrasim.collect.capturing import script_modules
from chakrasim.collect.capturing.script_modules import as_main, check_script, run_main
from chakrasim.collect.observing.job import require_torch
from chakrasim.collect.observing.observation import Schedule, Steps, observing
from chakrasim.errors import InputError


class Stopped(BaseException):
    """Raised in a program whose steps are recorded, to end it."""


def run_script(
    script: str,
    arguments: Sequence[str],
    folder: str,
    *,
    is_module: bool = False,
    schedule: Schedule,
    force: bool = False,
    stop: bool = False,
) -> Steps:
    """Run a Python program (a file, or a module by its name) and record some of its steps into ``folder``.

    A step ends when the optimizer that stepped first in the program has stepped again. With ``stop`` the program ends
    once its steps are recorded. Returns the steps: ``number`` says how many were seen, ``shortfall`` what is missing.

    Raises InputError for a missing file, and where the program fails; its traceback is printed then.
    """
    check_script(script, is_module)
    torch = require_torch()
    with (
        observing(Path(folder), schedule, force=force) as steps,
        as_main(script, arguments, is_module),
        _garbage_collected(),
        _steps_of_optimizers(torch, functools.partial(_end_step, steps, stop)),
    ):
        _run(script, is_module)
    return steps


def _end_step(steps: Steps, stop: bool) -> None:
    steps.step()
    if stop and steps.recorded:
        raise Stopped


def _run(script: str, is_module: bool) -> None:
    """Run it as Python would. Raises InputError if it fails."""
    try:
        run_main(script, is_module)
    except Stopped:
        return
    except SystemExit as end:
        if end.code not in (None, 0):
            raise InputError("the program ended with an exit status", file=script, found=str(end.code)) from None
    except InputError:
        raise
    except Exception as fault:
        # Frames of runpy and of this file say nothing about the program.
        frames = traceback.extract_tb(fault.__traceback__)
        hidden = (__file__, script_modules.__file__, runpy.__file__, "<frozen runpy>")
        own = [frame for frame in frames if frame.filename not in hidden]
        print("Traceback (most recent call last):", file=sys.stderr)
        print("".join(traceback.format_list(own)), end="", file=sys.stderr)
        print("".join(traceback.format_exception_only(fault)), end="", file=sys.stderr, flush=True)
        raise InputError(
            "the program failed", file=script, found=f"{type(fault).__name__}: {fault}", remedy="see its traceback"
        ) from None


@contextmanager
def _garbage_collected() -> Iterator[None]:
    """The command line has switched the collection of garbage off; a training loop needs it."""
    collects = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        if not collects:
            gc.disable()


@contextmanager
def _steps_of_optimizers(torch: Any, ended: Callable[[], None]) -> Iterator[None]:
    """Call ``ended`` whenever the first optimizer has stepped.

    PyTorch wraps the method ``step`` of each class of optimizers when its first object is made; what it wraps it in is
    wrapped once more. A hook would be called inside the optimizer's annotation, where no step can end.
    """
    watch = _Watch(ended)
    optimizer = torch.optim.Optimizer
    wrapped_by_torch = optimizer.profile_hook_step
    inner_of: dict[Any, Any] = {}

    def watched(inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def step(*args: Any, **kwargs: Any) -> Any:
            with watch.inside(args[0]):
                return inner(*args, **kwargs)

        inner_of[step] = inner
        return step

    for kind in _kinds(optimizer):
        if getattr(vars(kind).get("step"), "hooked", False):
            kind.step = watched(kind.step)
    optimizer.profile_hook_step = staticmethod(lambda function: watched(wrapped_by_torch(function)))
    try:
        yield
    finally:
        optimizer.profile_hook_step = staticmethod(wrapped_by_torch)
        for kind in _kinds(optimizer):
            inner = inner_of.get(vars(kind).get("step"))
            if inner is not None:
                inner.hooked = True
                kind.step = inner


def _kinds(kind: Any) -> Iterator[Any]:
    """The class and all that are derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _kinds(derived)


class _Watch:
    """Tells the end of a step of the first optimizer; optimizers may call others."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._depth = 0
        self._first: int | None = None
        self._thread = threading.get_ident()

    @contextmanager
    def inside(self, optimizer: object) -> Iterator[None]:
        """Around a step."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._depth == 0:
            self._first = id(optimizer) if self._first is None else self._first
            if self._first == id(optimizer):
                self._ended()
