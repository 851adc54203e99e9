"""How fast would this training job run on that machine?

``chakrasim.simulate`` runs Chakra execution traces on a described machine; ``chakrasim.read`` and ``chakrasim.write``
handle the traces. Everything else is in the sub-packages. Names are loaded when first used: importing chakrasim costs
little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chakrasim.errors import ChakrasimError, InputError, StallError

if TYPE_CHECKING:
    from chakrasim.converter.api import convert
    from chakrasim.converter.directory import trace_directory
    from chakrasim.converter.link_directory import link_directory
    from chakrasim.diagnosis.doctor import doctor
    from chakrasim.linker.api import link
    from chakrasim.simulator.api import simulate
    from chakrasim.simulator.context import Limits
    from chakrasim.simulator.result import SimulationResult
    from chakrasim.trace import Trace, TraceBuilder, read, write

__version__ = "0.1.0"

_HOMES = {
    "convert": "chakrasim.converter.api",
    "doctor": "chakrasim.diagnosis.doctor",
    "link": "chakrasim.linker.api",
    "link_directory": "chakrasim.converter.link_directory",
    "trace_directory": "chakrasim.converter.directory",
    "simulate": "chakrasim.simulator.api",
    "Limits": "chakrasim.simulator.context",
    "SimulationResult": "chakrasim.simulator.result",
    "Trace": "chakrasim.trace",
    "TraceBuilder": "chakrasim.trace",
    "read": "chakrasim.trace",
    "write": "chakrasim.trace",
}

__all__ = [
    "ChakrasimError",
    "InputError",
    "Limits",
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
    "simulate",
    "trace_directory",
    "write",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim' has no attribute {name!r}")
    from importlib import import_module

    from chakrasim.startup import without_gc

    with without_gc():
        return getattr(import_module(home), name)
