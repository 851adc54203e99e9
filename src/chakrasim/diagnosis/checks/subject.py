"""A rank under examination, and how its findings are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from chakrasim.diagnosis.checks.findings import Finding, Severity
from chakrasim.diagnosis.device_rows import DeviceRows
from chakrasim.trace.host.columns import HostTrace

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR

#: Clocks of host and device, and rounding, differ by as much without anything being wrong.
TOLERANCE_NS: Final = 1000


@dataclass(frozen=True, eq=False)
class Subject:
    """One rank's device trace under examination, and its host trace where there is one."""

    rank: int
    file: str
    rows: DeviceRows
    host: HostTrace | None = None

    def finding(
        self, code: str, severity: Severity, cause: str, consequence: str, remedy: str, **evidence: Any
    ) -> Finding:
        """A finding about this rank."""
        return Finding(code, severity, cause, consequence, remedy, (self.rank,), (self.file,), evidence)
