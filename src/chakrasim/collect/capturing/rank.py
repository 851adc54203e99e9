"""One rank's step: the program is run on the pretended device until the step is over."""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Final

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from chakrasim.collect.capturing.loops import is_foreign, is_pythons
from chakrasim.collect.capturing.precision import Precision
from chakrasim.collect.capturing.pretended.attention import install_attention
from chakrasim.collect.capturing.pretended.cuda import Redirect, redirect_cuda
from chakrasim.collect.capturing.pretended.device import DeviceMode
from chakrasim.collect.capturing.pretended.distributed import Distributed, NeedsRank, Objects
from chakrasim.collect.capturing.pretended.host_memory import install_host_memory
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.pretended.surroundings import install_surroundings
from chakrasim.collect.capturing.recorded.graph import Graph, Node
from chakrasim.collect.capturing.recorded.groups import Groups
from chakrasim.collect.capturing.recorded.listener import Listener
from chakrasim.collect.capturing.recorded.memory import MemoryPeak, labelled
from chakrasim.collect.capturing.recorded.streams import DeviceStream, Streams
from chakrasim.collect.capturing.scans import Scans
from chakrasim.collect.capturing.script_modules import as_main, run_main
from chakrasim.collect.capturing.watch import Watch
from chakrasim.errors import InputError


@dataclass(frozen=True)
class UserProgram:
    """What is captured.

    Attributes
    ----------
    script: path of a script, or a module's name; None for a function.
    arguments: of the script.
    function: called once for each step (see `chakrasim.collect.capture`); None for a script.
    step: which step is recorded, from 1, told apart by optimizer steps; 0: all that the program does.
    with_gpu: whether the program is told that there are GPUs.
    devices: GPUs of a node.
    is_module: whether ``script`` is the name of a module.
    """

    script: str | None
    arguments: tuple[str, ...] = ()
    function: Callable[[], object] | None = None
    step: int = 2
    with_gpu: bool = True
    devices: int = 8
    is_module: bool = False


@dataclass(frozen=True)
class RankCapture:
    """What one rank does in the step.

    Attributes
    ----------
    nodes: the graph; a node's number is its place.
    roles: the process groups of all ranks, by role.
    peak: of memory within the step.
    timeline: live bytes over the step: "node", "live" and a column for each category.
    placeholders, counted: what was made up or left out, how often.
    unknown_flops: matrix-like operators that nobody counts, how often.
    sent: objects that this rank sent.
    scans: its loops of small operators.
    """

    rank: int
    nodes: list[Node]
    roles: dict[str, tuple[tuple[int, ...], ...]]
    peak: MemoryPeak
    timeline: dict[str, Any]
    placeholders: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    unknown_flops: dict[str, int] = field(default_factory=dict)
    sent: Objects = field(default_factory=dict)
    scans: Scans = field(default_factory=Scans)


class _StepIsOver(BaseException):
    """Ends the program after the recorded step; no handler of a program's own errors stops it."""


def capture_rank(program: UserProgram, rank: int, world: int, received: Objects, watch: Watch) -> RankCapture:
    """Run ``program`` as ``rank`` of ``world`` and record its step.

    Raises InputError for what cannot be captured, `NeedsRank` if an object of a rank that is not in ``received`` is
    needed. Meant to be called once in a process: PyTorch keeps state.
    """
    streams = Streams()
    DeviceStream.streams = streams
    mode, graph, groups = DeviceMode(), Graph(streams), Groups(world)
    listener = Listener(mode, graph, groups)
    distributed = Distributed(rank, world, listener, received)
    recorder = _Recorder(program, graph, watch)
    precision = Precision()
    if program.with_gpu:
        graph.precision = precision
    graph.look = watch.operator
    with ExitStack() as stack:
        stack.enter_context(_silence())
        made = stack.enter_context(Patches())
        redirect_cuda(made, rank % program.devices, min(program.devices, world), program.with_gpu)
        install_attention(made, program.with_gpu)
        if program.with_gpu:
            install_host_memory(made, mode, graph)
        distributed.install(made)
        install_surroundings(made, listener, rank)
        stack.enter_context(_environment(rank, world, program))
        graph.memory.watch_resizes(made)
        stack.enter_context(labelled(graph.memory))
        stack.enter_context(recorder.hooks())
        stack.enter_context(watch.running(lambda: len(graph.nodes)))
        mode.listener, mode.asked = listener, watch.ask
        try:
            _run(program, mode, recorder)
        except InputError as error:
            if distributed.lacking is None:
                raise
            raise NeedsRank(distributed.lacking, distributed.sent) from error
    since, until = recorder.bounds
    return RankCapture(
        rank,
        graph.nodes,
        groups.roles(),
        graph.memory.peak(since, until),
        graph.memory.timeline(since, until),
        dict(mode.placeholders),
        dict(listener.counted + precision.counted + graph.counted),
        dict(graph.unknown),
        distributed.sent,
        graph.scans,
    )


