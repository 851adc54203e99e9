"""``python -m chakrasim.demo`` was ``chakrasim demo``; it works for one release."""

import runpy
import sys

print("chakrasim: python -m chakrasim.demo is now chakrasim demo", file=sys.stderr)
sys.argv.insert(1, "demo")
runpy.run_module("chakrasim", run_name="__main__")
