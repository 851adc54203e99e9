"""Waits between streams, found and replayed, against programs whose dependencies are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import made_programs as made
import numpy as np
import pytest

from chakrasim.linker.api import link
from chakrasim.scenarios.asked import asked_of
from chakrasim.scenarios.recorded import ask_recorded
from chakrasim.trace.linked.columns import EdgeKind, Evidence, LinkedTrace

QUESTIONS: dict[str, Callable[[str], float]] = {
    "communication=0": lambda name: 0.0 if "nccl" in name else 1.0,
    "communication=2": lambda name: 2.0 if "nccl" in name else 1.0,
    "kernel:*gemm*=0.5": lambda name: 0.5 if "gemm" in name else 1.0,
    "compute=2": lambda name: 1.0 if "nccl" in name or name == made.COPY else 2.0,
}
"""What is asked, and what it does to a kernel by its name."""


ORDERLY = tuple(style for style in made.STYLES if style != "random")
"""Programs that wait for what was launched last, as PyTorch's do; the others wait for what they launched any time."""


class Tally:
    """How well programs were understood: errors of the steps' times, relative; waits found, wrong, missed; of these
    that made a kernel wait: found and missed."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.right = self.wrong = self.missed = self.held = self.held_missed = 0

    def add(self, program: made.Program, shown: str, folder: Path) -> LinkedTrace:
        """Link a program's trace, ask, and compare with the truth."""
        done = made.run(program)
        linked = link(None, made.write(program, done, folder / "device.json", shown))
        found = _waits(program, done, linked)
        self.right += len(found & done.edges)
        self.wrong += len(found - done.edges)
        self.missed += len(done.edges - found)
        self.held += len(found & done.binding)
        self.held_missed += len(done.binding - found)
        for text, changed in QUESTIONS.items():
            if text.startswith("kernel") and not any(
                "gemm" in call.name for calls in program.threads for call in calls
            ):
                continue
            truth = made.run(program, changed)
            answer = ask_recorded(linked, [asked_of(text)]).steps
            for one, before, after in zip(answer, *(_lengths(run, shown) for run in (done, truth)), strict=True):
                assert one.before_ns / 1e3 == pytest.approx(before, abs=0.01)
                self.errors.append(abs(one.after_ns / 1e3 / after - 1))
        return linked

    @property
    def precision(self) -> float:
        """Of the waits that were found, those that are true."""
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Of all true waits, those that were found."""
        return self.right / (self.right + self.missed)

    @property
    def held_recall(self) -> float:
        """The same of those that made a kernel wait, so that times show them."""
        return self.held / (self.held + self.held_missed)


def _waits(program: made.Program, done: made.Run, linked: LinkedTrace) -> set[tuple[int, int]]:
    """The waits between streams of a linked trace, as pairs of launches of the program."""
    number = {
        (f"{program.stream_numbers[call.stream]}", round(done.kernels[call.number][0] * 1000)): call.number
        for calls in program.threads
        for call in calls
        if call.what == "launch"
    }
    waits = linked.edge_kind == EdgeKind.EVENT_WAIT

    def launch(row: int) -> int:
        return number[linked.lanes[int(linked.lane[row])].identity, int(linked.start_ns[row]) - made.BEGIN_NS]

    pairs = zip(linked.edge_source[waits].tolist(), linked.edge_target[waits].tolist(), strict=True)
    return {(launch(source), launch(target)) for source, target in pairs}


def _lengths(run: made.Run, shown: str) -> list[float]:
    if shown != made.DEVICE:
        return run.lengths
    return [max(end for _, end in run.kernels.values()) - min(begin for begin, _ in run.kernels.values())]


def _tally(shown: str, styles: tuple[str, ...], seeds: range, folder: Path) -> Tally:
    tally = Tally()
    for style in styles:
        for seed in seeds:
            tally.add(made.made(seed, style), shown, folder)
    return tally


def test_with_records_every_answer_is_the_truth(tmp_path: Path) -> None:
    tally = _tally(made.RECORDS, made.STYLES, range(100, 105), tmp_path)
    assert tally.precision == tally.recall == 1
    assert np.percentile(tally.errors, 95) < 0.01


@pytest.mark.parametrize("shown", [made.WITHOUT_SOURCE, made.EVENTS, made.CALLS, made.TIMES])
def test_without_records_waits_are_found_from_calls_and_times(shown: str, tmp_path: Path) -> None:
    tally = _tally(shown, ORDERLY, range(100, 104), tmp_path)
    assert tally.precision >= 0.95
    assert tally.held_recall >= 0.95
    assert shown == made.TIMES or tally.recall >= 0.9
    assert np.median(tally.errors) < 0.01 and np.percentile(tally.errors, 90) < 0.05


def test_where_waits_are_for_anything_little_is_guessed(tmp_path: Path) -> None:
    tally = _tally(made.CALLS, ("random",), range(100, 124), tmp_path)
    assert tally.wrong <= 0.15 * (tally.right + tally.missed) and tally.held_recall >= 0.95
    assert np.median(tally.errors) < 0.01 and np.percentile(tally.errors, 90) < 0.05


def test_traces_of_the_device_alone_show_what_held_it_up(tmp_path: Path) -> None:
    tally = _tally(made.DEVICE, ORDERLY, range(100, 105), tmp_path)
    assert tally.precision >= 0.95 and tally.held_recall >= 0.9
    assert np.median(tally.errors) < 0.03


def test_what_is_found_from_calls_says_so(tmp_path: Path) -> None:
    tally = Tally()
    proven = tally.add(made.made(3, "ddp"), made.RECORDS, tmp_path)
    inferred = tally.add(made.made(3, "ddp"), made.CALLS, tmp_path)
    for linked, evidence in ((proven, Evidence.SYNC_RECORD), (inferred, Evidence.INFERRED)):
        waits = linked.edge_kind == EdgeKind.EVENT_WAIT
        assert waits.any() and (linked.edge_evidence[waits] == evidence).all()


@pytest.mark.slow
@pytest.mark.parametrize("shown", made.SHOWN)
def test_a_thousand_programs(shown: str, tmp_path: Path) -> None:
    tally = _tally(shown, ORDERLY, range(200, 235), tmp_path)
    told = shown not in (made.TIMES, made.DEVICE)
    assert tally.precision >= 0.97 and tally.held_recall >= 0.97 and (not told or tally.recall >= 0.97)
    assert np.median(tally.errors) < 0.005 and np.percentile(tally.errors, 90) < (0.01 if told else 0.06)
