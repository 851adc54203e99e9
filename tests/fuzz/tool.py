"""What the fuzzer knows of a tool, and pieces of command lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from damage import Files

Draw = random.Random
ODD = ("-1", "0", "1", "7", "99999999999999999999", "x", "", "nan", "1e9", "\u00e4", "a\0b")


@dataclass(frozen=True)
class Tool:
    """A command: where its inputs come from, and its words for inputs in ``folder`` and outputs in ``out``. Most damage
    is done to files whose names begin with ``aim``; where the inputs are ``odd``, often none is."""

    inputs: tuple[Callable[[], tuple[Files, ...]], ...]
    words: Callable[[Draw, str, str, Files], list[str]]
    codes: tuple[int, ...] = (0, 2)
    aim: str = ""
    odd: bool = False


def some(draw: Draw, *choices: str, chance: float = 0.2) -> list[str]:
    """Some of these options; one written ``--name VALUE`` is two words."""
    return [word for choice in choices if draw.random() < chance for word in choice.split(" ")]


def odd(draw: Draw, option: str) -> list[str]:
    """An option with a value that is most likely wrong, sometimes."""
    return [f"{option}={draw.choice(ODD)}"] if draw.random() < 0.03 else []
