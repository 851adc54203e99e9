"""Several jobs on one network: when each ended, and what the others cost it."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.report.tables.simulation import summary_sections
from chakrasim.simulator.together import JobsResult
from chakrasim.text.amounts import ranks_text, share_text, time_text
from chakrasim.text.layout import Section


def jobs_sections(result: JobsResult) -> Iterator[Section]:
    """The tables of a run of several jobs: the jobs, the links that they share, then the run."""
    rows = tuple(
        (
            job.name,
            ranks_text(sorted(job.ranks)),
            time_text(job.start_ns),
            *("never" if time is None else time_text(time) for time in (job.finish_ns, job.alone_ns)),
            "" if job.slowdown is None else f"{job.slowdown:.3f}",
        )
        for job in result.jobs
    )
    lines = ("slowdown: time beside the others over time alone on the same ranks",)
    yield Section("Jobs", ("job", "ranks", "start", "finish", "alone", "slowdown"), rows, (0, 1), lines)
    shared = {link.name: link for job in result.jobs for link in job.shared_links}
    users = tuple(
        (name, "; ".join(f"{job} ({share_text(size, sum(link.bytes.values()))})" for job, size in link.bytes.items()))
        for name, link in sorted(shared.items(), key=lambda one: -sum(one[1].bytes.values()))
    )
    yield Section("Links that jobs share", ("link", "used by"), users, (0, 1))
    yield from summary_sections(result.result)
