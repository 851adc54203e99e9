"""What `compare_jobs` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from chakrasim.text.shown import Shown

FORMAT: Final = "chakrasim-compare-jobs/1"


@dataclass(frozen=True)
class Amount:
    """An amount of work of both jobs; ``relative``: their difference over the greater."""

    what: str
    kind: str
    a: int
    b: int
    relative: float


@dataclass(frozen=True)
class OnMachine:
    """Both jobs on one machine; a side that cannot run there has ``fault``, no times, and no parts.

    ``exposed_share``: exposed communication of all ranks over all their time; ``link`` and ``link_share``: the busiest
    link and how busy it is, where the machine is a graph. ``apart``: half the differences of the shares of parts.
    """

    machine: str
    step_ns: tuple[int | None, int | None]
    parts: tuple[Mapping[str, float], Mapping[str, float]]
    exposed_share: tuple[float | None, float | None]
    link: tuple[str, str]
    link_share: tuple[float | None, float | None]
    faults: tuple[str, str]
    difference: float | None
    apart: float | None


@dataclass(frozen=True)
class PairOfJobs:
    """A job of A and the job of B that it is compared with.

    Attributes
    ----------
    a, b: their names.
    faults: nodes and dependencies that a simulation refuses, of each.
    structure: figures of both: nodes, ranks, depth, width, mean degree, longest path, by name.
    roles_apart, in_degrees_apart, out_degrees_apart: 0 (the same shares) to 1.
    work: operations, bytes and communication, the largest relative difference first.
    machines: times.
    """

    a: str
    b: str
    faults: tuple[int, int]
    structure: Mapping[str, tuple[float, float]]
    roles_apart: float
    in_degrees_apart: float
    out_degrees_apart: float
    work: tuple[Amount, ...]
    machines: tuple[OnMachine, ...]

    @property
    def largest(self) -> float:
        """The largest relative difference of any amount of work."""
        return max((one.relative for one in self.work), default=0.0)


@dataclass(frozen=True)
class Decision:
    """What is chosen by A's times and what by B's: of ``among`` things, Kendall's rank correlation (None: ties only),
    and how much longer the choice by A takes in B than B's best (``regret``)."""

    what: str
    where: str
    among: int
    kendall: float | None
    regret: float
    chosen: tuple[str, str]


@dataclass(frozen=True)
class Privacy:
    """How near A's jobs come to B's.

    Attributes
    ----------
    nearest: of each job of A the nearest of B and the distance to it.
    own: of each job of B the distance to the nearest other one; empty where B is one job.
    names, names_shared: distinct names of nodes in A, and those of them that occur in B; ``examples`` of these.
    works, works_shared: the same of names with exact operations and bytes.
    """

    nearest: tuple[tuple[str, str, float], ...]
    own: tuple[float, ...]
    names: int
    names_shared: int
    examples: tuple[str, ...]
    works: int
    works_shared: int


@dataclass(frozen=True, eq=False)
class JobsComparison(Shown):
    """Two jobs, or sets of them, beside each other.

    Attributes
    ----------
    a, b: what was given, and how many jobs each has (``counts``).
    pairs: jobs that are compared with one another.
    decisions: what is chosen by either side's times.
    privacy: see there.
    notes: what was taken for granted, and what could not be compared.
    """

    a: str
    b: str
    counts: tuple[int, int]
    pairs: tuple[PairOfJobs, ...]
    decisions: tuple[Decision, ...]
    privacy: Privacy
    notes: tuple[str, ...] = field(default=())

    @property
    def valid(self) -> tuple[int, int]:
        """Jobs of each side, of those compared, without faults that run on every machine."""
        return tuple(sum(not pair.faults[i] and not any(one.faults[i] for one in pair.machines) for pair in self.pairs)
                     for i in (0, 1))  # type: ignore[return-value]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim compare-jobs --json`` writes them."""
        return {
            "format": FORMAT,
            "a": self.a,
            "b": self.b,
            "jobs": list(self.counts),
            "valid": list(self.valid),
            "pairs": [{**asdict(pair), "largest_relative_difference": pair.largest} for pair in self.pairs],
            "decisions": [asdict(one) for one in self.decisions],
            "privacy": asdict(self.privacy),
            "notes": list(self.notes),
        }

    def _in_short(self) -> dict[str, str]:
        return {"a": f"{self.counts[0]:,} jobs of {self.a}", "b": f"{self.counts[1]:,} jobs of {self.b}"}
