"""What a library does with one operation: algorithm, protocol, channels, threads and chunks (nccl-model.md, 3 to 6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from chakrasim.collectives.kinds import KINDS_BY_NAME, MESSAGES
from chakrasim.collectives.libraries.chunks import chunk_bytes
from chakrasim.collectives.libraries.p2p import message
from chakrasim.collectives.libraries.search import Graphs, graphs
from chakrasim.collectives.libraries.settings import DEFAULT, Recorded, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.symmetric import fastest_kernel
from chakrasim.collectives.libraries.tuning import SERVED, timings
from chakrasim.collectives.libraries.versions import Library
from chakrasim.errors import InputError, near

_MOST_THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
_THRESHOLD = {"LL": 8, "LL128": 8, "Simple": 64}
_ORDER = {"LL": 0, "LL128": 1, "Simple": 2}
_WARP = 32
_MOST = 640


@dataclass(frozen=True)
class Choice:
    """What was chosen for one operation.

    Attributes
    ----------
    algorithm: one of `chakrasim.collectives.libraries.settings.ALGORITHMS`; ``p2p`` for what goes pair by pair, and
        ``symmetric`` for kernels on symmetric memory.
    protocol: ``LL``, ``LL128`` or ``Simple``; of symmetric kernels their name.
    channels: that carry some of this operation.
    threads: of each channel's block.
    chunk_bytes: what a channel moves at a time, from one rank to the next.
    steps: hops of a chunk one after another; of what goes pair by pair the rounds.
    predicted_us: what the library expects, in us; 0 where it has no estimate.
    per_peer: channels to one peer, of what goes pair by pair.
    """

    algorithm: str
    protocol: str
    channels: int
    threads: int
    chunk_bytes: int
    steps: int
    predicted_us: float
    per_peer: int = 0


def choose(site: Site, library: Library, collective: str, size_bytes: int, settings: Settings = DEFAULT) -> Choice:
    """What ``library`` does with an operation of a group at ``site``.

    ``collective`` is a name of `chakrasim.collectives.kinds`, or ``send`` or ``recv``; ``size_bytes`` the larger buffer
    of a rank, as in the size column of nccl-tests (of a message: all of it).

    Raises
    ------
    InputError: for a collective that is not known, a size below 0, and settings that leave nothing to choose.
    """
    if size_bytes < 0:
        raise InputError("a size is not negative", place="size_bytes", found=size_bytes, expected="0 or more bytes")
    if collective not in SERVED:
        return _pair_by_pair(site, library, collective, size_bytes, settings)
    found = graphs(site, library, settings)
    recorded = settings.nearest(collective, size_bytes)
    if settings.symmetric and not recorded:
        kernel = fastest_kernel(found, library, collective, size_bytes, settings)
        if kernel:
            return Choice("symmetric", kernel.name, kernel.blocks, 512, size_bytes, 1, kernel.time_us)
    algorithm, protocol, expected = _pair(site, library, collective, size_bytes, settings, recorded)
    most, threads = _limits(found, algorithm, protocol, size_bytes, settings)
    channels = _in_use(library.rules, collective, algorithm, protocol, size_bytes, found.site.nranks, most)
    if recorded and recorded.channels:
        channels = recorded.channels
    chunk = chunk_bytes(found, library.rules, collective, algorithm, protocol, size_bytes, channels, settings)
    return Choice(algorithm, protocol, channels, threads, chunk, _steps(found, collective, algorithm), expected)


def _pair(
    site: Site, library: Library, collective: str, size_bytes: int, settings: Settings, recorded: Recorded | None
) -> tuple[str, str, float]:
    times = timings(site, library, collective, size_bytes, settings)
    if recorded:
        pair = (recorded.algorithm, recorded.protocol)
        return (*pair, times.get(pair, 0.0))
    algorithm, protocol = min(times, key=times.__getitem__)
    return algorithm, protocol, times[algorithm, protocol]


def _pair_by_pair(site: Site, library: Library, collective: str, size_bytes: int, settings: Settings) -> Choice:
    names = {*KINDS_BY_NAME, *(kind.name for kind in MESSAGES)} - {"barrier", "reduce_scatter_block"}
    if collective not in names:
        raise InputError(
            "this is not a collective that libraries carry out",
            place="collective",
            found=repr(collective),
            expected="one of " + ", ".join(sorted(names)),
            remedy=near(collective, names) or None,
        )
    found = graphs(site, library, settings)
    alone = collective in {kind.name for kind in MESSAGES}
    ranks = found.site.nranks
    sent = message(found, library, size_bytes if alone else -(-size_bytes // ranks), settings)
    busy = min(sent.total, sent.per_peer * (1 if alone else ranks))
    return Choice("p2p", sent.protocol, busy, _MOST, sent.chunk_bytes, 1 if alone else ranks, 0.0, sent.per_peer)


def _limits(found: Graphs, algorithm: str, protocol: str, size_bytes: int, settings: Settings) -> tuple[int, int]:
    """The most channels, and threads: both shrink until each thread has enough to do."""
    if algorithm in ("nvls", "nvlstree"):
        return found.nvls_channels, _MOST
    channels, order = found.channels, _ORDER[protocol]
    threads = _threads(found, algorithm, protocol, settings)
    row = {"tree": 0, "ring": 3}.get(algorithm)
    threshold = _THRESHOLD[protocol] * (found.site.nranks if (algorithm, protocol) == ("ring", "LL") else 1)
    if row is not None and settings.thresholds[row + order] >= 0:
        threshold = settings.thresholds[row + order]
    if algorithm == "collnetdirect" and found.collnet:
        return _of_heads(channels, size_bytes, threads * found.collnet.channels, 512), threads
    threshold = 512 if algorithm == "collnetchain" else threshold
    if threshold:
        channels = max(1, min(channels, size_bytes // (threads * threshold)))
    while size_bytes < channels * threads * threshold and threads % 128 == 0:
        threads //= 2
    if (algorithm, protocol) == ("ring", "Simple"):
        threads += _WARP
    return channels, _MOST if algorithm in ("tree", "pat") else max(threads, 3 * _WARP)


def _threads(found: Graphs, algorithm: str, protocol: str, settings: Settings) -> int:
    most = _MOST_THREADS[protocol]
    if algorithm.startswith("collnet"):
        return _MOST
    wanted = settings.ll128_threads if protocol == "LL128" else settings.threads
    if wanted:
        return min(max(wanted, 160 if protocol == "LL128" else 64), most)
    # Slow rings, as of PCIe, need no more.
    return 256 if (algorithm, protocol) == ("ring", "Simple") and found.ring.total <= 12 else most


def _of_heads(channels: int, size_bytes: int, workers: int, threshold: int) -> int:
    """Reductions by heads keep 16 channels, then 8, then 4 while there is about enough for them."""
    switch = 16
    while switch >= 1 and size_bytes < channels * workers * threshold:
        while size_bytes < channels * workers * threshold and channels > switch:
            threshold = threshold // 2 if channels == switch + switch // 2 else threshold
            channels -= 1
        switch //= 2
    return channels


def _in_use(
    rules: tuple[int, ...], collective: str, algorithm: str, protocol: str, size_bytes: int, ranks: int, most: int
) -> int:
    """Channels among which newer libraries split an operation: in cells, so that small ones leave channels out."""
    if rules < (2, 22) or algorithm.startswith("collnet"):
        return most
    least = 512 if rules < (2, 23) else 16384 if rules < (2, 29) else 32768
    own = size_bytes // ranks if collective in ("all_gather", "reduce_scatter") else size_bytes
    each = {"all_reduce": 2, "all_gather": ranks, "reduce_scatter": ranks}.get(collective, 1)
    share = max(least, max(least, own * each) // most)
    each *= 4 if protocol == "LL" else 1
    cell = ceil(ceil(least / each) / 16) * 16
    cells = max(1, ceil(own / cell))
    together = min(cells, ceil(share / (cell * each)))
    return min(ceil(cells / together), most)


def _steps(found: Graphs, collective: str, algorithm: str) -> int:
    ranks, nodes = found.site.nranks, found.site.nodes
    far = nodes.bit_length() - 1
    if algorithm == "ring":
        return (2 if collective == "all_reduce" else 1) * (ranks - 1)
    if algorithm == "tree":
        return 2 * (ranks // nodes - 1 + far)
    if algorithm == "pat":
        return (ranks - 1).bit_length()
    inside = 2 if collective == "all_reduce" else 1
    if algorithm == "nvlstree":
        return inside + 2 * far
    if algorithm == "collnetchain":
        return 2 * (ranks // nodes - 1) + 2
    return inside + (2 if nodes > 1 else 0)
