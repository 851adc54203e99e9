"""From a folder of PyTorch's traces to Chakra traces: doctor, link, compare the ranks, convert."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from chakrasim.converter.folder.across_ranks import RankInRun, compare_ranks
from chakrasim.converter.folder.group_numbers import GroupNumbers
from chakrasim.converter.linked.api import write_converted
from chakrasim.diagnosis.checks.findings import Severity
from chakrasim.diagnosis.doctor import Diagnosis, judge
from chakrasim.diagnosis.examination import ExaminedRank, examine
from chakrasim.diagnosis.files.discover import Survey, require_ranks, survey
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.errors import InputError
from chakrasim.files.whole_folder import check_folder, whole_folder
from chakrasim.files.workers import how_many, run_all
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import LinkedTrace, shares_by_step
from chakrasim.trace.linked.parts import begun, put_away, taken_up

PREFIX, GROUPS, REPORT = "chakra", "comm_group.json", "report.json"
FORMAT = "chakrasim-trace/1"

Progress = Callable[[str, int, int], None]
PathLike = str | os.PathLike[str]
T = TypeVar("T")


@dataclass(frozen=True)
class RankReport:
    """What became of one rank: its files, the nodes in its trace, ``LinkedTrace.counts``, and warnings;
    ``delay_only_share`` as in `RankFacts`."""

    rank: int
    host: str
    device: str
    nodes: int
    start_offset_ns: int
    clock_shift_ns: int
    steps: tuple[int, ...]
    collectives: int
    delay_only_share: dict[str, float]
    counts: dict[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class TraceReport:
    """What `trace_directory` wrote, and what it met.

    Attributes
    ----------
    output: the folder; ``prefix`` and ``comm_group`` are what ``simulate`` takes.
    ranks: one report for each, ascending.
    groups: the process groups of all ranks.
    diagnosis: what the doctor found.
    warnings: what could not be compared or converted as it is.
    """

    output: str
    ranks: tuple[RankReport, ...]
    groups: GroupNumbers
    diagnosis: Diagnosis
    warnings: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """The prefix of the traces."""
        return os.path.join(self.output, PREFIX)

    @property
    def comm_group(self) -> str:
        """The file of communicator groups."""
        return os.path.join(self.output, GROUPS)

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of the run without a trace."""
        return tuple(sorted(set(range(self.groups.world_size)) - {rank.rank for rank in self.ranks}))

    @property
    def replayable(self) -> str:
        """What ``replay_recorded`` takes: the prefix, or with ranks missing the first one's file, which runs by
        itself."""
        return f"{self.prefix}.{self.ranks[0].rank}.et" if self.missing else self.prefix

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON: the contents of ``report.json``."""
        return {
            "format": FORMAT,
            "world_size": self.groups.world_size,
            "verdict": self.diagnosis.verdict,
            "findings": [finding.to_mapping() for finding in self.diagnosis.findings],
            "process_groups": {str(number): self._group(number) for number in self.groups.names},
            "ranks": [self._rank(rank) for rank in self.ranks],
            "warnings": list(self.warnings),
        }

    def _group(self, number: int) -> dict[str, Any]:
        members = self.groups.members.get(number, tuple(range(self.groups.world_size)))
        return {"name": self.groups.names[number], "ranks": list(members)}

    def _rank(self, rank: RankReport) -> dict[str, Any]:
        content = {field.name: getattr(rank, field.name) for field in fields(rank)}
        return content | {
            "steps": list(rank.steps), "warnings": list(rank.warnings), "file": f"{PREFIX}.{rank.rank}.et"
        }  # fmt: skip


@dataclass(frozen=True)
class _Task:
    """The work on one rank: link ``files``, keep the linked trace in ``store``, and convert it to ``target``."""

    files: RankFiles
    step: int | str
    lenient: bool
    store: Path
    target: Path


@dataclass(frozen=True, eq=False)
class _Linked:
    """One rank, linked: an outline (a linked trace of one row, with all communication), and what was said."""

    outline: LinkedTrace
    warnings: tuple[str, ...]


def trace_directory(
    directory: PathLike,
    output: PathLike,
    *,
    map_file: PathLike | None = None,
    step: int | str = "all",
    lenient: bool = False,
    strict: bool = False,
    force: bool = False,
    jobs: int | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
    told: Callable[[Diagnosis], None] | None = None,
) -> TraceReport:
    """Make Chakra traces of all ranks whose PyTorch traces are in ``directory``.

    Raises InputError for what cannot be used; then nothing is written. It is long because eleven parameters are.

    Parameters
    ----------
    directory:
        The folder of host and device traces, plain or gzip; what belongs together is found as `discover` says.
    output:
        The folder for ``chakra.RANK.et``, ``comm_group.json`` (ASTRA-sim's communicator groups) and ``report.json``:
        whole or not at all.
    map_file:
        JSON that says which files belong to which rank, instead of finding out.
    step:
        Keep ``ProfilerStep#N`` only; "all" keeps everything.
    lenient:
        Of damaged files use what is intact, with a warning that counts what was lost, instead of raising InputError.
    strict:
        Treat every warning as an error, those of the doctor too.
    force:
        Replace earlier results in ``output``.
    jobs, memory_limit:
        Most processes, and bytes of memory that they may take together.
    progress, told:
        Called with what is done, how often so far, and how often in all; and with the doctor's diagnosis.
    """
    check_folder(output, force=force)
    found = survey(directory, map_file=map_file)
    ranks = require_ranks(found, directory)
    processes = how_many([[path for path in (r.host, r.device) if path] for r in ranks], jobs, memory_limit)
    with whole_folder(output, force=force) as folder:
        work = folder / "work"
        work.mkdir()
        tasks = [_Task(one, step, lenient, work / str(one.rank), folder / f"{PREFIX}.{one.rank}.et") for one in ranks]
        diagnosis, known = _examine(found, tasks, directory, progress)
        if told is not None:
            told(diagnosis)
        _refuse_findings(diagnosis, directory)
        notes = Notes()
        notes.warn(*(str(finding) for finding in diagnosis.findings if finding.severity == Severity.WARNING))
        notes.refuse(strict)
        linked = _link_all(tasks, known, processes, progress)
        reports, groups, warnings = _convert_all(tasks, linked, processes, progress)
        work.rmdir()
        notes.warn(*warnings, *(text for one in reports for text in one.warnings))
        notes.refuse(strict)
        report = TraceReport(os.fspath(output), reports, groups, diagnosis, tuple(warnings))
        _write(folder / GROUPS, groups.to_mapping())
        _write(folder / REPORT, report.to_mapping())
    return report


def _examine(
    found: Survey, tasks: Sequence[_Task], directory: PathLike, progress: Progress | None
) -> tuple[Diagnosis, dict[int, _Linked]]:
    """The doctor's diagnosis, and the ranks that are linked by it, put away."""
    examined: list[ExaminedRank] = []
    linked_by_rank: dict[int, _Linked] = {}
    for task in tasks:
        one, linked = examine(task.files, found.ranks)
        # What the doctor links can be used unless other rows than it looks at are asked for, or damage is refused.
        intact = task.lenient or all(finding.code != "damaged-file" for finding in one.findings)
        if linked is not None and one.outline is not None and task.step == "all" and intact:
            put_away(task.store, linked)
            linked_by_rank[task.files.rank] = _Linked(one.outline, one.said)
        del linked
        examined.append(one)
        if progress is not None:
            progress("examined", len(examined), len(tasks))
    return judge(found, examined, os.fspath(directory)), linked_by_rank


def _link_all(
    tasks: Sequence[_Task], known: dict[int, _Linked], processes: int, progress: Progress | None
) -> list[_Linked]:
    """All ranks linked, those that are not known already in several processes."""
    rest = [task for task in tasks if task.files.rank not in known]
    more = _collect(run_all(_link, rest, processes), len(rest), progress, "linked")
    by_rank = known | {task.files.rank: one for task, one in zip(rest, more, strict=True)}
    return [by_rank[task.files.rank] for task in tasks]


def _collect(results: Generator[T, None, None], total: int, progress: Progress | None, stage: str) -> list[T]:
    collected = []
    with closing(results):
        for result in results:
            collected.append(result)
            if progress is not None:
                progress(stage, len(collected), total)
    return collected


def _refuse_findings(diagnosis: Diagnosis, directory: PathLike) -> None:
    """Stop at traces that the doctor calls unusable."""
    found = [finding for finding in diagnosis.findings if finding.severity == Severity.ERROR]
    if not found:
        return
    codes = list(dict.fromkeys(finding.code for finding in found))
    more = f" (and {', '.join(codes[1:])}: see chakrasim doctor)" if len(codes) > 1 else ""
    raise InputError(
        "the doctor calls these traces unusable",
        file=directory,
        found=f"{codes[0]}: {found[0].cause}{more}",
        remedy=f"{found[0].remedy}; or name the ranks that can be used with --map FILE",
    )


def _link(task: _Task) -> _Linked:
    """Link one rank and put the linked trace away; what comparing ranks needs of it is returned."""
    notes = Notes()
    files = task.files
    linked = link(files.host, files.device, rank=files.rank, step=task.step, lenient=task.lenient, notes=notes)
    put_away(task.store, linked)
    return _Linked(begun(linked), notes.warnings)


def _convert_all(
    tasks: Sequence[_Task], linked: Sequence[_Linked], processes: int, progress: Progress | None
) -> tuple[tuple[RankReport, ...], GroupNumbers, list[str]]:
    """Compare the ranks and convert each; reports of all, their groups, and what could not be compared."""
    aligned = align([one.outline for one in linked])
    views, groups, warnings = compare_ranks(aligned)
    given = list(zip(tasks, aligned, views, strict=True))
    made = _collect(run_all(_convert, given, processes), len(tasks), progress, "converted")
    reports = tuple(
        _report(task, one, outline, nodes, said)
        for task, one, outline, (nodes, said) in zip(tasks, linked, aligned, made, strict=True)
    )
    return reports, groups, warnings


def _convert(given: tuple[_Task, LinkedTrace, RankInRun]) -> tuple[int, tuple[str, ...]]:
    """Convert a linked trace that was put away, with what comparing the ranks has added to its outline."""
    task, outline, view = given
    parts = taken_up(task.store)
    whole = replace(
        parts.outline,
        communication=outline.communication,
        start_offset_ns=outline.start_offset_ns,
        clock_shift_ns=outline.clock_shift_ns,
        counts=outline.counts,
    )
    notes = Notes()
    nodes = write_converted(task.target, replace(parts, outline=whole), rank=view, notes=notes)
    shutil.rmtree(task.store)
    return nodes, notes.warnings


def _report(task: _Task, linked: _Linked, outline: LinkedTrace, nodes: int, said: tuple[str, ...]) -> RankReport:
    steps = outline.annotations.step
    return RankReport(
        rank=task.files.rank,
        host=os.fspath(task.files.host or ""),
        device=os.fspath(task.files.device or ""),
        nodes=nodes,
        start_offset_ns=outline.start_offset_ns,
        clock_shift_ns=outline.clock_shift_ns,
        steps=tuple(dict.fromkeys(steps[steps >= 0].tolist())),
        collectives=len(outline.communication),
        delay_only_share=shares_by_step(outline),
        counts=outline.counts,
        warnings=(*linked.warnings, *said),
    )


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
