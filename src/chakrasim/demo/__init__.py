"""What ``chakrasim demo`` works on: PyTorch's traces of a real run, a made training step, and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER = Path(__file__).parent

STEP: Final = _FOLDER / "step" / "step"
"""Prefix of the trace files, one per rank; ``docs/make_demo_step.py`` makes them."""

GROUPS: Final = _FOLDER / "step" / "groups.json"
"""The communicator groups of the traces."""

MACHINES: Final = {
    "hgx-h100-16": "hgx-h100-16",
    **{name: str(_FOLDER / "machines" / f"{name}.yaml") for name in ("ring-16", "switch-16-half", "full-16")},
}
"""Machines of 16 ranks by name: a preset and the machine files in ``machines/``."""

TRACES: Final = _FOLDER / "traces"
"""PyTorch's host and device traces of a real run of 4 ranks; ``docs/record_demo.py`` made them."""

NETWORKS: Final = {
    name: str(_FOLDER / "machines" / f"{name}.yaml") for name in ("ethernet-100m-4", "ethernet-1g-4", "ethernet-10g-4")
}
"""Machine files of 4 ranks by name."""
