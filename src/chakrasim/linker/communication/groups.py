"""The process group of collectives whose own record does not name it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

from chakrasim.collectives.kinds import KINDS, MESSAGE, Whole
from chakrasim.collectives.spelling import HOST_BACKENDS
from chakrasim.linker.communication.group_table import MOST_RANKS, GroupTable
from chakrasim.linker.communication.records import Facts, Message
from chakrasim.trace.linked.columns import ProcessGroup

#: Worker threads of a gloo group unless the program asks for others.
_GLOO_THREADS = 2


def resolve_groups(items: Sequence[Message], groups: GroupTable, counts: dict[str, int]) -> list[int]:
    """The group of each collective, -1 where nothing tells.

    Old PyTorch records an address for a group, or nothing. All collectives of one address (of one stream, where there
    is none: PyTorch gives each group its own) are of one group. That is the world where a split list, an all-gather or
    a reduce-scatter proves the number of members to be all ranks, or where there is only one such address and nothing
    proves otherwise (a guess, counted). gloo names no group at all, but each has worker threads of its own, made in the
    order of the groups: ``_of_threads``.
    """
    settled = [item.facts.group for item in items]
    classes: dict[Hashable, list[int]] = defaultdict(list)
    for at, item in enumerate(items):
        if item.place[0] == "stream":
            known = item.facts.identity != -1
            classes[("identity", item.facts.identity) if known else item.place].append(at)
    guesses = _of_streams(items, settled, classes, groups)
    guesses += _of_threads(items, settled, groups)
    for at, item in enumerate(items):
        if item.place[0] == "caller" and settled[at] < 0:
            settled[at] = groups.world()
            guesses += settled[at] >= 0 and len(groups) > 1
    counts["communication_groups_guessed"] = guesses
    _complete_default(items, settled, groups)
    return settled


def _complete_default(items: Sequence[Message], settled: Sequence[int], groups: GroupTable) -> None:
    """PyTorch's first group, "0", is that of all ranks: taken so if only its name is known and no size contradicts."""
    index = groups.find("0")
    if index < 0 or groups.size(index) or not 1 <= groups.world_size <= MOST_RANKS:
        return
    of_group = (item for item, group in zip(items, settled, strict=True) if group == index)
    if {proved_size(item.facts, item.operation) for item in of_group} <= {0, groups.world_size}:
        groups.add("0", "", range(groups.world_size))


def proved_size(facts: Facts, operation: int) -> int:
    """The number of members that the sizes of a collective prove, 0 where they prove nothing."""
    if facts.members > 0:
        return facts.members
    small, large = sorted((facts.in_bytes, facts.out_bytes))
    kind = KINDS.get(operation, MESSAGE)
    one_sided = kind.whole is not Whole.BOTH and not kind.rooted
    return large // small if one_sided and small > 0 and large % small == 0 else 0


def _of_streams(
    items: Sequence[Message], settled: list[int], classes: dict[Hashable, list[int]], groups: GroupTable
) -> int:
    guesses = 0
    open_classes = {key: members for key, members in classes.items() if any(settled[at] < 0 for at in members)}
    for members in open_classes.values():
        known = {settled[at] for at in members} - {-1}
        sizes = {proved_size(items[at].facts, items[at].operation) for at in members} - {0}
        chosen, guessed = -1, True
        if len(known) == 1:
            chosen = known.pop()
        elif len(sizes) == 1 and not known:
            size = sizes.pop()
            same = [index for index, group in enumerate(groups.groups) if group.size == size]
            if size == groups.world_size:
                chosen, guessed = groups.world(), False
            elif len(same) == 1:
                chosen = same[0]
            elif not same:
                chosen, guessed = groups.add_unnamed(size), False
        elif not sizes and not known and len(open_classes) == 1 and len(groups) <= 1:
            chosen = groups.world()
        for at in members:
            if settled[at] < 0 <= chosen:
                settled[at] = chosen
                guesses += guessed
    return guesses


def _of_threads(items: Sequence[Message], settled: list[int], groups: GroupTable) -> int:
    """Collectives on worker threads: by the only group, by the order of threads, or by what proves their group (or
    another's: a group has so many threads and no more)."""
    of_thread: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, item in enumerate(items):
        if item.place[0] == "thread":
            of_thread[item.place[1:]].append(at)
    if not of_thread:
        return 0
    candidates = _host_groups(groups)
    threads = sorted(of_thread)
    known = {thread: {settled[at] for at in of_thread[thread]} - {-1} for thread in threads}
    staffed = Counter(group for found in known.values() for group in found)
    full = {group for group, count in staffed.items() if count >= _GLOO_THREADS}
    possible = {}
    for thread in threads:
        # A group that has all its threads cannot be that of another one.
        left = candidates if known[thread] else [group for group in candidates if group not in full]
        possible[thread] = _possible(of_thread[thread], items, known[thread], groups, left)
    chosen: dict[tuple[int, int], int] = {}
    if len(candidates) > 1:
        chosen = _by_order(threads, candidates)
        if any(chosen.get(thread) not in possible[thread] for thread in threads):
            chosen = {}
    guesses = 0
    for thread in threads:
        only = possible[thread][0] if len(possible[thread]) == 1 else chosen.get(thread, -1)
        for at in of_thread[thread]:
            if settled[at] < 0 <= only:
                settled[at] = only
                guesses += len(candidates) > 1
    return guesses


def _host_groups(groups: GroupTable) -> list[int]:
    """Groups of several ranks, this one among them, that a host back end serves, in the order they were made."""

    def serves(group: ProcessGroup) -> bool:
        by_host = not group.backend or any(name in group.backend for name in HOST_BACKENDS)
        member = groups.rank < 0 or not group.ranks or groups.rank in group.ranks
        return by_host and member and group.size != 1

    found = [index for index, group in enumerate(groups.groups) if serves(group)]
    if not found and groups.world() >= 0:
        return [groups.world()]
    names = [groups.groups[index].name for index in found]
    if all(name.isdigit() for name in names):
        found.sort(key=lambda index: int(groups.groups[index].name))
    return found


def _possible(
    members: Sequence[int], items: Sequence[Message], known: set[int], groups: GroupTable, candidates: Sequence[int]
) -> list[int]:
    """The candidates that nothing on a thread speaks against, ``known`` being its groups as far as they are settled."""
    sizes = {proved_size(items[at].facts, items[at].operation) for at in members} - {0}
    return [
        group for group in candidates if known <= {group} and (not groups.size(group) or sizes <= {groups.size(group)})
    ]


def _by_order(threads: Sequence[tuple[int, int]], candidates: Sequence[int]) -> dict[tuple[int, int], int]:
    """Threads cut into as many runs as there are groups, at the widest gaps between their numbers; {} where a run is
    longer than a group has threads."""
    if len(threads) < len(candidates):
        return {}
    gaps = sorted(range(1, len(threads)), key=lambda at: (threads[at - 1][1] - threads[at][1], at))
    cuts = [0, *sorted(gaps[: len(candidates) - 1]), len(threads)]
    runs = [threads[low:high] for low, high in pairwise(cuts)]
    if any(len(run) > _GLOO_THREADS for run in runs):
        return {}
    return {thread: group for run, group in zip(runs, candidates, strict=True) for thread in run}
