"""Ring, direct, halving-doubling and the double binary tree against the rules of the reference, one step at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from model import interpret

from chakrasim.collectives import Collective, Op, Peer, Program, Request, Row, ScheduleError, build

AR, RS, AG, A2A = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER, Collective.ALL_TO_ALL
NATIVE = (AR, RS, AG, A2A)
COUNTS = tuple(range(2, 18))


def flat(program: Program) -> list[Row]:
    return [row._replace(repeat=1) for row in program.rows for _ in range(row.repeat)]


def engine_bundles(
    collective: Collective, parallel: int, constant: int, count: int
) -> Iterator[tuple[bool, bool, bool]]:
    """(reduce, from memory, send back) of each insertion, counted step by step as the reference does."""
    z = nz = 0
    toggle = False
    for _ in range(count):
        if z == 0 and nz == 0:
            z, nz, toggle = parallel, constant, not toggle
        if z > 0:
            yield False, False, False
            z -= 1
        else:
            yield collective == RS or (collective == AR and toggle), True, nz > parallel
            nz -= 1


def kinds(program: Program) -> list[tuple[bool, bool, bool]]:
    return [(row.reduce, row.from_memory, row.send_back) for row in flat(program)]


@pytest.mark.parametrize("collective", NATIVE)
@pytest.mark.parametrize("members", COUNTS)
@pytest.mark.parametrize("clockwise", [True, False])
def test_ring_equals_the_reference_step_by_step(collective: Collective, members: int, clockwise: bool) -> None:
    program = build("ring", Request(collective, members, 1000, clockwise)).programs[0]
    sends = {AR: 2 * (members - 1), A2A: members * (members - 1) // 2}.get(collective, members - 1)
    assert kinds(program) == list(engine_bundles(collective, 1, members - 1, sends + 1))
    size = 1000 if collective == AG else 1000 // members
    step = 1 if clockwise else -1
    ops = (Op(True, step, size), Op(False, -step, size))
    assert [row.ops for row in flat(program)] == [ops] * sends + [()]
    assert {row.bundle_bytes for row in program.rows} == {size}
    assert program.initial_bundles == 1 and program.start_ops == ()


@pytest.mark.parametrize("collective", NATIVE)
@pytest.mark.parametrize("members", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("window", [None, 1, 2, 3, 99])
@pytest.mark.parametrize("local", [True, False])
def test_direct_equals_the_reference_step_by_step(
    collective: Collective, members: int, window: int | None, local: bool
) -> None:
    others = members - 1
    parallel = others if window is None else min(window, others)
    sends = 2 * others if collective == AR else others
    for clockwise, sign in ((True, 1), (False, -1)):
        schedule = build("direct", Request(collective, members, 1000, clockwise, window, local))
        program = schedule.programs[0]
        constant = others * parallel if local else parallel
        assert kinds(program) == list(engine_bundles(collective, parallel, constant, sends + parallel))
        size = 1000 if collective == AG else 1000 // members
        peers = [sign * (1 + turn % others) for turn in range(sends)]
        expected = [(Op(True, peer, size), Op(False, -peer, size)) for peer in peers]
        assert [row.ops for row in flat(program)] == expected + [()] * parallel
        assert program.initial_bundles == parallel
        assert (program.gate_rows, program.gate_receives) == ((others, others) if collective == AR else (2**62, 0))


def reference_partners(collective: Collective, members: int, index: int, data: int) -> list[tuple[int, int]]:
    """(partner, bytes) of each insertion of halving-doubling, by the reference's own rule for one member."""

    def partner(k: int) -> int:
        clockwise = k == 0 or (index // k) % 2 == 0
        return (index + k if clockwise else index - k) % members

    k, size, factor = (members // 2, data, 0.5) if collective == AG else (1, data // 2, 2.0)
    lg = math.log2(members)
    packets = []
    for _ in range(int(2 * lg if collective == AR else lg) + 1):
        packets.append((partner(k), size))
        k, size = int(k * factor), int(size / factor)
        if k == members and collective == AR:
            factor = 0.5
            k, size = int(k * factor), int(size / factor)
    return packets


@pytest.mark.parametrize("collective", [AR, RS, AG])
@pytest.mark.parametrize("members", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("data", [1024, 100_003])
def test_halving_doubling_equals_the_reference_for_powers_of_two(
    collective: Collective, members: int, data: int
) -> None:
    schedule = build("halvingDoubling", Request(collective, members, data))
    (program,) = schedule.programs
    lg = int(math.log2(members))
    assert program.peer == Peer.XOR
    assert kinds(program) == list(engine_bundles(collective, 1, lg - 1, len(flat(program))))
    for index in range(members):
        packets = reference_partners(collective, members, index, data)
        rows = flat(program)
        assert len(rows) == len(packets)
        for row, (partner, size) in zip(rows[:-1], packets, strict=False):
            assert row.ops == (Op(True, index ^ partner, size), Op(False, index ^ partner, size))
            assert row.bundle_bytes == size
        assert rows[-1].ops == ()


def tree_in_order(members: int, root_max: bool) -> dict[int, tuple[int | None, list[int]]]:
    """id -> (parent, children): a full binary tree numbered in order, under a root with it as only child."""
    links: dict[int, tuple[int | None, list[int]]] = {}

    def place(first: int, count: int, parent: int) -> int:
        top = first + count // 2
        below = [] if count == 1 else [place(first, count // 2, top), place(top + 1, count // 2, top)]
        links[top] = (parent, below)
        return top

    root = members - 1 if root_max else 0
    links[root] = (None, [place(0 if root_max else 1, members - 1, root)])
    return links


@pytest.mark.parametrize("members", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("variant", [0, 1])
def test_double_binary_tree_equals_the_reference_for_powers_of_two(members: int, variant: int) -> None:
    schedule = build("doubleBinaryTree", Request(AR, members, 1000, variant=variant))
    assert schedule.endpoint_delay_always and schedule.final_bytes == 1000
    for index, (parent, children) in tree_in_order(members, variant == 0).items():
        program = schedule.programs[schedule.program_of[index]]
        ops = [[((index + op.peer) % members, op.send) for op in row.ops] for row in program.rows]
        marks = kinds(program)
        assert {row.bundle_bytes for row in program.rows} == {1000}
        starts = [((index + op.peer) % members, op.send) for op in program.start_ops]
        assert starts == [(child, False) for child in children]
        assert program.initial_bundles == (0 if children else 1)
        if not children:
            assert ops == [[(parent, True), (parent, False)], []]
            assert marks == [(False, False, False), (False, True, False)]
        elif parent is None:
            assert ops == [[(children[0], True)]]
            assert marks == [(True, True, True)]
        else:
            assert ops == [[], [(parent, True), (parent, False)], [(child, True) for child in children]]
            assert marks == [(True, True, False), (True, True, True), (True, True, True)]


@pytest.mark.parametrize("members", COUNTS)
@pytest.mark.parametrize("variant", [0, 1])
def test_double_binary_tree_of_any_size_sums_every_member_once(members: int, variant: int) -> None:
    sums = {index: {index: 1} for index in range(members)}
    sent_up: set[int] = set()
    root = members - 1 if variant == 0 else 0

    def send(member: int, number: int, peer: int, size: int) -> dict[int, int]:
        sent_up.add(member)
        return dict(sums[member])

    def receive(member: int, number: int, peer: int, content: dict[int, int]) -> None:
        if member in sent_up:
            sums[member] = content
        else:
            sums[member] = {key: sums[member].get(key, 0) + content.get(key, 0) for key in sums[member] | content}

    schedule = build("doubleBinaryTree", Request(AR, members, 1000, variant=variant))
    result = interpret(schedule, send, receive, seed=members)
    assert all(sums[index] == dict.fromkeys(range(members), 1) for index in range(members))
    assert sum(one.sent for one in result.members) == 2 * (members - 1)
    assert result.members[root].sent == 1


@pytest.mark.parametrize("members", COUNTS)
@pytest.mark.parametrize("collective", NATIVE)
@pytest.mark.parametrize("name", ["ring", "direct", "halvingDoubling", "doubleBinaryTree"])
def test_every_algorithm_ends_and_sends_what_its_formula_says(name: str, collective: Collective, members: int) -> None:
    if (name, collective) == ("halvingDoubling", A2A):
        return
    data = 1441440  # divisible by 2 ... 16, and by 32
    requests = [Request(collective, members, data, clockwise, shared_bus=bus) for clockwise, bus in ((1, 1), (0, 0))]
    if name == "direct":
        requests += [Request(collective, members, data, True, window, window > 1) for window in (1, 2, 3)]
    for seed, request in enumerate(requests):
        result = interpret(build(name, request), seed=seed)
        block = data if collective == AG else data // members
        messages = {AR: 2 * (members - 1), A2A: members * (members - 1) // 2 if name == "ring" else members - 1}
        expected = members * block * messages.get(collective, members - 1)
        if name == "doubleBinaryTree":
            expected = 2 * (members - 1) * data
        if name in ("ring", "direct"):
            assert {one.sent_bytes for one in result.members} == {expected // members}
        if name != "halvingDoubling" or members & (members - 1) == 0:
            assert sum(one.sent_bytes for one in result.members) == expected


def test_phases_leave_the_sizes_that_the_next_phase_starts_with() -> None:
    for name in ("ring", "direct", "halvingDoubling"):
        finals = {kind: build(name, Request(kind, 4, 1000)).final_bytes for kind in (AR, RS, AG)}
        assert finals == {AR: 1000, RS: 250, AG: 4000}
    assert build("ring", Request(A2A, 4, 1000)).final_bytes == 1000
    assert {build("doubleBinaryTree", Request(kind, 4, 1000)).final_bytes for kind in NATIVE} == {1000}


def test_reduce_scatter_block_is_reduce_scatter() -> None:
    block = Collective.REDUCE_SCATTER_BLOCK
    for name in ("ring", "direct", "halvingDoubling"):
        for members in (4, 6):
            one, other = (build(name, Request(kind, members, 1024)) for kind in (RS, block))
            assert one.programs == other.programs and one.final_bytes == other.final_bytes


def test_names_for_one_ring_of_all_ranks_are_the_same_algorithms() -> None:
    for one, plain in (("oneRing", "ring"), ("oneDirect", "direct"), ("oneHalvingDoubling", "halvingDoubling")):
        assert build(one, Request(AR, 8, 1024)).programs == build(plain, Request(AR, 8, 1024)).programs


@pytest.mark.parametrize(("name", "collective"), [("ring", AR), ("halvingDoubling", AR), ("doubleBinaryTree", AG)])
def test_a_million_members_need_few_rows(name: str, collective: Collective) -> None:
    schedule = build(name, Request(collective, 1 << 20, 1 << 30))
    assert sum(len(program.rows) for program in schedule.programs) < 200
    assert schedule.program_of.shape == (1 << 20,)


def test_a_ring_all_to_all_of_a_million_members_is_one_run_without_a_shared_bus() -> None:
    members = 1_000_000
    (program,) = build("ring", Request(A2A, members, 1 << 30, shared_bus=False)).programs
    assert [row.repeat for row in program.rows] == [members * (members - 1) // 2, 1]


def test_runs_without_a_shared_bus_differ_in_bus_details_only() -> None:
    for members in (2, 3, 7):
        for name in ("ring", "direct"):
            for kind in NATIVE:
                exact, merged = (build(name, Request(kind, members, 999, shared_bus=bus)) for bus in (True, False))
                for one, other in zip(flat(exact.programs[0]), flat(merged.programs[0]), strict=True):
                    assert one[:3] == other[:3] and one.ops == other.ops


def test_messages_never_are_empty() -> None:
    for name in ("ring", "direct", "halvingDoubling", "doubleBinaryTree"):
        for members in (3, 8):
            for data in (0, 1, 8):
                interpret(build(name, Request(AR, members, data)))


def test_halving_doubling_refuses_all_to_all() -> None:
    with pytest.raises(ScheduleError, match="halving-doubling has no all-to-all"):
        build("halvingDoubling", Request(A2A, 8, 1024))


@pytest.mark.parametrize("window", [0, -3])
def test_direct_refuses_windows_that_never_send(window: int) -> None:
    with pytest.raises(ScheduleError, match=f"without a window; found window {window}; expected a window of 1 or more"):
        build("direct", Request(AR, 8, 1024, window=window))
