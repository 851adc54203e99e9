"""Laws that jobs give by chance, and what jobs leave open: neither is made without a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.report.tables.answers.synthesis import synthetic_sections
from chakrasim.synthesis import expressions
from chakrasim.synthesis.choose import choices
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.search.levels import Known, Table, find
from chakrasim.trace.job.job import Job

Own = dict[str, int | float | bool | str]


def learned_of(parameters: Sequence[Own], ops: Callable[[Own], Sequence[int]]) -> Learned:
    """A model of jobs of one rank, with a node for each of the sizes that are more than 0."""

    def job(own: Own) -> Job:
        builder = cs.TraceBuilder()
        for at, size in enumerate(ops(own)):
            if size:
                builder.add(at, name="abc"[at], type=4, attrs={"num_ops": size})
        return Job((builder.build(),), np.zeros(1, np.int64))

    return cs.learn([(own, job(own)) for own in parameters])


def warnings_of(learned: Learned, wanted: Own) -> str:
    notes = Notes()
    list(cs.synthesize(learned, wanted, notes=notes))
    return "\n".join(notes.warnings)


@pytest.mark.slow
def test_a_model_of_a_pipeline_makes_the_jobs_it_was_learned_from() -> None:
    jobs = [
        cs.transformer_job({
            "model": {"layers": layers, "hidden": hidden, "heads": 4, "sequence": 512, "vocabulary": 32000},
            "parallel": {"pp": pp, "dp": 2}, "batch": {"micro_batches": 2},
        })
        for layers in (4, 8) for hidden in (256, 512) for pp in (1, 2, 4)
    ]  # fmt: skip
    learned = cs.learn([(job.parameters, job) for job in jobs])
    made = [next(cs.synthesize(learned, own)).job for own in learned.parameters]
    assert [[len(trace) for trace in job.traces] for job in made] == [[len(t) for t in job.traces] for job in jobs]


@pytest.mark.parametrize("jobs", [12, 20, 30])
def test_tosses_of_a_coin_have_no_law_of_many_tests(jobs: int) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        columns = {f"parameter {i}": random.choice([1, 2, 4, 8], jobs) for i in range(10)}
        table = Table(np.arange(jobs), np.arange(jobs), (columns, {}, {}))
        law = find(random.integers(0, 2, jobs), table, Known())
        assert law is None or expressions.cases(law) <= 2


def test_what_is_left_open_follows_from_more_than_chance_and_is_shown() -> None:
    for seed in range(4):
        random = np.random.default_rng(seed)
        known: list[Own] = [
            {f"p{i}": int(random.choice([1, 2, 4, 8])) for i in range(8)} | {"flag": int(random.integers(0, 2))}
            for _ in range(5)
        ]
        known[0]["flag"], known[1]["flag"] = 0, 1
        known = [own | {"tokens": 1024 * int(own["p0"]) * int(own["p1"])} for own in known]
        learned = learned_of(known, lambda _: (1,))
        chosen = next(choices(learned, {}, random))
        assert chosen.follow == ("tokens",)
        (made,) = cs.synthesize(learned, {"p0": 4, "p1": 2})
        (section,) = synthetic_sections([(made, ("job.et",))])
        assert ("follow from others", "tokens 8192") in section.rows


def test_a_fraction_is_refused_where_all_jobs_have_whole_numbers() -> None:
    learned = learned_of([{"factor": float(n)} for n in (1, 2, 3, 4)], lambda own: (int(own["factor"]),))
    with pytest.raises(InputError, match=r"no such value.*2\.5.*without a fraction"):
        list(cs.synthesize(learned, {"factor": 2.5}))


def test_a_case_that_begins_between_what_jobs_had_is_told() -> None:
    learned = learned_of([{"tp": tp} for tp in (1, 2, 4, 8, 16) * 2], lambda own: (9, 7 * (int(own["tp"]) > 5)))
    assert "no job had tp between 4 and 8" in warnings_of(learned, {"tp": 6})
    assert "tp" not in warnings_of(learned, {"tp": 3})


def test_parameters_that_went_together_in_all_jobs_are_told_where_they_do_not() -> None:
    learned = learned_of(
        [{"tp": n, "pp": n, "depth": 3 * n} for n in (1, 2, 4, 8)], lambda own: (1000 * int(own["tp"]),)
    )
    told = warnings_of(learned, {"tp": 4, "pp": 1, "depth": 12})
    assert "tp and pp went together" in told
    assert "tp and depth" not in told
    assert "together" not in warnings_of(learned, {"tp": 4})
    assert "tp and depth went together" in warnings_of(learned, {"tp": 3, "pp": 3, "depth": 5})


def test_a_model_that_does_not_make_what_it_was_learned_from_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def follows_from_itself(*_: object) -> Job:
        raise ValueError("where a comes follows from itself")

    monkeypatch.setattr("chakrasim.synthesis.api.job_of", follows_from_itself)
    builder, notes = cs.TraceBuilder(), Notes()
    builder.add(0, name="a", type=4)
    job = Job((builder.build(),), np.zeros(1, np.int64))
    cs.learn([({"n": n}, job) for n in range(4)], notes=notes)
    assert any("does not make job 0" in warning for warning in notes.warnings)
