"""Custom collectives, from Chakra traces or MSCCL XML, into the arena."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator.arena import ArenaBuilder
from chakrasim.simulator.context import Context
from chakrasim.simulator.plans import Plan

Ints = NDArray[np.int64]


class CustomWriter:
    """Writes the programs of custom collectives, one per member."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def write(self, arena: ArenaBuilder, plan: Plan) -> Ints:
        """Write a plan's schedule; returns the index of both variants (they are the same)."""
        raise InputError("custom collectives are not here yet", file=plan.custom)

    @staticmethod
    def reserve(context: Context, words_per_operation: int) -> int:
        """Words that a pass over a custom graph can take."""
        return 0
