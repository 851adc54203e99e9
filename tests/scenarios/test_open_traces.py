"""The reader of the open straggler traces: what it takes, and what it refuses with which words."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim import InputError
from chakrasim.notes import Notes
from chakrasim.scenarios.open_traces import read_open_trace, read_sizes
from chakrasim.scenarios.operations import KINDS
from chakrasim.scenarios.recorded_steps import replay_of
from made_steps import BC, FC, FS, Made, write_table

pytest.importorskip("pyarrow")
Columns = dict[str, Any]


def reading(path: str, meta: str) -> None:
    replay_of(read_open_trace(path, read_sizes(meta)))


def test_rows_are_read_as_they_stand(tmp_path: Path) -> None:
    made = Made(2, 2, 3, 2, 1)
    columns = made.columns(np.float32)
    path, meta = made.write(tmp_path, columns)
    rows = read_open_trace(path, read_sizes(meta))
    assert len(rows) == len(columns["step"]) and rows.start_s.dtype == np.float32
    assert [KINDS[kind] for kind in rows.kind] == columns["optype"].tolist()
    for name, own in (("rank", rows.rank), ("seq_id", rows.sequence), ("mc", rows.chunk), ("start_ts", rows.start_s)):
        assert own.tolist() == columns[name].tolist()


def test_dictionaries_and_row_groups_are_the_same(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    made = Made(2, 1, 2, 3, 2)
    columns = made.columns()
    path, _ = made.write(tmp_path, columns)
    table = pyarrow.table({name: pyarrow.array(each) for name, each in columns.items()})
    coded = table.set_column(
        table.column_names.index("optype"), "optype", pyarrow.array(columns["optype"]).dictionary_encode()
    )
    pyarrow.parquet.write_table(coded, tmp_path / "c.parquet", row_group_size=7)
    one, other = read_open_trace(path), read_open_trace(tmp_path / "c.parquet")
    assert all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("kind", "step", "start_s", "duration_s")
    )


def without(name: str) -> Callable[[Columns], Columns]:
    return lambda columns: {key: each for key, each in columns.items() if key != name}


def rows_left(keep: Callable[[Columns], Any]) -> Callable[[Columns], Columns]:
    return lambda columns: {key: each[keep(columns)] for key, each in columns.items()}


def put(name: str, value: Any, where: Callable[[Columns], Any]) -> Callable[[Columns], Columns]:
    def changed(columns: Columns) -> Columns:
        own = columns[name].astype(object) if isinstance(value, str) else columns[name].copy()
        own[np.flatnonzero(where(columns))[0]] = value
        return columns | {name: own.astype(str) if isinstance(value, str) else own}

    return changed


def of(kind: str, step: int = 8, dp_rank: int = 1) -> Callable[[Columns], Any]:
    return lambda c: (c["optype"] == kind) & (c["step"] == step) & (c["dp_rank"] == dp_rank)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("duration"), "column duration: a column is missing"),
        (without("seq_id"), "column seq_id: a column is missing"),
        (put("optype", "backward-compote", of(BC)), "no such kind of operation; found 'backward-compote'.*did you"),
        (put("seq_id", 0, lambda c: of(BC)(c) & (c["seq_id"] == 1)), "stands there twice; found backward-compute 0 of"),
        (put("seq_id", -1, of(BC)), "seq_id: no such number; found -1"),
        (put("seq_id", 9, of(BC)), "steps or replicas differ.*backward-compute 9"),
        (put("duration", np.nan, of(FC)), "duration: no such time; found nan"),
        (put("duration", -1.0, of(FC)), "duration: no such time; found -1.0"),
        (put("start_ts", np.inf, of(FC)), "start_ts: no such time; found inf"),
        (put("rank", 99, of(FC)), "a worker has two ranks"),
        (put("mc", 1, of(BC)), "the trace and the metadata are not of one job.*vpp_size is 1"),
        (rows_left(lambda c: ~of(FS)(c)), "step 8, dp_rank 1: steps or replicas differ in their operations"),
        (rows_left(lambda c: ~((c["step"] == 8) & (c["dp_rank"] == 0))), "step 8, dp_rank 0: a step lacks a replica"),
        (rows_left(lambda c: c["dp_rank"] == 0), "not of one job.*dp_size is 2"),
        (rows_left(lambda c: c["dp_rank"] == 1), "no row has dp_rank 0"),
        (rows_left(lambda c: c["optype"] != "optimizer"), "the stage has no optimizer"),
        (rows_left(lambda c: c["optype"] != FS), "forward messages to stage 1 do not match; found 0 sends"),
        (rows_left(lambda c: (c["optype"] != FS) | (c["seq_id"] > 0) | (c["stage"] > 0)), "forward messages to stage"),
        (rows_left(lambda c: c["step"] < 0), "there is no operation; found 0 rows"),
        (lambda c: c | {"start_ts": c["start_ts"].astype(str)}, "column start_ts: not the type of this column"),
        (lambda c: c | {"step": c["step"].astype(float)}, "column step: not the type of this column; found double"),
        (lambda c: c | {"optype": np.arange(len(c["step"]))}, "column optype: not the type of this column"),
        (lambda c: c | {"mc": [None, *c["mc"][1:].tolist()]}, "row 0: mc: a value is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(change: Callable[[Columns], Columns], words: str, tmp_path: Path) -> None:
    made = Made(2, 2, 3, 2, 3)
    path, meta = made.write(tmp_path)
    write_table(Path(path), change(made.columns()))
    with pytest.raises(InputError, match=words) as told:
        reading(path, meta)
    assert told.value.file == path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dp_size: 2\npp_size: 2\nworld_size: 8\n", r"line 3: \$.world_size: the sizes do not agree; found '8'"),
        ("dp_size: 2\npp_size: two\nworld_size: 4\n", "pp_size: no size; found 'two'"),
        ("dp_size: 2\npp_size: 0\nworld_size: 0\n", "no size"),
        ("dp_size: 2\npp_size: 2\n", "world_size: the key is missing"),
        ("dp_size: 2\npp_size: 1\nworld_size: 2\n", "not of one job.*pp_size is 1"),
        ("- 1\n", "not a metadata"),
    ],
)
def test_wrong_metadata_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path, meta = Made(2, 2, 2, 2, 3).write(tmp_path)
    Path(meta).write_text(text)
    with pytest.raises(InputError, match=words):
        reading(path, meta)


def test_unknown_keys_are_told(tmp_path: Path) -> None:
    notes = Notes()
    read_sizes({"dp_size": 2, "pp_size": 2, "world_size": 4, "trial_nam": "x"}, notes)
    assert "trial_nam: the key has no effect; did you mean trial_name?" in notes.warnings[0]


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"dp_rank,stage\n0,0\n", "half", "footer"])
def test_what_is_no_whole_parquet_file_is_refused(damage: bytes | str, tmp_path: Path) -> None:
    path, meta = Made(2, 2, 3, 2, 3).write(tmp_path)
    whole = Path(path).read_bytes()
    half = len(whole) // 2
    damaged = {"half": whole[:half], "footer": whole[:-608] + b"\xff" * 600 + whole[-8:]}
    Path(path).write_bytes(damaged[damage] if isinstance(damage, str) else damage)
    with pytest.raises(InputError, match=r"straggler trace \(Parquet\): cannot be read"):
        reading(path, meta)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_open_trace(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="cannot be read"):
        read_open_trace(tmp_path)


def test_a_missing_library_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, meta = Made(1, 1, 1, 1, 3).write(tmp_path)
    real = builtins.__import__

    def refusing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError("No module named 'pyarrow'")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(InputError, match=r"reading Parquet needs pyarrow; pip install 'chakrasim\[parquet\]'"):
        reading(path, meta)
