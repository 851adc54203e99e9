"""Names of collective algorithms as a system configuration spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chakrasim.config.section import Section
from chakrasim.errors import near

NATIVE = ("ring", "oneRing", "doubleBinaryTree", "halvingDoubling", "oneHalvingDoubling")
WINDOWED = ("direct", "oneDirect")

_PLAIN_WINDOW = re.compile(r"(direct|oneDirect)[1-9][0-9]{0,4}")
_LEADING_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")


@dataclass(frozen=True)
class Algorithm:
    """A collective algorithm: its name, and for ``direct`` and ``oneDirect`` how many messages may be in flight at once
    (``window``; None: as many as there are peers)."""

    name: str
    window: int | None = None

    @property
    def spans_all_ranks(self) -> bool:
        """Whether it takes all ranks at once: entries behind it in a list are not read (astra-system.md 8.3)."""
        from chakrasim.collectives.registry import traits_of

        return traits_of(self.name).spans_all_ranks

    @property
    def text(self) -> str:
        """The name as a configuration file spells it, such as ``direct4``."""
        return self.name if self.window is None else f"{self.name}{self.window}"


def known_names() -> tuple[str, ...]:
    """Every name that a configuration may use: the built-in ones and those that the user has registered."""
    return tuple(dict.fromkeys((*NATIVE, *WINDOWED, *_registered())))


def _registered() -> tuple[str, ...]:
    # Imported here: most configurations name built-in algorithms only, and then need none of the schedules.
    try:
        from chakrasim.collectives import registry
    except ImportError:
        return ()
    return tuple(registry.known_algorithms())


def parse_algorithm(text: str, section: Section, key: str, index: int) -> Algorithm:
    """Read one name of an implementation list (astra-system.md 8.2); ``key`` and ``index`` locate it.

    Raises :class:`chakrasim.InputError` for unknown names and for windows that never send.
    """
    if text in NATIVE or text in WINDOWED:
        return Algorithm(text)
    if text in _registered():
        return Algorithm(text)
    if _PLAIN_WINDOW.fullmatch(text):
        prefix = text.rstrip("0123456789")
        return Algorithm(prefix, int(text[len(prefix) :]))
    for prefix in WINDOWED:
        if text.startswith(prefix):
            return Algorithm(prefix, _window(text, prefix, section, (key, index)))
    names = known_names()
    expected = "one of " + ", ".join(names)
    section.fail((key, index), "unknown algorithm", found=text, expected=expected, remedy=near(text, names))


def _window(text: str, prefix: str, section: Section, place: tuple[str, int]) -> int | None:
    number = _LEADING_NUMBER.match(text[len(prefix) :][:5])
    if number is None:
        section.fail(
            place, "not a window", found=text, expected=f"{prefix} or {prefix} with a window, such as {prefix}4"
        )
    window = int(number[1])
    if window < 1 and window != -1:
        section.fail(place, "a window below 1 never sends", found=text, expected=f"{prefix}1 or more, or {prefix}")
    if window == -1:
        section.warn(place, f"{text!r} is read as {prefix} without a window")
        return None
    if text != f"{prefix}{window}":
        section.warn(place, f"{text!r} is read as {prefix}{window}")
    return window
