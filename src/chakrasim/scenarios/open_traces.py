"""The open straggler traces of ByteDance and NYU (OSDI 2025): operations as Parquet, the job's sizes as YAML.

The Parquet file has a row for each operation: ``dp_rank``, ``stage``, ``rank``, ``step``, ``optype`` (of `KINDS`),
``start_ts`` and ``duration`` in seconds, ``seq_id`` (the n-th of its kind in the step on the rank) and ``mc`` (model
chunk); what else it has is not needed. The YAML file has ``dp_size``, ``pp_size``, ``tp_size``, ``dsp_size`` (sequence
parallel), ``vpp_size`` and ``world_size``, their product without ``vpp_size``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.decode import printable
from chakrasim.config.section import Section, open_section
from chakrasim.config.values import parse_integer
from chakrasim.errors import InputError, near
from chakrasim.files.inputs import file_bound, open_input
from chakrasim.notes import Notes
from chakrasim.scenarios.operations import KINDS, Floats, Ints, Operations

KIND: Final = "straggler trace (Parquet)"
_NUMBERS: Final = ("dp_rank", "stage", "rank", "step", "seq_id", "mc")
_TIMES: Final = ("start_ts", "duration")
_SIZES: Final = ("dp_size", "pp_size", "tp_size", "dsp_size", "vpp_size", "world_size")
_OTHER: Final = ("trial_name", "run_id")
_MOST: Final = 1 << 40
_ROW_BYTES: Final = 200
"""What a row takes in memory while it is read and arranged."""


@dataclass(frozen=True)
class JobSizes:
    """How a job is divided: replicas, stages, and what shares each of them. ``name`` is the trial's."""

    name: str
    dp: int
    pp: int
    tp: int
    dsp: int
    vpp: int


def read_sizes(source: object, notes: Notes | None = None) -> JobSizes:
    """The YAML file (path or mapping). Raises `InputError`."""
    section = open_section(source, "metadata of a straggler trace", "yaml", notes)
    section.warn_unknown((*_SIZES, *_OTHER))
    if "world_size" not in section or "dp_size" not in section or "pp_size" not in section:
        missing = next(name for name in ("dp_size", "pp_size", "world_size") if name not in section)
        section.fail(missing, "the key is missing", expected="how many ranks, replicas and stages the job has")
    sizes = {name: _size(section, name) for name in _SIZES}
    product = sizes["dp_size"] * sizes["pp_size"] * sizes["tp_size"] * sizes["dsp_size"]
    if sizes["world_size"] != product:
        section.refuse("world_size", "the sizes do not agree", f"dp x pp x tp x dsp = {product}")
    name = str(section.entries.get("trial_name", ""))
    return JobSizes(name, *(sizes[f"{each}_size"] for each in ("dp", "pp", "tp", "dsp", "vpp")))


def _size(section: Section, name: str) -> int:
    if name not in section:
        return 1
    value = section.entries[name]
    number = parse_integer(value) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MOST:
        section.refuse(name, "no size", "a whole number from 1 on")
    return number


def read_open_trace(path: str | os.PathLike[str], sizes: JobSizes | None = None) -> Operations:
    """The operations of the Parquet file; with ``sizes``, checked against them. Raises `InputError`."""
    name = printable(str(path))
    table = _table(os.fspath(path), name)
    known = set(table.column_names)
    for column in (*_NUMBERS, "optype", *_TIMES):
        if column not in known:
            raise InputError(
                "a column is missing", file=name, place=f"column {column}", found=", ".join(table.column_names)[:200],
                expected=", ".join((*_NUMBERS, "optype", *_TIMES)), remedy=near(column, known) or None,
            )  # fmt: skip
    if table.num_rows == 0:
        raise InputError("there is no operation", file=name, found="0 rows", expected="a row for each operation")
    number = {column: _integers(table, column, name) for column in _NUMBERS}
    times = {column: _seconds(table, column, name) for column in _TIMES}
    rows = Operations(
        number["dp_rank"], number["stage"], number["rank"], number["step"], _kinds(table, name), number["seq_id"],
        number["mc"], times["start_ts"], times["duration"], file=name,
    )  # fmt: skip
    return rows if sizes is None else _sized(rows, sizes)


