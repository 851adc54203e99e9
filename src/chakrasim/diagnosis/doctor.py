"""Whether a folder of traces can be trusted: each rank is read, examined and forgotten; then ranks are compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chakrasim.diagnosis.checks.comparison import compare
from chakrasim.diagnosis.checks.findings import Finding, Severity, merge
from chakrasim.diagnosis.checks.ranks import check_ranks
from chakrasim.diagnosis.checks.subject import ERROR, NOTE
from chakrasim.diagnosis.examination import ExaminedRank, examine
from chakrasim.diagnosis.facts import RankFacts
from chakrasim.diagnosis.files.discover import Survey, survey
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.text import remedies
from chakrasim.text.amounts import plural, ranks_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import Shown

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Diagnosis(Shown):
    """What the doctor found.

    Attributes
    ----------
    directory: the folder, "" where files were given.
    ranks: the facts of every rank, ascending.
    findings: the worst first, then by rank.
    ignored: files of the folder that are no traces of the profiler, and why.
    """

    directory: str
    ranks: tuple[RankFacts, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        """0 trustworthy, 1 usable with warnings, 2 unusable."""
        worst = max((finding.severity for finding in self.findings), default=NOTE)
        return int(worst)

    @property
    def verdict(self) -> str:
        """The exit code in words."""
        return ("trustworthy", "usable, with warnings", "unusable")[self.exit_code]

    @property
    def headline(self) -> str:
        """How many ranks, the verdict, and how many findings of each severity."""
        found = merge(self.findings)
        counts = [(level, sum(finding.severity is level for finding in found)) for level in reversed(Severity)]
        said = ", ".join(plural(count, level.name.lower()) for level, count in counts if count)
        return f"{plural(len(self.ranks), 'rank')}: {self.verdict}" + (f" ({said})" if said else "")

    def _in_short(self) -> dict[str, str]:
        return {
            "verdict": self.verdict,
            "ranks": f"{len(self.ranks):,}",
            "findings": ", ".join(dict.fromkeys(finding.code for finding in self.findings)) or "none",
        }

    def _tables(self) -> list[Section]:
        rows = tuple(
            (finding.severity.name.lower(), ranks_text(finding.ranks), str(finding), finding.remedy)
            for finding in self.findings
        )
        return [*super()._tables(), Section("Findings", ("severity", "ranks", "what", "remedy"), rows, (0, 1, 2, 3))]

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "directory": self.directory,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "ranks": [facts.to_mapping() for facts in self.ranks],
            "findings": [finding.to_mapping() for finding in self.findings],
            "ignored": [{"file": file, "why": why} for file, why in self.ignored],
        }


def diagnose(
    source: str | os.PathLike[str] | Sequence[RankFiles],
    *,
    map_file: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examine the traces of a folder, or of ranks already found.

    ``progress(done, all)`` is called after each rank. A file that cannot be read is a finding. Raises InputError for a
    folder that cannot be listed and for a wrong ``map_file``.
    """
    if isinstance(source, (str, os.PathLike)):
        found, directory = survey(source, map_file=map_file), os.fspath(source)
    else:
        found, directory = Survey(Path(), tuple(source), (), ()), ""
    examined: list[ExaminedRank] = []
    for files in found.ranks:
        examined.append(examine(files, found.ranks)[0])
        if progress is not None:
            progress(len(examined), len(found.ranks))
    return judge(found, examined, directory)


def judge(found: Survey, examined: Sequence[ExaminedRank], directory: str) -> Diagnosis:
    """The diagnosis of a folder all of whose ranks were examined."""
    ignored = tuple((_short(path, found.directory), why) for path, why in found.ignored)
    findings = [*found.findings, *(finding for one in examined for finding in one.findings)]
    if not examined:
        findings.append(_nothing(directory, ignored))
    facts = tuple(one.facts for one in examined)
    outlines = [one.outline for one in examined if one.outline is not None]
    findings += compare(outlines)
    findings += check_ranks(facts, have_one_clock=any(len(trace.communication) for trace in outlines))
    findings.sort(key=lambda finding: (-finding.severity, finding.ranks, finding.code))
    return Diagnosis(directory, facts, tuple(findings), ignored)


def _short(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _nothing(directory: str, ignored: Iterable[tuple[str, str]]) -> Finding:
    seen = "; ".join(f"{file}: {why}" for file, why in list(ignored)[:4])
    return Finding(
        "no-traces",
        ERROR,
        f"there are no traces of the PyTorch profiler in {directory or 'the list'}" + (f" ({seen})" if seen else ""),
        "there is nothing to work with",
        f"collect some: {remedies.PROFILE}",
    )


#: The public name: ``chakrasim.doctor``.
doctor = diagnose
