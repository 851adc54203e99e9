"""The engine: from traces and a machine to times. Here are the parts of a result; ``chakrasim.simulate`` makes it."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.simulator.flow.alone.flows import CapacityChanges
    from chakrasim.simulator.flow.alone.patterns import pattern_flows
    from chakrasim.simulator.jobs import JobFigures, PlacedJob
    from chakrasim.simulator.outcome.graph_links import GraphLink
    from chakrasim.simulator.outcome.records import PARTS, CollectiveFigures, LinkFigures, NodeRecord, RoleTimes
    from chakrasim.simulator.outcome.steps import StepTime
    from chakrasim.simulator.prediction import CollectivePrediction, predict_collectives
    from chakrasim.simulator.together import JobsResult, simulate_jobs

__all__ = [
    "PARTS",
    "CapacityChanges",
    "CollectiveFigures",
    "CollectivePrediction",
    "GraphLink",
    "JobFigures",
    "JobsResult",
    "LinkFigures",
    "NodeRecord",
    "PlacedJob",
    "RoleTimes",
    "StepTime",
    "pattern_flows",
    "predict_collectives",
    "simulate_jobs",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "flow.alone.flows": ("CapacityChanges",),
        "flow.alone.patterns": ("pattern_flows",),
        "jobs": ("JobFigures", "PlacedJob"),
        "outcome.graph_links": ("GraphLink",),
        "outcome.records": ("PARTS", "CollectiveFigures", "LinkFigures", "NodeRecord", "RoleTimes"),
        "outcome.steps": ("StepTime",),
        "prediction": ("CollectivePrediction", "predict_collectives"),
        "together": ("JobsResult", "simulate_jobs"),
    },
)
