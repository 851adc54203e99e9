"""How a library sends a message from one rank to another (nccl-model.md, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from chakrasim.collectives.libraries.node import link_of
from chakrasim.collectives.libraries.search import Graphs
from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.versions import Library

_KIB = 1024
_AT_ONCE = 8
"""Operations of one channel at once."""


@dataclass(frozen=True)
class Message:
    """How a message goes: channels of it, of all that there are; bytes at a time; protocol."""

    per_peer: int
    total: int
    chunk_bytes: int
    protocol: str


def message(found: Graphs, library: Library, size_bytes: int, settings: Settings) -> Message:
    """How one message of ``size_bytes`` goes, in a group where every rank may send to every other."""
    several, ranks, rules = found.site.nodes > 1, found.site.nranks, library.rules
    total = _power_of_two(max(min(found.channels, settings.p2p_max_channels or 64), settings.p2p_min_channels))
    most = _most(found, library, total, settings)
    least = most
    if rules >= (2, 21) or (not several and rules >= (2, 12)):
        while least * ranks > total and least > 1:
            least //= 2
    if (2, 12) <= rules < (2, 21) and not several:
        while most * ranks > total * 4 and most > 1:
            most //= 2
    step = max(_chunk(found, library, settings), 8)  # of buffers too small for a step
    smallest, largest = (
        (step // 2, step) if several and rules >= (2, 22) else (step // 8, step if several else 32 * step)
    )
    channels = max(1, min(least, ceil(size_bytes / smallest)))
    while max(smallest, ceil(size_bytes / channels)) > largest and channels <= most // 2:
        channels *= 2
    limit = 16384 if settings.p2p_ll_bytes < 0 else settings.p2p_ll_bytes
    low_latency = rules >= (2, 14) and not several and size_bytes <= channels * limit
    if low_latency:
        step = (settings.ll_buffer_bytes or 512 * _KIB) // 8 // 2
    elif several and rules >= (2, 22):
        step //= 4 if size_bytes < step else 2 if size_bytes < 8 * step else 1
    part = max(16, ceil(ceil(size_bytes / channels) / 16) * 16)
    return Message(channels, total, min(step, part), "LL" if low_latency else "Simple")


def _most(found: Graphs, library: Library, total: int, settings: Settings) -> int:
    """Channels that a peer may have: the fewest of all peers, in powers of two."""
    site, rules = found.site, library.rules
    most = 64
    if site.nranks > site.nodes:
        _, link = link_of(site, library)
        most = 2 * max(1, int(found.node.pair / link + 1e-6)) if found.node.links else 2
        if library.name == "rccl" and site.model.startswith("gfx94"):
            most *= 4 if site.nodes == 1 else 2
    if site.nodes > 1:
        most = min(most, settings.p2p_net_channels or _to_other_nodes(found, rules, total))
    most = _power_of_two(most)
    if rules >= (2, 29) and site.nodes > 1 and not settings.p2p_net_channels:
        while most * ceil(site.nranks / _AT_ONCE) > total and most > 1:
            most //= 2
    return min(most, total)


def _to_other_nodes(found: Graphs, rules: tuple[int, ...], total: int) -> int:
    ports = max(1, round(found.node.nics / found.node.gpus))
    if rules >= (2, 29):
        return max(ports, ceil(int(ports * found.node.nic) / 14))
    channels = 2 if rules >= (2, 12) else 1
    if rules >= (2, 21):
        while channels * found.site.nranks > total * 4 and channels > 1:
            channels //= 2
    return max(ports, channels)


def _chunk(found: Graphs, library: Library, settings: Settings) -> int:
    site, rules = found.site, library.rules
    if site.nodes > 1:
        twice = rules >= (2, 30) and site.cpu == "arm" and site.capability >= 100
        chunk = (settings.p2p_net_chunk_bytes or 128 * _KIB) * (2 if twice else 1)
    elif found.node.links:
        chunk = settings.p2p_nvl_chunk_bytes or 512 * _KIB
    else:
        chunk = settings.p2p_pci_chunk_bytes or 128 * _KIB
    return min(chunk, (settings.buffer_bytes or 4096 * _KIB) // 8)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
