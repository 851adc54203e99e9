"""Reading and writing one Chakra execution trace (``.et``, plain or gzip)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from chakrasim.files import storage
from chakrasim.files.inputs import Bound, bound
from chakrasim.files.outputs import write_whole
from chakrasim.notes import Notes, lists_too
from chakrasim.trace import recognise
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Trace


@lists_too
def parse_trace(
    data: bytes,
    source: str = "<memory>",
    *,
    lenient: bool = False,
    notes: Notes | None = None,
    limit: Bound | None = None,
) -> Trace:
    """The trace in the uncompressed bytes ``data`` of a Chakra file.

    ``source`` names the data in messages. A trace of the schemas 0.0.1 to 0.0.3 becomes what 0.0.4 has for the same,
    with a warning of the unit that its run times are taken in. Unknown fields are left out, with a warning. Raises
    InputError with the byte and the node where the data stop being a trace; with ``lenient`` the intact messages before
    that place are kept instead, and a warning counts what was kept and lost. ``limit`` bounds the memory of the trace's
    columns; None: by the number of bytes.
    """
    recognise.refuse_other_formats(data, source)
    return _parsed(data, source, lenient, Notes() if notes is None else notes, limit)


def _parsed(data: bytes, source: str, lenient: bool, notes: Notes, limit: Bound | None, added: int = 0) -> Trace:
    """As `parse_trace`; the first ``added`` bytes are not of the file, whose places are told without them."""
    from chakrasim.trace.chakra import legacy, wire
    from chakrasim.trace.chakra.decoded import Columns

    columns = Columns(np.frombuffer(data, np.uint8), limit or bound(len(data)), source)
    status = columns.decode()
    unknown = int(columns.state[wire.UNKNOWN])
    if status != wire.DONE or unknown or columns.version().startswith("\n"):
        older = legacy.look(data, status != wire.DONE)
        if older is not None:
            schema, found = older
            if not schema:
                raise recognise.unknown_schema(found, source)
            if schema == legacy.NO_METADATA:
                notes.note(f"{source}: the nodes have no metadata before them, which read as empty")
                return _parsed(b"\0" + data, source, lenient, notes, limit, added=1)
            from chakrasim.trace.chakra.old_schemas import read_old

            return read_old(data, source, schema, lenient=lenient, notes=notes, limit=limit or bound(len(data)))
    if status != wire.DONE:
        damage = recognise.damage(status, columns, source, added)
        if not lenient or not columns.state[wire.FRAMES]:
            raise damage
        kept = int(columns.state[wire.FRAMES]) - 1
        lost = len(data) - int(columns.state[wire.POS])
        notes.warn(f"{damage}: kept the {kept} nodes before it, left out the last {lost} of {len(data) - added} bytes")
    if unknown:
        notes.warn(f"{source}: left out {unknown} fields that Chakra schema 0.0.4 does not define")
    return columns.trace(source)


@lists_too
def read_trace(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Trace:
    """The trace in the file ``path``, plain or gzip (told by content).

    ``max_bytes`` bounds the memory that reading takes (None: see `chakrasim.files.inputs.bound`). Errors and
    ``lenient`` are as in `parse_trace`.
    """
    source = os.fspath(path)
    notes = Notes() if notes is None else notes
    return unpacked_trace(storage.read_bytes(source, max_bytes), source, max_bytes, lenient, notes)


def unpacked_trace(raw: bytes, source: str, max_bytes: int | None, lenient: bool, notes: Notes) -> Trace:
    """The trace in a file's bytes, which may be compressed."""
    limit = bound(len(raw), max_bytes)
    data = storage.unpack(raw, source, limit, lenient, notes)
    return parse_trace(data, source, lenient=lenient, notes=notes, limit=limit)


def write_trace(path: str | os.PathLike[str], trace: Trace, compress: bool | None = None) -> None:
    """Write ``trace`` to ``path``, gzip if ``compress`` or (None) if the name ends in ``.gz``.

    The file appears complete or not at all, and the same trace always gives the same bytes.
    """
    target = Path(path)
    data = encode_trace(trace)
    if compress if compress is not None else target.name.endswith(".gz"):
        data = storage.pack(data)
    write_whole(target, data)
