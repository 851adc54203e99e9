"""A critical path as it is shown, whoever found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chakrasim.analysis.critical_path.overlay import Arrow
from chakrasim.text.layout import Section


@dataclass(frozen=True)
class ShownPath:
    """``figures`` are for JSON, ``sections`` for people; ``drawn``: events and arrows of an overlay, if any.

    ``failure`` says why there is no path, where there cannot be one.
    """

    figures: dict[str, Any]
    sections: tuple[Section, ...] = ()
    drawn: tuple[set[int], list[Arrow]] | None = None
    warnings: tuple[str, ...] = ()
    failure: str | None = None
