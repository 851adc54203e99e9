"""Recording a training loop as it runs: host and device trace of the same few steps, on every rank."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chakrasim.collect.observing.files import RankFolder, check_observed
from chakrasim.collect.observing.job import Place, require_torch, this_place
from chakrasim.collect.observing.recorder import Recorder
from chakrasim.errors import InputError

if TYPE_CHECKING:
    from chakrasim.diagnosis.doctor import Diagnosis

T = TypeVar("T")


@dataclass(frozen=True)
class Schedule:
    """How many steps pass, warm the profiler up, and are recorded, in this order."""

    wait: int
    warmup: int
    active: int

    def __post_init__(self) -> None:
        for name, low in (("wait", 0), ("warmup", 0), ("active", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < low:
                raise InputError("this is no number of steps", file=name, found=repr(value), expected=f"{low} or more")

    @property
    def first(self) -> int:
        """The first recorded step."""
        return self.wait + self.warmup

    @property
    def end(self) -> int:
        """The step after the last recorded one."""
        return self.first + self.active

    def part(self, step: int) -> str:
        """What a step is: wait, warmup, active or after."""
        if step >= self.first:
            return "active" if step < self.end else "after"
        return "wait" if step < self.wait else "warmup"


@dataclass
class Steps:
    """The steps of a loop that `observe` records: call `step` at the end of each, or iterate over ``steps(data)``.

    Attributes
    ----------
    folder: where the traces go.
    schedule: which steps are recorded.
    number: how many steps have ended.
    recorded: the numbers of the steps that were written; empty before that.
    shortfall: after the block, what is missing because the loop ended too early; "" where nothing is.
    diagnosis: what the doctor found (rank 0, after the block).
    """

    folder: Path
    schedule: Schedule
    force: bool = False
    number: int = 0
    recorded: tuple[int, ...] = ()
    shortfall: str = ""
    diagnosis: Diagnosis | None = None
    _times: dict[str, list[int]] = field(default_factory=dict)
    _recorder: Recorder | None = None
    _files: RankFolder | None = None
    _begun_ns: int = 0

    def step(self) -> None:
        """A training step has ended, and the next one begins."""
        took_ns = time.perf_counter_ns() - self._begun_ns
        self._times.setdefault(self.schedule.part(self.number), []).append(took_ns)
        if self._recorder is not None:
            self._recorder.end_step(is_last=self.number + 1 == self.schedule.end)
        self.number += 1
        self._begin()

    def __call__(self, data: Iterable[T]) -> Iterator[T]:
        """The elements of ``data``, each of them a step."""
        for element in data:
            yield element
            self.step()

    @property
    def place(self) -> Place | None:
        """Rank and world size that were written; None before."""
        return None if self._files is None else self._files.place

    def _begin(self) -> None:
        """What the schedule wants before step ``number``."""
        schedule = self.schedule
        if self.number == schedule.wait:
            self._prepare()
        if self.number == schedule.end:
            self._write(unfinished=None)
        if self._recorder is not None and self.number == schedule.first:
            self._recorder.start()
        if self._recorder is not None and self.number >= schedule.first:
            self._recorder.begin_step(self.number)
        self._begun_ns = time.perf_counter_ns()

    def _prepare(self) -> None:
        """By now the process group is there, so the rank is known."""
        self._files = RankFolder.make(self.folder, this_place(), force=self.force)
        self._recorder = Recorder(self._files.raw_host, self._files.raw_device)
        self._recorder.prepare()

    def _write(self, unfinished: int | None) -> None:
        """Stop and write. ``unfinished`` is a step that was cut short."""
        assert self._recorder is not None and self._files is not None
        recorder, self._recorder = self._recorder, None
        try:
            recorder.stop()
            recorder.export()
            last = self.schedule.end if unfinished is None else unfinished
            recorded = tuple(range(self.schedule.first, last))
            self._files.write(self._manifest(recorder, recorded), unfinished, has_shapes=recorder.records_shapes)
        except BaseException:
            self._files.discard()
            raise
        self.recorded = recorded

    def _manifest(self, recorder: Recorder, recorded: tuple[int, ...]) -> dict[str, Any]:
        schedule = self.schedule
        return {
            **recorder.facts,
            "schedule": {"wait": schedule.wait, "warmup": schedule.warmup, "active": schedule.active},
            "recorded_steps": list(recorded),
            "step_ns": {part: list(times) for part, times in self._times.items()},
        }

    def _finish(self) -> None:
        """The loop has ended."""
        schedule, complete = self.schedule, self.number - self.schedule.first
        if self._recorder is not None and complete > 0:
            self._write(unfinished=self.number)
            self.shortfall = (
                f"the loop ended after {self.number} steps: {complete} of {schedule.active} steps were recorded"
            )
        elif not self.recorded:
            self._abandon()
            self.shortfall = (
                f"nothing was recorded: the loop ended after {self.number} steps, and recording begins after "
                f"{schedule.first} ({schedule.wait} wait, {schedule.warmup} warm-up) and needs one complete step; "
                "call step() after each iteration, or wait for fewer"
            )
        elif self._files is not None:
            self._files.amend({"step_ns": self._times})

    def _abandon(self) -> int:
        """Forget what is being recorded; how many complete steps that loses."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.abandon()
        if self._files is not None:
            self._files.discard()
        return max(self.number - self.schedule.first, 0)


@contextmanager
def observe(
    folder: str | PathLike[str],
    *,
    wait: int = 1,
    warmup: int = 2,
    active: int = 3,
    force: bool = False,
    verdict: bool = True,
    patience_s: float = 60.0,
) -> Iterator[Steps]:
    """Record some steps of the training loop in this block.

    Every rank writes ``host.R.json.gz``, ``device.R.json.gz`` and ``manifest.R.json`` into ``folder`` when the last of
    the ``active`` steps has ended: operators with shapes, kernels and synchronisation events of the GPU where there is
    one, process groups. Files appear whole or not at all.

    Raises InputError where PyTorch is missing, for a folder that holds other files or cannot be written. A loop that
    ends too early gives a warning with counts; the complete steps are kept. An exception in the block goes on, with a
    note that says what was not recorded.

    Parameters
    ----------
    folder: made if it does not exist; one for all ranks.
    wait, warmup, active: steps that pass, that warm the profiler up, and that are recorded.
    force: replace earlier traces in the folder.
    verdict: rank 0 waits until all ranks have written, for ``patience_s`` seconds at most, and prints what the doctor
        thinks of the traces; what it found is ``steps.diagnosis``.
    """
    with observing(Path(fspath(folder)), Schedule(wait, warmup, active), force=force) as steps:
        yield steps
    if steps.shortfall:
        warnings.warn(steps.shortfall, stacklevel=3)
    if verdict and steps.recorded and steps.place is not None and steps.place.rank == 0:
        from chakrasim.collect.observing.verdict import print_verdict

        steps.diagnosis = print_verdict(steps.folder, steps.place.world_size, patience_s)


@contextmanager
def observing(folder: Path, schedule: Schedule, *, force: bool) -> Iterator[Steps]:
    """As `observe`, without a word: what is missing is ``steps.shortfall``."""
    require_torch()
    check_observed(folder, this_place(), force=force)
    steps = Steps(folder, schedule, force)
    steps._begin()
    try:
        yield steps
    except BaseException as fault:
        if not steps.recorded:
            lost = steps._abandon()
            fault.add_note(
                f"chakrasim: nothing was recorded in {folder}: the loop failed in step {steps.number}, with {lost} of "
                f"{schedule.active} steps complete"
            )
        raise
    steps._finish()
