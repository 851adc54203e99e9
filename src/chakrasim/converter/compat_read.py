"""Reading a linked trace for the compatible converter, a large one in several processes."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from chakrasim.converter.compat_nodes import FAULTS, Encoder, LinkedNode
from chakrasim.converter.compat_scan import Scanner
from chakrasim.errors import InputError
from chakrasim.linker.compat_errors import crash

#: Schemas that the reference converter reads.
SCHEMAS: Final = ("1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4")
HEADER: Final = ("schema", "pid", "time", "start_ts", "finish_ts")
#: A process for each so many characters, and no more than so many processes.
_SHARE: Final = 4 << 20
_MOST: Final = 4
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NODE: Final = re.compile(r'\}[ \t\n\r]*,[ \t\n\r]*(?=\{[ \t\n\r]*"id")')


def read_nodes(text: str, source: str) -> tuple[dict[str, Any], dict[Any, LinkedNode]]:
    """The header and the nodes (by id, in the order in which ids first occur) of the linked trace ``text``.

    Raises InputError for what is no JSON object of that kind, and where the reference converter stops in any case.
    """
    header: dict[str, Any] = {}
    nodes: dict[Any, LinkedNode] | None = None
    decode = JSONDecoder().raw_decode
    try:
        at = _next(text, _after(text, _next(text, 0), "{"))
        while not text.startswith("}", at):
            _after(text, at, '"')
            key, at = decode(text, at)
            at = _next(text, _after(text, _next(text, at), ":"))
            if key == "nodes":
                nodes, at = _read_array(text, at, source, header)
            else:
                header[key], at = decode(text, at)
            at = _next(text, at)
            if text.startswith("}", at):
                break
            at = _next(text, _after(text, at, ","))
            if text.startswith("}", at):
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        at = _next(text, at + 1)
        if at < len(text):
            raise JSONDecodeError("Extra data", text, at)
    except JSONDecodeError as fault:
        raise _no_json(text, fault.pos, fault.msg, source) from None
    missing = next((key for key in HEADER if key not in header), None if nodes is not None else "nodes")
    if nodes is None or missing is not None:
        raise crash(f"the linked trace has no {missing!r}", "KeyError", file=source)
    if nodes:
        _check_schema(header, source)
    return header, nodes


def _next(text: str, at: int) -> int:
    """Where the white space at ``at`` ends."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _after(text: str, at: int, wanted: str) -> int:
    """The position after the character ``wanted``, which must stand at ``at``."""
    if not text.startswith(wanted, at):
        raise JSONDecodeError(f"Expecting {wanted!r}", text, at)
    return at + 1


def _no_json(text: str, at: int, message: str, source: str) -> InputError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return InputError(
        f"this is no linked trace: {message}",
        file=source,
        place=f"line {line}, column {column}",
        found=repr(text[at : at + 20]) if at < len(text) else "the end of the file",
        expected="a JSON object as chakrasim link --compat chakra writes it",
    )


def _check_schema(header: dict[str, Any], source: str) -> None:
    schema = header.get("schema", SCHEMAS[0])
    if schema not in SCHEMAS:
        kind = "AttributeError" if schema == "1.1.1-chakra.1.0.0" else "ValueError"
        raise crash(
            "the reference converter cannot read this schema", kind, file=source, place="schema", found=repr(schema)
        )


def _read_array(text: str, at: int, source: str, header: dict[str, Any]) -> tuple[dict[Any, LinkedNode], int]:
    """The nodes in the array that begins at ``at``, and the position after it."""
    at = _next(text, _after(text, at, "["))
    if text.startswith("]", at):
        return {}, at + 1
    _check_schema(header, source)
    strides = str(header.get("schema")).startswith("1.1.1")
    pieces = _read_in_processes(text, at, strides)
    if pieces is None:
        pieces = [_read_some(text, at, len(text), source, strides)]
    nodes: dict[Any, LinkedNode] = {}
    for some, _ in pieces:
        nodes.update((node.id, node) for node in some)
    return nodes, pieces[-1][1]


