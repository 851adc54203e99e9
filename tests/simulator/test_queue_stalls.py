"""All-reduces over three dimensions that can wait for themselves: warned of, and named when they do."""

from __future__ import annotations

import random
import re
from math import prod

import pytest
from cases import Case, collective, compute, network_of, system_of

from chakrasim import InputError, SimulationResult, StallError

WARNING = re.compile(r"if ranks come to it at different times, the run may never end: .*set active-chunks-per-dim")


def jittered(seed: int, counts: tuple[int, ...], splits: int, active: int, **keys: str) -> Case:
    """Two all-reduces, each behind a computation that takes every rank another time."""
    draw = random.Random(seed)
    dims = [(draw.choice(["Ring", "Switch", "FullyConnected"]), n, 50.0, draw.choice([0.0, 500.0])) for n in counts]
    programs = []
    for _ in range(prod(counts)):
        times = [1 + draw.randrange(200) for _ in range(2)]
        first = [compute(0, times[0]), collective(1, 0, 1 << 20, [0])]
        programs.append([*first, compute(2, times[1], [1]), collective(3, 0, 1 << 20, [2])])
    system = system_of(
        *["ring"] * len(counts), preferred_dataset_splits=splits, active_chunks_per_dimension=active, **keys
    )
    return Case(programs, network_of(*dims), system, congestion=draw.choice(["aware", "unaware"]))


def is_warned_of(warnings: tuple[str, ...]) -> bool:
    return any(WARNING.search(warning) for warning in warnings)


def outcome(case: Case, **options: object) -> SimulationResult | StallError:
    try:
        return case.run(**options)
    except StallError as error:
        return error


def test_every_hang_is_warned_of_and_says_its_cause_and_remedy() -> None:
    hangs = []
    for seed in range(24):
        draw = random.Random(seed)
        splits = draw.choice([2, 4, 8])
        case = jittered(seed, draw.choice([(2, 2, 2), (2, 3, 2), (3, 2, 2, 2)]), splits, draw.randint(1, splits // 2))
        found = outcome(case)
        assert is_warned_of(found.warnings)
        if isinstance(found, StallError):
            hangs.append(case)
            assert "; the likely cause: an all-reduce of 1048576 bytes in " in str(found)
            remedy = re.search(r"set active-chunks-per-dimension to (\d+) or more", str(found))
            assert remedy is not None
            places = dict(case.system) | {"active-chunks-per-dimension": int(remedy[1])}
            assert not is_warned_of(case.with_(system=places).run().warnings)
            baseline = dict(case.system) | {"collective-optimization": "baseline"}
            assert not is_warned_of(case.with_(system=baseline).run().warnings)
    assert len(hangs) > 8


@pytest.mark.parametrize(
    ("counts", "splits", "active", "keys", "queues"),
    [
        ((2, 2, 2), 4, 4, {}, 1),
        ((2, 2, 2), 4, 3, {}, 1),
        ((2, 2, 2), 8, 5, {}, 1),
        ((2, 2, 2), 1, 1, {}, 1),
        ((3, 2, 2), 8, 1, {"collective_optimization": "baseline"}, 1),
        ((2, 2, 2), 8, 2, {}, 2),
        ((4, 2), 8, 1, {}, 1),
        ((8,), 8, 1, {}, 1),
    ],
)
def test_what_cannot_hang_is_not_warned_of(
    counts: tuple[int, ...], splits: int, active: int, keys: dict[str, str], queues: int
) -> None:
    for seed in range(4):
        result = jittered(seed, counts, splits, active, **keys).run(num_queues_per_dim=queues)
        assert not is_warned_of(result.warnings)


def test_groups_and_other_collectives_are_not_warned_of() -> None:
    network = network_of(*[("Ring", 2, 50.0, 500.0)] * 3)
    groups = {1: [0, 1, 2, 3], 2: [4, 5, 6, 7]}
    programs = [
        [collective(0, 0, 1 << 20, group=str(1 + rank // 4)), *(collective(k, k, 1 << 20) for k in (2, 6, 7))]
        for rank in range(8)
    ]
    result = Case(programs, network, system_of("ring", "ring", "ring"), groups=groups).run()
    assert not is_warned_of(result.warnings)
    only_two = [[collective(0, 0, 1 << 20, involved_dim=[True, False, True])]]
    assert not is_warned_of(Case(only_two, network, system_of("ring", "ring", "ring")).run().warnings)


def test_a_warning_before_the_clock_is_an_error_in_strict_mode() -> None:
    case = jittered(1, (2, 2, 2), 4, 1)
    assert is_warned_of(case.run(check=True).warnings)
    with pytest.raises(InputError, match="the run may never end"):
        case.run(strict=True, check=True)


def test_another_stall_is_not_blamed_on_the_queues() -> None:
    case = jittered(1, (2, 2, 2), 4, 1)
    group = {"1": [0, 1]}
    programs = [[*program] for program in case.programs]
    # Ranks 0 and 1 run two groups' collectives the other way round; the others wait for them in the first all-reduce.
    programs[0] = [collective(8, 0, 64, group="1"), *[{**node, "data_deps": [8]} for node in programs[0][:1]]]
    programs[0] += case.programs[0][1:]
    programs[1] = [*programs[1][:2], collective(8, 0, 64, [1], group="1"), *programs[1][2:]]
    found = outcome(case.with_(programs=programs, groups=group))
    assert isinstance(found, StallError)
    assert "never entered it" in str(found)
    assert "likely cause" not in str(found)
