"""Level population: noise and votes do what the guarantee rests on, and an attacker gains no more than it allows."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import CANARY_BYTES, CANARY_OPS, small

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.obfuscation.population import noise, parameters
from chakrasim.obfuscation.population.api import of_population, programs_of
from chakrasim.obfuscation.population.budget import Budget, Share
from chakrasim.obfuscation.population.consensus import Consensus, consensus
from chakrasim.obfuscation.population.noise import Ballot, holds, laplace, reach
from chakrasim.obfuscation.population.parameters import (
    GRID,
    NUMBER,
    WORD,
    Point,
    Population,
    _products,
    cell_of,
    marginals,
    partition,
    population_of,
    stated,
)
from chakrasim.synthesis.file import model_bytes
from chakrasim.trace.job.job import Job, Parameter

TRIALS = 500
LUCK = 0.06
"""More than three standard deviations of an area under the curve of so many trials."""


def below(seed: int) -> random.Random:
    return random.Random(seed)


# -- noise and votes ---------------------------------------------------------------------------------------------------


def test_noise_has_the_distribution_that_is_stated() -> None:
    epsilon, draws = Fraction(2, 3), 20_000
    source = below(1).randrange
    seen = Counter(laplace(epsilon, source) for _ in range(draws))
    base = math.exp(-float(epsilon))
    chi = 0.0
    for k in range(-6, 7):
        wanted = draws * (1 - base) / (1 + base) * base ** abs(k)
        chi += (seen[k] - wanted) ** 2 / wanted
    assert chi < 40
    assert sum(count for k, count in seen.items() if k >= reach(epsilon, 0.01)) < 0.014 * draws


votes = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)), min_size=6, max_size=7)


@given(st.lists(votes.filter(lambda one: len(one) == 7), min_size=1, max_size=3), st.integers(0, 6), votes)
def test_one_chunk_moves_the_distance_by_one_and_decides_nothing_above_it(
    places: list[list[dict[str, int]]], chunk: int, others: list[dict[str, int]]
) -> None:
    """What the guarantee rests on: a chunk's answers change at all places, for better or worse."""
    changed = [[*place[:chunk], other, *place[chunk + 1 :]] for place, other in zip(places, others, strict=False)]
    found = []
    for given_ in (places, changed):
        ballot = Ballot(7)
        said = [ballot.add(place) for place in given_]
        agreed = {q: [own.get(q) for own in said] for q in ballot.agreed()}
        found.append((ballot.distance(), {q: own for q, own in agreed.items() if any(one is not None for one in own)}))
    (one, first), (other, second) = found
    assert abs(one - other) <= 1
    assert first == second or one == other == 1


def test_answers_that_one_job_decides_are_released_as_rarely_as_delta_says() -> None:
    share, source = Share(Fraction(1), 0.02), below(3).randrange
    assert sum(holds(1, share, source) for _ in range(4000)) < 4000 * 0.02 * 1.3
    assert sum(holds(30, share, source) for _ in range(400)) == 400


def test_cells_are_a_partition_of_all_numbers() -> None:
    assert [*GRID] == sorted({*GRID})
    for value in (*range(-3, 5000), 10**6, 2**61, 2**63):
        cell = cell_of(value)
        at = GRID.index(cell)  # type: ignore[arg-type]
        assert max(value, -1) >= GRID[at] and (at + 1 == len(GRID) or value < GRID[at + 1])
    assert cell_of("gelu") == "gelu" and cell_of(0.1) == "0.1" and cell_of(True) == 1


# -- parameters --------------------------------------------------------------------------------------------------------


def stating(seed: int, **more: Parameter) -> Point:
    own = random.Random(seed)
    dp, micro_batch, micro_batches, hidden = (own.choice((1, 2, 4, 6)) for _ in range(4))
    local = micro_batch * micro_batches
    batches = {"local_batch": local, "micro_batch": micro_batch, "micro_batches": micro_batches, "batch": dp * local}
    equal = dict.fromkeys(("hidden", "model.hidden", "model.width"), 64 * hidden)
    return {"ranks": dp * 4, "dp": dp, "tp": 4, **batches, **equal, **dict.fromkeys("abcdefgh", 1), **more}


def known_of(points: list[Point]) -> Population:
    found = population_of(points, 7, Budget.of(20, 1e-3), below(5).randrange)
    assert found is not None
    return found


