"""What tables leave out: rows beyond the most that are shown, and letters of long names."""

from __future__ import annotations

from collections.abc import Sized

from chakrasim.text.amounts import plural


def more_line(every: Sized, shown: Sized, what: str, why: str = "") -> tuple[str, ...]:
    """The line below a table that has ``shown`` of ``every`` entry; none if that is all."""
    more = len(every) - len(shown)
    return (f"... and {plural(more, what)} more{why}",) if more > 0 else ()


def brief(name: str, longest: int) -> str:
    """A name of at most so many letters."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."
