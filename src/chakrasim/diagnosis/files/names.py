"""What the name of a trace file tells: rank, process id, host or device side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Endings that say what a file is, never which rank; the longest that fits is cut off, again and again.
_ENDINGS: Final = re.compile(
    r"[._-](?:json|gz|pt|et|eg|trace|traces|kineto|pytorch|chakra|host|device|xplane|pb|sqlite)$",
    re.ASCII | re.IGNORECASE,
)
#: Kineto's default handler: host name, process id, time in ms or ns.
_KINETO: Final = re.compile(r"^(?P<host>.+)_(?P<pid>[0-9]+)\.[0-9]{10,20}$", re.ASCII)
_TIME: Final = re.compile(r"\.[0-9]{10,20}$", re.ASCII)
#: Words before a rank, the surest first.
_RANKS: Final = (
    re.compile(r"(?:^|[^a-z])(?:global[_.-]?)?rank[_.-]?([0-9]{1,7})(?![0-9])", re.ASCII | re.IGNORECASE),
    re.compile(r"(?:^|[^a-z])(?:worker|gpu|npu)[_.-]?([0-9]{1,7})(?![0-9])", re.ASCII | re.IGNORECASE),
    re.compile(r"(?:^|[^a-z])(?:host|device|kineto|et|eg|trace)[_.-]?([0-9]{1,5})$", re.ASCII | re.IGNORECASE),
)
#: Any number at the end: a rank only if several files differ in nothing else.
_LAST_NUMBER: Final = re.compile(r"^(.*?)([0-9]{1,5})$", re.ASCII)
#: The two forms in which JAX's profiler writes the same events.
_XPLANE: Final = re.compile(r"(.+)\.xplane\.pb(?:\.gz)?$")
_VIEWED: Final = re.compile(r"(.+)\.trace\.json(?:\.gz)?$")
_HOST_WORDS: Final = frozenset({"host", "et", "eg"})
_DEVICE_WORDS: Final = frozenset({"device", "kineto"})


@dataclass(frozen=True)
class NameFacts:
    """``rank`` and ``pid`` are -1 where the name has none; ``side`` is "host", "device" or "".

    ``series`` and ``number``: what stands before a number at the end, and the number (-1: none), where nothing says
    that it is a rank.
    """

    rank: int = -1
    pid: int = -1
    side: str = ""
    series: str = ""
    number: int = -1


def read_name(name: str) -> NameFacts:
    """What the file name says: ``host.3.json``, ``rank-3.et.json.gz``, ``dlrm_eg_3.json``, ``worker3_step_12.TIME``."""
    stem = name
    is_profiler = False
    while match := _ENDINGS.search(stem):
        is_profiler |= match[0].lower() == ".pt"
        if match[0].lower()[1:] in _HOST_WORDS | _DEVICE_WORDS and match.start() == 0:
            break
        stem = stem[: match.start()]
    side = _side(name)
    kineto = _KINETO.match(stem) if is_profiler else None
    stem = _TIME.sub("", stem)
    for pattern in _RANKS[: 2 if kineto is not None else 3]:
        found = pattern.search(stem)
        if found is not None:
            return NameFacts(int(found[1]), -1, side)
    if kineto is not None:
        return NameFacts(-1, int(kineto["pid"]), side)
    last = _LAST_NUMBER.match(stem)
    return NameFacts(-1, -1, side, last[1], int(last[2])) if last is not None else NameFacts(-1, -1, side)


def _side(name: str) -> str:
    words = set(re.split(r"[^a-z]+", name.lower()))
    host, device = bool(words & _HOST_WORDS), bool(words & _DEVICE_WORDS)
    if host == device:
        return ""
    return "host" if host else "device"


def copies_of_profiles(paths: Iterable[Path]) -> set[Path]:
    """``X.trace.json`` beside ``X.xplane.pb``: JAX's profiler writes the same events twice, as text with fewer of
    them."""
    listed = list(paths)
    profiles = {path.parent / match[1] for path in listed if (match := _XPLANE.match(path.name))}
    return {path for path in listed if (match := _VIEWED.match(path.name)) and path.parent / match[1] in profiles}
