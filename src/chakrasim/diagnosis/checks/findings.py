"""What the doctor says: a finding has a cause, a consequence and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    """Worth knowing; nothing is less exact for it."""
    WARNING = 1
    """Results are usable, some of them less exact or less complete."""
    ERROR = 2
    """Results would be wrong, or there are none."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Attributes
    ----------
    code: short fixed name, such as ``missing-sync-events``.
    severity, ranks, files: how bad, and where (ranks empty: of the folder).
    cause: what is so, with figures.
    consequence: what it makes wrong or impossible.
    remedy: what to do about it, with the lines of Python where that helps.
    evidence: the figures, by name.
    """

    code: str
    severity: Severity
    cause: str
    consequence: str
    remedy: str
    ranks: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self) | {
            "severity": self.severity.name.lower(),
            "ranks": list(self.ranks),
            "files": list(self.files),
        }

    def __str__(self) -> str:
        return f"{self.cause}: {self.consequence}"


def merge(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that several ranks share as one: that of the first, with all their ranks."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.severity, finding.consequence, finding.remedy), []).append(finding)
    merged = []
    for same in groups.values():
        first = same[0]
        if len(same) > 1:
            ranks = tuple(dict.fromkeys(rank for finding in same for rank in finding.ranks))
            files = tuple(dict.fromkeys(file for finding in same for file in finding.files))
            others = len({finding.cause for finding in same}) > 1
            where = f" (rank {first.ranks[0]}; the others are similar)" if others and first.ranks else ""
            first = replace(first, cause=first.cause + where, ranks=ranks, files=files)
        merged.append(first)
    return merged
