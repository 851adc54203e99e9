"""Finds a symmetry of workload, machine and schedules: digits of the rank number that may be shifted.

A network has the symmetries that its topologies state (`machine/topologies`), and no others. A digit is folded when
shifting it by one maps every rank onto one that runs the same graph in the image of its groups, with the images
of its peers, and when the shift commutes with all partner maps of the collectives. A digit of a dimension whose
symmetries are rotations, a ring, is the coordinate itself (or its multiples of a period). Where any permutation is a
symmetry, behind a switch or fully connected, the digits follow the strides of the groups, and powers of two under
halving-doubling.

Ties that the symmetry cannot decide are found while the folded simulation runs (``symmetry``); the digit at fault is
then unfolded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Peer, Program, Schedule
from chakrasim.machine.topologies import Symmetry
from chakrasim.simulator.arena.fill import Digit
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Members, Phase, Plan
from chakrasim.simulator.lowering.sharing import by_columns

Ints = NDArray[np.int64]

MAX_PERIODS_TRIED = 64


@dataclass(frozen=True)
class Folding:
    """Digits of the rank number (none: every rank is simulated) and why they are as they are."""

    digits: tuple[Digit, ...]
    reason: str

    @property
    def classes_share(self) -> int:
        """Ranks per class."""
        return prod(digit.radix for digit in self.digits if digit.folded)


class SymmetryFinder:
    """Tests shifts of the rank number against one simulation's workload, machine and schedules."""

    def __init__(
        self, context: Context, graphs: Sequence[Graph], graph_of_rank: Ints, plans: Sequence[Sequence[Plan]]
    ) -> None:
        self.context = context
        self.graphs = graphs
        self.graph_of = graph_of_rank
        self.plans = list({id(plan): plan for own in plans for plan in own}.values())
        self.phases = [phase for plan in self.plans for phase in plan.phases]
        self.ranks = np.arange(context.ranks)
        shapes: dict[bytes, int] = {}
        self.shape = np.array([shapes.setdefault(s, len(shapes)) for s in by_columns(graphs, self._shape)], np.int64)
        self.peers = _Peers(graphs)
        self.images = _GroupImages(context, self.plans)
        self._image_of: dict[Digit, Callable[[int], int]] = {}

    def find(self) -> Folding:
        """All digits, each folded if its shift is a symmetry."""
        obstacle = self._obstacle()
        if obstacle:
            return Folding((), f"every rank simulated: {obstacle}")
        digits: list[Digit] = []
        for stride, radix, symmetric in self._candidates():
            digits += self._fold(stride, radix) if symmetric else [Digit(stride, radix, False)]
        if not any(digit.folded for digit in digits):
            return Folding((), "every rank simulated: no shift of the ranks is a symmetry")
        if not self._groups_apart(digits):
            return Folding((), "every rank simulated: a rank is in two groups that a shift maps onto each other")
        return Folding(tuple(digits), "")

    def _shape(self, graph: Graph) -> bytes:
        """A digest of all that ranks under a symmetry have in common: everything but group ids and peers."""
        digest = hashlib.blake2b(digest_size=16)
        columns = (graph.kind, graph.resource, graph.category, graph.a, graph.b, graph.c, graph.d, graph.role)
        for column in (*columns, graph.child_offsets, graph.children, graph.parents):
            digest.update(column.tobytes())
            digest.update(b"|")
        local = {group: i for i, group in enumerate(graph.groups)}
        uses = [
            (int(u.type), u.size_bytes, local[u.group], u.group == 0, u.involved, self._root(u), u.custom_node)
            for u in graph.uses
        ]
        digest.update(repr((uses, graph.roles)).encode())
        return digest.digest()

    def _root(self, use: CollectiveUse) -> int:
        """The root's position in its group; in the group of all ranks, the rank."""
        members = self.context.groups.get(use.group, ())
        return members.index(use.root) if use.root in members else use.root

    def _obstacle(self) -> str:
        context = self.context
        if context.ranks == 1:
            return "there is one"
        if context.memory.kind in ("MEMORY_POOL", "PER_NODE_MEMORY_EXPANSION") and any(
            (graph.kind == at.RUN_MEMORY).any() for graph in self.graphs
        ):
            return "ranks share a memory server"
        if any(plan.programs for plan in self.plans):
            return "there are custom collectives"
        kinds = self.context.network.kinds
        if all(kind.symmetry == Symmetry.NONE for kind in kinds):
            return f"{' and '.join(dict.fromkeys(kind.name for kind in kinds))} states no symmetry"
        return ""

    def _candidates(self) -> Iterator[tuple[int, int, bool]]:
        """Stride and radix of the digits, ascending, refining the network's dimensions; whether to try to fold them."""
        stride = 1
        for kind, count in zip(self.context.network.kinds, self.context.network.npus_count, strict=True):
            end = stride * count
            cuts = {stride, end}
            if kind.symmetry == Symmetry.PERMUTATIONS:
                cuts |= self._group_cuts(stride, end) | self._binary_cuts(stride, end)
            chain = [stride]
            for cut in sorted(cuts):
                if cut > chain[-1] and cut % chain[-1] == 0 and end % cut == 0:
                    chain.append(cut)
            yield from ((low, high // low, kind.symmetry != Symmetry.NONE) for low, high in pairwise(chain))
            stride = end

    def _group_cuts(self, low: int, high: int) -> set[int]:
        cuts: set[int] = set()
        for group in {group for graph in self.graphs for group in graph.groups if group}:
            for line in self.images.lines[group]:
                places = sorted(line.listed)
                if len(places) > 1:
                    step = (places[1] - places[0]) * line.stride
                    cuts |= {step, step * len(places)}
        return {cut for cut in cuts if low < cut < high}

    def _binary_cuts(self, low: int, high: int) -> set[int]:
        if any(p.peer == Peer.XOR for phase in self.phases for s in phase.schedules for p in s.programs):
            return {low << i for i in range((high // low).bit_length())}
        return set()

    def _fold(self, stride: int, radix: int) -> list[Digit]:
        """The digit folded as far as possible: whole, or its multiples of the smallest period that works."""
        periods = [p for p in range(1, radix) if radix % p == 0][:MAX_PERIODS_TRIED]
        for period in periods:
            high = Digit(stride * period, radix // period, True)
            sigma = shifted(self.ranks, high)
            if self._same_work(high, sigma) and self._same_schedules(sigma):
                return [high] if period == 1 else [Digit(stride, period, False), high]
        return [Digit(stride, radix, False)]

    def _same_work(self, digit: Digit, sigma: Ints) -> bool:
        """Whether every rank's image runs the same graph, in the image of its groups, with the images of its peers."""
        numbers = np.unique(self.graph_of * len(self.graphs) + self.graph_of[sigma])
        ours, theirs = numbers // len(self.graphs), numbers % len(self.graphs)
        if (self.shape[ours] != self.shape[theirs]).any():
            return False
        peers = self.peers
        if (peers.count[ours] != peers.count[theirs]).any() or (sigma[peers.of(ours)] != peers.of(theirs)).any():
            return False
        image_of = self.images_under(digit)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        for g, h in zip(ours.tolist(), theirs.tolist(), strict=True):
            groups = self.graphs[g].groups
            if groups not in known:
                known[groups] = tuple(map(image_of, groups))
            if known[groups] != self.graphs[h].groups:
                return False
        return True

    def _same_schedules(self, sigma: Ints) -> bool:
        return all(
            self._commutes(phase.members, schedule, sigma)
            for phase in self.phases
            for schedule in phase.schedules
            if not phase.members.listed
        )

    def _commutes(self, members: Members, schedule: Schedule, sigma: Ints) -> bool:
        """Whether the partners of a rank's image are the images of its partners, in a schedule of all ranks."""
        index = members.place(self.ranks)
        if not is_uniform(schedule) and (schedule.program_of[index] != schedule.program_of[index[sigma]]).any():
            return False
        for number, program in enumerate(schedule.programs):
            runs = schedule.program_of[index] == number
            for peer in _xor_peers(program):
                partner = members.rank(self.ranks, np.where(runs, index ^ peer, index))
                if (partner[sigma] != sigma[partner]).any():
                    return False
        follower = members.rank(self.ranks, (index + 1) % members.count)
        has_offsets = any(program.peer == Peer.OFFSET for program in schedule.programs)
        return bool((follower[sigma] == sigma[follower]).all()) or not has_offsets

    def _groups_apart(self, digits: Sequence[Digit]) -> bool:
        """Whether no rank is in two groups of one orbit: their messages could not be told apart."""
        keys = self.group_keys(digits)
        apart: dict[tuple[int, ...], bool] = {}
        for groups in (graph.groups for graph in self.graphs):
            if groups not in apart:
                apart[groups] = len({keys[group] for group in groups}) == len(groups)
        return all(apart.values())

    def group_keys(self, digits: Sequence[Digit]) -> dict[int, int]:
        """A number for every group, the same for groups that shifts map onto each other; 0 is for point to point."""
        groups = sorted(set().union(*{graph.groups for graph in self.graphs}))
        place = {group: i for i, group in enumerate(groups)}
        first = list(range(len(groups)))
        """By place of a group: a group of its orbit that comes before it, or itself."""

        def root(i: int) -> int:
            while first[i] != i:
                first[i] = first[first[i]]
                i = first[i]
            return i

        for digit in digits:
            if digit.folded:
                image = self.images_under(digit)
                for i, group in enumerate(groups):
                    low, high = sorted((root(i), root(place[image(group)])))
                    first[high] = low
        return {group: root(i) + 1 for i, group in enumerate(groups)}

    def images_under(self, digit: Digit) -> Callable[[int], int]:
        """Which group the shift of a digit maps a group onto, -1 if onto none; sought once for each."""
        if digit not in self._image_of:
            sigma = shifted(self.ranks, digit)
            self._image_of[digit] = cache(lambda group: self.images.of(group, sigma))
        return self._image_of[digit]


class _Peers:
    """The peers of all graphs, one behind the other."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.count = np.array([len(graph.peers) for graph in graphs], np.int64)
        self._flat = np.concatenate([graph.peers for graph in graphs])
        self._first = np.cumsum(self.count) - self.count

    def of(self, graphs: Ints) -> Ints:
        """Those of some graphs."""
        count = self.count[graphs]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        found: Ints = self._flat[np.repeat(self._first[graphs], count) + within]
        return found


class _GroupImages:
    """Which group a permutation maps a group onto."""

    def __init__(self, context: Context, plans: Sequence[Plan]) -> None:
        self.groups = context.groups
        self.lines: dict[int, dict[Members, bool]] = {}
        """By group: in which orders its members stand, and whether they may be rotated, as those of a ring may."""
        for plan in plans:
            for phase in plan.phases:
                if plan.group:
                    own = self.lines.setdefault(plan.group, {})
                    own[phase.members] = own.get(phase.members, True) and _is_ring(phase)
        for group, members in context.groups.items():
            self.lines.setdefault(group, {Members.group(members, context.ranks): True})
        self.by_key = {self._key(group, None): group for group in context.groups}

    def of(self, group: int, sigma: Ints) -> int:
        """The image's id, -1 if the image is no group."""
        return self.by_key.get(self._key(group, sigma), -1) if group else 0

    def _key(self, group: int, sigma: Ints | None) -> Hashable:
        """What tells the image of a group (None: the group itself) from others: the orders in which members stand on
        their lines and, where no line has them all, who they are."""
        ranks, lines = self.groups[group], self.lines[group]
        parts: list[Hashable] = []
        for line, rotate in lines.items():
            if line.listed:
                places = line.listed
                if sigma is not None:
                    own = line.rank(np.array(ranks[:1]), np.arange(line.count))
                    places = tuple(line.place(sigma[own]).tolist())
                start = places.index(min(places)) if rotate else 0
                parts.append((line.stride, rotate, places[start:] + places[:start]))
        if not any(line.local for line in lines):
            parts.append(tuple(sorted(ranks if sigma is None else sigma[np.array(ranks)].tolist())))
        return tuple(parts)


def _is_ring(phase: Phase) -> bool:
    """Whether members that are rotated do what they did."""
    return all(is_uniform(schedule) and schedule.programs[0].peer == Peer.OFFSET for schedule in phase.schedules)


def shifted(ranks: Ints, digit: Digit) -> Ints:
    """Every rank with the digit increased by one."""
    value = ranks // digit.stride % digit.radix
    return ranks + ((value + 1) % digit.radix - value) * digit.stride


def is_uniform(schedule: Schedule) -> bool:
    """Whether all members run one program."""
    return len(schedule.programs) == 1


def _xor_peers(program: Program) -> set[int]:
    ops = [op for row in program.rows for op in row.ops] + list(program.start_ops)
    return {op.peer for op in ops} if program.peer == Peer.XOR else set()
