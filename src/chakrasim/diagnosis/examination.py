"""One rank's traces read, examined and linked: what the doctor judges, and what conversion goes on with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from chakrasim.diagnosis.checks.device import check_device, partial_steps
from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.host import check_host, check_pair, profiler_steps
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, WARNING, Subject
from chakrasim.diagnosis.device_rows import DeviceRows
from chakrasim.diagnosis.facts import RankFacts, rank_facts
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.errors import InputError
from chakrasim.linker.api import link_given
from chakrasim.linker.memory import give_back
from chakrasim.notes import Notes
from chakrasim.text import remedies
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.host.read import read_host
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.only_work import only_work
from chakrasim.trace.kineto.read import read_kineto
from chakrasim.trace.linked.columns import LinkedTrace, shares_by_step
from chakrasim.trace.linked.delays import longest_delay
from chakrasim.trace.linked.parts import begun

#: Findings after which it says nothing that there is nothing to link.
_NOTHING_THERE = ("empty-trace", "schedule-never-active")
#: Repairs after which nothing is missing.
_NO_CATEGORY = "but no category that says what they are"
_LIGHT = re.compile(r"rounded .* times|replaced invalid characters")
#: What `check_host` says too, and is no damage.
_SCHEMA = "the schema of this host trace"

T = TypeVar("T")


@dataclass(frozen=True)
class ExaminedRank:
    """What is kept of a rank once its traces are forgotten.

    Attributes
    ----------
    facts: figures of the rank.
    findings: what its traces alone give rise to.
    outline: a linked trace of one row with all communication, for comparing ranks; None where nothing can be linked.
    said: warnings of reading and linking.
    """

    facts: RankFacts
    findings: tuple[Finding, ...]
    outline: LinkedTrace | None
    said: tuple[str, ...]


def examine(files: RankFiles, ranks: Sequence[RankFiles]) -> tuple[ExaminedRank, LinkedTrace | None]:
    """Read, examine and link the traces of one of ``ranks``; the linked trace is None where they cannot be linked.

    Linked traces are large: a caller that goes through the ranks lets go of one before the next. A file that cannot be
    read is a finding.
    """
    findings: list[Finding] = []
    said = Notes()
    host = _read(read_host, files.host, files.rank, findings, said)
    trace = _read(read_kineto, files.device, files.rank, findings, said)
    if host is not None:
        findings += check_host(files.rank, _name(files.host), host)
    held: list[KinetoTrace] = []
    if trace is None:
        facts = rank_facts(files, host, None, ())
    else:
        facts = _examine_device(files, host, trace, findings)
        give_back(len(trace))
        held.append(only_work(trace))
        del trace
    has_devices = any(one.device is not None for one in ranks)
    findings += _missing_side(files, 0 if host is None or has_devices else profiler_steps(host))
    linked = _link(files, host, held, findings, said) if host is not None or held else None
    if linked is not None:
        facts = replace(facts, delay_only_share=shares_by_step(linked), longest_delay=longest_delay(linked))
    outline = None if linked is None else begun(linked)
    return ExaminedRank(facts, tuple(findings), outline, said.warnings), linked


def _examine_device(files: RankFiles, host: HostTrace | None, trace: KinetoTrace, findings: list[Finding]) -> RankFacts:
    """Findings and facts of a device trace."""
    rows = DeviceRows(trace)
    subject = Subject(files.rank, _name(files.device), rows, host)
    findings += check_device(subject)
    findings += check_pair(subject, _name(files.host))
    return rank_facts(files, host, rows, partial_steps(rows))


def _link(
    files: RankFiles, host: HostTrace | None, held: list[KinetoTrace], findings: list[Finding], said: Notes
) -> LinkedTrace | None:
    """The traces, linked; that they cannot be is a finding, unless it is known already that one is empty."""
    try:
        return link_given(host, held, rank=files.rank, notes=said)
    except InputError as fault:
        if not any(finding.code in _NOTHING_THERE for finding in findings):
            names = tuple(path.name for path in (files.host, files.device) if path is not None)
            consequence, remedy = "they cannot be linked", fault.remedy or "record again"
            findings.append(Finding("unlinkable", ERROR, str(fault), consequence, remedy, (files.rank,), names))
        return None


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
    findings += [_repaired(warning, path, rank) for warning in notes.warnings if _SCHEMA not in warning]
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
