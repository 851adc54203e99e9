"""``chakrasim draw``: a Chakra trace as a picture."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from chakrasim.cli.files import add_files, files
from chakrasim.cli.options import add_reading
from chakrasim.cli.output import announce_compilation, tell_warnings
from chakrasim.compat.option_names import new_form
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.trace import Trace

SUMMARY = "Draw the graph of a Chakra trace"
EXAMPLES = """\
Nodes of one operator (--by module) or of one thread or stream (--by stream) become one box in graphs of more than 500
nodes. Solid arrows are data dependencies, dashed ones control dependencies. .pdf needs the program dot of Graphviz;
.svg takes it if it is there, and a simple layout of our own if not.

examples:
  chakrasim draw step.0.et -o step.svg
  chakrasim draw step.0.et -o step.dot --by none
  chakrasim draw --input_filename step.0.et --output_filename step.graphml --compat chakra
"""

SUFFIXES = (".dot", ".graphml", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    add_files(parser, "Chakra trace, plain or gzip", f"file to write: {', '.join(SUFFIXES)}")
    parser.add_argument(
        "--by",
        choices=("auto", "module", "stream", "none"),
        default="auto",
        help="what makes a box: an operator with all below it, a thread or stream, a node (default: by size)",
    )
    parser.add_argument("--compat", choices=("chakra",), help="draw every node as chakra_visualizer does")
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read and draw. Raises InputError."""
    inputs, output = files(options)
    suffix = os.path.splitext(output)[1]
    if suffix not in SUFFIXES:
        meant = output.removesuffix(suffix) + (_near_suffix(suffix) or ".svg")
        raise InputError(
            "this kind of picture is not known",
            file=output,
            expected=f"one of {', '.join(SUFFIXES)}",
            remedy=f"say {new_form('draw', inputs[0], '-o', meant)}",
        )
    if suffix == ".pdf" and shutil.which("dot") is None:
        raise InputError(
            "a PDF needs the program dot of Graphviz, which is not installed",
            file=output,
            remedy="install Graphviz, or write .svg",
        )
    announce_compilation("trace")
    from chakrasim.trace import read_trace

    notes = Notes()
    trace = read_trace(inputs[0], lenient=options.lenient, notes=notes)
    if options.compat:
        from chakrasim.compat.chakra_visualizer import visualized

        texts, kind = visualized(trace, output, suffix, notes)
    else:
        texts, kind = _texts(trace, suffix, options.by, notes)
    tell_warnings(notes.warnings, options)
    _write([_rendered(texts, output, kind)] if kind else texts, output)
    return 0


def _near_suffix(suffix: str) -> str:
    """The known ending most like this one, or nothing."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(suffix, SUFFIXES, 1)), "")


def _texts(trace: Trace, suffix: str, by: str, notes: Notes) -> tuple[Iterator[str], str]:
    """What to write, and what kind of picture Graphviz makes of it first, if it is to."""
    from chakrasim.report.picture.files import dot_texts, graphml_texts, svg_texts
    from chakrasim.report.picture.graph import MOST_NODES, picture_of

    picture = picture_of(trace, by)
    if picture.missing:
        notes.warn(f"left out {picture.missing:,} dependencies on nodes that the trace does not hold")
    if by == "auto" and len(trace) > MOST_NODES:
        notes.warn(f"the {len(trace):,} nodes are drawn as {len(picture.boxes):,} groups; --by none draws all")
    if suffix == ".graphml":
        return graphml_texts(picture), ""
    if suffix == ".svg" and shutil.which("dot") is None:
        return svg_texts(picture), ""
    return dot_texts(picture), "" if suffix == ".dot" else suffix[1:]


def _rendered(texts: Iterator[str], output: str, kind: str) -> bytes:
    """What Graphviz makes of it."""
    with tempfile.TemporaryFile() as source:
        source.writelines(text.encode() for text in texts)
        source.seek(0)
        done = subprocess.run(["dot", f"-T{kind}"], stdin=source, capture_output=True, check=False)
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError("Graphviz failed", file=output, found=message[0] if message else f"exit {done.returncode}")
    return done.stdout


def _write(texts: Iterable[str | bytes], output: str) -> None:
    from chakrasim.files.outputs import open_whole

    with open_whole(output) as file:
        for text in texts:
            file.write(text.encode("utf-8", "replace") if isinstance(text, str) else text)
