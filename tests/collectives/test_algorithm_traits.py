"""What an algorithm does follows from what it states, never from its name."""

from __future__ import annotations

from typing import Any

import pytest

import chakrasim
from chakrasim import InputError
from chakrasim.collectives import registered
from chakrasim.collectives.algorithms import double_binary_tree, ring
from chakrasim.collectives.registry import Traits, register, traits_of
from chakrasim.machine import load_machine
from chakrasim.notes import Notes
from chakrasim.trace import Trace, TraceBuilder

NETWORK = {"topology": ["Ring", "Ring"], "npus_count": [4, 4], "bandwidth": [1.0, 1.0], "latency": [100.0, 100.0]}


def all_reduce() -> Trace:
    builder = TraceBuilder()
    builder.add(0, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20})
    return builder.build()


def finish(*algorithms: str, **options: Any) -> list[int]:
    """When the ranks of a torus of 4 x 4 have finished an all-reduce of a MiB."""
    system = {"endpoint-delay": 0, "preferred-dataset-splits": 2, "local-mem-bw": 0, "scheduling-policy": "LIFO"}
    system |= {"collective-optimization": "baseline", "all-reduce-implementation": list(algorithms)}
    result = chakrasim.simulate(
        all_reduce(),
        ranks=16,
        system=system,
        network=NETWORK,
        congestion="aware",
        protocol=chakrasim.Protocol(2),
        **options,
    )
    return result.finish_ns.tolist()


@pytest.mark.parametrize("name", ["astep", "onestep", "one", "oneRing2", "direct7", "directly", "doubleBinaryTree2"])
def test_a_ring_by_any_name_runs_as_a_ring(name: str) -> None:
    with registered(name, ring.schedule):
        assert finish(name, name) == finish("ring", "ring")


def test_an_algorithm_says_that_it_spans_all_ranks() -> None:
    with registered("mine", ring.schedule, spans_all_ranks=True):
        assert finish("mine") == finish("oneRing")
        assert finish("mine") != finish("ring", "ring")


def test_an_algorithm_says_that_its_variants_alternate() -> None:
    with registered("mine", double_binary_tree.schedule, alternates=True):
        assert finish("mine", "mine") == finish("doubleBinaryTree", "doubleBinaryTree")


@pytest.mark.parametrize("name", ["onestep", "mine"])
def test_machine_files_go_by_what_is_stated(name: str) -> None:
    dimension = {"topology": "Ring", "npus": 4, "bandwidth": "1 GiB/s", "latency": "1 ns"}
    machine: dict[object, object] = {
        "network": [dimension, dimension],
        "collectives": {"splits": 1, "algorithms": {"all-reduce": name, "all-gather": [name]}},
    }
    with registered(name, ring.schedule, spans_all_ranks=True):
        lists = load_machine(machine, Notes()).system.implementations
        assert {key: len(algorithms) for key, algorithms in lists.items()} == {"all-reduce": 1, "all-gather": 1}
    with registered(name, ring.schedule), pytest.raises(InputError, match="does not fit the network"):
        load_machine(machine, Notes())


def test_other_traits_under_a_known_name_are_refused() -> None:
    with registered("mine", ring.schedule):
        register("mine", ring.schedule)
        with pytest.raises(ValueError, match="registered already"):
            register("mine", ring.schedule, spans_all_ranks=True)


def test_the_traits_of_the_built_in_algorithms() -> None:
    assert traits_of("oneDirect") == traits_of("oneHalvingDoubling") == traits_of("oneRing") == Traits(True, False)
    assert traits_of("doubleBinaryTree") == Traits(False, True)
    assert traits_of("ring") == traits_of("direct") == traits_of("halvingDoubling") == Traits()
