"""What the congestion-unaware network leaves out is said: impossible bandwidths, groups across dimensions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cases import UNIT_BANDWIDTH, Case, collective, compute, network_of, system_of

import chakrasim
from chakrasim import InputError, SimulationResult
from chakrasim.simulator.checks import loads
from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.plans import Plan

IMPOSSIBLE = re.compile(r"bus bandwidth of ([\d.e+]+) GB/s, over links that allow ([\d.e+]+):")
FAST = 400 * 2**30 / 1e9
"""400 GiB/s in GB/s."""


def impossible(result: SimulationResult) -> tuple[float, float] | None:
    """The bus bandwidth that a warning calls impossible, and what it says that the links allow."""
    found = [match for warning in result.warnings if (match := IMPOSSIBLE.search(warning))]
    return (float(found[0][1]), float(found[0][2])) if found else None


def one(
    kind: int, size: int, *dims: tuple[str, int, float, float], algorithms: tuple[str, ...] = (), **keys: Any
) -> Case:
    system = system_of(*(algorithms or ("ring",) * len(dims)), **{"local_mem_bw": 0, "endpoint_delay": 0, **keys})
    return Case([[collective(0, kind, size)]], network_of(*dims), system, congestion="unaware")


NODE = ("Switch", 8, 400.0, 0.0)


def test_chunks_in_flight_that_each_have_the_whole_link_are_warned_of() -> None:
    result = one(0, 1 << 30, NODE, active_chunks_per_dimension=2).run()
    assert impossible(result) == (pytest.approx(2 * FAST, rel=1e-3), pytest.approx(FAST, rel=1e-3))
    (figures,) = result.collectives
    assert impossible(result) == (pytest.approx(figures.busbw, rel=1e-3), pytest.approx(FAST, rel=1e-3))
    assert [warning for warning in result.warnings if "--congestion aware" in warning]


def test_what_the_links_carry_is_not_warned_of() -> None:
    assert impossible(one(0, 1 << 30, NODE).run()) is None
    for chunks in (1, 2, 4):
        aware = one(0, 1 << 30, NODE, active_chunks_per_dimension=chunks).run(congestion="aware")
        assert impossible(aware) is None
        assert aware.collectives[0].busbw < FAST


@pytest.mark.parametrize(
    ("kind", "algorithm", "dim", "limit"),
    [
        (6, "direct", NODE, FAST),  # seven messages at once over one link
        (6, "direct", ("FullyConnected", 8, 400.0, 0.0), None),  # each over its own
        (7, "halvingDoubling", NODE, None),
        (2, "direct", NODE, FAST),
        (3, "direct", NODE, FAST),  # all to the root, over its one link
        (4, "direct", NODE, FAST),
        (6, "direct", ("Ring", 8, 400.0, 0.0), FAST * 7 / 10),  # 10 of 16 hops go clockwise: half way round is
    ],
)
def test_the_limit_is_that_of_the_links(kind: int, algorithm: str, dim: Any, limit: float | None) -> None:
    keys = {f"{name}-implementation": [algorithm] for name in ("gather", "scatter")}
    case = one(kind, 1 << 27, dim, algorithms=(algorithm,))
    found = impossible(case.with_(system={**case.system, **keys}).run())
    assert (found and found[1]) == (limit and pytest.approx(limit, rel=2e-3))


def test_of_several_dimensions_the_busiest_sets_the_limit() -> None:
    # 8 ranks at 400 GiB/s send 7/8 of the buffer, each of 4 nodes 3/4 of an eighth of it at 10 GiB/s.
    case = one(0, 1 << 28, NODE, ("Switch", 4, 10.0, 0.0), active_chunks_per_dimension=4)
    found = impossible(case.run())
    assert found is not None
    assert found[1] == pytest.approx(10 * 2**30 / 1e9 * (31 / 32) / (3 / 4 / 8), rel=1e-3)


def test_a_group_is_held_to_the_links_that_it_uses() -> None:
    groups = {1: [0, 1, 2, 3], 2: [4, 5, 6, 7]}
    for name, active in (("warned of", 2), ("not", 1)):
        case = one(0, 1 << 28, NODE, active_chunks_per_dimension=active)
        programs = [[collective(0, 0, 1 << 28, group=str(1 + rank // 4))] for rank in range(8)]
        found = impossible(case.with_(programs=programs, groups=groups).run())
        assert (found is not None) == (name == "warned of")


def test_small_messages_are_not_judged_by_times_cut_off_to_ns() -> None:
    for size in (1, 64, 500, 4096):
        assert impossible(one(0, size, NODE, preferred_dataset_splits=1).run()) is None


def test_ranks_that_come_late_do_not_look_too_fast() -> None:
    case = one(2, 1 << 20, ("Ring", 8, 400.0, 0.0))
    for late in range(8):
        programs = [[compute(0, 1 + 9 * (rank == late)), collective(1, 2, 1 << 20, [0])] for rank in range(8)]
        assert impossible(case.with_(programs=programs).run()) is None


def test_strict_refuses_what_no_link_carries() -> None:
    with pytest.raises(InputError, match="impossible bandwidth"):
        one(0, 1 << 28, NODE, active_chunks_per_dimension=2, local_mem_bw=9000).run(strict=True)
    one(0, 1 << 28, NODE, local_mem_bw=9000).run(strict=True)


def test_the_preset_of_the_report() -> None:
    builder = chakrasim.TraceBuilder()
    builder.add(0, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 30})
    found = impossible(chakrasim.simulate(builder.build(), ranks=8, machine="hgx-h100-8"))
    assert found == (706.2, 429.5)


# -- loads ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, Context]]:
    """The plans of the runs of a test."""
    seen: list[tuple[Plan, Context]] = []
    resolve = chakrasim.simulator.session.resolve

    def note(use: Any, context: Context) -> Plan:
        plan = resolve(use, context)
        seen.append((plan, context))
        return plan

    monkeypatch.setattr("chakrasim.simulator.session.resolve", note)
    return seen


@pytest.mark.parametrize("topology", ["Ring", "Switch", "FullyConnected"])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree"])
@pytest.mark.parametrize("queues", [1, 2])
def test_loads_are_what_the_aware_network_carries(
    topology: str, algorithm: str, queues: int, planned: list[tuple[Plan, Context]]
) -> None:
    case = one(0, 100_003, (topology, 8, 10.0, 5.0), algorithms=(algorithm,))
    result = case.run(congestion="aware", fold=False, num_queues_per_dim=queues)
    assert result.links is not None
    (counted,) = loads.loads(*planned[0])
    by_turns = queues > 1 or algorithm == "doubleBinaryTree"
    if planned[0][0].chunks % 2 == 0 or not by_turns:
        assert sorted(counted[2].tolist()) == sorted(result.links.bytes.tolist())
    else:  # one chunk of either variant may be left out
        assert max(counted[2]) <= max(result.links.bytes)


def test_loads_of_groups_across_dimensions_are_what_the_aware_network_carries(
    planned: list[tuple[Plan, Context]],
) -> None:
    network = network_of(("Ring", 4, 10.0, 5.0), ("Switch", 2, 10.0, 5.0), ("FullyConnected", 3, 10.0, 5.0))
    members = [0, 5, 10, 23, 3]
    programs = [[collective(0, 6, 100_000, group="1")] if rank in members else [] for rank in range(24)]
    case = Case(programs, network, system_of("direct"), groups={"1": members})
    result = case.run(fold=False)
    assert result.links is not None
    counted = [(dim, load) for dim, _, own in loads.loads(*planned[0]) for load in own.tolist()]
    assert sorted(counted) == sorted(zip(result.links.dim.tolist(), result.links.bytes.tolist(), strict=True))


# -- groups across dimensions -----------------------------------------------------------------------------------------


def grouped(size: int, **options: Any) -> SimulationResult:
    """128 ranks, 8 to a node, in groups of neighbours and of those with the same place: all-reduces in both. The latter
    is of what the former have divided among them, as gradients."""
    rows = [tuple(range(first, first + size)) for first in range(0, 128, size)]
    columns = [tuple(range(first, 128, size)) for first in range(size)]
    groups = dict(enumerate([*rows, *columns], 1))
    programs = []
    for rank in range(128):
        row, column = 1 + rank // size, 1 + len(rows) + rank % size
        programs.append(
            [collective(0, 0, 1 << 22, group=str(row)), collective(1, 0, (1 << 29) // size, [0], group=str(column))]
        )
    network = network_of(("Switch", 8, 400.0, 500.0), ("Switch", 16, 50.0, 2000.0))
    return Case(programs, network, system_of("ring", "ring"), groups=groups, congestion="unaware").run(**options)


def test_groups_across_dimensions_are_said_to_pay_for_one() -> None:
    assert not any("dimensions" in warning for warning in grouped(8).warnings)
    expected = "group 33 and 3 more groups span several dimensions of the network: congestion-unaware messages pay"
    assert [warning.startswith(expected) for warning in grouped(4).warnings if "dimensions" in warning] == [True]
    assert any(warning.startswith(expected) for warning in grouped(4, check=True).warnings)
    assert not any("dimensions" in warning for warning in grouped(4, congestion="aware").warnings)


def test_the_ranking_of_layouts_is_why() -> None:
    unaware, aware = (
        [grouped(size, congestion=model).makespan_ns for size in (8, 4)] for model in ("unaware", "aware")
    )
    assert unaware[1] < unaware[0]
    assert aware[1] > aware[0]


def test_an_algorithm_over_all_ranks_spans_the_dimensions() -> None:
    def said(*algorithms: str) -> bool:
        case = one(0, 1 << 22, NODE, ("Switch", 4, 10.0, 0.0), algorithms=algorithms)
        return any("all ranks spans several dimensions" in warning for warning in case.run().warnings)

    assert said("oneRing")
    assert not said("ring", "ring")


def test_messages_that_take_no_time_at_all_are_impossible_too() -> None:
    # 3 bytes on 4 bytes per ns are cut off to 0 ns; a link of the ring carries 36 messages, of 27 ns.
    network = network_of(("Ring", 16, 4 * UNIT_BANDWIDTH, 0.0))
    system = system_of("direct", endpoint_delay=0, local_mem_bw=0, preferred_dataset_splits=1)
    case = Case([[collective(0, 6, 48)]], network, system, congestion="unaware")
    result = case.run()
    assert result.makespan_ns == 0
    assert impossible(result) == (45.0, pytest.approx(45.0 / 27, rel=1e-3))  # the least time that is told is 1 ns
