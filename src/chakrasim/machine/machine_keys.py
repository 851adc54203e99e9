"""The keys of our machine file, from which docs/reference-machine.md and the schema for editors are written too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from chakrasim.collectives.libraries.settings import Settings, settings_of
from chakrasim.collectives.libraries.versions import Library
from chakrasim.config.kinds import choice, number, paragraph, path, switch, text, version, whole
from chakrasim.config.lenient import to_float32
from chakrasim.config.section import INT32_MAX, TIME_MAX, Section
from chakrasim.config.table import EMPTY, REQUIRED, Key, Kind, Required, Values, each, list_of, mapping, names
from chakrasim.config.units import BANDWIDTH, COMPUTE, TIME, TIME_PER_BYTE, real, whole_quantity
from chakrasim.errors import InputError
from chakrasim.machine.algorithm import Algorithm, parse_algorithm
from chakrasim.machine.constants_keys import CALIBRATED
from chakrasim.machine.graph.network_file import graph_kind
from chakrasim.machine.graph.network_keys import MODELS, NetworkModel
from chakrasim.machine.machine import ISSUES, MAX_SCALE
from chakrasim.machine.memory import MEMORY_POOL, PER_NODE, PER_NPU, RemoteMemory
from chakrasim.machine.network import topology_name
from chakrasim.machine.site import MADE, Make, named_library
from chakrasim.machine.slow import SLOW
from chakrasim.machine.system import (
    COLLECTIVES,
    DEFAULT_ENDPOINT_DELAY_NS,
    DEFAULT_TRACE_FILENAME,
    OPTIMIZATIONS,
    POLICIES,
)
from chakrasim.machine.system_file import algorithm_list, per_node_custom, traces_exist

EXPANSIONS: Final = {"per-npu": PER_NPU, "per-node": PER_NODE, "pool": MEMORY_POOL}


def _algorithms(section: Section, key: str) -> Algorithm | tuple[Algorithm, ...]:
    if isinstance(section.entries[key], str):
        return parse_algorithm(text.read(section, key), section, key, 0)
    return algorithm_list(section, key, "the name of an algorithm, or a list of them, one per dimension")


def _bus(section: Section, values: Values) -> Values:
    return {**values, "G": to_float32(section, "gap-per-byte", values["G"]), "model_shared_bus": True}


def _expansion(section: Section, values: Values) -> RemoteMemory:
    kind = EXPANSIONS[values.pop("kind")]
    for key in ("nodes", "npus-per-node"):
        if kind != PER_NODE and key in section:
            section.fail(key, "only expansion of kind per-node has memory nodes", remedy="leave the key out")
        if kind == PER_NODE and key not in section:
            section.fail(key, "the key is missing")
    return RemoteMemory(kind, **values)


def _compute(section: Section, values: Values) -> Values:
    if values["roofline_enabled"] and values["peak_perf_flops"] == 0:
        section.fail("peak", "the roofline model needs the peak compute", expected='a quantity such as "900 TFLOP/s"')
    for key, on in (("roofline", values["roofline_enabled"]), ("replay-only", values["replay_only"])):
        if on and "profile" in section:
            section.fail("profile", f"does not go with {key}: true", remedy="leave one of them out")
    return values


def _library(section: Section, key: str) -> Library | None:
    try:
        return named_library(text.read(section, key))
    except InputError as error:
        section.fail(key, error.message, found=section.entries[key], expected=error.expected or "",
                     remedy=error.remedy or "")  # fmt: skip


def _environment(section: Section, key: str) -> Settings:
    below = section.below(key, ("variables such as NCCL_ALGO",))
    try:
        return settings_of({name: text.read(below, name) for name in below.entries})
    except InputError as error:
        name = error.place or ""
        below.fail(name if name in below else None, error.message, found=error.found, expected=error.expected or "",
                   remedy=error.remedy or "")  # fmt: skip


def _packets(section: Section, key: str) -> Mapping[str, object]:
    below = section.below(key, ("keys such as CC_MODE",))
    return {name: dict(value) if isinstance(value, Mapping) else str(value) for name, value in below.entries.items()}


_LIBRARY: Final = Kind(_library, "text", {"type": "string"})
_ENVIRONMENT: Final = Kind(_environment, "mapping", {"type": "object"})
_NS: Final = whole_quantity(TIME, "ns", '"10 ns"', INT32_MAX, "time, whole ns")
_LONG_NS: Final = whole_quantity(TIME, "ns", '"1000 ns"', TIME_MAX - 1, "time, whole ns")
_LATENCY: Final = real(TIME, "ns", '"936.25 ns"', "time")
_LINK: Final = real(BANDWIDTH, "GiB/s", '"400 GiB/s"', "bandwidth", above_zero="a bandwidth above 0")
_GB: Final = whole_quantity(
    BANDWIDTH, "GB/s", '"50 GB/s"', INT32_MAX, "bandwidth, whole GB/s", above_zero="at least 1 GB/s"
)
_MEMORY_SPEED: Final = real(BANDWIDTH, "GB/s", '"3350 GB/s"', "bandwidth", scale=1e9)
# The reference multiplies a number of TFLOP/s: the same product in double precision.
_PEAK: Final = real(COMPUTE, "TFLOP/s", '"900 TFLOP/s"', "compute", scale=1e12)
_PER_BYTE: Final = real(TIME_PER_BYTE, "ns/B", '"0.0038 ns/B"', "ns/B")
_NAMES: Final = Kind(
    _algorithms, "text", {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
_FACTOR: Final = number(0.0, MAX_SCALE, "a factor from 0 to 10^9", "number >= 0")

_DIMENSION: Final = (
    Key("topology", topology_name, REQUIRED, "shape of the dimension"),
    Key("npus", whole(2), REQUIRED, "ranks along the dimension", "npus_count"),
    Key("bandwidth", _LINK, REQUIRED, "of each link and direction"),
    Key("latency", _LATENCY, REQUIRED, "of each link, one way; a message through a switch crosses two links"),
)  # fmt: skip

_DIMENSIONS: Final = list_of(_DIMENSION, "a list of dimensions, the innermost first, or a mapping", "dimensions")
_WITH_MODEL: Final = (
    Key("dimensions", _DIMENSIONS, REQUIRED, "one mapping per dimension, innermost first"),
    Key("network-model", choice(MODELS), None, "how messages share links", shown="what the command line says"),
)  # fmt: skip
_GRAPH: Final = graph_kind()


class DimensionNetwork(NamedTuple):
    """A network of dimensions, and how messages share it."""

    dimensions: list[Values]
    model: NetworkModel | None


def _network(section: Section, key: str) -> Any:
    given = section.entries[key]
    if not isinstance(given, Mapping) or not given:
        return DimensionNetwork(_DIMENSIONS.read(section, key), None)
    return (_DIMENSIONS_OF if "dimensions" in given else _GRAPH).read(section, key)


_DIMENSIONS_OF: Final = mapping(
    _WITH_MODEL, lambda section, values: DimensionNetwork(values["dimensions"], values["network_model"])
)


_NETWORK: Final = Kind(
    _network,
    "list",
    {"if": {"type": "object"}, "then": {"anyOf": [_GRAPH.schema, _DIMENSIONS_OF.schema]}, "else": _DIMENSIONS.schema},
    _DIMENSION,
    "[].",
)

_COMPUTE: Final = (
    Key("peak", _PEAK, 0.0, "peak of one rank; needed with `roofline`", "peak_perf_flops", shown="none"),
    Key("roofline", switch, False,
        "compute nodes take min(peak, memory bandwidth x intensity) instead of their recorded duration, which those "
        "keep that do not state operations and bytes", "roofline_enabled"),
    Key("replay-only", switch, False, "every node, communication included, takes its recorded duration"),
    Key("profile", text, None,
        "a [device profile](#device-profiles), by name or file, times the compute nodes that state their work; not "
        "together with `roofline` or `replay-only`"),
)  # fmt: skip

_BUS: Final = (
    Key("latency", _NS, REQUIRED, "L of the LogGP model", "L"),
    Key("overhead", _NS, REQUIRED, "o", "o"),
    Key("gap", _NS, REQUIRED, "g", "g"),
    Key("gap-per-byte", _PER_BYTE, REQUIRED, "G, kept in 32-bit floating point as in ASTRA-sim", "G"),
    Key("reduction-delay", _NS, REQUIRED, "for every full 100 bytes reduced on the bus", "local_reduction_delay"),
)  # fmt: skip

_EXPANSION: Final = (
    Key("kind", choice(EXPANSIONS), REQUIRED, "no contention; one server per memory node; one server for all"),
    Key("latency", _LONG_NS, REQUIRED, "of every access", "latency_ns"),
    Key("bandwidth", _GB, REQUIRED, "the time of S bytes is latency + trunc(S / bandwidth)"),
    Key("nodes", whole(1), 0, "how many memory nodes there are", "num_nodes", shown="required for `per-node`"),
    Key("npus-per-node", whole(1), 0, "rank r uses memory node r // npus-per-node", "num_npus_per_node",
        shown="required for `per-node`"),
)  # fmt: skip

_MEMORY: Final = (
    Key("bandwidth", _MEMORY_SPEED, 0.0, "of a rank's own memory: reductions and roofline; 0 makes reductions free",
        "local_mem_bw", shown="0, with a warning"),
    Key("track", switch, False, "track which tensors are live; needs inputs and outputs on every node",
        "track_local_mem"),
    Key("track-file", text, DEFAULT_TRACE_FILENAME, "prefix of the files that tracking writes",
        "local_mem_trace_filename"),
    Key("shared-bus", mapping(_BUS, _bus), {},
        "LogGP model of the bus between NPU and memory; all five keys are needed", shown="off"),
    Key("expansion", mapping(_EXPANSION, _expansion), RemoteMemory(),
        "remote memory behind the loads and stores of a trace", shown="none"),
)  # fmt: skip

_COLLECTIVES: Final = (
    Key("splits", whole(1), REQUIRED, "chunks per collective", "preferred_dataset_splits"),
    Key("library", _LIBRARY, None, "who runs the collectives on the flow network, as it would: `nccl`, `nccl-2.27.7`, "
        "`rccl`, `rccl-2.20.5`; `none`: the algorithms below", shown="`none`; of boards the vendor's"),
    Key("environment", _ENVIRONMENT, Settings(), "variables of the library, such as `NCCL_ALGO: Ring`",
        "settings", shown="none"),
    Key("site", MADE, Make(),
        "what the library sees of the machine beside its graph", "make", shown="of boards their own"),
    Key("constants", CALIBRATED, None, "what `chakrasim calibrate collectives` found of the machine and the library",
        "calibrated", shown="as on machines like it"),
    Key("active-chunks", whole(1), 1, "chunks in flight per dimension", "active_chunks_per_dimension"),
    Key("endpoint-delay", _NS, DEFAULT_ENDPOINT_DELAY_NS, "delay of every bundle at the endpoint; the injection scale "
        "applies if the key is there", "endpoint_delay_ns", shown="10 ns, not scaled"),
    Key("optimization", choice(OPTIMIZATIONS), "baseline", "order of an all-reduce over several dimensions",
        "collective_optimization"),
    Key("scheduling", choice(POLICIES), "LIFO", "which waiting collective starts first", "scheduling_policy"),
    Key("algorithms", each(COLLECTIVES, _NAMES), {},
        "by collective: one name for every dimension, or a list with one per dimension", "implementations"),
    Key("custom", each(COLLECTIVES, path(traces_exist)), {},
        "by collective: prefix of Chakra traces, or an MSCCL `.xml`"),
    Key("custom-per-node", per_node_custom, {},
        "by trace node id: the same, for one collective (a path: of a YAML file with such a mapping)",
        "per_node_custom"),
)  # fmt: skip

MACHINE: Final = (
    Key("format", version, 1, "version of this format"),
    Key("name", text, "", "for people: what it is"),
    Key("source", paragraph, "", "for people: where the figures come from"),
    Key("network", _NETWORK, Required("a list of dimensions with " + ", ".join(names(_DIMENSION)) + ", or a graph"),
        "one mapping per dimension, innermost first; or a mapping with [a graph of links](reference-topologies.md)"),
    Key("compute", mapping(_COMPUTE, _compute), EMPTY, "what times compute nodes"),
    Key("memory", mapping(_MEMORY), EMPTY, "a rank's own memory, and what lies behind it"),
    Key("collectives", mapping(_COLLECTIVES), Required("a mapping of " + ", ".join(names(_COLLECTIVES))),
        "how collectives run; a graph of links may leave it out: rings, and directly what concerns two ranks each"),
    Key("issue", choice(ISSUES), "astra-sim", "what runs at one time on a rank: `astra-sim`, one GPU operation and one "
        "communication, or `streams`, [side by side](explanation-engine.md#streams)",
        shown="`astra-sim`; of boards `streams`"),
    Key("packets", Kind(_packets, "mapping", {"type": "object"}), {},
        "keys of [the packet network](explanation-packet-network.md), as in the configuration of ASTRA-sim's ns-3 back "
        "end, such as `CC_MODE: 3`", shown="none"),
    Key("placeholders", Kind(lambda section, key: section.below(key, ()), "mapping", {"type": "object"}), None,
        "by place (`memory.bandwidth`, `network[0].latency`): why the figure there is none of the machine; each is a "
        "warning in every run"),
    Key("slow", SLOW, (), "by ranks (`5`, `0-7,16`) or boards (`board 2`): the factor of their compute nodes' times",
        shown="none"),
    Key("compute-scale", _FACTOR, 1.0, "factor of the times of all compute nodes, rounded to whole ns"),
    Key("comm-scale", _FACTOR, 1.0, "factor of the sizes of all collectives and messages, rounded to whole bytes, at "
        "least 1"),
)  # fmt: skip
