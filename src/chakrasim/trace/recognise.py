"""Saying what a file is that is not the kind of trace it should be, or no longer one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from chakrasim.errors import InputError
from chakrasim.files.inputs import open_input
from chakrasim.files.job_formats import kind_of, remedy_of
from chakrasim.files.signatures import BOM, signature
from chakrasim.files.storage import head_of
from chakrasim.text.amounts import first_of
from chakrasim.trace.profiles import kinds

if TYPE_CHECKING:
    from chakrasim.trace.chakra.decoded import Columns

KINETO = "a Kineto (PyTorch profiler, device) trace"
HOST = "a PyTorch execution (host) trace"
_LOOKS = {
    KINETO: "a JSON file that looks like a Kineto (PyTorch profiler, device) trace",
    HOST: "a JSON file that looks like a PyTorch execution (host) trace",
}
_CHAKRA = "a Chakra trace"
_JSONIZED = "a JSON file that looks like the output of chakra_jsonizer"
_REMEDY = "name a Chakra trace (.et), or convert this file to one first"
_ZEROS: Final = 4096
"""So many bytes that are 0 begin no trace."""


def refuse_other_formats(data: bytes, source: str) -> None:
    """Raise InputError if ``data`` are empty or JSON, or begin with zeros, each of which were a node; what else they
    may be is asked only when decoding fails."""
    if not data:
        raise InputError("the file is empty", file=source, expected="a Chakra trace", remedy="create the file again")
    look = _json_look(data[:4096]) if data[:1] in b"{[ \t\r\n\xef" else None
    if len(data) > _ZEROS and not any(data[:_ZEROS]):
        look = f"{_ZEROS} zeros at its beginning"
    if look is not None:
        raise InputError("this is no Chakra trace", file=source, found=look, expected="a Chakra trace", remedy=_REMEDY)


def refuse_as_prefix(path: str) -> None:
    """Raise InputError if ``path``, which should be what the names of a job's traces begin with, is a file."""
    if not os.path.isfile(path) or any(os.path.exists(f"{path}.0.et{end}") for end in ("", ".gz")):
        return
    open_input(path, "a job").close()
    trace = path.endswith((".et", ".et.gz"))
    found = "a trace of one rank, by its name" if trace else what_is(path)
    remedy = "give the path up to, but without, .RANK.et" if trace else remedy_of(found)
    raise InputError("this file is no job", file=path, found=found, remedy=remedy,
                     expected="PREFIX.ranks.json, or the PREFIX of PREFIX.0.et, PREFIX.1.et, ...")  # fmt: skip


def what_is(path: str) -> str:
    """What a file, which is not what it should be, looks like."""
    head = head_of(path, 4096)
    return look(head) or f"bytes {head[:8].hex(' ')}" if head else "an empty file"


def refuse_unless_json(head: bytes, source: str, expected: str) -> None:
    """Raise InputError if a file that begins with ``head`` is surely not ``expected``, which is KINETO or HOST."""
    if not head:
        raise InputError("the file is empty", file=source, expected=expected, remedy="create the file again")
    text = head.removeprefix(BOM).lstrip()
    found = _json_look(head) or ""
    other = _LOOKS[HOST if expected == KINETO else KINETO]
    if text.startswith((b"{", b"[")) and (found == _LOOKS[expected] or found not in (other, _JSONIZED)):
        return
    if not found:
        found = look(head) or f"bytes {head[:8].hex(' ')}"
    raise InputError(f"this is not {expected}", file=source, found=found, expected=expected, remedy=remedy_of(found))


def wrong_document(names: list[str], source: str, expected: str) -> InputError:
    """The error for a JSON document with members of these names, but not the list that ``expected`` has."""
    if "traceEvents" in names:
        found = _LOOKS[KINETO] if expected == HOST else "traceEvents that are no list"
    elif "nodes" in names:
        found = _LOOKS[HOST] if expected == KINETO else "nodes that are no list"
    else:
        shown = first_of([repr(name) for name in names], 6)
        found = f"a JSON document with the members {shown}" if names else "a JSON document without members"
    wanted = "traceEvents" if expected == KINETO else "nodes"
    return InputError(f"this is not {expected}", file=source, found=found, expected=f"a list {wanted!r}")


