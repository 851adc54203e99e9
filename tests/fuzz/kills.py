"""Commands killed while they replace earlier outputs: what is there then is old, new or refused, never a mixture.

``python tests/fuzz/kills.py [KILLS [CASE ...]]`` kills each command so often (default: 70), half by SIGKILL, half by
SIGTERM; half at a random moment, half at a random call that changes files. A command runs in a forked child of this
process, in which everything is imported and compiled, so that a kill costs what the command does.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill_cases import CASES, Case, make_inputs

from chakrasim import InputError
from chakrasim.cli.main import main

LONGEST_S = 120.0
DONE = (0, 1)
"""Exit codes of a command that has ended by itself; 1 is the doctor's for warnings."""
CHANGES = ("open", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir")
Files = dict[str, bytes]


@dataclass(frozen=True)
class Kill:
    """When a child is killed, and by what: after some seconds, or before (else after) a call by its number."""

    signal: int
    after_s: float | None = None
    call: int = 0
    before: bool = True


@dataclass(frozen=True)
class Ended:
    """How a child ended: its status or minus its signal, what it said, how many calls it made, how long it took."""

    code: int
    said: str
    calls: int
    seconds: float


def visible(out: Path) -> Files:
    """The files that are not hidden."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if _is_visible(path, out)}


def _is_visible(path: Path, out: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(out).parts)


def hidden(folder: Path) -> list[str]:
    """Temporary files and marks in a folder, and in the one that it is in."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


def run(words: list[str], folder: Path, kill: Kill | None = None) -> Ended:
    """Run the command in a child, which is killed. What it says goes into a file."""
    log, begun = folder / "said", time.monotonic()
    child = os.fork()
    if child == 0:
        _child(words, folder, kill)
    if kill is not None and kill.after_s is not None:
        time.sleep(kill.after_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, kill.signal)
    status = _wait(child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    calls = folder / "calls"
    return Ended(
        os.waitstatus_to_exitcode(status),
        log.read_text(errors="replace") if log.exists() else "",
        int(calls.read_text() or 0) if calls.exists() else 0,
        time.monotonic() - begun,
    )


def _wait(child: int) -> int:
    end = time.monotonic() + LONGEST_S
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            raise AssertionError(f"a child still ran after {LONGEST_S} s")
        time.sleep(0.001)


def _child(words: list[str], folder: Path, kill: Kill | None) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        handle = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), line_buffering=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), line_buffering=True)
        count = _counted(kill)
        code = main(words)
        Path("calls").write_text(str(count[0]))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _counted(kill: Kill | None) -> list[int]:
    """Count the calls of this process that change files; at the one that the kill names, send its signal."""
    count, process = [0], os.getpid()

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            reads = call.__name__ == "open" and not arguments[1] & os.O_CREAT
            if reads or os.getpid() != process:
                return call(*arguments, **named)
            count[0] += 1
            at_it = kill is not None and kill.after_s is None and count[0] == kill.call
            if at_it and kill is not None and kill.before:
                os.kill(process, kill.signal)
            result = call(*arguments, **named)
            if at_it and kill is not None and not kill.before:
                os.kill(process, kill.signal)
            return result

        return counted

    for name in CHANGES:
        setattr(os, name, around(getattr(os, name)))
    return count


