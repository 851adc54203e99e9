"""``python -m chakrasim.demo`` was ``chakrasim demo``; it works for one release."""

import runpy
import sys

print("chakrasim: python -m chakrasim.demo is now chakrasim demo", file=sys.stderr)
runpy.run_module("chakrasim.cli.demo_main", run_name="__main__")
