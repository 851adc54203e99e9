"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes unless it is asked for."""
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-all"))
