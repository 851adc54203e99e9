"""What users set: environment variables of the library that change its choices, and choices that a log recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Final, NoReturn

from chakrasim.errors import InputError, near, shown

ALGORITHMS: Final = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
"""In the library's order: of equal estimates the first wins."""

PROTOCOLS: Final = ("LL", "LL128", "Simple")

_COLLECTIVES: Final = {
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "allreduce": "all_reduce",
}
_ALIASES: Final = {"collnet": ("collnetdirect", "collnetchain")}
"""Names of older versions."""

Allowed = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Recorded:
    """What a log of the library said: the choice for one size. No channels: as the library would count them."""

    collective: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int = 0


@dataclass(frozen=True)
class Settings:
    """What was set; 0 (and -1 where 0 means something) says that it was not.

    Attributes
    ----------
    algorithms, protocols: what may be chosen, by collective; collectives that are not named may choose anything.
    min_channels, max_channels: of collectives and messages.
    buffer_bytes, ll_buffer_bytes, ll128_buffer_bytes: of a connection.
    threads, ll128_threads: the most of a block.
    thresholds: bytes a thread, of trees and rings, of LL, LL128, Simple each; -1 where not set.
    nvls, collnet: whether reductions in NVLink switches, and in the network, may be used.
    pat: 0 never, 1 always, 2 where it pays.
    net_overhead_ns: of posting a message; -1 where not set.
    nvls_channels, nvls_chunk_bytes, nvlstree_chunk_bytes: of reductions in switches.
    p2p_*: of messages between pairs; ``p2p_ll_bytes`` is what a channel may have for LL.
    symmetric: buffers are registered as symmetric memory, for which there are kernels of their own.
    recorded: choices of a log, which take the place of the library's own estimates.
    unused: variables of the library that change no choice.
    """

    algorithms: Allowed = ()
    protocols: Allowed = ()
    min_channels: int = 0
    max_channels: int = 0
    buffer_bytes: int = 0
    ll_buffer_bytes: int = 0
    ll128_buffer_bytes: int = 0
    threads: int = 0
    ll128_threads: int = 0
    thresholds: tuple[int, ...] = (-1,) * 6
    nvls: bool = True
    collnet: bool = False
    pat: int = 2
    net_overhead_ns: int = -1
    cross_nic: int = 2
    nvls_channels: int = 0
    nvls_chunk_bytes: int = 0
    nvlstree_chunk_bytes: int = 0
    p2p_min_channels: int = 0
    p2p_max_channels: int = 0
    p2p_net_channels: int = 0
    p2p_nvl_chunk_bytes: int = 0
    p2p_pci_chunk_bytes: int = 0
    p2p_net_chunk_bytes: int = 0
    p2p_ll_bytes: int = -1
    symmetric: bool = False
    recorded: tuple[Recorded, ...] = ()
    unused: tuple[str, ...] = field(default=(), compare=False)

    def allowed(self, collective: str) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """The algorithms that may be chosen for a collective, and the protocols; nothing for any that fit."""
        algorithms = dict(self.algorithms).get(collective, ALGORITHMS)
        return algorithms, dict(self.protocols).get(collective)

    def nearest(self, collective: str, size_bytes: int) -> Recorded | None:
        """The recorded choice whose size is the nearest, by the ratio of sizes; of two as near the smaller."""
        known = [each for each in self.recorded if each.collective == collective]
        if not known:
            return None
        return min(known, key=lambda each: (abs(log(max(each.size_bytes, 1) / max(size_bytes, 1))), each.size_bytes))


DEFAULT: Final = Settings()
"""Nothing set."""


def settings_of(environment: Mapping[str, str], recorded: Iterable[Recorded] = ()) -> Settings:
    """What environment variables set; those that are not the library's are left alone.

    Raises
    ------
    InputError: for a value that the library has no meaning for.
    """
    found: dict[str, object] = {}
    unused = []
    for name, value in environment.items():
        if not name.startswith(("NCCL_", "RCCL_")):
            continue
        if name in _LISTS:
            key, names, aliases = _LISTS[name]
            found[key] = _lists(name, value, names, aliases)
        elif name in _READERS:
            key, read = _READERS[name]
            # Old names come after new ones in the table; a new one that is set too wins.
            if key not in found or name not in _OLD:
                found[key] = read(name, value)
        else:
            unused.append(name)
    return Settings(**found, recorded=tuple(recorded), unused=tuple(sorted(unused)))  # type: ignore[arg-type]