def _sized(rows: Operations, sizes: JobSizes) -> Operations:
    """The rows of a job with these sizes."""
    for column, values, expected, key in (
        ("dp_rank", rows.dp_rank, sizes.dp, "dp_size"),
        ("stage", rows.stage, sizes.pp, "pp_size"),
        ("mc", rows.chunk, sizes.vpp, "vpp_size"),
    ):
        found = max(int(values.max()) + 1, 1)
        if found != expected:
            raise InputError(
                "the trace and the metadata are not of one job", file=rows.file, place=f"column {column}",
                found=f"numbers up to {found - 1}", expected=f"up to {expected - 1}, since {key} is {expected}",
                remedy="give the metadata of this trace",
            )  # fmt: skip
    own = {name: getattr(rows, name) for name in Operations.__dataclass_fields__}
    return Operations(**(own | {"data_parallel": sizes.dp * sizes.dsp > 1}))


def _table(path: str, name: str) -> Any:
    """The file as an Arrow table of the columns that are needed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "reading Parquet needs pyarrow", file=name, remedy="pip install 'chakrasim[parquet]'"
        ) from None
    try:
        with open_input(path, KIND) as file:
            bound = file_bound(file)
            opened = pyarrow.parquet.ParquetFile(file)
            bound.check(opened.metadata.num_rows * _ROW_BYTES, name)
            wanted = {*_NUMBERS, *_TIMES, "optype"}
            return opened.read([column for column in opened.schema_arrow.names if column in wanted], use_threads=False)
    except FileNotFoundError:
        raise InputError(f"{KIND}: no such file", file=name, remedy="check the path") from None
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        lines = (getattr(error, "strerror", None) or str(error) or "unreadable").splitlines()
        raise InputError(
            f"{KIND}: cannot be read", file=name, found=lines[0][:200], expected="a whole Parquet file"
        ) from None


def _column(table: Any, column: str, file: str, good: bool, expected: str) -> Any:
    """The column as one array. Raises InputError for another type, and for rows without a value."""
    values = table.column(column)
    if not good:
        raise InputError("not the type of this column", file=file, place=f"column {column}", found=str(values.type),
                         expected=expected)  # fmt: skip
    if values.null_count:
        row = values.is_null().to_pylist().index(True)
        raise InputError("a value is missing", file=file, place=f"row {row}: {column}", expected=expected)
    return values


def _values(chunks: Sequence[Any]) -> NDArray[Any]:
    """The values of chunks without gaps. pyarrow's own way to NumPy imports pandas, which takes a second."""
    return np.concatenate([np.from_dlpack(chunk) for chunk in chunks])


def _integers(table: Any, column: str, file: str) -> Ints:
    import pyarrow

    good = pyarrow.types.is_integer(table.column(column).type)
    return _values(_column(table, column, file, good, "whole numbers").chunks).astype(np.int64)


def _seconds(table: Any, column: str, file: str) -> Floats:
    import pyarrow

    kind = table.column(column).type
    good = pyarrow.types.is_float32(kind) or pyarrow.types.is_float64(kind)
    return _values(_column(table, column, file, good, "seconds as float or double").chunks)


def _kinds(table: Any, file: str) -> Ints:
    """int64[rows]: which of `KINDS` each row is."""
    import pyarrow

    kind = table.column("optype").type
    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    text = pyarrow.types.is_string(inner) or pyarrow.types.is_large_string(inner)
    column = _column(table, "optype", file, text, "names of operations").unify_dictionaries()
    coded = (
        column.combine_chunks() if pyarrow.types.is_dictionary(kind) else column.dictionary_encode().combine_chunks()
    )
    if isinstance(coded, pyarrow.ChunkedArray):  # some versions of pyarrow give one for no rows, or several
        coded = coded.chunk(0)
    # What is no UTF-8 is no kind, either: it is shown escaped.
    raw = coded.dictionary.cast(pyarrow.binary()).to_pylist()
    names = ["" if each is None else each.decode("utf-8", "backslashreplace") for each in raw]
    number = {name: KINDS.index(name) if name in KINDS else -1 for name in names}
    kinds: Ints = np.array([number[name] for name in names], np.int64)[_values([coded.indices])]
    if kinds.min() < 0:
        row = int(np.argmin(kinds))
        word = names[int(coded.indices[row].as_py())]
        raise InputError("no such kind of operation", file=file, place=f"row {row}: optype", found=repr(word[:60]),
                         expected=", ".join(KINDS), remedy=near(word, KINDS) or None)  # fmt: skip
    return kinds
