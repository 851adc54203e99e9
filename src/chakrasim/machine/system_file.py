"""Reading ASTRA-sim's system JSON into :class:`chakrasim.machine.System`, its oddities included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chakrasim.config.decode import decode_yaml, printable, read_bytes
from chakrasim.config.kinds import choice, word
from chakrasim.config.lenient import STRINGS, float32, integer, only_with, scaled, strings, switch, whole_ns
from chakrasim.config.section import INT32_MAX, Section, Source, open_section, resolve
from chakrasim.config.table import Assumed, Key, Kind, Required, names, read
from chakrasim.config.values import Scalar, parse_integer
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


def algorithm_list(section: Section, key: str, expected: str) -> tuple[Algorithm, ...]:
    """The algorithms of a list of names; ``expected`` is said of what is no list."""
    listed = strings(section, key, expected, "the name of an algorithm")
    return tuple(parse_algorithm(name, section, key, index) for index, name in enumerate(listed))


def _implementation(section: Section, key: str) -> tuple[Algorithm, ...]:
    found = algorithm_list(section, key, 'a list of algorithm names, one per dimension, such as ["ring"]')
    if not found:
        section.warn(key, "an empty list counts as a missing key")
    return found


def _custom(section: Section, key: str) -> str:
    expected = "a list with exactly one string: the prefix of Chakra traces, or the path of an MSCCL .xml"
    paths = section.sequence(key, expected)
    if len(paths) != 1 or not isinstance(paths[0], str):
        section.refuse(key, "not one path", expected)
    return resolve(str(paths[0]), section.folder, traces_exist)


def traces_exist(prefix: str) -> bool:
    """Whether ``prefix`` is a file, or the prefix of the traces of rank 0 on."""
    return any(os.path.exists(prefix + end) for end in ("", ".0.et", ".0.et.gz"))


def _per_node_custom(section: Section, key: str) -> dict[int, str]:
    """The YAML file named by the key: trace node id to trace prefix. From Python the mapping itself will do."""
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


per_node_custom: Final = Kind(_per_node_custom, "mapping or path", {"type": ["object", "string"]})
_NAMES: Final = Kind(_implementation, "list of names", STRINGS)
_PATH: Final = Kind(_custom, "list with one path", STRINGS)
_DELAY: Final = integer(0, INT32_MAX, shown="ns >= 0")
_BUS_KEYS: Final = ("L", "o", "g", "G", "local-reduction-delay")

SYSTEM: Final = (
    Key("scheduling-policy", choice(POLICIES), Assumed("LIFO"), "which waiting collective starts first"),
    Key("collective-optimization", choice(OPTIMIZATIONS), Assumed("baseline"),
        "order of an all-reduce over several dimensions"),
    Key("preferred-dataset-splits", integer(1, INT32_MAX),
        Required("an integer of at least 1", "give the number of chunks per collective, such as 4"),
        "chunks per collective"),
    Key("active-chunks-per-dimension", integer(1, INT32_MAX), 1, "chunks in flight per dimension"),
    Key("endpoint-delay", integer(0, INT32_MAX, "ns", "ns >= 0"), DEFAULT_ENDPOINT_DELAY_NS,
        "delay of every bundle; `--injection-scale` multiplies it if the key is there", "endpoint_delay_ns",
        shown="10, not scaled"),
    Key("local-mem-bw", scaled(1e9, "GB/s", "10^9 B/s"), 0.0, "reductions and roofline; 0 makes reductions free",
        shown="0, with a warning"),
    Key("peak-perf", scaled(1e12, "TFLOP/s", "10^12 FLOP/s"), 0.0, "roofline; without `roofline-enabled` no effect",
        "peak_perf_flops"),
    Key("roofline-enabled", switch, False, "compute nodes follow the roofline model"),
    Key("replay-only", switch, False,
        "every node takes its recorded duration; `roofline-enabled` then has no effect"),
    Key("track-local-mem", switch, False, "track live tensors"),
    Key("local-mem-trace-filename", word, DEFAULT_TRACE_FILENAME,
        "prefix of the tracking files; without `track-local-mem` no effect"),
    Key("trace-enabled", switch, False, "debug lines in ASTRA-sim; none here (a warning)"),
    Key("model-shared-bus", integer(-INT32_MAX, INT32_MAX, shown="number"), 0, "exactly 1 turns the LogGP bus on"),
    Key("L", whole_ns, 0, "LogGP latency: rounded to 32-bit floating point, then cut off; only with the bus"),
    Key("o", whole_ns, 0, "LogGP overhead, likewise"),
    Key("g", whole_ns, 0, "LogGP gap, likewise"),
    Key("G", float32("ns per byte"), 0.0, "LogGP gap per byte in 32-bit floating point; only with the bus"),
    Key("local-reduction-delay", _DELAY, DEFAULT_REDUCTION_DELAY,
        "for every full 100 bytes reduced on the bus; only with the bus"),
    *(Key(f"{name}-implementation", _NAMES, (), "one algorithm per dimension, dimension 0 first") for name in
        COLLECTIVES),
    *(Key(f"{name}-implementation-custom", _PATH, None,
        "prefix of Chakra traces, or an MSCCL `.xml`; wins over the list of names") for name in COLLECTIVES),
    Key("per-node-custom-implementation", per_node_custom, {},
        "trace node id to prefix, in a YAML file; from Python also the mapping itself", "per_node_custom"),
)  # fmt: skip
"""Every key that has an effect here."""


@lists_too
def load_system(source: Source | System, notes: Notes | None = None) -> System:
    """Read ASTRA-sim's system JSON: a path, the mapping such a file holds, or a :class:`System` as it is.

    Defaults and oddities are the reference's (astra-system.md section 3). Adds a line to ``notes`` for every key
    without effect and every value that was guessed, cut off or taken in an unexpected sense. Raises
    :class:`chakrasim.InputError` for values that the reference cannot run with.
    """
    if isinstance(source, System):
        return source
    section = open_section(source, "system configuration", "json", notes)
    section.warn_unknown(names(SYSTEM))
    values = read(section, SYSTEM)
    bus = values["model_shared_bus"]
    if bus not in (0, 1):
        section.warn("model-shared-bus", f"{bus} leaves the shared bus off; only 1 turns it on")
    native = {name: values.pop(f"{name}-implementation".replace("-", "_")) for name in COLLECTIVES}
    custom = {name: values.pop(f"{name}-implementation-custom".replace("-", "_")) for name in COLLECTIVES}
    values |= {
        "model_shared_bus": bus == 1,
        "endpoint_delay_given": "endpoint-delay" in section,
        "implementations": {name: algorithms for name, algorithms in native.items() if algorithms},
        "custom": {name: path for name, path in custom.items() if path is not None},
    }
    system = System(**values)
    _warn_without_effect(section, system)
    return system


def _warn_without_effect(section: Section, system: System) -> None:
    """Keys whose switch is off, and switches that make others idle."""
    roofline = system.roofline_enabled and not system.replay_only
    if not system.model_shared_bus:
        only_with(section, _BUS_KEYS, "without model-shared-bus 1")
    if system.replay_only and system.roofline_enabled:
        section.warn("roofline-enabled", "the key has no effect with replay-only on")
    if not roofline:
        only_with(section, ("peak-perf",), "without roofline-enabled")
    elif system.peak_perf_flops == 0:
        section.warn("peak-perf", "is 0 or missing: compute nodes under the roofline model take 0 ns")
    if not system.track_local_mem:
        only_with(section, ("local-mem-trace-filename",), "without track-local-mem")
    if system.local_mem_bw == 0:
        section.warn("local-mem-bw", "is 0 or missing: reductions are free")
    if system.trace_enabled:
        section.warn("trace-enabled", "the key adds debug lines in the reference; chakrasim writes none")
    for name in COLLECTIVES:
        if name in system.custom and name in system.implementations:
            section.warn(f"{name}-implementation", f"the key has no effect beside {name}-implementation-custom")
