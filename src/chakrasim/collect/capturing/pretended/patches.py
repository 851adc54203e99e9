"""Putting things in the place of others, and putting them back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


class Patches(ExitStack):
    """Replaces attributes; `close`, or the end of a block, restores them."""

    def set(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name`` is ``value`` until then; nothing happens if this PyTorch has no such name."""
        if not hasattr(owner, name):
            return
        undo = (setattr, owner, name, vars(owner)[name]) if name in vars(owner) else (delattr, owner, name)
        setattr(owner, name, value)
        self.callback(*undo)

    def around(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """``owner.name(*args)`` calls ``wrapper(original, *args)`` until then."""
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        self.set(owner, name, replacement)
