"""Profiles of other makers, made by the documented schemas: what a small step of training would leave behind."""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path
from typing import Any

OWNER = 1 << 48
NOTHING = 0xFFFFFFFF
_SCHEMA = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, "
    "shortName, mangledName, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, "
    "copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start, end, deviceId, contextId, streamId, correlationId, globalPid, graphId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start, end, deviceId, contextId, streamId, correlationId, globalPid, "
    "syncType, eventId, eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId, contextId, streamId, correlationId, globalPid, eventId, eventSyncId",
    "NVTX_EVENTS": "start, end, eventType, text, globalTid, textId, domainId, binaryData",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId, schemaId, idx, flags, type, name, offset",
    "OSRT_API": "start, end, globalTid, nameId",
    "CUBLAS_EVENTS": "start, end, globalTid, nameId",
    "META_DATA_EXPORT": "name, value",
    "TARGET_INFO_GPU": "id, name, totalMemory, smCount",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
}


class Export:
    """An export of Nsight Systems in the making."""

    def __init__(self, path: Path, *, left_out: tuple[str, ...] = ()) -> None:
        path.unlink(missing_ok=True)
        self.link = sqlite3.connect(path)
        self.link.execute("PRAGMA synchronous = OFF")
        self.names: dict[str, int] = {}
        self.schemas: dict[tuple[str, ...], int] = {}
        for table, columns in _SCHEMA.items():
            if table not in left_out:
                self.link.execute(f"CREATE TABLE {table} ({columns})")

    def name(self, text: str) -> int:
        """The number of a name."""
        if text not in self.names:
            self.names[text] = len(self.names) + 1
            self.add("StringIds", id=self.names[text], value=text)
        return self.names[text]

    def add(self, table: str, **values: Any) -> None:
        """A row."""
        marks = ", ".join("?" * len(values))
        self.link.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()])

    def call(self, name: str, start: int, end: int, correlation: int, pid: int = 42, tid: int = 42) -> None:
        """A call of CUDA."""
        owner = OWNER | pid << 24 | tid
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=int(not name.startswith("cuda")),
                 globalTid=owner, correlationId=correlation, nameId=self.name(name))  # fmt: skip

    def work(self, kind: str, start: int, end: int, correlation: int, stream: int, pid: int = 42, **more: Any) -> None:
        """Work of a device."""
        self.add(f"CUPTI_ACTIVITY_KIND_{kind}", start=start, end=end, deviceId=0, contextId=1, streamId=stream,
                 correlationId=correlation, globalPid=OWNER | pid << 24, **more)  # fmt: skip

    def range(self, text: str, start: int, end: int | None, kind: int = 59, domain: int = 0, pid: int = 42) -> None:
        """A range or mark, whose text every second time is a registered one."""
        registered = len(text) % 2 == 0
        said = {"textId": self.name(text)} if registered else {"text": text}
        self.add("NVTX_EVENTS", start=start, end=end, eventType=kind, globalTid=OWNER | pid << 24 | pid,
                 domainId=domain, **said)  # fmt: skip

    def nccl(self, text: str, start: int, end: int, pid: int = 42, **fields: int) -> None:
        """A range of NCCL with a payload: a schema of its own for each set of fields."""
        layout = {"group": (18, 0, "NCCL communicator ID"), "size": (22, 8, "Message size [bytes]"),
                  "ranks": (5, 8, "No. of ranks"), "rank": (5, 12, "Rank")}  # fmt: skip
        schema = self.schemas.setdefault(tuple(fields), 1000 + len(self.schemas))
        known = self.link.execute("SELECT 1 FROM NVTX_PAYLOAD_SCHEMA_ENTRIES WHERE schemaId = ?", (schema,)).fetchone()
        payload = bytearray(16)
        for number, (field, value) in enumerate(fields.items()):
            kind, offset, name = layout[field]
            if not known:
                self.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=schema, idx=number, type=kind, name=name,
                         offset=offset or None)  # fmt: skip
            struct.pack_into("<Q" if kind > 5 else "<I", payload, offset, value)
        raw = struct.pack("<IIIIQQ", 3, 0, schema, 0, 16, 48) + payload
        self.add("NVTX_EVENTS", start=start, end=end, eventType=59, globalTid=OWNER | pid << 24 | pid, domainId=3,
                 textId=self.name(text), binaryData=raw)  # fmt: skip

    def close(self) -> None:
        """Write it."""
        self.link.commit()
        self.link.close()


