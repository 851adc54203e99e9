"""Profiles of other makers: what is read is what plain SQL and Python's json find in them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profile_files import OWNER, Export, nsys, rocprof, rocprofv3, rocprofv3_document

import chakrasim as cs
from chakrasim.analysis.info.profile import kineto_info, linked_info
from chakrasim.analysis.table.traces import open_traces
from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace import read_kineto
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.profiles import database

DATA = Path(__file__).parents[1] / "data" / "profiles"
EXPORTS = ("nsys_2022", "nsys_2024", "nsys_2026")
_TABLES = {
    "kernel": "KERNEL",
    "gpu_memcpy": "MEMCPY",
    "cuda_sync": "SYNCHRONIZATION",
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return nsys(tmp_path / "made.sqlite")


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return path


def rows_of(trace: KinetoTrace, category: str) -> np.ndarray[Any, Any]:
    return np.flatnonzero(trace.where(trace.category, category))


def names_of(trace: KinetoTrace, category: str) -> list[str]:
    return [trace.strings[at] for at in trace.name[rows_of(trace, category)].tolist()]


def amounts(trace: KinetoTrace) -> dict[str, tuple[int, int]]:
    """Events and their ns by category."""
    found = {}
    for at in np.unique(trace.category).tolist():
        some = trace.category == at
        found[trace.strings[at]] = int(some.sum()), int(trace.dur_ns[some].sum())
    return found


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_of_three_versions_are_read_as_plain_sql_reads_them(name: str, tmp_path: Path) -> None:
    path = unpacked(f"{name}.sqlite", tmp_path)
    notes = Notes()
    trace = read_kineto(path, notes=notes)
    with sqlite3.connect(path) as base:
        tables = {table for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

        def ask(sql: str) -> list[tuple[Any, ...]]:
            return base.execute(sql).fetchall()

        expected = {}
        for category, table in _TABLES.items():
            if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
                expected[category] = ask(f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_{table}")[0]
        for category, kind in (("cuda_runtime", 0), ("cuda_driver", 1)):
            expected[category] = ask(
                f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass = {kind}"
            )[0]
        if "OSRT_API" in tables and ask("SELECT count(*) FROM OSRT_API")[0][0]:
            expected["os_call"] = ask("SELECT count(*), sum(end - start) FROM OSRT_API")[0]
        if name == "nsys_2022":
            expected["user_annotation"] = ask(
                "SELECT count(*), sum(end - start) FROM NVTX_EVENTS WHERE eventType = 59"
            )[0]
        found = {key: value for key, value in amounts(trace).items() if value[0]}
        assert found == {key: value for key, value in expected.items() if value[0]}
        kernels = ask(
            "SELECT value, k.start, k.end - k.start, deviceId, streamId, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "AS k JOIN StringIds AS s ON s.id = demangledName ORDER BY k.start"
        )
    rows = rows_of(trace, "kernel")
    columns = (trace.ts_ns, trace.dur_ns, trace.device, trace.stream, trace.correlation)
    numbers = zip(*(column[rows].tolist() for column in columns), strict=True)
    assert [(text, *row) for text, row in zip(names_of(trace, "kernel"), numbers, strict=True)] == kernels
    assert trace.counts == {} and notes.warnings == ()
    linked = link(None, trace)
    assert linked.counts["unlinked_device_rows"] == 0 and linked.counts["kernels_before_launch"] == 0


def test_an_export_becomes_the_trace_that_kineto_would_have_written(made: Path) -> None:
    trace = read_kineto(made)
    categories = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync", "cpu_op")
    assert {category: names_of(trace, category) for category in categories} == {
        "kernel": ["void gemm<float>(int)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"],
        "gpu_memcpy": ["Memcpy DtoH (Device -> Pinned)"],
        "gpu_memset": ["Memset (Device)"],
        "cuda_runtime": [
            *("cudaLaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent", "cudaLaunchKernelExC"),
            "cudaDeviceSynchronize",
        ],
        "cuda_driver": ["cuMemcpyDtoHAsync_v2"],
        "cuda_sync": ["Stream Wait Event", "Context Sync"],
        "cpu_op": ["aten::linear", "record_param_comms", "record_param_comms"],
    }
    annotations = ["ProfilerStep#3", "NCCL:ncclCommInitRank", "cublasSgemm", "NCCL:ncclGroupEnd"]
    assert names_of(trace, "user_annotation") == annotations
    assert names_of(trace, "nvtx_start_end") == ["request 5"] and names_of(trace, "nvtx_mark") == ["here"]
    operator = int(rows_of(trace, "cpu_op")[0])
    assert trace.rare_column("Sequence number").integers(len(trace))[operator] == 7
    sizes = trace.rare_column("Input Dims")
    assert sizes.rows.tolist() == [operator] and trace.strings[int(sizes.bits[0])] == "[[2, 3], [4, 3]]"
    assert trace.rare_column("bytes").integers(len(trace)).max() == 4096
    assert trace.header["deviceProperties"] == [
        {"id": 0, "totalGlobalMem": 80 << 30, "numSms": 132, "name": "NVIDIA H100"}
    ]
    assert trace.header["baseTimeNanoseconds"] == 1_700_000_000_000_000_000
    assert sniff(made).kind is FileKind.DEVICE and sniff(made).pid == 42


def test_what_waits_for_what_is_known_from_an_export(made: Path) -> None:
    edges = {edge.name: edge.count for edge in linked_info(link(None, made), "x").edges}
    assert edges["event_wait by sync_record"] == 1 and edges["sync_context by sync_record"] == 2
    assert edges["launch by correlation"] == 3
    linked = link(None, made, step=3)
    assert len(linked) and linked.counts["unlinked_device_rows"] == 1  # the set of memory has no call


def test_sizes_and_groups_of_collectives_come_from_the_payloads_of_nccl(made: Path) -> None:
    trace = read_kineto(made)
    rows = rows_of(trace, "cpu_op")[1:]
    figures = [
        trace.rare_column(name).integers(len(trace))[rows].tolist()
        for name in ("In msg nelems", "Out msg nelems", "Group size")
    ]
    assert figures == [[1 << 20, 128], [1 << 20, 64], [2, 2]]
    collectives = cs.link(None, made).communication
    assert [(one.size_bytes, one.group) for one in kineto_info(trace).collectives][:1] == [(1 << 20, "ab")]
    assert len(collectives) == 1


def test_work_alone_is_what_the_linker_reads(made: Path) -> None:
    kept = read_kineto(made, keep="work")
    assert len(kept) == len(read_kineto(made)) - 1  # the mark


def test_missing_tables_and_columns_are_as_those_of_older_versions(tmp_path: Path) -> None:
    left_out = ("CUPTI_ACTIVITY_KIND_CUDA_EVENT",)
    export = Export(tmp_path / "old.sqlite", left_out=left_out)
    export.link.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
    export.link.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN eventClass")
    owner = OWNER | 7 << 24
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=10, end=30, deviceId=0, streamId=7, globalPid=owner,
               correlationId=1, shortName=export.name("gemm"))  # fmt: skip
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=40, end=20, deviceId=0, streamId=7, globalPid=owner,
               correlationId=2, shortName=99)  # fmt: skip
    export.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=1, end=5, globalTid=owner | 7, correlationId=1,
               nameId=export.name("cudaLaunchKernel_v7000"))  # fmt: skip
    export.close()
    notes = Notes()
    trace = read_kineto(tmp_path / "old.sqlite", notes=notes)
    assert names_of(trace, "kernel") == ["gemm", ""] and names_of(trace, "cuda_runtime") == ["cudaLaunchKernel"]
    assert trace.counts == {"events without usable times": 1}
    assert [text.split(": ", 1)[1] for text in notes.warnings] == [
        "1 names are missing from the table StringIds",
        "1 events have no start, a negative one, no end or an end before it: they do not count as work",
    ]


def test_each_process_of_an_export_is_a_rank(tmp_path: Path) -> None:
    path = nsys(tmp_path / "rank0.sqlite", pids=(42, 43))
    with pytest.raises(InputError, match=r"several processes used devices.*processes 42, 43.*read_kineto"):
        read_kineto(path)
    notes = Notes()
    one = read_kineto(path, process=43, notes=notes)
    assert amounts(one)["kernel"] == (2, 4900) and int(one.ts_ns[rows_of(one, "kernel")].min()) == 1_001_000
    assert notes.warnings == () and "events of other processes than 43" in notes.notes[0]
    with pytest.raises(InputError, match="no process 44 that used a device; found processes 42, 43"):
        read_kineto(path, process=44)
    ranks = open_traces(path)
    assert [rank.rank for rank in ranks] == [0, 1]
    assert [amounts(rank.kineto)["kernel"] for rank in ranks] == [(2, 4900)] * 2


def test_reading_leaves_no_file_and_touches_none(made: Path, tmp_path: Path) -> None:
    (tmp_path / "made.sqlite-wal").write_bytes(b"x")
    before = made.read_bytes(), made.stat().st_mtime_ns
    notes = Notes()
    read_kineto(made, notes=notes)
    assert (made.read_bytes(), made.stat().st_mtime_ns) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.sqlite", "made.sqlite-wal"]
    assert "-wal was left out" in notes.warnings[0]
    packed = tmp_path / "made.gz"
    packed.write_bytes(gzip.compress(made.read_bytes()))
    assert amounts(read_kineto(packed)) == amounts(read_kineto(made))
    assert sniff(packed).kind is FileKind.DEVICE
    packed.write_bytes(packed.read_bytes()[:-300])
    with database.unpacked_once():
        for _ in range(2):
            with pytest.raises(InputError, match="the gzip data are damaged"):
                read_kineto(packed)


def test_a_packed_export_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, unpacked = nsys(tmp_path / "whole.sqlite", pids=(42, 43)), []
    for name in ("a.sqlite.gz", "b.sqlite.gz"):
        (tmp_path / "folder" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(gzip.compress(whole.read_bytes()))
    first = database._unpack
    monkeypatch.setattr(database, "_unpack", lambda file, target: (unpacked.append(target), first(file, target)))
    assert [rank.rank for rank in open_traces(tmp_path / "folder")] == [0, 1, 2, 3] and len(unpacked) == 2
    assert len(open_traces(tmp_path / "folder" / "a.sqlite.gz")) == 2 and len(unpacked) == 3
    assert not any(map(os.path.exists, unpacked))
    read_kineto(tmp_path / "folder" / "a.sqlite.gz", process=42)
    assert len(unpacked) == 4 and not os.path.exists(unpacked[-1])


def test_damaged_databases_are_refused_or_kept_in_part(made: Path) -> None:
    data = made.read_bytes()
    made.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    with pytest.raises(InputError, match=r"the database is damaged.*--lenient"):
        read_kineto(made)
    assert sniff(made).kind is FileKind.OTHER
    notes = Notes()
    with pytest.raises(InputError):
        read_kineto(made, lenient=True, notes=notes)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("rocpd_kernel_dispatch", "a rocpd database of rocprofv3"),
        ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "a profile of nvprof"),
        ("CANN_API", "a database of Ascend's profiler"),
        ("users", "a database with the tables users"),
    ],
)
def test_other_databases_are_named(tmp_path: Path, table: str, found: str) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as base:
        base.execute(f"CREATE TABLE {table} (start, end)")
    with pytest.raises(InputError, match=f"no export of Nsight Systems.*{found}"):
        read_kineto(path)
    assert sniff(path).kind is FileKind.OTHER and found in sniff(path).note


@pytest.mark.parametrize(
    ("head", "found", "remedy"),
    [
        (b"NVIDIA Tegra Profiler Report 2026@1\n\x0bLocal", "a report of Nsight Systems", "nsys export --type sqlite"),
        (b'"Kind","Agent_Id","Queue_Id"\n', "a table of rocprofv3", "rocprofv3 --output-format json"),
        (b"Index,KernelName,gpu-id\n", "a table of rocprof", "rocprof --hip-trace"),
    ],
)
def test_what_is_not_read_is_named_with_what_to_do(tmp_path: Path, head: bytes, found: str, remedy: str) -> None:
    path = tmp_path / "report1"
    path.write_bytes(head)
    with pytest.raises(InputError, match=f"{found}.*{remedy}"):
        read_kineto(path)
    assert found in sniff(path).note and remedy in sniff(path).note


def test_a_profile_of_rocprofv3_is_read_as_json_has_it() -> None:
    path = DATA / "rocprofv3.json.gz"
    trace = read_kineto(path)
    document = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"][0]
    kernels = {one["kernel_id"]: one["formatted_kernel_name"] for one in document["kernel_symbols"]}
    expected = Counter(
        (
            kernels[one["dispatch_info"]["kernel_id"]],
            one["start_timestamp"],
            one["end_timestamp"] - one["start_timestamp"],
            one["stream_id"]["handle"],
            one["correlation_id"]["internal"],
        )
        for one in document["buffer_records"]["kernel_dispatch"]
    )
    assert len(expected) == len(trace) == 200
    columns = (trace.ts_ns, trace.dur_ns, trace.stream, trace.correlation)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    assert Counter((text, *row) for text, row in zip(names_of(trace, "kernel"), numbers, strict=True)) == expected
    assert set(trace.device.tolist()) == {0} and trace.header["deviceProperties"][0]["name"] == "AMD Instinct MI350X"
    assert sniff(path).kind is FileKind.DEVICE and sniff(path).pid == 908


@pytest.mark.parametrize("indent", [None, 2])
def test_calls_copies_and_markers_of_rocprofv3(tmp_path: Path, indent: int | None) -> None:
    trace = read_kineto(rocprofv3(tmp_path / "x.json", indent=indent))
    assert {category: names_of(trace, category) for category in amounts(trace)} == {
        "kernel": ["void gemm<float>(int)", "ncclDevKernel_Generic_1"],
        "gpu_memcpy": ["Memcpy DtoH"],
        "hip_runtime": ["hipLaunchKernel", "hipLaunchKernel", "hipMemcpyAsync", "hipDeviceSynchronize"],
        "hsa_runtime": ["hsa_signal_store"],
        "user_annotation": ["forward", "ncclAllReduce"],
        "mark": ["here"],
        "start_end_range": ["request"],
        "memory_allocation": ["MEMORY_ALLOCATION_ALLOCATE"],
    }
    linked = link(None, trace)
    assert linked.counts["unlinked_device_rows"] == 0
    edges = {edge.name: edge.count for edge in linked_info(linked, "x").edges}
    assert edges["launch by correlation"] == 3
    assert any(name.startswith("sync_context") for name in edges), edges


def test_processes_and_odd_records_of_rocprofv3(tmp_path: Path) -> None:
    two = rocprofv3(tmp_path / "two.json", rocprofv3_document(7), rocprofv3_document(8))
    with pytest.raises(InputError, match=r"several processes.*processes 7, 8"):
        read_kineto(two)
    assert set(read_kineto(two, process=8).tid.tolist()) == {8, 3, 4, 0}
    odd = rocprofv3_document()
    odd["buffer_records"]["hip_api"] += [{}, {"start_timestamp": 1.5}, 3, None]
    notes = Notes()
    trace = read_kineto(rocprofv3(tmp_path / "odd.json", odd), notes=notes)
    assert amounts(trace)["hip_runtime"][0] == 4 and "left out 4 records of hip_api" in notes.warnings[0]


@pytest.mark.parametrize("numbers_are_texts", [True, False])
def test_traces_of_rocprof_are_linked_by_their_arrows(tmp_path: Path, numbers_are_texts: bool) -> None:
    path = rocprof(tmp_path / "results.json", numbers_are_texts=numbers_are_texts)
    trace = read_kineto(path)
    assert amounts(trace) == {
        "kernel": (2, 4900),
        "gpu_memcpy": (1, 800),
        "gpu_memset": (1, 100),
        "barrier_packet": (1, 1),
        "hip_runtime": (4, 4300),
        "hsa_runtime": (1, 10),
        "user_annotation": (1, 1100),
    }
    linked = link(None, trace)
    assert linked.counts["unlinked_device_rows"] == 1 and linked.counts["kernels_before_launch"] == 0
    calls = trace.correlation[rows_of(trace, "hip_runtime")].tolist()
    assert dict(zip(names_of(trace, "hip_runtime"), calls, strict=True)) == {
        "hipLaunchKernel": 1,
        "hipExtModuleLaunchKernel": 2,
        "hipMemcpyAsync": 3,
        "hipDeviceSynchronize": -1,
    }
    assert trace.correlation[rows_of(trace, "kernel")].tolist() == [1, 2]
    assert sniff(path).kind is FileKind.DEVICE


def test_rocprof_files_of_several_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"several processes.*processes 5, 6"):
        read_kineto(rocprof(tmp_path / "x.json", owners=(5, 6)))


@pytest.mark.parametrize("maker", [rocprofv3, rocprof])
def test_cut_json_is_refused_or_kept_in_part(tmp_path: Path, maker: Any) -> None:
    path = maker(tmp_path / "x.json")
    whole = len(read_kineto(path))
    text = path.read_text()
    path.write_text(text[: text.rindex("hipDeviceSynchronize" if maker is rocprof else '"bytes"')])
    with pytest.raises(InputError, match=r"the profile is damaged.*--lenient"):
        read_kineto(path)
    notes = Notes()
    assert 0 < len(read_kineto(path, lenient=True, notes=notes)) < whole
    assert "the profile is damaged" in notes.warnings[0]
    path.write_text(text + "[]")
    with pytest.raises(InputError, match="there is more after the document's end"):
        read_kineto(path)


def test_folders_of_profiles_are_analysed_and_examined(tmp_path: Path) -> None:
    for rank in range(2):
        shutil.copy(nsys(tmp_path / "made"), tmp_path / f"rank{rank}.sqlite")
    (tmp_path / "made").unlink()
    assert [rank.rank for rank in open_traces(tmp_path)] == [0, 1]
    verdict = cs.doctor(tmp_path)
    assert [facts.kernels for facts in verdict.ranks] == [2, 2]
