"""The stages of linking one after another, up to the linked trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.linker import host_alone
from chakrasim.linker.communication.find import find_communication
from chakrasim.linker.communication.host import handed_over
from chakrasim.linker.evidence.enqueued import enqueue
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.false_pairs import count_false_pairs
from chakrasim.linker.evidence.host_join import join_host
from chakrasim.linker.evidence.idle_waits import idle_waits
from chakrasim.linker.evidence.inference import cross_stream, infer
from chakrasim.linker.evidence.late_ends import correct_late_ends
from chakrasim.linker.evidence.launches import find_launches, index_calls
from chakrasim.linker.evidence.nesting import nest
from chakrasim.linker.evidence.synchronisation import find_waits, read_records
from chakrasim.linker.evidence.task_queues import find_tasks
from chakrasim.linker.evidence.threads import explain
from chakrasim.linker.memory import give_back
from chakrasim.linker.rows.columns import constant, id_columns, only_used, text_columns
from chakrasim.linker.rows.critical import critical_paths
from chakrasim.linker.rows.data_edges import data_edges
from chakrasim.linker.rows.edges import Edges, make_edges
from chakrasim.linker.rows.operator_work import find_works
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.linker.rows.shape import shape
from chakrasim.linker.rows.table import Stages, make_table
from chakrasim.linker.rows.texts import TextPool
from chakrasim.text.amounts import first_of
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Indices, Ints, KinetoTrace
from chakrasim.trace.linked.columns import Annotations, EdgeKind, LinkedTrace

#: Columns of the table that the linked trace has as they are.
_ROW = ("kind", "part", "head", "lane", "start_ns", "wait_ns", "duration_ns", "inclusive_ns", "parent", "step", "lanes")
#: Edges that are looked at together.
_CHUNK = 1 << 18


@dataclass(eq=False)
class Draft:
    """Rows in order and their edges; ``annotation`` int32[n] index into ``annotations``, -1: none. ``kineto`` is the
    device trace as far as it is still needed."""

    table: RowTable
    edges: Edges
    annotation: Indices
    annotations: Annotations
    counts: dict[str, int]
    notes: dict[str, Any]
    kineto: KinetoTrace | None


def draft_from_device(work: LaneEvents, host: HostTrace | None) -> Draft:
    """Link a device trace, with the host trace of the same run if there is one."""
    texts = TextPool(work.kineto.strings)
    stages, notes = _stages(work, host, texts)
    table, edges, annotation = make_table(stages, texts)
    annotations, by_lane = _annotations(work)
    annotation = np.append(by_lane, np.int32(-1))[annotation]
    return Draft(table, edges, annotation, annotations, dict(work.counts), notes, work.kineto)


def _stages(work: LaneEvents, host: HostTrace | None, texts: TextPool) -> tuple[Stages, dict[str, Any]]:
    give_back(len(work.host))
    nesting = nest(work)
    calls = index_calls(work)
    tasks = find_tasks(work, nesting, calls)
    launches = find_launches(work, nesting, calls, tasks.asker)
    queues = enqueue(work, launches)
    records = read_records(work, calls)
    proven = find_waits(work, queues, records)
    waits = infer(work, launches, queues, records, proven)
    count_false_pairs(work, proven)
    handed = handed_over(work)
    correct_late_ends(work, nesting, handed)
    handovers = explain(work, nesting.pieces, handed, tasks)
    idle_waits(work, launches, nesting.pieces, waits.host, handovers)
    notes: dict[str, Any] = {"cross_stream_edges": cross_stream(work, waits)}
    node = None
    join = join_host(work, host, texts) if host is not None else None
    shaped = shape(work, nesting.give_pieces(), handovers, launches, waits)
    edges = make_edges(work, nesting, shaped, handovers, waits.host, waits.device)
    if host is not None and join is not None:
        node = join.node
        edges.append(data_edges(work, nesting, launches, shaped, host, join))
        found = {"rf_ids_in_both": join.found, "rf_ids_with_equal_names": join.agreeing}
        notes["host_join"] = {"by": join.method, **found}
    give_back(len(work.host))
    stages = Stages(
        work=work,
        launches=launches,
        asker=tasks.asker,
        parent=nesting.parent,
        inclusive_ns=nesting.end_ns - work.host.start_ns,
        host_node=node,
        pieces=shaped.pieces,
        first=shaped.first,
        launching=shaped.launching,
        waiting=shaped.waiting,
        wait_ns=shaped.wait_ns,
        edges=edges,
    )
    return stages, notes


def draft_from_host(host: HostTrace) -> Draft:
    """Link a host trace alone."""
    counts: dict[str, int] = {}
    table, edges = host_alone.rows_of_host(host, counts)
    if not len(table):
        raise InputError(
            "there is no operator in this trace", file=host.source, found=f"{len(host)} nodes", expected="operators"
        )
    none, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
    nothing = Annotations(none, none, times, times, none)
    around = constant(-1, len(table), np.int32)
    return Draft(table, edges, around, nothing, counts, {"cross_stream_edges": "absent"}, None)


def _annotations(work: LaneEvents) -> tuple[Annotations, Indices]:
    """The annotations by start, and where each of ``work.annotations`` stands among them."""
    spans = work.annotations
    order = np.lexsort((-spans.end_ns, spans.start_ns))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    start, end = spans.start_ns[order], spans.end_ns[order]
    name = work.kineto.name[spans.event[order]]
    step = work.step_numbers[name] if len(name) else np.zeros(0, np.int32)
    return Annotations(name, spans.lane[order], start, end - start, step.astype(np.int32)), place


def one_step(draft: Draft, step: int | str) -> Draft:
    """The rows of one step of the profiler, and the edges between them."""
    table, edges = draft.table, draft.edges
    known = np.unique(table.step[table.step >= 0]).tolist()
    number = int(step) if str(step).isdecimal() else -1
    if number not in known:
        raise InputError(
            "there is no such step",
            place="step",
            found=step,
            expected=f"one of {first_of(known, 20)}" if known else "all (the trace has no ProfilerStep)",
        )
    which = table.step == number
    place = np.append(np.cumsum(which) - 1, -1).astype(np.int32)
    place[:-1][~which] = -1
    columns = {name: getattr(table, name) for name in table.__dataclass_fields__ if name not in ("texts", "lanes")}
    columns = {name: column[which] for name, column in columns.items()}
    for name in ("head", "parent", "launch"):
        columns[name] = place[columns[name]]
    cut = columns["head"] < 0
    columns["head"][cut] = np.flatnonzero(cut)
    inside = which[edges.source] & which[edges.target]
    kept = edges.take(inside)
    edges = Edges(place[kept.source], place[kept.target], kept.kind, kept.evidence)
    table = replace(table, **columns)
    return replace(draft, table=table, edges=edges, annotation=draft.annotation[which])


def finish(draft: Draft, host: HostTrace | None, rank: int | None) -> LinkedTrace:
    """The linked trace."""
    table, edges, counts = draft.table, draft.edges, draft.counts
    give_back(len(table))
    communication, groups = find_communication(table, draft.kineto, host, counts)
    works = find_works(table, host, measured=draft.kineto is not None, communication=communication.row)
    kineto = draft.kineto = _only_ids(draft.kineto) if draft.kineto is not None else None
    # Who launched what is needed no more.
    table = draft.table = replace(table, launch=table.launch[:0].copy())
    give_back(len(table))
    delay = _delays(table, edges, counts)
    give_back(len(table))
    flags, paths = critical_paths(table, edges, delay)
    give_back(len(table))
    ids: dict[str, Any] = dict(id_columns(table, kineto, host))
    texts, strings = text_columns(table, kineto, host)
    notes = draft.annotations
    names = ["values", "shapes", "types", "op_schema"]
    columns = [*(texts[name] for name in names), table.name, communication.dtype, communication.evidence, notes.name]
    columns += [works.name, works.dtype, works.problem]
    strings, moved = only_used(strings, columns)
    header, source = _header(draft, kineto, host)
    said_rank, world = _rank(header, counts)
    return LinkedTrace(
        rank=rank if rank is not None else said_rank,
        world_size=world,
        source=source,
        strings=strings,
        name=moved[4],
        delay_ns=delay,
        annotation=draft.annotation,
        **{name: getattr(table, name) for name in _ROW},
        **ids,
        **dict(zip(names, moved[:4], strict=True)),
        communication=replace(communication, dtype=moved[5], evidence=moved[6]),
        groups=groups,
        edge_source=edges.source,
        edge_target=edges.target,
        edge_kind=edges.kind,
        edge_evidence=edges.evidence,
        edge_flags=flags,
        annotations=replace(notes, name=moved[7]),
        step_paths=paths if kineto is not None else (),
        works=replace(works, name=moved[8], dtype=moved[9], problem=moved[10]),
        counts=counts,
        header=header,
    )


def _only_ids(kineto: KinetoTrace) -> KinetoTrace:
    """The trace without the columns that are in the rows by now."""
    nothing = np.zeros(0, np.int64)
    small = nothing.astype(np.int32)
    columns: dict[str, Any] = dict.fromkeys(("pid", "tid", "ts_ns", "dur_ns", "stream"), nothing)
    columns |= dict.fromkeys(("name", "category", "device"), small)
    return replace(kineto, **columns)


def _delays(table: RowTable, edges: Edges, counts: dict[str, int]) -> Ints:
    """How long after the last end of what it depends on each row begins to work; never negative."""
    ends = table.end_ns
    latest = np.full(len(table), int(table.start_ns.min()))
    for at in range(0, len(edges), _CHUNK):
        some = edges.take(slice(at, at + _CHUNK))
        some = some.take(some.kind != EdgeKind.CONTROL)
        np.maximum.at(latest, some.target, ends[some.source])
    del ends
    delay = np.subtract(table.start_ns, latest, out=latest)
    delay += table.wait_ns
    counts["rows_begun_before_their_sources_ended"] = int((delay < 0).sum())
    found: Ints = np.maximum(delay, 0, out=delay)
    return found


def _header(draft: Draft, kineto: KinetoTrace | None, host: HostTrace | None) -> tuple[dict[str, Any], str]:
    header: dict[str, Any] = dict(kineto.header) if kineto is not None else {}
    if host is not None:
        header["host_trace"] = {"schema": host.schema, **{k: v for k, v in host.header.items() if k != "schema"}}
    sources = [trace.source for trace in (host, kineto) if trace is not None]
    return _finite(header) | draft.notes, " + ".join(sources)


def _finite(value: Any) -> Any:
    """The same value with the numbers that JSON lacks (NaN, infinity) as texts."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _rank(header: dict[str, Any], counts: dict[str, int]) -> tuple[int, int]:
    said = header.get("distributedInfo")
    said = said if isinstance(said, dict) else {}

    def number(name: str) -> int:
        value = said.get(name, -1)
        if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**31:
            return value
        counts["ranks or world sizes that cannot be"] = counts.get("ranks or world sizes that cannot be", 0) + 1
        return -1

    return number("rank"), number("world_size")
