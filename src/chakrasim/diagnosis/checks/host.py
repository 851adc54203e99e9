"""What can be wrong with one host trace, alone and beside its device trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import numpy as np

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, WARNING, Subject
from chakrasim.text import remedies
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Ints, KinetoTrace

#: Schemas that were met and tested: PyTorch's part, with or without "-chakra.N".
KNOWN_SCHEMAS: Final = ("1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1")
#: Share of record function ids with another name in the other trace above which the traces are of different runs.
MOST_RENAMED: Final = 0.05
#: Share of the operators in the window that the host trace must hold.
LEAST_COVERED: Final = 0.9
#: No time zone explains more.
_ZONES_S: Final = 15 * 3600


def check_host(rank: int, file: str, host: HostTrace) -> Iterator[Finding]:
    """Findings about the host trace alone."""
    where = (rank,), (file,)
    if not len(host):
        yield Finding(
            "empty-trace",
            ERROR,
            "the host trace has no nodes",
            "there is nothing to link",
            f"the observer must be active while iterations run: {remedies.OBSERVER}",
            *where,
        )
        return
    number = re.match(r"[0-9.]+", host.schema)
    if (number[0].rstrip(".") if number else "") not in KNOWN_SCHEMAS:
        yield Finding(
            "unknown-schema",
            WARNING,
            f"the host trace states the schema {host.schema!r}; known are {KNOWN_SCHEMAS[0]} to {KNOWN_SCHEMAS[-1]}",
            "it is read as the newest known one; what is new in it is ignored",
            "tell us, with a file",
            *where,
            {"schema": host.schema},
        )
    doubled = len(host) - len(np.unique(host.ids))
    if doubled:
        yield Finding(
            "duplicate-nodes",
            ERROR if doubled > len(host) // 10 else WARNING,
            f"{doubled:,} of {len(host):,} nodes of the host trace repeat an id",
            "several processes wrote into one file, or runs were joined; which node is meant is not certain",
            "give every rank a file of its own: register_callback(f'host.{rank}.json')",
            *where,
            {"nodes": doubled},
        )
    known = np.isin(host.parent, host.ids) | (host.parent < 0)
    lost = int((~known).sum())
    if lost:
        yield Finding(
            "missing-parents",
            WARNING if lost > len(host) // 20 else NOTE,
            f"{lost:,} of {len(host):,} nodes of the host trace name a parent that is not there",
            "they count as top-level operators",
            "start the observer before the iterations and stop it after them",
            *where,
            {"nodes": lost},
        )


def profiler_steps(host: HostTrace) -> int:
    """How many steps of a profiler the observer saw, whether or not the profiler recorded them."""
    return int(host.strings.each(host.name, lambda name: name.startswith("ProfilerStep")).sum())


def check_pair(subject: Subject, host_file: str) -> Iterator[Finding]:
    """Findings about host and device trace together."""
    host, trace = subject.host, subject.rows.trace
    if host is None or not len(host) or not subject.rows.operators.any():
        return
    named = subject.rows.operators | subject.rows.annotations
    ours, theirs = _agreement(host, trace, np.flatnonzero(named & (trace.rf_id > 0)))
    agreeing = int((ours == 1).sum())
    matched = int((ours >= 0).sum())
    evidence = {"record_function_ids": theirs, "in_host_trace": matched, "of_equal_name": agreeing}
    files = (host_file, subject.file)
    if matched and matched - agreeing > MOST_RENAMED * matched:
        yield Finding(
            "different-runs",
            ERROR,
            f"{matched - agreeing:,} of {matched:,} record function ids that both traces hold have different names",
            "host and device trace are of different runs: operators and kernels would be joined at random",
            remedies.AGAIN,
            (subject.rank,),
            files,
            evidence,
        )
    elif theirs and matched < LEAST_COVERED * theirs:
        yield Finding(
            "observer-inactive",
            ERROR if not matched else WARNING,
            f"the host trace holds {matched:,} of the {theirs:,} operators that the device trace recorded",
            "the others have no tensors, so no data dependencies" if matched else "nothing can be joined by its id",
            f"the observer must be active during the profiled steps: {remedies.OBSERVER}",
            (subject.rank,),
            files,
            evidence,
        )
    if not theirs:
        yield from _by_names(subject, files)
    yield from _processes(subject, files, evidence)


def _agreement(host: HostTrace, trace: KinetoTrace, rows: Ints) -> tuple[Ints, int]:
    """For every operator of the device trace: 1 same name under this id in the host trace, 0 another, -1 no such id.

    Of the nodes of an id (several only in damaged traces) the first in the file counts.
    """
    nodes = np.flatnonzero(host.rf_id > 0)
    keys, first = np.unique(host.rf_id[nodes], return_index=True)
    if not len(keys) or not len(rows):
        return np.full(len(rows), -1, np.int64), len(rows)
    place = np.minimum(np.searchsorted(keys, trace.rf_id[rows]), len(keys) - 1)
    known = keys[place] == trace.rf_id[rows]
    texts = {text: index for index, text in enumerate(host.strings)}
    to_host = np.array([texts.get(text, -1) for text in trace.strings], np.int64)
    same = to_host[trace.name[rows]] == host.name[nodes[first]][place]
    return np.where(known, same.astype(np.int64), -1), len(rows)


def _by_names(subject: Subject, files: tuple[str, str]) -> Iterator[Finding]:
    """Without ids: whether the operators of the host trace occur in the device trace at all."""
    host, trace = subject.host, subject.rows.trace
    assert host is not None
    of_device = {trace.strings[int(index)] for index in np.unique(trace.name[subject.rows.operators])}
    named = [host.strings[int(index)] for index in np.unique(host.name)]
    operators = [text for text in named if "::" in text and "|" not in text and "##" not in text]
    found = sum(text in of_device for text in operators)
    if operators and found < len(operators) / 2:
        yield Finding(
            "different-runs",
            ERROR,
            f"of {len(operators):,} kinds of operators in the host trace only {found:,} occur in the device trace",
            "host and device trace are of different programs",
            remedies.AGAIN,
            (subject.rank,),
            files,
            {"kinds_in_host": len(operators), "kinds_in_both": found},
        )


def _processes(subject: Subject, files: tuple[str, str], evidence: dict[str, int]) -> Iterator[Finding]:
    host, trace = subject.host, subject.rows.trace
    assert host is not None
    traced = np.unique(trace.pid[subject.rows.operators]).tolist()
    pid = host.header.get("pid")
    if type(pid) is not int or pid in traced:
        return
    apart = _hours_apart(host, trace, subject)
    agreement = ""
    if evidence["in_host_trace"]:
        agreement = f"; {evidence['of_equal_name']:,} of {evidence['in_host_trace']:,} operators agree by id and name"
    when = f", recorded at least {apart:,.0f} hours apart" if apart else ""
    yield Finding(
        "different-processes",
        WARNING,
        f"the host trace is of process {pid}, the device trace of process {traced[0]}{when}{agreement}",
        "they are of different runs of one program at best: durations and dependencies are then of different runs",
        remedies.AGAIN,
        (subject.rank,),
        files,
        {"host_pid": pid, "device_pid": traced[0], "hours_apart": round(apart, 1), **evidence},
    )


def _hours_apart(host: HostTrace, trace: KinetoTrace, subject: Subject) -> float:
    """Hours between both recordings that no time zone explains; 0 if unknown."""
    try:
        written = datetime.strptime(str(host.header.get("time", "")), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    base = trace.header.get("baseTimeNanoseconds")
    started = int(trace.ts_ns[subject.rows.operators].min()) + (base if type(base) is int else 0)
    if started < 10**18:  # not a time of this century: the clock does not count from 1970
        return 0.0
    apart = abs(written.timestamp() - started / 1e9) - _ZONES_S
    return max(0.0, apart / 3600)
