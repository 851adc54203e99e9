"""Published figures that ours stand beside, from ``published.yaml``, which names their sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any


@cache
def published(whose: str) -> dict[str, Any]:
    """A section of the file: its ``source``, and figures."""
    import yaml

    found = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))[whose]
    return {**found, "source": found["source"].strip()}
