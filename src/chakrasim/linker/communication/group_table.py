"""The process groups that one rank knows, from all places where its files name them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from chakrasim.trace.host.columns import SPAN_IN_VALUES, HostTrace
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.columns import ProcessGroup

#: Jobs of more ranks than this do not exist: such numbers are damage.
MOST_RANKS: Final = 1 << 20


class GroupTable:
    """Process groups by name. What was said first wins (the device's file comes first: its kernels ran there); what is
    said later fills gaps, and what contradicts is counted in ``conflicts``."""

    def __init__(self, rank: int = -1, world_size: int = -1) -> None:
        self.rank = rank
        self.world_size = world_size
        self.groups: list[ProcessGroup] = []
        self.conflicts = 0
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.groups)

    def find(self, name: str) -> int:
        """The index of the group ``name``, -1 if it is not known."""
        return self._index.get(name, -1)

    def add(self, name: str, description: str = "", ranks: Sequence[int] = (), size: int = 0, backend: str = "") -> int:
        """The index of the group ``name``, made or completed with what is said of it here."""
        ranks = tuple(ranks)
        size = len(ranks) or (size if 0 <= size <= MOST_RANKS else 0)
        index = self._index.setdefault(name, len(self.groups))
        if index == len(self.groups):
            self.groups.append(ProcessGroup(name, description, ranks, size, backend))
            return index
        known = self.groups[index]
        contradicts = known.ranks and ranks and known.ranks != ranks
        self.conflicts += bool(contradicts or (known.size and size and known.size != size))
        if known.size and size and known.size != size:
            ranks, size = (), 0
        self.groups[index] = ProcessGroup(
            name,
            known.description or description,
            known.ranks or ranks,
            known.size or size,
            known.backend or backend,
        )
        return index

    def add_members(self, ranks: Sequence[int], description: str = "") -> int:
        """The index of the group of these members that nothing names: one that has them, else a new one, called by
        them so that all ranks call it the same; -1 if there are none."""
        members = tuple(ranks)
        if not members:
            return -1
        same = (index for index, group in enumerate(self.groups) if group.ranks == members)
        index = next(same, -1)
        if index < 0 and len(members) == self.world_size and members == tuple(range(len(members))):
            index = self.world()
        return index if index >= 0 else self.add(str(list(members)), description, members)

    def add_unnamed(self, size: int) -> int:
        """The index of a new group of which only the number of members is known."""
        self.groups.append(ProcessGroup("", size=size))
        return len(self.groups) - 1

    def world(self) -> int:
        """The index of the default group of all ranks, made if nothing names it; -1 if their number is not known."""
        for index, group in enumerate(self.groups):
            if group.description == "default_pg" or group.name == "0":
                return index
        if not 1 <= self.world_size <= MOST_RANKS:
            return -1
        return self.add("0", "default_pg", range(self.world_size))

    def size(self, index: int) -> int:
        """Members of the group, 0 where unknown."""
        return self.groups[index].size if index >= 0 else 0

    def global_rank(self, index: int, local: int) -> int:
        """The global rank of member ``local`` of the group; -1 where the members are not known."""
        if index < 0 or local < 0:
            return -1
        ranks = self.groups[index].ranks
        return ranks[local] if local < len(ranks) else -1


def collect_groups(kineto: KinetoTrace | None, host: HostTrace | None, counts: dict[str, int]) -> GroupTable:
    """The groups that the headers and the host's process-group records name. ``counts`` receives what was cut off."""
    info = (kineto.header.get("distributedInfo") if kineto is not None else None) or {}
    if not isinstance(info, dict):
        info = {}
    table = GroupTable(_whole(info.get("rank"), -1), _whole(info.get("world_size"), -1))
    for entry in _entries(info.get("pg_config")):
        _add_entry(table, entry)
    for text in _init_texts(host):
        entries, complete = parse_group_list(text)
        if not complete:
            counts["process-group records cut off"] = counts.get("process-group records cut off", 0) + 1
        for entry in entries:
            _add_entry(table, entry)
    if table.world_size < 0:
        table.world_size = max((g.size for g in table.groups if g.description == "default_pg"), default=-1)
    return table


def parse_group_list(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The complete objects of a JSON list of groups, and whether the list is whole."""
    decoder = json.JSONDecoder()
    entries: list[dict[str, Any]] = []
    at = text.find("[") + 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            return entries, at < len(text)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return entries, False
        entries += _entries([value])


@lru_cache(maxsize=4096)
def parse_ranks(text: str, size: int = 0) -> tuple[int, ...]:
    """The ranks of a text such as ``[0, 1]``. PyTorch cuts long lists (``[0, 1, 2, ..., 30, 31]``): those are rebuilt
    from their stride where ``size`` is known; () where that does not fit what is written."""
    body = text.strip().removeprefix("[").removesuffix("]")
    parts = [part.strip() for part in body.split(",") if part.strip()]
    cut = next((at for at, part in enumerate(parts) if not part.isdecimal()), -1)
    if any(len(part) > 9 for part in parts) or size > MOST_RANKS:
        return ()
    if cut < 0:
        return tuple(int(part) for part in parts)
    head = [int(part) for part in parts[:cut]]
    tail = [int(part) for part in parts[cut + 1 :] if part.isdecimal()]
    if len(head) < 2 or size < len(head) + len(tail):
        return ()
    stride = head[1] - head[0]
    ranks = [head[0] + stride * at for at in range(size)]
    fits = ranks[: len(head)] == head and (not tail or ranks[-len(tail) :] == tail)
    return tuple(ranks) if fits and 0 <= ranks[-1] <= MOST_RANKS else ()


def strided_ranks(start: int, stride: int, size: int) -> tuple[int, ...]:
    """The ranks that ``global_rank_start``, ``global_rank_stride`` and a size stand for; () where they say nothing."""
    if start < 0 or not 1 <= size <= MOST_RANKS or stride < 1 < size or start + stride * (size - 1) > MOST_RANKS:
        return ()
    return tuple(start + stride * at for at in range(size))


def _add_entry(table: GroupTable, entry: dict[str, Any]) -> None:
    name = entry.get("pg_name")
    if name is None or name == "":
        return
    size = _whole(entry.get("pg_size", entry.get("group_size")), 0)
    size = size if 0 <= size <= MOST_RANKS else 0
    ranks = entry.get("ranks")
    members: Sequence[int] = ()
    if isinstance(ranks, list) and all(isinstance(rank, int) and 0 <= rank <= MOST_RANKS for rank in ranks):
        # An empty list stands for all ranks.
        members = ranks if ranks else range(max(size, 0))
    elif isinstance(ranks, str):
        members = parse_ranks(ranks, size)
    table.add(str(name), str(entry.get("pg_desc", "")), members, size, str(entry.get("backend_config", "")))


def _entries(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _whole(value: Any, default: int) -> int:
    if isinstance(value, str) and len(value) < 10 and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _init_texts(host: HostTrace | None) -> list[str]:
    """The texts that the nodes ``## process_group:init ##`` hold."""
    if host is None or not len(host):
        return []
    texts = []
    for node in np.flatnonzero(host.strings.each(host.name, lambda name: "process_group:init" in name)).tolist():
        try:
            values = json.loads(host.span(node, SPAN_IN_VALUES) or "[]")
        except (ValueError, RecursionError):
            continue
        # A linked trace of the reference linker may keep the text as it stood in a list of lists.
        value = values[0] if isinstance(values, list) and values else ""
        texts.append(value if isinstance(value, str) else json.dumps(value))
    return texts
