"""Putting things in the place of others, and putting them back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Patches:
    """Replaces attributes; `undo` restores them."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name`` is ``value`` until `undo`; nothing happens if this PyTorch has no such name."""
        if not hasattr(owner, name):
            return
        own = name in vars(owner)
        before = vars(owner)[name] if own else None

        def undo() -> None:
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

        setattr(owner, name, value)
        self._undo.append(undo)

    def around(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """``owner.name(*args)`` calls ``wrapper(original, *args)`` until `undo`."""
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        self.set(owner, name, replacement)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def patches() -> Iterator[Patches]:
    """Patches for a while."""
    made = Patches()
    try:
        yield made
    finally:
        made.undo()
