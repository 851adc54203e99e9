"""Which records describe which kernels: by launch, by External id, by group end, and as a last resort by order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrasim.collectives.kernel_names import can_carry_out
from chakrasim.collectives.spelling import NOT_WORK, operation_of, plain
from chakrasim.linker.communication.spans import CommunicationSpans, SpanKind
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.columns import COALESCED

BY_LAUNCH = "record_param_comms by launch"
BY_EXTERNAL_ID = "record_param_comms by External id"
BY_GROUP_END = "record_param_comms before the end of a group"
BY_ORDER = "record_param_comms by order"
BY_OPERATOR = "enclosing operator"
BY_NAME = "kernel name"


@dataclass(frozen=True)
class Kernel:
    """A kernel that communicates: its event, its start, and the thread (of `CommunicationSpans`, -1: unknown) and
    moment of its launch (its start where the launch is lost)."""

    event: int
    name: str
    start_ns: int
    thread: int
    launch_ns: int


@dataclass
class Join:
    """What was found of a kernel: positions in `CommunicationSpans` of its records (several: a group of messages) and
    of the events around its launch; ``shared_by`` kernels carry out the same records, of which this is number
    ``share``."""

    kernel: Kernel
    records: list[int] = field(default_factory=list)
    around: list[int] = field(default_factory=list)
    evidence: str = BY_NAME
    share: int = 0
    shared_by: int = 1


class Joiner:
    """Joins the kernels of one trace with its records."""

    def __init__(self, kineto: KinetoTrace, spans: CommunicationSpans, names: dict[int, str]) -> None:
        """``names``: the operation that each record names, by position in ``spans``."""
        self.kineto, self.spans, self.names = kineto, spans, names
        self.work = {at for at, name in names.items() if plain(name) not in NOT_WORK}
        self.single = {at for at in self.work if operation_of(names[at]) != COALESCED}
        self.used: set[int] = set()
        self.by_external_id = self._external_ids()

    def join(self, kernels: Sequence[Kernel]) -> list[Join]:
        """A join for each kernel, in the same order."""
        joins = [self._at_launch(kernel) for kernel in kernels]
        for join in joins:
            if not join.records:
                self._external(join)
        self._group_ends(joins)
        self._in_order([join for join in joins if not join.records])
        self._number_shares(joins)
        return joins

    @property
    def unused(self) -> int:
        """Records of work that no kernel was found for."""
        return len(self.single - self.used)

    def _at_launch(self, kernel: Kernel) -> Join:
        join = Join(kernel)
        join.around = self.spans.chain(self.spans.innermost(kernel.thread, kernel.launch_ns))
        record = next((at for at in join.around if at in self.single), -1)
        if record >= 0:
            self._take(join, [record], BY_LAUNCH)
        elif any(self.spans.kind[at] != SpanKind.RECORD for at in join.around):
            join.evidence = BY_OPERATOR
        return join

    def _take(self, join: Join, records: Iterable[int], evidence: str) -> None:
        join.records = list(records)
        join.evidence = evidence
        self.used.update(join.records)

    def _external_ids(self) -> dict[int, int]:
        """Position of the record that an External id leads to: its own, or that of the operator around it or in it."""
        found: dict[int, int] = {}
        for at, event in enumerate(self.spans.event.tolist()):
            number = int(self.kineto.external_id[event])
            if number <= 0:
                continue
            record = next((up for up in self.spans.chain(at) if up in self.single), -1)
            if record < 0:
                record = next((down for down in self.spans.inside(at) if down in self.single), -1)
            if record >= 0:
                found[number] = record
        return found

    def _external(self, join: Join) -> None:
        event = join.kernel.event
        number = int(self.kineto.external_id[event])
        # Old Kineto writes the correlation of a kernel as its External id, which then names some other operator.
        if number == self.kineto.correlation[event] or number not in self.by_external_id:
            return
        record = self.by_external_id[number]
        if self._fits(join.kernel, record):
            self._take(join, [record], BY_EXTERNAL_ID)

    def _group_ends(self, joins: Sequence[Join]) -> None:
        """A batch of messages, or of coalesced collectives, is launched when its group ends, outside of all records:
        it is what was recorded on that thread since the last launch."""
        waiting: dict[int, list[tuple[int, int, object]]] = {}
        enclosing_used = {up for at in self.used for up in self.spans.chain(at)}
        for at in self.single - enclosing_used:
            waiting.setdefault(int(self.spans.thread[at]), []).append((int(self.spans.start_ns[at]), 0, at))
        for join in joins:
            if join.kernel.thread in waiting:
                waiting[join.kernel.thread].append((join.kernel.launch_ns, 1, join))
        for events in waiting.values():
            pending: list[int] = []
            group: list[Join] = []
            for _, _, item in sorted(events, key=lambda event: event[:2]):
                if isinstance(item, int):
                    if group:
                        self._share_out(pending, group)
                        pending, group = [], []
                    pending.append(item)
                elif isinstance(item, Join):
                    if item.records:
                        self._share_out(pending, group)
                        pending, group = [], []
                    elif pending and (not group or self._same_end(group[-1], item)):
                        group.append(item)
            self._share_out(pending, group)

    def _same_end(self, first: Join, second: Join) -> bool:
        """Whether two launches belong to the end of one group: under one annotation or operator, or one call."""
        if first.around and second.around:
            return first.around[-1] == second.around[-1]
        same = self.kineto.correlation[[first.kernel.event, second.kernel.event]]
        return bool(same[0] == same[1] and same[0] > 0)

    def _share_out(self, pending: Sequence[int], group: Sequence[Join]) -> None:
        """Give the records of a group to its kernels: to each those that it can carry out, in order."""
        left = list(pending)
        for number, join in enumerate(group):
            fitting = [at for at in left if self._fits(join.kernel, at)]
            rivals = sum(self._fits(other.kernel, at) for other in group[number:] for at in fitting[:1])
            chosen = fitting[: -(-len(fitting) // max(rivals, 1))]
            if chosen:
                self._take(join, chosen, BY_GROUP_END)
                left = [at for at in left if at not in chosen]

    def _in_order(self, joins: Sequence[Join]) -> None:
        """Kernels whose launch is lost: the earliest record that none has, that is not later and that fits."""
        free = sorted(self.single - self.used, key=lambda at: int(self.spans.start_ns[at]))
        last = -1
        for join in sorted(joins, key=lambda join: join.kernel.start_ns):
            if join.kernel.thread >= 0:
                continue
            for position in range(last + 1, len(free)):
                at = free[position]
                if self.spans.start_ns[at] > join.kernel.start_ns:
                    break
                if self._fits(join.kernel, at):
                    self._take(join, [at], BY_ORDER)
                    last = position
                    break

    def _fits(self, kernel: Kernel, record: int) -> bool:
        return can_carry_out(kernel.name, operation_of(self.names[record]))

    def _number_shares(self, joins: Sequence[Join]) -> None:
        carriers: dict[int, list[Join]] = {}
        for join in joins:
            if len(join.records) == 1:
                carriers.setdefault(join.records[0], []).append(join)
        for several in carriers.values():
            for number, join in enumerate(sorted(several, key=lambda join: join.kernel.start_ns)):
                join.share, join.shared_by = number, len(several)


def launches(kineto: KinetoTrace, spans: CommunicationSpans, events: np.ndarray, calls: np.ndarray) -> list[Kernel]:
    """The kernels of ``events``, launched by the events ``calls`` (-1: unknown)."""
    kernels = []
    for event, call in zip(events.tolist(), calls.tolist(), strict=True):
        start = int(kineto.ts_ns[event])
        name = kineto.strings[int(kineto.name[event])]
        if call < 0:
            kernels.append(Kernel(event, name, start, -1, start))
            continue
        thread = spans.threads.get((int(kineto.pid[call]), int(kineto.tid[call])), -1)
        kernels.append(Kernel(event, name, start, thread, int(kineto.ts_ns[call])))
    return kernels
