"""Values that Python's prompt shows by their figures, in one line, and a notebook as small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chakrasim.errors import InputError
from chakrasim.text.layout import Section, html_text

if TYPE_CHECKING:
    import pandas


class Shown:
    """Base of classes whose values have too much in them to be printed whole."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        # A dataclass would make its own.
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def _in_short(self) -> dict[str, str]:
        """What matters most, with units, by what it is."""
        raise NotImplementedError

    def _tables(self) -> list[Section]:
        """What a notebook shows."""
        return [Section(type(self).__name__, rows=tuple(self._in_short().items()), left=(0, 1))]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(' '.join(pair) for pair in self._in_short().items())})"

    def _repr_html_(self) -> str:
        return html_text(self._tables())


def data_frame(data: Any, columns: list[str] | None = None) -> pandas.DataFrame:
    """Rows or columns as a data frame. Raises InputError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise InputError("a data frame needs pandas", remedy="pip install chakrasim[frames]") from None
    return pandas.DataFrame(data, columns=columns)
