"""A plain interpreter of schedules: untimed, any order of events, with the messages' content if a test gives one.

It follows the contract of ``chakrasim.collectives.schedule`` and shares no code with the engine.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chakrasim.collectives import Op, Peer, Program, Row, Schedule

Send = Callable[[int, int, int, int], Any]
"""(member, number of the send, peer, bytes) -> content"""
Receive = Callable[[int, int, int, Any], None]
"""(member, number of the reception, peer, content)"""


@dataclass
class Member:
    """One member's state while its program runs."""

    index: int
    program: Program
    rows: list[Row]
    launched: int = 0
    done: int = 0
    performed: int = 0
    sent: int = 0
    posted: int = 0
    received: int = 0
    sent_bytes: int = 0
    reduced_bytes: int = 0

    @property
    def complete(self) -> bool:
        return self.done == len(self.rows)


@dataclass
class Run:
    """What happened: per-member state, and the order in which members started and completed."""

    members: list[Member]
    log: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Interpreter:
    schedule: Schedule
    send: Send
    receive: Receive
    rng: random.Random

    def run(self) -> Run:
        members = []
        for index, program in enumerate(self.schedule.program_of.tolist()):
            chosen = self.schedule.programs[program]
            rows = [row for row in chosen.rows for _ in range(row.repeat)]
            members.append(Member(index, chosen, rows))
        self.members = members
        self.result = Run(members)
        self.events: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self.start, (one,)) for one in members]
        self.wires: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)
        self.waiting: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        while self.events:
            place = self.rng.randrange(len(self.events))
            self.events[place], self.events[-1] = self.events[-1], self.events[place]
            action, arguments = self.events.pop()
            action(*arguments)
        self.check_end()
        return self.result

    def check_end(self) -> None:
        stuck = [one.index for one in self.members if not one.complete]
        assert not stuck, f"members that never complete: {stuck}"
        assert not any(self.wires.values()), "messages that nobody receives"
        assert not any(self.waiting.values()), "receptions of messages that nobody sends"
        for one in self.members:
            assert one.performed == len(one.rows), f"member {one.index} has rows left"

    def start(self, one: Member) -> None:
        self.result.log.append(("start", one.index))
        for op in one.program.start_ops:
            self.perform(one, op)
        for _ in range(one.program.initial_bundles):
            self.launch(one)

    def launch(self, one: Member) -> None:
        row = one.rows[one.launched]
        one.launched += 1
        one.reduced_bytes += row.bundle_bytes if row.reduce else 0
        self.events.append((self.bundle_done, (one,)))

    def bundle_done(self, one: Member) -> None:
        one.done += 1
        burst = 1
        if one.performed >= one.program.gate_rows:
            burst = one.program.gate_burst if one.received >= one.program.gate_receives else 0
        for _ in range(min(burst, one.done - one.performed)):
            row = one.rows[one.performed]
            one.performed += 1
            for op in row.ops:
                self.perform(one, op)
        if one.complete:
            self.result.log.append(("complete", one.index))

    def perform(self, one: Member, op: Op) -> None:
        count = len(self.members)
        peer = one.index ^ op.peer if one.program.peer == Peer.XOR else (one.index + op.peer) % count
        assert 0 <= peer < count and peer != one.index, f"member {one.index} talks to {peer}"
        assert op.size_bytes > 0, "an empty message"
        if op.send:
            key = (one.index, peer, op.size_bytes)
            self.wires[key].append(self.send(one.index, one.sent, peer, op.size_bytes))
            one.sent += 1
            one.sent_bytes += op.size_bytes
        else:
            key = (peer, one.index, op.size_bytes)
            self.waiting[key].append(one.posted)
            one.posted += 1
        if self.wires[key] and self.waiting[key]:
            arrival = (self.members[key[1]], self.waiting[key].popleft(), key[0], self.wires[key].popleft())
            self.events.append((self.arrived, arrival))

    def arrived(self, one: Member, number: int, peer: int, content: Any) -> None:
        one.received += 1
        self.receive(one.index, number, peer, content)
        self.launch(one)


def interpret(
    schedule: Schedule,
    send: Send = lambda member, number, peer, size: None,
    receive: Receive = lambda member, number, peer, content: None,
    seed: int = 0,
) -> Run:
    """Run a schedule to its end in a random order of events; fails on deadlock and on anything left over."""
    return Interpreter(schedule, send, receive, random.Random(seed)).run()
