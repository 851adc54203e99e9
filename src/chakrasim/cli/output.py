"""Where the command's text goes: results to standard output, warnings to standard error, files checked beforehand."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from glob import escape, glob
from typing import TYPE_CHECKING

from chakrasim.cli.streams import tell
from chakrasim.errors import InputError, shown
from chakrasim.notes import Notes

if TYPE_CHECKING:
    import argparse

    from chakrasim.text.layout import Section


def write_out(*texts: str) -> None:
    """Write text to standard output, line by line as a terminal can show it."""
    sys.stdout.writelines("\n".join(map(shown, text.split("\n"))) for text in texts)


def write_data(*texts: str) -> None:
    """Write what a program reads to standard output as it is, unless that is a terminal."""
    if sys.stdout.isatty():
        write_out(*texts)
    else:
        sys.stdout.writelines(texts)


def tell_warnings(warnings: Iterable[str], options: argparse.Namespace) -> None:
    """Print each warning once; with --strict they are an error. To be called before anything is written."""
    notes = Notes(*warnings)
    notes.refuse(getattr(options, "strict", False))
    for warning in notes:
        tell(f"chakrasim: warning: {warning}")


def print_sections(sections: Iterable[Section]) -> None:
    """A report: by rich on a terminal, else as plain text."""
    if sys.stdout.isatty():
        from rich.console import Console

        from chakrasim.text.layout import rich_text

        Console().print(rich_text([*sections]), soft_wrap=True)
    else:
        from chakrasim.text.layout import plain_text

        write_out(plain_text([*sections]))


def report(
    options: argparse.Namespace, content: Callable[[], object], sections: Callable[[], Iterable[Section]]
) -> None:
    """A command's result: as JSON where --json says, and as tables, unless --quiet or ``--json -`` asks for none."""
    if options.json is not None:
        write_json(content(), options)
    if shows(options):
        print_sections(sections())


def shows(options: argparse.Namespace) -> bool:
    """Whether a command is to print its result for people."""
    return options.json != "-" and not getattr(options, "quiet", False)


def write_json(content: object, options: argparse.Namespace) -> None:
    """Write plain values as JSON to the file of --json; "-" is standard output. What has no format of its own gets the
    command's: docs/reference-json.md has their keys."""
    if isinstance(content, Mapping) and "format" not in content:
        content = {**content, "format": f"{format_name(options)}/1"}
    text = json_bytes(content)
    if options.json == "-":
        write_data(text.decode())
        return
    from chakrasim.files.outputs import write_whole

    write_whole(options.json, text)


def format_name(options: argparse.Namespace) -> str:
    """What the JSON of a command calls itself, without a version: it changes with the meaning of a key alone."""
    below = (getattr(options, name, None) for name in ("kind", "analysis"))
    return "-".join(["chakrasim", options.command, *(one for one in below if isinstance(one, str))])


def json_bytes(content: object) -> bytes:
    """Plain values as JSON."""
    import json

    return json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"


def announce_compilation(*rooms: str) -> None:
    """Say on standard error that this run compiles first, if of one of these rooms nothing compiled is there."""
    from chakrasim.jit import is_cold

    if any(map(is_cold, rooms)):
        tell("chakrasim: compiling (first run only, up to a minute)")


def check_targets(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Raise InputError for output files that cannot be written, are named twice, or would replace an input.

    ``outputs`` maps options to files; None and "-" are no files.
    """
    given = [path for path in inputs if path and "\0" not in path]
    prefixes = [path.removesuffix(".ranks.json") for path in given]
    patterns = [f"{escape(path)}{ending}" for path in prefixes for ending in (".*.et*", ".ranks.json")]
    traces = [file for pattern in patterns for file in glob(pattern)] if any(outputs.values()) else []
    read = {os.path.realpath(path) for path in (*given, *traces)}
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None or path == "-":
            continue
        check_target(path)
        target = os.path.realpath(path)
        if target in read:
            raise InputError(f"{option} would replace an input", file=path, remedy="name another file")
        if target in seen:
            raise InputError(f"{option} and {seen[target]} name the same file", file=path, remedy="name two files")
        seen[target] = option


def refuse_existing(paths: Iterable[str]) -> None:
    """Raise InputError for an output that is there already."""
    for path in filter(os.path.exists, paths):
        raise InputError("the output exists", file=path, remedy="add --force, or name another file")


def check_timeline(path: str | None, *, perfetto: bool = True) -> None:
    """Raise InputError for a timeline whose name says that it is something else; without ``perfetto`` it is JSON."""
    if path is not None:
        from chakrasim.report.timeline.write import check_name

        check_name(path, perfetto=perfetto)


def check_job_outputs(prefix: str, json: str | None, inputs: Iterable[str | None]) -> None:
    """The same for a job's files, written under a prefix, and the file of ``--json`` beside them."""
    from chakrasim.trace.job.file import check_prefix, is_file_of_job, ranks_file

    check_prefix(prefix)
    check_target(ranks_file(prefix))
    check_targets({"--json": json}, inputs)
    if json is not None and json != "-" and is_file_of_job(prefix, json):
        raise InputError("--json would replace a file of the job", file=json, remedy="name another file")


def refuse_replaced(prefix: str, inputs: Iterable[str]) -> None:
    """Raise InputError if a job written under the prefix would replace one of the jobs that it is made of."""
    if any(os.path.realpath(prefix) == os.path.realpath(path.removesuffix(".ranks.json")) for path in inputs):
        raise InputError("--output would replace the input", file=prefix, remedy="name another prefix")


def check_target(path: str) -> None:
    """Raise InputError for an output file that cannot be written, without touching it."""
    if "\0" in path or not path:
        raise InputError("this is no file name", found=repr(path))
    if os.path.isdir(path):
        raise InputError("the file cannot be written: it is a folder", file=path, remedy="name a file in it")
    from chakrasim.files.outputs import nearest

    folder = nearest(os.path.dirname(path) or ".")
    if not os.path.isdir(folder):
        raise InputError(
            "the file cannot be written: its folder cannot be made", file=path, found=f"no folder: {folder}"
        )
    if not os.access(folder, os.W_OK) and not os.path.exists(path):
        raise InputError("the file cannot be written: its folder is read-only", file=path, remedy="name another folder")
