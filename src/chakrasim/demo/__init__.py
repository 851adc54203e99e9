"""A shipped training step (``STEP``, ``GROUPS``) and the machines on which ``python -m chakrasim.demo`` compares it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER = Path(__file__).parent

STEP: Final = _FOLDER / "step" / "step"
"""Prefix of the trace files, one per rank; ``chakrasim.demo.llm_step`` makes them."""

GROUPS: Final = _FOLDER / "step" / "groups.json"
"""The communicator groups of the traces."""

MACHINES: Final = {
    "hgx-h100-16": "hgx-h100-16",
    **{name: str(_FOLDER / "machines" / f"{name}.yaml") for name in ("ring-16", "switch-16-half", "full-16")},
}
"""Machines of 16 ranks by name: a preset and the machine files in ``machines/``."""
