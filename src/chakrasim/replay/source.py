"""What is to be replayed: Chakra traces, or PyTorch's traces, which are linked and converted on the way."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chakrasim.converter.retarget.job_input import PathLike, job_of, load_job
from chakrasim.errors import InputError
from chakrasim.machine.groups import GroupSource, load_groups
from chakrasim.notes import Notes
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.file import is_job
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType

if TYPE_CHECKING:
    from chakrasim.converter.folder.across_ranks import RankInRun
    from chakrasim.diagnosis.files.pairing import RankFiles
    from chakrasim.trace.linked.columns import LinkedTrace


def load_source(
    source: PathLike | Job | Trace, comm_group: GroupSource | None, notes: Notes, lenient: bool, uneven: bool
) -> Job:
    """The job that ``source`` names.

    A path is, in this order: a prefix of Chakra traces (``PREFIX.ranks.json``, ``PREFIX.RANK.et``), a folder of
    PyTorch's traces, a Chakra or PyTorch trace of one rank, or a prefix of PyTorch's traces (``PREFIX.RANK.json``,
    ``PREFIX-RANK.json.gz``, ...). Raises InputError for anything else. ``lenient``: of damaged files, use what is
    intact; ``uneven``: all-to-alls of PyTorch's traces keep the size that each rank states, not the largest.
    """
    if isinstance(source, Job):
        return source
    if isinstance(source, Trace):
        return job_of([source], load_groups(comm_group, notes).members)
    path = os.fspath(source)
    if _has_chakra(path):
        return load_job(path, comm_group=comm_group, lenient=lenient, notes=notes)
    if os.path.isdir(path):
        inside = [name[: -len(".0.et")] for name in sorted(os.listdir(path)) if name.endswith(".0.et")]
        if len(inside) == 1:
            return load_job(os.path.join(path, inside[0]), comm_group=comm_group, lenient=lenient, notes=notes)
        from chakrasim.diagnosis.files.discover import discover

        return _converted(discover(path, notes=notes), comm_group, notes, lenient, uneven)
    if os.path.isfile(path):
        return _one_file(path, comm_group, notes, lenient, uneven)
    found = _numbered(path)
    if not found:
        raise InputError(
            "there are no traces under this name",
            file=path,
            expected="PREFIX.0.et, PREFIX.ranks.json, PREFIX.0.json, a trace, or a folder of PyTorch's traces",
            remedy="give the path up to, but without, the rank",
        )
    return _sniffed(found, path, comm_group, notes, lenient, uneven)


def _has_chakra(path: str) -> bool:
    return is_job(path) or any(os.path.exists(f"{path}{ending}") for ending in (".0.et", ".0.et.gz"))


def _one_file(path: str, comm_group: GroupSource | None, notes: Notes, lenient: bool, uneven: bool) -> Job:
    from chakrasim.diagnosis.files.sniff import FileKind, sniff
    from chakrasim.trace.chakra.files import read_trace

    kind = sniff(Path(path)).kind
    if kind in (FileKind.HOST, FileKind.DEVICE):
        return _sniffed([Path(path)], path, comm_group, notes, lenient, uneven)
    return job_of([read_trace(path, lenient=lenient, notes=notes)], load_groups(comm_group, notes).members)


def _numbered(prefix: str) -> list[Path]:
    folder, stem = os.path.split(prefix)
    pattern = re.compile(re.escape(stem) + r"[^0-9]{0,2}[0-9]{1,6}([^0-9].*)?\.json(\.gz)?", re.ASCII)
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return []
    return [Path(folder, name) for name in names if pattern.fullmatch(name)]


def _sniffed(
    paths: Sequence[Path], source: str, comm_group: GroupSource | None, notes: Notes, lenient: bool, uneven: bool
) -> Job:
    from chakrasim.diagnosis.files.pairing import pair
    from chakrasim.diagnosis.files.sniff import sniff

    ranks, findings = pair([sniff(path) for path in paths])
    notes.warn(*(str(finding) for finding in findings))
    if not ranks:
        raise InputError("none of these files is a trace of PyTorch", file=source, found=", ".join(map(str, paths[:3])))
    return _converted(ranks, comm_group, notes, lenient, uneven)


def _converted(
    files: Sequence[RankFiles], comm_group: GroupSource | None, notes: Notes, lenient: bool, uneven: bool
) -> Job:
    """PyTorch's traces of all ranks, linked, compared and converted in memory."""
    from chakrasim.converter.folder.across_ranks import compare_ranks
    from chakrasim.converter.linked.api import convert
    from chakrasim.linker.api import link

    wrong = next((at for at, one in enumerate(files) if one.rank != at), None)
    if wrong is not None and len(files) > 1:
        raise InputError(
            f"the trace of rank {wrong} is missing",
            found=f"ranks {', '.join(str(one.rank) for one in files[:8])}",
            remedy="add it: all ranks take part in a replay",
        )
    linked = [link(one.host, one.device, rank=one.rank, lenient=lenient, notes=notes) for one in files]
    views, groups, said = compare_ranks(linked)
    notes.warn(*said)
    if uneven:
        views = [_own_sizes(one, view) for one, view in zip(linked, views, strict=True)]
    traces = [convert(one, rank=view, notes=notes) for one, view in zip(linked, views, strict=True)]
    members = load_groups(comm_group, notes).members if comm_group is not None else groups.members
    return job_of(traces, members)


def _own_sizes(linked: LinkedTrace, view: RankInRun) -> RankInRun:
    entries = linked.communication
    own = (entries.operation == int(CollectiveType.ALL_TO_ALL)) & (entries.size_bytes >= 0)
    return replace(view, size_bytes=np.where(own, entries.size_bytes, view.size_bytes))
