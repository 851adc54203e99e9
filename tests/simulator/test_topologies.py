"""The table of topologies: what it says is what the engine does, and a topology that states nothing is not folded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import Case, collective, differences, network_of, system_of

import chakrasim
from chakrasim.machine.topology import TOPOLOGIES, Symmetry
from chakrasim.simulator.kernels import layout as at

HERE = Path(__file__).parent


def _mesh(*arguments: str) -> dict[str, object]:
    """The mesh of `made_mesh.py`. Uncompiled: a route in the kernels would have them all compiled again."""
    paths = [str(HERE), str(Path(chakrasim.__file__).parent.parent)]
    environment = os.environ | {"CHAKRASIM_JIT": "0", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(HERE / "made_mesh.py"), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    figures: dict[str, object] = json.loads(run.stdout)
    return figures


def test_an_added_topology_without_a_stated_symmetry_runs_folded_as_it_runs_unfolded() -> None:
    assert _mesh() == {
        "folded": 4_884_800,
        "single": 4_884_800,
        "classes": 16,
        "reason": "every rank simulated: Mesh states no symmetry",
        "links": ["dim 0 0 -> 1", "dim 1 0 -> 4", "dim 0 1 -> 2"],
    }


def test_a_symmetry_that_a_topology_states_is_taken_at_its_word() -> None:
    # The mesh is no ring: this shows that nothing but the table decides.
    mesh = _mesh("as-a-ring")
    assert (mesh["folded"], mesh["single"], mesh["classes"]) == (2_930_880, 4_884_800, 1)


def test_the_engine_knows_the_topologies_by_their_numbers() -> None:
    assert {name: topology.number for name, topology in TOPOLOGIES.items()} == {
        "Ring": at.RING,
        "FullyConnected": at.FULLY_CONNECTED,
        "Switch": at.SWITCH,
    }


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_what_a_topology_states_is_true(name: str) -> None:
    # Sizes and latencies without a common factor, so that hops and turns show in the times.
    for congestion in ("aware", "unaware"):
        network = network_of((name, 6, 1.7, 35.0), ("Switch", 2, 0.9, 101.0))
        case = Case([[collective(0, kind, 6007)] for kind in (0,)], network, system_of("direct", "ring"))
        folded = case.run(congestion=congestion)
        assert differences(folded, case.run(congestion=congestion, fold=False)) == []
        assert len(folded.class_ranks) < 12 or TOPOLOGIES[name].symmetry is Symmetry.NONE


def test_every_list_of_topologies_is_the_table() -> None:
    expected = "one of " + ", ".join(TOPOLOGIES)
    asked = {"topology": ["Torus"], "npus_count": [4], "bandwidth": [1.0], "latency": [1.0]}
    with pytest.raises(chakrasim.InputError) as error:
        chakrasim.simulate([], network=asked, system=system_of())
    assert error.value.expected == expected
    dimension = {"topology": "Torus", "npus": 4, "bandwidth": "1 GB/s", "latency": "1 ns"}
    machine = {"network": [dimension], "collectives": {"splits": 1}}
    with pytest.raises(chakrasim.InputError) as error:
        chakrasim.simulate([], machine=machine)
    assert error.value.expected == expected
