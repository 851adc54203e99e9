"""Which traces are analysed: files, folders or traces in memory, each with its rank."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chakrasim.analysis.table.work import DeviceWork, device_work
from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.totals import checked, total
from chakrasim.trace.kineto.columns import KinetoTrace


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The trace of one rank, and its device work once somebody asks for it."""

    rank: int
    kineto: KinetoTrace

    @cached_property
    def work(self) -> DeviceWork:
        """What the devices did."""
        return device_work(self.kineto, self.rank)


TraceLike = str | os.PathLike[str] | KinetoTrace | RankTrace
"""One trace: a Kineto file, a folder of them, or a trace in memory."""
Traces = TraceLike | Sequence[TraceLike]


@lists_too
def open_traces(
    traces: Traces, *, rank: int | None = None, lenient: bool = False, notes: Notes | None = None
) -> list[RankTrace]:
    """The traces in the order of their ranks; only that of ``rank`` if one is given.

    The rank of a file is that of its ``distributedInfo``, else what its name says, else its place in the list, which
    is said in ``notes``. ``lenient`` is as in `read_kineto`. Raises InputError for files that cannot be read, for two
    traces of a rank, and if there is none.
    """
    listed = [traces] if isinstance(traces, (str, os.PathLike, KinetoTrace, RankTrace)) else list(traces)
    said = Notes() if notes is None else notes
    found = _number(list(_each(listed, said, lenient)), said)
    if not found:
        raise InputError("there is no trace to analyse", remedy="name Kineto files, or a folder of them")
    by_rank: dict[int, RankTrace] = {}
    for one in found:
        if one.rank in by_rank:
            raise InputError(
                f"two traces are of rank {one.rank}",
                file=one.kineto.source,
                found=by_rank[one.rank].kineto.source,
                remedy="name one file of each rank",
            )
        by_rank[one.rank] = one
    # So that no sum over ranks wraps, whatever is added up.
    checked(sum(total(one.kineto.dur_ns) for one in found), "the durations of all traces together, in ns,")
    if rank is not None and rank not in by_rank:
        known = ", ".join(map(str, sorted(by_rank)[:20]))
        raise InputError(f"there is no trace of rank {rank}", found=f"ranks {known}")
    return [by_rank[number] for number in sorted(by_rank) if rank is None or number == rank]


def _each(listed: list[TraceLike], notes: Notes, lenient: bool) -> Iterator[RankTrace | KinetoTrace]:
    from chakrasim.trace.kineto.read import read_kineto
    from chakrasim.trace.profiles.database import unpacked_once

    for one in listed:
        if isinstance(one, (RankTrace, KinetoTrace)):
            yield one
            continue
        for path in _kineto_files(Path(one), notes) if os.path.isdir(one) else (Path(one),):
            with unpacked_once():
                for process in _processes(path, lenient):
                    yield read_kineto(path, keep="all", lenient=lenient, notes=notes, process=process)


def _processes(path: Path, lenient: bool) -> Sequence[int | None]:
    """The processes whose traces a profile of another maker has, if there are several: each is a rank."""
    from chakrasim.trace.profiles.kinds import NSYS, profile_kind
    from chakrasim.trace.profiles.nsys import processes

    found = processes(str(path), lenient=lenient) if profile_kind(path) == NSYS else []
    return found if len(found) > 1 else (None,)


def _kineto_files(folder: Path, notes: Notes) -> Iterator[Path]:
    """The traces of a folder."""
    from chakrasim.diagnosis.files.names import copies_of_profiles
    from chakrasim.diagnosis.files.sniff import FileKind, sniff
    from chakrasim.trace.profiles.database import unpacked_once
    from chakrasim.trace.profiles.kinds import profile_kind

    files = sorted(path for path in folder.iterdir() if path.is_file())
    copies = copies_of_profiles(files)
    if copies:
        notes.note(
            f"{folder}: {len(copies)} files *.trace.json were left out: *.xplane.pb beside them has their events"
        )
    kinds = []
    for path in files:
        if path in copies or not (path.name.endswith((".json", ".json.gz")) or profile_kind(path)):
            continue
        with unpacked_once():
            kinds.append(sniff(path).kind)
            if kinds[-1] is FileKind.DEVICE:
                yield path
    if FileKind.DEVICE not in kinds:
        raise InputError("the folder holds no Kineto trace", file=folder, expected="files *.json or *.json.gz")
    # Host traces belong beside device traces: nothing is odd about them.
    odd = sum(kind not in (FileKind.DEVICE, FileKind.HOST) for kind in kinds)
    if odd:
        notes.warn(f"{folder}: {odd} JSON files are no Kineto traces and were left out")


def _number(found: list[RankTrace | KinetoTrace], notes: Notes) -> list[RankTrace]:
    known = [one.rank if isinstance(one, RankTrace) else _stated_rank(one) for one in found]
    taken = set(known)
    free = iter(number for number in range(len(found) + len(taken)) if number not in taken)
    result = []
    for one, number in zip(found, known, strict=True):
        if isinstance(one, RankTrace):
            result.append(one)
            continue
        if number < 0:
            number = next(free)
            notes.warn(f"{one.source}: neither the trace nor its name says its rank; taken as rank {number}")
        result.append(RankTrace(number, one))
    return result


def _stated_rank(kineto: KinetoTrace) -> int:
    """As the trace says, else its name; -1 if neither does."""
    from chakrasim.diagnosis.files.names import read_name
    from chakrasim.diagnosis.files.sniff import distributed_rank

    stated = distributed_rank(kineto.header)[0]
    if "process" in kineto.header:  # the name is that of several
        return stated
    return stated if stated >= 0 else read_name(os.path.basename(kineto.source)).rank
