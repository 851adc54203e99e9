"""What the search for laws knows of programs: work done ahead, conditions, passes in groups, passes that come later."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.laws import Examples, law
from chakrasim.synthesis.loops import Looks, Loop, order_of, places, read_trace
from chakrasim.synthesis.peel import peeled
from chakrasim.synthesis.roles import Nodes, Role, Roles, titles
from chakrasim.synthesis.search.conditions import conditioned
from chakrasim.synthesis.search.lags import lag_law
from chakrasim.synthesis.search.levels import DIGITS, Known, Table, by_limits, find
from chakrasim.synthesis.search.work import Work

START, GATHER, BEGIN, LAYER, REST, END = range(6)


def ahead(passes: int, layers: int) -> list[int]:
    """Each layer's weights gathered while the layer before computes."""
    one = [START, GATHER, BEGIN]
    for layer in range(layers):
        one += [GATHER, LAYER, REST] if layer < layers - 1 else [LAYER, REST]
    return [*one, END] * passes


def test_what_is_done_ahead_comes_before_its_loop() -> None:
    roles = Roles()
    for number in range(6):
        roles.of(Role(4, f"role {number}", (), False))
    lists = [ahead(passes, layers) for passes, layers in ((1, 2), (2, 3), (3, 5), (2, 1))]
    lists.append([START, BEGIN, *[LAYER, REST] * 3, END] * 2)
    traces = [Nodes(one, [()] * len(one), ([()] * len(one), [()] * len(one))) for one in lists]
    made = [nodes.role for nodes in peeled(traces, roles, Looks())[0]]
    first = roles.number[Role(4, "role 1", (), False, "first")]
    loop = order_of(made, {}, Looks())[0]
    assert loop == Loop(0, (Loop(1, (START, first, BEGIN, Loop(2, (GATHER, LAYER, REST)), END)),))
    for own, layers in zip(made, (2, 3, 5, 1, 3), strict=True):
        iterations, _ = read_trace(own, places(loop), 3)
        assert len(iterations[2]) == layers * len(iterations[1])
        assert own.count(first) == len(iterations[1]) * (GATHER in own or first in own)


def one_loop_of_layers(traces: list[list[int]], layers: int) -> None:
    """All layers are iterations of one loop, with none in it."""
    loop = order_of(traces, {}, Looks())[0]
    (chunks,) = (one for one in loop.body if isinstance(one, Loop))
    (inner,) = (one for one in chunks.body if isinstance(one, Loop))
    assert not any(isinstance(one, Loop) for one in inner.body)
    counted = sum(len(read_trace(own, places(loop), 3)[0][inner.number]) for own in traces)
    assert counted == layers


def test_layers_of_two_kinds_in_turn_are_iterations_of_one_loop() -> None:
    start, again, dense, experts, shared, summed, end = range(7)
    kinds = {"d": [dense, shared], "e": [experts, shared, summed]}

    def trace(pattern: str, recompute: bool, chunks: int) -> list[int]:
        layers = [one for kind in pattern for one in ([again] if recompute else []) + kinds[kind]]
        return [start, *layers, end] * chunks

    patterns = [("eded", False), ("dd", False), ("eded", True), ("ddd", True), ("ee", False), ("ede", True)]
    one_loop_of_layers([trace(*each, 2) for each in patterns], 2 * sum(len(pattern) for pattern, _ in patterns))


def test_what_is_done_again_before_layers_of_several_kinds_begins_their_iterations() -> None:
    start, again, norm, *kinds, rest, end = range(8)

    def trace(kind: int, layers: int, recompute: bool) -> list[int]:
        one = ([again, norm] if recompute else []) + [kind, rest]
        return [start, *one * layers, end] * 2

    shapes = [(kind, layers, again) for kind in kinds for layers in (1, 2, 3, 4) for again in (False, True)]
    one_loop_of_layers([trace(*each) for each in shapes], 2 * sum(layers for _, layers, _ in shapes))


@pytest.mark.parametrize("kinds", [
    (("ed", True), ("dddd", False), ("d", False)),
    (("eeee", False), ("d", True), ("de", False)),
    (("d", False), ("ed", False), ("ddd", False)),
])  # fmt: skip
def test_what_begins_some_iterations_may_come_within_others(kinds: tuple[tuple[str, bool], ...]) -> None:
    start, gather, dense, experts, router, norm, rest, end = range(8)

    def trace(pattern: str, gathers: bool) -> list[int]:
        own = [gather] if gathers else []
        layer = {"d": [*own, dense, norm, rest], "e": [experts, router, *own, norm, rest]}
        return [start, *(one for kind in pattern for one in layer[kind]), end] * 2

    one_loop_of_layers([trace(*each) for each in kinds], 2 * sum(len(pattern) for pattern, _ in kinds))