def _read_some(text: str, at: int, stop: int, source: str, strides: bool) -> tuple[list[LinkedNode], int]:
    """The nodes from ``at`` to ``stop``, or to the end of their array, and the position reached."""
    decode = JSONDecoder().raw_decode
    encoder = Encoder()
    scan = Scanner(encoder, strides=strides).node
    nodes: list[LinkedNode] = []
    while at < stop:
        scanned = scan(text, at)
        if scanned is not None:
            node, at = scanned
        else:
            data, at = decode(text, at)
            try:
                node = encoder.node(data)
                hash(node.id)
            except FAULTS as fault:
                reason = f"there is no {fault}" if isinstance(fault, KeyError) else str(fault)
                place = _title(data, len(nodes))
                kind = type(fault).__name__
                raise crash(f"a node cannot be read: {reason}", kind, file=source, place=place) from None
        nodes.append(node)
        at = _next(text, at)
        if text.startswith("]", at):
            return nodes, at + 1
        at = _next(text, _after(text, at, ","))
    return nodes, at


def _title(data: Any, position: int) -> str:
    if not isinstance(data, dict):
        return f"number {position} in the file"
    return f"node {data.get('id')!r} ({data.get('name')!r}, number {position} in the file)"


def _read_in_processes(text: str, at: int, strides: bool) -> list[tuple[list[LinkedNode], int]] | None:
    """The nodes from ``at`` on in pieces of about equal size, each read in a process of its own, the first in this one.

    None where it does not pay, where the operating system cannot, and where anything is amiss: then they are read one
    after the other, and what is wrong is said.
    """
    starts = _starts(text, at)
    if len(starts) < 3:
        return None
    import marshal

    children: list[tuple[int, int]] = []
    for begin, end in pairwise(starts[1:]):
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            _serve(send, text, begin, end, strides)
        os.close(send)
        children.append((child, receive))
    pieces: list[tuple[list[LinkedNode], int] | None] = [_attempt(text, starts[0], starts[1], strides)]
    for child, receive in children:
        with os.fdopen(receive, "rb") as file:
            data = file.read()
        os.waitpid(child, 0)
        records, reached = marshal.loads(data) if data else ((), 0)
        pieces.append((list(map(LinkedNode._make, records)), reached) if data else None)
    sound = [piece for piece in pieces if piece is not None]
    if len(sound) < len(pieces) or [reached for _, reached in sound[:-1]] != starts[1:-1]:
        return None
    return sound if text[sound[-1][1] - 1] == "]" else None


def _starts(text: str, at: int) -> list[int]:
    """Where each process begins to read, and the end of the text."""
    import sys

    threads = sys.modules.get("threading")
    if not hasattr(os, "fork") or (threads is not None and threads.active_count() > 1):
        return [at, len(text)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(cores, _MOST, (len(text) - at) // _SHARE)
    starts = [at]
    for share in range(1, count):
        match = _NODE.search(text, max(at + (len(text) - at) * share // count, starts[-1]))
        if match is None:
            break
        starts.append(match.end())
    return [*starts, len(text)]


def _attempt(text: str, begin: int, end: int, strides: bool) -> tuple[list[LinkedNode], int] | None:
    try:
        return _read_some(text, begin, end, "", strides)
    except (InputError, JSONDecodeError):
        return None


def _serve(send: int, text: str, begin: int, end: int, strides: bool) -> None:
    """In a process of its own: read nodes, send them, and end without any of what an interpreter does at its end."""
    import marshal

    try:
        piece = _attempt(text, begin, end, strides)
        if piece is not None:
            data = marshal.dumps(([tuple(node) for node in piece[0]], piece[1]))
            with os.fdopen(send, "wb") as file:
                file.write(data)
    finally:
        os._exit(0)
