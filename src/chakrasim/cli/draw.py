"""``chakrasim draw``: a Chakra trace, a network, or what ranks do over time, as a picture."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from chakrasim.cli.files import add_files, files
from chakrasim.cli.machine_options import SIZE, add_size, sized_machine
from chakrasim.cli.options import add_reading, rank_list
from chakrasim.cli.output import announce_compilation, check_targets, tell_warnings
from chakrasim.compat.option_names import new_form
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.machine import NetworkGraph
    from chakrasim.trace import Trace

SUMMARY = "Draw the graph of a Chakra trace, a network, or what ranks of a simulated job do over time"
EXAMPLES = """\
In graphs of more than 500 nodes, those of a module or kind of work in a phase of the step (--by phase), of an operator
(--by module), or of a thread or stream (--by stream) become one box. Where arrows would cross too much, the strongest
into each box is drawn. Solid arrows are data dependencies, dashed ones control dependencies. .pdf needs the program dot
of Graphviz; .svg takes it if it is there, and a simple layout of our own if not.

Of a network every rank, NIC, switch and cable is drawn, islands in frames; of a large one islands, or all alike, are
one box with a count. --load colours cables by the share of a run in which they were busy.

With --machine the job of the prefix is simulated, and what the ranks do is drawn over time.

examples:
  chakrasim draw traces/step --machine hgx-h100-16 --ranks 3,12 -o gantt.svg
  chakrasim draw step.0.et -o step.svg
  chakrasim draw step.0.et -o step.dot --by none
  chakrasim draw --input_filename step.0.et --output_filename step.graphml --compat chakra
  chakrasim draw --network h100 --gpus 32 -o h100.svg
  chakrasim draw --network fabric.graphml -o fabric.html --load result.json
