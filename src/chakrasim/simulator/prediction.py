"""``chakrasim.predict_collective``: how long one collective takes on a machine, alone, as nccl-tests would print it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chakrasim.collectives import Collective
from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, MESSAGES
from chakrasim.collectives.libraries.course import Course, course_of
from chakrasim.collectives.spelling import operation_of, plain
from chakrasim.errors import InputError, near
from chakrasim.machine import Machine, load_machine
from chakrasim.machine.board import board_names, load_board
from chakrasim.machine.site import Sites
from chakrasim.notes import Notes
from chakrasim.simulator.closed_form import collectives_alone

MESSAGE: Final = "sendrecv"
"""Pairs that send to each other: each rank one message, as nccl-tests' sendrecv_perf does."""
LATENCY: Final = "latency"
MachineLike = str | os.PathLike[str] | Mapping[object, object] | Machine
_MOST_BYTES: Final = 1 << 50


@dataclass(frozen=True)
class CollectivePrediction:
    """One collective, alone on its machine.

    Attributes
    ----------
    collective, ranks, size_bytes: what; the size as in the size column of nccl-tests.
    time_us, low_us, high_us: the time, and what nine measured ones of ten lie between.
    algbw_GBps, busbw_GBps: algorithm and bus bandwidth, in 10^9 bytes per second.
    algorithm, protocol, channels: what the library chooses; "" and 0 without a library.
    limited_by: NVLink, XGMI, PCIe, NIC, another link's name, the protocol, or latency where most of the time passes
        before bytes flow.
    """

    collective: str
    ranks: int
    size_bytes: int
    time_us: float
    low_us: float
    high_us: float
    algbw_GBps: float
    busbw_GBps: float
    algorithm: str
    protocol: str
    channels: int
    limited_by: str


def predict_collective(
    machine: MachineLike,
    collective: str,
    size_bytes: int,
    ranks: int | None = None,
    *,
    library: str | None = None,
    notes: Notes | None = None,
) -> CollectivePrediction:
    """The time of a collective with its interval. Raises InputError for what cannot be.

    Parameters
    ----------
    machine: a board such as h100, which gets as many GPUs as there are ranks, a preset, a machine file, or a Machine.
    collective: as people write it: all_reduce, AllReduce, alltoall, reduce-scatter, sendrecv.
    size_bytes: of the larger buffer of a rank, as in the size column of nccl-tests.
    ranks: the machine's first ones; default: all.
    library: that runs it, such as nccl-2.27.7; default: the machine's, else the newest of the GPUs' maker.
    """
    return predict_collectives(machine, collective, (size_bytes,), ranks, library=library, notes=notes)[0]


def predict_collectives(
    machine: MachineLike,
    collective: str,
    sizes: Sequence[int],
    ranks: int | None = None,
    *,
    library: str | None = None,
    notes: Notes | None = None,
) -> tuple[CollectivePrediction, ...]:
    """The same for several sizes."""
    name = collective_named(collective)
    _check_sizes(name, sizes)
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 2):
        raise InputError("a collective has 2 ranks or more", place="ranks", found=ranks, expected="2 or more")
    said = Notes() if notes is None else notes
    made = with_library(machine, ranks, library, said)
    count = made.ranks if ranks is None else ranks
    if count > made.ranks or count < 2:
        raise InputError("the ranks do not fit the machine", file=made.name or None, place="ranks", found=count,
                         expected=f"2 to {made.ranks:,}")  # fmt: skip
    if made.library is None:
        what = "no library runs its collectives: rings and messages without a protocol and without an interval"
        said.warn(f"{made.name or 'machine'}: {what}; name a library")
    sizes = _large_enough(name, sizes, count, said)
    if name == MESSAGE:
        return tuple(_message(made, size, count) for size in sizes)
    return tuple(_collective(made, name, sizes, count))


def collective_named(text: str) -> str:
    """The name that nccl-tests has for a collective as people write it. Raises InputError for one that is not known."""
    joined = "_".join(text.split())
    letters = plain(joined)
    if letters in ("sendrecv", "send", "recv"):
        return MESSAGE
    kind = KINDS.get(operation_of(joined))
    if kind is None or kind.type in (Collective.BARRIER, Collective.REDUCE_SCATTER_BLOCK):
        raise InputError("no such collective", place="collective", found=repr(text[:40]),
                         expected=", ".join(names()), remedy=near(letters, names()) or None)  # fmt: skip
    return kind.name