def test_parameters_that_one_job_alone_states_do_not_change_the_order_of_those_that_are_released() -> None:
    jobs = [stating(seed) for seed in range(300)]
    odd = stating(300, **{f"own {i}": i for i in range(200)})
    one, other = known_of(jobs), known_of([*jobs, odd])
    assert len(one.same) == 9 and [*one.same] == [*other.same]


def test_products_of_products_hold_in_all_sets() -> None:
    points = known_of([stating(seed) for seed in range(300)]).points(20, np.random.default_rng(1))
    assert len(points) == 20
    for point in points:
        local = int(point["micro_batch"]) * int(point["micro_batches"])
        assert point["local_batch"] == local and point["batch"] == int(point["dp"]) * local
        assert point["hidden"] == point["model.hidden"] == point["model.width"]


def test_products_are_found_where_factors_are_0_and_soon_among_many_numbers() -> None:
    assert dict(_products({"a": [0, 2, 3], "b": [5, 5, 7], "c": [0, 10, 21]})) == {"c": ("a", "b")}
    begin = time.process_time()
    assert not [*_products({str(i): [1009 + i, 2003 + 2 * i] for i in range(120)})]
    assert time.process_time() - begin < 3


def test_numbers_with_fractions_stay_numbers() -> None:
    jobs = [stating(seed, dropout=(0.1, 0.25, 0)[seed % 3]) for seed in range(300)]
    drawn = {point["dropout"] for point in known_of(jobs).points(20, np.random.default_rng(1))}
    assert drawn == {0.1, 0.25, 0.0} and all(isinstance(one, float) for one in drawn)


def test_operators_of_few_programs_stop_nothing_and_are_counted() -> None:
    """Four of seven programs have one more operator each, all of them different."""
    jobs = [small(at, last=("one", "two", "three", "four", "", "", "")[at % 7]) for at in range(84)]
    programs = programs_of(jobs, [range(at, len(jobs), 7) for at in range(7)], None)
    points: list[Point] = [{"width": 64 * n, "tokens": 64 * n, "layers": 2, "ranks": 4, "tp": 4} for n in range(1, 4)]
    found = consensus(programs, points, 7, None)
    assert len(programs) == 7 and len(found.jobs) == 3 and found.left_out == 4 and found.distance == 3


# -- attacks -----------------------------------------------------------------------------------------------------------


def area(inside: list[float], outside: list[float]) -> float:
    """Under the curve of an attacker who says "in" above a limit: 0.5 if nothing is to be gained, 1 if all is."""
    one, other = np.array(inside)[:, None], np.array(outside)[None, :]
    return float((one > other).mean() + (one == other).mean() / 2)


Columns = dict[str, list[Parameter]]


def attacked(share: Share, columns: Columns, target: dict[str, Parameter]) -> tuple[float, float]:
    """Area and advantage of an attacker who knows all jobs and the target, and sees the noisy counts of releases, half
    of them with the target: he adds up those of the target's cells, which tell all that can be told."""
    kinds = {name: WORD if isinstance(value, str) else NUMBER for name, value in target.items()}
    source, seen = below(5).randrange, ([], [])
    for trial in range(2 * TRIALS):
        jobs = {name: [*own, target[name]] if trial % 2 else own for name, own in columns.items()}
        counts = marginals(jobs, kinds, share, source)
        seen[trial % 2].append(float(sum(counts[name].get(cell_of(value), 0) for name, value in target.items())))
    outside, inside = (np.array(one) for one in seen)
    limits = np.array([*{*seen[0], *seen[1]}])[:, None]
    return area(seen[1], seen[0]), float(((inside >= limits).mean(axis=1) - (outside >= limits).mean(axis=1)).max())


@pytest.mark.parametrize("name", ["style", pytest.param("layers", marks=pytest.mark.slow)])
def test_who_was_in_is_not_told_by_more_than_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns: Columns = {"style": ["gated"] * 90 + ["plain"] * 60, "layers": [2] * 80 + [24] * 70, "norm": ["rms"] * 150}
    target: dict[str, Parameter] = {"style": "gated", "layers": 24, "norm": "rms"}
    columns, target = ({one: own[one] for one in (name, "norm")} for own in (columns, target))  # type: ignore[index, assignment]
    share = Share(Fraction(1, 2), 1e-6)
    bound = (math.exp(share.epsilon) - 1 + 2 * share.delta) / (math.exp(share.epsilon) + 1)
    found, advantage = attacked(share, columns, target)
    assert found <= 0.5 + bound + LUCK and advantage <= bound + 2 * LUCK
    monkeypatch.setattr(parameters, "laplace", lambda epsilon, below: 0)
    assert attacked(share, columns, target) == (1.0, 1.0)


