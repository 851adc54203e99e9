"""Level motifs: whatever is released, many jobs have it; a canary is not."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from made import CANARY_BYTES, CANARY_OPS, bytes_of, dense, small

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.obfuscation.api import Obfuscated
from chakrasim.obfuscation.motifs import _like
from chakrasim.synthesis.file import model_bytes
from chakrasim.synthesis.roles import Roles
from chakrasim.trace import NodeType, TraceBuilder
from chakrasim.trace.job.job import Job

K, JOBS, ODD = 5, 80, 37
CANARIES = {CANARY_OPS, CANARY_BYTES}


@pytest.fixture(scope="module")
def given() -> list[Job]:
    return [small(number, canary=number == ODD) for number in range(JOBS)]


@pytest.fixture(scope="module")
def released(given: list[Job]) -> Obfuscated:
    return cs.obfuscate(given, level="motifs", k=K, machines=("h100",))


def numbers_of(jobs: Iterable[Job]) -> set[int]:
    return {
        int(value)
        for job in jobs
        for trace in job.traces
        for name in ("num_ops", "tensor_size", "comm_size")
        for value in trace.attr(name).integers_or(0)
    }


def users(jobs: Iterable[Job]) -> dict[object, set[int]]:
    """By motif the jobs that have it."""
    roles, found = Roles(), defaultdict[object, set[int]](set)
    for number, job in enumerate(jobs):
        for trace in job.traces:
            nodes = roles.nodes(trace)
            for role, waits in zip(nodes.role, nodes.waits[1], strict=True):
                found[role, frozenset(trace.types[[*waits]].tolist())].add(number)
    return found


def test_a_canary_is_not_released(given: list[Job], released: Obfuscated) -> None:
    assert numbers_of(given) >= CANARIES and b"secret" in bytes_of(given)
    assert len(released.jobs) == JOBS
    assert not CANARIES & numbers_of(released.jobs) and b"secret" not in bytes_of(list(released.jobs))
    assert {len(own) for own in users(given).values()} >= {1}
    assert min(len(own) for own in users(released.jobs).values()) >= K


def test_sizes_that_follow_from_a_law_of_many_jobs_stay(given: list[Job], released: Obfuscated) -> None:
    (price,) = released.price
    assert price.median_error == 0 and abs(price.largest_error) <= 0.01
    kept = numbers_of(given) - CANARIES - numbers_of(released.jobs)
    assert not kept


def test_a_model_of_the_release_has_no_canary(given: list[Job], released: Obfuscated) -> None:
    learned = cs.learn([(job.parameters, job) for job in released.jobs[:60]])
    text = model_bytes(learned)
    assert b"secret" not in text and not any(str(one).encode() in text for one in CANARIES)


@pytest.mark.slow
def test_10_000_samples_of_a_model_of_200_released_jobs_have_no_canary() -> None:
    released = cs.obfuscate([small(n, canary=n == ODD) for n in range(200)], level="motifs", k=K, machines=())
    learned = cs.learn([(job.parameters, job) for job in released.jobs])
    made = 0
    for one in cs.synthesize(learned, {}, count=10_000, seed=1):
        assert b"secret" not in bytes_of([one.job]) and not CANARIES & numbers_of([one.job])
        made += 1
    assert made == 10_000


def test_sizes_without_a_law_are_those_of_many_jobs() -> None:
    def one(number: int) -> Job:
        made = TraceBuilder()
        size = random.Random(number).randrange(1000, 10**7) if number else 10**15 + 1
        made.add(0, "step 1", NodeType.COMM_COLL_NODE, attrs={"comm_type": 0, "comm_size": size})
        return Job((made.build(),), np.zeros(2, np.int64))

    found = cs.obfuscate([one(number) for number in range(60)], level="motifs", k=K, machines=())
    sizes = [int(job.traces[0].attr("comm_size").integers()[0]) for job in found.jobs]
    assert all(sizes.count(size) >= K for size in sizes) and len({*sizes}) > 3
    before = sorted(int(one(number).traces[0].attr("comm_size").integers()[0]) for number in range(1, 60))
    apart = np.abs(np.log(np.array(sorted(sizes)[:59]) / before))
    assert np.median(apart) < 0.3


@pytest.mark.parametrize("odd", range(4))
def test_a_job_that_its_parameters_single_out_has_no_law_of_its_own(odd: int) -> None:
    def one(number: int) -> Job:
        hidden, own = random.Random(number).randrange(64, 4096), number == odd
        made = TraceBuilder()
        ops = CANARY_OPS if own else 4 * hidden
        made.add(0, "product", attrs={"num_ops": ops, "tensor_size": 8 * hidden, "op_kind": "gemm"})
        norm = {"norm": "secret", "zero": 3} if own else {"norm": "rms", "zero": number % 2}
        return Job((made.build(),), np.zeros(1, np.int64), parameters={"hidden": hidden, **norm})

    jobs = [one(number) for number in range(40)]
    found = cs.obfuscate(jobs, level="motifs", k=K, machines=())
    assert CANARY_OPS in numbers_of(jobs) and CANARY_OPS not in numbers_of(found.jobs)
    assert numbers_of(found.jobs) == numbers_of(jobs) - {CANARY_OPS} | {4 * jobs[odd].parameters["hidden"]}


def test_two_jobs_that_share_a_rare_parameter_have_no_law_of_their_own() -> None:
    def one(number: int) -> Job:
        hidden, own = random.Random(number).randrange(64, 4096), number < 2
        made = TraceBuilder()
        made.add(0, "product", attrs={"num_ops": 999_983 * hidden if own else 4 * hidden, "op_kind": "gemm"})
        return Job((made.build(),), np.zeros(1, np.int64), parameters={"hidden": hidden, "zero": 999_983 if own else 4})

    jobs = [one(number) for number in range(40)]
    found = cs.obfuscate(jobs, level="motifs", k=K, machines=())
    assert numbers_of(found.jobs) - {0} == {4 * int(str(job.parameters["hidden"])) for job in jobs}


def test_a_case_of_a_law_that_fewer_than_k_jobs_are_in_is_not_released() -> None:
    def one(number: int) -> Job:
        hidden, kind = random.Random(number).randrange(64, 4096), 99 if number < K - 1 else number % 6
        made = TraceBuilder()
        made.add(0, "product", attrs={"num_ops": (999_983 if kind == 99 else 4) * hidden, "op_kind": "gemm"})
        return Job((made.build(),), np.zeros(1, np.int64), parameters={"hidden": hidden, "kind": kind})

    jobs = [one(number) for number in range(60)]
    rare = {number for number in numbers_of(jobs[: K - 1]) if number}
    found = numbers_of(cs.obfuscate(jobs, level="motifs", k=K, machines=()).jobs)
    assert len(rare) == K - 1 and not rare & found
    assert numbers_of(jobs[K - 1 :]) <= found


def test_sizes_follow_from_other_sizes_of_the_node() -> None:
    def one(number: int) -> Job:
        own = random.Random(number)
        m, n, k = (own.choice((128, 256, 640, 896)) for _ in range(3))
        made = TraceBuilder()
        sizes = {"num_ops": 2 * m * n * k, "tensor_size": 2 * (m * k + k * n)}
        made.add(0, "product", attrs={"m": m, "n": n, "k": k, "op_kind": "gemm", **sizes})
        return Job((made.build(),), np.zeros(1, np.int64))

    jobs = [one(number) for number in range(80)]
    assert numbers_of(cs.obfuscate(jobs, level="motifs", k=K, machines=()).jobs) == numbers_of(jobs)


def test_sizes_follow_from_the_numbers_in_names() -> None:
    def one(number: int) -> Job:
        own = random.Random(number)
        width, last, made = own.randrange(64, 4096), 9, TraceBuilder()
        for at in range(4):
            first = last - own.randrange(3)
            attrs = {"comm_type": 0, "comm_size": 8 * width * (last - first + 1)}
            made.add(at, f"layer {last} to layer {first} gradients", NodeType.COMM_COLL_NODE, attrs=attrs)
            last = first - 1 if first > 2 else 9
        return Job((made.build(),), np.zeros(2, np.int64), parameters={"width": width})

    jobs = [one(number) for number in range(40)]
    assert numbers_of(cs.obfuscate(jobs, level="motifs", k=K, machines=()).jobs) == numbers_of(jobs)


@pytest.mark.parametrize("values", [[10 ** (3 * n) for n in range(5)], [-1, -20, -300, -4000, -50000, -600000]])
def test_numbers_that_are_near_no_others_say_nothing(values: list[int]) -> None:
    def one(value: int) -> Job:
        made = TraceBuilder()
        made.add(0, "product", attrs={"num_ops": value, "op_kind": "gemm"})
        return Job((made.build(),), np.zeros(1, np.int64))

    notes = Notes()
    found = cs.obfuscate([*map(one, values)], level="motifs", k=K, machines=(), notes=notes)
    assert len(found.jobs) == len(values) and numbers_of(found.jobs) == {0}
    assert [*notes.warnings] == ["1 of 1 kinds of numbers are 0: no 5 jobs have values that are near one another"]


def test_which_motif_a_rare_one_becomes_does_not_hang_on_the_order_of_sets() -> None:
    made = TraceBuilder()
    for at, name in enumerate(("rare", "one", "other")):
        made.add(at, name, attrs={"num_ops": 8, "op_kind": "gemm"})
    roles = Roles()
    rare, one, other = ((role, frozenset[int]()) for role in roles.nodes(made.build()).role)
    assert _like(rare, {one: 9, other: 9}, roles.known) == _like(rare, {other: 9, one: 9}, roles.known) == one[0]
    assert _like(rare, {one: 9, other: 10}, roles.known) == other[0]


def test_jobs_that_have_nothing_in_common_are_left_out() -> None:
    notes = Notes()
    made = TraceBuilder()
    made.add(0, "mine", NodeType.MEM_LOAD_NODE, attrs={"tensor_size": 8})
    strange = Job((made.build(),), np.zeros(1, np.int64))
    found = cs.obfuscate([*map(small, range(12)), strange], level="motifs", k=K, machines=(), notes=notes)
    assert len(found.jobs) == 12
    assert [*notes.warnings] == ["1 of 13 jobs are left out: they do what fewer than 5 jobs do"]
    with pytest.raises(InputError, match=r"too few jobs have anything in common; found 0 of 3 jobs are left"):
        cs.obfuscate([*map(small, range(3))], level="motifs", k=K, machines=())
    with pytest.raises(InputError, match="motifs of one job are nobody else's"):
        cs.obfuscate([*map(small, range(3))], level="motifs", k=1, machines=())
    with pytest.raises(InputError, match="motifs are what many jobs have in common; found a job"):
        cs.obfuscate(small(1), level="motifs", machines=())


def test_parameters_and_groups_of_few_jobs_are_left_out() -> None:
    jobs = [replace(small(n), parameters={**small(n).parameters, **({"mine": 1} if n < 2 else {})}) for n in range(12)]
    found = cs.obfuscate(jobs, level="motifs", k=K, machines=())
    assert {len(job.parameters) for job in found.jobs} == {4}
    assert not any(trace.metadata for job in found.jobs for trace in job.traces)


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [False, True])
def test_generated_jobs_take_the_same_time(buckets: bool) -> None:
    jobs = []
    for number in range(120):
        own = random.Random(number)
        width = own.choice((256, 512, 768, 1024))
        split = {"tp": own.choice((1, 2)), "pp": own.choice((1, 2)), "dp": own.choice((1, 2, 4))}
        shape = {
            "vocabulary": own.choice((8192, 16384)),
            "sequence": own.choice((256, 512)),
            "layers": own.choice((2, 4)),
        }
        jobs.append(dense(hidden=width, feed_forward=own.choice((2, 4)) * width, buckets=buckets, **split, **shape))
    found = cs.obfuscate(jobs, level="motifs", k=K)
    assert len(found.price) == 3 and all(price.median_error <= 0.01 for price in found.price)
