"""Algorithms that the reference lacks: whether they move the right data, for every count of members."""

from __future__ import annotations

from typing import Any

import pytest
from model import Run, interpret

from chakrasim.collectives import Collective, Request, ScheduleError, build

COUNTS = tuple(range(2, 18))
ODD_COUNTS = tuple(count for count in range(3, 18) if count & (count - 1))
DATA = 1441440  # divisible by 2 ... 16, and by 32

Counts = dict[int, int]
"""How often each member's contribution is in a block."""


def add(one: Counts, other: Counts) -> Counts:
    return {key: one.get(key, 0) + other.get(key, 0) for key in one | other}


class Halving:
    """Contents of a folded halving-doubling collective: blocks by number, each a sum of contributions."""

    def __init__(self, collective: Collective, members: int) -> None:
        self.collective, self.members = collective, members
        self.core = 1 << (members.bit_length() - 1)
        self.all_reduce = collective == Collective.ALL_REDUCE
        self.gather = collective == Collective.ALL_GATHER
        self.blocks = self.core if self.all_reduce else members
        self.block_bytes = DATA if self.gather else DATA // self.blocks
        held = ([i] if self.gather else range(self.blocks) for i in range(members))
        self.state: list[dict[int, Counts]] = [{block: {i: 1} for block in own} for i, own in enumerate(held)]
        self.summing = [not self.gather] * members

    def send(self, member: int, number: int, peer: int, size: int) -> dict[int, Counts]:
        state = self.state[member]
        distance = member ^ peer
        if distance == self.core:
            if member < self.core and not self.all_reduce:  # an extra gets what it has not: its block, or the others'
                wanted = {peer} if not self.gather else set(range(self.members)) - {peer}
                content = {block: state[block] for block in wanted}
            else:
                content = dict(state)
        elif self.summing[member]:
            content = {
                block: state.pop(block) for block in list(state) if block % (2 * distance) == peer % (2 * distance)
            }
        else:
            content = dict(state)
        assert size == len(content) * self.block_bytes, f"{member} -> {peer}"
        return content

    def receive(self, member: int, number: int, peer: int, content: dict[int, Counts]) -> None:
        state = self.state[member]
        distance = member ^ peer
        if member >= self.core and not self.gather:
            self.state[member] = dict(content)
            return
        for block, counts in content.items():
            state[block] = add(state[block], counts) if self.summing[member] else counts
        if self.all_reduce and distance == self.core // 2:
            self.summing[member] = False

    def check(self) -> None:
        full = dict.fromkeys(range(self.members), 1)
        for member, state in enumerate(self.state):
            if self.all_reduce:
                assert state == dict.fromkeys(range(self.core), full)
            elif self.gather:
                assert state == {block: {block: 1} for block in range(self.members)}
            else:
                wanted = member if member >= self.core else None
                assert state[member] == full if wanted is None else state == {member: full}


@pytest.mark.parametrize("collective", [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER])
@pytest.mark.parametrize("members", ODD_COUNTS)
def test_folded_halving_doubling_moves_the_right_data(collective: Collective, members: int) -> None:
    content = Halving(collective, members)
    data = DATA if collective != Collective.REDUCE_SCATTER else DATA // members * members
    content.block_bytes = DATA if content.gather else data // content.blocks
    interpret(build("halvingDoubling", Request(collective, members, data)), content.send, content.receive, members)
    content.check()


def test_folded_halving_doubling_charges_every_reduction() -> None:
    result = interpret(build("halvingDoubling", Request(Collective.ALL_REDUCE, 6, 1024)))
    assert [one.reduced_bytes for one in result.members] == [1024 + 512 + 256] * 2 + [512 + 256] * 2 + [0, 0]


