"""Sums of few products, and what their search is made of."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.synthesis.search.conditions import once
from chakrasim.synthesis.search.least import least
from chakrasim.synthesis.search.levels import _slopes, _two_slopes
from chakrasim.synthesis.search.sums import Products, few_terms
from chakrasim.synthesis.search.work import Work

AWAY = 1e4


def spread(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Columns of sizes as products of parameters have them, the largest of each 1."""
    table = np.exp(random.normal(size=(rows, columns)) * random.uniform(0.2, 2, columns))
    return table / table.max(axis=0)


@pytest.mark.parametrize("seed", range(6))
def test_weights_of_least_sum_are_those_of_a_linear_program(seed: int) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(seed)
    rows, columns = int(random.integers(5, 60)), int(random.integers(5, 200))
    table = spread(random, rows, columns)
    weights, left = least(table, AWAY)
    matrix = np.concatenate([table, -table, np.eye(rows), -np.eye(rows)], axis=1)
    cost = np.concatenate([np.ones(2 * columns), np.full(2 * rows, AWAY)])
    assert np.abs(weights).sum() + AWAY * left == pytest.approx(
        optimize.linprog(cost, A_eq=matrix, b_eq=np.ones(rows)).fun, rel=1e-6
    )


def test_weights_are_found_where_rows_say_the_same() -> None:
    random = np.random.default_rng(1)
    table = spread(random, 9, 40)[random.integers(0, 9, 80)]
    weights, left = least(table, AWAY)
    assert left < 1e-9 and np.allclose(table @ weights, 1, atol=1e-6)
    assert np.count_nonzero(np.abs(weights) > 1e-7) <= 9


def named(table: np.ndarray, wanted: np.ndarray) -> Products:
    return Products(
        [({f"c{at}": 2}, {}) for at in range(table.shape[1])], [""] * table.shape[1], table / wanted[:, None]
    )


@pytest.mark.parametrize(("columns", "terms"), [(150, 4), (600, 9), (3000, 10)])
def test_a_sum_of_few_of_many_products_is_found(columns: int, terms: int) -> None:
    pytest.importorskip("scipy")
    random = np.random.default_rng(columns)
    table = np.rint(np.exp(random.normal(8, 1, size=(120, columns))))
    table[:, -1] = 3 * table[:, 0]  # one of two that say the same
    chosen = sorted(random.choice(columns, terms, replace=False).tolist())
    factors = random.integers(1, 9, terms)
    (found,) = few_terms(named(table, table[:, chosen] @ factors), Work())
    wanted = {f"c{at}": [int(factor), 1] for at, factor in zip(chosen, factors, strict=True)}
    assert {next(iter(powers)): factor for *factor, powers in found[1]} == wanted


def test_no_sum_is_found_where_many_products_make_it() -> None:
    random = np.random.default_rng(3)
    table = np.exp(random.normal(8, 1, size=(60, 300)))
    assert not [*few_terms(named(table, table @ random.uniform(1, 2, 300)), Work())]


def test_what_is_asked_twice_takes_work_once() -> None:
    work, asked = Work(), []

    def search() -> int:
        asked.append(1)
        work.spend(10)
        return 5

    assert [work.once(b"this", search), work.once(b"this", search), work.once(b"that", search)] == [5, 5, 5]
    assert len(asked) == 2
    work.own = 5
    work.once(b"given up", search)
    assert work.is_spent
    work.begin()
    work.once(b"given up", search)
    assert len(asked) == 4


def test_work_that_is_kept_is_there_afterwards() -> None:
    work = Work(left=100)
    with work.without(60):
        assert work.left == 40
        work.spend(30)
    assert work.left == 70


def test_the_first_of_equal_rows() -> None:
    rows = np.array([[1, 2], [3, 4], [1, 2], [3, 5], [3, 4]])
    assert once(rows).tolist() == [0, 1, 3]
    assert once(np.zeros((0, 4))).tolist() == []


@pytest.mark.parametrize("seed", range(4))
def test_slopes_within_groups(seed: int) -> None:
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(5), 8)
    one, other = random.integers(0, 4, (2, 40))
    one[group == 2] = 1
    slopes = random.integers(-(10**12), 10**12, (2, 5))
    start = random.integers(0, 100, 5)[group]
    found = _two_slopes(start + slopes[0][group] * one + slopes[1][group] * other, one, other, group)
    assert found is not None
    for (told, value), own, column in zip(found, slopes, (one, other), strict=True):
        assert told.tolist() == [np.ptp(column[group == each]) > 0 for each in group]
        assert (value[told] == own[group][told]).all()
    single = _slopes(start + slopes[0][group] * one, one, group)
    assert single is not None and (single[1][single[0]] == slopes[0][group][single[0]]).all()
    assert _slopes(start + slopes[0][group] * one + (np.arange(40) == 7), one, group) is None
    assert _two_slopes(start + slopes[0][group] * one + (np.arange(40) == 7), one, other, group) is None


def test_columns_that_go_alike_tell_no_slopes() -> None:
    group = np.repeat(np.arange(2), 4)
    one = np.array([0, 1, 2, 3] * 2)
    other = np.array([0, 2, 4, 6, 1, 0, 1, 0])
    found = _two_slopes(3 * one + other, one, other, group)
    assert found is not None
    assert [told.tolist() for told, _ in found] == [[False] * 4 + [True] * 4] * 2
