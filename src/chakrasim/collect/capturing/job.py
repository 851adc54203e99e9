"""All ranks of a job from captures of some: classes of ranks, their representatives, checks of the assumption."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from chakrasim.collect.capturing.classes import classes
from chakrasim.collect.capturing.pretended.distributed import NeedsRank, Objects
from chakrasim.collect.capturing.rank import RankCapture, UserProgram, capture_rank
from chakrasim.collect.capturing.recorded.trace import build_trace, durations_of
from chakrasim.collect.capturing.scans import merged
from chakrasim.collect.capturing.summary import StepSummary, summarise
from chakrasim.collect.capturing.watch import Watch
from chakrasim.collect.capturing.workers import End, Say, run_all
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.operators.flops import unknown_warning
from chakrasim.text.amounts import first_of, plural
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.linked.columns import RECV, SEND
from chakrasim.version import __version__

CHEAP_NODES: Final = 4_000
"""A job whose captured ranks have no more nodes than this is checked by default."""


@dataclass(frozen=True)
class RankResult:
    """What the process that captured a rank gives."""

    rank: int
    trace: Trace
    digest: bytes
    summary: StepSummary
    roles: dict[str, tuple[tuple[int, ...], ...]]
    message_roles: frozenset[str]
    placeholders: dict[str, int]
    counted: dict[str, int]
    unknown_flops: dict[str, int]
    sent: Objects
    scans: tuple[str, ...]


@dataclass(frozen=True)
class Blocked:
    """A rank's program waits for an object of another one; what it had sent by then."""

    needs: int
    sent: Objects


@dataclass(frozen=True)
class RankClass:
    """Ranks that share a trace; ``result`` is of ``result.rank``, the one that was captured."""

    ranks: tuple[int, ...]
    result: RankResult


@dataclass(frozen=True)
class CapturedJob:
    """A step of all ranks, or of those that were asked for.

    Attributes
    ----------
    classes: in the order of their first rank.
    job: the traces; for chosen ranks, of these only, in ascending order.
    verified: further ranks that were captured, and had the same as their class.
    warnings: what is doubtful.
    """

    world: int
    classes: tuple[RankClass, ...]
    job: Job
    verified: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    roles: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)


