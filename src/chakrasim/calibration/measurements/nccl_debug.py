"""What NCCL and RCCL say of themselves with NCCL_DEBUG=INFO (nccl-model.md, section 8): who takes part, channels, the
graphs that were found, and the algorithm of each call."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from chakrasim.calibration.measurements.names import kind_of, spelled
from chakrasim.notes import Notes

ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS: Final = ("LL", "LL128", "Simple")
SYMMETRIC: Final = "Symmetric"
COPY_ENGINE: Final = "CopyEngine"

_MOST_KINDS: Final = 10_000  # of sizes, transports or variables in one log; more of them are damage
_NAMES: Final = {name.lower(): name for name in (*ALGORITHMS, *PROTOCOLS)}

_VERSION: Final = re.compile(r"(?<!with )\b(NCCL|RCCL) version ?:? ?([0-9]+\.[0-9]\S*)")
_COMM: Final = re.compile(r"\bcomm \S+ rank (\d{1,7}) n[Rr]anks (\d{1,7})\b(?: nNodes (\d{1,7}) localRanks (\d{1,7}))?")
_CHANNELS: Final = re.compile(r"\b(\d{1,4}) (coll|collnet|nvls|p2p) channels\b(?! per peer)")
_PER_PEER: Final = re.compile(r"\b(\d{1,4}) p2p channels per peer")
_GRAPH: Final = re.compile(
    r"Pattern (\d), crossNic (\d), nChannels (\d{1,4}), (?:bw|speed) ([\d.]{1,20})/([\d.]{1,20}),"
    r" type (\w+)/(\w+), sameChannels (\d)"
)
_THRESHOLDS: Final = re.compile(r"threadThresholds ([\d /|]+)")
_P2P_CHUNK: Final = re.compile(r"P2P Chunksize set to (\d{1,12})")
_NETWORK: Final = re.compile(r"Using network (\S[^\r\n]{0,60})")
_SET: Final = re.compile(r"\b(N?R?CCL_[A-Z0-9_]+) set by environment to (\S{1,200})")
_CALL: Final = re.compile(r"(?:\b(\w+)(?: \[(\w[\w ]*)\])?: +)?\b(\d{1,18}) Bytes -> (.*)")
_ALGORITHM: Final = re.compile(r"Algo (\w+) proto (\w+) (?:time|channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})")
_KERNEL: Final = re.compile(r"Kernel (\w+) nchannels (\d{1,4})")


@dataclass(frozen=True)
class RecordedChoice:
    """How one collective of one size was carried out.

    ``bytes`` are those of nccl-tests' size column. ``collective`` is "" where the library did not say (NCCL 2.20 to
    2.22); ``algorithm`` is one of `ALGORITHMS`, `SYMMETRIC` or `COPY_ENGINE`, or what the library called one that is
    not known; ``protocol`` likewise, "" where there is none; ``channels`` is None where they are not told, ``kernel``
    the name of a symmetric kernel. It was recorded ``times`` times.
    """

    collective: str
    bytes: int
    algorithm: str
    protocol: str
    channels: int | None
    kernel: str = ""
    times: int = 1


@dataclass(frozen=True)
class RecordedGraph:
    """What the library found in the topology for a pattern: 1 to 3 trees, 4 ring, 5 NVLS, 6 CollNet.

    Bandwidths are GB/s per channel, types the farthest path's (NVL, PIX, ...).
    """

    pattern: int
    cross_nic: int
    channels: int
    intra_GBps: float
    inter_GBps: float
    intra_type: str
    inter_type: str
    same_channels: bool


@dataclass(frozen=True)
class NcclDebug:
    """What one run's library said; None, "" and empty where it did not.

    ``channels``: by use (coll, collnet, nvls, p2p, p2p per peer). ``thread_thresholds``: tree LL, LL128, Simple, ring
    LL, LL128, Simple, and those of CollNet. ``transports``: how often connections were made by what (``P2P/CUMEM``).
    ``environment``: the variables that were set.
    """

    library: str = ""
    version: str = ""
    nranks: int | None = None
    nnodes: int | None = None
    local_ranks: int | None = None
    channels: tuple[tuple[str, int], ...] = ()
    graphs: tuple[RecordedGraph, ...] = ()
    thread_thresholds: tuple[int, ...] = ()
    p2p_chunk_bytes: int | None = None
    network: str = ""
    transports: tuple[tuple[str, int], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    choices: tuple[RecordedChoice, ...] = ()

    def choice(self, collective: str, size_bytes: int) -> RecordedChoice | None:
        """What was recorded most often for a collective of this size; None if nothing was."""
        found = [each for each in self.choices if each.bytes == size_bytes and each.collective in (collective, "")]
        return max(found, key=lambda each: each.times, default=None)


class DebugReader:
    """Takes lines one by one. What all ranks say alike is kept once."""

    def __init__(self) -> None:
        self.library = self.version = self._network = ""
        self._comms: Counter[tuple[int, int, int]] = Counter()
        self._channels: dict[str, int] = {}
        self._graphs: dict[int, RecordedGraph] = {}
        self._thresholds: tuple[int, ...] = ()
        self._p2p_chunk: int | None = None
        self._transports: Counter[str] = Counter()
        self._environment: dict[str, str] = {}
        self._calls: Counter[tuple[str, int, str, str, int | None, str, bool]] = Counter()

    def __bool__(self) -> bool:
        """Whether anything was said that is kept."""
        counted = (self._calls, self._comms, self._graphs, self._channels, self._transports, self._environment)
        return any(counted) or bool(self.version or self._thresholds or self._p2p_chunk or self._network)

    def take(self, line: str) -> None:
        """Keep what a line says; most lines say nothing that is kept."""
        if " Bytes -> " in line:
            self._take_call(line)
        elif " via " in line:
            before, _, after = line.partition(" via ")
            name = after.split(None, 1)[0][:60] if after.strip() else ""
            if "/" in name and "Channel " in before and len(self._transports) < _MOST_KINDS:
                self._transports[name] += 1
        elif "comm " in line:
            if match := _COMM.search(line):
                self._comms[int(match[2]), int(match[3] or 0), int(match[4] or 0)] += 1
        else:
            self._take_rest(line)

    def _take_rest(self, line: str) -> None:
        if "CCL version" in line and (match := _VERSION.search(line)):
            self.library, self.version = match[1], match[2]
        elif match := _GRAPH.search(line):
            self._take_graph(match)
        elif "channels" in line:
            for match in _CHANNELS.finditer(line):
                self._channels.setdefault(match[2], int(match[1]))
            if match := _PER_PEER.search(line):
                self._channels.setdefault("p2p per peer", int(match[1]))
        elif match := _THRESHOLDS.search(line):
            self._thresholds = tuple(int(number) for number in re.findall(r"\d{1,12}", match[1]))
        elif match := _P2P_CHUNK.search(line):
            self._p2p_chunk = int(match[1])
        elif match := _NETWORK.search(line):
            self._network = match[1].strip()
        elif (match := _SET.search(line)) and len(self._environment) < _MOST_KINDS:
            self._environment[match[1]] = match[2].rstrip(".")

    def _take_graph(self, match: re.Match[str]) -> None:
        try:
            intra, inter = float(match[4]), float(match[5])
        except ValueError:  # two points
            return
        graph = RecordedGraph(
            int(match[1]), int(match[2]), int(match[3]), intra, inter, match[6], match[7], match[8] != "0"
        )
        self._graphs.setdefault(graph.pattern, graph)

    def _take_call(self, line: str) -> None:
        match = _CALL.search(line)
        if match is None or len(self._calls) >= _MOST_KINDS:
            return
        collective = spelled(match[1] or "")
        size, said = int(match[3]), match[4]
        if found := _ALGORITHM.match(said):
            channels = None if found[3] is None else int(found[4]) - int(found[3]) + 1
            names = (_name(found[1], ALGORITHMS), _name(found[2], PROTOCOLS))
            # Numbers are of versions that tell the whole operation's bytes; names of those that tell one rank's count.
            self._calls[collective, size, *names, channels, "", found[3] is not None] += 1
        elif found := _KERNEL.match(said):
            self._calls[collective, size, SYMMETRIC, "", int(found[2]), found[1], True] += 1
        elif said.startswith(("cudaMemcpy", "RMA proxy")):
            self._calls[collective, size, COPY_ENGINE, "", None, "", True] += 1

    def result(self, collective: str, nranks: int | None, notes: Notes, file: str) -> NcclDebug:
        """All that was said. ``collective``: of calls whose name was not told; ``nranks``: if known from elsewhere.

        Calls whose whole size cannot be told are left out with a warning.
        """
        sizes = {key[0] for key in self._comms}
        most = max(self._comms, default=None)
        if nranks is None and len(sizes) == 1:
            (nranks,) = sizes
        choices, lost = [], 0
        for (name, size, algorithm, protocol, channels, kernel, of_rank), times in self._calls.items():
            name = name or collective
            scale = nranks if of_rank and _of_parts(name) else 1
            if scale is None:
                lost += times
                continue
            choices.append(RecordedChoice(name, size * scale, algorithm, protocol, channels, kernel, times))
        if lost:
            notes.warn(f"{file}: {lost:,} recorded calls are left out: nothing says how many ranks they are of")
        return NcclDebug(
            self.library,
            self.version,
            most[0] if most else None,
            most[1] or None if most else None,
            most[2] or None if most else None,
            tuple(self._channels.items()),
            tuple(self._graphs[pattern] for pattern in sorted(self._graphs)),
            self._thresholds,
            self._p2p_chunk,
            self._network,
            tuple(sorted(self._transports.items())),
            tuple(sorted(self._environment.items())),
            tuple(sorted(choices, key=lambda each: (each.collective, each.bytes, each.algorithm, each.protocol))),
        )


def _name(text: str, known: tuple[str, ...]) -> str:
    """An algorithm or protocol by its number or its name in any spelling (``NVLS_TREE``)."""
    if text.isascii() and text.isdigit():
        return known[int(text)] if len(text) < 3 and int(text) < len(known) else text
    return _NAMES.get(text.replace("_", "").lower(), text)


def _of_parts(collective: str) -> bool:
    kind = kind_of(collective)
    return kind is not None and not kind.in_place
