"""What an explanation says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.amounts import share_text, time_text
from chakrasim.text.shown import Shown

FAMILIES: Final = ("ranks", "links", "kinds", "op_classes", "modules")
CHANGES: Final = (0.01, 0.1, 0.5, -0.01, -0.1, -0.5)
"""Finite changes of all durations of a group that are answered."""


@dataclass(frozen=True)
class PathPiece:
    """A piece of the critical path: what ``rank`` did for ``node`` (its id) from ``start_ns`` to ``end_ns``.

    ``waited_ns``: how long the node itself had waited for other ranks before.
    """

    rank: int
    node: int
    name: str
    kind: str
    start_ns: int
    end_ns: int
    waited_ns: int


@dataclass(frozen=True)
class SlowRank:
    """A rank that computes longer than the median of the ``equals`` ranks with as many nodes, itself among them."""

    rank: int
    compute_ns: float
    median_ns: float
    equals: int


@dataclass(frozen=True)
class Share:
    """A rank, link, kind of collective, class of operators or module.

    Attributes
    ----------
    total_ns:
        How long its nodes take together over all ranks; of a rank (or each of a class) what it computes. A collective
        counts once.
    on_path_ns:
        So much of the critical path is of its nodes; over all ranks these sum to the makespan.
    slack_ns:
        The least that any one of its nodes could take more without moving the end, of a rank's what it computes; None
        where there is none.
    waiting_ns:
        How long its nodes waited for other ranks, over all ranks.
    delay_cost_ns:
        Waiting, anywhere, that its nodes caused. Over all ranks these sum to the waiting.
    slower, faster:
        Change of the makespan per ns that is added to ``total_ns``, or taken away, in proportion to what each node
        takes. None where there is nothing to change.
    slower_until_ns, faster_until_ns:
        That holds up to so much; None: for ever, or to twice the time where the engine was asked.
    by_engine:
        Whether simulations with other durations agree, or have given the derivatives and how far they hold. Else they
        are those of the order in which events came.
    changes_ns:
        Change of the makespan for each of `CHANGES`; None, as the derivatives, of the many small rows of a large job.
    """

    name: str | int
    total_ns: float
    on_path_ns: int
    slack_ns: int | None
    waiting_ns: int
    delay_cost_ns: int
    slower: float | None
    faster: float | None
    slower_until_ns: float | None
    faster_until_ns: float | None
    by_engine: bool
    changes_ns: tuple[float, ...] | None

    def to_dict(self, key: str) -> dict[str, Any]:
        """Its JSON, its name under ``key``."""
        own = asdict(self)
        changes = own.pop("changes_ns")
        moved = None if changes is None else {f"{c:+.0%}": ns for c, ns in zip(CHANGES, changes, strict=True)}
        return {key: own.pop("name"), **own, "changes_ns": moved}


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """Why a job takes ``makespan_ns``: its critical path, whose pieces sum to that, and who takes part in it.

    ``slow_ranks``: those that compute more than 1 % longer than their equals, the slowest first.

    ``rank_classes`` int64[ranks]: of a folded job, which class of equal ranks each is in; ``ranks`` then has a row for
    each class. ``fixed_order``: messages do not contend, so changes within the break points leave their times alone.
    """

    makespan_ns: int
    path: tuple[PathPiece, ...]
    ranks: tuple[Share, ...]
    links: tuple[Share, ...]
    kinds: tuple[Share, ...]
    op_classes: tuple[Share, ...]
    modules: tuple[Share, ...]
    slow_ranks: tuple[SlowRank, ...] = ()
    fixed_order: bool = True
    rank_classes: NDArray[np.int64] | None = None
    warnings: tuple[str, ...] = field(default=())

    def _in_short(self) -> dict[str, str]:
        busiest = max(self.ranks, key=lambda row: row.on_path_ns, default=None)
        figures = {"makespan": time_text(self.makespan_ns), "pieces of the path": f"{len(self.path):,}"}
        if busiest is not None:
            figures[f"rank {busiest.name} on the path"] = share_text(busiest.on_path_ns, self.makespan_ns)
        return figures

    def to_dict(self) -> dict[str, Any]:
        """The figures, by the keys of the JSON."""
        return {
            "makespan_ns": self.makespan_ns,
            "path": [asdict(piece) for piece in self.path],
            **{
                family: [row.to_dict("rank" if family == "ranks" else "name") for row in getattr(self, family)]
                for family in FAMILIES
            },
            "slow_ranks": [asdict(one) for one in self.slow_ranks],
            "fixed_order": self.fixed_order,
            "rank_classes": None if self.rank_classes is None else self.rank_classes.tolist(),
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1) + "\n"
