"""Traces of Ascend NPUs (``trace_view.json`` of torch_npu and msprof), whose events are told apart by their process.

What each process holds, and what counts as compute, communication and free, is that of msprof's documentation of its
data files and of the lane ``Overlap Analysis`` that it computes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import Ints, KinetoTrace, Mask, RareColumn
from chakrasim.trace.kineto.only_work import last_begun

HARDWARE, CANN, OVERLAP = "Ascend Hardware", "CANN", "Overlap Analysis"
_COMMUNICATION: Final = ("Communication", "HCCL")
_NAMES: Final = (HARDWARE, CANN, OVERLAP, *_COMMUNICATION)
_DEVICE: Final = re.compile(r"NPU (\d{1,4})")
_STEP: Final = re.compile(r"ProfilerStep#\d{1,9}")
_OPERATION: Final = re.compile(r"hcom_|hccl", re.IGNORECASE)
#: Tasks of the device that are no operations: they have the name of their type, and wait, tell, move or manage.
_TASK: Final = re.compile(
    r"(?:event|notify|capture)[ _](?:record|wait|reset)\w*|write[ _]value\w*|[a-z ]*(?:data|load) context|unknown"
    r"|(?:place_holder|sdma|rocce|pcie_dma|c_core|cdqm|host_cpu|max)(?:_sqe)?"
    r"|(?:profiling|model|stream|label|ipc|rdma|maintenance)_[a-z0-9_]+",
    re.IGNORECASE,
)
#: What carries out an operation that the communication lanes show whole.
_PART: Final = re.compile(r"(?:hcom|hccl).*(?:aicpu|aiv) ?kernel$", re.IGNORECASE)
_COPY: Final = "MEMCPY_ASYNC"

KERNEL, COPY, CALL, ANNOTATION = "kernel", "gpu_memcpy", "cann_runtime", "user_annotation"
#: Categories of what is neither the host's work nor the device's: what other events cover already, or no work at all.
TASK, COMMUNICATION_TASK, SUMMARY, OTHER = "npu_task", "communication_task", "overlap_analysis", "npu_other"
_CATEGORIES: Final = (KERNEL, COPY, CALL, ANNOTATION, TASK, COMMUNICATION_TASK, SUMMARY, OTHER)


def is_ascend(trace: KinetoTrace) -> bool:
    """Whether a trace with all its events has a process of an Ascend NPU."""
    return any(trace.find(name) > 0 for name in (HARDWARE, CANN)) and bool(
        {HARDWARE, CANN} & {name for name, _ in _processes(trace).values()}
    )


def sorted_out(trace: KinetoTrace, notes: Notes) -> KinetoTrace:
    """The trace with the categories, devices, streams and correlation ids that Kineto would have given its events.

    Work of a device: operations on the lanes of Ascend Hardware, copies, and collectives, each lane of a communication
    group as a stream of its own behind those of the hardware. Tasks without an operation's name (waits, records, the
    tasks of collectives), planes of collectives and the overlap analysis say again what others say. Calls of CANN are
    on the threads of the program. A correlation id is one more than the row of the launch: the program's ``Enqueue``,
    or where there is no task queue the call of CANN that the arrow HostToDevice comes from.
    """
    first = len(trace.strings)
    strings = trace.strings.and_more([name.encode() for name in _CATEGORIES])
    number = {name: first + at for at, name in enumerate(_CATEGORIES)}
    trace = replace(trace, strings=strings)
    timed = (trace.phase == ord("X")) & trace.has(k.HAS_DUR) & trace.has(k.HAS_TS)
    category, pid, stream, device = trace.category.copy(), trace.pid.copy(), trace.stream.copy(), trace.device.copy()
    processes = _processes(trace)
    bare = timed & ~trace.has(k.HAS_CATEGORY)
    category[bare] = number[OTHER]

    def of(*names: str) -> Mask:
        chosen: Mask = timed & np.isin(trace.pid, [pid for pid, (name, _) in processes.items() if name in names])
        return chosen

    hardware, communication, calls = of(HARDWARE), of(*_COMMUNICATION), of(CANN)
    for process, (_, npu) in processes.items():
        device[(hardware | communication) & (trace.pid == process)] = npu
    category[hardware] = trace.strings.each(trace.name[hardware], lambda name: number[_hardware(name)], np.int32)
    stream[hardware] = trace.tid[hardware]
    whole, lane = _operations(trace, communication)
    category[communication] = np.where(whole, number[KERNEL], number[COMMUNICATION_TASK])
    stream[communication] = lane + 1 + int(stream[hardware].max(initial=-1))
    category[of(OVERLAP)] = number[SUMMARY]
    category[calls | trace.where(trace.category, "enqueue", "dequeue") & timed] = number[CALL]
    category[timed & trace.strings.each(trace.name, _STEP.fullmatch)] = number[ANNOTATION]
    program = trace.pid[trace.where(trace.category, "cpu_op")]
    if len(program):
        pid[calls] = program[0]
    left = int((category[bare] == number[OTHER]).sum())
    gives, takes = _tasks(trace)
    tasks = RareColumn(takes.astype(np.int32), np.full(len(takes), k.INTEGER, np.uint8), gives + 1)
    found = replace(
        trace, category=category, pid=pid, stream=stream, device=device,
        correlation=_correlations(trace, hardware | communication, calls, gives),
        flags=trace.flags | np.where(category > 0, k.HAS_CATEGORY, 0).astype(np.uint16),
        counts={name: count for name, count in trace.counts.items() if name != k.UNSORTED},
        rare={"bytes" if name == "size(B)" else name: column for name, column in trace.rare.items()}
        | ({k.TASK_OF: tasks} if len(takes) else {}),
    )  # fmt: skip
    if left:
        notes.note(f"{trace.source}: {left} events of processes that are neither host nor device work ({OTHER})")
    notes.note(*_clock(trace))
    return found


def _processes(trace: KinetoTrace) -> dict[int, tuple[str, int]]:
    """Name and device of each process: the number stated, else of the hardware its place, of others the first one's."""
    texts = trace.rare_column("name").texts(len(trace))
    labels = trace.rare_column("labels").texts(len(trace))
    names = {
        int(trace.pid[row]): trace.strings[int(texts[row])]
        for row in np.flatnonzero((texts > 0) & trace.where(trace.name, "process_name")).tolist()
    }
    stated = {}
    for row in np.flatnonzero((labels > 0) & trace.where(trace.name, "process_labels")).tolist():
        match = _DEVICE.fullmatch(trace.strings[int(labels[row])])
        if match:
            stated[int(trace.pid[row])] = int(match[1])
    hardware = [pid for pid in names if names[pid] == HARDWARE]
    device = {pid: stated.get(pid, at) for at, pid in enumerate(hardware)}
    only = next(iter(device.values()), 0)
    return {pid: (name, stated.get(pid, device.get(pid, only))) for pid, name in names.items()}


