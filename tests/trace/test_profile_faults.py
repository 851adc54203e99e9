"""Profiles of other makers that are odd: nothing is taken for what it is not, nothing ends in a traceback."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from profile_files import nsys, rocprof, rocprofv3, rocprofv3_document
from xspace import Maker, gpu_space

from chakrasim.analysis.table.traces import open_traces
from chakrasim.cli.main import main
from chakrasim.diagnosis.files.discover import survey
from chakrasim.diagnosis.files.names import read_name
from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace import read_kineto, read_trace
from chakrasim.trace.profiles.nsys import processes


def test_one_process_of_a_rocprof_file_is_read_alone(tmp_path: Path) -> None:
    path, notes = rocprof(tmp_path / "x.json", owners=(5, 6)), Notes()
    whole, one = (read_kineto(rocprof(tmp_path / "one.json", owners=(5,)))), read_kineto(path, process=5, notes=notes)
    assert [one.strings[at] for at in one.name] == [whole.strings[at] for at in whole.name]
    assert one.ts_ns.tolist() == whole.ts_ns.tolist()
    assert "5 events of other processes than 5 were left out" in notes.notes[0]
    with pytest.raises(InputError, match="no process 7 that used a device; found processes 5, 6"):
        read_kineto(path, process=7)


def test_processes_of_one_id_are_refused(tmp_path: Path) -> None:
    path = rocprofv3(tmp_path / "x.json", rocprofv3_document(7), rocprofv3_document(7))
    for process in (None, 7):
        with pytest.raises(InputError, match=r"several processes in this profile have one id.*2 processes"):
            read_kineto(path, process=process)


def test_times_beyond_all_numbers_are_counted(tmp_path: Path) -> None:
    path, notes = rocprof(tmp_path / "x.json", numbers_are_texts=False), Notes()
    whole = len(read_kineto(path))
    document = json.loads(path.read_text())
    next(event for event in document["traceEvents"] if event.get("ph") == "X")["ts"] = float("inf")
    path.write_text(json.dumps(document).replace("Infinity", "1e999"))
    assert len(read_kineto(path, notes=notes)) == whole - 1 and "left out 1 events" in notes.warnings[0]


def test_lines_of_the_largest_id_are_streams(tmp_path: Path) -> None:
    maker = Maker()
    maker.line("/device:TPU:0 SparseCore 1", "XLA Ops", [("fusion", 0, 1000, {})], line=(1 << 63) - 1)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(maker.space.SerializeToString())
    assert read_kineto(path).stream.tolist() == [(1 << 62) + 2000]


def test_the_critical_path_of_one_process_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for pids, rank in (((42,), "0"), ((42, 43), "0")):
        path = nsys(tmp_path / "x.sqlite", pids=pids)
        assert main(["analyze", "critical-path", str(path), "--rank", rank, "--json", "-"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


@pytest.mark.parametrize("maker", ["nsys", "rocprof", "rocprofv3", "xplane"])
@pytest.mark.parametrize("analysis", ["critical-path --overlay", "bandwidth --counters"])
def test_nothing_is_drawn_into_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], maker: str, analysis: str
) -> None:
    path, out = tmp_path / "rank0.xplane.pb", tmp_path / "out.json"
    if maker == "xplane":
        path.write_bytes(gpu_space().bytes())
    else:
        made: dict[str, Callable[[Path], Path]] = {"nsys": nsys, "rocprof": rocprof, "rocprofv3": rocprofv3}
        made[maker](path)
    command, option = analysis.split()
    assert main(["analyze", command, str(path), option, str(out)]) == 2
    assert "can be added to Kineto's JSON alone" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("data", [b'{"traceEvents": []}', gpu_space().bytes()])
def test_a_process_is_chosen_only_where_there_may_be_several(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"no process can be chosen.*found process=5"):
        read_kineto(path, process=5)


def test_damaged_exports_are_analysed_leniently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = nsys(tmp_path / "x.sqlite", pids=(42, 43))
    with sqlite3.connect(path) as base:
        (page,) = base.execute("SELECT rootpage FROM sqlite_master WHERE name LIKE '%MEMSET'").fetchone()
        (size,) = base.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = bytes(size)
    path.write_bytes(data)
    with pytest.raises(InputError, match="the database is damaged"):
        processes(str(path))
    assert processes(str(path), lenient=True) == [42, 43] and sniff(path).kind is FileKind.DEVICE
    assert main(["analyze", "idle", str(path), "--lenient", "--json", "-"]) == 0
    assert "what comes before it was kept" in capsys.readouterr().err


def test_an_export_where_a_chakra_trace_should_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found an SQLite database \(an Nsight Systems export"):
        read_trace(nsys(tmp_path / "x.et"))


def test_the_text_that_jax_writes_beside_a_profile_is_no_rank(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.xplane.pb").write_bytes(gpu_space().bytes())
    (tmp_path / "rank0.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2}]}'))
    notes = Notes()
    assert [one.rank for one in open_traces(tmp_path, notes=notes)] == [0, 1] and notes.warnings == ()
    assert "1 files *.trace.json were left out" in notes.notes[0]
    found = survey(tmp_path)
    assert [one.rank for one in found.ranks] == [0, 1]
    assert found.ignored == ((tmp_path / "rank0.trace.json.gz", "the events of the *.xplane.pb beside it"),)


@pytest.mark.parametrize("ending", [".xplane.pb", ".sqlite"])
def test_endings_of_profiles_hide_no_rank(ending: str) -> None:
    assert read_name(f"trace.3{ending}").rank == 3


def test_events_of_unknown_processes_of_rocprof_are_counted(tmp_path: Path) -> None:
    path, notes = rocprof(tmp_path / "x.json"), Notes()
    path.write_text(path.read_text().replace("1 COPY", "1 DMA"))
    read_kineto(path, notes=notes)
    assert "2 events of the process 'DMA', which is not known, are no work" in notes.warnings[0]


def test_marks_without_a_time_are_counted(tmp_path: Path) -> None:
    path, notes = nsys(tmp_path / "x.sqlite"), Notes()
    with sqlite3.connect(path) as base:
        base.execute("UPDATE NVTX_EVENTS SET start = NULL WHERE eventType = 34")
    assert read_kineto(path, notes=notes).counts == {"events without usable times": 1}
    assert "1 events have no start" in notes.warnings[0]
