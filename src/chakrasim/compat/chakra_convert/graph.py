"""Dependencies as the reference converter sets them (chakra-toolchain.md, 4.5 and 4.6)."""

from __future__ import annotations

from operator import index
from typing import Any, Final

from chakrasim.compat.chakra_convert.nodes import LinkedNode
from chakrasim.compat.chakra_link.crash import crash
from chakrasim.errors import InputError

Nodes = dict[Any, LinkedNode]
Dependencies = dict[Any, list[Any]]

_NONE: Final = object()
THREADS: Final = ("[pytorch|profiler|execution_graph|thread]", "[pytorch|profiler|execution_trace|thread]")


def children_of(nodes: Nodes, source: str) -> Dependencies:
    """The ids of each node's children, in the order of the file; only nodes that have some. Raises InputError."""
    children: Dependencies = {}
    for node in nodes.values():
        try:
            if node.parent in nodes:
                children.setdefault(node.parent, []).append(node.id)
        except TypeError as fault:
            reason = f"the parent of node {node.id} ({node.name!r}) cannot be looked up: {fault}"
            raise crash(reason, "TypeError", file=source) from None
    return children


def converted_order(nodes: Nodes, children: Dependencies) -> list[LinkedNode]:
    """The nodes that the reference converter writes, in its order: host nodes, each followed by its kernels."""
    order: list[LinkedNode] = []
    for node in nodes.values():
        if not node.is_gpu or node.is_metadata:
            order.append(node)
            order += [nodes[child] for child in children.get(node.id, ()) if nodes[child].is_gpu]
    return order


def data_dependencies(nodes: Nodes, order: list[LinkedNode], children: Dependencies, source: str) -> Dependencies:
    """What each id of ``order`` waits for: a thread's host nodes for the one before, kernels for their caller.

    Raises InputError for what is no number of a node.
    """
    dependencies: Dependencies = {node.id: [] for node in order}
    for root in order:
        if root.name not in THREADS:
            continue
        visited = set()
        stack = [root.id]
        last = None
        while stack:
            at = stack.pop()
            if at in visited:
                continue
            visited.add(at)
            node, waits = nodes[at], dependencies[at]
            if node.is_gpu and not node.is_metadata:
                if last is not None and last not in waits:
                    waits.append(last)
            else:
                if node.waits_for and node.waits_for not in waits:
                    waits.append(_number(node, source))
                if last is not None and last not in waits:
                    waits.append(last)
                last = at
            below = children.get(at)
            if below:
                stack += [
                    child for child in sorted(below, reverse=True) if child in dependencies and child not in visited
                ]
    return dependencies


def _number(node: LinkedNode, source: str) -> int:
    try:
        return index(node.waits_for)
    except TypeError as fault:
        raise node_crash(node, "TypeError", str(fault), source) from None


def node_crash(node: LinkedNode, kind: str, reason: str, source: str) -> InputError:
    """The refusal of a node at which the reference converter stops with an exception of class ``kind``."""
    place = f"node {node.id!r} ({node.name!r})"
    return crash(f"a node cannot be converted: {reason}", kind, file=source, place=place)


def without_dangling(dependencies: Dependencies) -> Dependencies:
    """``dependencies`` but for the nodes that wait for none and for which none waits."""
    needed = {other for waits in dependencies.values() for other in waits}
    return {at: waits for at, waits in dependencies.items() if waits or at in needed}


def check_acyclic(dependencies: Dependencies, nodes: Nodes, source: str) -> None:
    """Raise InputError for a dependency on a node that is not there, or on itself through others.

    Of several the one that the reference converter's search meets first.
    """
    if all(other in dependencies and other < at for at, waits in dependencies.items() for other in waits):
        return
    done: set[Any] = set()
    for start in dependencies:
        path: dict[Any, None] = {}
        stack = [] if start in done else [(start, iter(dependencies[start]))]
        while stack:
            at, waits = stack[-1]
            path[at] = None
            done.add(at)
            other = next(waits, _NONE)
            if other is _NONE:
                stack.pop()
                del path[at]
            elif other in path:
                cycle = [*path][[*path].index(other) :]
                raise crash(
                    "the dependencies form a cycle",
                    "Exception",
                    file=source,
                    place=_title(nodes, other),
                    found=" -> ".join(str(node) for node in (*cycle[:20], other)),
                )
            elif other not in done:
                if other not in dependencies:
                    raise crash(
                        "a node waits for a node that is not there",
                        "KeyError",
                        file=source,
                        place=_title(nodes, at),
                        found=f"node {other!r}",
                    )
                stack.append((other, iter(dependencies[other])))


def _title(nodes: Nodes, at: Any) -> str:
    return f"node {at!r} ({nodes[at].name!r})"