def unknown_schema(found: str, source: str) -> InputError:
    """The error for a trace that looks like one of a schema before 0.0.4, nobody knows which."""
    return InputError(
        "this trace was not written with Chakra schema 0.0.4 or 1.0",
        file=source,
        place="byte 0",
        found=found,
        expected="GlobalMetadata, then the nodes of schema 0.0.4",
        remedy="create the trace again with today's Chakra tools",
    )


def _json_look(head: bytes) -> str | None:
    text = head.removeprefix(BOM).lstrip()
    if not text.startswith((b"{", b"[")):
        return None
    after = text[1:].lstrip()
    if not after.startswith((b'"', b"{", b"[", b"}", b"]")) or not _is_text(head):
        return None
    if b'"globalMetadata' in text or b'"COMP_NODE"' in text or b'"dataDeps"' in text:
        return _LOOKS.get(by_words(text), _JSONIZED)
    return _LOOKS.get(by_words(text), "a JSON file")


def by_words(text: bytes) -> str:
    """KINETO or HOST if words of such a JSON document are in its beginning, however damaged; else ""."""
    if b'"traceEvents"' in text or b'"schemaVersion"' in text or b'"deviceProperties"' in text:
        return KINETO
    return HOST if b'"schema"' in text and (b'"pid"' in text or b'"nodes"' in text) else ""


def _is_chakra(head: bytes) -> bool:
    """Whether ``head`` begins with metadata that state a version: length, field 1, its length, digits and points."""
    if len(head) < 4 or head[0] > 127 or head[1] != 0x0A or head[2] + 2 > head[0]:
        return False
    version = head[3 : 3 + head[2]]
    return version != b"" and all(byte in b"0123456789." for byte in version)


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as fault:
        if fault.start < len(head) - 4:
            return False
    return not head.translate(None, bytes({*b"\t\n\r\f\x1b", *range(32, 256)}))


def look(data: bytes) -> str | None:
    """What ``data``, which are no Chakra trace, look like; None if nothing known."""
    head = data[:4096]
    profile = kinds.kind_of(head)
    if profile:
        return "an SQLite database (an Nsight Systems export?)" if profile == kinds.NSYS else profile
    known = signature(head)
    if known is not None:
        return known.name
    json = _json_look(head)
    if json is not None:
        return json
    if _is_chakra(head):
        return _CHAKRA
    if not any(head):
        return "nothing but zeros"
    foreign = kind_of(head)
    if foreign:
        return foreign
    if _is_text(head):
        first = head.split(b"\n", 1)[0][:40].decode("utf-8", "replace").strip()
        return f"a text file beginning {first!r}"
    return None


def damage(status: int, columns: Columns, source: str, added: int = 0) -> InputError:
    """The error for a decoding that ended with the code ``status``; the first ``added`` bytes are not of the file."""
    from chakrasim.trace.chakra import wire

    faults = {
        wire.BAD_LENGTH: "the length of the next message is absurd",
        wire.BAD_FRAME_END: "the file ends in the middle of a message",
        wire.BAD_VARINT: "a number is malformed",
        wire.BAD_END: "a field reaches beyond the end of its message",
        wire.BAD_TAG: "a field's tag is malformed",
        wire.BAD_UTF8: "a string is not valid UTF-8",
        wire.BAD_GROUP: "a field group has no matching end",
        wire.BAD_PACKED: "a packed list has a length that does not divide",
    }
    state = columns.state
    frames, begin, at = int(state[wire.FRAMES]), int(state[wire.POS]), int(state[wire.ERR_POS])
    data = columns.data
    message = "the metadata" if frames == 0 else f"node number {frames - 1} of the file"
    found = f"bytes {data[at : at + 8].tobytes().hex(' ')}"
    remedy = "copy or create the file again, or read it leniently (--lenient) to keep the intact beginning"
    if status == wire.BAD_FRAME_END:
        left = len(data) - begin
        need = int(state[wire.NEED])
        found = f"{left} of its {need} bytes" if need else f"{left} bytes of its length"
    if frames <= 1:
        guess = look(data[added : 4096 + added].tobytes())
        if guess is not None and guess != _CHAKRA:
            remedy = remedy_of(guess) or _REMEDY
            return InputError("this is no Chakra trace", file=source, found=guess, expected=_CHAKRA, remedy=remedy)
        remedy = "this may be no Chakra trace at all, or one that was cut off or damaged: create it again"
    return InputError(
        f"the trace is damaged: {faults[status]}",
        file=source,
        place=f"byte {at - added}, in {message} (which begins at byte {begin - added})",
        found=found,
        remedy=remedy,
    )
