"""The command ``chakrasim``: which subcommand, and how a run ends.

Exit codes: 0 done; 2 unusable input or options; 3 a simulation that cannot end; 130 interrupted; 141 nobody reads the
output any more; 143 terminated.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from signal import SIGINT, SIGTERM
from typing import Any, Final

from chakrasim import __version__
from chakrasim.cli.completion import SHELLS
from chakrasim.cli.options import Parser, near_option, prepare
from chakrasim.cli.output import tell_warnings, write_data
from chakrasim.cli.streams import discard, take_streams, tell
from chakrasim.compat.option_names import old_name_warnings
from chakrasim.errors import ChakrasimError, InputError, NotKept, StallError, near
from chakrasim.startup import one_blas_thread, without_gc

#: The subcommands by what people do, each a module of this package.
GROUPS: Final = {
    "ask how fast, which one, why, and what if": (
        "estimate",
        "plan",
        "sweep",
        "simulate",
        "explain",
        "what-if",
        "compare",
        "compare-jobs",
        "goodput",
        "predict",
    ),
    "record a job, or make one": (
        "collect",
        "capture",
        "doctor",
        "trace",
        "link",
        "convert",
        "bind",
        "retarget",
        "generate",
        "learn",
        "synthesize",
        "obfuscate",
    ),
    "look at what is there": (
        "analyze",
        "info",
        "draw",
        "timeline",
        "jsonize",
    ),
    "tools": (
        "machines",
        "network",
        "flows",
        "replay",
        "calibrate",
        "validate",
        "experiment",
        "split",
        "merge",
        "demo",
    ),
}
COMMANDS: Final = tuple(name for names in GROUPS.values() for name in names)

#: Those of them that run a program of the user's.
OF_OTHERS: Final = ("collect", "capture", "replay")
#: The exit code of the doctor for what can be used, with warnings.
UNSURE: Final = 1

EXAMPLES = """\
examples:
  chakrasim estimate llama3-70b --machine h100 --gpus 256 --tp 8 --pp 4     # how long is a step, how sure, does it fit
  chakrasim plan llama3-70b --machine h100 --gpus 256                       # which split
  chakrasim simulate step --machine h100 --gpus 16 --report out.html        # how long do these traces take, and why
  chakrasim explain step --machine h100 --gpus 16                           # which rank is slow, and what that costs
  chakrasim what-if step --machine h100 --gpus 16 --set rank:8-15=1.2       # a slower node
  chakrasim what-if step --machine h100 --gpus 16 --set link:*=0.5          # a faster network
  chakrasim compare before.json after.json                                  # why is one run slower
  chakrasim predict collective --machine h100 --gpus 64 --fabric fat-tree --collective all_reduce --size 1GiB  # NCCL
  chakrasim goodput --spec job.yaml                                         # days, money, energy
  chakrasim doctor recorded                                                 # are these traces complete
  chakrasim draw step --machine h100 --gpus 16 --ranks 3,12 -o ranks.svg    # a picture of ranks over time

docs/howto-twelve-questions.md has what comes out.
"""
_DESCRIPTION: Final = """\
How fast would this training job run on that machine? From PyTorch's programs and traces to Chakra traces, simulation,
and why the time goes where it goes."""


def main(argv: list[str] | None = None) -> int:
    """Run the command with these arguments (without the program's name); returns its exit code."""
    take_streams()
    with suppress(AttributeError, OSError, ValueError):
        # A name that the terminal's encoding lacks must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    came: list[int] = []
    if argv is None and sys.argv[1:2] and sys.argv[1] not in OF_OTHERS:
        one_blas_thread()
    try:
        with _own_warnings(), _ending(came), without_gc():
            code = _run(sys.argv[1:] if argv is None else list(argv))
            if argv is None:
                # The process ends here: going through all that was imported once more takes a sixth of a small run.
                gc.freeze()
        sys.stdout.flush()
        return code
    except BaseException as fault:
        if not came and not isinstance(fault, KeyboardInterrupt):
            return _failed(fault)
        ended = SIGTERM in came
        _complain(f"{'terminated' if ended else 'interrupted'}; {_what_was_written()}")
        return 143 if ended else 130


def _failed(fault: BaseException) -> int:
    match fault:
        case ChakrasimError():
            return _report(fault)
        case BrokenPipeError():
            discard(sys.stdout)
            return 141
        case RecursionError():
            return _report(InputError("the input is nested too deeply", remedy="look for a damaged file"))
        case MemoryError():
            return _report(InputError("there is not enough memory", remedy="simulate less at a time, or fold"))
        case OSError():
            discard(sys.stdout)
            return _report(InputError(f"the operating system refuses: {fault.strerror or fault}", file=fault.filename))
        case _:
            raise fault


_USUAL: Final[dict[signal.Signals, Any]] = {SIGINT: signal.default_int_handler, SIGTERM: signal.SIG_DFL}
_ours: dict[signal.Signals, Any] = {}
"""The handlers of a command that runs."""


@contextmanager
def _ending(came: list[int]) -> Iterator[None]:
    """Let SIGTERM end the command as SIGINT does, and note which came: code in C may turn the exception into another.
    Processes that the command forks do as usual."""
    if _ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    _forks_do_as_usual()

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    try:
        for number, usual in _USUAL.items():
            if signal.getsignal(number) == usual:
                _ours[number] = stop
                signal.signal(number, stop)
        yield
    finally:
        _as_usual()


def _as_usual() -> None:
    for number, handler in list(_ours.items()):
        if signal.getsignal(number) is handler:
            signal.signal(number, _USUAL[number])
        _ours.pop(number, None)


@cache
def _forks_do_as_usual() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_as_usual)