class _Recorder:
    """Begins and ends recording at the right optimizer steps of the first optimizer that steps."""

    def __init__(self, program: UserProgram, graph: Graph, watch: Watch) -> None:
        self.program = program
        self.graph = graph
        self.watch = watch
        self.steps = 0
        self.bounds: tuple[int, int | None] = (0, None)
        self._leader: Any = None

    def begin(self) -> None:
        """Record from here."""
        self.graph.start()
        self.bounds = self.graph.memory.mark(), None

    def end(self) -> None:
        """Record no longer."""
        self.graph.recording = False
        self.bounds = self.bounds[0], self.graph.memory.mark()

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """See optimizers' steps."""
        with register_optimizer_step_pre_hook(self._before), register_optimizer_step_post_hook(self._after):
            if self.program.step <= 1 and self.program.function is None:
                self.begin()
            yield

    def _before(self, *_: Any) -> None:
        self.graph.optimizing = True

    def _after(self, optimizer: Any, *_: Any) -> None:
        self.graph.optimizing = False
        self.watch.step()
        if self._leader is None:
            self._leader = optimizer
        if optimizer is not self._leader or self.program.function is not None:
            return
        self.steps += 1
        if self.program.step == 0:
            return
        if self.steps == self.program.step:
            self.end()
            raise _StepIsOver
        if self.steps == self.program.step - 1:
            self.begin()


def _run(program: UserProgram, mode: DeviceMode, recorder: _Recorder) -> None:
    """Run the program to the end of its step. Raises InputError where it fails."""
    gc.collect()
    gc.freeze()  # what is there by now is not looked at again
    try:
        with mode, Redirect():
            if program.function is not None:
                _run_function(program.function, program, recorder)
            else:
                assert program.script is not None
                run_main(program.script, program.is_module)
        if program.function is None:
            _ended_early(program, recorder)
    except _StepIsOver:
        pass
    except (InputError, NeedsRank, KeyboardInterrupt):
        raise
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise InputError(f"the program ended with {stop.code}", file=program.script) from stop
        _ended_early(program, recorder)
    except BaseException as error:
        if "CHAKRASIM_CAPTURE_TRACEBACK" in os.environ:
            traceback.print_exc()
        raise failure(error, program) from error


def _run_function(function: Callable[[], object], program: UserProgram, recorder: _Recorder) -> None:
    for _ in range(max(program.step, 1) - 1):
        function()
        recorder.watch.step()
    recorder.begin()
    function()
    recorder.end()


def _ended_early(program: UserProgram, recorder: _Recorder) -> None:
    if program.step == 0:
        recorder.end()
        return
    if recorder.steps == 0:
        remedy = "let it step an optimizer, or record all that it does with --step 0"
    else:
        remedy = f"let it take {program.step} steps, or record an earlier one with --step"
    raise InputError(
        f"the program ended before step {program.step} was over",
        file=program.script,
        found=f"{recorder.steps} step{'s' * (recorder.steps != 1)} of an optimizer",
        remedy=remedy,
    )


_REMEDIES: Final = {
    "Cannot access accelerator device": 'write torch.device("cuda", 0) for torch.device(0)',
    "operator torchvision::": "install the torchvision that belongs to this PyTorch: without capture it fails too",
}
"""By words of an error whose text does not say what to do."""


def failure(error: BaseException, program: UserProgram) -> InputError:
    """What a program's exception is told as: where in the program, what, and what it may come from."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    own = (frame for frame in frames if not is_foreign(frame.filename) and not is_pythons(frame.filename))
    place = next((f"{frame.filename}:{frame.lineno}" for frame in own), "")
    text = " ".join(str(error).split())[:400]
    remedies = [remedy for words, remedy in _REMEDIES.items() if words in text]
    return InputError(
        f"the program failed while it was captured: {type(error).__name__}: {text}",
        file=program.script,
        place=place,
        remedy="; ".join([*remedies, "see the limits in the guide to capturing"])
        + "; --traceback shows where in PyTorch it came from",
    )


@contextmanager
def _silence() -> Iterator[None]:
    """PyTorch's warnings are about a machine that is not there; what the program prints are placeholders."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _environment(rank: int, world: int, program: UserProgram) -> Iterator[None]:
    """Environment variables, arguments, import path and random state as `torchrun` would give them."""
    local = min(program.devices, world)
    values = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % local,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": rank // local,
        "NODE_RANK": rank // local,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
        "TORCHELASTIC_RUN_ID": "capture",
    }
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in values.items()})
    random.seed(0)
    try:
        if program.script is None:
            yield
        else:
            with as_main(program.script, program.arguments, program.is_module):
                yield
    finally:
        os.environ.clear()
        os.environ.update(before)