@pytest.mark.parametrize("recompute", [False, True])
def test_what_is_gathered_for_what_follows_the_layers_begins_the_last_of_them(recompute: bool) -> None:
    start, gather, again, dense, experts, rest, total, end = range(8)

    def trace(layers: str, gathers: bool) -> list[int]:
        found = []
        for chunk in range(2):
            found += [start]
            for at, kind in enumerate(layers):
                found += [gather] if gathers and chunk and at == len(layers) - 1 else []
                found += [*([again] if recompute else []), dense if kind == "d" else experts, rest, total]
            found += [end]
        return found

    shapes = [("d", True), ("ded", True), ("de", True), ("dddd", False), ("e", False), ("ee", True)]
    one_loop_of_layers([trace(*each) for each in shapes], 2 * sum(len(layers) for layers, _ in shapes))


def test_what_is_gathered_ahead_may_be_two_nodes() -> None:
    start, weights, more, begin, layer, rest, end = range(7)
    roles = Roles()
    for number in range(7):
        roles.of(Role(4, f"role {number}", (), False))

    def trace(layers: int, gathered: list[int]) -> list[int]:
        one = [start, *gathered, begin]
        for at in range(layers):
            one += [*(gathered if at < layers - 1 else []), layer, rest]
        return [*one, end] * 2

    lists = [trace(3, [weights, more]), trace(2, [weights, more]), trace(4, [weights]), trace(3, [])]
    made = [one.role for one in peeled(
        [Nodes(own, [()] * len(own), ([()] * len(own), [()] * len(own))) for own in lists], roles, Looks()
    )[0]]  # fmt: skip
    first = [roles.number[Role(4, f"role {one}", (), False, "first")] for one in (weights, more)]
    assert [own.count(first[0]) for own in made] == [2, 2, 2, 0]
    assert [own.count(first[1]) for own in made] == [2, 2, 0, 0]
    one_loop_of_layers(made, 2 * (3 + 2 + 4 + 3))


def test_a_role_that_only_has_first_turns_is_none_beside_them() -> None:
    roles = Roles()
    for number in range(2):
        roles.of(Role(4, f"role {number}", (), False))
    lists = [[0, 1, 0], [1, 1, 0]]
    traces = [Nodes(one, [()] * len(one), ([()] * len(one), [()] * len(one))) for one in lists]
    made, met = peeled(traces, roles, Looks())
    assert {role for nodes in made for role in nodes.role} == {*range(len(met.known))}
    for nodes, own in zip(made, lists, strict=True):
        assert [met.known[role].name for role in nodes.role] == [f"role {role}" for role in own]


@pytest.mark.parametrize("seed", range(4))
def test_conditions_that_all_hold_are_found_and_hold_elsewhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = {name: random.integers(0, 4, 600) for name in "abcdefgh"} | {"wide": random.integers(0, 1000, 600)}
    every = (table["a"] == 0) & (table["b"] < table["c"]) & (table["d"] != 2)
    either = (table["a"] > 0) & ((table["e"] == 3) | (table["f"] == 0))
    for held in (every, ~every, either):
        wanted = held.astype(np.int64)
        found = next(conditioned(wanted[:400], {name: column[:400] for name, column in table.items()}, Work()))
        assert expressions.value(found, table, 600).tolist() == wanted.tolist()
    assert not [*conditioned(random.integers(0, 2, 600), table, Work())]


