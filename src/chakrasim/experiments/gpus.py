"""ASTRA-sim's validation on V100 and H100: all-reduces of NCCL, each number of GPUs predicted from the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.design import design_of
from chakrasim.calibration.collectives.levels import fit_levels
from chakrasim.calibration.collectives.own import constants_of
from chakrasim.calibration.measurements.csv_folder import read_folder
from chakrasim.calibration.measurements.csv_rows import BLANKS, read_csv
from chakrasim.collectives.libraries.model import estimate, size_classes
from chakrasim.collectives.libraries.settings import PROTOCOLS
from chakrasim.collectives.libraries.tables import nccl_table, nccl_versions
from chakrasim.errors import InputError
from chakrasim.experiments.published import published
from chakrasim.experiments.result import BYTES, COUNT, PER_CENT, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.notes import Notes
from chakrasim.progress import Progress, told
from chakrasim.text.amounts import plural
from chakrasim.validation.scoreboard.api import SHIPPED
from chakrasim.validation.scoreboard.predictions import CLASSES, pooled_curve

MACHINE, KIND = "h100_sxm", "all_reduce"
NAME: Final = "shipped H100"
COLUMNS: Final = ("machine", "gpus", "link_GBps", "size_bytes", "time_us")
CHANNELS: Final = "channels"
"""A column that may be left out: channels of NCCL in the rings, as its log counts them."""
LINK_GBPS, LINK_CHANNELS, MOST_CHANNELS = 25.0, 2, 24
"""Channels that NCCL takes where nobody says: two on an NVLink, up to 24 (V100, A100, H100; nccl-model.md, 2)."""
CHUNK_BYTES: Final = 2 << 20
"""Of a channel with Simple, which goes round for each GPU before the next begins (nccl-model.md, 1 and 4)."""
LARGE: Final = 128 << 20
Row = tuple[int, float, int, float, int]
"""GPUs, GB/s of links, bytes, us, channels."""
POINTS: Final = (("machine", WORD), ("GPUs", COUNT), ("type", WORD), ("size", BYTES), ("measured", SECONDS),
                 ("predicted", SECONDS), ("error", PER_CENT))  # fmt: skip


def run(data: str | os.PathLike[str] | None, *, progress: Progress | None = None) -> Experiment:
    """The experiment; ``data``: CSV with `COLUMNS` and, if known, `CHANNELS`, all-reduces by rings: ``link_GBps`` is
    what a GPU's NVLinks in the rings have in each direction."""
    theirs = published("wiki")
    own = _read(os.fspath(data)) if data is not None else {}
    points = [*_shipped(progress), *(point for name, rows in own.items() for point in _by_a_line(name, rows))]
    large = tuple(point for point in points if int(point[3] or 0) >= LARGE)
    groups = dict.fromkeys((str(point[0]), int(point[1] or 0)) for point in points)
    classes = Table("Mean error by size, each number of GPUs predicted from the others",
                    (("machine", WORD), ("GPUs", COUNT), ("points", COUNT), *((name, PER_CENT) for name in CLASSES)),
                    tuple(_by_class(points, *group) for group in groups))  # fmt: skip
    return Experiment(
        "wiki-gpus",
        "How near do predictions come to all-reduces of V100 and H100, when their number of GPUs is left out of "
        "the fit?",
        (
            *((f"{name}, {gpus} GPUs", _verdict(large, name, gpus)) for name, gpus in groups),
            *((f"{name}, all", _mean_of(classes, name)) for name in dict.fromkeys(name for name, _ in groups)),
        ),
        (classes, Table("128 MiB and more", POINTS, large, against=("measured", "predicted")), _theirs(theirs["gpus"])),
        (
            "the H100's times ship with the package (NVIDIA's aiconfigurator, NCCL 2.27.3, another board than "
            "the wiki's); NCCL chooses algorithms, by the switch for eight GPUs and 16 bits",
            "weights of the model are fitted to all other machines, the H100's constants to all its collectives on the "
            "other numbers of GPUs",
            *(["times of --data: an all-reduce takes a time of its own, and what a ring sends over a share of "
               "its links; both are fitted to the other numbers of GPUs of the machine. Rounds of a ring that follow "
               f"one on the other wait for a hop, {_hop_us():g} us as NCCL's tables say; nothing of that is fitted"]
              if own else []),
        ),
        (
            "the wiki's own points: they are plots without a licence, and ship with nobody; give readings of "
            "yours with --data. Its errors are those of a simulation against sizes that cannot be read, undefined",
            *([] if own else ["V100: no measured all-reduce of one has a licence to ship"]),
        ),
        theirs["source"],
    )  # fmt: skip


def _shipped(progress: Progress | None) -> Iterator[tuple[Cell, ...]]:
    """All-reduces of the shipped H100, each number of GPUs by constants that its other numbers gave."""
    measured = read_folder(SHIPPED, Notes())
    curves = tuple(one for one in measured.curves if pooled_curve(one, measured.machines.get(one.machine)))
    design, _ = design_of(replace(measured, curves=curves))
    known = ~np.isnan(design.log_time)
    groups, group = design.labels([one.group for one in design.curves])
    wanted = {one.group for one in design.curves if one.curve.machine == MACHINE and one.kind == KIND}
    own = known & np.isin(group, [groups.index(one) for one in wanted])
    ranks = np.array([one.site.nranks for one in design.curves])[design.curve]
    machine = np.array([one.curve.machine == MACHINE for one in design.curves])[design.curve]
    all_reduce = np.array([one.kind == KIND for one in design.curves])[design.curve]
    model = fit_levels(design.some(known & ~machine)).model("the other machines")
    for count in told(np.unique(ranks[own]).tolist(), lambda one: f"H100 without {one} GPUs", progress):
        constants = constants_of(design.some(own & (ranks != count)), model)
        for point in np.flatnonzero(own & all_reduce & (ranks == count)).tolist():
            one, row = design.curves[design.curve[point]], int(design.row[point])
            size, place = int(one.curve.bytes[row]), bool(one.curve.place[row])
            found = estimate(one.site, one.library, one.terms(size, place), size, constants, model).times_us[0]
            yield _point(NAME, count, one.curve.dtype, size, float(np.exp(design.log_time[point])), found)


