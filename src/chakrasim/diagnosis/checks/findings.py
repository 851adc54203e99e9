"""What the doctor says: a finding has a cause, a consequence and a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
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