def _lists(name: str, value: str, names: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> Allowed:
    """``ring,tree``, ``^LL`` or, by collective, ``ring;allreduce:tree,nvls``."""
    allowed = dict.fromkeys(_COLLECTIVES.values(), names)
    for index, entry in enumerate(value.split(";")):
        before, colon, after = entry.partition(":")
        if not colon and index:
            _bad(name, value, "a collective and a colon before each list but the first")
        wanted = [before.strip().lower()] if colon else list(_COLLECTIVES)
        if colon and wanted[0] not in _COLLECTIVES:
            _bad(name, value, "collectives " + ", ".join(_COLLECTIVES), near(wanted[0], _COLLECTIVES))
        listed = (after if colon else before).strip()
        chosen = {full for part in listed.removeprefix("^").split(",") for full in _named(name, part, names, aliases)}
        if not chosen:
            _bad(name, value, "at least one of " + ", ".join(names))
        kept = tuple(each for each in names if (each in chosen) is not listed.startswith("^"))
        for key in wanted:
            allowed[_COLLECTIVES[key]] = kept
    return tuple(allowed.items())


def _named(name: str, part: str, names: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    word = part.strip().lower()
    if not word or word in aliases:
        return aliases.get(word, ())
    found = tuple(each for each in names if each.lower() == word)
    if not found:
        _bad(name, part, "one of " + ", ".join(names), near(word, [each.lower() for each in names]))
    return found


def _whole(low: int = 0, high: int = 2**31 - 1) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not re.fullmatch(r"\s*-?\d{1,18}\s*", value) or not low <= int(value) <= high:
            _bad(name, value, f"a whole number from {low} to {high}")
        return int(value)

    return read


def _flag(name: str, value: str) -> bool:
    return _whole(0, 2)(name, value) != 0


def _thresholds(name: str, value: str) -> tuple[int, ...]:
    parts = value.split()
    if not 1 <= len(parts) <= 6 or not all(re.fullmatch(r"-?\d{1,9}", part) for part in parts):
        _bad(name, value, "up to six whole numbers with spaces between")
    return tuple(max(int(part), -1) for part in parts) + (-1,) * (6 - len(parts))


def _threads(name: str, value: str) -> int:
    threads = _whole(1, 1024)(name, value)
    if threads % 32:
        _bad(name, value, "a multiple of 32")
    return threads


def _bad(name: str, value: str, expected: str, remedy: str = "") -> NoReturn:
    raise InputError(
        "the library has no meaning for this value",
        file="environment",
        place=name,
        found=repr(shown(value)),
        expected=expected,
        remedy=remedy or None,
    )


_LISTS: Final[Mapping[str, tuple[str, tuple[str, ...], Mapping[str, tuple[str, ...]]]]] = {
    "NCCL_ALGO": ("algorithms", ALGORITHMS, _ALIASES),
    "NCCL_PROTO": ("protocols", PROTOCOLS, {}),
}

_CHANNELS: Final = _whole(1, 1024)
_BYTES: Final = _whole(1)

_READERS: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "NCCL_MIN_NCHANNELS": ("min_channels", _CHANNELS),
    "NCCL_MAX_NCHANNELS": ("max_channels", _CHANNELS),
    "NCCL_MIN_CTAS": ("min_channels", _CHANNELS),
    "NCCL_MAX_CTAS": ("max_channels", _CHANNELS),
    "NCCL_MIN_NRINGS": ("min_channels", _CHANNELS),
    "NCCL_MAX_NRINGS": ("max_channels", _CHANNELS),
    "NCCL_BUFFSIZE": ("buffer_bytes", _BYTES),
    "NCCL_LL_BUFFSIZE": ("ll_buffer_bytes", _BYTES),
    "NCCL_LL128_BUFFSIZE": ("ll128_buffer_bytes", _BYTES),
    "NCCL_NTHREADS": ("threads", _threads),
    "NCCL_LL128_NTHREADS": ("ll128_threads", _threads),
    "NCCL_THREAD_THRESHOLDS": ("thresholds", _thresholds),
    "NCCL_NVLS_ENABLE": ("nvls", _flag),
    "NCCL_COLLNET_ENABLE": ("collnet", _flag),
    "NCCL_PAT_ENABLE": ("pat", _whole(0, 2)),
    "NCCL_NET_OVERHEAD": ("net_overhead_ns", _whole(0)),
    "NCCL_CROSS_NIC": ("cross_nic", _whole(0, 2)),
    "NCCL_NVLS_NCHANNELS": ("nvls_channels", _CHANNELS),
    "NCCL_NVLS_CHUNKSIZE": ("nvls_chunk_bytes", _BYTES),
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": ("nvlstree_chunk_bytes", _BYTES),
    "NCCL_MIN_P2P_NCHANNELS": ("p2p_min_channels", _CHANNELS),
    "NCCL_MAX_P2P_NCHANNELS": ("p2p_max_channels", _CHANNELS),
    "NCCL_NCHANNELS_PER_NET_PEER": ("p2p_net_channels", _CHANNELS),
    "NCCL_P2P_NVL_CHUNKSIZE": ("p2p_nvl_chunk_bytes", _BYTES),
    "NCCL_P2P_PCI_CHUNKSIZE": ("p2p_pci_chunk_bytes", _BYTES),
    "NCCL_P2P_NET_CHUNKSIZE": ("p2p_net_chunk_bytes", _BYTES),
    "NCCL_P2P_LL_THRESHOLD": ("p2p_ll_bytes", _whole(0)),
}

_OLD: Final = ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS")
