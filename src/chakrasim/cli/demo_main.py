"""``python -m chakrasim.demo`` is ``chakrasim demo``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from chakrasim.cli.main import main as command


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    return command(["demo", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
