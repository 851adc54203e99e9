"""A whole training job: the traces of all ranks, where ranks that do the same share one.

A shared trace names process groups by their *role* ("tp", "dp", ...): the group meant is the one of that role to which
the rank that runs it belongs. A message names its peer by the position in such a group (`PEER`), not by rank, and so
does a collective its root (``root_rank``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.shown import Shown
from chakrasim.trace.chakra.graph import Trace

PEER: Final = "comm_peer"
"""Attribute of a send or receive in a shared trace: the other side's position in the process group ``pg_name``. It
takes the place of ``comm_dst`` and ``comm_src``."""
MAX_RANKS: Final = 1 << 20
"""Of a job that is read or made."""


Parameter = int | float | bool | str


@dataclass(frozen=True, eq=False)
class Job(Shown):
    """Traces of all ranks of a job.

    Attributes
    ----------
    traces: the distinct traces.
    trace_of_rank: int64[ranks], which of ``traces`` each rank runs.
    process_groups: by role, the members of its groups, each in the order of the ring. A rank is in at most one group of
        a role. A role that is missing here must be the number of a group that a group file gives, or "" or "0" (all
        ranks).
    parameters: what the job was made with, where its maker says so.
    """

    traces: tuple[Trace, ...]
    trace_of_rank: NDArray[np.int64]
    process_groups: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """How many ranks the job has."""
        return len(self.trace_of_rank)

    def _in_short(self) -> dict[str, str]:
        return {
            "ranks": f"{self.ranks:,}",
            "traces": f"{len(self.traces):,}",
            "nodes": f"{sum(map(len, self.traces)):,}",
            "groups": f"{sum(map(len, self.process_groups.values())):,}",
        }
