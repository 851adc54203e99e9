"""What users set: environment variables of the library that change its choices."""

from __future__ import annotations

from dataclasses import dataclass
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
