"""Whether a folder of traces can be trusted: each rank is read, examined and forgotten; then ranks are compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from chakrasim.diagnosis.checks.comparison import compare
from chakrasim.diagnosis.checks.delays import check_delays
from chakrasim.diagnosis.checks.device import check_device, partial_steps
from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.host import check_host, check_pair, profiler_steps
from chakrasim.diagnosis.checks.ranks import check_ranks
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, WARNING, Subject
from chakrasim.diagnosis.device_rows import DeviceRows
from chakrasim.diagnosis.facts import RankFacts, rank_facts
from chakrasim.diagnosis.files.discover import survey
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.errors import InputError
from chakrasim.linker.api import link_given
from chakrasim.linker.memory import give_back
from chakrasim.notes import Notes
from chakrasim.text import remedies
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.only_work import only_work
from chakrasim.trace.linked.columns import LinkedTrace, shares_by_step
from chakrasim.trace.linked.parts import begun

#: Findings after which it says nothing that there is nothing to link.
_NOTHING_THERE = ("empty-trace", "schedule-never-active")
#: Repairs after which nothing is missing.
_NO_CATEGORY = "but no category that says what they are"
_LIGHT = re.compile(r"rounded .* times|replaced invalid characters")

Progress = Callable[[int, int], None]
#: Takes a rank, its linked trace, and what was said of reading and linking it.
Taker = Callable[[RankFiles, LinkedTrace, Notes], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found.

    Attributes
    ----------
    directory: the folder, "" where files were given.
    ranks: the facts of every rank, ascending.
    findings: the worst first, then by rank.
    ignored: files of the folder that are no traces of the profiler, and why.
    """

    directory: str
    ranks: tuple[RankFacts, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        """0 trustworthy, 1 usable with warnings, 2 unusable."""
        worst = max((finding.severity for finding in self.findings), default=NOTE)
        return int(worst)

    @property
    def verdict(self) -> str:
        """The exit code in words."""
        return ("trustworthy", "usable, with warnings", "unusable")[self.exit_code]

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "directory": self.directory,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "ranks": [facts.to_mapping() for facts in self.ranks],
            "findings": [finding.to_mapping() for finding in self.findings],
            "ignored": [{"file": file, "why": why} for file, why in self.ignored],
        }


def diagnose(
    source: str | os.PathLike[str] | Sequence[RankFiles],
    *,
    map_file: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    taker: Taker | None = None,
) -> Diagnosis:
    """Examine the traces of a folder, or of ranks already found.

    ``progress(done, all)`` is called after each rank, ``taker`` with each rank that can be linked. A file that cannot
    be read is a finding. Raises InputError for a folder that cannot be listed and for a wrong ``map_file``.
    """
    if isinstance(source, (str, os.PathLike)):
        found = survey(source, map_file=map_file)
        directory, ranks, findings = os.fspath(source), found.ranks, list(found.findings)
        ignored = tuple((_short(path, found.directory), why) for path, why in found.ignored)
    else:
        directory, ranks, findings, ignored = "", tuple(source), [], ()
    if not ranks:
        findings.append(_nothing(directory, ignored))
    has_devices = any(files.device is not None for files in ranks)
    facts: list[RankFacts] = []
    linked: list[LinkedTrace] = []
    for number, files in enumerate(ranks):
        facts.append(_rank(files, findings, linked, taker, has_devices))
        if progress is not None:
            progress(number + 1, len(ranks))
    findings += compare(linked)
    findings += check_delays(facts)
    findings += check_ranks(facts, have_one_clock=any(len(trace.communication) for trace in linked))
    findings.sort(key=lambda finding: (-finding.severity, finding.ranks, finding.code))
    return Diagnosis(directory, tuple(facts), tuple(findings), ignored)


