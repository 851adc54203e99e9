"""Remote memory: where loads and stores of a trace go (ASTRA-sim's remote-memory JSON)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.kinds import choice
from chakrasim.config.lenient import integer
from chakrasim.config.section import INT32_MAX, TIME_MAX, Source, open_section
from chakrasim.config.table import Key, Required, names, read
from chakrasim.config.values import describe
from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too

_KIND = "remote-memory configuration"
NO_MEMORY_EXPANSION = "NO_MEMORY_EXPANSION"
PER_NODE = "PER_NODE_MEMORY_EXPANSION"
PER_NPU = "PER_NPU_MEMORY_EXPANSION"
MEMORY_POOL = "MEMORY_POOL"

REMEDY: Final = (
    "write memory: {expansion: {kind: per-npu, latency: 500 ns, bandwidth: 63 GB/s}} in the machine file (PCIe 5.0 "
    "x16), or give a remote-memory configuration (--memory FILE)"
)
"""For a machine whose ranks should access remote memory."""

_NODE_KEYS = ("num-nodes", "num-npus-per-node")
_IDLE: Final = {
    NO_MEMORY_EXPANSION: ("remote-mem-latency", "remote-mem-bw", *_NODE_KEYS),
    PER_NODE: (),
    PER_NPU: _NODE_KEYS,
    MEMORY_POOL: _NODE_KEYS,
}
"""Keys without effect, by kind."""
KINDS = tuple(_IDLE)

MEMORY: Final = (
    Key("memory-type", choice(KINDS), Required("one of " + ", ".join(KINDS)),
        "no remote memory (an access is an error); one server per memory node; no contention; one server for all",
        "kind"),
    Key("remote-mem-latency", integer(0, TIME_MAX - 1, "ns", "ns >= 0, cut off"), 0, "of every access", "latency_ns"),
    Key("remote-mem-bw", integer(0, TIME_MAX - 1, "bytes per ns", "bytes per ns (10^9 B/s), cut off"), 0,
        "an access of S bytes takes latency + trunc(S / bandwidth); 0 leaves the latency alone (a warning)",
        "bandwidth"),
    Key("num-nodes", integer(0, INT32_MAX), 0,
        "memory nodes, enough for all ranks; `PER_NODE_MEMORY_EXPANSION` only"),
    Key("num-npus-per-node", integer(0, INT32_MAX), 0,
        "rank r uses memory node r // num-npus-per-node; `PER_NODE_MEMORY_EXPANSION` only, and needed there"),
)  # fmt: skip
"""The keys of ASTRA-sim's remote-memory file."""


@dataclass(frozen=True)
class RemoteMemory:
    """The remote memory of all ranks.

    One access of S bytes takes latency_ns + trunc(S / bandwidth) ns; a bandwidth of 0 leaves the latency alone
    (astra-system.md section 4).

    Raises :class:`chakrasim.InputError` when built from values outside these ranges.

    Parameters
    ----------
    kind:
        ``NO_MEMORY_EXPANSION`` (any access is an error), ``PER_NPU_MEMORY_EXPANSION`` (no contention),
        ``PER_NODE_MEMORY_EXPANSION`` (one server per memory node) or ``MEMORY_POOL`` (one server for all).
    latency_ns:
        Latency of an access, whole ns.
    bandwidth:
        Bytes per ns, that is decimal GB/s, whole.
    num_nodes, num_npus_per_node:
        For PER_NODE: rank r uses memory node r // num_npus_per_node.
    source:
        The file, for messages.
    """

    kind: str = NO_MEMORY_EXPANSION
    latency_ns: int = 0
    bandwidth: int = 0
    num_nodes: int = 0
    num_npus_per_node: int = 0
    source: str = field(default=_KIND, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            _fail("RemoteMemory", "kind", "unknown value", self.kind, "one of " + ", ".join(KINDS))
        for name in ("latency_ns", "bandwidth", "num_nodes", "num_npus_per_node"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TIME_MAX:
                _fail("RemoteMemory", name, "out of range", value, "an integer >= 0")
        if self.kind == PER_NODE and self.num_npus_per_node == 0:
            _fail("RemoteMemory", "num_npus_per_node", "out of range", 0, "at least 1 NPU per memory node")

    def access_ns(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64: what accesses of so many bytes take, each alone, in ns. Raises :class:`chakrasim.InputError` where
        there is no remote memory."""
        if self.kind == NO_MEMORY_EXPANSION:
            raise InputError("there is no remote memory to access", file=self.source, found=self.kind, remedy=REMEDY)
        if not self.bandwidth:
            return np.full(len(sizes), self.latency_ns, np.int64)
        return self.latency_ns + (sizes.astype(np.float64) / float(self.bandwidth)).astype(np.int64)

    def check_ranks(self, ranks: int) -> None:
        """Raise :class:`chakrasim.InputError` if some of ``ranks`` ranks have no memory node."""
        if self.kind != PER_NODE:
            return
        needed = -(-ranks // self.num_npus_per_node)
        if self.num_nodes < needed:
            expected = f"at least {needed} for {ranks} ranks with {self.num_npus_per_node} per node"
            _fail(self.source, "num-nodes", "too few memory nodes", self.num_nodes, expected)

    def to_mapping(self) -> dict[str, object]:
        """The memory as ASTRA-sim's JSON file holds it."""
        return {key.name: getattr(self, key.python_name) for key in MEMORY if key.name not in _IDLE[self.kind]}


@lists_too
def load_memory(source: Source | RemoteMemory | None, notes: Notes | None = None) -> RemoteMemory:
    """Read ASTRA-sim's remote-memory JSON: a path, the mapping such a file holds, or a :class:`RemoteMemory` as it is.

    None means no memory expansion. Fractions are cut off as in the reference; that and every key without effect add to
    ``notes``. Raises :class:`chakrasim.InputError` for a missing or unknown type and for values out of range.
    """
    if source is None:
        return RemoteMemory()
    if isinstance(source, RemoteMemory):
        return source
    section = open_section(source, _KIND, "json", notes)
    values = read(section, MEMORY)
    kind = values["kind"]
    section.warn_unknown(names(MEMORY))
    for key in section.entries:
        if key in _IDLE[kind]:
            section.warn(key, f"the key has no effect with {kind}")
    if kind != NO_MEMORY_EXPANSION and values["bandwidth"] == 0:
        section.warn("remote-mem-bw", "is 0 or missing: an access takes its latency alone, whatever its size")
    if kind == PER_NODE and values["num_npus_per_node"] == 0:
        section.fail("num-npus-per-node", "is 0 or missing", expected="at least 1 NPU per memory node")
    return RemoteMemory(**values, source=section.file)


def _fail(file: str, key: str, message: str, found: object, expected: str) -> None:
    raise InputError(message, file=file, place=f"$.{key}", found=describe(found), expected=expected)
