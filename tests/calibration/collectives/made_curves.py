"""Folders of measurements whose times are the model's own, with constants that are known, and what is wrong."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chakrasim.calibration.collectives.design import describe
from chakrasim.calibration.measurements.curves import Curve, MachineRow, bus_factor
from chakrasim.collectives.libraries.model import Constants, estimate

SIZES = tuple(1 << power for power in range(10, 31))
ONE = MachineRow("one", "H100-SXM5-80GB", 8, "NVSwitch NVLink4", 450.0, "none", 0, 0.0, 0.0, "unknown")
MANY = MachineRow("many", "H100-SXM5-80GB", 8, "NVSwitch NVLink4", 450.0, "InfiniBand NDR", 8, 400.0, 400.0, "Intel")
Slower = Callable[[int], float]


@dataclass(frozen=True)
class Made:
    """A curve: its name, machine, collective, ranks and nodes, and by which factor each size takes longer."""

    name: str
    machine: MachineRow = ONE
    collective: str = "all_reduce"
    nranks: int = 8
    nodes: int = 1
    version: str = "2.27.7"
    env: str = ""
    slower: Slower = lambda size: 1.0
    sizes: Sequence[int] = SIZES
    constants: Mapping[str, float] | None = None
    repeats: int = 1
    spread: float = 1.0
    library: str = "NCCL"
    most_GBps: float = float("inf")
    """Bus bandwidth that is never exceeded."""

    def curve(self) -> Curve:
        """Without times."""
        sizes = np.array(self.sizes, np.int64)
        count = len(sizes)
        return Curve(
            self.name, "made", self.machine.name, self.machine.gpu, self.nodes, 8, self.nranks, self.library,
            self.version, self.collective, env=self.env, dtype="float", place=np.zeros(count, np.bool_), bytes=sizes,
            time_us=np.full(count, np.nan), low_us=np.full(count, np.nan), high_us=np.full(count, np.nan),
            repeats=np.zeros(count, np.int64),
        )  # fmt: skip

    def times(self, in_place: bool) -> list[float]:
        """What the model says of the machine's hardware, longer where it is to be."""
        even = {"alltoallv": "alltoall"}.get(self.collective, self.collective)
        one = describe(replace(self.curve(), env="", collective=even), row=self.machine)
        constants = Constants(self.constants or {})
        found = []
        for size in self.sizes:
            told = estimate(one.site, one.library, one.terms(size, in_place), size, constants)
            least = size * bus_factor(even, self.nranks) / self.most_GBps / 1e3
            found.append(max((told.fixed_ns + told.moving_ns) / 1e3 * self.slower(size), least))
        return found


def written(
    folder: Path, made: Sequence[Made], hide: Callable[[str, int], bool] = lambda curve, size: False, blank: str = ""
) -> Path:
    """The folder of some curves; times (and all that follows) of hidden points are ``blank``."""
    folder.mkdir(exist_ok=True)
    machines = {one.machine.name: one.machine for one in made}
    _write(folder / "curves.csv", [_curve(one) for one in made])
    _write(folder / "machines.csv", [_machine(row) for row in machines.values()])
    rows = []
    for one in made:
        for place in ("out", "in"):
            for size, time in zip(one.sizes, one.times(place == "in"), strict=True):
                row = {"curve": one.name, "place": place, "bytes": size, "time_us": f"{time:.6g}",
                       "time_lo_us": f"{time:.6g}", "time_hi_us": f"{time * one.spread:.6g}",
                       "n_meas": one.repeats}  # fmt: skip
                if hide(one.name, size):
                    row |= dict.fromkeys(("time_us", "time_lo_us", "time_hi_us", "n_meas"), blank)
                rows.append(row)
    _write(folder / "points.csv", rows)
    return folder


def holdout(path: Path, rows: Sequence[tuple[str, str, object]]) -> Path:
    """A file of points to be held out."""
    _write(path, [{"curve": curve, "place": place, "bytes": size} for curve, place, size in rows])
    return path


def _curve(one: Made) -> dict[str, object]:
    return {
        "curve": one.name, "source": "made", "machine": one.machine.name, "gpu": one.machine.gpu, "nodes": one.nodes,
        "gpus_per_node": 8, "nranks": one.nranks, "library": one.library, "version": one.version,
        "collective": one.collective, "algo": "auto", "proto": "auto", "env": one.env, "dtype": "float",
    }  # fmt: skip


def _machine(row: MachineRow) -> dict[str, object]:
    return {
        "machine": row.name, "gpu": row.gpu, "gpus_per_node": row.gpus_per_node, "intra_node": row.intra_node,
        "intra_GBps_per_gpu_per_dir": row.intra_GBps_per_gpu_per_dir, "network": row.network,
        "nics_per_node": row.nics_per_node, "nic_Gbps": row.nic_Gbps, "node_GBps_per_dir": row.node_GBps_per_dir,
        "cpu": row.cpu, "basis": "made",
    }  # fmt: skip


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
