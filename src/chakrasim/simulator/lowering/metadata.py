"""Process groups that a PyTorch trace carries in its metadata nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from chakrasim.config.section import INT32_MAX
from chakrasim.simulator.context import Context
from chakrasim.trace import NodeType, Trace

PROCESS_GROUP_BRACKETS = 2
"""Characters around the JSON text in a metadata node's input values (astra-system.md, 14)."""


def with_groups(traces: Sequence[Trace], context: Context) -> dict[int, tuple[int, ...]]:
    """The context's process groups and those of metadata nodes; a group that a file defines keeps that definition."""
    groups = dict(context.groups)
    for trace in traces:
        for node in np.flatnonzero(trace.types == NodeType.METADATA_NODE):
            for name, members in _groups_of(trace, int(node), context.ranks).items():
                known = groups.setdefault(name, members)
                if known == members:
                    continue
                source = "the communicator-group file" if name in context.groups else "another trace"
                context.notes.warn(f"process group {name} is defined otherwise in {source}, whose definition is used")
    return groups


def _groups_of(trace: Trace, node: int, ranks: int) -> dict[int, tuple[int, ...]]:
    """The groups in one node; empty when it holds something else."""
    index = int(trace.inputs[node, 0])
    if index < 0:
        return {}
    text = trace.strings[index][PROCESS_GROUP_BRACKETS:-PROCESS_GROUP_BRACKETS]
    try:
        entries = json.loads(text)
        found = {int(entry["pg_name"]): tuple(int(rank) for rank in entry["ranks"]) for entry in entries}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}
    every = tuple(range(ranks))
    good = {name: members or every for name, members in found.items() if 0 < name <= INT32_MAX}
    return {n: m for n, m in good.items() if len(set(m)) == len(m) and min(m) >= 0 and max(m) < ranks}
