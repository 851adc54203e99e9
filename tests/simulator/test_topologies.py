"""Topologies: what each says is what the engine does, one that states nothing is not folded, a wrong one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cases import Case, collective, differences, network_of, system_of
from made_mesh import MESH

import chakrasim
from chakrasim import jit
from chakrasim.machine.topologies import BUILT_IN, TOPOLOGIES, Symmetry, Topology, register
from chakrasim.machine.topologies.check import check

TOPOLOGIES.pop("Mesh")  # known inside these tests only

KEYS = {"preferred_dataset_splits": 1, "collective_optimization": "baseline", "endpoint_delay": 0, "local_mem_bw": 0}
OWN = [topology.name for topology in BUILT_IN]


@pytest.fixture(autouse=True)
def known() -> Iterator[Callable[[Topology], str]]:
    """Registers a topology for one test, and the mesh for each."""
    before = dict(TOPOLOGIES)
    register(MESH)
    yield lambda topology: register(topology).name
    TOPOLOGIES.clear()
    TOPOLOGIES.update(before)


def _distance(a: int, b: int) -> int:
    return abs(a - b)


def _meshes(name: str = "Mesh", **keys: object) -> Case:
    return Case(
        [[collective(0, 0, 1 << 20)]], network_of(*[(name, 4, 1.0, 100.0)] * 2), system_of("ring", "ring", **KEYS)
    )


def test_an_added_topology_without_a_stated_symmetry_runs_folded_as_it_runs_unfolded() -> None:
    folded, single = _meshes().run(), _meshes().run(fold=False)
    assert folded.makespan_ns == single.makespan_ns == 4_884_800
    assert len(folded.class_ranks) == 16
    assert folded.fold_reason == "every rank simulated: Mesh states no symmetry"
    assert single.links is not None
    assert list(single.links.name)[:3] == ["dim 0 0 -> 1", "dim 1 0 -> 4", "dim 0 1 -> 2"]


def test_hops_that_a_topology_does_not_state_are_counted_along_its_route() -> None:
    # Ranks 0 and 3 of a line of 4 are 3 links of 100 ns apart: the ring's message back to its first member.
    mesh = Case([[collective(0, 0, 4)]], network_of(("Mesh", 4, 1.0, 100.0)), system_of("ring", **KEYS))
    ring = replace(mesh, network=network_of(("Ring", 4, 1.0, 100.0)))
    assert ring.run(congestion="unaware").makespan_ns < mesh.run(congestion="unaware").makespan_ns
    assert mesh.run(congestion="unaware").makespan_ns == _line_of_four_ns()


def _line_of_four_ns() -> int:
    """Six steps: rank r goes on when it has done its step and has the message of r - 1."""
    done = [0] * 4
    for _ in range(6):
        done = [max(done[r], done[r - 1] + (100 if r else 300)) for r in range(4)]
    return max(done)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_a_topology_called_by_address_runs_as_it_does_compiled_in(
    name: str, congestion: Any, known: Callable[[Topology], str]
) -> None:
    copied = known(replace(TOPOLOGIES[name], name=f"Copied{name}", hops=None))
    case = Case(
        [[collective(0, 3, 6007)]],
        network_of((name, 6, 1.7, 35.0), ("Ring", 2, 0.9, 101.0)),
        system_of("direct", "ring"),
    )
    copy = replace(case, network=network_of((copied, 6, 1.7, 35.0), ("Ring", 2, 0.9, 101.0)))
    for fold in (True, False):
        assert differences(case.run(congestion=congestion, fold=fold), copy.run(congestion=congestion, fold=fold)) == []


@pytest.mark.parametrize("name", OWN)
def test_what_a_topology_states_is_true(name: str) -> None:
    for members in (2, 3, 4, 5, 8, 23, 24, 25, 64, 1000):
        check(TOPOLOGIES[name], members)
    # Sizes and latencies without a common factor, so that hops and turns show in the times.
    for congestion in ("aware", "unaware"):
        network = network_of((name, 6, 1.7, 35.0), ("Switch", 2, 0.9, 101.0))
        case = Case([[collective(0, kind, 6007)] for kind in (0,)], network, system_of("direct", "ring"))
        folded = case.run(congestion=congestion)
        assert differences(folded, case.run(congestion=congestion, fold=False)) == []
        assert len(folded.class_ranks) < 12


WRONG = {
    "ROTATIONS is stated, but the route from 1 to 0 is not that from 0 to 3 moved": {"symmetry": Symmetry.ROTATIONS},
    "the route from 0 to 2 has 2 links, hops says 1": {"hops": lambda here, to, members: 1},
    "the route from 0 to 1 takes port 2 of member 0; there are 4 members with 2 ports each": {
        "route": lambda here, to, members: (here, 2)
    },
    "the route from 0 to 1 takes port 0 of member 1 at 0, but that link leads from 1 to 2": {
        "route": lambda here, to, members: (to, 0)
    },
    "the route from 0 to 2 comes to 0 a second time": {"route": lambda here, to, members: (here, here % 2)},
    "ZeroDivisionError: integer division or modulo by zero": {"route": lambda here, to, members: (here, to // 0)},
}


def test_a_number_of_members_that_cannot_be_is_said(known: Callable[[Topology], str]) -> None:
    def ports(members: int) -> int:
        raise ValueError("no mesh of four")

    name = known(replace(MESH, name="Wrong", ports=ports))
    with pytest.raises(chakrasim.InputError, match=r"topology Wrong of 4 members cannot be: no mesh of four"):
        _meshes(name).run()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_topology_that_does_not_do_what_it_says_is_refused(wrong: str, known: Callable[[Topology], str]) -> None:
    name = known(replace(MESH, name="Wrong", **WRONG[wrong]))  # type: ignore[arg-type]
    with pytest.raises(chakrasim.InputError) as error:
        _meshes(name).run()
    assert error.value.message == f"topology Wrong of 4 members does not do what it says: {wrong}"
    assert error.value.place == "$.topology[0]"


def test_a_wrong_link_that_the_check_does_not_meet_ends_the_run(known: Callable[[Topology], str]) -> None:
    def route(here: int, to: int, members: int) -> tuple[int, int]:
        return here, 7 if here == 138 and to == 139 else 0 if to > here else 1

    wrong = replace(MESH, name="Wrong", route=route)
    check(wrong, 1000)
    case = Case([[collective(0, 0, 1 << 20)]], network_of((known(wrong), 1000, 1.0, 100.0)), system_of("ring", **KEYS))
    with pytest.raises(chakrasim.InputError, match="a topology's route takes a link that is not there"):
        case.run()


@pytest.mark.skipif(not jit.enabled(), reason="nothing is compiled")
def test_a_route_that_cannot_be_compiled_is_refused(known: Callable[[Topology], str]) -> None:
    name = known(replace(MESH, name="Wrong", hops=lambda here, to, members: _distance(here, to)))
    with pytest.raises(chakrasim.InputError, match="topology Wrong cannot be compiled: ") as error:
        _meshes(name).run()
    assert error.value.remedy == "CHAKRASIM_JIT=0 runs it uncompiled; functions that it calls need @numba.njit"


def test_a_name_is_registered_once() -> None:
    assert register(MESH) is MESH
    with pytest.raises(ValueError, match="a topology named 'Ring' is registered already"):
        register(replace(MESH, name="Ring"))


def test_every_list_of_topologies_is_the_table() -> None:
    expected = "one of " + ", ".join(TOPOLOGIES) + ", or module:name"
    asked = {"topology": ["Torus"], "npus_count": [4], "bandwidth": [1.0], "latency": [1.0]}
    with pytest.raises(chakrasim.InputError) as error:
        chakrasim.simulate([], network=asked, system=system_of())
    assert error.value.expected == expected
    dimension = {"topology": "Torus", "npus": 4, "bandwidth": "1 GB/s", "latency": "1 ns"}
    machine = {"network": [dimension], "collectives": {"splits": 1}}
    with pytest.raises(chakrasim.InputError) as error:
        chakrasim.simulate([], machine=machine)
    assert error.value.expected == expected
