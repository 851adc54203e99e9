"""Tables for people: their content once, shown as plain text or, on a terminal, by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Section:
    """A titled piece of a report: a table (columns and rows of text), then lines of text.

    Numbers stand to the right: the columns whose number is not in ``left``.
    """

    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)
    lines: tuple[str, ...] = ()
    loud: bool = False


def plain_text(sections: Sequence[Section]) -> str:
    """The sections as plain ASCII text (but for names that are not), an empty line between them."""
    return "\n\n".join(_plain(section) for section in sections if section.rows or section.lines) + "\n"


def _plain(section: Section) -> str:
    lines = [section.title] if section.title else []
    if section.rows:
        table = [section.columns, *section.rows] if any(section.columns) else list(section.rows)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines += [_row(row, widths, section.left) for row in table]
        if any(section.columns):
            rule = "  ".join("-" * width for width in widths)
            lines.insert(len(lines) - len(section.rows), f"  {rule}")
    return "\n".join([*lines, *(f"  {line}" if section.rows or section.title else line for line in section.lines)])


def _row(cells: Sequence[str], widths: Sequence[int], left: tuple[int, ...]) -> str:
    aligned = (
        cell.ljust(width) if number in left else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return ("  " + "  ".join(aligned)).rstrip()


def rich_items(sections: Sequence[Section]) -> list[RenderableType]:
    """The sections for ``rich.console.Console.print``."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    items: list[RenderableType] = []
    for section in sections:
        if not section.rows and not section.lines:
            continue
        if items:
            items.append(Text())
        if section.title:
            items.append(Text(section.title, style="bold"))
        if section.rows:
            table = Table(box=None, show_header=any(section.columns), header_style="dim", padding=(0, 2, 0, 0))
            for number, column in enumerate(section.columns or ("",) * len(section.rows[0])):
                justify = "left" if number in section.left else "right"
                table.add_column(Text(column), justify=justify)  # type: ignore[arg-type]
            for row in section.rows:
                table.add_row(*(Text(cell) for cell in row))
            items.append(Padding(table, (0, 0, 0, 2)))
        items += [Text(f"  {line}", style="bold red" if section.loud else "") for line in section.lines]
    return items
