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
