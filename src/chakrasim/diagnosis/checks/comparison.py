"""What of a rank is needed to compare it with others, and what comparing tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, WARNING
from chakrasim.linker.across_ranks.agreement import check_agreement
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.text import remedies
from chakrasim.text.amounts import ranks_text, time_text
from chakrasim.trace.linked.columns import LinkedTrace

#: Clocks further apart than this are worth a note.
CLOCK_NOTE_NS: Final = 1_000_000
#: A clock that runs at another speed, and collectives of the host, leave as much after correction.
RESIDUAL_NOTE_NS: Final = 100_000

_SEVERITY: Final = {
    "group": ERROR,
    "order": ERROR,
    "kind": ERROR,
    "count": WARNING,
    "size": WARNING,
    "message": WARNING,
}
_CONSEQUENCES: Final = {
    "group": "collectives of this group cannot be matched",
    "order": "the ranks would start these collectives in different orders, which deadlocks or mixes them up",
    "kind": "these are not the same collectives: traces of different runs, or some were lost",
    "count": "those that a rank lacks cannot be compared; converted, they only take their recorded duration",
    "size": "a simulation needs one size: converted, all ranks take the largest",
    "message": "it cannot be compared; converted, it only takes its recorded duration",
}


def compare(ranks: Sequence[LinkedTrace]) -> Iterator[Finding]:
    """Findings about collectives and clocks of several ranks (each as `begun` leaves it)."""
    if len(ranks) < 2:
        return
    for found in check_agreement(ranks):
        if found.what in _SEVERITY:
            yield Finding(
                f"collective-{found.what}" if found.what != "message" else "message",
                _SEVERITY[found.what],
                found.text,
                _CONSEQUENCES[found.what],
                "use traces of one run, and a step that all ranks recorded whole",
                found.ranks,
                evidence={"group": found.group, "number": found.number, "times": found.times},
            )
    yield from _unknown_groups(ranks)
    yield from _clocks(align(ranks))


def _unknown_groups(ranks: Sequence[LinkedTrace]) -> Iterator[Finding]:
    missing = {trace.rank: int((trace.communication.group < 0).sum()) for trace in ranks}
    without = sorted(rank for rank, count in missing.items() if count)
    if without:
        yield Finding(
            "unknown-groups",
            WARNING,
            f"of {sum(missing.values()):,} collectives nothing tells the process group (ranks {ranks_text(without)})",
            "they cannot be matched between ranks; converted, they only take their recorded duration",
            remedies.UNKNOWN_GROUPS,
            tuple(without),
            evidence={"collectives": {str(rank): missing[rank] for rank in without}},
        )


def _clocks(aligned: Sequence[LinkedTrace]) -> Iterator[Finding]:
    if not any((trace.communication.transfer_ns >= 0).any() for trace in aligned):
        return
    shifts = {trace.rank: trace.clock_shift_ns for trace in aligned}
    off = sorted(rank for rank, shift in shifts.items() if abs(shift) > CLOCK_NOTE_NS)
    if off:
        worst = max(abs(shifts[rank]) for rank in off)
        yield Finding(
            "clocks-apart",
            NOTE,
            f"the clocks of ranks {ranks_text(off)} are up to {time_text(worst)} off, by the ends of "
            "shared collectives",
            "comparisons of ranks correct for it",
            "none is needed; synchronise the clocks of the machines (PTP, NTP)",
            tuple(off),
            evidence={"shift_ns": {str(rank): shift for rank, shift in shifts.items()}},
        )
    residuals = {trace.rank: trace.counts.get("clock_residual_ns", 0) for trace in aligned}
    drifting = sorted(rank for rank, residual in residuals.items() if residual > RESIDUAL_NOTE_NS)
    if drifting:
        yield Finding(
            "uneven-ends",
            NOTE,
            f"on one clock, ranks {ranks_text(drifting)} still end the collectives they share up to "
            f"{time_text(max(residuals[rank] for rank in drifting))} (median) before or after the others",
            "waiting and transfer of collectives are no more exact than that",
            "none for collectives of the host (gloo); else record fewer steps at a time, so that clocks drift less",
            tuple(drifting),
            evidence={"residual_ns": {str(rank): residuals[rank] for rank in drifting}},
        )
