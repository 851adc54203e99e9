"""``chakrasim jsonize``: a Chakra trace as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from chakrasim.cli.options import add_reading
from chakrasim.cli.output import announce_compilation, tell_warnings, write_data
from chakrasim.cli.reference_names import add_files, files
from chakrasim.notes import Notes

SUMMARY = "Write a Chakra trace as JSON"
EXAMPLES = """\
examples:
  chakrasim jsonize step.0.et -o step.0.json
  chakrasim jsonize step.0.et -o -
  chakrasim jsonize --input_filename step.0.et --output_filename step.0.json --compat chakra
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    add_files(parser, "Chakra trace, plain or gzip", "file to write; '-' is standard output")
    parser.add_argument(
        "--compat",
        choices=("chakra",),
        help="write what chakra_jsonizer writes: a document for each node, which together are no JSON document",
    )
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read and write. Raises InputError."""
    inputs, output = files(options)
    announce_compilation("trace")
    from chakrasim.compat.chakra_jsonize import concatenated_texts
    from chakrasim.trace import read_trace
    from chakrasim.trace.chakra.json_text import document_texts

    notes = Notes()
    trace = read_trace(inputs[0], lenient=options.lenient, notes=notes)

    def skipped(count: int) -> None:
        notes.warn(f"left out {count:,} nodes from the first empty one on, as chakra_jsonizer does")

    texts = concatenated_texts(trace, skipped) if options.compat else document_texts(trace)
    if options.strict:
        texts = iter([*texts])
        notes.refuse()
    _write(texts, output)
    tell_warnings(notes.warnings, options)
    return 0


def _write(texts: Iterator[str], output: str) -> None:
    if output == "-":
        write_data(*texts)
        return
    from chakrasim.files.outputs import open_whole

    with open_whole(output) as file:
        for text in texts:
            file.write(text.encode())
