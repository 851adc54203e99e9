"""Intervals, nesting, grouped statistics and equal sequences against slow models."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.analysis.table.nesting import brackets_of, nest
from chakrasim.analysis.table.sequence_groups import _one_by_one, equal_sequences
from chakrasim.analysis.table.statistics import group_keys, group_statistics
from chakrasim.compat.hta.launches import latest_around
from chakrasim.trace.intervals import Union, covered_before, merge, overlap, running_maximum, time_by_state

calm = settings(max_examples=80)
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def union(spans: list[tuple[int, int]]) -> Union:
    start = np.array([s for s, _ in spans], np.int64)
    return merge(start, start + np.array([length for _, length in spans], np.int64))


def instants(spans: list[tuple[int, int]]) -> set[int]:
    """The unit cells that the spans cover."""
    return {t for s, length in spans for t in range(s, s + length)}


@calm
@given(SPANS)
def test_a_union_covers_what_its_parts_cover_and_merging_again_changes_nothing(spans: list[tuple[int, int]]) -> None:
    found = union(spans)
    assert found.total == len(instants(spans))
    assert (found.start[1:] > found.end[:-1]).all()
    again = merge(found.start, found.end)
    assert np.array_equal(again.start, found.start) and np.array_equal(again.end, found.end)


@calm
@given(SPANS, SPANS)
def test_overlap_is_symmetric_and_exact(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    assert overlap(union(a), union(b)) == overlap(union(b), union(a)) == len(instants(a) & instants(b))


@calm
@given(SPANS, st.integers(-2, 60), st.integers(0, 30))
def test_a_clipped_union_is_what_lies_in_the_window(spans: list[tuple[int, int]], low: int, length: int) -> None:
    clipped = union(spans).clip(low, low + length)
    assert clipped.total == len(instants(spans) & set(range(low, low + length)))
    assert covered_before(union(spans), np.array([low])).tolist() == [len({t for t in instants(spans) if t < low})]


@calm
@given(st.lists(SPANS, min_size=1, max_size=3))
def test_the_time_in_all_states_is_the_span_of_everything(sets: list[list[tuple[int, int]]]) -> None:
    unions = [union(spans) for spans in sets]
    time = time_by_state(unions)
    cells = [instants(spans) for spans in sets]
    for state in range(1, len(time)):
        wanted = set.union(*cells)
        for bit, own in enumerate(cells):
            wanted = wanted & own if state >> bit & 1 else wanted - own
        assert time[state] == len(wanted)
    edges = [edge for one in unions for edge in (*one.start.tolist(), *one.end.tolist())]
    assert time.sum() == (max(edges) - min(edges) if edges else 0)


def test_touching_intervals_become_one() -> None:
    found = merge(np.array([0, 10, 21]), np.array([10, 20, 30]))
    assert (found.start.tolist(), found.end.tolist()) == ([0, 21], [20, 30])
    assert found.gaps().total == 1


@calm
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=20))
def test_the_running_maximum_stays_within_its_group(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    values = np.array([v for _, v in pairs], np.int64)
    starts = np.array([i == 0 or pairs[i - 1][0] != g for i, (g, _) in enumerate(pairs)], np.bool_)
    wanted = [max(v for h, v in pairs[: i + 1] if h == g) for i, (g, _) in enumerate(pairs)]
    assert running_maximum(values, starts).tolist() == wanted
    assert running_maximum(values.astype(np.float64), starts).tolist() == wanted


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """Operators that nest: thread, start, end and parent of each, shuffled."""
    rows: list[tuple[int, int, int, int]] = []

    def grow(thread: int, low: int, high: int, parent: int, depth: int) -> None:
        at = low
        while depth < 4 and high - at >= 2 and draw(st.booleans()):
            start = draw(st.integers(at, high - 2))
            end = draw(st.integers(start + 1, high - 1))
            rows.append((thread, start, end, parent))
            grow(thread, start, end, len(rows) - 1, depth + 1)
            at = end + 1

    for thread in range(draw(st.integers(1, 3))):
        grow(thread, 0, 40, -1, 0)
    order = draw(st.permutations(range(len(rows))))
    place = {old: new for new, old in enumerate(order)}
    place[-1] = -1
    columns = [[rows[i][k] for i in order] for k in range(3)]
    return columns[0], columns[1], columns[2], [place[rows[i][3]] for i in order]


@calm
@given(trees())
def test_nesting_finds_parents_depths_and_families(tree: tuple[list[int], list[int], list[int], list[int]]) -> None:
    thread, start, end, parent = tree
    # Equal intervals cannot be told apart: an operator as long as its parent is entered in file order.
    nested = nest(*(np.array(column, np.int64) for column in (thread, start, end)))
    for position, operator in enumerate(nested.entered.tolist()):
        above = int(nested.parent[position])
        found = int(nested.entered[above]) if above >= 0 else -1
        wanted = parent[operator]
        if found != wanted:
            assert (start[found], end[found]) == (start[operator], end[operator])
            continue
        inside = {int(nested.entered[k]) for k in range(position + 1, int(nested.end_of_family[position]))}
        same = {k for k in range(len(start)) if (start[k], end[k]) == (start[operator], end[operator])}
        strictly = {k for k in range(len(start)) if thread[k] == thread[operator] and k not in same
                    and start[operator] <= start[k] and end[k] <= end[operator]}  # fmt: skip
        assert strictly <= inside


def test_an_operator_of_no_length_lies_in_what_starts_at_its_time() -> None:
    nested = nest(np.zeros(3, np.int64), np.array([0, 10, 10]), np.array([10, 10, 20]))
    assert nested.entered.tolist() == [0, 2, 1]
    assert nested.parent.tolist() == [-1, -1, 1]


def test_ends_before_their_starts_leave_what_is_open_then() -> None:
    """The reference tool's rounding makes durations of -1: such an operator is entered after it was left."""
    is_start = np.array([False, True, True, False, True, False])
    nested = brackets_of(is_start, np.array([0, 1, 0, 1, 2, 2]))
    assert nested.entered.tolist() == [1, 0, 2]
    assert nested.depth.tolist() == [0, 1, 1]
    assert nested.parent.tolist() == [-1, 0, 0]
    assert nested.end_of_family.tolist() == [3, 2, 3]


