"""`link`: a host trace and a device trace of one rank into one linked trace."""

from __future__ import annotations

import os

from chakrasim.errors import InputError
from chakrasim.linker.draft import draft_from_device, draft_from_host, finish, one_step
from chakrasim.linker.evidence.events import sort_out
from chakrasim.linker.warnings import warn
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.host.read import read_host
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.read import read_kineto
from chakrasim.trace.linked.columns import LinkedTrace

Path = str | os.PathLike[str]


@lists_too
def link(
    host: Path | HostTrace | None = None,
    device: Path | KinetoTrace | None = None,
    *,
    rank: int | None = None,
    step: int | str = "all",
    lenient: bool = False,
    strict: bool = False,
    notes: Notes | None = None,
) -> LinkedTrace:
    """What one rank did, from its host trace (ExecutionTraceObserver), its device trace (Kineto), or both.

    Raises InputError if a file cannot be used, there is nothing in it, or there is no such step.

    Parameters
    ----------
    host, device:
        Files (plain or gzip) or traces in memory; at least one. Without a device trace there are no times, without a
        host trace no tensors and fewer shapes.
    rank:
        The rank, where the files do not say it or say it wrong.
    step:
        A number N keeps the rows of ``ProfilerStep#N`` (and the device's work that they launched); "all" keeps all.
    lenient:
        Of damaged files use what is intact, with a warning that counts what was lost, instead of raising InputError.
    strict:
        Treat every warning as an error.
    notes:
        Receives what was dropped, repaired or guessed, in sentences; the figures are in ``LinkedTrace.counts``.
    """
    said = Notes() if notes is None else notes
    if host is None and device is None:
        raise InputError("nothing to link", expected="a host trace, a device trace, or both")
    nodes = _host(host, lenient, said)
    held = [] if device is None else [_device(device, lenient, said)]
    del device
    linked = link_given(nodes, held, rank=rank, step=step, notes=said)
    said.refuse(strict)
    return linked


def link_given(
    nodes: HostTrace | None,
    held: list[KinetoTrace],
    *,
    rank: int | None,
    step: int | str = "all",
    notes: Notes,
) -> LinkedTrace:
    """As `link`, of traces in memory. ``held`` holds the device trace, if there is one, and is emptied: columns that
    linking has no more use for are freed unless the caller holds on to them."""
    if held:
        draft = draft_from_device(sort_out(held.pop()), nodes)
    else:
        assert nodes is not None
        draft = draft_from_host(nodes)
    if step != "all":
        draft = one_step(draft, step)
    linked = finish(draft, nodes, rank)
    warn(linked, notes)
    return linked


def _host(given: Path | HostTrace | None, lenient: bool, notes: Notes) -> HostTrace | None:
    if given is None or isinstance(given, HostTrace):
        return given
    return read_host(given, lenient=lenient, notes=notes)


def _device(given: Path | KinetoTrace, lenient: bool, notes: Notes) -> KinetoTrace:
    if isinstance(given, KinetoTrace):
        return given
    return read_kineto(given, keep="work", lenient=lenient, notes=notes)