@dataclass(eq=False)
class JobCapture:
    """Captures ranks of one program as they are needed."""

    program: UserProgram
    world: int
    profile: Any
    workers: int
    progress: Callable[[str], None]
    patience_s: float
    tokens: int | None = None
    results: dict[int, RankResult] = field(default_factory=dict)
    objects: Objects = field(default_factory=dict)

    def _task(self, rank: int, say: Say, end: End) -> RankResult | Blocked:
        """What a process does for a rank."""
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        watch = Watch(self.program.script, self.patience_s, say, end)
        try:
            captured = capture_rank(self.program, rank, self.world, self.objects, watch)
        except NeedsRank as wait:
            return Blocked(wait.rank, wait.sent)
        nodes = captured.nodes
        durations = durations_of(nodes, self.profile)
        summary = summarise(nodes, captured.peak, captured.timeline, durations)
        return RankResult(
            rank,
            build_trace(nodes, self._metadata(captured, summary), durations),
            hashlib.blake2b(repr(nodes).encode()).digest(),
            summary,
            captured.roles,
            frozenset(node.role for node in nodes if node.work is None and node.type in (SEND, RECV)),
            captured.placeholders,
            captured.counted,
            captured.unknown_flops,
            captured.sent,
            tuple(captured.scans.warnings(summary.operators, durations)),
        )

    def _metadata(self, captured: RankCapture, summary: StepSummary) -> dict[str, object]:
        program = self.program
        metadata: dict[str, object] = {
            "producer": "chakrasim capture",
            "producer_version": __version__,
            "torch_version": torch.__version__,
            "program": os.path.basename(program.script) if program.script else "function",
            "arguments": " ".join(program.arguments),
            "rank": captured.rank,
            "ranks": self.world,
            "step": program.step,
            "total_flops": summary.total_flops,
            "peak_bytes": summary.peak_bytes,
            "placeholders": sum(captured.placeholders.values()),
        }
        sizes = {role: len(groups[0]) for role, groups in captured.roles.items() if role and groups}
        metadata["groups"] = ", ".join(f"{role} of {size}" for role, size in sizes.items() if size > 1)
        if self.tokens is not None:
            metadata["tokens"] = self.tokens
        if self.profile is not None:
            metadata["device_profile"] = self.profile.name
        for name, size in summary.peak.items():
            metadata[f"peak_bytes_{name.replace(' ', '_')}"] = size
        return metadata

    def capture(self, ranks: Collection[int]) -> None:
        """Capture these ranks, and those whose objects they need."""
        wanted = [rank for rank in ranks if rank not in self.results]
        while wanted:
            self.progress(f"rank{'s' * (len(wanted) > 1)} {first_of(wanted)}")
            known = len(self.objects)
            blocked: dict[int, int] = {}
            for rank, result in run_all(self._task, wanted, self.workers, self._say).items():
                self.objects.update(result.sent)
                if isinstance(result, Blocked):
                    blocked[rank] = result.needs
                else:
                    self.results[rank] = result
            needed = [rank for rank in blocked.values() if rank not in self.results]
            if blocked and len(self.objects) == known and set(needed) <= set(wanted):
                rank, other = next(iter(blocked.items()))
                raise InputError(
                    f"rank {rank} waits for an object that rank {other} does not send",
                    file=self.program.script,
                    remedy="give shapes beforehand (input_args and output_args of PipelineStage), so that none is sent",
                )
            # Those that are needed first: what they send is there when the others run again.
            wanted = list(dict.fromkeys([*needed, *blocked]))

    def _say(self, rank: int, text: str) -> None:
        self.progress(f"rank {rank}: {text}")

    def representatives(self, verify: bool | None) -> CapturedJob:
        """All ranks, those that are equal by construction captured once.

        ``verify``: capture a second rank of every class and compare; None: if that is cheap.
        """
        self.capture([0])
        message_roles: frozenset[str] = frozenset()
        while True:
            found = frozenset[str]().union(*(result.message_roles for result in self.results.values()))
            groups = classes(self.world, self._roles(), found)
            missing = [ranks[0] for ranks in groups.values() if ranks[0] not in self.results]
            if not missing and found == message_roles:
                break
            message_roles = found
            self.capture(missing)
        notes = Notes()
        if verify is None:
            verify = sum(result.summary.nodes for result in self.results.values()) <= CHEAP_NODES
        verified = self._verify(list(groups.values()), notes) if verify else ()
        chosen = [RankClass(tuple(ranks), self.results[ranks[0]]) for ranks in groups.values()]
        return self._job(chosen, range(self.world), verified, notes)

    def chosen(self, ranks: Sequence[int]) -> CapturedJob:
        """These ranks, each captured; ranks with the same step share its trace."""
        self.capture(ranks)
        by_digest: dict[bytes, list[int]] = {}
        for rank in ranks:
            by_digest.setdefault(self.results[rank].digest, []).append(rank)
        found = [RankClass(tuple(own), self.results[own[0]]) for own in by_digest.values()]
        return self._job(found, ranks, (), Notes())

    def _verify(self, groups: Sequence[Sequence[int]], notes: Notes) -> tuple[int, ...]:
        """Capture the last rank of every class too, and compare."""
        others = [ranks[-1] for ranks in groups if len(ranks) > 1]
        self.capture(others)
        equal = []
        for ranks in groups:
            first, last = self.results[ranks[0]], self.results[ranks[-1]]
            if first.digest == last.digest:
                equal += [ranks[-1]] * (len(ranks) > 1)
                continue
            notes.warn(
                f"rank {ranks[-1]} does not do what rank {ranks[0]} does ({_difference(last, first)}), "
                f"whose trace {len(ranks):,} ranks share: capture all with --ranks all"
            )
        return tuple(equal)

    def _roles(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The groups of all captured ranks' roles; each rank sees them all, as all ranks make all groups."""
        merged: dict[str, dict[tuple[int, ...], None]] = {}
        for _, result in sorted(self.results.items()):
            for role, groups in result.roles.items():
                merged.setdefault(role, {}).update(dict.fromkeys(groups))
        return {role: tuple(groups) for role, groups in merged.items()}

    def _job(
        self, found: list[RankClass], ranks: Sequence[int], verified: tuple[int, ...], notes: Notes
    ) -> CapturedJob:
        place = {rank: index for index, entry in enumerate(found) for rank in entry.ranks}
        roles = self._roles()
        for role, groups in roles.items():
            members = [rank for group in groups for rank in group]
            if len(members) != len(set(members)):
                notes.warn(f"the groups of {role!r} that ranks make differ, and overlap: rank 0's are taken")
                roles[role] = self.results[min(self.results)].roles.get(role, groups)
        job = Job(
            tuple(entry.result.trace for entry in found),
            np.array([place[rank] for rank in ranks], np.int64),
            roles,
        )
        unknown: Counter[str] = Counter()
        for entry in found:
            unknown.update(entry.result.unknown_flops)
        notes.warn(*(unknown_warning(name, calls) for name, calls in sorted(unknown.items())))
        notes.warn(*merged([entry.result.scans for entry in found]))
        return CapturedJob(self.world, tuple(found), job, verified, notes.warnings, roles)


def _difference(one: RankResult, other: RankResult) -> str:
    figures = [(result.summary.nodes, result.summary.total_flops) for result in (one, other)]
    if figures[0] == figures[1]:
        return "as many nodes and FLOPs, but others"
    (nodes, flops), (nodes_of_other, flops_of_other) = figures
    return f"{nodes:,} nodes and {flops:,} FLOPs, not {nodes_of_other:,} and {flops_of_other:,}"


def assumptions(captured: CapturedJob, representative: bool) -> tuple[str, ...]:
    """What a capture assumed, made up or left out."""
    lines = []
    if representative:
        shared = [entry for entry in captured.classes if len(entry.ranks) > 1]
        if shared:
            lines.append(
                f"{plural(captured.world, 'rank')} share {plural(len(captured.classes), 'trace')}: ranks at the same "
                "place of the groups that messages are sent in do the same"
                + (f" (checked on {plural(len(captured.verified), 'more rank')})" if captured.verified else "")
            )
    for what, count in _total("placeholders", captured).items():
        lines.append(f"placeholder: {what}, {count:,} times")
    for what, count in _total("counted", captured).items():
        lines.append(f"{what}: {count:,}")
    return tuple(lines)


def _total(name: str, captured: CapturedJob) -> Counter[str]:
    total: Counter[str] = Counter()
    for entry in captured.classes:
        total.update(getattr(entry.result, name))
    return total
