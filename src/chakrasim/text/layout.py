"""Tables for people: their content once, shown as plain text, on a terminal with rich's styles, or as HTML.

Tables keep their natural width: a narrow terminal wraps lines, but no figure is ever cut short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chakrasim.errors import shown

if TYPE_CHECKING:
    from rich.text import Text

TITLE, HEADER, PLAIN, LOUD = "bold", "dim", "", "bold red"
"""Styles of lines, in rich's words."""


@dataclass(frozen=True)
class Section:
    """A titled piece of a report: a table (columns and rows of text), then lines of text.

    Columns whose number is in ``left`` are flush left, the others flush right. A table without ``columns`` has no head.
    """

    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)
    lines: tuple[str, ...] = ()
    loud: bool = False


def plain_text(sections: Sequence[Section]) -> str:
    """The sections as text, an empty line between them."""
    return "".join(f"{text}\n" for _, text in _styled_lines(sections))


def rich_text(sections: Sequence[Section]) -> Text:
    """The same text with styles, for ``rich.console.Console.print``."""
    from rich.text import Text

    return Text("\n").join(Text(text, style=style) for style, text in _styled_lines(sections))


def html_text(sections: Sequence[Section]) -> str:
    """The same as HTML: a table for each section."""
    return "".join(_html_section(section) for section in sections if section.rows or section.lines)


def _html_section(section: Section) -> str:
    from html import escape

    def row(cells: tuple[str, ...], tag: str) -> str:
        sides = ("left" if number in section.left else "right" for number in range(len(cells)))
        heads = (f'<{tag} style="text-align: {side}">' for side in sides)
        return f"<tr>{''.join(f'{head}{escape(cell)}</{tag}>' for head, cell in zip(heads, cells, strict=True))}</tr>"

    head = [row(section.columns, "th")] if section.rows and section.columns else []
    rows = [*head, *(row(cells, "td") for cells in section.rows)]
    title = f"<caption>{escape(section.title)}</caption>" if section.title else ""
    lines = "<br>".join(map(escape, section.lines))
    return f"<table>{title}{''.join(rows)}</table>{lines}"


def _styled_lines(sections: Sequence[Section]) -> Iterator[tuple[str, str]]:
    """The lines of all sections with their styles."""
    first = True
    for section in sections:
        if section.rows or section.lines:
            if not first:
                yield PLAIN, ""
            first = False
            yield from _section_lines(section)


def _section_lines(section: Section) -> Iterator[tuple[str, str]]:
    if section.title:
        yield TITLE, shown(section.title)
    if section.rows:
        head = [section.columns] if section.columns else []
        rows = [tuple(map(shown, row)) for row in section.rows]
        widths = [max(map(len, column)) for column in zip(*head, *rows, strict=True)]
        for names in head:
            yield HEADER, _row(names, widths, section.left)
            yield HEADER, _row(["-" * width for width in widths], widths, section.left)
        for row in rows:
            yield PLAIN, _row(row, widths, section.left)
    for line in section.lines:
        yield LOUD if section.loud else PLAIN, f"  {shown(line)}"


def _row(cells: Sequence[str], widths: Sequence[int], left: tuple[int, ...]) -> str:
    aligned = (
        cell.ljust(width) if number in left else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return ("  " + "  ".join(aligned)).rstrip()
