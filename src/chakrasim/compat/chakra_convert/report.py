"""A linked trace converted as by chakra_converter, and what there is to say of it."""

from __future__ import annotations

from typing import Any

from chakrasim.compat.chakra_convert.convert import convert_compat
from chakrasim.compat.chakra_convert.rough_check import Outcome, simulate, write_log


def convert_and_report(source: str, output: str, *, rough_check: bool, log: str | None) -> dict[str, Any]:
    """Convert and write, with ``rough_check`` also simulate as the reference does, into the file ``log`` if given.

    Returns what is to be said of it.
    """
    converted = convert_compat(source, output)
    nodes = len(converted.dependencies)
    content: dict[str, Any] = {
        "output": output,
        "nodes": nodes,
        "lines": [f"{output}: {nodes:,} nodes"],
    }
    if rough_check:
        outcome = Outcome()
        lines = simulate(converted.nodes, converted.dependencies, outcome)
        if log is None:
            for _ in lines:
                pass
        else:
            write_log(log, lines)
        content |= {"simulated_us": outcome.end}
        content["lines"].append(
            f"simulated end at {outcome.end} us: {outcome.host_nodes} CPU and {outcome.device_nodes} GPU nodes"
        )
    return content
