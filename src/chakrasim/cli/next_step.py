"""What may be done next, said by every command that ends well to whoever reads along on a terminal.

It goes to standard error, and only where that is a terminal: a script needs no advice, and its log should hold what
went wrong and nothing else. Nothing is said with ``--quiet``, ``--json -``, or in the modes of the reference programs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from glob import escape, glob
from typing import Final

from chakrasim.cli.streams import tell

Step = list[str] | str
"""A command of ours, in words, or a sentence."""

LOOK: Final = "open {} at https://ui.perfetto.dev"


def say_next(options: argparse.Namespace, argv: list[str]) -> None:
    """Say what comes after the command ``argv``, which ended well."""
    given = vars(options)
    silent = given.get("quiet") or given.get("json") == "-" or given.get("compat") or not sys.stderr.isatty()
    if not silent and (step := next_step(options, argv)):
        tell(f"next: {step if isinstance(step, str) else f'chakrasim {shlex.join(step)}'}")


def next_step(options: argparse.Namespace, argv: list[str]) -> Step:
    """What comes after this command."""
    return STEPS[options.command](options, argv)


def _simulate(prefix: str) -> list[str]:
    """With its groups, on a shipped machine of as many ranks; where there is none: which machines there are."""
    from chakrasim.machine import preset_names

    ranks = _ranks(prefix)
    named = [name for name in preset_names() if re.search(rf"-{ranks}(-|$)", name)]
    if not named:
        return ["machines"]
    fits = [name for name in named if name.startswith("hgx")] or named
    beside = (f"{prefix}.comm_group.json", os.path.join(os.path.dirname(prefix), "comm_group.json"))
    groups = next((["--comm-group", file] for file in beside if os.path.exists(file)), [])
    return ["simulate", prefix, *groups, "--machine", fits[-1]]


def _ranks(prefix: str) -> int:
    """How many ranks the traces of a prefix have."""
    from chakrasim.trace.job.file import is_job, ranks_file

    if not is_job(prefix):
        return len(glob(f"{escape(prefix)}.*.et*"))
    with open(ranks_file(prefix), encoding="utf-8") as file:
        return int(json.load(file)["ranks"])


def _after_capture(options: argparse.Namespace) -> Step:
    return _simulate(options.output) if options.ranks in ("representative", "all") else ["info", options.output]


def _after_simulate(options: argparse.Namespace, argv: list[str]) -> Step:
    if options.timeline is not None:
        return LOOK.format(options.timeline)
    prefix = options.prefix or options.workload_configuration
    if options.replay_durations is not None and (on_machine := _simulate(prefix)) != ["machines"]:
        return on_machine
    if options.check:
        return [word for word in argv if word != "--check"]
    return [*argv, "--timeline", _free("step", ".json.gz")]


def _after_link(options: argparse.Namespace) -> Step:
    linked = options.output
    if options.directory is not None:
        linked = sorted(glob(os.path.join(escape(linked), "linked.*.json*")))[0]
    return ["convert", "PyTorch", "-i", linked, "-o", _free(linked.partition(".json")[0], ".et")]


def _after_analyze(options: argparse.Namespace) -> Step:
    if options.analysis is None or options.analysis == "compare":
        return ""
    traces = options.traces if "traces" in options else [options.trace or options.input]
    return ["analyze", "idle" if options.analysis == "summary" else "summary", *traces]


def _after_info(path: str) -> Step:
    if os.path.isfile(path) and not path.endswith(".ranks.json"):
        return ["analyze", "summary", path] if ".json" in path else ["draw", path, "-o", _free(path, ".svg")]
    return _simulate(path.removesuffix(".ranks.json"))


def _given(options: argparse.Namespace) -> tuple[str, str]:
    """The input and the output of a command that may be called as the reference's is."""
    inputs = options.input or options.input_filename
    return inputs[0] if isinstance(inputs, list) else inputs, options.output or options.output_filename


def _first(folder: str) -> str:
    return sorted(glob(os.path.join(escape(folder), "*.et")))[0]


def _free(name: str, ending: str) -> str:
    """A name for what is to be written: nothing that is there may be replaced."""
    stem, number = name.rstrip("/"), 1
    while os.path.exists(free := f"{stem}{'' if number == 1 else f'-{number}'}{ending}"):
        number += 1
    return free


#: For every command, what comes after it.
STEPS: Final[dict[str, Callable[[argparse.Namespace, list[str]], Step]]] = {
    "collect": lambda *_: "",  # its verdict ends with it
    "capture": lambda options, _: _after_capture(options),
    "doctor": lambda options, _: ["trace", options.directory, "-o", _free(options.directory, "-chakra")],
    "trace": lambda *_: "",  # its table ends with what may be run
    "link": lambda options, _: _after_link(options),
    "convert": lambda options, _: ["info", options.output],
    "retarget": lambda options, _: _simulate(options.output),
    "generate": lambda options, _: (
        _simulate(options.output) if "output" in options else ["info", _first(options.output_dir)]
    ),
    "simulate": lambda options, argv: _after_simulate(options, argv),
    "replay": lambda options, _: _simulate(options.prefix or options.trace_path),
    "calibrate": lambda options, _: (
        f"capture, generate and simulate take it as --device-profile {options.output or 'FILE'}"
    ),
    "validate": lambda *_: ["machines"],
    "analyze": lambda options, _: _after_analyze(options),
    "info": lambda options, _: _after_info(options.prefix),
    "jsonize": lambda options, _: ["info", _given(options)[0]],
    "draw": lambda options, _: f"look at {_given(options)[1]}",
    "timeline": lambda options, _: LOOK.format(_given(options)[1]),
    "split": lambda options, _: ["info", options.output],
    "merge": lambda options, _: ["info", options.output],
    "machines": lambda options, _: (
        ["machines", "hgx-h100-8"] if options.name is None else "simulate --machine takes a file like it"
    ),
    "demo": lambda options, _: ["simulate", os.path.join(options.out, "chakra", "chakra"), "--replay-durations"],
}