def step(export: Export, pid: int = 42, base: int = 0) -> None:
    """A step: two kernels on two streams, the second waits for the first by an event; a copy."""
    e, at = export, [base + time for time in range(0, 20_000, 100)]
    own = {"pid": pid}
    e.range("ProfilerStep#3", at[0], at[150], **own)
    e.range("aten::linear, seq = 7, op_id = 3, sizes = [[2, 3], [4, 3]]", at[1], at[12], **own)
    e.call("cudaLaunchKernel_v7000", at[5], at[7], 101, pid, pid)
    e.work(
        "KERNEL", at[10], at[40], 101, 7, **own, demangledName=e.name("void gemm<float>(int)"), shortName=e.name("gemm")
    )
    e.call("cudaEventRecord_v3020", at[14], at[15], 102, pid, pid)
    owner = OWNER | pid << 24
    e.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", deviceId=0, contextId=1, streamId=7, correlationId=102, globalPid=owner,
          eventId=5, eventSyncId=9)  # fmt: skip
    e.call("cudaStreamWaitEvent_v3020", at[16], at[17], 103, pid, pid)
    e.work("SYNCHRONIZATION", at[16], at[17], 103, 20, **own, syncType=2, eventId=5, eventSyncId=9)
    e.call("cudaLaunchKernelExC_v11060", at[20], at[22], 104, pid, pid)
    e.work("KERNEL", at[41], at[60], 104, 20, **own, demangledName=e.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
           shortName=e.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), graphNodeId=(4 << 32) + 1)  # fmt: skip
    e.call("cuMemcpyDtoHAsync_v2", at[23], at[25], 105, pid, pid)
    e.work("MEMCPY", at[42], at[50], 105, 7, **own, bytes=4096, copyKind=2, srcKind=2, dstKind=1)
    e.work("MEMSET", at[51], at[52], 106, 7, **own, bytes=64)
    e.call("cudaDeviceSynchronize_v3020", at[26], at[63], 107, pid, pid)
    e.work("SYNCHRONIZATION", at[26], at[62], 107, NOTHING, **own, syncType=1, eventId=NOTHING)
    e.add("CUBLAS_EVENTS", start=at[4], end=at[8], globalTid=owner | pid, nameId=e.name("cublasSgemm"))
    e.add("OSRT_API", start=at[26], end=at[62], globalTid=owner | pid, nameId=e.name("poll"))


def nsys(path: Path, *, pids: tuple[int, ...] = (42,), left_out: tuple[str, ...] = ()) -> Path:
    """An export of one step a process."""
    export = Export(path, left_out=left_out)
    for number, pid in enumerate(pids):
        step(export, pid, 1_000_000 * number)
    export.range("NCCL", 0, None, kind=75, domain=3)
    export.nccl("ncclCommInitRank", 5, 9, group=0xAB, ranks=2, rank=0)
    export.nccl("ncclAllReduce", 1900, 2300, group=0xAB, size=1 << 20)
    export.nccl("ncclReduceScatter", 7000, 7100, group=0xAB, size=64)
    export.range("ncclGroupEnd", 7100, 7200, domain=3)
    export.range("request 5", 10, 900, kind=60)
    export.range("here", 700, None, kind=34)
    export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.24.14")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", totalMemory=80 << 30, smCount=132)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    export.close()
    return path


_OPERATIONS = (
    ("NONE", ()),
    ("HIP_RUNTIME_API", ("hipApiName", "hipLaunchKernel", "hipMemcpyAsync", "hipDeviceSynchronize")),
    ("KERNEL_DISPATCH", ("NONE", "ENQUEUE", "COMPLETE")),
    ("MEMORY_COPY", ("MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST")),
    ("MARKER_CORE_API", ("roctxMarkA", "roctxRangePushA", "roctxRangePop", "roctxRangeStartA")),
    ("RCCL_API", ("ncclAllGather", "ncclAllReduce")),
    ("HSA_CORE_API", ("hsa_init", "hsa_signal_store")),
    ("MEMORY_ALLOCATION", ("NONE", "MEMORY_ALLOCATION_ALLOCATE")),
)