"""

SUFFIXES = (".dot", ".graphml", ".svg", ".pdf")
OF_NETWORKS = (".dot", ".html", ".svg", ".pdf")
OF_RUNS = ("ranks", "comm_group", "network_model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    add_files(parser, "Chakra trace, plain or gzip", f"file to write: {', '.join(SUFFIXES)}; of a network also .html")
    parser.add_argument(
        "--by",
        choices=("auto", "phase", "module", "stream", "none"),
        default="auto",
        help="what makes a box: a phase's module or kind of work, an operator with all below it, a thread or stream, a "
        "node (default: by size)",
    )
    parser.add_argument("--compat", choices=("chakra",), help="draw every node as chakra_visualizer does")
    add_reading(parser)
    run_ = parser.add_argument_group("ranks of a run over time, of a job: PREFIX")
    run_.add_argument("--machine", metavar="NAME|FILE", help="simulate the job on this machine")
    run_.add_argument(
        "--ranks", type=rank_list, metavar="RANKS", help="such as 3,12 or 0-7; default: one of each class"
    )
    run_.add_argument("--comm-group", metavar="FILE", help="the job's communicator groups, ASTRA-sim's JSON")
    run_.add_argument(
        "--network-model",
        choices=("unaware", "aware", "flow", "packet"),
        help="how bytes share links; default: as of simulate",
    )
    network = parser.add_argument_group("a network instead of a trace, and the size of a board's machine")
    network.add_argument("--network", metavar="NAME|FILE", help="a machine, or a file of a network in any form")
    network.add_argument("--load", metavar="FILE", help="a result of simulate --json on it, to colour cables by load")
    add_size(network)


def run(options: argparse.Namespace) -> int:
    """Read and draw. Raises InputError."""
    if options.network is not None:
        return _run_network(options)
    if options.machine is not None:
        return _run_ranks(options)
    if (name := _given(options, OF_RUNS)) is not None:
        raise InputError(f"--{name} is of a simulated job", remedy=f"give --machine, or leave --{name} out")
    if (name := _given(options, ("load", *SIZE))) is not None:
        raise InputError(f"--{name} is of a network", remedy=f"give --network, or leave --{name} out")
    inputs, output = files(options)
    suffix = _suffix(output, SUFFIXES, (inputs[0],))
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


def _given(options: argparse.Namespace, names: Sequence[str]) -> str | None:
    """The first of these options that is given."""
    found = (name.replace("_", "-") for name in names if getattr(options, name) is not None)
    return next(found, None)


def _run_ranks(options: argparse.Namespace) -> int:
    """Simulate a job and draw what ranks do."""
    for name, usual in (("by", "auto"), ("compat", None), ("load", None)):
        if getattr(options, name) != usual:
            raise InputError(f"--{name} does not go with --machine", remedy="leave one of them out")
    inputs, output = files(options)
    _suffix(output, (".svg",), (inputs[0], "--machine", options.machine))
    check_targets({"-o": output}, [inputs[0], options.machine, options.comm_group])
    announce_compilation("trace", "simulator")
    from chakrasim.report.picture.gantt import MOST_RANKS, write_gantt
    from chakrasim.simulator.api import simulate

    notes = Notes()
    result = simulate(
        inputs[0],
        machine=sized_machine(options, notes),
        comm_groups=options.comm_group,
        network_model=options.network_model,
        lenient=options.lenient,
        strict=options.strict,
    )
    notes.warn(*result.warnings)
    if options.ranks is None and len(result.class_ranks) > MOST_RANKS:
        notes.warn(f"{MOST_RANKS} of {len(result.class_ranks):,} classes of ranks are drawn; --ranks chooses others")
    tell_warnings(notes.warnings, options)
    write_gantt(result, output, ranks=options.ranks)
    return 0


def _run_network(options: argparse.Namespace) -> int:
    """Read a network and draw it."""
    if options.input is not None or options.input_filename is not None:
        raise InputError("a trace and --network are given", remedy="leave one of them out")
    for name, usual in (("by", "auto"), ("compat", None), *((name, None) for name in ("machine", *OF_RUNS))):
        if getattr(options, name) != usual:
            said = name.replace("_", "-")
            raise InputError(f"--{said} is of traces, not of networks", remedy="leave it out")
    output = options.output if options.output is not None else options.output_filename
    if output is None:
        raise InputError("no output is given", remedy="add -o FILE")
    suffix = _suffix(output, OF_NETWORKS, ("--network", options.network))
    check_targets({"-o": output}, [options.network, options.load])
    from chakrasim.report.picture.network import network_picture
    from chakrasim.report.picture.network_files import network_dot, network_html, network_svg

    notes = Notes()
    graph = _network(options, notes)
    load = None
    if options.load is not None:
        from chakrasim.simulator.outcome.graph_links import read_loads

        load = read_loads(options.load, graph, notes)
    picture = network_picture(graph, load)
    if picture.short:
        notes.warn(f"the {graph.vertices:,} vertices are drawn as {len(picture.boxes):,} boxes: {picture.short}")
    tell_warnings(notes.warnings, options)
    made = {".html": network_html, ".svg": network_svg}.get(suffix, network_dot)(picture)
    _write([_rendered(made, output, "pdf")] if suffix == ".pdf" else made, output)
    return 0


def _network(options: argparse.Namespace, notes: Notes) -> NetworkGraph:
    """The graph in a file, or of a machine by its name and size."""
    from chakrasim.machine import load_machine, read_graph

    size = {name: getattr(options, name) for name in SIZE}
    file = os.path.exists(options.network) or os.path.basename(options.network) != options.network
    if file and not any(value is not None for value in size.values()):
        return read_graph(options.network, notes)
    return load_machine(options.network, notes, **size).graph


def _suffix(output: str, known: Sequence[str], what: Sequence[str]) -> str:
    """The ending of the output's name. Raises InputError for one that is not known, and for what cannot be made."""
    suffix = os.path.splitext(output)[1]
    if suffix not in known:
        from difflib import get_close_matches

        meant = output.removesuffix(suffix) + next(iter(get_close_matches(suffix, known, 1)), ".svg")
        raise InputError(
            "this kind of picture is not known",
            file=output,
            expected=f"one of {', '.join(known)}",
            remedy=f"say {new_form('draw', *what, '-o', meant)}",
        )
    if suffix == ".pdf" and shutil.which("dot") is None:
        raise InputError(
            "a PDF needs the program dot of Graphviz, which is not installed",
            file=output,
            remedy="install Graphviz, or write .svg",
        )
    return suffix


def _texts(trace: Trace, suffix: str, by: str, notes: Notes) -> tuple[Iterator[str], str]:
    """What to write, and what kind of picture Graphviz makes of it first, if it is to."""
    from chakrasim.report.picture.files import dot_texts, graphml_texts, svg_texts
    from chakrasim.report.picture.graph import MOST_NODES, picture_of

    picture = picture_of(trace, by)
    if picture.missing:
        notes.warn(f"left out {picture.missing:,} dependencies on nodes that the trace does not hold")
    if picture.weaker:
        notes.warn(f"drew the strongest arrow into each box; {picture.weaker:,} others are left out")
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
