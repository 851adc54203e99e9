"""Chakra traces as the reference's jsonizer writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.chakra.json_text import metadata_text, node_texts


def concatenated_texts(trace: Trace, skipped: Callable[[int], None]) -> Iterator[str]:
    """Indented documents of the metadata and of each node, one directly after the other.

    The reference takes a node without any field for the end of the file; ``skipped`` is told how many nodes that leaves
    out.
    """
    yield indented(metadata_text(trace))
    for at, text in enumerate(node_texts(trace)):
        if text == "{}":
            skipped(len(trace) - at)
            return
        yield indented(text)


def indented(text: str) -> str:
    """The same document on many lines."""
    return json.dumps(json.loads(text), indent=2)
