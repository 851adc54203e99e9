"""Collectives as the messages that a library sends: rings, trees, PAT, pair by pair.

Each hop has a way of its own, which is as slow as the library's hop is, and carries no more than the library allows: so
alone, messages take about what the same collective takes as one activity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.collectives.custom.program import CustomKind, CustomProgram, linked
from chakrasim.collectives.kinds import KINDS, Root, Whole
from chakrasim.errors import InputError
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.channels import Channels, OwnWays
from chakrasim.simulator.lowering.library import SYMMETRIC, Pattern
from chakrasim.simulator.lowering.patterns import Hops

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
WINDOW: Final = 8
"""Messages between pairs that are under way on a channel at once (nccl-model.md, 6)."""
FASTER: Final = 4
"""What the first chunks may be faster than all of them, where the library sets no limit."""
MOST_CHUNKS: Final = 256
MOST_NODES: Final = 1 << 20
"""Of one collective: chunks are no more than give about so many."""
FIRST_TAG: Final = 1 << 20
"""Messages of the program's own have lower ones, mostly."""


SWITCHED: Final = ("nvls", "collnet")
"""How algorithms begin in which switches add up."""


def is_switched(pattern: Pattern) -> bool:
    """Whether switches add up or hand out what is sent once."""
    algorithm = pattern.algorithm
    return algorithm.startswith(SWITCHED) or (algorithm in SYMMETRIC and "MC" in algorithm)


def refuse_switched(pattern: Pattern) -> None:
    """Refuse what adds up in switches, which takes no messages."""
    if is_switched(pattern):
        raise InputError(
            f"the library runs this collective by {pattern.algorithm}, in which switches add up: these are no messages",
            remedy="leave --messages out, name another algorithm (collectives.environment: {NCCL_ALGO: Ring}), or run "
            "without the library (--library none)",
        )


@dataclass(frozen=True)
class Course:
    """A collective about to be sent.

    Attributes
    ----------
    members: of the group; hops name them by their places in it.
    hops: as its activity has them, in order of what they belong to.
    source, target: int64[hops], places of members.
    data_bytes: float64[hops], without flags.
    startup_ns, lasts_ns: of the activity, alone: before its bytes flow and while they do, as the library allows.
    cap: float64[hops], the most bytes per ns that the library allows over each.
    window: messages to others that a rank has under way at once: some on each of the channels that a peer has.
    """

    members: tuple[int, ...]
    hops: Hops
    source: Ints
    target: Ints
    data_bytes: Floats
    startup_ns: float
    lasts_ns: float
    cap: Floats
    window: int


