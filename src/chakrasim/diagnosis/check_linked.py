"""What only linking a rank's traces tells of them."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.diagnosis import remedies
from chakrasim.diagnosis.findings import Finding
from chakrasim.diagnosis.subject import WARNING
from chakrasim.trace.linked import MOST_DELAY_ONLY, LinkedTrace, shares_by_step


def check_linked(rank: int, linked: LinkedTrace, files: tuple[str, ...]) -> Iterator[Finding]:
    """Findings about one linked trace."""
    high = [path for path in linked.step_paths if path.delay_only_share > MOST_DELAY_ONLY]
    if not high:
        return
    worst = max(high, key=lambda path: path.delay_only_share)
    where = f"of step {worst.step}" if worst.step >= 0 else "of the trace"
    yield Finding(
        "unexplained-delays",
        WARNING,
        f"{100 * worst.delay_only_share:.1f} % of the critical path {where} is delay that no dependency explains",
        "most often these are waits between streams that were not recorded: a replay repeats them as they were, so its "
        "error says nothing about them; a simulation on a machine leaves them out",
        f"record synchronisation: {remedies.SYNC_EVENTS}",
        (rank,),
        files,
        {"delay_only_share": shares_by_step(linked)},
    )