def _by_a_line(machine: str, rows: list[Row]) -> Iterator[tuple[Cell, ...]]:
    """Each number of GPUs by a time and a share of the links that fit its others best, by relative errors, beside what
    is known of NCCL's rings: the blocks of a channel begin a round when the last message of the one before has come."""
    gpus, link, size, time, channels = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    moved = 2 * (gpus - 1) / gpus * size / link / 1e3  # GB/s are bytes per ns
    known = _hop_us() * np.ceil(size / (channels * gpus * CHUNK_BYTES))
    terms = np.stack([np.ones(len(gpus)), moved], axis=1)
    for count in np.unique(gpus).tolist():
        hidden = gpus == count
        shown = terms[~hidden] / time[~hidden, None], 1 - (known / time)[~hidden]
        at, *_ = np.linalg.lstsq(*shown, rcond=None)
        for row in np.flatnonzero(hidden).tolist():
            found = float(terms[row] @ at + known[row])
            yield _point(machine, int(count), "", int(size[row]), float(time[row]), found)


def _hop_us() -> float:
    """Of a ring's step over NVLink with Simple, in the newest of NCCL's tables."""
    return nccl_table(nccl_versions()[-1]).hop["nvlink"]["ring"][PROTOCOLS.index("Simple")]


def _channels(link_GBps: float) -> int:
    """Of rings where nobody says."""
    return max(LINK_CHANNELS, min(MOST_CHANNELS, int(LINK_CHANNELS * link_GBps / LINK_GBPS)))


def _point(machine: str, gpus: int, dtype: str, size: int, measured_us: float, found_us: float) -> tuple[Cell, ...]:
    error = 100 * (found_us / measured_us - 1)
    return machine, gpus, dtype, size, measured_us / 1e6, found_us / 1e6, error


def _by_class(points: list[tuple[Cell, ...]], machine: str, gpus: int) -> tuple[Cell, ...]:
    mine = [point for point in points if point[:2] == (machine, gpus)]
    sized: list[list[float]] = [[] for _ in CLASSES]
    for point, which in zip(mine, size_classes(np.array([point[3] for point in mine], np.int64)), strict=True):
        sized[int(which)].append(abs(float(point[-1] or 0)))
    return machine, gpus, len(mine), *(sum(errors) / len(errors) if errors else None for errors in sized)


def _verdict(large: tuple[tuple[Cell, ...], ...], machine: str, gpus: int) -> str:
    errors = [abs(float(point[-1] or 0)) for point in large if point[:2] == (machine, gpus)]
    if not errors:
        return "no point of 128 MiB or more"
    mean = sum(errors) / len(errors)
    return f"mean {mean:.2f} %, largest {max(errors):.2f} % of {len(errors)} points of 128 MiB and more"


def _mean_of(classes: Table, machine: str) -> str:
    """Of the largest sizes: of each number of GPUs, then of these, so that each counts as much."""
    own = [float(row[-1]) for row in classes.rows if row[0] == machine and isinstance(row[-1], float)]
    return f"mean {sum(own) / len(own):.2f} %, each number of GPUs alike" if own else "no point of 128 MiB or more"


def _theirs(errors: dict[str, dict[int, float]]) -> Table:
    rows = tuple((system, gpus, error) for system, counts in errors.items() for gpus, error in counts.items())
    columns = (("machine", WORD), ("GPUs", COUNT), ("geometric mean error", PER_CENT))
    return Table("Published: ASTRA-sim against NCCL's rings", columns, rows)


def _read(path: str) -> dict[str, list[Row]]:
    """The rows of each machine. Raises InputError."""
    table = read_csv(path, COLUMNS, f"a CSV file with the columns {', '.join(COLUMNS)}")
    columns = {name: table.texts(name) for name in (*COLUMNS, CHANNELS)}
    found: dict[str, list[Row]] = {}
    for row, machine in enumerate(columns["machine"]):
        gpus, size = (table.whole(row, name, columns[name][row], low) for name, low in (("gpus", 2), ("size_bytes", 1)))
        link, time = (table.amount(row, name, columns[name][row]) for name in ("link_GBps", "time_us"))
        for name, value in (("link_GBps", link), ("time_us", time)):
            if not 1e-6 <= value <= 1e15:
                wrong = "out of range" if value == value else "blank"
                table.fail(row, name, wrong, columns[name][row], "1e-6 to 1e15")
        if machine == NAME:
            table.fail(row, "machine", "the name of what ships with the package", machine, "another name")
        said = columns[CHANNELS][row]
        channels = _channels(link) if said.lower() in BLANKS else table.whole(row, CHANNELS, said, 1, 1024)
        found.setdefault(machine, []).append((gpus, link, size, time, channels))
    for machine, rows in found.items():
        sizes: dict[int, set[int]] = {}
        for count, _, size, *_ in rows:
            sizes.setdefault(count, set()).add(size)
        if len(sizes) < 2 or min(map(len, sizes.values())) < 2:
            told_of = ", ".join(f"{count} GPUs: {plural(len(of), 'size')}" for count, of in sorted(sizes.items()))
            raise InputError("no number of GPUs can be left out", file=path, place=machine,
                             found=told_of, expected="two, of two sizes each")  # fmt: skip
    return found
