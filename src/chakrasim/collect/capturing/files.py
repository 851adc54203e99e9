"""Traces of chosen ranks only: files as other tools have them, of which some are missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chakrasim.collect.capturing.job import CapturedJob


def write_chosen(
    prefix: str | os.PathLike[str], captured: CapturedJob, ranks: tuple[int, ...], compress: bool
) -> list[str]:
    """``PREFIX.RANK.et`` of the chosen ranks, with ranks of the whole job in them, and ``PREFIX.comm_group.json``.

    They are the expanded files of a job in which all other ranks do nothing, without the files of these.
    """
    import json
    from itertools import islice

    import numpy as np

    from chakrasim.files import storage
    from chakrasim.files.outputs import write_together
    from chakrasim.trace.chakra.builder import TraceBuilder
    from chakrasim.trace.chakra.encode import encode_trace
    from chakrasim.trace.job.expand import expanded
    from chakrasim.trace.job.file import GROUPS_ENDING, RANKS_ENDING
    from chakrasim.trace.job.groups import number_groups
    from chakrasim.trace.job.job import Job

    idle = TraceBuilder(captured.job.traces[0].version, {"producer": "chakrasim capture"}).build()
    which = np.full(captured.world, len(captured.job.traces), np.int64)
    which[list(ranks)] = captured.job.trace_of_rank
    job = Job((*captured.job.traces, idle), which, captured.roles)
    groups = number_groups(job)
    stem, ending = os.fspath(prefix), ".et.gz" if compress else ".et"
    files: list[tuple[str, bytes]] = []
    wanted = set(ranks)
    for rank, trace in enumerate(islice(expanded(job, groups), max(ranks) + 1)):
        if rank in wanted:
            data = encode_trace(trace)
            files.append((f"{stem}.{rank}{ending}", storage.pack(data) if compress else data))
    members = {str(number): [int(rank) for rank in group] for number, group in groups.members.items()}
    files.append((stem + GROUPS_ENDING, (json.dumps(members) + "\n").encode()))
    earlier = os.path.basename(stem) + RANKS_ENDING
    return write_together(files, lambda name: name == earlier)
