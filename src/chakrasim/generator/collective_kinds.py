"""Types of single collectives and patterns of messages, and what their size means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chakrasim.trace.kinds import CollectiveType

COLLECTIVES: Final[Mapping[str, CollectiveType]] = {
    kind.name.lower(): kind for kind in CollectiveType if kind != CollectiveType.REDUCE_SCATTER_BLOCK
}
ROOTED: Final = ("reduce", "broadcast", "gather", "scatter")
SIZES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("all_reduce", "reduce", "broadcast"), "what each rank has"),
    **dict.fromkeys(("all_gather", "gather"), "the part of one rank"),
    **dict.fromkeys(("reduce_scatter", "all_to_all"), "the whole input of each rank"),
    "scatter": "all parts, which the root has",
    "barrier": "without effect",
    "send_recv": "one message",
    "all_pairs": "one message",
}
"""What ``comm_size`` of each type means to the simulator: as in ASTRA-sim, where that has the type."""
TYPES: Final = tuple(SIZES)
