"""``python -m chakrasim``."""

from __future__ import annotations

import sys

from chakrasim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
