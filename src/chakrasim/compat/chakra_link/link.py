"""Linking as ``chakra_trace_link`` 1.0.0 does it, its faults included (chakra-toolchain.md, section 3)."""

from __future__ import annotations

import os

from chakrasim.compat.chakra_link.crash import crash
from chakrasim.compat.chakra_link.device import read_device_side
from chakrasim.compat.chakra_link.host import check_host
from chakrasim.compat.chakra_link.matching import match
from chakrasim.compat.chakra_link.synchronisation import sync_lists
from chakrasim.compat.chakra_link.text import linked_text
from chakrasim.notes import Notes, lists_too


@lists_too
def link_compat(
    host_path: str | os.PathLike[str],
    device_path: str | os.PathLike[str],
    rank: int = 0,
    notes: Notes | None = None,
) -> bytes:
    """The linked trace (JSON) of one rank, equal as parsed to what the reference linker writes.

    ``rank`` has no effect, as in the reference. Where only the reference's search for synchronisation would fail, there
    are no ``sync_dep`` and a warning names its exception. Raises InputError where the reference fails elsewhere.
    """
    from chakrasim.trace.host.read import read_host
    from chakrasim.trace.kineto.read import read_kineto

    notes = Notes() if notes is None else notes
    host = read_host(host_path, notes=notes)
    text = host.text.tobytes()
    _check_text(text, host.source)
    check_host(host, text)
    kineto = read_kineto(device_path, keep="all", notes=notes)
    _check_text(kineto.strings.blob.tobytes(), kineto.source)
    device = read_device_side(kineto)
    matching = match(host, device)
    if device.orphans:
        notes.warn(f"{kineto.source}: {device.orphans} kernels and copies have no known launch and are left out")
    return linked_text(host, text, device, matching, sync_lists(device, notes))


def _check_text(text: bytes, source: str) -> None:
    """Raise InputError for bytes that are no UTF-8."""
    try:
        if not text.isascii():
            text.decode("utf-8")
    except UnicodeDecodeError as fault:
        found = repr(text[max(fault.start - 10, 0) : fault.end + 10])
        raise crash("a text is no UTF-8", "UnicodeDecodeError", file=source, found=found) from None


def node_count(linked: bytes) -> int:
    """How many nodes are in a linked trace that `link_compat` made."""
    return linked.count(b"},\n{") + 1