class Trial:
    """A case with its outputs of both runs, and the folder in which it is killed."""

    def __init__(self, case: Case, inputs: Path, folder: Path) -> None:
        self.case, self.folder, self.out = case, folder, folder / "out"
        for module in case.modules:
            importlib.import_module(module)
        (folder / "in").symlink_to(inputs)
        self.out.mkdir(parents=True)
        self.old = self._made("old")
        shutil.copytree(self.out, folder / "kept")
        ended = run(case.words("new"), folder)
        assert ended.code in DONE, f"{case.name}: {ended.said}"
        self.new, self.calls, self.seconds = visible(self.out), ended.calls, ended.seconds
        assert self.old and self.new and self._differ(), f"{case.name}: the runs write the same"
        self.told["new"] = self._read()
        assert hidden(self.out) == []

    def _made(self, which: str) -> Files:
        ended = run(self.case.words(which), self.folder)
        assert ended.code in DONE, f"{self.case.name}: {ended.said}"
        self.told = {"old": self._read()}
        return visible(self.out)

    def _differ(self) -> bool:
        return not self.case.repeats or self.old != self.new

    def _read(self) -> list[object]:
        with contextlib.redirect_stdout(io.StringIO()):
            return [reads(self.out) for reads in self.case.reads]

    def kill(self, draw: random.Random) -> str:
        """Kill the second run over the outputs of the first one; what is there then. Raises AssertionError."""
        shutil.rmtree(self.out, ignore_errors=True)
        for left in self.folder.glob(".out.*"):
            shutil.rmtree(left)
        shutil.copytree(self.folder / "kept", self.out)
        number = draw.choice((signal.SIGKILL, signal.SIGTERM))
        if draw.random() < 0.5:
            kill = Kill(number, draw.uniform(0, 1.1 * self.seconds))
        else:
            kill = Kill(number, None, draw.randint(1, self.calls), draw.random() < 0.5)
        ended = run(self.case.words("new"), self.folder, kill)
        found = self._state()
        if number == signal.SIGTERM:
            left = hidden(self.folder)
            assert not left, f"left behind after SIGTERM: {left}"
            assert found != "refused" or self.case.clears, "SIGTERM left a mixture"
            assert ended.code in (*DONE, 143, -signal.SIGTERM), f"ended with {ended.code}: {ended.said}"
            if ended.code == 143:
                assert "chakrasim: terminated; " in ended.said
                unchanged = ("old", "both", "refused") if self.case.clears else ("old", "both")
                assert found in unchanged or "terminated; nothing was written" not in ended.said, ended.said
        else:
            again = run(self.case.words("new"), self.folder)
            assert again.code in DONE, again.said
            assert self._state() == "new"
            assert hidden(self.folder) == [], f"not cleaned by the next run: {hidden(self.folder)}"
        return f"{found} after {signal.Signals(number).name}"

    def _state(self) -> str:
        """old, new, both (of files that stand for themselves), in part (of the new run alone) or refused."""
        there = visible(self.out)
        if not self.case.repeats:
            others = {name for name in self.old.keys() | self.new.keys() if self.old.get(name) != self.new.get(name)}
            changed = {name for name in others if self.old.get(name) != there.get(name)}
            if changed in (set(), others) and there.keys() == (self.new if changed else self.old).keys():
                self._read()
                return "new" if changed else "old"
            if self.case.clears and there and all(data != self.old.get(name) for name, data in there.items()):
                return "in part"
        elif there in (self.old, self.new):
            try:
                self._read()
            except InputError as fault:
                assert ".chakrasim-unfinished.json" in str(fault), fault
                return "refused"
            return "old" if there == self.old else "new"
        elif not self.case.reads:
            assert there.keys() <= self.old.keys() | self.new.keys()
            for name, data in there.items():
                assert data in (self.old.get(name), self.new.get(name)), f"{name} is neither old nor new"
            return "both"
        try:
            told = self._read()
        except InputError as fault:
            assert fault.remedy or fault.expected, fault
            return "refused"
        for which, expected in self.told.items():
            if self.case.repeats and told == expected:
                return which  # files of the other run are there that nobody reads
        raise AssertionError(f"a mixture was read: {sorted(there)}")


@contextlib.contextmanager
def trials() -> Iterator[Callable[[Case], Trial]]:
    """Makes trials, whose inputs are made once, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="kills-") as name, contextlib.redirect_stdout(io.StringIO()):
        make_inputs(Path(name, "in"))
        yield lambda case: Trial(case, Path(name, "in"), _made(Path(name, case.name.replace(" ", "_"))))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def run_all(kills: int, names: list[str]) -> int:
    """Kill each command so often and say what was found; the number of faults."""
    faults = total = 0
    with trials() as trial:
        for case in CASES:
            if names and case.name not in names:
                continue
            found = Counter[str]()
            try:
                one = trial(case)
            except (AssertionError, InputError) as fault:
                faults += 1
                print(f"{case.name}: {fault}", file=sys.stderr, flush=True)
                continue
            for seed in range(kills):
                try:
                    found[one.kill(random.Random(f"{case.name} {seed}"))] += 1
                except AssertionError as fault:
                    faults += 1
                    print(f"{case.name}, seed {seed}: {fault}", file=sys.stderr, flush=True)
            total += kills
            text = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
            print(f"{case.name}: {kills} kills, {text}", file=sys.stderr, flush=True)
    print(f"{total} kills, {faults} faults", file=sys.stderr)
    return faults


if __name__ == "__main__":
    sys.exit(run_all(int(sys.argv[1]) if len(sys.argv) > 1 else 70, sys.argv[2:]) > 0)
