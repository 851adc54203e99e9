"""Names that other tools have for what our commands take: their options run as they are, so that a command line of
theirs needs another program's name only. An option that asks for what is always so, or cannot be, adds a warning."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from typing import Any

from chakrasim.errors import InputError


def add_old_names(
    parser: argparse.ArgumentParser,
    same: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    valued: Mapping[str, str] | None = None,
) -> None:
    """Take options of other tools, which the help does not list: those of ``same`` stand for the options of these
    destinations; ``flags`` and, with a value, ``valued`` have no effect, for the reason that is given with each."""
    known = {action.dest: action for action in parser._actions}
    for old, dest in (same or {}).items():
        own = known[dest]
        parser.add_argument(
            old, dest=dest, type=own.type or str, choices=own.choices, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    for names, nargs in ((flags, 0), (valued, None)):
        for old, reason in (names or {}).items():
            parser.add_argument(
                *(old, *_also(old)), dest="without_effect", action=_WithoutEffect, nargs=nargs, const=reason,
                default=argparse.SUPPRESS, help=argparse.SUPPRESS,
            )  # fmt: skip


def _also(option: str) -> tuple[str, ...]:
    """The same option with hyphens for underscores, if it has any."""
    other = option.replace("_", "-")
    return () if other == option else (other,)


class _WithoutEffect(argparse.Action):
    """Notes that an option was given, and why nothing comes of it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        noted = getattr(namespace, self.dest, [])
        setattr(namespace, self.dest, [*noted, f"{option} has no effect: {self.const}"])


def old_name_warnings(options: argparse.Namespace) -> list[str]:
    """What to say of options of other tools that were given and have no effect."""
    said: list[str] = getattr(options, "without_effect", [])
    return said


def new_form(*words: str) -> str:
    """A command line of ours, to be pasted."""
    return f"chakrasim {shlex.join(words)}"


# -- PARAM: comm_replay (commsTraceReplay), et_replay ------------------------------------------------------------------


def add_names_of_param(parser: argparse.ArgumentParser) -> None:
    """The options of these programs, for ``chakrasim replay``."""
    parser.add_argument("--trace-path", "--input", dest="trace_path", help=argparse.SUPPRESS)
    parser.add_argument("--trace-type", help=argparse.SUPPRESS)
    parser.add_argument("--use-one-trace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output-path", help=argparse.SUPPRESS)
    same = {"--num-replays": "iterations", "--iter": "iterations", "--warmup-iter": "warmup"}
    same |= {"--max-msg-cnt": "first", "--colls-per-batch": "batch", "--allow-ops": "only", "--allow-list": "only"}
    hidden = argparse.SUPPRESS
    parser.add_argument("--use-timestamp", dest="timestamps", action="store_true", default=hidden, help=hidden)
    parser.add_argument("--rebalance-policy", dest="rebalance", type=_policy, default=hidden, help=hidden)
    flags = {
        "--auto-shrink": "a job always shrinks to the ranks there are, where that can be",
        "--disable-parallel-read": "each file is read once",
        "--do-warm-up": "there is always a warm-up; --warmup N says how long",
        "--reuse-tensors": "memory is always used again",
    }
    valued = {
        "--device": "the back end decides",
        "--log": "messages go to the terminal",
        "--master-ip": "the environment says it (MASTER_ADDR)",
        "--master-port": "the environment says it (MASTER_PORT)",
        "--nw-stack": "torch.distributed is used",
    }
    add_old_names(parser, same, flags, valued)


def _policy(text: str) -> bool:
    if text != "equal":
        raise argparse.ArgumentTypeError(f"found {text!r}, expected equal")
    return True


def traces_of_param(options: argparse.Namespace) -> str:
    """The name of the traces, ours or PARAM's. Raises InputError with the new command where PARAM means another."""
    given = [name for name in (options.prefix, options.trace_path) if name is not None]
    if len(given) != 1:
        raise InputError(
            "no traces are given" if not given else "the traces are given twice",
            found=" and ".join(given) or None,
            expected="one name: chakrasim replay PREFIX",
        )
    (name,) = given
    if options.trace_type not in (None, "et", "kineto"):
        raise InputError(
            "this type of trace is not known",
            found=f"--trace-type {options.trace_type}",
            expected="traces of PyTorch or Chakra, which are told by what is in them",
            remedy=f"say {new_form('replay', name)}",
        )
    if options.use_one_trace and os.path.isdir(name):
        one = next((file for file in sorted(os.listdir(name)) if file.endswith((".json", ".json.gz"))), "rank-0.json")
        remedy = f"say {new_form('replay', os.path.join(name, one))}"
        raise InputError("one trace for all ranks is named by its file", file=name, found="a folder", remedy=remedy)
    if options.output_path is not None:
        words = new_form("replay", name, "--json", os.path.join(options.output_path, "replay.json"))
        raise InputError(
            "results go into one file", found=f"--output-path {options.output_path}", remedy=f"say {words}"
        )
    return str(name)