class Ring:
    """Contents of a rooted collective on a ring, in distances from the root; block b is that of distance b."""

    def __init__(self, collective: Collective, members: int, root: int, clockwise: bool) -> None:
        self.collective, self.members = collective, members
        self.distance = [(i - root if clockwise else root - i) % members for i in range(members)]
        self.inbox: dict[int, dict[int, Any]] = {distance: {} for distance in range(members)}
        self.sums: dict[int, dict[int, Counts]] = {
            distance: {block: {distance: 1} for block in range(members)} for distance in range(members)
        }

    def send(self, member: int, number: int, peer: int, size: int) -> Any:
        r, n = self.distance[member], self.members
        assert self.distance[peer] == (r + 1) % n
        own = self.inbox[r]
        if self.collective == Collective.BROADCAST:
            return [*range(n - 1, -1, -1), *range(n - 1, 1, -1)][number] if r == 0 else own[number]
        if self.collective == Collective.SCATTER:
            return n - 1 - number if r == 0 else own[number]
        if self.collective == Collective.REDUCE:
            if number < n - 1:
                block = (r - number) % n
                return block, self.sums[r][block]
            if number == n - 1:
                block = (r + 1) % n
                return block, self.sums[r][block]
            return own[number - 1]
        return r if number == 0 else own[number - 1]

    def receive(self, member: int, number: int, peer: int, content: Any) -> None:
        r = self.distance[member]
        self.inbox[r][number] = content
        if self.collective == Collective.REDUCE:
            block, counts = content
            if number < self.members - 1:
                assert block == (r - 1 - number) % self.members
                self.sums[r][block] = add(self.sums[r][block], counts)
            elif r == 0:
                self.sums[r][block] = counts

    def check(self) -> None:
        everyone = set(range(self.members))
        for r, inbox in self.inbox.items():
            got = list(inbox.values())
            if self.collective == Collective.BROADCAST and r > 0:
                assert set(got) == everyone
            elif self.collective == Collective.SCATTER and r > 0:
                assert got[-1] == r
            elif self.collective == Collective.BARRIER or (self.collective == Collective.GATHER and r == 0):
                assert sorted(got) == sorted(everyone - {r})
        if self.collective == Collective.REDUCE:
            assert self.sums[0] == dict.fromkeys(everyone, dict.fromkeys(everyone, 1))


ROOTED = (
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.GATHER,
    Collective.SCATTER,
    Collective.BARRIER,
)


@pytest.mark.parametrize("collective", ROOTED)
@pytest.mark.parametrize("members", COUNTS)
def test_rooted_collectives_on_a_ring_move_the_right_data(collective: Collective, members: int) -> None:
    for root, clockwise in ((0, True), (members // 2, False), (members - 1, True)):
        content = Ring(collective, members, root, clockwise)
        request = Request(collective, members, 1000, clockwise, root=root)
        schedule = build("ring", request)
        result = interpret(schedule, content.send, content.receive, members)
        content.check()
        sizes = {"GATHER": 1000, "BARRIER": 1}
        size = sizes.get(collective.name, -(-1000 // members))
        n = members
        messages = {
            Collective.BROADCAST: sum(2 * (n - 1) - r for r in range(n)),
            Collective.REDUCE: n * (n - 1) + n * (n - 1) // 2,
            Collective.GATHER: n * (n - 1) // 2,
            Collective.SCATTER: n * (n - 1) // 2,
            Collective.BARRIER: n * (n - 1),
        }
        assert sum(one.sent_bytes for one in result.members) == messages[collective] * size
        finals = {Collective.GATHER: 1000 * n, Collective.SCATTER: 1000 // n}
        assert schedule.final_bytes == finals.get(collective, 1000)
        reduced = {one.reduced_bytes for one in result.members}
        assert reduced == ({(n - 1) * size} if collective == Collective.REDUCE else {0})


@pytest.mark.parametrize("collective", ROOTED)
@pytest.mark.parametrize("members", [2, 3, 7])
def test_direct_rooted_collectives_use_one_message_per_member(collective: Collective, members: int) -> None:
    root = members - 1
    met: dict[int, set[int]] = {index: set() for index in range(members)}

    def receive(member: int, number: int, peer: int, content: int) -> None:
        assert content == peer
        met[member].add(peer)

    request = Request(collective, members, 1000, root=root)
    result = interpret(build("direct", request), lambda member, *_: member, receive)
    others = set(range(members)) - {root}
    if collective == Collective.BARRIER:
        assert met == {index: set(range(members)) - {index} for index in range(members)}
        assert {one.sent_bytes for one in result.members} == {members - 1}
        return
    from_root = collective in (Collective.BROADCAST, Collective.SCATTER)
    assert met[root] == (set() if from_root else others)
    assert all(met[index] == ({root} if from_root else set()) for index in others)
    size = -(-1000 // members) if collective == Collective.SCATTER else 1000
    assert sum(one.sent_bytes for one in result.members) == (members - 1) * size
    reduced = (members - 1) * 1000 if collective == Collective.REDUCE else 0
    assert sum(one.reduced_bytes for one in result.members) == result.members[root].reduced_bytes == reduced


@pytest.mark.parametrize("name", ["ring", "direct"])
def test_nobody_leaves_a_barrier_before_everyone_has_entered(name: str) -> None:
    for members in (2, 3, 8):
        for seed in range(20):
            result: Run = interpret(build(name, Request(Collective.BARRIER, members, 0)), seed=seed)
            happened = [what for what, _ in result.log]
            assert happened == ["start"] * members + ["complete"] * members


@pytest.mark.parametrize("name", ["halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("collective", ROOTED)
def test_algorithms_without_a_rooted_form_say_so(name: str, collective: Collective) -> None:
    with pytest.raises(ScheduleError, match=f"{name} has no {collective.name.lower()}; expected ring or direct"):
        build(name, Request(collective, 4, 1000))