def course_of_messages(activities: Activities, number: int, size_bytes: int) -> Course:
    """How an activity of so many bytes is sent."""
    key, course, alone = activities.key(number), activities.course(number), activities.alone(number)
    assert course is not None
    hops = activities.hops(number)
    place = np.zeros(max(key.members) + 1, np.int64)
    place[list(key.members)] = np.arange(len(key.members))
    share = hops.shares() / alone.wire
    ends = place[hops.source], place[hops.destination]
    return Course(
        key.members,
        hops,
        *ends,
        share * size_bytes,
        course.startup_ns,
        size_bytes / min(alone.cap, alone.rate * FASTER),
        share * alone.cap,
        WINDOW * max(course.choice.channels // max(course.choice.per_peer, 1), 1),
    )


def programs_of(
    pattern: Pattern, kind: int, course: Course, activities: Activities, channels: Channels
) -> tuple[CustomProgram, ...]:
    """What each member does, in ascending order of rank, of all but collectives that go round rings."""
    if pattern.algorithm == "pat":
        drafts = _distances(kind, course, activities, channels, pattern.wire)
    elif pattern.algorithm in ("ring", "tree"):
        drafts = _trees(kind, course, activities, channels, pattern)
    else:
        window = len(course.members) if pattern.algorithm in SYMMETRIC else course.window
        drafts = _pairs(course, activities, channels, pattern.wire, window)
    members = course.members
    return tuple(drafts[i].program(pattern.algorithm) for i in sorted(range(len(members)), key=members.__getitem__))


@dataclass
class Draft:
    """What one member does, in the making."""

    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Kind, peer, bytes, tag, way."""
    after: list[Sequence[int]] = field(default_factory=list)

    def add(self, kind: int, peer: int, size: int, tag: int, way: int, after: Sequence[int]) -> int:
        """Another node; returns its number."""
        self.rows.append((kind, peer, size, 0 if kind == CustomKind.COMP else FIRST_TAG + tag, way))
        self.after.append(after)
        return len(self.rows) - 1

    def turn(self, k: int) -> Sequence[int]:
        """What the k-th of messages waits for that nothing else holds back: k ns, so that they keep their order."""
        return (self.add(CustomKind.COMP, -1, 0, 0, k, ()),) if k else ()

    def program(self, what: str) -> CustomProgram:
        """The whole."""
        kind, peer, size, tag, way = np.array(self.rows, np.int64).reshape(-1, 5).T.copy()
        return linked(
            range(len(self.rows)), self.after, what, str, kind=kind, peer=peer, size_bytes=size, tag=tag, delay_ns=way
        )


def _own_ways(
    course: Course, activities: Activities, channels: Channels, wire: float, latency_ns: Floats, cap: Floats
) -> int:
    """Give each hop a way of its own; returns the number of the first."""
    routes = activities.routes_of(course.hops)
    number = np.arange(course.source.size)
    routes = routes.scaled(wire)
    return channels.add(OwnWays(course.hops.source, course.hops.destination, number, routes, latency_ns, cap))


def _pairs(course: Course, activities: Activities, channels: Channels, wire: float, window: int) -> list[Draft]:
    """All directly, of which each rank has a window under way: first to the next member, and so on."""
    n = len(course.members)
    away = (course.target - course.source) % n
    order = np.lexsort((away, course.source))
    turn = np.empty(order.size, np.int64)
    count = np.bincount(course.source, minlength=n)
    turn[order] = np.arange(order.size) - np.repeat(np.cumsum(count) - count, count)
    at_once = np.minimum(count, window)[course.source]
    cap = course.cap * count[course.source] / at_once
    first = _own_ways(course, activities, channels, wire, np.where(turn < window, course.startup_ns, 0.0), cap)
    drafts: list[Draft] = [Draft() for _ in range(n)]
    mine: list[list[int]] = [[] for _ in range(n)]
    for h in np.argsort(turn, kind="stable").tolist():
        a, b, size = int(course.source[h]), int(course.target[h]), max(round(course.data_bytes[h]), 1)
        after = mine[a][-window : len(mine[a]) - window + 1] if len(mine[a]) >= window else ()
        mine[a].append(drafts[a].add(CustomKind.SEND, b, size, 0, first + h, after))
        drafts[b].add(CustomKind.RECV, a, size, 0, 0, ())
    return drafts


def _distances(kind: int, course: Course, activities: Activities, channels: Channels, wire: float) -> list[Draft]:
    """Distance after distance, the farthest first where parts are handed out, the nearest where they are added up."""
    n = len(course.members)
    steps = course.source.size // n
    per_ns = course.cap.reshape(steps, n).sum(axis=0)[0]
    latency = np.full(course.source.size, course.startup_ns / steps)
    first = _own_ways(course, activities, channels, wire, latency, np.full(course.source.size, per_ns))
    drafts: list[Draft] = [Draft() for _ in range(n)]
    came: list[list[int]] = [[] for _ in range(n)]
    gathers = KINDS[kind].whole is Whole.OUTPUT
    for step in range(steps - 1, -1, -1) if gathers else range(steps):
        new = []
        for h in range(step * n, (step + 1) * n):
            a, b, size = int(course.source[h]), int(course.target[h]), max(round(course.data_bytes[h]), 1)
            drafts[a].add(CustomKind.SEND, b, size, step, first + h, tuple(came[a]))
            new.append((b, drafts[b].add(CustomKind.RECV, a, size, step, 0, ())))
        for member, node in new:
            came[member].append(node)
    return drafts


def _trees(kind: int, course: Course, activities: Activities, channels: Channels, pattern: Pattern) -> list[Draft]:
    """Chunks up trees and down again, one tree a channel; chains from a root or to it are such trees."""
    n, meaning = len(course.members), KINDS[kind]
    both = not meaning.rooted
    ups = course.source.size // 2 if both else course.source.size * (meaning.root is Root.GETS)
    count = (ups or course.source.size) // (n - 1)
    child, parent = (course.source, course.target) if ups else (course.target, course.source)
    trees = [slice(c * (n - 1), (c + 1) * (n - 1)) for c in range(count)]
    depth = (2 if both else 1) * max(_depth(child[tree], parent[tree]) for tree in trees)
    chunks = _chunks(course, depth, n * count)
    latency = max(course.startup_ns - (depth - 1) * course.lasts_ns / chunks, 0.0) / depth
    # Too few chunks fill the tree later than the library's: they may go as much faster.
    faster = max((1 + (depth - 1) / chunks) / (1 + course.startup_ns / course.lasts_ns), 1.0)
    ways = np.full(course.source.size, latency), course.cap * faster
    first = _own_ways(course, activities, channels, pattern.wire, *ways)
    drafts: list[Draft] = [Draft() for _ in range(n)]
    for c, tree in enumerate(trees):
        data = max(round(course.data_bytes[tree.start]), 1)
        edges = list(zip(child[tree].tolist(), parent[tree].tolist(), range(tree.start, tree.stop), strict=True))
        for k in range(chunks):
            size = data * (k + 1) // chunks - data * k // chunks
            if size:
                _one_chunk(drafts, edges, size, k, 2 * (c * chunks + k), first, ups, both or not ups)
    return drafts


def _one_chunk(
    drafts: list[Draft],
    edges: list[tuple[int, int, int]],
    size: int,
    k: int,
    tag: int,
    first: int,
    ups: int,
    down: bool,
) -> None:
    """The k-th chunk of a tree: up when that of all children has come, down when the parent's has."""
    children: dict[int, list[tuple[int, int]]] = {}
    for child, parent, hop in edges:
        children.setdefault(parent, []).append((child, hop))
    above = {child: (parent, hop) for child, parent, hop in edges}
    (root,) = set(children) - set(above)
    came: dict[int, Sequence[int]] = {}
    for member in (root, *above) if ups else ():
        own = drafts[member]
        came[member] = [own.add(CustomKind.RECV, c, size, tag, 0, ()) for c, _ in children.get(member, ())]
        if member != root:
            parent, hop = above[member]
            own.add(CustomKind.SEND, parent, size, tag, first + hop, came[member] or own.turn(k))
    for member in (root, *above) if down else ():
        own = drafts[member]
        if member != root:
            after: Sequence[int] = [own.add(CustomKind.RECV, above[member][0], size, tag + 1, 0, ())]
        else:
            after = came.get(root) or own.turn(k)
        for child, hop in children.get(member, ()):
            own.add(CustomKind.SEND, child, size, tag + 1, first + hop + ups, after)


def _depth(child: Ints, parent: Ints) -> int:
    """Hops of the longest way to the root."""
    above = dict(zip(child.tolist(), parent.tolist(), strict=True))
    known: dict[int, int] = {}
    for start in above:
        way = [start]
        while way[-1] in above and way[-1] not in known:
            way.append(above[way[-1]])
        for back, member in enumerate(reversed(way)):
            known.setdefault(member, known.get(way[-1], 0) + back)
    return max(known.values())


def _chunks(course: Course, depth: int, edges: int) -> int:
    """So many that the first is through when the start is over, as far as that is not too many."""
    enough = math.ceil(course.lasts_ns * (depth - 1) / max(course.startup_ns, 1.0))
    smallest = max(int(course.data_bytes.min()) // 64, 1)
    return max(min(enough, MOST_CHUNKS, max(MOST_NODES // (4 * edges), 16), smallest), 1)


def sends_round(pattern: Pattern, kind: int) -> bool:
    """Whether a collective goes round rings."""
    return pattern.algorithm == "ring" and not KINDS[kind].rooted and kind != Collective.BARRIER
