"""What users set: environment variables of the library that change its choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Settings:
    """What was set; 0 and empty mean that it was not."""

    max_channels: int = 0
    min_channels: int = 0
    nvls: bool = True
    nvls_channels: int = 0
    collnet: bool = False
    pat: int = 2


DEFAULT: Final = Settings()
"""Nothing set."""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """What the variables of an environment set."""
    return replace(DEFAULT, collnet=environment.get("NCCL_COLLNET_ENABLE", "0") == "1")
