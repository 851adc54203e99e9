"""Chakra traces that nobody recorded: made from a description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chakrasim.generator.collective import collective_job
    from chakrasim.generator.spec.file import load_spec
    from chakrasim.generator.transformer import generate_transformer, transformer_job

_HOMES = {
    "collective_job": "collective",
    "generate_transformer": "transformer",
    "load_spec": "spec.file",
    "transformer_job": "transformer",
}

__all__ = ["collective_job", "generate_transformer", "load_spec", "transformer_job"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim.generator' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"chakrasim.generator.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
