"""Programs to capture, and what is looked at in their traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

from chakrasim.collect.capturing.api import Capture, capture
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import CollectiveType, NodeType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def program(folder: Path, text: str, name: str = "program.py") -> Path:
    """A script with these lines."""
    path = folder / name
    path.write_text(dedent(text))
    return path


def example(name: str, world: int, *arguments: str, **options: Any) -> Capture:
    """An example of the project, captured."""
    return capture(EXAMPLES / name, world_size=world, arguments=arguments, **options)


def attribute(trace: Trace, name: str) -> dict[int, Any]:
    """An attribute's values by node."""
    column = trace.attr(name)
    return {node: column.value(node) for node in range(len(trace)) if column.present[node]}


def collectives(trace: Trace) -> Counter[tuple[str, str, int]]:
    """Type, role and bytes of the collectives, with how often."""
    kinds, sizes, roles = (attribute(trace, name) for name in ("comm_type", "comm_size", "pg_name"))
    return Counter((CollectiveType(kinds[node]).name.lower(), roles[node], sizes[node]) for node in kinds)


def messages(trace: Trace) -> list[tuple[str, int]]:
    """Sends and receives in order: which, and the peer's position."""
    peers = attribute(trace, "comm_peer")
    return [("send" if trace.types[node] == NodeType.COMM_SEND_NODE else "recv", peers[node]) for node in sorted(peers)]


def phases(trace: Trace, name: str) -> Counter[str]:
    """How often an operator is called in which phase."""
    found = attribute(trace, "phase")
    return Counter(found[node] for node in found if trace.name(node) == name)
