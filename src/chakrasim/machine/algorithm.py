"""Names of collective algorithms as a system configuration spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chakrasim.collectives.registry import ENTRY_POINTS, check_parameters, is_known, traits_of
from chakrasim.config.section import Section
from chakrasim.errors import InputError
from chakrasim.extensions import declared

WINDOWED = ("direct", "oneDirect")

_PLAIN_WINDOW = re.compile(r"(direct|oneDirect)[1-9][0-9]{0,4}")
_PARAMETER = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(-?[0-9]{1,18})\s*")
_LEADING_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")


@dataclass(frozen=True)
class Algorithm:
    """A collective algorithm: its name (or ``module:name``), for ``direct`` and ``oneDirect`` how many messages may be
    in flight at once (``window``; None: as many as there are peers), and for others the parameters of their own."""

    name: str
    window: int | None = None
    parameters: tuple[tuple[str, int], ...] = ()

    @property
    def spans_all_ranks(self) -> bool:
        """Whether it takes all ranks at once: entries behind it in a list are not read (astra-system.md 8.3)."""
        return traits_of(self.name).spans_all_ranks

    @property
    def text(self) -> str:
        """The name as a configuration file spells it, such as ``direct4`` or ``mine(group=8)``."""
        given = ", ".join(f"{key}={value}" for key, value in self.parameters)
        return f"{self.name}{'' if self.window is None else self.window}" + (f"({given})" if given else "")


def parse_algorithm(text: str, section: Section, key: str, index: int) -> Algorithm:
    """Read one name of an implementation list (astra-system.md 8.2); ``key`` and ``index`` locate it.

    Raises :class:`chakrasim.InputError` for unknown names, parameters that an algorithm does not have, and windows that
    never send.
    """
    place = (key, index)
    if not is_known(text):
        if _PLAIN_WINDOW.fullmatch(text):
            prefix = text.rstrip("0123456789")
            return Algorithm(prefix, int(text[len(prefix) :]))
        for prefix in WINDOWED:
            if text.startswith(prefix) and ":" not in text and text.partition("(")[0] not in declared(ENTRY_POINTS):
                return Algorithm(prefix, _window(text, prefix, section, place))
    name, parameters = _parameters(text, section, place)
    try:
        check_parameters(name, [key for key, _ in parameters])
    except InputError as error:
        remedy = error.remedy or ""
        section.fail(place, error.message, found=error.found or text, expected=error.expected or "", remedy=remedy)
    return Algorithm(name, None, parameters)


def _parameters(text: str, section: Section, place: tuple[str, int]) -> tuple[str, tuple[tuple[str, int], ...]]:
    """``mine(group=8, levels=2)`` in its parts."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return text, ()
    given = [_PARAMETER.fullmatch(part) for part in rest.removesuffix(")").split(",")]
    if not rest.endswith(")") or None in given:
        section.fail(place, "not an algorithm with parameters", found=text, expected="a form such as mine(group=8)")
    pairs = [(match[1], int(match[2])) for match in given if match]
    if len(dict(pairs)) < len(pairs):
        section.fail(place, "a parameter is given twice", found=text)
    return name.strip(), tuple(pairs)


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