def _short(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _nothing(directory: str, ignored: Iterable[tuple[str, str]]) -> Finding:
    seen = "; ".join(f"{file}: {why}" for file, why in list(ignored)[:4])
    return Finding(
        "no-traces",
        ERROR,
        f"there are no traces of the PyTorch profiler in {directory or 'the list'}" + (f" ({seen})" if seen else ""),
        "there is nothing to work with",
        f"collect some: {remedies.PROFILE}",
    )


def _rank(
    files: RankFiles, findings: list[Finding], linked: list[LinkedTrace], taker: Taker | None, has_devices: bool
) -> RankFacts:
    """Read and examine one rank; what comparing it with others needs is appended to ``linked``. ``has_devices``: some
    rank has a device trace."""
    from chakrasim.trace.host.read import read_host
    from chakrasim.trace.kineto.read import read_kineto

    said = Notes()
    host = _read(read_host, files.host, files.rank, findings, said)
    trace = _read(read_kineto, files.device, files.rank, findings, said)
    if host is not None:
        findings += check_host(files.rank, _name(files.host), host)
    held: list[KinetoTrace] = []
    if trace is None:
        facts = rank_facts(files, host, None, ())
    else:
        facts = _examine(files, host, trace, findings)
        give_back(len(trace))
        held.append(only_work(trace))
        del trace
    findings += _missing_side(files, 0 if host is None or has_devices else profiler_steps(host))
    if host is not None or held:
        shares = _link(files, host, held, findings, linked, said, taker)
        facts = replace(facts, delay_only_share=shares)
    return facts


def _examine(files: RankFiles, host: HostTrace | None, trace: KinetoTrace, findings: list[Finding]) -> RankFacts:
    """Findings and facts of a device trace."""
    rows = DeviceRows(trace)
    subject = Subject(files.rank, _name(files.device), rows, host)
    findings += check_device(subject)
    findings += check_pair(subject, _name(files.host))
    return rank_facts(files, host, rows, partial_steps(rows))


def _link(
    files: RankFiles,
    host: HostTrace | None,
    held: list[KinetoTrace],
    findings: list[Finding],
    linked: list[LinkedTrace],
    said: Notes,
    taker: Taker | None,
) -> dict[str, float]:
    """Link the traces; that they cannot be linked is a finding, unless it is known already that one is empty. Returns
    `RankFacts.delay_only_share`."""
    try:
        whole = link_given(host, held, rank=files.rank, notes=said)
    except InputError as fault:
        if not any(finding.code in _NOTHING_THERE and files.rank in finding.ranks for finding in findings):
            names = tuple(path.name for path in (files.host, files.device) if path is not None)
            consequence, remedy = "they cannot be linked", fault.remedy or "record again"
            findings.append(Finding("unlinkable", ERROR, str(fault), consequence, remedy, (files.rank,), names))
        return {}
    linked.append(begun(whole))
    if taker is not None:
        taker(files, whole, said)
    return shares_by_step(whole)


def _name(path: Path | None) -> str:
    return "" if path is None else path.name


def _read(reader: Callable[..., T], path: Path | None, rank: int, findings: list[Finding], said: Notes) -> T | None:
    """The trace, or None and a finding; what was lost of a damaged one is a finding too."""
    if path is None:
        return None
    notes = Notes()
    try:
        trace = reader(path, lenient=True, notes=notes)
    except InputError as fault:
        findings.append(
            Finding(
                "unreadable-file",
                ERROR,
                str(fault),
                "the file is left out",
                fault.remedy or "record again",
                (rank,),
                (path.name,),
            )
        )
        return None
    findings += [_repaired(warning, path, rank) for warning in notes.warnings]
    said.add(notes)
    return trace


def _repaired(warning: str, path: Path, rank: int) -> Finding:
    """What a reader says of a file that it read nevertheless."""
    if _NO_CATEGORY in warning:
        return Finding(
            "events-without-category",
            WARNING,
            warning,
            "what they did is missing from all results: if kernels are among them, device time is",
            "export the trace with the categories of Kineto (kernel, gpu_memcpy, ...)",
            (rank,),
            (path.name,),
        )
    is_light = _LIGHT.search(warning) is not None
    return Finding(
        "repaired-file" if is_light else "damaged-file",
        NOTE if is_light else WARNING,
        warning,
        "nothing is lost by it" if is_light else "what is lost is missing from all results",
        "none is needed" if is_light else "record again; let only one process write each file",
        (rank,),
        (path.name,),
    )


def _missing_side(files: RankFiles, stepped: int) -> list[Finding]:
    """Findings for a rank of one trace; ``stepped``: profiler steps that the observer saw without any device trace."""
    if files.device is None:
        return [
            Finding(
                "no-device-trace",
                WARNING,
                f"rank {files.rank} has a host trace only ({_name(files.host)})",
                "there are no times and no kernels: only the graph of operators is known",
                f"record both: {remedies.PROFILE}",
                (files.rank,),
                (_name(files.host),),
            ),
            *([_never_active(files, stepped)] if stepped else []),
        ]
    if files.host is None:
        return [
            Finding(
                "no-host-trace",
                NOTE,
                f"rank {files.rank} has a device trace only ({_name(files.device)})",
                "times, kernels and synchronisation are known, tensors are not: no data dependencies between operators",
                f"record both: {remedies.OBSERVER}",
                (files.rank,),
                (_name(files.device),),
            )
        ]
    return []


def _never_active(files: RankFiles, stepped: int) -> Finding:
    return Finding(
        "schedule-never-active",
        WARNING,
        f"the observer saw {stepped:,} profiler steps, but there is no device trace: the profiler's schedule never "
        "became active, or what it wrote is not here",
        "an inactive schedule writes nothing when the program ends",
        remedies.LONGER,
        (files.rank,),
        (_name(files.host),),
        {"profiler_steps": stepped},
    )


#: The public name: ``chakrasim.doctor``.
doctor = diagnose
