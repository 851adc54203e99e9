"""Tables of the demo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Say = Callable[[str], object]


def milliseconds(time_ns: int) -> str:
    """A time as text."""
    return f"{time_ns / 1e6:.3f} ms"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text in columns: words to the left, numbers to the right."""
    cells = list(rows)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    left = {i for i in range(len(widths)) if not any(row[i][:1].isdigit() or row[i][:1] in "+-" for row in cells[1:])}
    left |= {len(widths) - 1} if any(row[-1][:1].isalpha() or ">" in row[-1] for row in cells[1:]) else set()
    lines = (
        "  ".join(
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [cells[0], ["-" * w for w in widths], *cells[1:]]
    )
    return "\n".join(line.rstrip() for line in lines)
