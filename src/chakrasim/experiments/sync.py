"""Chakra's pull request 57: the host waits for the device, as the critical path says. Its example as a made trace."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from chakrasim.analysis.critical_path.path import linked_critical_path, path_figures
from chakrasim.converter.linked.api import convert
from chakrasim.errors import InputError
from chakrasim.experiments.result import SECONDS, WORD, Cell, Experiment, Table
from chakrasim.linker.api import link
from chakrasim.progress import Progress
from chakrasim.simulator.api import replay_recorded
from chakrasim.text.amounts import plural, time_text
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace

SYNCS: Final = (EdgeKind.SYNC_EVENT, EdgeKind.SYNC_STREAM, EdgeKind.SYNC_CONTEXT, EdgeKind.SYNC_COPY)
MOST_ROWS: Final = 40
REDUCE_SCATTER: Final = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
OPTIMIZER: Final = "multi_tensor_apply_kernel<TensorListMetadata<6>, DistAdamWithParamRemaindersFunctor<float>>"


def run(data: str | os.PathLike[str] | None, *, progress: Progress | None = None) -> Experiment:
    """The experiment; ``data``: a device trace (Kineto) in place of the made one."""
    linked = _made() if data is None else link(device=data)
    alone = without_syncs(linked)
    known, unknown = (path_figures(one, linked_critical_path(one)) for one in (linked, alone))
    if not known["sync_edges"]:
        raise InputError("the host waits for no work of the device in this trace", file=os.fspath(data or "example"),
                         expected="calls that synchronise, recorded with enable_cuda_sync_events")  # fmt: skip
    longest = max((edge["from_row"] for edge in known["sync_edges"]), key=lambda row: int(linked.duration_ns[row]))
    halved = _halved(linked, alone, longest)
    crossing = sum(edge["on_path"] for edge in known["sync_edges"])
    saved, missed = (a - b for a, b in zip(halved.numbers("as recorded"), halved.numbers("half the time"), strict=True))
    return Experiment(
        "gpu-to-cpu-sync",
        "Does the host wait for the device, and what is missed by whoever leaves that out?",
        (
            ("dependencies of the host on the device", f"{len(known['sync_edges'])}, {crossing} on the critical path"),
            ("that kernel in half the time", f"the trace is {time_text(1e9 * saved)} shorter with them, "
             f"{time_text(1e9 * missed)} without"),
        ),
        (_edges(known), _path("Critical path with them", known), _path("Critical path without them", unknown), halved),
        (
            *(["a made trace: names, external ids and the kernel's 44.16 ms are those of the pull request, all other "
               "times are ours"] if data is None else []),
            "without them: calls that synchronise take as long as recorded, by themselves",
        ),
        ("the pull request's own traces (Megatron, Llama 2, ResNet-50), attachments that were not to be had; what it "
         "prints of them, two dependencies, is what stands here",),
        "github.com/mlcommons/chakra, pull request 57 (merged October 2024), which takes them from Holistic "
        "Trace Analysis",
    )  # fmt: skip


def without_syncs(linked: LinkedTrace) -> LinkedTrace:
    """The same trace as if nobody knew what calls waited for: their whole time is their own."""
    kept = ~np.isin(linked.edge_kind, SYNCS)
    edges = {name: getattr(linked, name)[kept] for name in ("edge_source", "edge_target", "edge_kind", "edge_evidence",
                                                            "edge_flags")}  # fmt: skip
    return replace(linked, **edges, duration_ns=linked.duration_ns + linked.wait_ns, wait_ns=0 * linked.wait_ns)


def _halved(linked: LinkedTrace, alone: LinkedTrace, row: int) -> Table:
    """Replays as recorded, and with one kernel in half its time."""
    rows: list[tuple[Cell, ...]] = []
    for name, one in (("with dependencies on the device", linked), ("without", alone)):
        faster = one.duration_ns.copy()
        faster[row] //= 2
        before, after = (
            replay_recorded([convert(trace)]).makespan_ns / 1e9 for trace in (one, replace(one, duration_ns=faster))
        )
        rows.append((name, before, after))
    kernel = linked.strings[int(linked.name[row])].partition("(")[0]
    columns = (("trace", WORD), ("as recorded", SECONDS), ("half the time", SECONDS))
    return Table(f"What if {kernel} took half its time", columns, tuple(rows))


def _edges(figures: dict[str, Any]) -> Table:
    rows = tuple(
        (edge["kind"], edge["from_name"].partition("(")[0], str(edge["from_external_id"]), edge["to_name"],
         str(edge["to_external_id"]), "yes" if edge["on_path"] else "no")
        for edge in figures["sync_edges"][:MOST_ROWS]
    )  # fmt: skip
    names = (
        "kind",
        "work of the device",
        "its external id",
        "call of the host",
        "external id of the call",
        "on the path",
    )
    return Table("The host waits for the device", tuple((name, WORD) for name in names), rows,
                 _more(len(figures["sync_edges"])))  # fmt: skip


def _path(title: str, figures: dict[str, Any]) -> Table:
    rows = tuple(
        (row["reached_by"], row["lane"], row["name"].partition("(")[0] or "(between operators)", row["delay_ns"] / 1e9,
         row["duration_ns"] / 1e9)
        for row in figures["rows"][:MOST_ROWS]
    )  # fmt: skip
    columns = (("reached by", WORD), ("lane", WORD), ("row", WORD), ("after", SECONDS), ("takes", SECONDS))
    return Table(f"{title}, {time_text(figures['total_ns'])}", columns, rows, _more(len(figures["rows"])))


def _more(count: int) -> tuple[str, ...]:
    return (f"{plural(count - MOST_ROWS, 'more row')}",) if count > MOST_ROWS else ()


def _made() -> LinkedTrace:
    """The example, written as a profiler would and linked."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "device.json"
        file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": _events()}), encoding="utf-8")
        return link(device=file)