@pytest.mark.slow
def test_who_was_in_is_not_told_by_whole_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target has an operator and sizes of its own, and is so narrow that a law says where they come; the attacker
    knows all else and the chunk it would be in: votes of all chunks are learned once with it and once without, then 500
    releases of each are drawn. One of the sets of parameters is the target's, and the threshold, 8, is between the
    distances, so that without noise whether there is a release tells all."""
    jobs, chunks, share = [small(number) for number in range(600)], 17, Share(Fraction(1, 2), 0.015)
    parts = partition(len(jobs), chunks, below(1).randrange)
    sizes = [(64 * n, 2 + n % 2) for n in range(1, 9)]
    points: list[Point] = [{"width": n, "tokens": n, "layers": layers, "ranks": 4, "tp": 4} for n, layers in sizes]
    target = small(31, canary=True)
    points.append(stated(target))
    without = programs_of(jobs, parts, None)
    (own,) = programs_of([*jobs, target], [[*parts[0], len(jobs)]], None)
    votes = [consensus(programs, points, chunks, None) for programs in ([own, *without[1:]], without)]
    assert len(without) == chunks and [one.distance for one in votes] == [8, 9]
    assert reach(share.epsilon, share.delta) == 8
    source = below(2).randrange

    def releases(vote: Consensus) -> list[float]:
        return [float(holds(vote.distance, share, source)) for _ in range(TRIALS)]

    seen = [*map(releases, votes)]
    bound = (math.exp(share.epsilon) - 1 + 2 * share.delta) / (math.exp(share.epsilon) + 1)
    assert area(seen[1], seen[0]) <= 0.5 + bound + LUCK and np.mean(seen[1]) - np.mean(seen[0]) <= bound + LUCK
    monkeypatch.setattr(noise, "laplace", lambda epsilon, below: 0)
    assert area(releases(votes[1]), releases(votes[0])) == 1
    texts = [model_bytes(cs.learn([(job.parameters, job) for job in one.jobs])) for one in votes]
    assert texts[0] == texts[1] and b"secret" not in texts[0] and b"secret" in model_bytes(own)


# -- releases ----------------------------------------------------------------------------------------------------------


def test_a_population_of_jobs_is_learned_without_what_one_of_them_has() -> None:
    jobs = [small(number, canary=number == 37) for number in range(200)]
    model, guarantee = of_population(jobs, epsilon=20, chunks=7, notes=Notes(), below=below(4).randrange)
    assert guarantee.epsilon <= 20 and guarantee.points > 20
    text = model_bytes(model)
    assert b"secret" not in text and not any(str(one).encode() in text for one in (CANARY_OPS, CANARY_BYTES))
    for number in range(1000, 1010):
        wanted = small(number)
        (made,) = cs.synthesize(model, {"tp": wanted.ranks, "ranks": wanted.ranks, **wanted.parameters}, notes=Notes())
        for name in ("num_ops", "tensor_size", "comm_size"):
            pairs = zip(made.job.traces, wanted.traces, strict=True)
            assert all(a.attr(name).integers_or(0).tolist() == b.attr(name).integers_or(0).tolist() for a, b in pairs)


@pytest.mark.parametrize(
    ("jobs", "asked", "message"),
    [
        ([small(n) for n in range(40)], {}, "nothing can be released: too few chunks of the jobs .*; found 40 jobs"),
        ([small(n) for n in range(4)], {"epsilon": 0}, "no epsilon of a release; found 0"),
        ([small(n) for n in range(4)], {"delta": 0.5}, "no delta of a release; found 0.5"),
        ([small(n) for n in range(4)], {"chunks": 2}, "too few chunks for any to be outvoted; found 2"),
        (small(1), {}, "a population is many jobs; found a job"),
    ],
)
def test_what_cannot_be_private_is_refused(
    jobs: list[Job] | Job, asked: dict[str, float], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Noise lets one of 400 releases of these 40 jobs past the first of its two tests.
    monkeypatch.setattr(noise, "laplace", lambda epsilon, below: 0)
    with pytest.raises(InputError, match=message):
        cs.obfuscate(jobs, level="population", machines=(), **asked)


def test_what_parts_spend_sums_to_what_was_asked_for() -> None:
    shares = Budget.of(4, 1e-6).shares
    assert 3.99 < sum(one.epsilon for one in shares) <= 4 and math.isclose(sum(one.delta for one in shares), 1e-6)
