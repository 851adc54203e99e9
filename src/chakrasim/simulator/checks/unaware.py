"""What the congestion-unaware network leaves out, said where it matters: links that carry more than they can, and
groups whose messages cross several dimensions and pay for one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chakrasim.collectives.kinds import KINDS
from chakrasim.simulator.checks.loads import least_ns
from chakrasim.simulator.checks.traffic import of_member
from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.plans import Members, Plan

REMEDY = "use --congestion aware"
TOLERANCE = 0.99
"""A time is too short if it is below this share of what the links need."""


@dataclass(frozen=True)
class Calls:
    """A collective of one class of ranks: how many ranks, how often each, and the time of all calls of one rank."""

    plan: Plan
    ranks: int
    calls: int
    spent_ns: int


def warn_of_impossible(entries: Iterable[Calls], context: Context) -> None:
    """Warn of collectives that took less time than the links need for their messages."""
    alike: dict[Hashable, list[Calls]] = {}
    for entry in entries:
        alike.setdefault(_alike(entry.plan, context), []).append(entry)
    found: list[tuple[float, Plan]] = []
    for same in alike.values():
        time_ns = _time_ns(same)
        needed_ns = TOLERANCE * least_ns(same[0].plan, context)
        # Times are cut off to whole ns, once a message.
        if 0 < time_ns + of_member(same[0].plan).messages < needed_ns:
            found.append((needed_ns / TOLERANCE / max(time_ns, 1.0), same[0].plan))
    if not found:
        return
    excess, plan = max(found, key=lambda entry: entry[0])
    kind, members = KINDS[plan.use.type], plan.member_count(context)
    allowed = kind.whole_bytes(plan.use.size_bytes, members) / least_ns(plan, context) * kind.bus_factor(members)
    kinds = {(plan.use.type, plan.use.size_bytes, plan.member_count(context)) for _, plan in found}
    more = f" (of {len(kinds)} kinds of collectives)" if len(kinds) > 1 else ""
    context.notes.warn(
        f"impossible bandwidth{more}: the {kind.key} of {plan.use.size_bytes} bytes on {members} ranks reaches a bus "
        f"bandwidth of {excess * allowed:.4g} GB/s, over links that allow {allowed:.4g}: congestion-unaware messages "
        f"do not share a link; {REMEDY}"
    )


def _alike(plan: Plan, context: Context) -> Hashable:
    """What collectives have in common that load the links alike: groups of one shape stand for each other."""
    members = context.groups.get(plan.group)
    shape = None if members is None else tuple(member - members[0] for member in members)
    use, dims = plan.use, tuple((phase.dim, phase.members.count) for phase in plan.phases)
    return use.type, use.size_bytes, use.involved, use.root, use.custom_node, shape, dims


def _time_ns(entries: Sequence[Calls]) -> float:
    """The mean time of a call; of one with a root, after whom others may be done early, that of the slowest ranks."""
    if KINDS[entries[0].plan.use.type].rooted:
        return max(entry.spent_ns / entry.calls for entry in entries)
    return sum(e.spent_ns * e.ranks for e in entries) / sum(e.calls * e.ranks for e in entries)


def warn_of_spans(plans: Iterable[Sequence[Plan]], context: Context) -> None:
    """Warn of groups whose collectives send across more than one dimension."""
    if context.network_model != "unaware" or context.network.dimensions == 1:
        return
    every = Members.whole(context.ranks, 1)  # all ranks at once
    used = [plan for own in plans for plan in own if plan.chunks]
    listed = list(dict.fromkeys(plan.group for plan in used if plan.group in context.groups and not plan.by_dimension))
    wide = [group for group, spans in zip(listed, _dims_spanned(listed, context), strict=True) if spans > 1]
    wide += {plan.group: plan for plan in used if any(phase.members == every for phase in plan.phases)}
    if wide:
        others = len(wide) - 1
        more = f" and {others} more group{'s' * (others > 1)} span" if others else " spans"
        context.notes.warn(
            f"{context.group_text(wide[0])}{more} several dimensions of the network: congestion-unaware messages pay "
            f"for the first dimension in which two ranks differ only; to compare layouts, {REMEDY}"
        )


def _dims_spanned(groups: Sequence[int], context: Context) -> list[int]:
    """In how many dimensions the members of each group differ."""
    if not groups:
        return []
    members = [context.groups[group] for group in groups]
    begins = np.cumsum([0, *map(len, members)])[:-1]
    flat = np.concatenate([np.array(ranks, np.int64) for ranks in members])
    spanned = np.zeros(len(groups), np.int64)
    stride = 1
    for count in context.network.npus_count:
        own = flat // stride % count
        spanned += np.maximum.reduceat(own, begins) > np.minimum.reduceat(own, begins)
        stride *= count
    return [int(dims) for dims in spanned]
