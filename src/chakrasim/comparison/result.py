"""What a comparison says: the causes of the difference in order, which sum to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chakrasim.comparison.sides import Side
from chakrasim.files.picture import Plotted
from chakrasim.text.amounts import share_text, time_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import data_frame

if TYPE_CHECKING:
    import pandas

FORMAT: Final = "chakrasim-comparison/1"
"""Changes with the meaning of a key, not with the version of the program."""
_TOP: Final = 12


@dataclass(frozen=True)
class Cause:
    """A part of the difference.

    Attributes
    ----------
    group, name: what it is, as `chakrasim.comparison.parts.GROUPS` has it, and its name there.
    a_ns, b_ns: its time in each run.
    count_a, count_b: how often, per step; None where nobody says it.
    by: what it was aligned by; "" for what is in one run only, and for parts that are.
    kernels_a, kernels_b: of recorded runs, what the device ran, most time first.
    """

    group: str
    name: str
    a_ns: int
    b_ns: int
    count_a: float | None = None
    count_b: float | None = None
    by: str = ""
    kernels_a: tuple[str, ...] = ()
    kernels_b: tuple[str, ...] = ()

    @property
    def difference_ns(self) -> int:
        """How much longer B takes for it."""
        return self.b_ns - self.a_ns

    @property
    def only_in(self) -> str:
        """ "a" or "b" where the other run has nothing of it, else ""."""
        in_a, in_b = bool(self.count_a or self.a_ns), bool(self.count_b or self.b_ns)
        return "" if in_a == in_b else "a" if in_a else "b"


@dataclass(frozen=True)
class CountedBoth:
    """What has no share of the time of its own, such as a kind of collective: how often, and its mean time, or None."""

    name: str
    count_a: float
    count_b: float
    mean_a_ns: float | None
    mean_b_ns: float | None


@dataclass(frozen=True, eq=False)
class Comparison(Plotted):
    """The outcome of ``chakrasim.compare``.

    Attributes
    ----------
    a, b: the runs.
    causes: the largest difference first; their differences sum to `difference_ns`.
    counted: what else differs, how often and how long.
    notes: what could not be compared one by one, and what was left out.
    """

    a: Side
    b: Side
    causes: tuple[Cause, ...]
    counted: tuple[CountedBoth, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def difference_ns(self) -> int:
        """How much longer B takes."""
        return self.b.total_ns - self.a.total_ns

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        """Time of each group in both runs."""
        found: dict[str, tuple[int, int]] = {}
        for cause in self.causes:
            a, b = found.get(cause.group, (0, 0))
            found[cause.group] = a + cause.a_ns, b + cause.b_ns
        return found

    def share(self, difference_ns: int) -> float | None:
        """A part of the whole difference, more than 1 where others make up for it; None where there is none."""
        return difference_ns / self.difference_ns if self.difference_ns else None

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim compare --json`` writes them."""
        whole = self.difference_ns
        return {
            "format": FORMAT,
            "a": _side(self.a),
            "b": _side(self.b),
            "difference_ns": whole,
            "ratio": round(self.b.total_ns / self.a.total_ns, 9) if self.a.total_ns else None,
            "groups": {name: {"a_ns": a, "b_ns": b, "difference_ns": b - a, "share": _rounded(self.share(b - a))}
                       for name, (a, b) in self.groups.items()},
            "causes": [self._cause(cause) for cause in self.causes],
            "counted": [dict(vars(one)) for one in self.counted],
            "notes": list(self.notes),
        }  # fmt: skip

    def _cause(self, cause: Cause) -> dict[str, Any]:
        said = {**vars(cause), "kernels_a": list(cause.kernels_a), "kernels_b": list(cause.kernels_b)}
        share = _rounded(self.share(cause.difference_ns))
        return said | {"difference_ns": cause.difference_ns, "share": share, "only_in": cause.only_in}

    def to_frame(self) -> pandas.DataFrame:
        """One row a cause, as a pandas data frame (the ``frames`` extra). Raises InputError without pandas."""
        rows = [{**self._cause(cause), "kernels_a": ", ".join(cause.kernels_a),
                 "kernels_b": ", ".join(cause.kernels_b)} for cause in self.causes]  # fmt: skip
        return data_frame(rows)

    def _in_short(self) -> dict[str, str]:
        first = {} if not self.causes else {"first cause": f"{self.causes[0].group}: {self.causes[0].name}"}
        return {
            "a": time_text(self.a.total_ns),
            "b": time_text(self.b.total_ns),
            "difference": f"{time_text(self.difference_ns)} ({share_text(self.difference_ns, self.a.total_ns)} of a)",
            **first,
        }

    def _tables(self) -> list[Section]:
        rows = tuple(
            (cause.group, cause.name, time_text(cause.a_ns), time_text(cause.b_ns), time_text(cause.difference_ns))
            for cause in self.causes[:_TOP]
        )
        return [*super()._tables(), Section("Causes", ("part", "what", "a", "b", "difference"), rows, left=(0, 1))]


def _side(side: Side) -> dict[str, Any]:
    return {"source": side.source, "kind": side.kind, "what": side.what, "rank": side.rank,
            "total_ns": side.total_ns, "facts": dict(side.facts)}  # fmt: skip


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 9)
