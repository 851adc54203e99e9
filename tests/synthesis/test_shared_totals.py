"""Sums of what nodes inside add up to, of which ranks share parts."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.loops import ROOT, Place
from chakrasim.synthesis.search.levels import Known, Table
from chakrasim.synthesis.search.shared_totals import like_another, totals_by_case
from chakrasim.synthesis.search.totals import Inside, Totals

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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sums_by_what_ranks_share_are_those_of_jobs_not_seen(seed: int) -> None:
    table, of = jobs(90, seed)
    law = totals_by_case(updated(of), table, Known())
    assert law is not None
    other = like_another(gathered(of), table, Known(), law)
    assert other is not None
    more, known = jobs(40, 100 + seed)
    for found, wanted in ((law, updated(known)), (other, gathered(known))):
        assert (expressions.value(found, more.asked(found), 80) == wanted).all()


def test_numbers_that_are_no_such_sums_have_no_such_law() -> None:
    table, of = jobs(90, 4)
    chance = np.random.default_rng(5).integers(1, 1 << 30, 180)
    law = totals_by_case(updated(of), table, Known())
    assert law is not None
    assert totals_by_case(chance, table, Known()) is None
    assert like_another(chance, table, Known(), law) is None