def test_a_thousand_levels_nest_at_once() -> None:
    depth = 20_000
    start = np.arange(depth)
    nested = nest(np.zeros(depth, np.int64), start, 10**6 - start)
    assert nested.depth.tolist() == list(range(depth))
    assert (nested.end_of_family == depth).all()


@calm
@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), min_size=1, max_size=4)), max_size=12))
def test_equal_sequences_are_grouped(sequences: list[tuple[int, list[int]]]) -> None:
    values = np.array([v for _, part in sequences for v in part], np.int64)
    offsets = np.append(0, np.cumsum([len(part) for _, part in sequences])).astype(np.int64)
    label = np.array([name for name, _ in sequences], np.int64)
    group, first = equal_sequences(values, offsets, label)
    slow_group, slow_first = _one_by_one(values, offsets, label)
    assert group.tolist() == slow_group.tolist()
    assert first.tolist() == slow_first.tolist()


@calm
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50)), min_size=1, max_size=30))
def test_statistics_of_groups_are_those_of_pandas(pairs: list[tuple[int, int]]) -> None:
    import pandas

    group, values = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    found = group_statistics(values, group, 4)
    frame = pandas.DataFrame({"g": group, "v": values}).groupby("g")["v"].describe()
    for number, row in frame.iterrows():
        figures = (
            found.count,
            found.mean,
            found.std,
            found.least,
            found.quartile_1,
            found.median,
            found.quartile_3,
            found.most,
        )
        assert np.allclose([column[number] for column in figures], row.to_numpy(), equal_nan=True)
    numbers, rows = group_keys(group, values)
    assert [(int(group[row]), int(values[row])) for row in rows] == sorted(set(pairs))
    assert [(int(group[rows[n]]), int(values[rows[n]])) for n in numbers] == pairs


@calm
@given(SPANS, SPANS)
def test_the_interval_around_a_call_that_started_last(
    spans: list[tuple[int, int]], calls: list[tuple[int, int]]
) -> None:
    start, end = (
        (np.array(c, np.int64) for c in zip(*[(s, s + n) for s, n in spans], strict=True))
        if spans
        else (np.zeros(0, np.int64),) * 2
    )
    begun, done = (
        (np.array(c, np.int64) for c in zip(*[(s, s + n) for s, n in calls], strict=True))
        if calls
        else (np.zeros(0, np.int64),) * 2
    )
    found = latest_around(start, end, begun, done)
    for i in range(len(calls)):
        around = [(start[j], -j) for j in range(len(spans)) if start[j] <= begun[i] and end[j] >= done[i]]
        assert found[i] == (-max(around)[1] if around else -1)
