"""Reading ASTRA-sim's system JSON into :class:`chakrasim.machine.System`, its oddities included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path

from chakrasim.config.decode import Scalar, decode_yaml, describe, parse_integer, printable, read_bytes
from chakrasim.config.section import INT32_MAX, TIME_MAX, Section, Source, open_section, resolve, warn_unknown
from chakrasim.machine.algorithm import Algorithm, parse_algorithm
from chakrasim.machine.system import (
    COLLECTIVES,
    DEFAULT_ENDPOINT_DELAY_NS,
    DEFAULT_REDUCTION_DELAY,
    DEFAULT_TRACE_FILENAME,
    OPTIMIZATIONS,
    POLICIES,
    System,
)
from chakrasim.notes import Notes, lists_too

_BUS_KEYS = ("L", "o", "g", "G", "local-reduction-delay")
_SWITCHES = ("roofline-enabled", "trace-enabled", "replay-only", "track-local-mem")
_PLAIN_KEYS = (
    "scheduling-policy",
    "collective-optimization",
    "active-chunks-per-dimension",
    "preferred-dataset-splits",
    "endpoint-delay",
    "model-shared-bus",
    "peak-perf",
    "local-mem-bw",
    "local-mem-trace-filename",
    "per-node-custom-implementation",
    *_BUS_KEYS,
    *_SWITCHES,
)
_IMPLEMENTATION_KEYS = tuple(f"{name}-implementation" for name in COLLECTIVES)
_CUSTOM_KEYS = tuple(f"{name}-implementation-custom" for name in COLLECTIVES)
KEYS = (*_PLAIN_KEYS, *_IMPLEMENTATION_KEYS, *_CUSTOM_KEYS)
"""Every key that has an effect here."""


@lists_too
def load_system(source: Source | System, notes: Notes) -> System:
    """Read ASTRA-sim's system JSON: a path, the mapping such a file holds, or a :class:`System` as it is.

    Defaults and oddities are the reference's (astra-system.md section 3). Adds a line to ``notes`` for every key
    without effect and every value that was guessed, cut off or taken in an unexpected sense. Raises
    :class:`chakrasim.InputError` for values that the reference cannot run with.
    """
    if isinstance(source, System):
        return source
    section = open_section(source, "system configuration", "json", notes)
    warn_unknown(section, KEYS)
    if "preferred-dataset-splits" not in section:
        remedy = "give the number of chunks per collective, such as 4"
        section.fail(
            "preferred-dataset-splits", "the key is missing", expected="an integer of at least 1", remedy=remedy
        )
    switches = {name.replace("-", "_"): _switch(section, name) for name in _SWITCHES}
    bus = section.integer("model-shared-bus", 0, -INT32_MAX, INT32_MAX)
    if bus not in (0, 1):
        section.warn("model-shared-bus", f"{bus} leaves the shared bus off; only 1 turns it on")
    native = {name: _implementation(section, name) for name in COLLECTIVES}
    custom = {name: _custom(section, name) for name in COLLECTIVES}
    system = System(
        scheduling_policy=_policy(section, "scheduling-policy", POLICIES, "LIFO"),
        collective_optimization=_policy(section, "collective-optimization", OPTIMIZATIONS, "baseline"),
        active_chunks_per_dimension=section.integer("active-chunks-per-dimension", 1, 1, INT32_MAX),
        preferred_dataset_splits=section.integer("preferred-dataset-splits", 0, 1, INT32_MAX),
        endpoint_delay_ns=section.integer("endpoint-delay", DEFAULT_ENDPOINT_DELAY_NS, 0, INT32_MAX, unit="ns"),
        endpoint_delay_given="endpoint-delay" in section,
        local_reduction_delay=section.integer("local-reduction-delay", DEFAULT_REDUCTION_DELAY, 0, INT32_MAX),
        model_shared_bus=bus == 1,
        L=_cut_off(section, "L"),
        o=_cut_off(section, "o"),
        g=_cut_off(section, "g"),
        G=section.float32("G", unit="ns per byte"),
        peak_perf_flops=_scaled(section, "peak-perf", 1e12, "TFLOP/s"),
        local_mem_bw=_scaled(section, "local-mem-bw", 1e9, "GB/s"),
        local_mem_trace_filename=section.text("local-mem-trace-filename", DEFAULT_TRACE_FILENAME),
        implementations={name: algorithms for name, algorithms in native.items() if algorithms},
        custom={name: path for name, path in custom.items() if path is not None},
        per_node_custom=per_node_custom(section, "per-node-custom-implementation"),
        **switches,
    )
    _warn_without_effect(section, system)
    return system


def _policy(section: Section, key: str, choices: tuple[str, ...], default: str) -> str:
    if key not in section:
        section.warn(key, f"the key is missing, {default} is assumed")
    return section.choice(key, default, choices)


def _switch(section: Section, key: str) -> bool:
    """On unless the value equals the number 0: a JSON boolean, string or null never does."""
    if key not in section:
        return False
    value = section.entries[key]
    if isinstance(value, Real) and not isinstance(value, bool):
        return bool(value != 0)
    shown = describe(value)
    section.warn(key, f"{shown} turns it on, as anything but the number 0 does in the reference; write 0 or 1")
    return True


def _scaled(section: Section, key: str, scale: float, unit: str) -> float:
    value = section.number(key, 0.0, unit=unit) * scale
    if value == float("inf"):
        section.fail(key, "out of range", found=section.entries[key], expected=f"a finite number in {unit}")
    return value


def _cut_off(section: Section, key: str) -> int:
    """A LogGP time: rounded to 32-bit floating point, then cut off to whole ns."""
    value = section.float32(key, unit="ns")
    if value >= TIME_MAX:
        section.fail(key, "out of range", found=section.entries[key], expected="a time below 2^62 ns")
    if value != int(value):
        section.warn(key, f"{describe(section.entries[key])} is cut off to {int(value)} ns")
    return int(value)


def _implementation(section: Section, collective: str) -> tuple[Algorithm, ...]:
    key = f"{collective}-implementation"
    if key not in section:
        return ()
    expected = 'a list of algorithm names, one per dimension, such as ["ring"]'
    names = section.sequence(key, expected)
    if not names:
        section.warn(key, "an empty list counts as a missing key")
    algorithms = []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            section.fail((key, index), "not a string", found=name, expected="the name of an algorithm")
        algorithms.append(parse_algorithm(str(name), section, key, index))
    return tuple(algorithms)


def _custom(section: Section, collective: str) -> str | None:
    key = f"{collective}-implementation-custom"
    if key not in section:
        return None
    expected = "a list with exactly one string: the prefix of Chakra traces, or the path of an MSCCL .xml"
    paths = section.sequence(key, expected)
    if len(paths) != 1 or not isinstance(paths[0], str):
        section.fail(key, "not one path", found=section.entries[key], expected=expected)
    return resolve(str(paths[0]), section.folder, traces_exist)


def traces_exist(prefix: str) -> bool:
    """Whether ``prefix`` is a file, or the prefix of the traces of rank 0 on."""
    return any(os.path.exists(prefix + end) for end in ("", ".0.et", ".0.et.gz"))


def per_node_custom(section: Section, key: str) -> dict[int, str]:
    """The YAML file named by the key: trace node id to trace prefix. From Python the mapping itself will do."""
    if key not in section:
        return {}
    value = section.entries[key]
    content: object = value
    inner = Section({}, section.file, section.notes, section.at(key), section.folder)
    if isinstance(value, str):
        name = resolve(str(value), section.folder, os.path.exists)
        inner = Section({}, printable(name), section.notes, folder=Path(name).parent)
        content = decode_yaml(read_bytes(name, "per-node custom implementations"), name)
    if not isinstance(content, Mapping):
        section.fail(
            key, "not a mapping of node ids to traces", found=content, expected="the path of a YAML file: id: prefix"
        )
    implementations: dict[int, str] = {}
    for node, prefix in content.items():
        number = parse_integer(node) if isinstance(node, str) else node
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**64:
            inner.fail(None, "not a node id", found=node, expected="an integer >= 0")
        if number in implementations:
            inner.fail(str(number), "the node is there twice")
        if not isinstance(prefix, str) or (isinstance(prefix, Scalar) and prefix.is_null):
            inner.fail(str(number), "not a string", found=prefix, expected="the prefix of Chakra traces")
        implementations[number] = resolve(str(prefix), inner.folder, traces_exist)
    return implementations


def _warn_without_effect(section: Section, system: System) -> None:
    """Keys whose switch is off, and switches that make others idle."""
    if not system.model_shared_bus:
        for key in _BUS_KEYS:
            if key in section:
                section.warn(key, "the key has no effect without model-shared-bus 1")
    if system.replay_only and system.roofline_enabled:
        section.warn("roofline-enabled", "the key has no effect with replay-only on")
    if "peak-perf" in section and not (system.roofline_enabled and not system.replay_only):
        section.warn("peak-perf", "the key has no effect without roofline-enabled")
    if system.roofline_enabled and not system.replay_only and system.peak_perf_flops == 0:
        section.warn("peak-perf", "is 0 or missing: compute nodes under the roofline model take 0 ns")
    if "local-mem-trace-filename" in section and not system.track_local_mem:
        section.warn("local-mem-trace-filename", "the key has no effect without track-local-mem")
    if system.local_mem_bw == 0:
        section.warn("local-mem-bw", "is 0 or missing: reductions are free")
    if system.trace_enabled:
        section.warn("trace-enabled", "the key adds debug lines in the reference; chakrasim writes none")
    for name in COLLECTIVES:
        if name in system.custom and name in system.implementations:
            section.warn(f"{name}-implementation", f"the key has no effect beside {name}-implementation-custom")
