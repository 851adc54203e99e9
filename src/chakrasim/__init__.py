"""How fast would this training job run on that machine?

``chakrasim.simulate`` runs Chakra execution traces on a described machine; ``chakrasim.read`` and ``chakrasim.write``
handle the traces. Everything else is in the sub-packages. Names are loaded when first used: importing chakrasim costs
little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chakrasim.errors import ChakrasimError, InputError, StallError

if TYPE_CHECKING:
    from chakrasim.converter.folder.link_folder import link_directory
    from chakrasim.converter.folder.trace_folder import trace_directory
    from chakrasim.converter.linked.api import convert
    from chakrasim.converter.retarget.api import retarget
    from chakrasim.diagnosis.doctor import doctor
    from chakrasim.linker.api import link
    from chakrasim.notes import Notes
    from chakrasim.report.tables.simulation import summary
    from chakrasim.report.timeline.memory import write_memory_traces
    from chakrasim.report.timeline.simulation import write_timeline
    from chakrasim.simulator.api import simulate
    from chakrasim.simulator.context import Limits
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.trace import Job, Trace, TraceBuilder, read, read_job, write, write_job

__version__ = "0.1.0"

_HOMES = {
    "convert": "chakrasim.converter.linked.api",
    "doctor": "chakrasim.diagnosis.doctor",
    "link": "chakrasim.linker.api",
    "link_directory": "chakrasim.converter.folder.link_folder",
    "Notes": "chakrasim.notes",
    "retarget": "chakrasim.converter.retarget.api",
    "trace_directory": "chakrasim.converter.folder.trace_folder",
    "simulate": "chakrasim.simulator.api",
    "summary": "chakrasim.report.tables.simulation",
    "write_memory_traces": "chakrasim.report.timeline.memory",
    "write_timeline": "chakrasim.report.timeline.simulation",
    "Limits": "chakrasim.simulator.context",
    "SimulationResult": "chakrasim.simulator.outcome.result",
    **dict.fromkeys(("Job", "Trace", "TraceBuilder", "read", "read_job", "write", "write_job"), "chakrasim.trace"),
}

__all__ = [
    "ChakrasimError",
    "InputError",
    "Job",
    "Limits",
    "Notes",
    "SimulationResult",
    "StallError",
    "Trace",
    "TraceBuilder",
    "__version__",
    "convert",
    "doctor",
    "link",
    "link_directory",
    "read",
    "read_job",
    "retarget",
    "simulate",
    "summary",
    "trace_directory",
    "write",
    "write_job",
    "write_memory_traces",
    "write_timeline",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim' has no attribute {name!r}")
    from importlib import import_module

    from chakrasim.startup import without_gc

    with without_gc():
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
