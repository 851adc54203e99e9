"""Whether two traces are the same."""

from __future__ import annotations

from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Trace


def same_content(one: Trace, other: Trace) -> bool:
    """Whether both hold the same nodes, attributes and metadata in the same order (the source does not count)."""
    return one is other or (len(one) == len(other) and encode_trace(one) == encode_trace(other))
