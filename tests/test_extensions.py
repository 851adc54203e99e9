"""Algorithms and topologies of others, named in files: by module, or by an entry point of an installed package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chakrasim
from chakrasim.collectives import registry
from chakrasim.machine import Algorithm, load_system
from chakrasim.trace import TraceBuilder, write

SOURCE = Path(chakrasim.__file__).parent.parent

LINE = """
from chakrasim.machine.topologies import Topology, register

def route(here, to, members):
    return here, 0 if to > here else 1

def ends(owner, port, members):
    return owner, owner + 1 if port == 0 else owner - 1

register(Topology("Line", lambda members: 2, route, ends))
"""

SLOW_RING = """
from chakrasim.collectives import build, register

@register("slow", parameters={"times": 2})
def slow(request):
    from dataclasses import replace
    size = request.data_bytes * request.parameters["times"]
    return build("ring", replace(request, data_bytes=size, parameters={}))
"""


def _files(folder: Path, topology: str, algorithm: str) -> None:
    builder = TraceBuilder()
    builder.add(0, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 4096})
    write(folder / "w", [builder.build()] * 4)
    (folder / "machine.yaml").write_text(
        json.dumps(
            {
                "network": [{"topology": topology, "npus": 4, "bandwidth": "1 GB/s", "latency": "100 ns"}],
                "collectives": {"splits": 1, "endpoint-delay": "0 ns", "algorithms": {"all-reduce": algorithm}},
            }
        )
    )


def _run(
    folder: Path, *arguments: str, path: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    paths = [str(SOURCE), *([str(path)] if path else [])]
    command = [sys.executable, "-m", "chakrasim", "simulate", "w", "--machine", "machine.yaml", *arguments]
    own = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own, timeout=120, check=False)


def _makespan(folder: Path, *arguments: str, **keys: Any) -> int:
    run = _run(folder, "--json", "-", *arguments, **keys)
    assert run.returncode == 0, run.stderr
    makespan: int = json.loads(run.stdout)["makespan_ns"]
    return makespan


def test_a_machine_file_names_a_topology_and_an_algorithm_of_a_module(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "line.py").write_text(LINE)
    (own / "slow_ring.py").write_text(SLOW_RING)
    times = {}
    for topology, algorithm in (
        ("Ring", "slow_ring:slow"),
        ("Ring", "slow_ring:slow(times=1)"),
        ("line:Line", "slow_ring:slow(times=1)"),
    ):
        _files(tmp_path, topology, algorithm)
        times[topology, algorithm] = _makespan(tmp_path, path=own)
    # Six steps on a ring of 1,024 bytes and 100 ns; on a line of 4 the way back has three links.
    assert times["Ring", "slow_ring:slow"] == 6 * (2048 + 100)
    assert times["Ring", "slow_ring:slow(times=1)"] == 6 * (1024 + 100)
    assert times["line:Line", "slow_ring:slow(times=1)"] > 6 * (1024 + 100)


@pytest.mark.slow
def test_a_changed_route_is_compiled_anew(tmp_path: Path) -> None:
    # What changes is a constant in another file: the line gets the link from its last member to its first.
    (tmp_path / "line.py").write_text(
        "from shape_of_line import CLOSED\n"
        + LINE.replace("0 if to > here", "0 if CLOSED or to > here").replace("owner + 1 if", "(owner + 1) % members if")
    )
    _files(tmp_path, "line:Line", "ring")
    times = []
    for closed in (False, True):
        (tmp_path / "shape_of_line.py").write_text(f"CLOSED = {closed}\n")
        times.append(_makespan(tmp_path, path=tmp_path))
    assert times[0] > times[1] == 6 * (1024 + 100)


@pytest.mark.slow
def test_an_installed_package_names_its_own_by_entry_points(tmp_path: Path) -> None:
    own = tmp_path / "site"
    declared = own / "lines-1.0.dist-info"
    declared.mkdir(parents=True)
    (own / "line.py").write_text(LINE)
    (own / "slow_ring.py").write_text(SLOW_RING)
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1.0\n")
    groups = "[chakrasim.topologies]\nLine = line\n[chakrasim.algorithms]\nslow = slow_ring:slow\n"
    (declared / "entry_points.txt").write_text(groups)
    _files(tmp_path, "line:Line", "slow_ring:slow")
    by_module = _makespan(tmp_path, path=own)
    _files(tmp_path, "Line", "slow")
    assert _makespan(tmp_path, path=own) == by_module


def test_a_declared_name_may_begin_like_one_with_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tmp_path / "lines-1.0.dist-info"
    declared.mkdir()
    (tmp_path / "directed_ring.py").write_text(SLOW_RING.replace('"slow"', '"direct2d"'))
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text("[chakrasim.algorithms]\ndirect2d = directed_ring\n")
    named = {"preferred-dataset-splits": 1, "all-reduce-implementation": ["direct2d(times=3)"]}
    assert load_system(named).implementations == {"all-reduce": (Algorithm("direct", 2),)}
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert load_system(named).implementations == {"all-reduce": (Algorithm("direct2d", None, (("times", 3),)),)}
    finally:
        registry._ALGORITHMS.pop("direct2d", None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("topology", "algorithm", "expected"),
    [
        (
            "nowhere:Line",
            "ring",
            "machine.yaml: line 1: $.network[0].topology: the module nowhere is not found; found 'nowhere:Line'; "
            "install its package, or name its folder in PYTHONPATH",
        ),
        (
            "line:Lyne",
            "ring",
            "$.network[0].topology: the module line has no topology of this name; found 'line:Lyne'; expected a "
            "topology that it registers: Line",
        ),
        ("json:loads", "ring", "the module json has no topology of this name; found 'json:loads'; expected a topology "
            "that it registers: there is none"),
        ("slow_ring:slow", "ring", "the module slow_ring has no topology of this name"),
        ("broken:Line", "ring", "the module broken cannot be imported: ZeroDivisionError: division by zero"),
        ("../line:Line", "ring", "unknown topology; found '../line:Line'; expected module:name, with a module that"),
        (
            "Ring",
            "line:Line",
            "$.collectives.algorithms.all-reduce[0]: the module line has no algorithm of this name; found 'line:Line'; "
            "expected an algorithm that it registers: there is none",
        ),
        ("Ring", "sloow", "unknown algorithm; found 'sloow'; expected one of ring, "),
        ("Ring", "slow_ring:slow(speed=3)", "has no such parameter; found 'speed'; expected one of times"),
    ],
)  # fmt: skip
def test_bad_names_are_refused_in_one_line(topology: str, algorithm: str, expected: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "line.py").write_text(LINE)
    (own / "slow_ring.py").write_text(SLOW_RING)
    (own / "broken.py").write_text("1 / 0\n")
    _files(tmp_path, topology, algorithm)
    run = _run(tmp_path, path=own)
    assert run.returncode == 2
    assert expected in run.stderr and "Traceback" not in run.stderr


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "line.py").write_text(LINE)
    _files(tmp_path, "line:Line", "ring")
    run = _run(tmp_path)
    assert run.returncode == 2 and "the module line is not found" in run.stderr
