"""``python -m chakrasim``."""

from __future__ import annotations

import os
import sys

from chakrasim.cli.main import main

if __name__ == "__main__":
    if not sys.flags.safe_path and not os.path.isdir(os.path.join(sys.path[0], "chakrasim")):
        del sys.path[0]  # the current folder, from which the command `chakrasim` imports nothing either
    sys.exit(main())
