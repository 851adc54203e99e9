"""All fuzzers in turn for a while: ``campaign.py --processes 15 --seconds 480 --first 1000000 [--log FILE] [NAME...]``.

Prints for each fuzzer how many seeds it ran, the first of them, and how the runs ended. What goes wrong is printed with
its seeds as it happens: findings, a process that does not come to its end, and one that ends by itself.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final

from test_fuzz_tools import TOOLS

HERE: Final = Path(__file__).parent
TOOL_SEEDS: Final = 300
FILES: Final = {
    "changes": 1500, "flows": 3000, "foreign": 600, "gpu_profiles": 1500, "jobs": 1500, "networks": 12_000, "otf2": 300,
    "packets": 3000, "profiles": 3000,
}  # fmt: skip
"""How many seeds of each kind of file a process goes through: what takes some ten seconds."""
LONGEST_S: Final = 1200
_DONE: Final = re.compile(r"\d+\.\.\d+: .*?(\{.*\})")
_DOUBT: Final = re.compile(r"(?m)^== ")


class Campaign:
    """What was run so far, of all threads."""

    def __init__(self, first: int, until: float, log: Path | None, only: Sequence[str]) -> None:
        every = [("test_fuzz_tools.py", name, TOOL_SEEDS) for name in TOOLS]
        files = {name: seeds for name, seeds in FILES.items() if name != "otf2" or find_spec("otf2")}
        every += [(f"test_fuzz_{name}.py", "", seeds) for name, seeds in files.items()]
        self.fuzzers = [one for one in every if not only or (one[1] or one[0]) in only]
        self.first, self.until, self.log = first, until, log
        self.units = count()
        self.done = Counter[str]()
        self.ends: dict[str, Counter[object]] = defaultdict(Counter)
        self.wrong = 0
        self.lock = threading.Lock()

    def work(self) -> None:
        """Run units until time is over; one that it cuts off does not count."""
        while time.monotonic() < self.until:
            with self.lock:
                number = next(self.units)
            script, tool, size = self.fuzzers[number % len(self.fuzzers)]
            low = self.first + number // len(self.fuzzers) * size
            self._run(script, tool, low, low + size)

    def _run(self, script: str, tool: str, low: int, high: int) -> None:
        words = [sys.executable, str(HERE / script), *([tool] if tool else []), str(low), str(high)]
        name = tool or script
        left = min(LONGEST_S, self.until - time.monotonic())
        try:
            ran = subprocess.run(words, capture_output=True, text=True, timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            if left == LONGEST_S:
                self._said(f"== {name} {low}..{high}: not done in {LONGEST_S} s")
            return
        *_, last = ran.stdout.splitlines() or [""]
        ends = _DONE.search(last)
        if ran.returncode or not ends:
            said = ran.stderr.replace("\r", "\n")[-3000:]
            self._said(f"== {name} {low}..{high}: ended with {ran.returncode}\n{ran.stdout}{said}")
            return
        if _DOUBT.search(ran.stdout):
            self._said(f"== {name}\n{ran.stdout}")
        with self.lock:
            self.done[name] += high - low
            self.ends[name] += Counter(ast.literal_eval(ends[1]))

    def _said(self, text: str) -> None:
        with self.lock:
            self.wrong += 1
            print(text, flush=True)
            if self.log:
                with self.log.open("a") as file:
                    file.write(text + "\n")


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--log", type=Path, help="what goes wrong is written here, too")
    parser.add_argument("only", nargs="*", help="tools, or files such as test_fuzz_flows.py; default: all")
    options = parser.parse_args()
    campaign = Campaign(options.first, time.monotonic() + options.seconds, options.log, options.only)
    threads = [threading.Thread(target=campaign.work) for _ in range(options.processes)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for name in sorted(campaign.done):
        ends = ", ".join(f"{end}: {runs:,}" for end, runs in sorted(campaign.ends[name].items(), key=str))
        print(f"{campaign.done[name]:9,}  {name}  from {campaign.first:,}  ({ends})")
    print(f"{campaign.done.total():9,}  in all; {campaign.wrong} reports of what went wrong")


if __name__ == "__main__":
    main()
