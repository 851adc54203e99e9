"""Long work, told step by step to whoever asked to be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
Progress = Callable[[int, int, str], None]
"""Called before each step with how many are done, how many there are, and what it is, and at the end with no name."""


def told(steps: Sequence[T], name_of: Callable[[T], str], progress: Progress | None) -> Iterator[T]:
    """The steps, each told before it is taken."""
    for at, step in enumerate(steps):
        if progress is not None:
            progress(at, len(steps), name_of(step))
        yield step
    if progress is not None:
        progress(len(steps), len(steps), "")
