"""``chakrasim what-if``: what would be if something were faster, slower, ideal, or elsewhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from chakrasim.cli.job_options import add_inputs, add_limits, add_model, files_of
from chakrasim.cli.options import real_number, whole_number
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, question_of, write_report
from chakrasim.cli.what_if import recorded, simulated, stragglers
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.report.page.parts import Page
    from chakrasim.text.layout import Section

SUMMARY = "Ask what would be if something were faster, slower, ideal, or on another machine"
EXAMPLES = """\
examples:
  chakrasim what-if traces/step --machine hgx-h100-8 --set rank:0-7=1.2             # a node is 20 % slower
  chakrasim what-if traces/step --machine hgx-h100-8 --set network[0].bandwidth='900 GB/s'
  chakrasim what-if traces/step --machine hgx-h100-8 --set op:gemm=0.5 --set kind:all-reduce=0
  chakrasim what-if traces/step --machine h100 --gpus 64 --slow 5=1.3 --stragglers  # S, S_x, M
  chakrasim what-if traces/step --machine hgx-h100-8 --jitter 0.03 --fail-slow 0.005=1.1 --draws 1000
  chakrasim what-if recorded --set machine=hgx-h100-8                               # what was recorded, elsewhere
  chakrasim what-if device.0.json.gz --set communication=0 --json f.json            # one rank's PyTorch trace
  chakrasim what-if steps.parquet --meta job.yaml --json stragglers.json            # the open straggler traces
  chakrasim what-if steps.parquet --meta job.yaml --set backward-compute=0.5 --draws 600 --seed 1

TARGET of a simulated or replayed job: all, compute, communication, rank:0-7,16, stage:N, op:CLASS, kind:all-reduce,
link:'dim 0', module:NAME, node:NAME (* for any letters), or another machine: a place of its file, machine=NAME,
device=NAME, nic=800G, fabric=KIND, library=NAME, network-model=KIND; 'rank:3&op:gemm' is what is both. Of one rank's
PyTorch trace: all, communication, compute, memory, host, kernel:NAME, op:NAME. Of straggler traces: kinds of
operations, stage:N, dp_rank:N, worker:DP/STAGE. FACTOR is how many times as long it takes, or ideal:
what equal ones take in the mean.

exit codes: 0 done; 2 unusable input (or, with --strict, any warning); 3 a rank can never finish; 130 interrupted
"""
MOST_DRAWS: Final = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_inputs(parser, settings=False)
    question = parser.add_argument_group("question")
    question.add_argument(
        "--set", action="append", default=[], metavar="TARGET=FACTOR",
        help="what is different, all of it at once; see below",
    )  # fmt: skip
    question.add_argument(
        "--scenarios", metavar="FILE", help="many questions: a scenario a line, its changes separated by ';'"
    )
    question.add_argument(
        "--stragglers", action="store_true", help="what unequal times of equal nodes cost: S, S_x and M (OSDI 2025)"
    )
    question.add_argument(
        "--jitter", type=real_number, metavar="X",
        help="each rank computes faster or slower by chance: the deviation of its factor's logarithm, 0.03, say",
    )  # fmt: skip
    question.add_argument("--fail-slow", metavar="SHARE=FACTOR", help="so large a share of ranks is so much slower")
    question.add_argument(
        "--draws", type=_draws, metavar="N|auto",
        help="a distribution from so many draws; auto: until the median is known to 0.5 %% (of recorded steps)",
    )  # fmt: skip
    question.add_argument("--meta", metavar="FILE", help="of straggler traces: the job's sizes; default: as found")
    add_model(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    add_report(output)
    output.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    add_limits(parser)


def _draws(text: str) -> int:
    """How many; 0 stands for auto."""
    return 0 if text == "auto" else whole_number(1, MOST_DRAWS)(text)


def run(options: argparse.Namespace) -> int:
    """Answer and print. Raises InputError and StallError."""
    inputs = files_of(options)
    check_outputs(options, inputs)
    notes = Notes()
    answer, sections = _answer(options, notes)
    tell_warnings(notes.warnings, options)
    write_report(options, lambda: _page(answer, sections(answer), notes, options), inputs)
    report(options, answer.to_dict, lambda: sections(answer))
    return 0


def _page(answer: object, sections: list[Section], notes: Notes, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.answer import what_if_page

    asked = f"What if {', '.join(options.set)}: how" if options.set else "What if: how"
    question = question_of(options, f"{asked} long does {{}} take{{}}?")
    return what_if_page(answer, sections, question=question, warnings=list(notes.warnings))


def _answer(options: argparse.Namespace, notes: Notes) -> tuple[Any, Any]:
    """The answer and what makes tables of it, by what the input is."""
    from chakrasim.report.tables.answers import stragglers as straggler_tables
    from chakrasim.report.tables.answers.what_if import recorded_sections, simulated_sections

    if stragglers.takes(options.prefix):
        _announce(options, "event_graph")
        return stragglers.run(options, notes), straggler_tables.straggler_sections
    if recorded.takes(options.prefix):
        _announce(options, "trace", "linker", "event_graph")
        return recorded.run(options, notes), recorded_sections
    _announce(options, "trace", "simulator", "event_graph")
    return simulated.run(options, notes), simulated_sections


def _announce(options: argparse.Namespace, *rooms: str) -> None:
    if not options.quiet:
        announce_compilation(*rooms)
