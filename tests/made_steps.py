"""Made pipelined training steps in the open straggler format, and what they take by plain recursion.

The rules stand here a second time, each with the operation it is about, for 1F1B schedules.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FC, BC, FS, FR, BS, BR = (
    f"{way}-{what}"
    for what, way in (
        ("compute", "forward"), ("compute", "backward"), ("send", "forward"), ("recv", "forward"),
        ("send", "backward"), ("recv", "backward"),
    )
)  # fmt: skip
AG, RS, REST, LN, EM = (
    "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce", "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
)  # fmt: skip
CLIP, OPT = "optimizer-clip-main-grad", "optimizer"
Op = tuple[int, int, str, int]
"""dp rank, stage, kind, sequence"""


class Made:
    """``steps`` steps of ``dp`` replicas of ``pp`` stages with ``mb`` micro-batches; seconds, by chance."""

    def __init__(
        self, dp: int, pp: int, mb: int, steps: int, seed: int, *, overlap: bool = False, dsp: int = 1
    ) -> None:
        self.dp, self.pp, self.mb, self.dsp, self.overlap = dp, pp, mb, dsp, overlap
        self.shared = dp * dsp > 1
        self.ids = [3 * step + 5 for step in range(steps)]
        rng = np.random.default_rng(seed)
        self.own = {step: {op: float(rng.uniform(0.05, 1.0)) for op in self.ops()} for step in self.ids}
        for duration in self.own.values():
            for op in duration:
                duration[op] *= 1.0 if op[2] in (FC, BC) else 0.2

    def ops(self) -> list[Op]:
        found: list[Op] = []
        for d in range(self.dp):
            for s in range(self.pp):
                counts = {FC: self.mb, BC: self.mb, "gc": 1, LN: 1, CLIP: 1, OPT: 1, EM: int(s in (0, self.pp - 1))}
                counts |= {FS: self.mb * (s < self.pp - 1), BR: self.mb * (s < self.pp - 1)}
                counts |= {FR: self.mb * (s > 0), BS: self.mb * (s > 0), AG: 1, RS: 1, REST: int(self.overlap)}
                found += [(d, s, kind, i) for kind, count in counts.items() for i in range(count)]
        return found

    def order(self, s: int) -> list[tuple[str, int]]:
        """The computations of a stage: warm-up, one forward and one backward by turns, the rest."""
        ahead = min(self.pp - 1 - s, self.mb)
        turns = [(kind, i + ahead * (kind == FC)) for i in range(self.mb - ahead) for kind in (FC, BC)]
        return [(FC, i) for i in range(ahead)] + turns + [(BC, i) for i in range(self.mb - ahead, self.mb)]

    def before(self, op: Op) -> list[Op]:
        """What an operation waits for on its own stage."""
        d, s, kind, i = op
        order = self.order(s)
        here = [(d, s, *each) for each in order]
        names: list[tuple[str, int]] = []
        if kind in (FC, BC):
            at = order.index((kind, i))
            names += order[at - 1 : at] if at else []
            names += [(FR, i)] if kind == FC and s > 0 else []
            names += [(BR, i)] if kind == BC and s < self.pp - 1 else []
            names += [(AG, 0)] if kind == FC and i == 0 and self.shared else []
        if kind in (FS, FR, BS, BR, AG, RS):
            names += [(kind, i - 1)] if i else []
        if kind in (FS, BS):
            names.append((FC if kind == FS else BC, i))
        if kind in (FR, BR) and i:
            names.append((FC if kind == FR else BC, i - 1))
        if kind in (BR, BS) and i == 0 and order.index((BC, 0)) >= 2:
            names.append(order[order.index((BC, 0)) - 2])
        if kind == RS and self.shared:
            names.append((AG, 0))
            names += [(BC, self.mb - 1)] if self.overlap else []
        gradients = [] if not self.shared else [REST] if self.overlap else [RS]
        tail = ["gc", LN, *([EM] if s in (0, self.pp - 1) else []), *gradients, CLIP, OPT]
        if kind in tail:
            at = tail.index(kind)
            names += [(tail[at - 1], 0)] if at else [order[-1]]
            names += [(RS, 0)] if kind == LN and self.overlap and self.shared else []
        assert here
        return [(d, s, *each) for each in names]

    def meeting(self, op: Op) -> list[Op]:
        """Who starts together with an operation."""
        d, s, kind, i = op
        peer = {FS: (s + 1, FR), FR: (s - 1, FS), BS: (s - 1, BR), BR: (s + 1, BS)}
        if kind in peer:
            return [op, (d, *peer[kind], i)]
        if kind == EM:
            return [(d, each, kind, i) for each in {0, self.pp - 1}]
        if kind in (AG, RS, REST) and self.shared:
            return [(each, s, kind, i) for each in range(self.dp)]
        if kind == CLIP:
            return [(r, each, kind, i) for r in range(self.dp) for each in range(self.pp)]
        return [op]

    def times(self, duration: dict[Op, float]) -> dict[Op, tuple[float, float]]:
        """When each operation begins and ends."""

        @cache
        def start(op: Op) -> float:
            return max((end(each) for each in self.before(op)), default=0.0)

        @cache
        def end(op: Op) -> float:
            return max(start(each) for each in self.meeting(op)) + duration[op]

        return {op: (start(op), end(op)) for op in self.ops()}

    def step_s(self, duration: dict[Op, float]) -> float:
        return max(end for op, (_, end) in self.times(duration).items() if op[2] == OPT)

    def columns(self, dtype: Any = np.float64) -> dict[str, Any]:
        """The recorded rows, shuffled."""
        rows = []
        for step, duration in self.own.items():
            for (d, s, kind, i), (start, end) in self.times(duration).items():
                chunk = 0 if kind in (FC, BC, AG, RS) else -1
                rows.append((d, s, 2 * (s * self.dp + d), step, kind, start, end - start, i, chunk, -1, s))
        order = np.random.default_rng(0).permutation(len(rows))
        names = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id", "gmc")
        found = {name: np.array([row[at] for row in rows])[order] for at, name in enumerate(names)}
        return found | {name: found[name].astype(dtype) for name in ("start_ts", "duration")}

    def meta(self) -> str:
        world = self.dp * self.pp * self.dsp
        sizes = f"dp_size: {self.dp}\npp_size: {self.pp}\ndsp_size: {self.dsp}\ntp_size: 1\nvpp_size: 1\n"
        return f"trial_name: made\nrun_id: 0\n{sizes}world_size: {world}\n"

    def write(self, folder: Path, columns: dict[str, Any] | None = None) -> tuple[str, str]:
        """The trace and its metadata as files."""
        write_table(folder / "t.parquet", self.columns() if columns is None else columns)
        (folder / "m.yaml").write_text(self.meta())
        return str(folder / "t.parquet"), str(folder / "m.yaml")


def write_table(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({name: pyarrow.array(each) for name, each in columns.items()}), path)