def _what_was_written() -> str:
    """Of the files that the command was to write; what is half-written goes."""
    from chakrasim.files.outputs import placed, sweep

    sweep()
    if not placed:
        return "nothing was written"
    more = ", ..." if len(placed) == placed.maxlen else ""
    return f"only {', '.join(placed)}{more} {'was' if len(placed) == 1 else 'were'} written"


@contextmanager
def _own_warnings() -> Iterator[None]:
    """Let a warning of ours look like the others of a command, without a line of source."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, NotKept):
            _complain(f"warning: {message}")
        else:
            before(message, category, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def _run(argv: list[str]) -> int:
    typed, argv = argv, prepare(argv)
    if "chakrasim.files.outputs" in sys.modules:
        sys.modules["chakrasim.files.outputs"].placed.clear()
    # Only what is asked for is imported: the modules of all commands take longer than a small run.
    parser, parsers = _parsers(argv[:1] if argv and argv[0] in COMMANDS else COMMANDS)
    if argv and not argv[0].startswith("-") and argv[0] not in parsers:
        raise InputError(
            f"unknown command {argv[0]!r}",
            expected=f"one of {', '.join(parsers)}",
            remedy=near(argv[0], parsers) or "see chakrasim --help",
        )
    try:
        options, unknown = parser.parse_known_args(argv)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    if unknown:
        known = parsers.get(options.command, parser)
        remedy = near_option(unknown[0], known) or f"see chakrasim {options.command or ''} --help".replace("  ", " ")
        raise InputError(f"unknown option or argument {unknown[0]!r}", remedy=remedy)
    if options.print_completion is not None:
        from chakrasim.cli.completion import completion_script

        write_data(completion_script(parser, options.print_completion))
        return 0
    if options.command is None:
        parser.print_help()
        return 0
    tell_warnings(old_name_warnings(options), options)
    options.typed = typed
    code = int(options.run(options))
    if code in (0, UNSURE):
        from chakrasim.cli.next_step import say_next

        say_next(options, argv)
    return code


class _Whole(Parser):
    """The whole command's parser, whose help lists the commands under headings."""

    summaries: Mapping[str, str]

    def format_help(self) -> str:
        """What ``--help`` prints."""
        text = self._get_formatter()
        text.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        text.add_text("\n".join([_DESCRIPTION, *_listed(self.summaries)]))
        text.start_section(self._optionals.title)
        text.add_arguments(self._optionals._group_actions)
        text.end_section()
        text.add_text(self.epilog)
        return text.format_help()


def _parsers(names: Iterable[str]) -> tuple[Parser, dict[str, Parser]]:
    """The whole command's parser, and those of these subcommands by name."""
    parser = _Whole(prog="chakrasim", epilog=EXAMPLES, usage="chakrasim [-h] [--version] COMMAND ...")
    parser.add_argument("--version", action="version", version=f"chakrasim {__version__}")
    parser.add_argument(
        "--print-completion", metavar="SHELL", choices=SHELLS, help=f"print what {', '.join(SHELLS)} complete by"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    parsers = {}
    summaries = parser.summaries = {}
    for name in names:
        package = ".main" if name in ("analyze", "what-if") else ""
        module = import_module(f"chakrasim.cli.{name.replace('-', '_')}{package}")
        summaries[name], details = module.SUMMARY, module.EXAMPLES
        # argparse puts the usage of the whole command before that of each.
        parsers[name] = commands.add_parser(
            name, prog=f"chakrasim {name}", help=summaries[name], description=f"{summaries[name]}.", epilog=details
        )
        module.add_arguments(parsers[name])
        parsers[name].set_defaults(run=module.run)
    return parser, parsers


def _listed(summaries: Mapping[str, str]) -> Iterator[str]:
    """The commands under their headings."""
    from shutil import get_terminal_size
    from textwrap import wrap

    width = min(get_terminal_size().columns, 120) - 2
    for heading, names in GROUPS.items():
        yield f"\n{heading}:"
        for name in names:
            if name in summaries:
                yield from wrap(summaries[name], width, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)


def _report(error: ChakrasimError) -> int:
    for warning in error.warnings:
        if warning not in str(error):
            _complain(f"warning: {warning}")
    head, *lines = str(error).split("\n") if isinstance(error, StallError) else [str(error)]
    _complain(f"error: {head}")
    for line in lines:
        tell(line)
    if isinstance(error, StallError):
        for line in error.waits:
            if line not in str(error):
                tell(f"  {line}")
    return error.exit_code


def _complain(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    tell(f"chakrasim: {text}")