def rocprofv3_document(pid: int = 77) -> dict[str, Any]:
    """A step as `nsys` has it, as rocprofv3 writes it."""

    def call(start: int, end: int, correlation: int, kind: int, operation: int) -> dict[str, Any]:
        return {"size": 1, "kind": kind, "operation": operation, "thread_id": pid, "start_timestamp": 1000 + start,
                "correlation_id": {"internal": correlation, "external": 0}, "end_timestamp": 1000 + end}  # fmt: skip

    def dispatch(start: int, end: int, correlation: int, kernel: int, stream: int) -> dict[str, Any]:
        info = {"agent_id": {"handle": 900}, "queue_id": {"handle": 2**63 + 5}, "kernel_id": kernel}
        return call(start, end, correlation, 2, 2) | {"dispatch_info": info, "stream_id": {"handle": stream}}

    copy = call(4200, 5000, 3, 3, 2)
    copy |= {
        "dst_agent_id": {"handle": 800},
        "src_agent_id": {"handle": 900},
        "stream_id": {"handle": 0},
        "bytes": 4096,
    }
    return {
        "metadata": {"pid": pid, "init_time": 1, "fini_time": 2},
        "agents": [
            {"id": {"handle": 800}, "type": 1},
            {"id": {"handle": 900}, "type": 2, "product_name": "AMD MI300X"},
        ],
        "strings": {
            "callback_records": [],
            "buffer_records": [{"kind": kind, "operations": [*names]} for kind, names in _OPERATIONS],
            "marker_api": [
                {"key": 21, "value": "forward"},
                {"key": 22, "value": "here"},
                {"key": 23, "value": "request"},
            ],
        },
        "kernel_symbols": [
            {"kernel_id": 1, "kernel_name": "gemm.kd", "formatted_kernel_name": "void gemm<float>(int)"},
            {"kernel_id": 2, "kernel_name": "ncclDevKernel_Generic_1.kd", "formatted_kernel_name": ""},
        ],
        "callback_records": {"counter_collection": [{"x": 1}]},
        "buffer_records": {
            "kernel_dispatch": [dispatch(1000, 4000, 1, 1, 3), dispatch(4100, 6000, 2, 2, 4)],
            "hip_api": [
                call(500, 700, 1, 1, 1),
                call(2000, 2200, 2, 1, 1),
                call(2300, 2500, 3, 1, 2),
                call(2600, 6300, 4, 1, 3),
            ],
            "hsa_api": [call(550, 560, 5, 6, 1)],
            "marker_api": [call(100, 1200, 21, 4, 1), call(700, 700, 22, 4, 0), call(10, 900, 23, 4, 3)],
            "rccl_api": [call(1900, 2300, 6, 5, 1)],
            "memory_copy": [copy],
            "memory_allocation": [call(50, 90, 7, 7, 1)],
        },
    }


def rocprofv3(path: Path, *processes: dict[str, Any], indent: int | None = None) -> Path:
    """A profile of rocprofv3."""
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [*processes] or [rocprofv3_document()]}, indent=indent))
    return path


def rocprof(path: Path, *, numbers_are_texts: bool = True, owners: tuple[int, ...] = (77,)) -> Path:
    """The same step as rocprof writes it: times cut to microseconds, in ns beside them."""
    shown = (lambda value: str(value)) if numbers_are_texts else (lambda value: value)
    events: list[dict[str, Any]] = [{}]
    labels = {0: "Markers and Ranges", 1: "COPY", 2: "CPU HIP API", 3: "CPU HSA API", 6: "GPU0"}
    for at, (pid, label) in enumerate(labels.items()):
        events.append(
            {"args": {"name": f"{at} {label}"}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": at}
        )

    def span(pid: int, tid: int, name: str, begin: int, end: int, **more: Any) -> None:
        args = {"BeginNs": shown(begin), "EndNs": shown(end), "Name": name, **{k: shown(v) for k, v in more.items()}}
        events.append({"ph": "X", "name": name, "pid": shown(pid), "tid": shown(tid), "ts": shown(begin // 1000),
                       "dur": shown((end - begin) // 1000), "args": args})  # fmt: skip

    span(0, 77, "forward", 100, 1200)
    span(2, 77, "hipLaunchKernel", 500, 700)
    span(2, 77, "hipExtModuleLaunchKernel", 2000, 2200)
    span(2, 77, "hipMemcpyAsync", 2300, 2500)
    span(2, 77, "hipDeviceSynchronize", 2600, 6300)
    span(3, 77, "hsa_signal_store", 550, 560)
    for number, owner in enumerate(owners):
        more = {"dev-id": 0, "proc-id": owner}
        span(6, 0, "void gemm<float>(int)", 1000 + number, 4000, **more, **{"queue-id": 1})
        span(6, 0, "ncclDevKernel_Generic_1", 4100, 6000, **more, **{"queue-id": 2})
        span(6, 0, '"<barrier packet>"', 6001, 6002, **more, **{"queue-id": 2})
        span(1, 0, "CopyDeviceToHost", 4200, 5000, **more, **{"queue-id": 1})
        span(1, 0, "FillBuffer", 5100, 5200, **more, **{"queue-id": 1})
    for number, (at, pid, then) in enumerate(((0, 6, 1), (2, 6, 4), (2, 1, 4))):
        events.append({"ts": at, "ph": "s", "cat": "DataFlow", "id": number, "pid": 2, "tid": 77, "name": "dep"})
        events.append({"ts": then, "ph": "t", "cat": "DataFlow", "id": number, "pid": pid, "tid": 0, "name": "dep"})
    body = "\n,".join(json.dumps(event) for event in events)
    path.write_text(f'{{ "traceEvents":[{body}\n],\n"otherData": {{"rocm": "5.4"}}\n}}')
    return path
