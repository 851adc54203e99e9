"""Bytes on disk: finding the files of all ranks, reading with bounds, gzip."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from contextlib import suppress
from typing import Any

from chakrasim.errors import InputError
from chakrasim.files.inputs import Bound, bound, file_bound, open_input, refuse_special, take
from chakrasim.files.signatures import GZIP
from chakrasim.notes import Notes
from chakrasim.text.amounts import some_of

_STEP = 1 << 20
_PACKED_STEP = 1 << 16  # what is behind a member's end is copied at each of them, so a file of many has small steps
_LIKELY_RATIO = 64  # traces are packed to a thirtieth, and what damaged data say of their size is anything
_WHOLE_KEY_BYTES = 4096  # up to this size the bytes themselves serve as their fingerprint


class Stream:
    """A file's bytes one after another, uncompressed if it is gzip (told by its first two bytes).

    Raises InputError if the file cannot be read, is no file, or unpacks to more than ``bound``. Damage of compressed
    data ends the stream and is kept in ``fault``. ``taken`` of the ``size`` bytes on disk have been used so far;
    ``likely_bytes`` there may be in all, but nothing is sure before the end.
    """

    def __init__(self, path: str, expected: str, max_bytes: int | None = None) -> None:
        self._path = path
        self._expected = expected
        self.fault: str | None = None
        self.taken = self._given = 0
        try:
            self._file = open_input(path, expected)
            self.bound = file_bound(self._file, max_bytes)
            self.size = os.fstat(self._file.fileno()).st_size
            self.packed = self._file.read(2) == GZIP
            self.likely_bytes = self._said_bytes() if self.packed else self.size
            self._file.seek(0)
        except (OSError, ValueError) as fault:
            raise _cannot_read(path, fault, expected) from None
        self._member: Any = None
        self._rest = b""
        self._ready = memoryview(b"")

    def _said_bytes(self) -> int:
        """What the end of gzip data says of their size, if that is possible."""
        self._file.seek(max(self.size - 4, 0))
        said = int.from_bytes(self._file.read(4), "little")
        return min(said, _LIKELY_RATIO * self.size, self.bound.bytes - 1)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def check(self, held_bytes: int, *what: str) -> None:
        """Give the file back and raise InputError if what is held for it is more than reading it may take."""
        try:
            self.bound.check(held_bytes, self._path, *what)
        except InputError:
            self.close()
            raise

    def skip_to(self, byte: int) -> None:
        """Go on at this byte of a file that is not compressed."""
        self._file.seek(byte)

    def refuse_damage(self) -> None:
        """Raise InputError if the stream ended where compressed data are damaged."""
        if self.fault:
            raise InputError(
                "the gzip data are damaged",
                file=self._path,
                found=self.fault,
                expected="complete gzip data",
                remedy="copy or create the file again",
            )

    def fill(self, target: memoryview) -> int:
        """Put the next bytes into ``target``; how many, 0 at the end."""
        try:
            if self.packed:
                return self._unpack(target)
            size = self._file.readinto(target) or 0
        except OSError as fault:
            raise _cannot_read(self._path, fault, self._expected) from None
        self.taken += size
        return size

    def _unpack(self, target: memoryview) -> int:
        if not self._ready:
            self._ready = memoryview(self._next_part())
        size = min(len(target), len(self._ready))
        target[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        self._given += size
        self.check(self._given, "the compressed file, unpacked,")
        return size

    def _next_part(self) -> bytes:
        """More uncompressed bytes; none at the end. Their sizes do not depend on the caller, nor what damage spares."""
        while self.fault is None:
            between = self._member is None or self._member.eof
            if not self._rest:
                self._rest = self._file.read(_PACKED_STEP)
                self.taken += len(self._rest)
                if not self._rest:
                    self.fault = None if between else "the data end early"
                    break
            if between:
                self._rest = self._rest.lstrip(b"\0") if self._member else self._rest
                if not self._rest:
                    continue
                self._member = zlib.decompressobj(wbits=31)
            before = self._member.copy()
            try:
                part: bytes = self._member.decompress(self._rest, _STEP)
            except zlib.error as reason:
                self.fault = str(reason)
                return _intact(before, self._rest)
            self._rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if part:
                return part
        return b""


def _intact(member: Any, data: bytes) -> bytes:
    """What can be uncompressed of ``data``, which are damaged somewhere."""
    parts: list[bytes] = []
    with suppress(zlib.error):
        for at in range(len(data)):
            parts.append(member.decompress(data[at : at + 1]))
    return b"".join(parts)


def head_of(path: str | os.PathLike[str], most: int) -> bytes:
    """The first bytes of a file, unpacked, ``most`` at most; none where there is no file that can be read."""
    if not os.path.isfile(path):
        return b""
    try:
        with Stream(os.fspath(path), "a file") as file:
            view = memoryview(bytearray(most))
            return bytes(view[: file.fill(view)])
    except InputError:
        return b""


def read_bytes(path: str, max_bytes: int | None = None, expected: str = "a Chakra trace file") -> bytes:
    """The whole file. Raises InputError if it cannot be read, is no file, or is larger than its `bound`."""
    try:
        with open_input(path, expected) as file:
            limit = file_bound(file, max_bytes)
            size = os.fstat(file.fileno()).st_size
            limit.check(size, path, "the file")
            data = take(file, limit.bytes)
            limit.check(len(data), path, "the file")
            return data
    except (OSError, ValueError) as fault:
        raise _cannot_read(path, fault, expected) from None
    except MemoryError:
        raise InputError("the file does not fit into memory", file=path, found=f"{size:,} bytes") from None


def _cannot_read(path: str, fault: Exception, expected: str = "a Chakra trace file") -> InputError:
    if isinstance(fault, FileNotFoundError):
        if os.path.isfile(f"{path}.ranks.json"):
            remedy = f"name one of its traces, such as {path}.class-0.et"
            return InputError("this is the prefix of a job, not a file", file=path, remedy=remedy)
        return InputError("there is no such file", file=path, remedy="check the name and the folder")
    if isinstance(fault, IsADirectoryError):
        return InputError("this is a folder", file=path, expected=expected, remedy="name a file in it, or a prefix")
    text = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
    return InputError(f"the file cannot be read: {text}", file=path)


def read_unpacked(
    path: str, max_bytes: int | None = None, expected: str = "a Chakra trace file", held: int = 1
) -> bytes:
    """The whole file, uncompressed if it is gzip. ``held``: how many bytes of memory its reader needs for one of them.

    Raises InputError as `read_bytes` and `unpack` do.
    """
    raw = read_bytes(path, max_bytes, expected)
    return unpack(raw, path, bound(len(raw), max_bytes).shared(held), False, Notes())


def unpack(raw: bytes, source: str, limit: Bound, lenient: bool, notes: Notes) -> bytes:
    """The uncompressed bytes: ``raw`` itself unless it is gzip by its first two bytes.

    Damaged compressed data, and more of them than ``limit``, raise InputError; with ``lenient`` what of damaged data
    could be uncompressed is kept, with a warning.
    """
    if not raw.startswith(GZIP):
        return raw
    parts: list[bytes] = []
    size = at = 0
    fault = None
    view = memoryview(raw)
    while at < len(raw) and fault is None:
        member = zlib.decompressobj(wbits=31)
        try:
            while not member.eof and at < len(raw):
                piece = view[at : at + _PACKED_STEP]
                parts.append(member.decompress(piece, _STEP))
                at += len(piece) - len(member.unconsumed_tail) - len(member.unused_data)
                size += len(parts[-1])
                limit.check(size, source, f"the compressed file of {len(raw):,} bytes, unpacked,")
        except zlib.error as reason:
            fault = str(reason)
        if fault is None and not member.eof:
            fault = "the data end early"
        at = _skip_padding(raw, at)
    if fault is not None:
        damage = InputError(
            "the gzip data are damaged",
            file=source,
            place=f"after {size} uncompressed bytes",
            found=fault,
            expected="complete gzip data",
            remedy="copy or create the file again, or read it leniently (--lenient) to keep the intact beginning",
        )
        if not lenient or not size:
            raise damage
        notes.warn(str(damage))
    return b"".join(parts)


def _skip_padding(raw: bytes, at: int) -> int:
    """gzip files may be padded with zeros, for instance on tape."""
    while at < len(raw) and raw[at] == 0:
        at += 1
    return at


def pack(data: bytes) -> bytes:
    """gzip data that depend on nothing but ``data``."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def fingerprint(raw: bytes) -> bytes:
    """A key that is equal for equal bytes only."""
    if len(raw) <= _WHOLE_KEY_BYTES:
        return raw
    from hashlib import blake2b  # loads a large library

    return blake2b(raw, digest_size=32).digest() + b"\0" * _WHOLE_KEY_BYTES


