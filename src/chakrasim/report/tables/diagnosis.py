"""What the doctor found, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chakrasim.diagnosis.checks.findings import Finding, Severity, merge
from chakrasim.diagnosis.doctor import Diagnosis
from chakrasim.diagnosis.facts import RankFacts
from chakrasim.report.tables.cut import more_line
from chakrasim.text.amounts import ranks_text, share_text, time_text
from chakrasim.text.layout import Section

MOST_RANKS = 64
MOST_IGNORED = 8
_WORDS = {Severity.ERROR: "ERROR", Severity.WARNING: "warning", Severity.NOTE: "note"}


def diagnosis_sections(diagnosis: Diagnosis) -> list[Section]:
    """The report of ``chakrasim doctor``: verdict, ranks, findings, files left out."""
    return [
        Section(lines=(diagnosis.headline,), loud=diagnosis.exit_code == 2),
        *_programs(diagnosis.ranks),
        *_ranks(diagnosis.ranks),
        *finding_sections(diagnosis.findings),
        _ignored(diagnosis),
    ]


def _programs(ranks: Sequence[RankFacts]) -> Iterator[Section]:
    """What all ranks state of program and machine, once."""
    rows = []
    for name, values in (
        ("program", [facts.program for facts in ranks]),
        ("GPU", [facts.gpu for facts in ranks]),
        ("versions", [facts.pytorch for facts in ranks]),
        ("host schema", [facts.schema for facts in ranks]),
        ("ranks in the run", [str(facts.world_size) if facts.world_size > 0 else "" for facts in ranks]),
    ):
        stated = list(dict.fromkeys(value for value in values if value))
        if stated:
            rows.append((name, "; ".join(stated[:3]) + (" ..." if len(stated) > 3 else "")))
    yield Section(rows=tuple(rows), left=(0, 1))


def _ranks(ranks: Sequence[RankFacts]) -> Iterator[Section]:
    rows = tuple(
        (
            str(facts.rank),
            _name(facts.host),
            _name(facts.device),
            facts.paired_by or "-",
            _steps(facts),
            f"{facts.operators or facts.nodes:,}",
            f"{facts.kernels:,}",
            f"{facts.collectives:,}",
            time_text(facts.span_ns) if facts.span_ns else "-",
            share_text(facts.busy_ns, facts.span_ns if facts.kernels + facts.copies else 0),
            share_text(max(facts.delay_only_share.values(), default=0), 1 if facts.delay_only_share else 0),
        )
        for facts in ranks[:MOST_RANKS]
    )
    more = more_line(ranks, rows, "rank")
    columns = ("rank", "host trace", "device trace", "paired by", "steps", "operators", "kernels", "collectives")
    yield Section("Ranks", (*columns, "span", "device busy", "delay only"), rows, (1, 2, 3, 4), more)


def _name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1] or "-"


def _steps(facts: RankFacts) -> str:
    text = ranks_text(facts.steps) if facts.steps else "-"
    return f"{text} (partial: {ranks_text(facts.partial_steps)})" if facts.partial_steps else text


def finding_sections(findings: Sequence[Finding]) -> Iterator[Section]:
    """A section for each kind of finding, the worst first."""
    for finding in merge(findings):
        ranks = finding.ranks
        where = f", {'ranks' if len(ranks) > 1 else 'rank'} {ranks_text(sorted(ranks))}" if ranks else ""
        lines = (f"cause: {finding.cause}", f"consequence: {finding.consequence}", f"remedy: {finding.remedy}")
        title = f"{_WORDS[finding.severity]}: {finding.code}{where}"
        yield Section(title, lines=lines, loud=finding.severity is Severity.ERROR)


def _ignored(diagnosis: Diagnosis) -> Section:
    shown = diagnosis.ignored[:MOST_IGNORED]
    lines = tuple(f"{file}: {why}" for file, why in shown)
    return Section("Files left out" if lines else "", lines=lines + more_line(diagnosis.ignored, shown, "file"))
