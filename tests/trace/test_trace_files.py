"""Files: finding the ranks, reading golden traces, gzip, and what is said about everything that is no trace."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import stat
import time
from pathlib import Path

import official
import pytest

import chakrasim.trace as ct
from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.notes import Notes
from same_content import same_content


def _small(ids: int = 3) -> ct.Trace:
    builder = ct.TraceBuilder(version="1.0.0", metadata={"schema": "test"})
    for at in range(ids):
        builder.add(
            at, f"n{at}", ct.NodeType.COMP_NODE, [at - 1] if at else [], attrs={"is_cpu_op": False, "num_ops": at}
        )
    return builder.build()


def _fails(data: bytes, *, lenient: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        ct.parse_trace(data, "x.et", lenient=lenient)
    return str(caught.value)


def _fails_to_read(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        ct.read_trace(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_llm_workload_is_read_as_by_the_official_library(shared_dir: Path) -> None:
    traces = ct.read(shared_dir / "workloads" / "stage-llm16" / "w")
    assert len(traces) == 16
    for rank in (0, 15):
        data = (shared_dir / "workloads" / "stage-llm16" / f"w.{rank}.et").read_bytes()
        official.assert_same(traces[rank], *official.read(data))
    assert traces[0].metadata == {"schema": "symbolic_tensor_network"}
    assert len(traces[0]) == 348
    column = traces[0].attr("comm_size")
    assert column.present.sum() == column.is_integer.sum()


def test_all_shared_workloads_are_written_back_byte_for_byte(shared_dir: Path) -> None:
    files = sorted((shared_dir / "workloads").rglob("*.et")) + sorted((shared_dir / "golden").rglob("chakra.*.et.gz"))
    assert len(files) > 100
    for path in files:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
        notes = Notes()
        assert ct.encode_trace(ct.read_trace(path, notes=notes)) == data, path
        assert not notes


def test_golden_converter_output_is_read_as_by_the_official_library(shared_dir: Path) -> None:
    files = sorted((shared_dir / "golden" / "chakra").rglob("chakra.*.et.gz"), key=lambda path: path.stat().st_size)
    for path in files[:3]:
        official.assert_same(ct.read_trace(path), *official.read(gzip.decompress(path.read_bytes())))


def test_written_file_is_complete_deterministic_and_without_leftovers(tmp_path: Path) -> None:
    trace = _small()
    ct.write_trace(tmp_path / "a.et", trace)
    ct.write_trace(tmp_path / "a.et.gz", trace)
    ct.write_trace(tmp_path / "b", trace, compress=True)
    assert sorted(os.listdir(tmp_path)) == ["a.et", "a.et.gz", "b"]
    assert (tmp_path / "a.et").read_bytes() == ct.encode_trace(trace)
    assert (tmp_path / "a.et.gz").read_bytes() == (tmp_path / "b").read_bytes()
    assert same_content(ct.read_trace(tmp_path / "b"), trace)
    assert ct.read_trace(tmp_path / "a.et").source == str(tmp_path / "a.et")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.et").stat().st_mode) == 0o666 & ~mask


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    ct.write_trace(tmp_path / "no" / "where" / "a.et", _small())
    assert same_content(ct.read_trace(tmp_path / "no" / "where" / "a.et"), _small())
    with pytest.raises(InputError, match="cannot be written"):
        ct.write_trace(tmp_path / "no" / "where" / "a.et" / "b.et", _small())


@pytest.mark.parametrize("letter", ["a", "é", "輪"])
def test_names_as_long_as_the_file_system_takes(tmp_path: Path, letter: str) -> None:
    name = letter * (252 // len(letter.encode())) + ".et"
    ct.write_trace(tmp_path / name, _small())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(InputError, match="File name too long"):
        ct.write_trace(tmp_path / f"{letter * 256}.et", _small())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_ranks_with_equal_bytes_share_one_trace(tmp_path: Path) -> None:
    one, other = _small(), _small(5)
    assert ct.write(tmp_path / "w", [one, other, one]) == [str(tmp_path / f"w.{rank}.et") for rank in range(3)]
    traces = ct.read(tmp_path / "w")
    assert traces[0] is traces[2] and same_content(traces[0], one)
    assert same_content(traces[1], other) and not same_content(traces[1], one)
    large = _small(900)
    ct.write(tmp_path / "big", [large, one, large], compress=True)
    traces = ct.read(tmp_path / "big")
    assert traces[0] is traces[2] and len(traces[0]) == 900 and len(traces[1]) == 3


def test_plain_files_win_over_compressed_ones_and_lists_are_read_in_order(tmp_path: Path) -> None:
    ct.write_trace(tmp_path / "w.0.et.gz", _small(1))
    ct.write_trace(tmp_path / "w.0.et", _small(2))
    ct.write_trace(tmp_path / "w.1.et.gz", _small(4))
    assert [len(trace) for trace in ct.read(tmp_path / "w")] == [2, 4]
    assert [len(trace) for trace in ct.read([tmp_path / "w.1.et.gz", tmp_path / "w.0.et.gz"])] == [4, 1]
    with pytest.raises(InputError, match="list of trace files has the wrong length; found 1; expected 2 files"):
        ct.read([tmp_path / "w.0.et"], ranks=2)


def test_names_that_only_resemble_a_rank_file_do_not_count(tmp_path: Path) -> None:
    ct.write_trace(tmp_path / "w.0.et", _small())
    for name in ("w.01.et", "w.1.et.bak", "w.x.et", "ww.1.et", "w.1et", "w.\u0661.et"):
        (tmp_path / name).write_bytes(b"")
    assert len(ct.read(tmp_path / "w")) == 1


def test_a_gap_names_the_missing_rank(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        ct.write_trace(tmp_path / f"w.{rank}.et", _small())
    with pytest.raises(InputError) as caught:
        ct.read(tmp_path / "w")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'w'}.2.et: the trace of rank 2 is missing; found 3 files for ranks 0 to 3")
    with pytest.raises(InputError, match=r"rank 2 is missing.*expected one file for each of the 3 ranks"):
        ct.read(tmp_path / "w", ranks=3)
    notes = Notes()
    assert len(ct.read(tmp_path / "w", ranks=2, notes=notes)) == 2
    assert [*notes] == [f"{tmp_path / 'w'}.*.et: left out 1 trace files: only 2 ranks were asked for"]


def test_no_files_at_all_names_what_was_looked_for_and_what_is_there(tmp_path: Path) -> None:
    ct.write_trace(tmp_path / "work.0.et", _small())
    with pytest.raises(InputError) as caught:
        ct.read(tmp_path / "wrok")
    assert "found in that folder: work.0.et; expected " in str(caught.value)
    assert f"expected {tmp_path / 'wrok'}.0.et or " in str(caught.value)
    with pytest.raises(InputError, match="folder of the traces cannot be listed: No such file"):
        ct.read(tmp_path / "no" / "w")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no similar file in that folder"):
        ct.read(empty / "w")


def test_a_thousand_equal_small_files_are_read_at_once(tmp_path: Path) -> None:
    trace = _small()
    ct.write(tmp_path / "w", [trace] * 1024)
    ct.read(tmp_path / "w")
    spans = []
    for _ in range(3):
        start = time.process_time()
        traces = ct.read(tmp_path / "w")
        spans.append(time.process_time() - start)
    assert len({id(trace) for trace in traces}) == 1
    assert min(spans) < 0.1  # 15 ms where nothing else runs


_OTHERS = {
    "an empty file": (b"", "the file is empty; expected a Chakra trace"),
    "a file of zeros": (bytes(5000), "4096 zeros at its beginning"),
    "Kineto": (
        json.dumps({"schemaVersion": 1, "traceEvents": []}).encode(),
        "found a JSON file that looks like a Kineto (PyTorch profiler, device) trace",
    ),
    "PyTorch": (
        json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}, indent=2).encode(),
        "found a JSON file that looks like a PyTorch execution (host) trace",
    ),
    "jsonizer": (b'{\n  "id": "1",\n  "type": "COMP_NODE"\n}{\n}', "looks like the output of chakra_jsonizer"),
    "JSON": (b'[{"a": 1}]', "found a JSON file; expected a Chakra trace; name a Chakra trace (.et), or convert"),
    "pickle": (pickle.dumps({"a": list(range(100))}), "found a Python pickle"),
    "zip": (b"PK\x03\x04" + b"\x14\x00\x00\x00" * 20, "found a zip archive"),
    "text": (b"HYBRID_TRANSFORMER\n12\nlayer 1 2 3\n", "found a text workload of ASTRA-sim 1.0"),
    "words": (b"HYBRID transformer\n", "found a text file beginning 'HYBRID transformer'"),
    "zeros in a hole": (b"\xff" * 30, "the length of the next message is absurd; found bytes ff ff ff ff ff ff ff ff"),
    "gzip in gzip": (b"\x1f\x8b\x08" + b"\xff" * 30, "found gzip data inside gzip"),
}  # fmt: skip


@pytest.mark.parametrize("name", _OTHERS)
def test_what_is_no_trace_is_named(name: str) -> None:
    data, message = _OTHERS[name]
    text = _fails(data)
    assert message in text
    assert text.startswith("x.et: ")


def test_folders_missing_files_and_names_that_no_file_can_have(tmp_path: Path) -> None:
    assert f"{tmp_path}: this is a folder; expected a Chakra trace file" in _fails_to_read(tmp_path)
    assert "there is no such file; check the name" in _fails_to_read(tmp_path / "no.et")
    assert "the file cannot be read: embedded null byte" in _fails_to_read(Path("a\0b"))


def _frames(*bodies: bytes) -> bytes:
    return official.frame(b"", *bodies)


def test_a_truncated_file_says_where_and_lenient_reading_keeps_the_rest() -> None:
    data = ct.encode_trace(_small(4))
    text = _fails(data[:-3])
    assert "x.et: byte 143, in node number 3 of the file (which begins at byte 143): " in text
    assert "the file ends in the middle of a message; found 38 of its 41 bytes; copy or create" in text
    notes = Notes()
    trace = ct.parse_trace(data[:-3], "x.et", lenient=True, notes=notes)
    assert trace.ids.tolist() == [0, 1, 2]
    assert same_content(trace, _small(3))
    assert len(notes) == 1 and notes.warnings[0].endswith(
        ": kept the 3 nodes before it, left out the last 38 of 181 bytes"
    )


def test_every_truncation_is_an_error_or_a_whole_number_of_nodes() -> None:
    data = ct.encode_trace(_small(4))
    whole = 0
    for size in range(1, len(data)):
        try:
            ct.parse_trace(data[:size])
            whole += 1
        except InputError:
            kept = ct.parse_trace(data[:size], lenient=True) if size > 25 else None
            assert kept is None or same_content(kept, _small(len(kept)))
    assert whole == 4


def test_damage_is_located_by_byte_and_node() -> None:
    good = official.Node(id=5, name="ok").SerializeToString()
    bad = official.Node(id=6).SerializeToString() + b"\x12\x02\xff\xfe"
    text = _fails(_frames(good, bad))
    assert "x.et: byte 13, in node number 1 of the file (which begins at byte 8): the trace is damaged: " in text
    assert "a string is not valid UTF-8; found bytes ff fe; " in text
    assert "the metadata (which begins at byte 0)" in _fails(b"\x02\x12\x05" + b"\x80" * 9)
    assert "the length of the next message is absurd" in _fails(_frames(good, good) + b"\xff\xff\xff\xff\xff\x01")
    assert "a field group has no matching end" in _fails(_frames(good, good, b"\x0c"))
    assert "a field's tag is malformed" in _fails(_frames(good, good, b"\x0f"))
    assert "a packed list has a length that does not divide" in _fails(
        _frames(good, b"", b"\x52\x05\x22\x03\x0a\x01\0")
    )
    assert "a field reaches beyond the end of its message" in _fails(_frames(good, good, b"\x12\x05"))
    assert "a number is malformed" in _fails(_frames(good, good, b"\x08" + b"\x80" * 11))


def test_lenient_reading_needs_the_metadata_at_least() -> None:
    assert "the trace is damaged" in _fails(b"\x02\x12\x05" + b"\x80" * 9, lenient=True)


def test_empty_metadata_and_empty_nodes_are_legal() -> None:
    trace = ct.parse_trace(b"\0\0\0")
    assert len(trace) == 2 and trace.ids.tolist() == [0, 0] and trace.types.tolist() == [0, 0]
    assert trace.version == "" and trace.metadata == {}
    assert ct.encode_trace(trace) == b"\0\0\0"
    empty = ct.parse_trace(b"\0")
    assert len(empty) == 0 and ct.encode_trace(empty) == b"\0"
    assert not empty.attr("x").present.any()


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    data = ct.encode_trace(_small())
    path = tmp_path / "odd.name"
    path.write_bytes(gzip.compress(data[:40]) + gzip.compress(data[40:]) + b"\0" * 10)
    assert same_content(ct.read_trace(path), _small())


def test_damaged_gzip_is_located_and_may_be_kept_in_part(tmp_path: Path) -> None:
    path = tmp_path / "x.et"
    raw = gzip.compress(ct.encode_trace(_small(5000)))
    path.write_bytes(raw[: len(raw) // 2])
    assert "uncompressed bytes: the gzip data are damaged; found the data end early" in _fails_to_read(path)
    notes = Notes()
    trace = ct.read_trace(path, lenient=True, notes=notes)
    assert same_content(trace, _small(len(trace))) and 1000 < len(trace) < 4000
    assert len(notes) == 2 and "kept the" in notes.warnings[1]
    path.write_bytes(raw[:500] + b"\xff" * 300 + raw[800:])
    assert "the gzip data are damaged; found Error -3" in _fails_to_read(path)
    path.write_bytes(raw[:-8] + b"\0" * 8)
    assert "incorrect data check" in _fails_to_read(path)
    path.write_bytes(raw + b"trailing")
    assert "the gzip data are damaged" in _fails_to_read(path)
    path.write_bytes(raw[:4])
    assert "after 0 uncompressed bytes" in _fails_to_read(path, lenient=True)


def test_size_is_bounded_before_and_while_uncompressing(tmp_path: Path) -> None:
    path = tmp_path / "x.et"
    path.write_bytes(gzip.compress(b"\0" * 50_000_000))
    grown = "the compressed file of 48,622 bytes, unpacked, takes more memory than reading this file may take; found "
    assert grown in _fails_to_read(path, max_bytes=1_000_000)
    path.write_bytes(b"\0" * 200_000)
    assert "may take; found 200,000 bytes or more; expected at most 1,000;" in _fails_to_read(path, max_bytes=1000)
    path.write_bytes(b"\0" * 20_000)
    assert "may take; found 20,000 bytes or more" in _fails_to_read(path, max_bytes=1000)
    if Path("/dev/zero").exists():
        assert "/dev/zero: this is no regular file" in _fails_to_read(Path("/dev/zero"))


_UNKNOWN = {
    "no metadata": (official.frame(b"\x08\x01\x12\x01a", b"\x08\x02"), "a node where the metadata should be"),
    "0.0.3 or a newer one": (
        official.frame(b"\x0a\x03abc", b"\x08\x01\x20\x05\x5a\x03\x0a\x01x"),
        "nodes with the fields of schema 0.0.3",
    ),
}


@pytest.mark.parametrize("name", _UNKNOWN)
def test_traces_of_nobody_knows_which_schema_are_refused(name: str) -> None:
    data, message = _UNKNOWN[name]
    for lenient in (False, True):
        text = _fails(data, lenient=lenient)
        assert "this trace was not written with Chakra schema 0.0.4 or 1.0; found " in text
        assert message in text


def test_a_field_of_a_newer_schema_is_no_sign_of_an_older_one() -> None:
    node = official.Node(id=1, attr=[{"name": "a", "bool_val": True}]).SerializeToString() + b"\x5a\x03\x0a\x01x"
    notes = Notes()
    assert len(ct.parse_trace(_frames(node), notes=notes)) == 1
    assert len(notes) == 1


def test_the_fingerprint_of_a_large_file_is_no_small_file() -> None:
    assert len(storage.fingerprint(b"a" * 10_000)) > 4096 >= len(storage.fingerprint(b"a" * 4096))
