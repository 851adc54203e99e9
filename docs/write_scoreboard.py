"""Write the tables and pictures of reference-scoreboard.md anew: python docs/write_scoreboard.py DIR, of measurements.

The weights are fitted without each machine in its turn, which takes minutes.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from chakrasim.report.picture.scoreboard import write_plots
from chakrasim.report.tables.scoreboard import scoreboard_sections
from chakrasim.text.layout import plain_text
from chakrasim.validation.scoreboard.api import validate_collectives

HERE = Path(__file__).parent
PAGE = HERE / "reference-scoreboard.md"
PICTURES = HERE / "img" / "scoreboard"
MARKS = re.compile(r"(<!-- refit: [^\n]* -->\n).*(<!-- end -->\n)", re.DOTALL)


def main(folder: str) -> None:
    """Refit, and write."""
    board = replace(validate_collectives(folder, refit=True), source="all that we hold")
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    names = [Path(path).name for path in write_plots(PICTURES, board)]
    pictures = "\n\n".join(f"![{name.removesuffix('.svg')}](img/scoreboard/{name})" for name in names)
    made = f"\n```\n{plain_text(scoreboard_sections(board))}```\n\n{pictures}\n\n"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKS.sub(lambda marks: marks[1] + made + marks[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
