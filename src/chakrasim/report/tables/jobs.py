"""Several jobs on one network: when each ended, and what the others cost it."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.report.tables.cut import more_line
from chakrasim.report.tables.simulation import collectives_section, graph_links_section
from chakrasim.simulator.together import JobsResult
from chakrasim.text.amounts import plural, ranks_text, share_text, size_text, time_text
from chakrasim.text.layout import Section

MOST_LINKS = 10


def jobs_sections(result: JobsResult) -> Iterator[Section]:
    """The tables of a run of several jobs: the jobs, the links that they share, then collectives and links of all."""
    run = result.result
    used = sum(len(job.ranks) for job in result.jobs)
    head = (
        ("makespan", f"{time_text(run.makespan_ns)} ({run.makespan_ns:,} ns)"),
        ("ranks", f"{used:,} in {plural(len(result.jobs), 'job')}, of {len(run.finish_ns):,}"),
        ("moved", size_text(run.message_bytes)),
    )
    yield Section(rows=head, left=(0, 1))
    rows = tuple(
        (
            job.name,
            ranks_text(sorted(job.ranks)),
            time_text(job.start_ns),
            *("never" if time is None else time_text(time) for time in (job.finish_ns, job.alone_ns)),
            "" if job.slowdown is None else f"{job.slowdown:.3f}",
            time_text(job.exposed_comm_ns),
        )
        for job in result.jobs
    )
    lines = (
        "alone: what it takes without the others on the same ranks; slowdown: what it takes beside them, over that",
        "exposed: communication while nothing computes, mean over the job's ranks",
    )
    columns = ("job", "ranks", "start", "finish", "alone", "slowdown", "exposed")
    yield Section("Jobs", columns, rows, (0, 1), lines)
    yield _shared(result)
    yield collectives_section(run)
    yield graph_links_section(run)


def _shared(result: JobsResult) -> Section:
    links = {link.name: link.bytes for job in result.jobs for link in job.shared_links}
    order = sorted(links, key=lambda name: -sum(links[name].values()))
    rows = tuple(
        (name, "; ".join(f"{job} ({share_text(size, sum(links[name].values()))})" for job, size in links[name].items()))
        for name in order[:MOST_LINKS]
    )
    lines = more_line(order, rows, "link") if order else ("no link carried bytes of more than one job",)
    return Section("Links that jobs share", ("link", "used by"), rows, (0, 1), lines)
