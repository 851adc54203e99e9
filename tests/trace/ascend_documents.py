"""Traces as Ascend's profiler writes them (``trace_view.json``), with its figures of overlap."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

PYTHON, CANN_PID, HARDWARE_PID, HCCL_PID, OVERLAP_PID, FREQUENCY_PID = 700, 7007, 7104, 7203, 7300, 7400
BASE_NS = 1_704_161_511_420_000_000


def _us(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def complete(pid: int, tid: int, name: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": _us(BASE_NS + begin),
        "dur": (end - begin) / 1000,
        **more,
    }


def arrows(
    category: str, number: Any, source: tuple[int, int, int], target: tuple[int, int, int]
) -> list[dict[str, Any]]:
    made = []
    for letter, (pid, tid, time) in zip("sf", (source, target), strict=True):
        place = {"pid": pid, "tid": tid, "ts": _us(BASE_NS + time)}
        made.append({"ph": letter, "name": category, "id": number, "cat": category, "bp": "e", **place})
    return made


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def without(spans: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of the first union is outside the second."""
    edges = sorted({edge for span in spans + others for edge in span})
    inside = [(a, b) for a, b in pairwise(edges) if any(x <= a and b <= y for x, y in spans)]
    return union([(a, b) for a, b in inside if not any(x <= a and b <= y for x, y in others)])


def document(seed: int, queue: bool = True) -> list[dict[str, Any]]:
    """One step with kernels, a copy, waits and two groups' collectives; ``queue``: launched through a task queue."""
    draw = random.Random(seed)
    names = {PYTHON: "Python", CANN_PID: "CANN", HARDWARE_PID: "Ascend Hardware", HCCL_PID: "Communication"}
    names |= {OVERLAP_PID: "Overlap Analysis", FREQUENCY_PID: "AI Core Freq"}
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": n}} for pid, n in names.items()
    ]
    events += [{"ph": "M", "name": "process_labels", "pid": HARDWARE_PID, "tid": 0, "args": {"labels": "NPU 3"}}]
    lanes = ("Group hccl_world_group Communication", "Plane 0", "Group dp Communication", "Plane 0")
    events += [
        {"ph": "M", "name": "thread_name", "pid": HCCL_PID, "tid": tid, "args": {"name": lane}}
        for tid, lane in enumerate(lanes)
    ]
    compute, communication = [], []
    host = device = 1000
    for number in range(1, 30):
        host += draw.randrange(5_000, 20_000)
        events.append(complete(PYTHON, 1, f"aten::op{number}", host, host + 4000, cat="cpu_op"))
        call, thread = host + 1000, 1
        if queue:
            events.append(complete(PYTHON, 1, "Enqueue", host + 500, host + 900, cat="enqueue"))
            call, thread = host + 2500, 2
            events.append(complete(PYTHON, 2, f"Dequeue@{number}", host + 2000, host + 4000, cat="dequeue"))
            events += arrows("async_task_queue", number, (PYTHON, 1, host + 500), (PYTHON, 2, host + 2000))
        events.append(complete(CANN_PID, thread, "AscendCL@aclnn", call - 200, call + 1200))
        events.append(complete(CANN_PID, thread, "Node@launch", call, call + 900, args={"connection_id": number}))
        device = max(device, call) + draw.randrange(0, 9_000)
        length = draw.randrange(500, 30_000)
        span = device, device + length
        arrow = str(number << 32)
        if number % 6 == 0:
            lane = 2 * draw.randrange(2)
            events.append(complete(HCCL_PID, lane, f"hcom_allReduce__{lane}_{number}", *span))
            events.append(complete(HCCL_PID, lane + 1, "Notify_Wait", device, device + length // 2))
            events.append(complete(HARDWARE_PID, 9, "NOTIFY_WAIT", device, device + length // 2))
            events += arrows("HostToDevice", arrow, (CANN_PID, thread, call), (HCCL_PID, lane, device))
            communication.append(span)
            device += length // 4
        else:
            name = "MEMCPY_ASYNC" if number == 7 else f"MatMul{number % 4}"
            more = {"args": {"size(B)": 512}} if number == 7 else {}
            events.append(complete(HARDWARE_PID, 4, name, *span, **more))
            events += arrows("HostToDevice", arrow, (CANN_PID, thread, call), (HARDWARE_PID, 4, device))
            events += arrows("async_npu", number, (PYTHON, 1, host), (HARDWARE_PID, 4, device))
            compute += [span] if number != 7 else []
            device += length
    events.append(complete(PYTHON, 1, "ProfilerStep#4", 500, host + 5000, cat="cpu_op"))
    for time, clock in ((0, 1800), (50_000, 1200)):
        place = {"pid": FREQUENCY_PID, "tid": 0, "ts": _us(BASE_NS + time), "args": {"MHz": clock}}
        events.append({"ph": "C", "name": "AI Core Freq", **place})
    busy, talk = union(compute), union(communication)
    whole = [(min(busy + talk)[0], max(end for _, end in busy + talk))]
    lanes_of = (("Computing", busy), ("Communication", talk), ("Communication(Not Overlapped)", without(talk, busy)))
    for tid, (name, spans) in enumerate((*lanes_of, ("Free", without(whole, union(busy + talk))))):
        events += [complete(OVERLAP_PID, tid, name, *span) for span in spans]
    return events