def rank_files(prefix: str, ranks: int | None, notes: Notes) -> list[str]:
    """The files ``PREFIX.0.et``, ``PREFIX.1.et``, ... (plain before ``.et.gz``), found by listing the folder once.

    Raises InputError if there is none, if one is missing in between, or if there are fewer than ``ranks``.
    """
    folder, stem = os.path.split(prefix)
    try:
        names = os.listdir(folder or ".")
    except (OSError, ValueError) as fault:
        text = getattr(fault, "strerror", None) or str(fault)
        raise InputError(
            f"the folder of the traces cannot be listed: {text}", file=folder or ".", remedy="check the prefix"
        ) from None
    found = _ranks(names, stem)
    if not found:
        refuse_special(prefix, "a trace, or the beginning of the names of traces")
        raise _nothing_found(prefix, stem, names)
    count = len(found) if ranks is None else ranks
    missing = next((rank for rank in range(count) if rank not in found), None)
    if missing is not None:
        raise InputError(
            f"the trace of rank {missing} is missing",
            file=f"{prefix}.{missing}.et",
            found=f"{len(found)} files for ranks {min(found)} to {max(found)}",
            expected=f"one file for each of the {max(count, max(found) + 1) if ranks is None else ranks} ranks",
            remedy="add the file, or rename the files so that ranks count from 0 without gaps",
        )
    if len(found) > count:
        notes.warn(f"{prefix}.*.et: left out {len(found) - count} trace files: only {count} ranks were asked for")
    return [os.path.join(folder, found[rank]) for rank in range(count)]


def _ranks(names: list[str], stem: str) -> dict[int, str]:
    pattern = re.compile(re.escape(stem) + r"\.(0|[1-9][0-9]{0,8})\.et(\.gz)?", re.ASCII)
    found: dict[int, str] = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match and (match[2] is None or int(match[1]) not in found):
            found[int(match[1])] = name
    return found


def _nothing_found(prefix: str, stem: str, names: list[str]) -> InputError:
    similar = sorted(name for name in names if name.endswith((".et", ".et.gz")) or name.startswith(stem))
    if any(name.startswith(f"{stem}.class-") for name in similar):
        return InputError(
            "the traces of this job are here, but not the file that says which rank runs which",
            file=f"{prefix}.ranks.json",
            found=f"{sum(name.startswith(f'{stem}.class-') for name in similar)} files {stem}.class-I.et",
            expected="the ranks file beside them",
            remedy="copy the ranks file too, or write the job again",
        )
    return InputError(
        "there are no trace files under this prefix",
        file=prefix,
        found=f"in that folder: {some_of(similar, 5)}" if similar else "no similar file in that folder",
        expected=f"{prefix}.0.et or {prefix}.0.et.gz",
        remedy="give the path up to, but without, .RANK.et",
    )
