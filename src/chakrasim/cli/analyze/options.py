"""What the analyses' commands share: options, reading of traces, and where the tables go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, print_sections, tell_warnings, write_data
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.analysis.table.result import Result
    from chakrasim.analysis.table.traces import RankTrace

FORMAT = "chakrasim-analysis/1"
"""Changes with the meaning of a key, not with the version of the program."""

COMPAT: Final = ("hta", "hta-pinned")

Tables = Mapping[str, Any]
"""Results by name; None where there is nothing, or values that JSON has."""


def add_common(
    parser: argparse.ArgumentParser, *, traces: bool = True, csv: bool = True, rank: bool = True, compat: bool = True
) -> None:
    """The options that all analyses have; ``compat``: whether HTA has this one."""
    if traces:
        parser.add_argument(
            "traces", nargs="+", metavar="TRACE", help="Kineto traces (.json, .json.gz), or folders of them"
        )
    if rank:
        parser.add_argument("--rank", type=whole_number(0, 2**31 - 1), metavar="R", help="only the trace of rank R")
    parser.set_defaults(compat=None)
    if compat:
        parser.add_argument(
            "--compat", choices=COMPAT, help="figures as HTA (newest, or the version Chakra pins) has them"
        )
    parser.add_argument("--json", metavar="FILE", help="write the tables as JSON; '-' is standard output, no tables")
    if csv:
        parser.add_argument("--csv", metavar="FILE", help="write the first table as CSV; '-' is standard output")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="no tables, only warnings and errors")


def analyse(
    analysis: Callable[[argparse.Namespace, list[RankTrace]], Tables],
    options: argparse.Namespace,
    *,
    printed: Callable[[Tables], Tables] = dict,
) -> int:
    """Read the traces, carry out the analysis in the chosen mode and put its tables where they belong; ``printed``
    picks those that people see. HTA uses of damaged traces what is intact."""
    check_outputs(options, options.traces)
    notes = Notes()
    if options.compat is None:
        traces = read(options.traces, options.lenient, getattr(options, "rank", None), notes)
        notes.refuse(options.strict)  # an analysis may write what is not a table
        tables = analysis(options, traces)
    else:
        tables = as_hta(options, read(options.traces, True, None, notes))
    return emit(options, tables, notes, printed)


def read(traces: list[str], lenient: bool, rank: int | None, notes: Notes) -> list[RankTrace]:
    """The traces that the command names."""
    from chakrasim.analysis.table.traces import open_traces

    announce_compilation("trace")
    return open_traces(list(traces), rank=rank, lenient=lenient, notes=notes)


def as_hta(options: argparse.Namespace, *traces: list[RankTrace]) -> Tables:
    """HTA's tables of the analysis that was asked for, of one set of traces, or of two that are compared.

    Where HTA fails, its failure goes into the JSON and is an error (exit code 2).
    """
    from chakrasim.compat.hta.analyses import hta_comparison, hta_tables
    from chakrasim.compat.hta.table import HtaFailure

    try:
        return hta_tables(options, *traces) if len(traces) == 1 else hta_comparison(options, *traces)
    except HtaFailure as failure:
        if options.json is not None:
            _write(options.json, _document(options, {"error": str(failure), "exception": failure.kind}, Notes()))
        message = f"HTA ends with {failure.kind} here: {failure.reason}"
        raise InputError(message, remedy="analyse without --compat") from None


def check_outputs(options: argparse.Namespace, inputs: list[str]) -> None:
    """Refuse outputs that cannot be written, before any work."""
    csv = getattr(options, "csv", None)
    if csv == "-" and options.json == "-":
        raise InputError("--json and --csv cannot both go to standard output", remedy="name a file for one of them")
    own = {f"--{name}": vars(options).get(name) for name in ("counters", "picture")}
    check_targets({"--json": options.json, "--csv": csv, **own}, inputs)


def emit(options: argparse.Namespace, tables: Tables, notes: Notes, printed: Callable[[Tables], Tables] = dict) -> int:
    """Print the tables, or write them where the options say."""
    from chakrasim.analysis.table.result import Result
    from chakrasim.report.tables.analysis import result_sections

    tell_warnings(notes.warnings, options)
    results = {name: table for name, table in tables.items() if isinstance(table, Result)}
    csv = getattr(options, "csv", None)
    is_shown = "-" not in (options.json, csv) and not options.quiet
    shown = printed(results) if is_shown else {}
    if options.json is not None:
        _write(options.json, _document(options, tables, notes))
    if csv is not None:
        _write(csv, _csv(next(iter(results.values()), None)))
    if is_shown:
        print_sections(_titled(options, shown, result_sections))
    return 0


def _titled(options: argparse.Namespace, results: Mapping[str, Result], sections: Callable[..., Any]) -> Any:
    from dataclasses import replace

    made = sections(list(results.values()), gather=options.compat is None)
    if options.compat is None:
        return made
    return [replace(section, title=f"{name} ({options.compat})") for name, section in zip(results, made, strict=True)]


def _document(options: argparse.Namespace, tables: Tables, notes: Notes) -> str:
    from chakrasim.analysis.table.result import Result

    plain = {name: table.to_mapping() if isinstance(table, Result) else table for name, table in tables.items()}
    head = {"format": FORMAT, "analysis": options.analysis, "compat": options.compat, "warnings": list(notes.warnings)}
    return json.dumps(head | plain, indent=1) + "\n"


def _csv(result: Result | None) -> str:
    import csv
    import io

    text = io.StringIO()
    if result is not None:
        writer = csv.DictWriter(text, list(result.columns()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(result.records())
    return text.getvalue()


def _write(path: str, text: str) -> None:
    if path == "-":
        write_data(text)
        return
    from chakrasim.files.outputs import write_whole

    write_whole(path, text.encode("utf-8", "surrogatepass"))
