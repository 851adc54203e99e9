"""All fuzzers in turn for a while: ``campaign.py --processes 15 --seconds 480 --first 1000000 [--log FILE] [NAME...]``.

Prints for each fuzzer how many seeds it ran, the first of them, what a seed cost, and how the runs ended. What goes
wrong is printed with its seeds as it happens: findings, a process that does not come to its end, and one that ends by
itself. Each unit of seeds runs in a forked child of this process, in which everything is imported, loaded and built.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import os
import random
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
TOOL_SEEDS: Final = 300
DEAR_SEEDS: Final = 100
DEAR: Final = (
    "bind", "calibrate-collectives", "compare-jobs", "doctor", "estimate", "explain", "generate", "learn", "obfuscate",
    "retarget", "steps", "trace",
)  # fmt: skip
"""Tools whose runs take several times as long as others': fewer seeds a round, yet half a percent of all."""
FILES: Final = {
    "changes": 600, "flows": 1200, "foreign": 400, "gpu_profiles": 600, "jobs": 400, "networks": 3000, "otf2": 120,
    "packets": 1200, "profiles": 1200,
}  # fmt: skip
"""How many seeds of each kind of file a child goes through."""
WARM_SEEDS: Final = 24
"""So many seeds of each fuzzer, a third of the dear ones', are run beforehand, for what the children then need not load
or build."""
FORKING: Final = ("test_fuzz_otf2.py",)
"""Fuzzers that fork for each seed, which is quicker in a small process: theirs are new ones."""
LONGEST_S: Final = 1200
MEMORY_DISK: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
_DONE: Final = re.compile(r"\d+\.\.\d+: .*?(\{.*\})")
_DOUBT: Final = re.compile(r"(?m)^== ")


@dataclass(frozen=True)
class Unit:
    """Seeds of a fuzzer that a child goes through, where it says what, and when it began."""

    script: str
    tool: str
    low: int
    high: int
    folder: Path
    began: float

    @property
    def name(self) -> str:
        """The fuzzer's."""
        return self.tool or self.script


class Campaign:
    """What was run so far, of all children."""

    def __init__(self, first: int, until: float, log: Path | None, only: Sequence[str]) -> None:
        from test_fuzz_tools import TOOLS

        every = [("test_fuzz_tools.py", name, DEAR_SEEDS if name in DEAR else TOOL_SEEDS) for name in TOOLS]
        files = {name: seeds for name, seeds in FILES.items() if name != "otf2" or find_spec("otf2")}
        every += [(f"test_fuzz_{name}.py", "", seeds) for name, seeds in files.items()]
        self.fuzzers = [one for one in every if not only or (one[1] or one[0]) in only]
        random.Random(first).shuffle(self.fuzzers)  # Those at the end have no seeds of a round that is cut off.
        self.first, self.until, self.log = first, until, log
        self.units = count()
        self.done = Counter[str]()
        self.used_s = Counter[str]()
        self.ends: dict[str, Counter[object]] = defaultdict(Counter)
        self.wrong = 0

    def work(self, processes: int, folder: Path) -> None:
        """Run units until time is over; those that it cuts off do not count."""
        running: dict[int, Unit] = {}
        while time.monotonic() < self.until or running:
            while len(running) < processes and time.monotonic() < self.until:
                unit = self._next(folder)
                running[_forked(unit)] = unit
            child, status, used = os.wait4(-1, os.WNOHANG)
            if child in running:
                self._ended(running.pop(child), status, used.ru_utime + used.ru_stime)
            else:
                self._end_late(running)
                time.sleep(0.02)

    def _next(self, folder: Path) -> Unit:
        number = next(self.units)
        script, tool, size = self.fuzzers[number % len(self.fuzzers)]
        low = self.first + number // len(self.fuzzers) * size
        own = folder / str(number)
        own.mkdir()
        return Unit(script, tool, low, low + size, own, time.monotonic())

    def _end_late(self, running: dict[int, Unit]) -> None:
        now = time.monotonic()
        for child, unit in list(running.items()):
            late = now - unit.began > LONGEST_S
            if late or now > self.until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                del running[child]
            if late:
                self._said(f"== {unit.name} {unit.low}..{unit.high}: not done in {LONGEST_S} s")

    def _ended(self, unit: Unit, status: int, used_s: float) -> None:
        said = (unit.folder / "out").read_text(errors="replace")
        *_, last = said.splitlines() or [""]
        ends = _DONE.search(last)
        if status or not ends:
            errors = (unit.folder / "errors").read_text(errors="replace").replace("\r", "\n")[-3000:]
            code = os.waitstatus_to_exitcode(status)
            self._said(f"== {unit.name} {unit.low}..{unit.high}: ended with {code}\n{said}{errors}")
            return
        if _DOUBT.search(said):
            self._said(f"== {unit.name}\n{said}")
        self.done[unit.name] += unit.high - unit.low
        self.used_s[unit.name] += used_s
        self.ends[unit.name] += Counter(ast.literal_eval(ends[1]))

    def _said(self, text: str) -> None:
        self.wrong += 1
        print(text, flush=True)
        if self.log:
            with self.log.open("a") as file:
                file.write(text + "\n")


def go_through(script: str, tool: str, low: int, high: int) -> None:
    """What the script does with these words."""
    sys.argv = [script, *([tool] if tool else []), str(low), str(high)]
    if script in FORKING:
        os.execv(sys.executable, [sys.executable, str(HERE / script), *sys.argv[1:]])
    runpy.run_path(str(HERE / script), run_name="__main__")


def _warm(campaign: Campaign) -> None:
    """Import, load and build what the fuzzers need."""
    streams = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        _say_into(os.devnull, number)
    try:
        for script, tool, _ in campaign.fuzzers:
            with contextlib.chdir(HERE):
                if script not in FORKING:
                    go_through(script, tool, 0, WARM_SEEDS // (3 if tool in DEAR else 1))
    finally:
        sys.stdout.flush()
        for number, stream in zip((1, 2), streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
    gc.collect()
    gc.freeze()  # Collections would copy the memory that processes share.


def _say_into(path: str | Path, number: int) -> None:
    """Let what is written to a descriptor go into a file."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, number)
    os.close(handle)


def _forked(unit: Unit) -> int:
    """The child that runs it."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.chdir(unit.folder)
        for number, name in ((1, "out"), (2, "errors")):
            _say_into(name, number)
        tempfile.tempdir = str(unit.folder)
        go_through(unit.script, unit.tool, unit.low, unit.high)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--log", type=Path, help="what goes wrong is written here, too")
    parser.add_argument("only", nargs="*", help="tools, or files such as test_fuzz_flows.py; default: all")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: threads do not survive a fork
    campaign = Campaign(options.first, time.monotonic() + options.seconds, options.log, options.only)
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as folder:
        tempfile.tempdir = folder
        _warm(campaign)
        campaign.work(options.processes, Path(folder))
    total = campaign.done.total()
    for name in sorted(campaign.done):
        ends = ", ".join(f"{end}: {runs:,}" for end, runs in sorted(campaign.ends[name].items(), key=str))
        each_ms = 1e3 * campaign.used_s[name] / campaign.done[name]
        print(f"{campaign.done[name]:9,}  {name}  from {campaign.first:,}, {each_ms:.1f} ms each  ({ends})")
    each_ms = 1e3 * campaign.used_s.total() / max(total, 1)
    print(f"{total:9,}  in all, {each_ms:.1f} ms each; {campaign.wrong} reports of what went wrong")


if __name__ == "__main__":
    main()
