"""The system layer's configuration: scheduling, chunking, delays, compute and memory speed, collective algorithms
(ASTRA-sim's system JSON)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.config.section import INT32_MAX, TIME_MAX
from chakrasim.config.values import describe
from chakrasim.errors import InputError
from chakrasim.machine.algorithm import Algorithm

POLICIES = ("LIFO", "FIFO", "EXPLICIT")
OPTIMIZATIONS = ("baseline", "localBWAware")
COLLECTIVES = tuple(COLLECTIVE_KEYS.values())
"""Collective keys: the first four are ASTRA-sim's, the others ours."""

DEFAULT_ENDPOINT_DELAY_NS = 10
DEFAULT_REDUCTION_DELAY = 1
DEFAULT_TRACE_FILENAME = "local_mem_trace"
_INTEGER_RANGES = {
    "active_chunks_per_dimension": (1, INT32_MAX),
    "preferred_dataset_splits": (1, INT32_MAX),
    "endpoint_delay_ns": (0, INT32_MAX),
    "local_reduction_delay": (0, INT32_MAX),
    "L": (0, TIME_MAX - 1),
    "o": (0, TIME_MAX - 1),
    "g": (0, TIME_MAX - 1),
}


@dataclass(frozen=True, kw_only=True)
class System:
    """What the system layer of every rank is configured with.

    Raises :class:`chakrasim.InputError` when built from values outside these ranges.

    Parameters
    ----------
    scheduling_policy:
        ``LIFO``, ``FIFO`` or ``EXPLICIT``: which of several waiting collectives starts first.
    collective_optimization:
        ``baseline`` or ``localBWAware`` (reduce-scatter up, all-gather down the dimensions of an all-reduce).
    active_chunks_per_dimension, preferred_dataset_splits:
        Chunks in flight per dimension, chunks per collective; both at least 1.
    endpoint_delay_ns, endpoint_delay_given:
        Delay of every bundle at the endpoint in ns; the injection scale applies only to a delay that was given.
    model_shared_bus, L, o, g, G, local_reduction_delay:
        The LogGP bus: latency, overhead, gap in ns, G in ns per byte, reduction delay in ns per 100 bytes.
    peak_perf_flops, roofline_enabled:
        Peak compute of a rank in FLOP/s, and whether compute nodes follow the roofline model.
    local_mem_bw:
        Bandwidth of a rank's own memory in B/s; 0 makes reductions free.
    replay_only, trace_enabled:
        Every node takes its recorded duration; debug lines (chakrasim writes none).
    track_local_mem, local_mem_trace_filename:
        Memory tracking and the prefix of the files it writes.
    implementations:
        By collective key (:data:`COLLECTIVES`): one :class:`Algorithm` per dimension, dimension 0 first.
    custom:
        By collective key: prefix of Chakra traces, or path of an MSCCL ``.xml``, that replaces the algorithm.
    per_node_custom:
        By trace node id: the same for a single collective.
    """

    scheduling_policy: str = "LIFO"
    collective_optimization: str = "baseline"
    active_chunks_per_dimension: int = 1
    preferred_dataset_splits: int
    endpoint_delay_ns: int = DEFAULT_ENDPOINT_DELAY_NS
    endpoint_delay_given: bool = False
    local_reduction_delay: int = DEFAULT_REDUCTION_DELAY
    model_shared_bus: bool = False
    L: int = 0
    o: int = 0
    g: int = 0
    G: float = 0.0
    peak_perf_flops: float = 0.0
    local_mem_bw: float = 0.0
    roofline_enabled: bool = False
    trace_enabled: bool = False
    replay_only: bool = False
    track_local_mem: bool = False
    local_mem_trace_filename: str = DEFAULT_TRACE_FILENAME
    implementations: Mapping[str, tuple[Algorithm, ...]] = field(default_factory=dict)
    custom: Mapping[str, str] = field(default_factory=dict)
    per_node_custom: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_choices(self)
        for name, (low, high) in _INTEGER_RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                _fail(name, value, f"an integer from {low} to {high}")
        for name in ("G", "peak_perf_flops", "local_mem_bw"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                _fail(name, value, "a finite number >= 0")
        _check_customs(self)
        for collective, algorithms in self.implementations.items():
            good = isinstance(algorithms, tuple) and all(isinstance(one, Algorithm) for one in algorithms)
            if collective not in COLLECTIVES or not good or not algorithms:
                _fail("implementations", algorithms, f"tuples of Algorithm by collective ({', '.join(COLLECTIVES)})")

    def scaled_endpoint_delay_ns(self, injection_scale: float) -> int:
        """The endpoint delay in ns after the injection scale, cut off to whole ns; a delay that was not given keeps its
        default (astra-system.md section 3)."""
        if not self.endpoint_delay_given:
            return self.endpoint_delay_ns
        return int(self.endpoint_delay_ns * injection_scale)

    def to_mapping(self) -> dict[str, object]:
        """The configuration as ASTRA-sim's JSON file holds it; :func:`load_system` reads it back to an equal System."""
        mapping: dict[str, object] = {
            "scheduling-policy": self.scheduling_policy,
            "collective-optimization": self.collective_optimization,
            "active-chunks-per-dimension": self.active_chunks_per_dimension,
            "preferred-dataset-splits": self.preferred_dataset_splits,
            "local-mem-bw": _unscaled(self.local_mem_bw, 1e9),
        }
        if self.endpoint_delay_given:
            mapping["endpoint-delay"] = self.endpoint_delay_ns
        switches = ("roofline_enabled", "trace_enabled", "replay_only", "track_local_mem", "model_shared_bus")
        mapping |= {name.replace("_", "-"): 1 for name in switches if getattr(self, name)}
        mapping |= {name: getattr(self, name) for name in ("L", "o", "g", "G") if getattr(self, name)}
        if self.local_reduction_delay != DEFAULT_REDUCTION_DELAY:
            mapping["local-reduction-delay"] = self.local_reduction_delay
        if self.peak_perf_flops:
            mapping["peak-perf"] = _unscaled(self.peak_perf_flops, 1e12)
        if self.local_mem_trace_filename != DEFAULT_TRACE_FILENAME:
            mapping["local-mem-trace-filename"] = self.local_mem_trace_filename
        for collective, algorithms in self.implementations.items():
            mapping[f"{collective}-implementation"] = [algorithm.text for algorithm in algorithms]
        for collective, path in self.custom.items():
            mapping[f"{collective}-implementation-custom"] = [path]
        if self.per_node_custom:
            mapping["per-node-custom-implementation"] = dict(self.per_node_custom)
        return mapping


def _check_customs(system: System) -> None:
    for collective, path in system.custom.items():
        if collective not in COLLECTIVES or not isinstance(path, str):
            _fail("custom", path, f"paths by collective ({', '.join(COLLECTIVES)})")
    for node, path in system.per_node_custom.items():
        if not isinstance(node, int) or not isinstance(path, str):
            _fail("per_node_custom", path, "paths by node id")


def _unscaled(value: float, scale: float) -> float:
    """The number that gives ``value`` again when multiplied by ``scale``, whole where possible."""
    quotient = value / scale
    for candidate in (quotient, math.nextafter(quotient, math.inf), math.nextafter(quotient, 0.0)):
        if candidate * scale == value:
            return int(candidate) if candidate == int(candidate) else candidate
    return quotient


def _check_choices(system: System) -> None:
    for name, choices in (("scheduling_policy", POLICIES), ("collective_optimization", OPTIMIZATIONS)):
        if getattr(system, name) not in choices:
            _fail(name, getattr(system, name), "one of " + ", ".join(choices))
    for item in fields(system):
        value = getattr(system, item.name)
        if item.type == "bool" and not isinstance(value, bool):
            _fail(item.name, value, "True or False")
        if item.name in ("custom", "per_node_custom", "implementations") and not isinstance(value, Mapping):
            _fail(item.name, value, "a mapping")
    if not isinstance(system.local_mem_trace_filename, str):
        _fail("local_mem_trace_filename", system.local_mem_trace_filename, "a string")


def _fail(name: str, found: object, expected: str) -> None:
    raise InputError("out of range", file="System", place=f"$.{name}", found=describe(found), expected=expected)
