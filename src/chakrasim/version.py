"""Which chakrasim this is; the same stands in pyproject.toml."""

__version__ = "0.1.0"
