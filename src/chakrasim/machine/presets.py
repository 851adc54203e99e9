"""Machines shipped as data: one machine file each, with its source written in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from chakrasim.config.section import no_such

_FOLDER = Path(__file__).parent / "presets"
_LARGE = ("hgx-h100-1024-400g", "hgx-h100-1024-200g", "hgx-h100-1024-100g")
_ORDER = ("hgx-h100-2", "hgx-h100-4", "hgx-h100-8", "hgx-h100-16", "hgx-h100-32", *_LARGE, "dgx-v100-4")
_AS_PUBLISHED = "astra-sim-"


@cache
def preset_names() -> tuple[str, ...]:
    """The names of all presets, small machines of a family first; what repeats another's figures comes last."""
    names = sorted(file.stem for file in _FOLDER.glob("*.yaml"))
    rest = sorted((name for name in names if name not in _ORDER), key=lambda name: name.startswith(_AS_PUBLISHED))
    return (*(name for name in _ORDER if name in names), *rest)


def preset_text(name: str) -> str:
    """The machine file of a preset. Raises :class:`chakrasim.InputError` for an unknown name."""
    if name not in preset_names():
        raise no_such("no such preset", name, preset_names())
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
