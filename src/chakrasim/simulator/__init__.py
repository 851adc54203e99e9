"""The engine: from traces and a machine to times. Here are the parts of a result; ``chakrasim.simulate`` makes it."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.simulator.flow.alone.flows import CapacityChanges
    from chakrasim.simulator.flow.alone.patterns import pattern_flows
    from chakrasim.simulator.outcome.records import PARTS, CollectiveFigures, LinkFigures, NodeRecord
    from chakrasim.simulator.outcome.steps import StepTime

__all__ = [
    "PARTS",
    "CapacityChanges",
    "CollectiveFigures",
    "LinkFigures",
    "NodeRecord",
    "StepTime",
    "pattern_flows",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "flow.alone.flows": ("CapacityChanges",),
        "flow.alone.patterns": ("pattern_flows",),
        "outcome.records": ("PARTS", "CollectiveFigures", "LinkFigures", "NodeRecord"),
        "outcome.steps": ("StepTime",),
    },
)
