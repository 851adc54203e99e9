"""What-if on simulated jobs and on recorded ones that are replayed."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final

from chakrasim.cli.job_options import simulated
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.scenarios.asked import Asked, asked_of

if TYPE_CHECKING:
    from chakrasim.scenarios.job_answer import JobAnswer

DRAWS: Final = 1000
UNFOLDED_NODES: Final = 4_000_000
"""Of jobs whose ranks differ by chance."""
_ELSEWHERE: Final = {"machine": "machine", "device": "device_profile", "network-model": "network_model",
                     "nic": "nic", "fabric": "fabric", "library": "library"}  # fmt: skip
_PLACE: Final = re.compile(r"[A-Za-z_][\w-]*(?:\[[^\]]*\]|\.[\w-]+)+")
MOST_SCENARIOS: Final = 1_000_000


def run(options: argparse.Namespace, notes: Notes) -> JobAnswer:
    """Simulate and answer. Raises InputError and StallError."""
    from chakrasim.scenarios.job_answer import ask_job
    from chakrasim.scenarios.job_stragglers import chances_of

    chances = chances_of(options.jitter, options.fail_slow)
    elsewhere, asked = _parted(options)
    scenarios = [] if options.scenarios is None else _scenarios(options.scenarios)
    if options.meta is not None:
        raise InputError("--meta is of straggler traces (Parquet)", remedy="leave it out")
    if not (asked or elsewhere or scenarios or options.stragglers or chances or options.changes):
        raise InputError("nothing is asked", expected="--set TARGET=FACTOR, --scenarios, --stragglers, --changes, "
                         "--jitter or --fail-slow", remedy=_remedy(options))  # fmt: skip
    base = argparse.Namespace(**{**vars(options), "set": [], "changes": None})
    limit = UNFOLDED_NODES if chances is not None else None
    with simulated(base) as before:
        notes.warn(*before.warnings)
        other = None
        if elsewhere or options.changes:
            with simulated(_moved(options, elsewhere)) as other:
                notes.warn(*other.warnings)
        return ask_job(
            before,
            other,
            asked,
            said=(*elsewhere, *([] if options.changes is None else [f"changes={options.changes}"])),
            scenarios=scenarios,
            stragglers=options.stragglers,
            chances=chances,
            draws=options.draws or DRAWS,
            seed=options.seed or 0,
            unfolded_nodes=limit,
        )


def _remedy(options: argparse.Namespace) -> str:
    """Options say what the machine is, not what it would be: whoever gives one may have meant the latter."""
    for key, name in _ELSEWHERE.items():
        given = getattr(options, name)
        if key not in ("machine", "device") and given is not None:
            return f"--{key} is of the machine as it is; --set {key}={given} asks what would be with another one"
    return "see chakrasim what-if --help"


def _parted(options: argparse.Namespace) -> tuple[list[str], list[Asked]]:
    """What asks for another machine, and what changes durations. Ranks of a machine that compute slower are another
    machine: that is exact, and folds. Raises InputError."""
    elsewhere = [text for text in options.set if _is_elsewhere(text.partition("=")[0].strip())]
    asked = [asked_of(text) for text in options.set if text not in elsewhere]
    if options.machine is not None and options.replay_durations is None and not options.slow:
        ranks = [one.text for one in asked if _is_slow(one)]
        if len(ranks) == 1:
            return elsewhere + ranks, [one for one in asked if one.text not in ranks]
    return elsewhere, asked


def _is_slow(one: Asked) -> bool:
    return one.family == "rank" and "&" not in one.target and one.factor is not None and 0.001 <= one.factor <= 1000


def _is_elsewhere(target: str) -> bool:
    return target in _ELSEWHERE or (":" not in target and _PLACE.fullmatch(target) is not None)


def _moved(options: argparse.Namespace, elsewhere: list[str]) -> argparse.Namespace:
    """The options of the run on another machine."""
    moved: dict[str, Any] = {**vars(options), "set": []}
    for text in elsewhere:
        target, _, value = text.partition("=")
        if target.strip() in _ELSEWHERE:
            moved[_ELSEWHERE[target.strip()]] = value.strip()
            moved["replay_durations"] = None
        elif target.startswith("rank:"):
            moved["slow"] = [f"{target.partition(':')[2]}={value}"]
        else:
            moved["set"].append(text)
    return argparse.Namespace(**moved)


def _scenarios(path: str) -> list[list[Asked]]:
    """The scenarios of a file, one a line. Raises InputError with the line."""
    from chakrasim.files.storage import read_bytes

    found = []
    try:
        lines = read_bytes(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise InputError("this is no text", file=path, place=f"byte {error.start}", expected="UTF-8") from None
    for number, line in enumerate(lines, 1):
        parts = [part for part in line.partition("#")[0].split(";") if part.strip()]
        try:
            own = [asked_of(part.strip()) for part in parts]
        except InputError as error:
            raise InputError(error.message, file=path, place=f"line {number}", found=error.found,
                             expected=error.expected) from None  # fmt: skip
        if own:
            found.append(own)
    if not found:
        raise InputError("the file has no scenario", file=path, expected="a scenario a line: op:gemm=0.5; rank:3=1.1")
    if len(found) > MOST_SCENARIOS:
        raise InputError("too many scenarios", file=path, found=len(found), expected=f"at most {MOST_SCENARIOS:,}")
    return found
