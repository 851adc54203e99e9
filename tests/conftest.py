"""What all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of reference data beside the project; tests that need it are skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("the shared reference data are not here")
    return SHARED


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--slow`` runs the tests that take minutes as well."""
    parser.addoption("--slow", action="store_true", help="run tests that take minutes, too")


def pytest_configure(config: pytest.Config) -> None:
    """Made examples are the same in every run, so that a tree passes or fails; ``--slow`` looks for new ones.
    The machine may be busy: how long an example takes says nothing."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background, whose tests interrupt too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("ours", derandomize=not config.getoption("--slow"), deadline=None)
    settings.load_profile("ours")


def pytest_sessionstart() -> None:
    """Of two workers one compiles the engine's plain loop and that of flows alone, the other that of the flow network,
    instead of both compiling all."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker not in ("gw0", "gw1"):
        return
    import chakrasim as cs
    from chakrasim.generator import collective_job
    from chakrasim.simulator.flow.alone.patterns import pattern_flows

    job = collective_job("all_reduce", 1 << 20, 8)
    if worker == "gw1":
        cs.simulate(job, machine="h100", gpus=8)
        return
    cs.simulate(job, machine="hgx-h100-8")
    graph = cs.load_machine("h100", gpus=8).graph
    cs.run_flows(graph, pattern_flows("permutation:1KiB", 8, 1))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes unless it is asked for."""
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-all"))