def test_a_case_may_be_another_in_proportion() -> None:
    random = np.random.default_rng(5)
    table = {name: random.integers(30, 90, 400) for name in ("a", "b")} | {"level": random.integers(0, 4, 400)}
    table["ranks"] = np.where(table["level"] == 0, 1, 2 ** random.integers(1, 4, 400)) * 2
    whole = 6 * table["a"] * table["b"]
    wanted = np.where(table["level"] < 2, whole, -(-whole // table["ranks"]))
    few = {name: column[:300] for name, column in table.items()}
    found = law(Examples(wanted[:300], few))
    assert found is not None
    assert expressions.value(found, table, 400).tolist() == wanted.tolist()


def test_two_plain_laws_come_before_deeper_cases() -> None:
    draw = np.random.default_rng(7)
    sizes = draw.choice([2, 4], 60)
    size = np.repeat(sizes, sizes)
    position = np.concatenate([np.arange(each) for each in sizes])
    chance = {f"other {i}": np.repeat(draw.integers(0, 4, 60), sizes) for i in range(6)}
    columns = {"position": position, "behind": size - 1 - position, "size": size, **chance}
    found = law(Examples(np.where(position == 0, size - 1, position - 1), columns))
    assert found is not None
    more = {"position": np.arange(8), "behind": 7 - np.arange(8), "size": np.full(8, 8)}
    assert (expressions.value(found, more, 8) == [7, *range(7)]).all()


def test_a_case_that_only_jobs_left_out_have_is_found_from_others() -> None:
    jobs = np.arange(200)
    draw = np.random.default_rng(11)
    columns = {name: draw.integers(0, 4, 200) for name in "abcdef"}
    columns["c"] = np.where((jobs % 4 == 3) & (jobs % 20 < 4), 3, draw.integers(0, 3, 200))
    wanted = ((columns["a"] > 0) & (columns["b"] > 0) & (columns["c"] != 3)).astype(np.int64)
    seen = jobs[jobs % 4 != 3]
    assert not (columns["c"][seen] == 3).any()
    found = find(wanted, Table(jobs, jobs, (columns, {}, {})), Known())
    assert found is not None
    unseen = {name: np.random.default_rng(12).integers(0, 4, 900) for name in "abcdef"}
    held = (unseen["a"] > 0) & (unseen["b"] > 0) & (unseen["c"] != 3)
    assert expressions.value(found, unseen, 900).tolist() == held.astype(np.int64).tolist()


def test_columns_give_way_to_what_they_are() -> None:
    mark = ["+", ["column", "index of 2"], ["*", ["column", "chunk"], ["column", "count of 2"]]]
    count = ["//", ["column", "layers"], ["column", "stages"]]
    first = expressions.put(mark, {"index of 2": ["const", 0, 1], "count of 2": count})
    columns = {name: np.array(values) for name, values in (("layers", [8, 6]), ("stages", [2, 3]), ("chunk", [1, 2]))}
    assert expressions.value(first, columns, 2).tolist() == [4, 4]
    in_a_test = ["if", ["chunk", "==", "", 1], ["column", "chunk"], ["const", 5, 1]]
    assert expressions.put(in_a_test, {"chunk": ["const", 3, 1]}) == [*in_a_test[:2], ["const", 3, 1], ["const", 5, 1]]
    assert not expressions.chooses(in_a_test)
    assert expressions.chooses(["if", ["chunk", "==", "", 1], ["const", 2, 1], ["const", 5, 1]])


def test_conditions_of_two_kinds_of_jobs_are_found_by_what_others_ask_for() -> None:
    draw = np.random.default_rng(13)
    jobs = np.arange(400)
    columns = {name: draw.integers(0, 4, 400) for name in "abcdefgh"}

    def held(of: dict[str, Ints]) -> Ints:
        alone = (of["a"] > 0) & (of["c"] == of["d"])
        late = (of["a"] > 0) & (of["e"] != 1) & (of["f"] < of["g"]) & (of["h"] > 0)
        return np.where(of["b"] == 3, alone, late).astype(np.int64)

    table = Table(jobs, jobs, (columns, {}, {}))
    limits = [("none", "==", 1), ("a", "<", 2), ("b", "==", 3)]
    assert by_limits(held(columns), table, Known(), limits[:2]) is None
    found = by_limits(held(columns), table, Known(), limits)
    assert found is not None
    unseen = {name: np.random.default_rng(14).integers(0, 4, 900) for name in "abcdefgh"}
    assert expressions.value(found, unseen, 900).tolist() == held(unseen).tolist()


def passes(jobs: list[tuple[int, int, int]]) -> tuple[Table, Ints, Ints, Ints]:
    """For jobs of so many stages, parts of a stage and micro-batches, of each pass in order: columns, its micro-batch,
    its part, and how many passes back follow it."""
    rows: list[dict[str, int]] = []
    for number, (stages, parts, batches) in enumerate(jobs):
        for stage in range(stages):
            count = parts * batches
            lag = 2 * (stages - 1 - stage) + (parts - 1) * stages if parts > 1 else stages - 1 - stage
            for at in range(count):
                later = min(lag, at) + 1 if at == count - 1 else int(at >= lag)
                rows.append({"job": number, "rank": 100 * number + stage, "stages": stages, "parts": parts,
                             "batches": batches, "position": stage, "behind": stages - 1 - stage, "index of 1": at,
                             "behind in 1": count - 1 - at, "count of 1": count,
                             "batch": at // (stages * parts) * stages + at % stages,
                             "part": at // stages % parts, "later": later})  # fmt: skip
    table = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
    levels = [{name: table[name] for name in names}
              for names in (("stages", "parts", "batches"), ("behind", "position"),
                            ("index of 1", "behind in 1", "count of 1"))]  # fmt: skip
    rank = np.unique(table["rank"], return_inverse=True)[1]
    made = Table(table["job"], rank, (levels[0], levels[1], levels[2]))
    return made, table["batch"], table["part"], table["later"]


JOBS = [(stages, parts, stages * rounds) for stages in (2, 3, 4) for parts in (1, 2) for rounds in (1, 2, 3, 5)]


def test_passes_in_groups_are_digits() -> None:
    table, batch, part, _ = passes(JOBS)
    unseen, *wanted, _ = passes([(8, 3, 16), (3, 4, 6)])
    for own, other in zip((batch, part), wanted, strict=True):
        found = find(own, table, Known(), DIGITS)
        assert found is not None
        assert expressions.value(found, unseen.columns(2), len(other)).tolist() == other.tolist()


def test_passes_that_come_some_turns_later_have_a_law() -> None:
    table, *_, later = passes(JOBS)
    unseen, *_, wanted = passes([(5, 2, 20), (6, 1, 12)])
    found = lag_law(later, 1, table, Known())
    assert found is not None
    assert expressions.value(found, unseen.columns(2), len(wanted)).tolist() == wanted.tolist()
    assert lag_law(later[::-1].copy(), 1, table, Known()) is None


def test_kinds_of_equal_names_are_told_apart() -> None:
    roles = [Role(7, "sum", (("pg_name", 29, name),), False) for name in ("dp", "tp")]
    assert titles(roles) == ["sum", "sum (2)"]
