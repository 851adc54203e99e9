"""The engine: from traces and a machine to times. Here are the parts of a result; ``chakrasim.simulate`` makes it."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.simulator.outcome.records import PARTS, CollectiveFigures, LinkFigures, NodeRecord
    from chakrasim.simulator.outcome.steps import StepTime

__all__ = ["PARTS", "CollectiveFigures", "LinkFigures", "NodeRecord", "StepTime"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "outcome.records": ("PARTS", "CollectiveFigures", "LinkFigures", "NodeRecord"),
        "outcome.steps": ("StepTime",),
    },
)
