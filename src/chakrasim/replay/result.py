"""What a replay measured: latencies of every kind of collective, rates, coverage."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.collectives.kinds import KINDS_BY_NAME, MESSAGE
from chakrasim.replay.plan import BARRIER, COMPUTE, RECV, SEND, Coverage, Operation, ReplayPlan
from chakrasim.text.amounts import number_text, size_text, time_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import Shown, data_frame

if TYPE_CHECKING:
    import pandas

    from chakrasim.replay.execute import Samples, Settings

FORMAT: Final = "chakrasim-replay-1"
PERCENTILES: Final = (50, 95, 99)


@dataclass(frozen=True)
class Latency:
    """Statistics of ``samples`` times in ns."""

    samples: int
    min_ns: int
    mean_ns: float
    p50_ns: float
    p95_ns: float
    p99_ns: float
    max_ns: int


@dataclass(frozen=True)
class CollectiveRow:
    """Collectives (or messages) that are alike.

    Attributes
    ----------
    collective: name in the schema, in lower case; "message" for a send and its receive.
    size_bytes: Chakra's ``comm_size`` (of an all-gather or gather: the part of one rank).
    group_size, dtype: members and element type.
    count: how many an iteration has.
    moved_bytes: what rates refer to (`chakrasim.collectives.kinds`): the whole buffer, of a message its size.
    latency: from when all ranks have come together until the last member is done, each collective alone; None in a dry
        run, and where the back end lacks it.
    algbw_gb_s: moved_bytes / mean latency, 10^9 bytes per s. busbw_gb_s: that times the factor of nccl-tests.
    """

    collective: str
    size_bytes: int
    group_size: int
    dtype: str
    count: int
    moved_bytes: int
    latency: Latency | None = None
    algbw_gb_s: float | None = None
    busbw_gb_s: float | None = None


@dataclass(frozen=True)
class ReplayResult(Shown):
    """A replay, or what it would be.

    Attributes
    ----------
    plan: what was run.
    backend, device, torch: on what; "" in a dry run.
    warmup, iterations, compute, dry_run: as asked for.
    collectives: by kind, most bytes first.
    pipelined: the whole communication (and stand-in compute) of an iteration, as the dependencies allow it, until the
        last rank is done; None in a dry run and with ``blocking``.
    batches: ``batch`` collectives and messages begun together, until the last rank is done; None where none was asked
        for.
    checked: ranks' parts in operations whose data were found right; None where nobody looked.
    coverage: what was replayed, what was not, and why.
    warnings: what reading the trace said.
    """

    plan: ReplayPlan
    backend: str
    device: str
    torch: str
    warmup: int
    iterations: int
    compute: str
    dry_run: bool
    collectives: tuple[CollectiveRow, ...]
    pipelined: Latency | None
    batch: int
    batches: Latency | None
    checked: int | None
    coverage: tuple[Coverage, ...]
    warnings: tuple[str, ...]

    def _in_short(self) -> dict[str, str]:
        figures = {
            "ranks": f"{self.plan.ranks:,}",
            "collectives": f"{sum(row.count for row in self.collectives):,}",
            "bytes": size_text(sum(row.count * row.moved_bytes for row in self.collectives)),
            "ran on": "nothing, a dry run" if self.dry_run else f"{self.backend} ({self.device})",
        }
        return figures | ({} if self.pipelined is None else {"iteration": time_text(self.pipelined.mean_ns)})

    def _tables(self) -> list[Section]:
        rows = tuple(
            (
                row.collective,
                size_text(row.size_bytes),
                f"{row.group_size:,}",
                f"{row.count:,}",
                "-" if row.latency is None else time_text(row.latency.mean_ns),
                "-" if row.busbw_gb_s is None else number_text(row.busbw_gb_s),
            )
            for row in self.collectives
        )
        heads = ("collective", "size", "ranks", "count", "mean time", "bus GB/s")
        return [*super()._tables(), Section("Collectives", heads, rows)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed or changed."""
        return self.plan.notes

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plan = self.plan
        return {
            "format": FORMAT,
            "source": plan.source,
            "backend": self.backend,
            "device": self.device,
            "torch": self.torch,
            "dry_run": self.dry_run,
            "ranks": plan.ranks,
            "trace_ranks": plan.trace_ranks,
            "warmup": self.warmup,
            "iterations": self.iterations,
            "compute": self.compute,
            "groups": [{"name": group.name, "ranks": list(group.members)} for group in plan.groups],
            "operations": [sum(o.kind != COMPUTE for o in program) for program in plan.programs],
            "meetings": plan.meetings,
            "collectives": [asdict(row) for row in self.collectives],
            "pipelined": None if self.pipelined is None else asdict(self.pipelined),
            "batch": self.batch,
            "batches": None if self.batches is None else asdict(self.batches),
            "checked": self.checked,
            "coverage": [asdict(row) | {"replayed": not row.why} for row in self.coverage],
            "notes": list(plan.notes),
            "warnings": list(self.warnings),
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row per kind of collective. Raises InputError where pandas is not installed."""
        return data_frame([_flat(row, self.backend) for row in self.collectives], list(COLUMNS))

    def calibration_csv(self) -> str:
        """The measured rows as CSV, for calibration: `COLUMNS`; kinds without a measurement are left out."""
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_flat(row, self.backend) for row in self.collectives if row.latency is not None)
        return text.getvalue()


COLUMNS: Final = (
    *("collective", "size_bytes", "group_size", "dtype", "backend", "count", "moved_bytes", "samples"),
    *("min_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns", "algbw_gb_s", "busbw_gb_s"),
)


def _flat(row: CollectiveRow, backend: str) -> dict[str, Any]:
    values = asdict(row) | {"backend": backend}
    latency = values.pop("latency") or {}
    return {name: values.get(name, latency.get(name)) for name in COLUMNS}


def statistics(samples_ns: Sequence[int]) -> Latency | None:
    """Percentiles by linear interpolation; None of nothing."""
    if not len(samples_ns):
        return None
    values = np.asarray(samples_ns, np.int64)
    p50, p95, p99 = (float(value) for value in np.percentile(values, PERCENTILES))
    return Latency(len(values), int(values.min()), float(values.mean()), p50, p95, p99, int(values.max()))


_Key = tuple[str, int, int, str]


def make_result(
    plan: ReplayPlan,
    settings: Settings,
    compute: str,
    samples: Sequence[Samples] | None,
    warnings: tuple[str, ...],
) -> ReplayResult:
    """The result of all ranks' samples; None: of a dry run."""
    lacking: Mapping[str, str] = samples[0].lacking if samples else {}
    rows = []
    for key, members in _kinds(plan).items():
        latency = statistics(_latencies(plan, members, samples)) if samples and key[0] not in lacking else None
        rows.append(_row(key, len(members), latency))
    rows.sort(key=lambda row: (-row.moved_bytes * row.count, row.collective, row.group_size, row.dtype))
    pipelined = None
    if samples and samples[0].pipelined_ns:
        pipelined = statistics(np.array([one.pipelined_ns for one in samples]).max(axis=0).tolist())
    batches = None
    if samples and settings.batch:
        batches = statistics(np.array([one.batch_ns for one in samples], np.int64).max(axis=0).ravel().tolist())
    return ReplayResult(
        plan=plan,
        backend=settings.backend,
        device=samples[0].device if samples else "",
        torch=samples[0].torch if samples else "",
        warmup=settings.warmup,
        iterations=settings.iterations,
        compute=compute,
        dry_run=samples is None,
        collectives=tuple(rows),
        pipelined=pipelined,
        batch=settings.batch,
        batches=batches,
        checked=sum(one.checked for one in samples) if samples and settings.check else None,
        coverage=_without(plan.coverage, lacking),
        warnings=(*warnings, *_not_run(plan, samples or ())),
    )


def _not_run(plan: ReplayPlan, samples: Sequence[Samples]) -> list[str]:
    """Operators that could not be run, one sentence each."""
    lacking = {name: said for one in samples for name, said in one.operators_lacking.items()}
    calls = Counter(call.name for program in plan.programs for operation in program for call in operation.calls)
    return [f"{calls[name]:,} calls of {name} were left out: {said}" for name, said in sorted(lacking.items())]


def _kinds(plan: ReplayPlan) -> dict[_Key, list[int]]:
    """The meetings of each kind."""
    found: dict[_Key, dict[int, None]] = defaultdict(dict)
    for rank, program in enumerate(plan.programs):
        for operation in program:
            if operation.kind != COMPUTE:
                found[_key(plan, rank, operation)][operation.meeting] = None
    return {key: list(meetings) for key, meetings in found.items()}


def _key(plan: ReplayPlan, rank: int, operation: Operation) -> _Key:
    kind = "message" if operation.kind in (SEND, RECV) else operation.kind
    return kind, operation.size_bytes, plan.members(rank, operation), operation.dtype


def _latencies(plan: ReplayPlan, meetings: Sequence[int], samples: Sequence[Samples]) -> list[int]:
    """By meeting and iteration: when the last member is done."""
    wanted = set(meetings)
    slowest: dict[int, np.ndarray[Any, Any]] = {}
    for rank, program in enumerate(plan.programs):
        for at, operation in enumerate(program):
            if operation.meeting in wanted and samples[rank].latency_ns[at]:
                own = np.array(samples[rank].latency_ns[at], np.int64)
                known = slowest.get(operation.meeting)
                slowest[operation.meeting] = own if known is None else np.maximum(known, own)
    return [int(value) for meeting in meetings if meeting in slowest for value in slowest[meeting]]


def _row(key: _Key, count: int, latency: Latency | None) -> CollectiveRow:
    collective, size, members, dtype = key
    kind = KINDS_BY_NAME.get(collective, MESSAGE)
    moved = kind.whole_bytes(size, members)
    algbw = moved / latency.mean_ns if latency and latency.mean_ns and collective != BARRIER else None
    busbw = algbw * kind.bus_factor(members) if algbw is not None else None
    return CollectiveRow(collective, size, members, dtype, count, moved, latency, algbw, busbw)


def _without(coverage: Sequence[Coverage], lacking: Mapping[str, str]) -> tuple[Coverage, ...]:
    """The account, with what the back end lacks."""
    return tuple(
        Coverage(row.what, row.count, row.size_bytes, f"the back end lacks it: {lacking[row.what]}")
        if row.what in lacking and not row.why
        else row
        for row in coverage
    )
