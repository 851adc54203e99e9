"""Links over time, as counters: what the busiest carry, beside the ranks."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.report.timeline.events import Counter, Process
from chakrasim.simulator.link_course import LinkCourses, link_courses
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import number_text, plural, share_text

RATE: Final = "GB/s"
"""10^9 bytes a second, which is a byte a ns."""
MOST_LINKS: Final = 16


def link_process(result: SimulationResult, pid: int, most: int = MOST_LINKS) -> Process | None:
    """The links that were busy longest, a counter each, whose integral over time is what the link carried. The name
    says how many are left out; of a run whose links are not known over time, why. None where a run has no links."""
    found = link_courses(result, most)
    if isinstance(found, str):
        return Process(pid, found, pid) if found else None
    return Process(pid, _title(found), pid, counters=[_counter(found, i) for i in range(len(found.names))])


def _title(found: LinkCourses) -> str:
    equal = f", each for {found.copies:,} equal ones" if found.copies > 1 else ""
    if not found.left_out:
        return f"links that carried something{equal}"
    left = f"{plural(found.left_out, 'other')}, at most {share_text(found.most_left, 1.0)} busy, left out"
    return f"the {len(found.names):,} busiest links{equal} ({left})"


def _counter(found: LinkCourses, number: int) -> Counter:
    """Mean rates between the times that are known, those that go on said once."""
    rate = np.diff(found.carried[:, number]) / np.diff(found.times_ns)
    changes = np.flatnonzero(np.concatenate([[True], rate[1:] != rate[:-1]]))
    times, values = found.times_ns[:-1][changes], rate[changes]
    if values[-1]:
        times, values = np.append(times, found.times_ns[-1]), np.append(values, 0.0)
    name = f"{found.names[number]} (of {number_text(found.capacity[number])} {RATE})"
    return Counter(name, RATE, times, values)
