"""What a library does with one operation: its algorithm, protocol, channels, threads and chunks (nccl-model.md, 3)."""

from __future__ import annotations

from dataclasses import dataclass

from chakrasim.collectives.libraries.search import Graphs, graphs
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tuning import timings
from chakrasim.collectives.libraries.versions import Library


@dataclass(frozen=True)
class Choice:
    """What was chosen for one operation.

    Attributes
    ----------
    algorithm, protocol: as in `chakrasim.collectives.libraries.tuning`; ``p2p`` for what is sent pair by pair.
    channels: used for this size.
    threads: of each channel's block.
    chunk_bytes: what a channel moves at a time.
    steps: of a chunk, from the first rank to the last.
    predicted_us: what the library expects, in us; 0 where it expects nothing.
    """

    algorithm: str
    protocol: str
    channels: int
    threads: int
    chunk_bytes: int
    steps: int
    predicted_us: float


_MOST_THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
_THRESHOLD = {"LL": 8, "LL128": 8, "Simple": 64}


def choose(site: Site, library: Library, collective: str, size_bytes: int, settings: Settings = DEFAULT) -> Choice:
    """What ``library`` does with an operation of ``size_bytes`` of a group at ``site``."""
    times = timings(site, library, collective, size_bytes, settings)
    (algorithm, protocol), expected = min(times.items(), key=lambda item: item[1])
    found = graphs(site, library, settings)
    channels, threads = _channels(found, algorithm, protocol, size_bytes)
    return Choice(algorithm, protocol, channels, threads, 524288, 1, expected)


def _channels(found: Graphs, algorithm: str, protocol: str, size_bytes: int) -> tuple[int, int]:
    if algorithm in ("nvls", "nvlstree"):
        return found.nvls_channels, 640
    threads = _MOST_THREADS[protocol]
    threshold = _THRESHOLD[protocol] * (found.site.nranks if (algorithm, protocol) == ("ring", "LL") else 1)
    channels = max(1, min(found.channels, size_bytes // (threads * threshold)))
    return channels, threads
