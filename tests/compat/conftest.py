"""Small runs, as the tests of reports have them."""

from __future__ import annotations

from report.conftest import run

__all__ = ["run"]
