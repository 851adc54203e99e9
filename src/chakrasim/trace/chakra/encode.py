"""Encoding of a trace as the bytes of a Chakra file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import BYTES, STRING


def encode_trace(trace: Trace) -> bytes:
    """The uncompressed bytes of the Chakra file that holds ``trace``; the same trace gives the same bytes.

    Raises InputError for a message of 2 GiB or more, which no reader accepts.
    """
    from chakrasim.trace.chakra.wire_out import encode_frames

    offsets, blob, version = _with_version(trace)
    text = _text_bytes(trace)
    deps = np.concatenate((trace.ctrl_deps.targets, trace.data_deps.targets))
    attributes = len(trace.attrs) + len(trace.meta)
    # A number takes at most 10 bytes, a tag 2 and a length 5; a node has 4 numbers, 2 lists and 7 strings.
    bound = 200 * (len(trace) + 1) + 10 * len(deps) + 60 * attributes + 17 * len(trace.lists.targets) + text
    out = np.empty(bound, np.uint8)
    begin = encode_frames(
        out,
        _words(trace),
        np.append(np.array([version], np.int32), trace.name_index),
        _ports(trace),
        deps,
        _dep_ends(trace),
        np.append(np.zeros(1, np.int64), trace.attrs.offsets + len(trace.meta)),
        np.concatenate((trace.meta.name, trace.attrs.name)),
        np.concatenate((trace.meta.kind, trace.attrs.kind)),
        np.concatenate((trace.meta.bits, trace.attrs.bits)),
        np.concatenate((trace.meta.doc, trace.attrs.doc)),
        _plain(trace.lists.offsets),
        _plain(trace.lists.targets),
        _plain(offsets),
        _plain(blob),
    )
    if begin < 0:
        place = "the metadata" if begin == -1 else trace.place(-2 - int(begin))
        raise InputError(
            "this message is too large for a trace", file=trace.source, place=place, expected="less than 2 GiB"
        )
    return out[begin:].tobytes()


def same_content(one: Trace, other: Trace) -> bool:
    """Whether both hold the same nodes, attributes and metadata in the same order (the source does not count)."""
    return one is other or (len(one) == len(other) and encode_trace(one) == encode_trace(other))


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A contiguous, writable array: the one form that the kernel is compiled for."""
    return np.require(column, requirements=("C", "W"))


def _words(trace: Trace) -> NDArray[np.uint64]:
    words = np.zeros((len(trace) + 1, 4), np.uint64)
    words[1:, 0] = trace.ids
    words[1:, 1] = trace.types.astype(np.int64).view(np.uint64)
    words[1:, 2] = trace.start_micros
    words[1:, 3] = trace.duration_micros
    return words


def _ports(trace: Trace) -> NDArray[np.int32]:
    ports = np.full((len(trace) + 1, 6), -1, np.int32)
    ports[1:, :3] = trace.inputs
    ports[1:, 3:] = trace.outputs
    return ports


def _dep_ends(trace: Trace) -> NDArray[np.int64]:
    ends = np.zeros((2, len(trace) + 2), np.int64)
    ends[0, 1:] = trace.ctrl_deps.offsets
    ends[1, 1:] = trace.data_deps.offsets
    ends[1] += len(trace.ctrl_deps.targets)
    return ends


def _with_version(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """The string table with the version string added at its end, and the index of that."""
    strings = trace.strings
    if not trace.version:
        return strings.offsets, strings.blob, 0
    extra = np.frombuffer(trace.version.encode("utf-8"), np.uint8)
    offsets = np.append(strings.offsets, strings.offsets[-1] + len(extra))
    return offsets, np.concatenate((strings.blob, extra)), len(strings)


def _text_bytes(trace: Trace) -> int:
    """Bytes of all strings, each as often as it is written (and of what else uses the same list slots)."""
    sizes = np.diff(trace.strings.offsets)
    total = int(sizes[trace.name_index].sum()) + len(trace.version.encode())
    for io in (trace.inputs, trace.outputs):
        total += int(sizes[io[io[:, 0] >= 0]].sum())
    for table in (trace.attrs, trace.meta):
        total += int(sizes[table.name].sum()) + int(sizes[table.doc].sum())
        texts = (table.kind == STRING) | (table.kind == BYTES)
        total += int(sizes[table.bits[texts].astype(np.int64)].sum())
        lists = (table.kind == STRING + 1) | (table.kind == BYTES + 1)
        total += int(sizes[_elements(trace, table.bits[lists].astype(np.int64))].sum())
    return total


def _elements(trace: Trace, lists: NDArray[np.int64]) -> NDArray[np.int64]:
    """The elements of the given lists, end to end."""
    starts = trace.lists.offsets[lists]
    lengths = trace.lists.offsets[lists + 1] - starts
    ends = np.cumsum(lengths)
    places = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    elements: NDArray[np.int64] = trace.lists.targets[places].astype(np.int64)
    return elements