def names() -> tuple[str, ...]:
    """The collectives that can be predicted."""
    left_out = (Collective.BARRIER, Collective.REDUCE_SCATTER_BLOCK)
    return (*(kind.name for kind in KINDS.values() if kind.type not in left_out), MESSAGE)


def with_library(
    machine: MachineLike,
    ranks: int | None,
    library: str | None,
    notes: Notes,
) -> Machine:
    """The machine, of a board with at least so many GPUs, run by a library: the one asked for, its own, or its maker's.

    A machine without a library whose maker is not known stays without: rings of messages.
    """
    source: str | Mapping[object, object] | Machine
    source = os.fspath(machine) if isinstance(machine, os.PathLike) else machine
    gpus = None
    if isinstance(source, str) and source in board_names():
        gpus = None if ranks is None else max(ranks, load_board(source).gpus)
    made = load_machine(source, notes, gpus=gpus, library=library)
    if library is None and made.library is None and made.make.library:
        return load_machine(made, notes, library=made.make.library)
    if made.library is not None and made.calibrated is not None:
        fitted = made.calibrated.library
        if fitted and library is not None and fitted.partition("-")[2] not in ("", library.partition("-")[2]):
            notes.warn(f"{made.name or 'machine'}: its constants were fitted to {fitted}, not to {library}")
    return made


def _check_sizes(name: str, sizes: Sequence[int]) -> None:
    if not sizes:
        raise InputError("no sizes", place="sizes", expected="at least one")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MOST_BYTES:
            raise InputError("the size is none", place="size", found=size, expected="1 B to 1 PiB, whole bytes")


def _large_enough(name: str, sizes: Sequence[int], ranks: int, notes: Notes) -> Sequence[int]:
    """The sizes of which each rank has a byte at least, as nccl-tests makes the others empty."""
    meaning = KINDS_BY_NAME.get(name)
    least = ranks if meaning is not None and meaning.size_is_part else 1
    found = [size for size in sizes if size >= least]
    if not found:
        raise InputError("less than a byte for each rank", place="size", found=f"{max(sizes)} B",
                         expected=f"{least} B or more for {ranks} ranks")  # fmt: skip
    if len(found) < len(sizes):
        notes.warn(f"{len(sizes) - len(found)} sizes below {least} B are left out: less than a byte for each rank")
    return found


def _collective(machine: Machine, name: str, sizes: Sequence[int], ranks: int) -> list[CollectivePrediction]:
    meaning = KINDS_BY_NAME[name]
    found = []
    for size, alone in zip(sizes, collectives_alone(machine, name, sizes, ranks), strict=True):
        late = alone.startup_ns > alone.time_ns / 2
        limited = LATENCY if late else alone.limited_by
        if limited == "NVLink" and machine.make.inside == "pcie":
            limited = "PCIe"
        found.append(_prediction(name, size, ranks, alone.time_ns / 1e3, alone.course, limited,
                                 meaning.bus_factor(ranks)))  # fmt: skip
    return found


def _message(machine: Machine, size: int, ranks: int) -> CollectivePrediction:
    """Each rank sends to the next one. Alone on its links each message is that of one pair."""
    if machine.library is None:
        raise InputError("messages of pairs are predicted as a library sends them", file=machine.name or None,
                         remedy="name the library, such as nccl")  # fmt: skip
    site = Sites(machine.graph, machine.make, machine.library).of(range(ranks))
    own = machine.calibrated
    constants = None if own is None else own.of_collective("message", site)
    course = course_of(site, machine.library, "message", size, machine.settings, constants)
    moving_ns = size / course.rate
    limited = LATENCY if course.startup_ns > moving_ns else f"protocol {course.choice.protocol}"
    factor = MESSAGES[0].bus_factor(ranks)
    return _prediction(MESSAGE, size, ranks, (course.startup_ns + moving_ns) / 1e3, course, limited, factor)


def _prediction(
    name: str, size: int, ranks: int, time_us: float, course: Course | None, limited: str, factor: float
) -> CollectivePrediction:
    algbw = size / time_us / 1e3
    low, high = (course.low, course.high) if course is not None else (1.0, 1.0)
    choice = course.choice if course is not None else None
    algorithm, protocol, channels = (choice.algorithm, choice.protocol, choice.channels) if choice else ("", "", 0)
    return CollectivePrediction(
        name, ranks, size, time_us, time_us * low, time_us * high, algbw, algbw * factor, algorithm, protocol, channels,
        limited,
    )  # fmt: skip
