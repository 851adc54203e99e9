"""Recorded traces as a timeline: host threads and streams of every rank, on one clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from chakrasim.diagnosis.device_rows import DeviceRows
from chakrasim.errors import InputError
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.linker.api import link
from chakrasim.report.timeline.events import ArrowEnds, Process, rows_in_parallel
from chakrasim.report.timeline.events import Track as Shown
from chakrasim.report.timeline.write import write_processes
from chakrasim.trace import Trace, type_name
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace, RowKind
from chakrasim.trace.linked.parts import begun

_LEFT_OUT = ("Trace", "overhead")


@dataclass(frozen=True)
class Track:
    """A thread or stream: its name and the positions (in ``Lane`` arrays) of what it shows."""

    process: str
    name: str
    at: NDArray[np.intp]


@dataclass(frozen=True)
class RankEvents:
    """What one rank shows, times on its own clock.

    ``start_ns``, ``duration_ns`` int64[k]; ``names`` and ``args`` (JSON members, "" or beginning with a comma) by
    entry; ``tracks`` which thread or stream each entry is on; ``arrows`` pairs of entries, cause and effect;
    ``linked`` what comparing clocks needs, None where nothing tells.
    """

    rank: int
    start_ns: Ints
    duration_ns: Ints
    names: list[str]
    args: list[str]
    tracks: list[Track]
    arrows: list[tuple[int, int]] = field(default_factory=list)
    linked: LinkedTrace | None = None


def clock_shifts(ranks: Sequence[RankEvents]) -> tuple[dict[int, int], bool]:
    """By rank, what to add to its times to have those of the first rank's clock, by the collectives that ranks share;
    and whether they share any."""
    comparable = [rank.linked for rank in ranks if rank.linked is not None]
    aligned = align(comparable) if len(comparable) > 1 else []
    shared = any((trace.communication.transfer_ns >= 0).any() for trace in aligned)
    return {trace.rank: trace.clock_shift_ns for trace in aligned}, shared


def write_trace_timeline(ranks: Sequence[RankEvents], shifts: dict[int, int], path: str | PathLike[str]) -> None:
    """Write the timeline of these ranks with their clocks shifted, time 0 the first start; ``.gz`` compresses."""
    origin = min((int(r.start_ns.min()) + shifts.get(r.rank, 0) for r in ranks if len(r.start_ns)), default=0)
    write_processes(path, _processes(ranks, shifts, origin))


def _processes(ranks: Sequence[RankEvents], shifts: dict[int, int], origin_ns: int) -> Iterator[Process]:
    pid = arrow = 0
    for rank in ranks:
        start = rank.start_ns - (origin_ns - shifts.get(rank.rank, 0))
        duration, ids = np.maximum(rank.duration_ns, 0), np.arange(len(rank.start_ns))
        ends, number = _drawn(rank, arrow)
        arrow += len(rank.arrows)
        for name, tracks in groupby(rank.tracks, lambda track: track.process):
            pid += 1
            shown = [Shown(tid, track.name, track.at, name.partition(",")[0]) for tid, track in enumerate(tracks, 1)]
            here = np.zeros(len(ids), np.bool_)
            here[np.concatenate([track.at for track in shown])] = True
            chosen = np.flatnonzero(here[ends])
            arrows = [ArrowEnds("launch", ends[chosen], number[chosen], chosen % 2 == 1)]
            label = f"rank {rank.rank} {name}"
            yield Process(pid, label, pid, shown, start, duration, rank.names, rank.args, ids, arrows=arrows)


def _drawn(rank: RankEvents, first: int) -> tuple[Ints, Ints]:
    """Causes and effects in turn, and the numbers of their arrows, of which both ends are shown."""
    pairs = np.array(rank.arrows, np.int64).reshape(-1, 2)
    shown = np.zeros(len(rank.start_ns), np.bool_)
    for track in rank.tracks:
        shown[track.at] = True
    number = first + 1 + np.arange(len(pairs))
    both = shown[pairs].all(axis=1)
    return pairs[both].reshape(-1), np.repeat(number[both], 2)


# -- Kineto ------------------------------------------------------------------------------------------------------------


def kineto_events(rank: int, trace: KinetoTrace) -> RankEvents:
    """The operators, annotations, calls and device work of a device trace; arrows from launches to kernels."""
    rows = DeviceRows(trace)
    shown = rows.timed & ~trace.where(trace.category, *_LEFT_OUT) & (trace.category > 0)
    on_device = rows.work | rows.sync_records
    shown &= ~trace.strings.each(trace.category, lambda text: text.startswith("gpu_user"))
    chosen = np.flatnonzero(shown)
    position = np.full(len(trace), -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    tracks = _host_tracks(trace, chosen[~on_device[chosen]], position)
    tracks += _device_tracks(trace, chosen[on_device[chosen]], position)
    work = np.flatnonzero(rows.launch_of >= 0)
    arrows = np.stack([position[rows.launch_of[work]], position[work]], axis=1)
    indices = trace.name[chosen]
    names = {index: trace.strings[index] for index in np.unique(indices).tolist()}
    correlation = trace.correlation[chosen].tolist()
    return RankEvents(
        rank=rank,
        start_ns=trace.ts_ns[chosen],
        duration_ns=trace.dur_ns[chosen],
        names=[names[index] for index in indices.tolist()],
        args=[f',"correlation":{number}' if number > 0 else "" for number in correlation],
        tracks=tracks,
        arrows=[(cause, effect) for cause, effect in arrows.tolist() if cause >= 0 and effect >= 0],
        linked=_linked(rank, trace),
    )


def _linked(rank: int, trace: KinetoTrace) -> LinkedTrace | None:
    try:
        return begun(link(None, trace, rank=rank))
    except InputError:
        return None


def _host_tracks(trace: KinetoTrace, rows: NDArray[np.intp], position: Ints) -> list[Track]:
    threads = np.unique(np.stack([trace.pid[rows], trace.tid[rows]], axis=1), axis=0)
    many = len(np.unique(threads[:, 0])) > 1
    tracks = []
    for pid, tid in threads.tolist():
        mine = rows[(trace.pid[rows] == pid) & (trace.tid[rows] == tid)]
        process = f"host, process {trace.text_of(pid)}" if many else "host"
        name = f"thread {trace.text_of(tid)}"
        tracks += [Track(process, part, position[at]) for part, at in _nested(name, trace.ts_ns, trace.dur_ns, mine)]
    return tracks


def _device_tracks(trace: KinetoTrace, rows: NDArray[np.intp], position: Ints) -> list[Track]:
    streams = np.stack([trace.device[rows].astype(np.int64), trace.stream[rows]], axis=1)
    tracks = []
    for device, stream in np.unique(streams, axis=0).tolist():
        mine = rows[(trace.device[rows] == device) & (trace.stream[rows] == stream)]
        name = f"stream {stream}" if stream >= 0 else "synchronisation"
        for part, at in _apart(name, trace.ts_ns, trace.dur_ns, mine):
            tracks.append(Track(f"device {device}", part, position[at]))
    return tracks


# -- linked traces -----------------------------------------------------------------------------------------------------


def linked_events(linked: LinkedTrace) -> RankEvents:
    """The rows of a linked trace (without gaps) on their lanes; arrows from launches to kernels and from device to host
    where the host waited. Times span the waiting too."""
    shown = linked.kind != RowKind.GAP
    lengths = linked.wait_ns + linked.duration_ns
    tracks = []
    order = sorted(range(len(linked.lanes)), key=lambda at: (linked.lanes[at].device, linked.lanes[at].stream, at))
    for number in order:
        lane = linked.lanes[number]
        mine = np.flatnonzero(shown & (linked.lane == number))
        process = "host" if lane.device < 0 else f"device {lane.device}"
        tracks += [Track(process, part, at) for part, at in _apart(lane.name, linked.start_ns, lengths, mine)]
    drawn = np.isin(linked.edge_kind, _DRAWN) & shown[linked.edge_source] & shown[linked.edge_target]
    names = {index: linked.strings[index] for index in np.unique(linked.name).tolist()}
    return RankEvents(
        rank=linked.rank,
        start_ns=linked.start_ns,
        duration_ns=lengths,
        names=[names[index] for index in linked.name.tolist()],
        args=[f',"step":{step}' if step >= 0 else "" for step in linked.step.tolist()],
        tracks=tracks,
        arrows=list(zip(linked.edge_source[drawn].tolist(), linked.edge_target[drawn].tolist(), strict=True)),
        linked=begun(linked),
    )


_DRAWN = (
    EdgeKind.LAUNCH,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC_EVENT,
    EdgeKind.SYNC_STREAM,
    EdgeKind.SYNC_CONTEXT,
    EdgeKind.SYNC_COPY,
)


# -- Chakra ------------------------------------------------------------------------------------------------------------


def chakra_events(rank: int, trace: Trace) -> RankEvents:
    """The nodes of a Chakra trace that has start times. Raises InputError for one that has none."""
    start = _exact(trace, "start_ns", trace.start_micros)
    duration = _exact(trace, "duration_ns", trace.duration_micros)
    if not start.any():
        raise InputError(
            "the trace has no start times",
            file=trace.source,
            found=f"{len(trace):,} nodes, all at 0",
            remedy="convert the recorded traces again, or simulate it with --timeline FILE",
        )
    on_host = trace.attr("is_cpu_op")
    host = on_host.present & (on_host.bits != 0)
    stream = trace.attr("stream").integers_or(-1)
    thread = trace.attr("tid").integers_or(0)
    tracks = []
    for key in np.unique(thread[host]).tolist():
        mine = np.flatnonzero(host & (thread == key))
        tracks += [Track("host", part, at) for part, at in _nested(f"thread {key}", start, duration, mine)]
    for key in np.unique(stream[~host]).tolist():
        mine = np.flatnonzero(~host & (stream == key))
        name = f"stream {key}" if key >= 0 else "device"
        tracks += [Track("device", part, at) for part, at in _apart(name, start, duration, mine)]
    names = [trace.name(at) or type_name(int(trace.types[at])) for at in range(len(trace))]
    ids = trace.ids.tolist()
    args = [f',"node":{node},"type":"{type_name(kind)}"' for node, kind in zip(ids, trace.types.tolist(), strict=True)]
    return RankEvents(rank, start, duration, names, args, tracks)


def _exact(trace: Trace, name: str, micros_: NDArray[np.uint64]) -> Ints:
    """Times in ns: of the attribute where a node has it, else of the schema's microseconds."""
    return trace.attr(name).integers_or(micros_.astype(np.int64) * 1000)


