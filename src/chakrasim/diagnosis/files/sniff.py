"""What a file is, told by its first bytes: kind, process id, rank. Nothing here reads a whole trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.files.job_formats import kind_of, remedy_of
from chakrasim.files.json_head import JsonHead, Unreadable
from chakrasim.files.signatures import signature
from chakrasim.files.storage import Stream
from chakrasim.trace.profiles.kinds import kind_of as kind_of_profile
from chakrasim.trace.profiles.read import look
from chakrasim.trace.recognise import HOST, KINETO, by_words

#: How many elements are looked at to tell kinds apart and to find the process id.
LOOK_EVENTS: Final = 20_000
LOOK_NODES: Final = 2_000
_TAIL_BYTES: Final = 1 << 18
_HOST_CATEGORIES: Final = frozenset({"cpu_op", "Operator", "cuda_runtime", "Runtime", "cuda_driver", "user_annotation"})
_LINKED_KEYS: Final = frozenset({"exclusive_dur", "inclusive_dur", "sync_dep", "inter_thread_dep"})


class FileKind(Enum):
    """What a file is."""

    HOST = "PyTorch host trace"
    DEVICE = "Kineto device trace"
    LINKED = "linked trace in the form of chakra_trace_link"
    JOINED = "linked trace"
    CHAKRA = "Chakra trace"
    OTHER = "no trace"


@dataclass(frozen=True)
class FileFacts:
    """What the beginning of a file tells.

    Attributes
    ----------
    path, kind: the file and what it is.
    size_bytes: on disk.
    note: what it looks like, where ``kind`` does not say (an archive, an empty file, damage).
    schema: of a host trace; "" where not stated.
    pid: of the process that was traced; -1 where not found.
    rank, world_size: of ``distributedInfo``; -1 where not stated.
    members: the keys of a JSON document, () of an array, that is OTHER; None of anything else.
    """

    path: Path
    kind: FileKind
    size_bytes: int = 0
    note: str = ""
    schema: str = ""
    pid: int = -1
    rank: int = -1
    world_size: int = -1
    members: tuple[str, ...] | None = None


def sniff(path: Path) -> FileFacts:
    """What the file is. A file that cannot be read is OTHER, with the reason as its note."""
    try:
        size = path.stat().st_size
        with Stream(str(path), "a trace") as file:
            return replace(_look(path, file), size_bytes=size)
    except InputError as fault:
        return FileFacts(path, FileKind.OTHER, note=f"it cannot be read: {fault.message}")
    except OSError as fault:
        return FileFacts(path, FileKind.OTHER, note=f"it cannot be read: {fault.strerror or fault}")


def _look(path: Path, file: Stream) -> FileFacts:
    try:
        text = JsonHead(file)
        first = text.peek()
    except Unreadable as fault:
        return FileFacts(path, FileKind.OTHER, note=str(fault))
    head = text.head
    if not head:
        return FileFacts(path, FileKind.OTHER, note="the file is empty")
    profile = kind_of_profile(head)
    if profile:
        other, pid = look(str(path), profile)
        return FileFacts(path, FileKind.OTHER if other else FileKind.DEVICE, note=other, pid=pid)
    known, named = signature(head), re.search(r"\.et(\.gz)?$", path.name)
    # A Chakra trace begins with a length, whose bytes may be those of a pickle.
    if known is not None and (known.packed or not named):
        remedy = "unpack it first" if known.packed else remedy_of(known.name)
        return FileFacts(path, FileKind.OTHER, note=": ".join(filter(None, (known.name, remedy))))
    foreign = kind_of(head)
    if foreign:
        return FileFacts(path, FileKind.OTHER, note=foreign)
    if first == "{":
        return _document(path, text)
    if first == "[":
        return _array(path, text)
    if named:
        return FileFacts(path, FileKind.CHAKRA)
    return FileFacts(path, FileKind.OTHER, note="")


def _document(path: Path, text: JsonHead) -> FileFacts:
    """A JSON object: its top-level keys up to the events or nodes tell what it is."""
    header: dict[str, Any] = {}
    try:
        for key in text.members():
            if key == "traceEvents" and text.peek() == "[":
                return _device(path, header, text.elements())
            if key == "nodes" and text.peek() == "[":
                return _host(path, header, text)
            header[key] = text.value()
            if key == "schema" and str(header[key]).startswith("chakrasim-linked"):
                return FileFacts(path, FileKind.JOINED, schema=str(header[key]))
    except Unreadable as fault:
        return _guess(path, text.head, header, str(fault))
    if str(header.get("format")).startswith("chakrasim-observed"):
        note = "the manifest of a recording"
    elif "globalMetadata" in header or "metadata" in header:
        note = "a Chakra trace as JSON"
    else:
        note = "a JSON document that is no trace"
    return FileFacts(path, FileKind.OTHER, note=note, members=tuple(header))


def _array(path: Path, text: JsonHead) -> FileFacts:
    """A JSON array: of events, which are a device trace without the document around them, or of something else."""
    elements = text.elements()
    try:
        first = next(elements, None)
    except Unreadable as fault:
        return FileFacts(path, FileKind.OTHER, note=f"damaged JSON: {fault}")
    if isinstance(first, dict) and isinstance(first.get("ph"), str):
        return _device(path, {}, chain([first], elements))
    return FileFacts(path, FileKind.OTHER, note="a JSON array that is no list of events", members=())


def _device(path: Path, header: dict[str, Any], events: Iterator[Any]) -> FileFacts:
    facts = FileFacts(path, FileKind.DEVICE)
    rank, world = distributed_rank(header)
    try:
        for event in islice(events, LOOK_EVENTS):
            if not isinstance(event, dict):
                continue
            pid = event.get("pid")
            if isinstance(pid, int) and str(event.get("cat")) in _HOST_CATEGORIES:
                facts = replace(facts, pid=pid)
                break
    except Unreadable as fault:
        facts = replace(facts, note=str(fault))
    return replace(facts, rank=rank, world_size=world)


def _host(path: Path, header: dict[str, Any], text: JsonHead) -> FileFacts:
    kind, note = FileKind.HOST, ""
    try:
        for node in islice(text.elements(), LOOK_NODES):
            if isinstance(node, dict) and not _LINKED_KEYS.isdisjoint(node):
                kind = FileKind.LINKED
                break
    except Unreadable as fault:
        note = str(fault)
    pid = header.get("pid")
    return FileFacts(path, kind, note=note, schema=str(header.get("schema", "")), pid=pid if type(pid) is int else -1)


def _guess(path: Path, head: bytes, header: dict[str, Any], fault: str) -> FileFacts:
    """A damaged head: the words in it still tell the kind."""
    kind = by_words(head)
    if kind == KINETO:
        rank, world = distributed_rank(header)
        return FileFacts(path, FileKind.DEVICE, note=fault, rank=rank, world_size=world)
    if kind == HOST:
        return FileFacts(path, FileKind.HOST, note=fault, schema=str(header.get("schema", "")))
    return FileFacts(path, FileKind.OTHER, note=f"damaged JSON: {fault}")


def distributed_rank(header: dict[str, Any]) -> tuple[int, int]:
    """Rank and world size of a Kineto file's ``distributedInfo``; -1 where not stated."""
    info = header.get("distributedInfo")
    if not isinstance(info, dict):
        return -1, -1
    rank, world = info.get("rank"), info.get("world_size")
    return _whole(rank), _whole(world)


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else -1


def tail_rank(facts: FileFacts) -> FileFacts:
    """The same facts with the rank that stands after the events, where some tools put it. Reads a packed file whole."""
    try:
        tail = _tail(str(facts.path))
    except (InputError, OSError):
        return facts
    at = tail.rfind('"distributedInfo"')
    if at < 0:
        return facts
    try:
        begin = tail.index("{", at)
        info, _ = json.JSONDecoder().raw_decode(tail, begin)
    except (ValueError, RecursionError):
        return facts
    rank, world = distributed_rank({"distributedInfo": info})
    return replace(facts, rank=rank, world_size=world)


def _tail(path: str) -> str:
    """The end of the uncompressed text, "" if the compressed data are damaged."""
    with Stream(path, "a trace") as file:
        if not file.packed:
            file.skip_to(max(0, file.size - _TAIL_BYTES))
        window, kept = memoryview(bytearray(1 << 20)), b""
        while size := file.fill(window):
            kept = (kept + window[:size])[-_TAIL_BYTES:]
        return "" if file.fault else kept.decode("utf-8", "replace")
