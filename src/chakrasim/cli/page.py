"""The option --report: a command's result as one page that opens without a network."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from chakrasim.cli.output import check_targets
from chakrasim.errors import InputError

if TYPE_CHECKING:
    from chakrasim.report.page.parts import Page
    from chakrasim.report.picture.measured import Measured
    from chakrasim.text.layout import Section


def add_report(group: argparse._ActionsContainer) -> None:
    """The option."""
    group.add_argument("--report", metavar="FILE", help="write a page for a browser, which needs no network: FILE.html")


def check_report(path: str | None) -> None:
    """Raise InputError for a page whose name says that it is something else; `check_targets` does the rest."""
    if path is None:
        return
    if path == "-":
        raise InputError("a page cannot go to standard output", remedy="name a file, for instance out.html")
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".html", ".htm"):
        raise InputError("no browser would open the page under this name", file=path,
                         found=ending or "no ending", expected=".html",
                         remedy="name it out.html, for instance")  # fmt: skip


def check_outputs(options: argparse.Namespace, inputs: Iterable[str | None]) -> None:
    """Raise InputError for files of --json and --report that cannot be written, or that are inputs."""
    check_targets({"--json": options.json, "--report": options.report}, [*inputs])
    check_report(options.report)


def question_of(options: argparse.Namespace, text: str) -> str:
    """A question about a job on a machine; ``text`` has a place for each."""
    workload = options.prefix or options.workload_configuration
    names = [options.machine or options.network, f"{options.gpus} GPUs" if options.gpus else None]
    where = ", ".join(filter(None, names))
    return text.format(workload, f" on {where}" if where and not options.replay_durations else " as recorded")


def write_report(options: argparse.Namespace, page: Callable[[], Page], inputs: Iterable[str | None]) -> None:
    """Write the page where --report says, with the inputs' hashes and the command; without --report nothing is made.

    ``inputs`` are files, folders and prefixes; what is none of these (a machine's name) is left out.
    """
    if options.report is None:
        return
    from chakrasim.report.page.inputs import inputs_of
    from chakrasim.report.page.render import write_page

    write_page(
        options.report, replace(page(), inputs=inputs_of(inputs), command=shlex.join(["chakrasim", *options.typed]))
    )


def write_tables(
    options: argparse.Namespace,
    question: str,
    sections: Callable[[], Iterable[Section]],
    inputs: Iterable[str | None],
    measured: Measured | None = None,
) -> None:
    """The same of a result that is tables; ``measured`` is one with predictions beside measured times, for a picture of
    them."""

    def page() -> Page:
        from chakrasim.report.page.answer import agreement_parts, sections_page

        return sections_page(question, [*sections()], parts=[] if measured is None else agreement_parts(measured))

    write_report(options, page, inputs)