def _events() -> list[dict[str, Any]]:
    """A step: gradients are reduced, the host waits for the device, prepares the optimizer, and waits again."""
    found: list[dict[str, Any]] = []

    def event(category: str, name: str, ts: int, dur: int, pid: int = 1, tid: int = 1, **args: Any) -> None:
        found.append({"ph": "X", "cat": category, "name": name, "ts": 1000 + ts, "dur": dur, "pid": pid, "tid": tid,
                      "args": args})  # fmt: skip

    def launched(name: str, ts: int, work: tuple[str, int, int, int], external: int) -> None:
        kernel, stream, start, dur = work
        event("cpu_op", name, ts, 20, **{"External id": external})
        event("cuda_runtime", "cudaLaunchKernelExC", ts + 5, 8, correlation=external, **{"External id": external})
        event("kernel", kernel, start, dur, 0, stream, device=0, stream=stream, correlation=external,
              **{"External id": external})  # fmt: skip

    def waits(ts: int, until: int, external: int) -> None:
        event(
            "cuda_runtime", "cudaDeviceSynchronize", ts, until - ts, correlation=external, **{"External id": external}
        )
        event("cuda_sync", "Context Sync", ts, until - ts, 0, -1, cuda_sync_kind="Context Sync", correlation=external,
              stream=-1, device=0)  # fmt: skip

    event("user_annotation", "ProfilerStep#1", 0, 45_400)
    launched("c10d::_reduce_scatter_base_", 100, (REDUCE_SCATTER, 64, 115, 44_160), 13847)
    waits(130, 44_285, 91874)
    event("cpu_op", "aten::empty", 44_290, 6, **{"External id": 16392})
    event("cpu_op", "aten::detach", 44_300, 17, **{"External id": 16393})
    launched("DistributedFusedAdam.step", 44_320, (OPTIMIZER, 7, 44_345, 940), 94785)
    waits(44_350, 45_295, 94792)
    event("cpu_op", "aten::zero_", 45_300, 40, **{"External id": 94800})
    return found
