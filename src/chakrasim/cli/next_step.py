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
from pathlib import Path
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
    """What comes after this command; what was read leniently is read so again."""
    step = STEPS[options.command](options, argv)
    again = vars(options).get("lenient") and isinstance(step, list) and step[0] not in ("convert", "machines")
    return [*step, "--lenient"] if again and "--lenient" not in step else step


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


def _after_simulate(options: argparse.Namespace, argv: list[str]) -> Step:
    if options.timeline is not None:
        return LOOK.format(options.timeline)
    prefix = options.prefix or options.workload_configuration
    if options.replay_durations is not None and (on_machine := _simulate(prefix)) != ["machines"]:
        return on_machine
    if options.check:
        return [word for word in argv if word != "--check"]
    return [*argv, "--timeline", _free("step", ".json.gz")]


def _after_predict(options: argparse.Namespace) -> Step:
    """A job on the same machine, after the table of sizes."""
    if options.sizes is not None:
        return f"simulate takes the same machine: --machine {options.machine}"
    collective = ["--machine", options.machine, "--collective", options.collective]
    ranks = [] if options.ranks is None else ["--ranks", f"{options.ranks}"]
    return ["predict", "collective", *collective, *ranks, "--sizes", "8:16GiB", "--plot", _free("bandwidth", ".svg")]


def _after_doctor(options: argparse.Namespace) -> Step:
    mapped = [] if options.map is None else ["--map", options.map]
    return ["trace", options.directory, *mapped, "-o", _free(options.directory, "-chakra")]


def _convert(linked: str) -> list[str]:
    return ["convert", "PyTorch", "-i", linked, "-o", _free(linked.partition(".json")[0], ".et")]


def _after_analyze(options: argparse.Namespace) -> Step:
    if options.analysis is None or options.analysis == "compare":
        return ""
    traces = options.traces if "traces" in options else [options.trace or options.input]
    devices = [path for path in traces if os.path.isdir(path) or _kind(path) == "DEVICE"]
    return ["analyze", "idle" if options.analysis == "summary" else "summary", *devices]


def _after_info(path: str) -> Step:
    if not os.path.isfile(path) or path.endswith(".ranks.json"):
        return _simulate(path.removesuffix(".ranks.json"))
    steps = {
        "DEVICE": ["analyze", "summary", path],
        "HOST": ["link", "--host", path, "-o", _free("linked", ".json")],
        "JOINED": _convert(path),
        "LINKED": [*_convert(path), "--compat", "chakra"],
    }
    return steps.get(_kind(path), ["draw", path, "-o", _free(path, ".svg")])


def _kind(path: str) -> str:
    from chakrasim.diagnosis.files.sniff import sniff

    return sniff(Path(path)).kind.name


def _after_network(options: argparse.Namespace) -> Step:
    """What was read, in our form; what was written, in a machine file."""
    if options.output is None:
        return ["network", options.file, "-o", _free("network", ".yaml")]
    return f"a machine file takes it as network: {{graph: {{file: {options.output}}}}}"


def _after_machines(name: str | None) -> Step:
    from chakrasim.machine import device_names

    if name is None:
        return ["machines", "hgx-h100-8"]
    return f"simulate {'--device-profile' if name in device_names() else '--machine'} takes a file like it"


def _given(options: argparse.Namespace) -> tuple[str, str]:
    """The input and the output of a command that may be called as the reference's is."""
    inputs = options.input or options.input_filename
    return inputs[0] if isinstance(inputs, list) else inputs, options.output or options.output_filename


def _first(folder: str, names: str) -> str:
    return sorted(glob(os.path.join(escape(folder), names)))[0]


def _free(name: str, ending: str) -> str:
    """A name for what is to be written: nothing that is there may be replaced."""
    stem, number = name.rstrip("/"), 1
    while os.path.exists(free := f"{stem}{'' if number == 1 else f'-{number}'}{ending}"):
        number += 1
    return free


#: For every command, what comes after it.
STEPS: Final[dict[str, Callable[[argparse.Namespace, list[str]], Step]]] = {
    "collect": lambda *_: "",  # its verdict ends with it
    "capture": lambda options, _: (
        _simulate(options.output) if options.ranks in ("representative", "all") else ["info", options.output]
    ),
    "doctor": lambda options, _: _after_doctor(options),
    "trace": lambda *_: "",  # its table ends with what may be run
    "link": lambda options, _: _convert(
        options.output if options.directory is None else _first(options.output, "linked.*.json*")
    ),
    "convert": lambda options, _: ["info", options.output],
    "bind": lambda options, _: _simulate(options.output),
    "retarget": lambda options, _: _simulate(options.output),
    "learn": lambda options, _: ["synthesize", options.output, "--output", "made"],
    "obfuscate": lambda *_: "look at what would be shared before it is: chakrasim info, chakrasim jsonize",
    "synthesize": lambda options, _: _simulate(options.output if options.count == 1 else f"{options.output}-0"),
    "generate": lambda options, _: (
        _simulate(options.output) if "output" in options else ["info", _first(options.output_dir, "*.et")]
    ),
    "simulate": lambda options, argv: _after_simulate(options, argv),
    "explain": lambda *_: "chakrasim what-if asks for a change, of the same job and machine: --set rank:0=1.1",
    "what-if": lambda *_: "",  # its tables are the end
    "flows": lambda *_: "",  # likewise
    "replay": lambda options, _: _simulate(options.prefix or options.trace_path),
    "predict": lambda options, _: _after_predict(options),
    "estimate": lambda options, argv: (
        [*argv, "--json", _free("step", ".json")] if options.json is None else "generate transformer writes its traces"
    ),
    "plan": lambda *_: "estimate, with the best split's options, says where its time goes",
    "sweep": lambda options, _: f"pandas reads {options.output}/results.csv.gz",
    "goodput": lambda *_: "",
    "calibrate": lambda options, _: (
        ["predict", "collective", "--machine", options.output or "FILE", "--collective", "all_reduce", "--size", "1MiB"]
        if options.kind == "collectives"
        else f"capture, generate and simulate take it as --device-profile {options.output or 'FILE'}"
    ),
    "validate": lambda *_: ["machines"],
    "experiment": lambda *_: "",  # its tables are the end
    "analyze": lambda options, _: _after_analyze(options),
    "compare": lambda *_: "",  # its tables are the end
    "compare-jobs": lambda *_: "",  # likewise
    "info": lambda options, _: _after_info(options.prefix),
    "jsonize": lambda options, _: ["info", _given(options)[0]],
    "draw": lambda options, _: f"look at {_given(options)[1]}",
    "timeline": lambda options, _: LOOK.format(_given(options)[1]),
    "split": lambda options, _: ["info", options.output],
    "merge": lambda options, _: ["info", options.output],
    "machines": lambda options, _: _after_machines(options.name),
    "network": lambda options, _: _after_network(options),
    "demo": lambda options, _: ["simulate", os.path.join(options.out, "chakra", "chakra"), "--replay-durations"],
}
