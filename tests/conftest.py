"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Generator
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


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Of several processes every second one looks for tests from the end: what it meets first others have not compiled,
    and later they find what each other compiled."""
    report = yield
    worker = getattr(collector.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if isinstance(collector, pytest.Session | pytest.Dir) and int(worker.removeprefix("gw")) % 2:
        report.result.reverse()
    return report


def pytest_collection_finish() -> None:
    """What is there by now stays: collecting garbage, which captured ranks begin with, looks at it no more."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what the tests of a folder leave, such as compiled kernels."""
    if nextitem is not None and nextitem.path.parent != item.path.parent:
        pytest_collection_finish()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, and of cases that are ``sampled`` all but the first, unless all are asked for."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: str(item.path))  # all processes have them in one order
    if config.getoption("--slow"):
        return
    reason, taken = "takes minutes: make test-all", Counter[tuple[Path, str]]()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        name = item.path, getattr(item, "originalname", item.name)
        taken[name] += 1
        if item.get_closest_marker("slow") or (sampled is not None and taken[name] > sampled.args[0]):
            item.add_marker(pytest.mark.skip(reason=reason))