# -- rows --------------------------------------------------------------------------------------------------------------

Parts = Iterator[tuple[str, NDArray[np.intp]]]
"""Tracks that a thread or stream takes: their names, and which entries are on each, in the order of their starts."""


def _apart(name: str, start_ns: Ints, duration_ns: Ints, rows: NDArray[np.intp]) -> Parts:
    """Tracks on which no two entries overlap."""
    rows, start, end = _in_order(start_ns, duration_ns, rows)
    return _numbered(name, rows_in_parallel(start.tolist(), end.tolist()), rows)


def _nested(name: str, start_ns: Ints, duration_ns: Ints, rows: NDArray[np.intp]) -> Parts:
    """Tracks on which of two entries either one contains the other or they lie apart: a viewer draws them as calls, and
    drops or cuts others."""
    rows, starts, ends = _in_order(start_ns, duration_ns, rows)
    stacks: list[list[int]] = []
    parts: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        for number, stack in enumerate(stacks):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                parts.append(number)
                break
        else:
            stacks.append([end])
            parts.append(len(stacks) - 1)
    return _numbered(name, parts, rows)


def _in_order(start_ns: Ints, duration_ns: Ints, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Ints, Ints]:
    """The rows by start, what contains before what it contains, with their starts and ends as they are drawn."""
    length = np.maximum(duration_ns[rows], 0)
    order = np.lexsort((-length, start_ns[rows]))
    start = start_ns[rows][order]
    return rows[order], start, start + length[order]


def _numbered(name: str, parts: list[int], rows: NDArray[np.intp]) -> Parts:
    array = np.array(parts, np.int64)
    for part in np.unique(array).tolist():
        yield name + (f" ({part + 1})" if part else ""), rows[array == part]
