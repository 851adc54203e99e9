"""Sums of what nodes inside add up to, of which ranks share parts, or of nodes ahead."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expand import expanded
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.groups import Grid
from chakrasim.synthesis.loops import ROOT, Loop, Place
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.roles import Role
from chakrasim.synthesis.search.levels import Known, Table
from chakrasim.synthesis.search.shared_totals import as_ahead, like_another, totals_ahead, totals_by_case
from chakrasim.synthesis.search.totals import Inside, Totals, summand, turned

PARTS = ("dense", "experts", "words")
"""Kinds of nodes, by role, of each of which a rank has one."""


def jobs(count: int, seed: int) -> tuple[Table, dict[str, Ints]]:
    """Jobs of two ranks whose states are split or not, and what their nodes hold."""
    draw = np.random.default_rng(seed)
    own = {name: np.repeat(draw.choice(values, count), 2)
           for name, values in (("split", (0, 1, 2)), ("dp", (4, 8, 16)), ("ep", (1, 2, 4)))}  # fmt: skip
    held = {name: 64 * draw.integers(1_000, 90_000, 2 * count) for name in PARTS}
    sizes = {"size in dp": own["dp"], "size in ep": own["ep"]}
    rows = np.arange(2 * count)
    where = {role: Place((ROOT,), (role,)) for role in range(len(PARTS))}
    totals = Totals(where, lambda role: rows, lambda loop, around: rows, lambda loop: 2 * count,
                    lambda role, name: held[PARTS[role]])  # fmt: skip
    for role in range(len(PARTS)):
        totals.add(role, ["bytes"])
    return Table(rows // 2, rows, (own, sizes, {}), Inside(totals, (ROOT,))), own | held


def updated(of: dict[str, Ints]) -> Ints:
    """What a rank updates: all, or its part of each, of experts among fewer ranks."""
    dense, experts = of["dense"] + of["words"], of["experts"]
    return np.where(of["split"] == 0, dense + experts, dense // of["dp"] + experts * of["ep"] // of["dp"])


def gathered(of: dict[str, Ints]) -> Ints:
    """What is gathered after it: experts that all ranks of a group have go along."""
    dense, experts = (of["dense"] + of["words"]) // of["dp"], of["experts"] // of["dp"]
    return 2 * np.where(of["ep"] == 1, dense + experts, dense)


def zeroed(of: dict[str, Ints]) -> Ints:
    """A quarter of what it updates, where more than the first states are split: else all."""
    return updated({**of, "split": np.where(of["split"] == 1, 0, of["split"])}) // 4


@pytest.mark.parametrize("like", [gathered, zeroed])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sums_by_what_ranks_share_are_those_of_jobs_not_seen(
    seed: int, like: Callable[[dict[str, Ints]], Ints]
) -> None:
    table, of = jobs(90, seed)
    law = totals_by_case(updated(of), table, Known(), shared=True)
    assert law is not None
    other = like_another(like(of), table, Known(), law)
    assert other is not None
    more, known = jobs(40, 100 + seed)
    for found, wanted in ((law, updated(known)), (other, like(known))):
        assert (expressions.value(found, more.asked(found), 80) == wanted).all()


def test_numbers_that_are_no_such_sums_have_no_such_law() -> None:
    table, of = jobs(90, 4)
    chance = np.random.default_rng(5).integers(1, 1 << 30, 180)
    law = totals_by_case(updated(of), table, Known(), shared=True)
    assert law is not None
    assert totals_by_case(chance, table, Known(), shared=True) is None
    assert like_another(chance, table, Known(), law) is None


def test_what_other_laws_ask_for_parts_jobs_of_which_sums_are_looked_for() -> None:
    def held(of: dict[str, Ints]) -> Ints:
        return of["dense"] + of["words"] + np.where(of["ep"] < 4, of["experts"], 0)

    table, of = jobs(90, 7)
    assert totals_by_case(held(of), table, Known(), shared=False) is None
    law = totals_by_case(held(of), table, Known(), shared=False, limits=[("ep", "<", 4)])
    assert law is not None
    more, known = jobs(40, 8)
    assert (expressions.value(law, more.asked(law), 80) == held(known)).all()


PASS, LAYER = 1, 2
"""Loops, one inside the other."""


def layers(count: int, seed: int) -> tuple[Table, Table, Ints, Ints]:
    """Passes and layers of jobs of one rank, in which every layer multiplies by weights, and some by those of experts,
    which the group that gathers weights has only where each rank has all experts; and bytes of each layer's weights
    that a rank has, of the first layer of each pass and of the one after each."""
    draw = np.random.default_rng(seed)
    job = {"ep": draw.choice([1, 2], count), "dp": draw.choice([2, 4, 8], count), "every": draw.choice([1, 2], count)}
    often = draw.integers(2, 6, count)
    width, inner, experts = (64 * draw.integers(1, 40, count) for _ in range(3))
    of_pass = np.repeat(np.arange(count), 2)
    parent = np.repeat(np.arange(2 * count), often[of_pass])
    index = np.concatenate([np.arange(often[each]) for each in of_pass])
    of = of_pass[parent]
    some = np.flatnonzero(index % job["every"][of] == 0)
    own = {0: np.arange(len(parent)), 1: some}
    numbers = {0: {"k": width[of], "n": inner[of]},
               1: {"batch": experts[of][some], "k": width[of][some], "n": inner[of][some]}}  # fmt: skip
    parents = {(LAYER, PASS): parent, (PASS, ROOT): of_pass}
    where = {role: Place((ROOT, PASS, LAYER), (0, 0, role)) for role in own}
    counts = {ROOT: count, PASS: 2 * count, LAYER: len(parent)}
    totals = Totals(where, own.__getitem__, lambda loop, around: parents[loop, around], counts.__getitem__,
                    lambda role, name: numbers[role][name])  # fmt: skip
    for role in own:
        totals.add(role, [*numbers[role]])
    held = width[of] * inner[of]
    held[some] += np.where(job["ep"] == 1, experts, 0)[of][some] * (width * inner)[of][some]
    held = 2 * held // job["dp"][of]
    tables = [
        Table(rows, rows, ({name: each[rows] for name, each in job.items()}, {"size in dp": job["dp"][rows]}, {}),
              Inside(totals, path))
        for rows, path in ((of, (ROOT, PASS, LAYER)), (of_pass, (ROOT, PASS)))
    ]  # fmt: skip
    behind = np.flatnonzero(np.append(parent[1:] == parent[:-1], False))
    return tables[0].some(behind), tables[1], held[behind + 1], held[index == 0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_weights_that_are_gathered_ahead_are_sums_of_the_next_layer_and_of_the_first_of_a_pass(seed: int) -> None:
    each, passes, following, first = layers(60, seed)
    law = totals_ahead(following, each, Known(), "size in dp")
    assert law is not None
    assert {of.which for name in expressions.names(law) if (of := summand(name))} == {"next of "}
    other = as_ahead(first, passes, Known(), [law], "size in dp")
    assert other == turned(law, "first of ")
    each, passes, following, first = layers(30, 100 + seed)
    assert (expressions.value(law, each.asked(law), len(following)) == following).all()
    assert (expressions.value(other, passes.asked(other), len(first)) == first).all()


def test_what_ranks_have_of_what_is_ahead_is_another_sum_over_their_group() -> None:
    each, passes, following, first = layers(60, 9)
    law = totals_ahead(following, each, Known(), "size in dp")
    assert law is not None and law[0] == "ceil"
    whole = expressions.times(law[1], Fraction(3))
    found = as_ahead(first, passes, Known(), [whole], "size in dp")
    assert found is not None
    assert (expressions.value(found, passes.asked(found), len(first)) == first).all()
    chance = np.random.default_rng(3).permutation(first)
    assert as_ahead(chance, passes, Known(), [whole], "size in dp") is None


@pytest.mark.parametrize("seed", range(4))
def test_few_jobs_tell_of_which_products_weights_are_gathered(seed: int) -> None:
    each, _, following, _ = layers(6, seed)
    law = totals_ahead(following, each, Known(), "size in dp")
    more, _, others, _ = layers(40, 100 + seed)
    assert law is not None and (expressions.value(law, more.asked(law), len(others)) == others).all()


def test_what_another_group_gathers_of_the_same_is_few_of_its_terms() -> None:
    each, _, _, _ = layers(3, 1)
    of_experts = ["sum", [[2, 1, {"next of 1 batch * k * n": 2}]]]
    weights = ["sum", [[2, 1, {"next of 0 k * n": 2}], *of_experts[1]]]
    experts = expressions.value(of_experts, each.asked(of_experts), len(each.job)) // each.levels[1]["size in dp"]
    found = as_ahead(experts, each, Known(), [weights], "size in dp")
    assert found == ["ceil", of_experts, ["column", "size in dp"]]
    assert as_ahead(experts + each.job, each, Known(), [weights], "size in dp") is None


def test_what_is_gathered_by_chance_has_no_such_law() -> None:
    each, _, following, _ = layers(60, 4)
    chance = np.random.default_rng(5).permutation(following)
    assert totals_ahead(chance, each, Known(), "size in dp") is None


def test_sums_of_nodes_ahead_are_made_from_a_program() -> None:
    gather = Role(7, "gather", (("comm_size", 9, None),), False)
    layer = Role(4, "layer", (("k", 9, None), ("n", 9, None)), False)
    once, number = ["const", 1, 1], ["+", ["column", "index of 2"], ["const", 1, 1]]

    def size(which: str) -> expressions.Expression:
        return ["ceil", ["sum", [[2, 1, {f"{which} of 2 k * n": 2}]]], ["column", "dp"]]

    model = Model(
        roles=(gather, gather, layer), loop=Loop(0, (Loop(1, (0, Loop(2, (1, 2)))),)),
        counts={1: ["column", "passes"], 2: ["column", "layers"]}, marks={},
        present={0: once, 1: ["min", once, ["column", "behind in 2"]], 2: once},
        numbers={0: {"comm_size": size("first")}, 1: {"comm_size": size("next")},
                 2: {"k": ["*", number, ["column", "width"]], "n": ["column", "width"]}},
        reasons=({0: [], 1: [], 2: []}, {0: [], 1: [], 2: []}), counters=frozenset(), grid=Grid(once, {}, {}, {}),
        metadata=[], rank_columns=(), meters=(),
    )  # fmt: skip
    made = expanded(model, {"passes": 2, "layers": 3, "width": 10, "dp": 4})
    of_pass = [(50,), (100,), (10, 10), (150,), (20, 10), (30, 10)]
    assert made.numbers == [*of_pass, *of_pass]
    assert made.role == [0, 1, 2, 1, 2, 2] * 2
