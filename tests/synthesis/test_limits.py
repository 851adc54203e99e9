"""Learning ends, whatever it is given: what is searched is counted, and what is not found then is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.notes import Notes
from chakrasim.synthesis import expressions
from chakrasim.synthesis.grammar.context import Run, runs_of
from chakrasim.synthesis.learn import READ
from chakrasim.synthesis.loops import DEEPEST, Looks, Loop, inner_loops, order_of, places, read_trace
from chakrasim.synthesis.search import program, work
from chakrasim.synthesis.search.levels import Known, Table, find, guess
from chakrasim.synthesis.search.work import LEAST, Work
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.job.job import Job, Parameter
from chakrasim.trace.kinds import NodeType


def _flat(items: tuple[Any, ...]) -> list[int]:
    return [token for one in items for token in (_flat(one.body) * one.count if isinstance(one, Run) else [one])]


def test_thousands_of_runs_in_a_row_are_found() -> None:
    tokens = np.array([token for i in range(2_000) for token in (2 * i, 2 * i + 1) * 2])
    found = runs_of(tokens)
    assert len(found) == 2_000
    assert all(isinstance(one, Run) and one.count == 2 for one in found)
    assert _flat(found) == tokens.tolist()


@pytest.mark.parametrize("left", [0, 20_000, 300_000_000])
def test_loops_of_any_order_read_every_trace(left: int) -> None:
    random = np.random.default_rng(5)
    traces = [random.integers(0, 60, 300).tolist() for _ in range(6)]
    looks = Looks(left)
    loop = order_of(traces, {}, looks)[0]
    where, inner = places(loop), [*inner_loops(loop)]
    for roles in traces:
        read_trace(roles, where, 1 + len(inner))
    assert looks.left > left - 3_000_000
    if not left:
        assert [type(one) for one in loop.body] == [Loop]
        assert not inner[1:]


def test_loops_in_loops_go_only_so_deep() -> None:
    def nest(depth: int) -> list[int]:
        return [depth, *(nest(depth - 1) * 2 if depth > 88 else [])]

    steps = [role for _ in range(2) for top in range(100) for role in (*range(top, -1, -1),)]
    for traces in ([nest(100)], [steps]):
        loop = order_of(traces, {}, Looks())[0]
        assert max(len(around) for _, around in inner_loops(loop)) <= DEEPEST
        read_trace(traces[0], places(loop), 1 + sum(1 for _ in inner_loops(loop)))


def _chance(rows: int, columns: int) -> tuple[Any, Table]:
    random = np.random.default_rng(7)
    made = {f"column {i}": random.integers(1, 40, rows) for i in range(columns)}
    job = np.arange(rows) // 4
    return random.integers(0, 5, rows), Table(job, np.arange(rows) // 2, ({}, {}, made))


def test_what_is_searched_for_one_number_is_counted_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    tests, test = [0], expressions.test

    def counted(one: list[Any], columns: Any) -> Any:
        tests[0] += 1
        return test(one, columns)

    monkeypatch.setattr(expressions, "test", counted)
    wanted, table = _chance(400, 120)
    known = Known(work=Work(left=0))
    assert find(wanted, table, known) is None
    assert expressions.names(guess(wanted, table, known.work)[0]) <= {*table.levels[2]}
    spent = -known.work.left
    assert spent < 40 * LEAST
    assert tests[0] * 400 < spent


def test_jobs_by_chance_are_learned_and_what_follows_no_law_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AT_FIRST", "LITTLE", "MOST"):
        monkeypatch.setattr(program, name, 100_000)
    monkeypatch.setattr(work, "LEAST", 100_000)
    random = np.random.default_rng(11)
    jobs: list[tuple[dict[str, Parameter], Job]] = []
    for number in range(4):
        made = TraceBuilder(metadata={"noise": int(random.integers(1 << 30))})
        for at in range(25):
            waits = sorted({int(one) for one in random.integers(0, at, 2)}) if at else []
            made.add(id=at, name="abcd"[int(random.integers(4))], type=NodeType.COMP_NODE, ctrl_deps=waits,
                     attrs={"num_ops": int(random.integers(1 << 40))})  # fmt: skip
        jobs.append(({"n": number}, Job((made.build(),), np.zeros(1, np.int64), {}, {})))
    learned = cs.learn(jobs)
    assert learned.model.left_out == ("noise",)
    assert any("whether it comes" in name for name in learned.lost)
    assert any("what it waits for" in name for name in learned.lost)


def test_kinds_of_nodes_that_few_jobs_have_wait_for_what_they_waited_for() -> None:
    def made(number: int) -> Job:
        trace = TraceBuilder()
        for at, name in enumerate(["one", *["rare"] * (number == 1), "two"]):
            trace.add(id=at, name=name, type=NodeType.COMP_NODE, data_deps=[at - 1] if at else [])
        return Job((trace.build(),), np.zeros(1, np.int64), {}, {"n": number})

    jobs = [({"n": number}, made(number)) for number in range(2 * READ + 2)]
    (one,) = cs.synthesize(cs.learn(jobs), {"n": 1})
    assert [one.job.traces[0].name(at) for at in range(3)] == ["one", "rare", "two"]
    assert one.job.traces[0].data_deps[1].tolist() == [0]


def _of_sizes() -> list[tuple[dict[str, Parameter], Job]]:
    found: list[tuple[dict[str, Parameter], Job]] = []
    for hidden, left in ((1, 3), (2, 9), (4, 5), (5, 2), (8, 7), (16, 4)):
        made = TraceBuilder()
        made.add(0, "mm", attrs={"num_ops": 1000 * hidden**2, "tensor_size": 64 * left - 64, "m": left - 1})
        made.add(1, "mm again", data_deps=[0], duration_micros=left - 1)
        found.append(({"hidden": hidden, "left": left}, Job((made.build(),), np.zeros(1, np.int64), {}, {})))
    return found


def test_numbers_beyond_what_a_trace_holds_are_refused_and_those_below_nothing_are_told() -> None:
    learned = cs.learn(_of_sizes())
    assert not learned.lost
    (made,) = cs.synthesize(learned, {"hidden": 3_000, "left": 4})
    assert int(made.job.traces[0].attr("num_ops").integers_or(0)[0]) == 9 * 10**9
    for hidden in (10**9, 4 * 10**9, 10**30):
        with pytest.raises(cs.InputError, match=r"too large|beyond 2"):
            next(cs.synthesize(learned, {"hidden": hidden}))
    notes = Notes()
    (made,) = cs.synthesize(learned, {"hidden": 2, "left": -3}, notes=notes)
    assert [int(made.job.traces[0].attr(name).integers_or(1)[0]) for name in ("tensor_size", "m")] == [0, 0]
    (told,) = [warning for warning in notes.warnings if "less than 0" in warning]
    assert told.startswith("3 numbers")
    assert "duration_micros of mm again, m of mm, tensor_size of mm" in told
