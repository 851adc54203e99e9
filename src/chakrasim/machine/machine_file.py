"""Our machine file: network, compute, memory and collectives of one machine in one readable YAML file.

Every quantity carries its unit, ``false`` is off, and a key that is not known is an error. docs/reference-machine.md
describes every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from chakrasim.config.decode import Scalar, as_sequence, decode_yaml, describe
from chakrasim.config.section import INT32_MAX, TIME_MAX, Section, Source, open_section, resolve, string_keys
from chakrasim.config.units import BANDWIDTH, COMPUTE, TIME, TIME_PER_BYTE, quantity, real, whole
from chakrasim.errors import InputError, near
from chakrasim.machine.algorithm import Algorithm, parse_algorithm
from chakrasim.machine.device.file import device_names, load_device
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.machine.machine import Machine
from chakrasim.machine.memory import MEMORY_POOL, PER_NODE, PER_NPU, RemoteMemory
from chakrasim.machine.network import Network, load_network
from chakrasim.machine.presets import preset_names, preset_text
from chakrasim.machine.system import COLLECTIVES, DEFAULT_TRACE_FILENAME, OPTIMIZATIONS, POLICIES, System
from chakrasim.machine.system_file import per_node_custom, traces_exist
from chakrasim.machine.topologies import topology_of
from chakrasim.notes import Notes, lists_too

KIND = "machine file"
EXPANSIONS = {"per-npu": PER_NPU, "per-node": PER_NODE, "pool": MEMORY_POOL}
_HINT = "ASTRA-sim's own files are given as network, system and memory, not as a machine"
_KEYS = ("format", "name", "source", "network", "compute", "memory", "collectives", "placeholders")
_PLAIN_INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")


@lists_too
def load_machine(source: Source | Machine, notes: Notes) -> Machine:
    """Read a machine: the name of a preset, the path of a machine file, the mapping such a file holds, or a Machine.

    A name of a preset wins over a file of that name (write ``./name`` for the file). Raises
    :class:`chakrasim.InputError` for unknown keys, missing or unknown units and values out of range.
    """
    if isinstance(source, Machine):
        return source
    if isinstance(source, str) and source in preset_names():
        name = f"preset {source}"
        content = decode_yaml(preset_text(source).encode(), name)
        section = Section(string_keys(_mapping(content, name), name, "$"), name, notes)
    else:
        _check_exists(source)
        section = open_section(source, KIND, "yaml", notes)
    section.refuse_unknown(_KEYS, _HINT)
    if "format" in section and _integer(section, "format", 0, 0) != 1:
        section.fail("format", "unknown format", found=section.entries["format"], expected="1")
    network = _network(section)
    if "collectives" not in section:
        expected = "a mapping of " + ", ".join(_COLLECTIVE_KEYS)
        section.fail("collectives", "the key is missing", expected=expected)
    collectives = _collectives(section.strictly_below("collectives", _COLLECTIVE_KEYS), network.dimensions)
    computing = section.strictly_below("compute", ("peak", "roofline", "replay-only", "profile"))
    compute, profile = _compute(computing), _profile(computing)
    memory = section.strictly_below("memory", ("bandwidth", "track", "track-file", "shared-bus", "expansion"))
    system = System(**collectives, **compute, **_local_memory(memory), **_shared_bus(memory))  # type: ignore[arg-type]
    _warn(section, memory, system)
    _warn_of_placeholders(section)
    expansion = _expansion(memory)
    return Machine(network, system, expansion, profile, section.text("name", ""), section.text("source", "").strip())


def _mapping(content: object, name: str) -> Mapping[object, object]:
    if not isinstance(content, Mapping):
        raise InputError(f"not a {KIND}", file=name, place="$", found=describe(content), expected="a mapping")
    return content


def _check_exists(source: object) -> None:
    """A word that is neither a preset nor a file was most likely meant as a preset."""
    if not isinstance(source, str) or re.search(r"[/\\.\x00]", source) or os.path.exists(source):
        return
    names = preset_names()
    raise InputError(
        "neither a preset nor a machine file",
        found=describe(source),
        expected="a path, or one of " + ", ".join(names),
        remedy=near(source, names) or None,
    )


def _integer(section: Section, key: str, default: int, low: int) -> int:
    if key not in section:
        return default
    value = section.entries[key]
    number: object = int(value) if isinstance(value, str) and _PLAIN_INTEGER.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= INT32_MAX:
        section.fail(key, "not a valid number", found=value, expected=f"an integer from {low} to {INT32_MAX}")
    return number


def _boolean(section: Section, key: str) -> bool:
    value = section.entries.get(key, False)
    if isinstance(value, Scalar) and not value.quoted and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        section.fail(key, "not a switch", found=value, expected="true or false")
    return value


def _network(section: Section) -> Network:
    """One mapping per dimension, the innermost first."""
    keys = ("topology", "npus", "bandwidth", "latency")
    if "network" not in section:
        section.fail("network", "the key is missing", expected="a list of dimensions with " + ", ".join(keys))
    columns: dict[object, list[object]] = {"topology": [], "npus_count": [], "bandwidth": [], "latency": []}
    dimensions = section.sequence("network", "a list of dimensions, the innermost first")
    if not dimensions:
        section.fail("network", "no dimensions", expected="at least one")
    listing = Section({}, section.file, section.notes, section.at("network"))
    for index, entry in enumerate(dimensions):
        if not isinstance(entry, Mapping):
            listing.fail(index, "not a mapping", found=entry, expected="a mapping of " + ", ".join(keys))
        entries = string_keys(entry, section.file, listing.at(index))
        dimension = Section(entries, section.file, section.notes, listing.at(index))
        dimension.refuse_unknown(keys)
        dimension.need(keys)
        columns["topology"].append(_topology(dimension))
        columns["npus_count"].append(_integer(dimension, "npus", 0, 2))
        bandwidth = real(dimension, "bandwidth", BANDWIDTH, "GiB/s", '"400 GiB/s"')
        if bandwidth == 0:
            dimension.fail("bandwidth", "out of range", found=entries["bandwidth"], expected="a bandwidth above 0")
        columns["bandwidth"].append(bandwidth)
        columns["latency"].append(real(dimension, "latency", TIME, "ns", '"936.25 ns"'))
    try:
        return load_network(columns, section.notes)
    except InputError as error:
        section.fail("network", error.message, expected=error.expected or "")


def _topology(dimension: Section) -> str:
    name = dimension.text("topology", "")
    try:
        topology_of(name)
    except InputError as error:
        remedy = error.remedy or ""
        dimension.fail("topology", error.message, found=name, expected=error.expected or "", remedy=remedy)
    return name


def _compute(section: Section) -> dict[str, object]:
    peak = 0.0
    if "peak" in section:
        # The reference multiplies a number of TFLOP/s: the same product in double precision.
        peak = real(section, "peak", COMPUTE, "TFLOP/s", '"900 TFLOP/s"') * 1e12
    roofline, replay = _boolean(section, "roofline"), _boolean(section, "replay-only")
    if roofline and peak == 0:
        section.fail("peak", "the roofline model needs the peak compute", expected='a quantity such as "900 TFLOP/s"')
    return {"peak_perf_flops": peak, "roofline_enabled": roofline, "replay_only": replay}


def _profile(compute: Section) -> DeviceProfile | None:
    """The device profile that ``compute`` names: a shipped one, or a file, beside the machine file if not here."""
    if "profile" not in compute:
        return None
    for other in ("roofline", "replay-only"):
        if _boolean(compute, other):
            compute.fail("profile", f"does not go with {other}: true", remedy="leave one of them out")
    name = compute.text("profile", "")
    if not name:
        compute.fail("profile", "no name", expected="a file, or one of " + ", ".join(device_names()))
    if name in device_names():
        return load_device(name)
    try:
        return load_device(resolve(name, compute.folder, os.path.exists))
    except InputError as error:
        if error.file is not None:
            raise
        compute.fail("profile", error.message, found=name, expected=error.expected or "", remedy=error.remedy or "")


def _local_memory(section: Section) -> dict[str, object]:
    bandwidth = 0.0
    if "bandwidth" in section:
        bandwidth = real(section, "bandwidth", BANDWIDTH, "GB/s", '"3350 GB/s"') * 1e9
    return {
        "local_mem_bw": bandwidth,
        "track_local_mem": _boolean(section, "track"),
        "local_mem_trace_filename": section.text("track-file", DEFAULT_TRACE_FILENAME),
    }


def _shared_bus(memory: Section) -> dict[str, object]:
    if "shared-bus" not in memory:
        return {}
    keys = ("latency", "overhead", "gap", "gap-per-byte", "reduction-delay")
    bus = memory.strictly_below("shared-bus", keys)
    bus.need(keys)
    times = {key: whole(bus, key, TIME, "ns", '"10 ns"', INT32_MAX) for key in keys if key != "gap-per-byte"}
    per_byte = float(quantity(bus, "gap-per-byte", TIME_PER_BYTE, "ns/B", '"0.0038 ns/B"'))
    rounded = Section({"gap-per-byte": per_byte}, bus.file, bus.notes, bus.path).float32("gap-per-byte", unit="ns/B")
    return {
        "model_shared_bus": True,
        "L": times["latency"],
        "o": times["overhead"],
        "g": times["gap"],
        "G": rounded,
        "local_reduction_delay": times["reduction-delay"],
    }


def _expansion(memory: Section) -> RemoteMemory:
    if "expansion" not in memory:
        return RemoteMemory()
    section = memory.strictly_below("expansion", ("kind", "latency", "bandwidth", "nodes", "npus-per-node"))
    section.need(("kind", "latency", "bandwidth"))
    kind = EXPANSIONS[section.choice("kind", "", tuple(EXPANSIONS))]
    latency = whole(section, "latency", TIME, "ns", '"1000 ns"', TIME_MAX - 1)
    bandwidth = whole(section, "bandwidth", BANDWIDTH, "GB/s", '"50 GB/s"', INT32_MAX)
    if bandwidth == 0:
        section.fail("bandwidth", "out of range", found=section.entries["bandwidth"], expected="at least 1 GB/s")
    if kind != PER_NODE:
        for key in ("nodes", "npus-per-node"):
            if key in section:
                section.fail(key, "only expansion of kind per-node has memory nodes", remedy="leave the key out")
        return RemoteMemory(kind, latency, bandwidth)
    section.need(("nodes", "npus-per-node"))
    return RemoteMemory(
        kind, latency, bandwidth, _integer(section, "nodes", 0, 1), _integer(section, "npus-per-node", 0, 1)
    )


_COLLECTIVE_KEYS = (
    "splits",
    "active-chunks",
    "endpoint-delay",
    "optimization",
    "scheduling",
    "algorithms",
    "custom",
    "custom-per-node",
)


def _collectives(section: Section, dimensions: int) -> dict[str, object]:
    section.need(("splits",))
    algorithms = section.strictly_below("algorithms", COLLECTIVES)
    custom = section.strictly_below("custom", COLLECTIVES)
    settings: dict[str, object] = {
        "preferred_dataset_splits": _integer(section, "splits", 0, 1),
        "active_chunks_per_dimension": _integer(section, "active-chunks", 1, 1),
        "collective_optimization": section.choice("optimization", "baseline", OPTIMIZATIONS),
        "scheduling_policy": section.choice("scheduling", "LIFO", POLICIES),
        "implementations": {name: _algorithms(algorithms, name, dimensions) for name in algorithms.entries},
        "custom": {name: resolve(custom.text(name, ""), section.folder, traces_exist) for name in custom.entries},
        "per_node_custom": per_node_custom(section, "custom-per-node"),
    }
    if "endpoint-delay" in section:
        settings["endpoint_delay_ns"] = whole(section, "endpoint-delay", TIME, "ns", '"10 ns"', INT32_MAX)
        settings["endpoint_delay_given"] = True
    return settings


def _algorithms(section: Section, key: str, dimensions: int) -> tuple[Algorithm, ...]:
    """One name for all dimensions, or a list with one name per dimension."""
    if isinstance(section.entries[key], str):
        algorithm = parse_algorithm(section.text(key, ""), section, key, 0)
        return (algorithm,) * (1 if algorithm.spans_all_ranks else dimensions)
    names = section.sequence(key, "the name of an algorithm, or a list of them, one per dimension")
    algorithms = []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            section.fail((key, index), "not a string", found=name, expected="the name of an algorithm")
        algorithms.append(parse_algorithm(str(name), section, key, index))
    spanning = [algorithm.spans_all_ranks for algorithm in algorithms]
    if (any(spanning) and len(algorithms) > 1) or (not any(spanning) and len(algorithms) != dimensions):
        expected = f"one name per dimension of the network ({dimensions}), or one algorithm that spans all ranks"
        section.fail(key, "the list does not fit the network", found=section.entries[key], expected=expected)
    return tuple(algorithms)


def _warn(section: Section, memory: Section, system: System) -> None:
    if system.local_mem_bw == 0:
        memory.warn("bandwidth", "is 0 or missing: reductions are free")
    if "track-file" in memory and not system.track_local_mem:
        memory.warn("track-file", "the key has no effect without track")
    if not system.implementations and not system.custom and not system.per_node_custom:
        section.warn("collectives", "no algorithms: the machine can run no collective")


def _warn_of_placeholders(section: Section) -> None:
    """A warning for each figure that the file itself calls a placeholder, by its place in the file."""
    placeholders = section.below("placeholders", ())
    for place in placeholders.entries:
        if not _stands_in(section.entries, place):
            placeholders.fail(place, "the file has no such key", expected="a place such as memory.bandwidth")
        section.notes.warn(f"{section.file}: $.{place} is a placeholder: {placeholders.text(place, '')}")


def _stands_in(entries: object, place: str) -> bool:
    """Whether there is something at a place such as ``network[0].bandwidth``."""
    found = entries
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(found, Mapping) and step in found:
            found = found[step]
            continue
        listed = as_sequence(found) if _PLAIN_INTEGER.fullmatch(step) else None
        if listed is None or int(step) >= len(listed):
            return False
        found = listed[int(step)]
    return found is not entries
