"""A job's nodes as a table in a Parquet file: a row for each node of each distinct trace."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.trace import Job, Trace
from chakrasim.trace.kinds import BOOL, DOUBLE, FIXED64, FLOAT, INTEGER_KINDS, STRING, UINT64, type_name

FORMAT: Final = "chakrasim-nodes/1"
_PORTS: Final = ("values", "shapes", "types")


def parquet_bytes(job: Job) -> bytes:
    """The file, which needs pyarrow (extra ``parquet``).

    Columns: ``trace`` int32, the distinct trace; ``rank`` int32, the first rank that runs it; ``ranks`` int32, how many
    do; ``id`` uint64; ``name``, ``type`` text; ``start_us``, ``duration_us`` uint64; ``data_deps``, ``ctrl_deps`` lists
    of uint64; ``inputs.values`` and so on, text, where a trace has any; then each attribute as ``attr.NAME``, null
    where a node has none: bool, int64 (uint64 where a value needs it), double or text where all nodes have that kind,
    JSON as text elsewhere (where a negative value and one above 2^63 meet, too). The file's own metadata have
    ``chakrasim``: JSON with ``format``, ``ranks``, ``trace_of_rank`` and ``process_groups``.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("writing Parquet needs pyarrow", remedy="pip install 'chakrasim[parquet]'") from None
    which = np.asarray(job.trace_of_rank)
    lengths = [len(trace) for trace in job.traces]
    first = [int(np.argmax(which == at)) for at in range(len(job.traces))]
    counts = np.bincount(which, minlength=len(job.traces))
    number = np.repeat(np.arange(len(job.traces), dtype=np.int32), lengths)
    columns: dict[str, Any] = {
        "trace": number,
        "rank": np.array(first, np.int32)[number],
        "ranks": counts.astype(np.int32)[number],
        "id": _joined([trace.ids for trace in job.traces]),
        "name": _texts(pyarrow, [list(trace.strings) for trace in job.traces], [t.name_index for t in job.traces]),
        "type": pyarrow.array([type_name(one) for t in job.traces for one in t.types.tolist()]).dictionary_encode(),
        "start_us": _joined([trace.start_micros for trace in job.traces]),
        "duration_us": _joined([trace.duration_micros for trace in job.traces]),
        "data_deps": _lists(pyarrow, [trace.data_deps for trace in job.traces]),
        "ctrl_deps": _lists(pyarrow, [trace.ctrl_deps for trace in job.traces]),
    }
    for side in ("inputs", "outputs"):
        ports = [getattr(trace, side) for trace in job.traces]
        if any((one >= 0).any() for one in ports):
            for at, part in enumerate(_PORTS):
                texts = [list(trace.strings) for trace in job.traces]
                columns[f"{side}.{part}"] = _texts(pyarrow, texts, [one[:, at] for one in ports])
    for name in dict.fromkeys(name for trace in job.traces for name in trace.attr_names()):
        columns[f"attr.{name}"] = _attribute(pyarrow, job.traces, name)
    said = {
        "format": FORMAT,
        "ranks": job.ranks,
        "trace_of_rank": which.tolist(),
        "process_groups": {
            role: [list(map(int, one)) for one in groups] for role, groups in job.process_groups.items()
        },
    }
    table = pyarrow.table(columns).replace_schema_metadata({"chakrasim": json.dumps(said)})
    target = io.BytesIO()
    pyarrow.parquet.write_table(table, target, compression="zstd")
    return target.getvalue()


def _joined(parts: list[Any]) -> Any:
    return np.concatenate([np.ascontiguousarray(part) for part in parts])


def _texts(pyarrow: Any, tables: list[list[str]], indices: list[Any]) -> Any:
    """Texts by their index in the table of each trace; null for a negative index."""
    known = dict.fromkeys(text for table in tables for text in table)
    place = {text: at for at, text in enumerate(known)}
    moved = [np.array([place[text] for text in table], np.int32) for table in tables]
    parts = zip(moved, indices, strict=True)
    joined = np.concatenate([np.where(index >= 0, to[np.maximum(index, 0)], -1) for to, index in parts])
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(joined.astype(np.int32), mask=joined < 0), pyarrow.array(list(known), pyarrow.string())
    )


def _lists(pyarrow: Any, parts: list[Any]) -> Any:
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    values = pyarrow.array(_joined([part.targets for part in parts]), pyarrow.uint64())
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets), values)


def _attribute(pyarrow: Any, traces: tuple[Trace, ...], name: str) -> Any:
    """A column of the kind that all nodes have, or of JSON as text."""
    columns = [trace.attr(name) for trace in traces]
    present = np.concatenate([column.present & (column.kind > 0) for column in columns])
    kinds = {int(kind) for column in columns for kind in np.unique(column.kind[column.present]).tolist()} - {0}
    bits = np.concatenate([column.bits for column in columns])
    if kinds == {BOOL}:
        return pyarrow.array(bits != 0, mask=~present)
    if kinds and kinds <= INTEGER_KINDS - {BOOL}:
        unsigned = np.isin(np.concatenate([column.kind for column in columns]), (UINT64, FIXED64))
        top = (bits >> np.uint64(63)).astype(bool)
        large, negative = bool((top & unsigned).any()), bool((top & ~unsigned & present).any())
        if not (large and negative):
            return pyarrow.array(bits if large else bits.view(np.int64), mask=~present)
    values = [column.value(node) for column in columns for node in range(len(column.present))]
    if kinds and kinds <= {DOUBLE, FLOAT}:
        return pyarrow.array(values, pyarrow.float64())
    if kinds == {STRING}:
        return pyarrow.array(values, pyarrow.string()).dictionary_encode()
    return pyarrow.array(
        [None if value is None else json.dumps(value, default=repr) for value in values], pyarrow.string()
    )
