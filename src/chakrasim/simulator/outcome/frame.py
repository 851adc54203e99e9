"""The result as a data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrasim.errors import InputError
from chakrasim.simulator.outcome.result import PARTS, SimulationResult

if TYPE_CHECKING:
    import pandas


def result_frame(result: SimulationResult) -> pandas.DataFrame:
    """One row per rank, indexed by ``rank``: the times in ns, the parts as ``part_NAME_ns``, bytes and class.

    Raises InputError where pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("a data frame needs pandas", remedy="pip install chakrasim[frames]") from None
    columns = {
        "finish_ns": result.finish_ns,
        "exposed_comm_ns": result.exposed_comm_ns,
        "gpu_ns": result.gpu_ns,
        "comm_ns": result.comm_ns,
        # The part named exposed_comm is not ASTRA-sim's number of that name, so the parts have a prefix.
        **{f"part_{name}_ns": result.parts_ns[:, i] for i, name in enumerate(PARTS)},
        "bytes_sent": result.bytes_sent,
        "class": result.classes,
    }
    if result.peak_memory_bytes is not None:
        columns["peak_memory_bytes"] = result.peak_memory_bytes
    return pandas.DataFrame(columns, index=pandas.RangeIndex(len(result.finish_ns), name="rank"))
