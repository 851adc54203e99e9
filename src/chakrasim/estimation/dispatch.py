"""Tokens that go to experts on other nodes: once to each node, however many of their experts are there.

So do the dispatchers that frameworks use between nodes (DeepSeek-AI's DeepEP, NVIDIA's HybridEP): the copies for the
experts of a node are made there, over its own links.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chakrasim.generator.layers.tape import Tape
from chakrasim.generator.mesh import process_groups

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.machine import Machine


def sent_once(spec: Spec, machine: Machine) -> Callable[[Tape], Tape]:
    """Makes exchanges of tokens as large as they are then; the same tape where experts are on one node."""
    share = share_sent(spec, machine)

    def rewritten(tape: Tape) -> Tape:
        other = copy(tape)
        other.rows = [
            replace(row, values={**row.values, "comm_size": max(round(int(row.values["comm_size"]) * share), 1)})
            if row.values.get("pg_name") == "ep"
            else row
            for row in tape.rows
        ]
        return other

    return rewritten if share < 1 else lambda tape: tape


def share_sent(spec: Spec, machine: Machine) -> float:
    """Of the copies of tokens that go to other nodes, those that are left if each goes to a node once.

    Experts are drawn evenly: of n nodes a token reaches n (1 - (1 - 1/n)^k) with k experts.
    """
    group = process_groups(spec).get("ep", ((0,),))[0]
    island = machine.graph.island[: machine.ranks][list(group)]
    nodes, top = len(np.unique(island)), spec.model.moe.top_k if spec.model.moe is not None else 1
    if nodes == 1:
        return 1.0
    reached = (nodes - 1) * (1 - (1 - 1 / nodes) ** top)
    return float(reached / (top * (nodes - 1) / nodes))