def _hardware(name: str) -> str:
    if name == _COPY:
        return COPY
    return TASK if _TASK.fullmatch(name) or _PART.search(name) else KERNEL


def _operations(trace: KinetoTrace, communication: Mask) -> tuple[Mask, Ints]:
    """Of each event of communication lanes, whether it is a whole collective, and the number of its lane."""
    texts = trace.rare_column("name").texts(len(trace))
    named = np.flatnonzero((texts > 0) & trace.where(trace.name, "thread_name"))
    groups = {
        (int(trace.pid[row]), int(trace.tid[row]))
        for row in named.tolist()
        if trace.strings[int(texts[row])].endswith("Communication")
    }
    rows = np.flatnonzero(communication)
    lanes, lane = np.unique(np.stack([trace.pid[rows], trace.tid[rows]]), axis=1, return_inverse=True)
    of_group = np.array([tuple(one) in groups for one in lanes.T.tolist()], np.bool_)[lane.reshape(-1)]
    whole = of_group | trace.strings.each(trace.name[rows], _OPERATION.match)
    return whole, lane.reshape(-1).astype(np.int64)


def _arrows(trace: KinetoTrace, category: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows where the arrows of a category begin and end."""
    kind = trace.where(trace.category, category)
    column = trace.rare_column("id")
    key = np.full(len(trace), -1, np.int64)
    key[column.rows] = column.bits
    begins, ends = (np.flatnonzero(kind & (trace.phase == ord(letter)) & (key != -1)) for letter in "sf")
    begins = begins[np.argsort(key[begins], kind="stable")]
    at = np.searchsorted(key[begins], key[ends])
    known = at < len(begins)
    known[known] = key[begins[at[known]]] == key[ends[known]]
    return begins[at[known]], ends[known]


def _tasks(trace: KinetoTrace) -> tuple[Ints, Ints]:
    """Rows that put tasks into a queue, and rows that carry them out, which ascend."""
    queued, taken = _arrows(trace, "async_task_queue")
    gives = last_begun(trace, np.flatnonzero(trace.where(trace.category, "enqueue")), queued)
    takes = last_begun(trace, np.flatnonzero(trace.where(trace.category, "dequeue")), taken)
    both = (gives >= 0) & (takes >= 0)
    takes, first = np.unique(takes[both], return_index=True)
    return gives[both][first].astype(np.int64), takes


def _correlations(trace: KinetoTrace, work: Mask, calls: Mask, gives: Ints) -> Ints:
    """int64[n]: the ids of work, launches and what puts tasks into queues, -1 for all else."""
    begin, end = _arrows(trace, "HostToDevice")
    target = last_begun(trace, np.flatnonzero(work), end)
    source = last_begun(trace, np.flatnonzero(calls), begin)
    known = (target >= 0) & (source >= 0)
    known[known] = trace.ts_ns[target[known]] == trace.ts_ns[end[known]]
    found = np.full(len(trace), -1, np.int64)
    for row in (gives, source[known]):
        found[row] = row + 1
    found[target[known]] = source[known] + 1
    return found


def _clock(trace: KinetoTrace) -> list[str]:
    """What the counters say of the AI cores' clock."""
    clock = trace.rare_column("MHz").reals(len(trace))
    clock = clock[clock > 0]
    if not len(clock) or clock.min() == clock.max():
        return []
    return [f"{trace.source}: the AI cores' clock changes, from {clock.min():g} to {clock.max():g} MHz"]
