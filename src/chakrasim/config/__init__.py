"""Configuration files: tables of keys, and YAML and JSON read by them with the place of every value."""

from __future__ import annotations

from pathlib import Path

_SCHEMAS = Path(__file__).parent / "schemas"


def schema_text(name: str) -> str:
    """The JSON schema for a kind of file, for editors: "machine", "device", "transformer", "astra-sim-system",
    "astra-sim-network" or "astra-sim-memory". Raises :class:`chakrasim.InputError` for another name."""
    known = sorted(file.stem for file in _SCHEMAS.glob("*.json"))
    if name not in known:
        from chakrasim.config.section import no_such

        raise no_such("no such schema", name, known)
    return (_SCHEMAS / f"{name}.json").read_text(encoding="utf-8")
