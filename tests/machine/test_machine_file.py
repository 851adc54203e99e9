"""Our machine file: every key, every unit, every message; the presets."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chakrasim.errors import InputError
from chakrasim.machine import (
    Algorithm,
    Machine,
    Network,
    RemoteMemory,
    System,
    check_dimensions,
    load_machine,
    load_network,
    load_system,
    preset_names,
    preset_text,
)
from chakrasim.notes import Notes

FULL = """
format: 1
name: everything
source: a test
network:
  - {topology: Switch, npus: 8, bandwidth: 400 GiB/s, latency: 936.25 ns}
  - {topology: Ring, npus: 2, bandwidth: 50 GB/s, latency: 1.5 us}
compute:
  peak: 989.4 TFLOP/s
  roofline: true
  replay-only: false
memory:
  bandwidth: 3.35 TB/s
  track: true
  track-file: mem
  shared-bus: {latency: 5 ns, overhead: 2 ns, gap: 1 ns, gap-per-byte: 0.0038 ns/B, reduction-delay: 9 ns}
  expansion: {kind: per-node, latency: 1 us, bandwidth: 50 GB/s, nodes: 2, npus-per-node: 8}
collectives:
  splits: 4
  active-chunks: 2
  endpoint-delay: 1 ns
  optimization: localBWAware
  scheduling: FIFO
  algorithms:
    all-reduce: [ring, direct2]
    all-gather: ring
    all-to-all: oneDirect
  custom:
    broadcast: b.xml
  custom-per-node: {17: algo/a}
"""


def base() -> dict[str, Any]:
    return {
        "network": [{"topology": "Ring", "npus": 4, "bandwidth": "50 GiB/s", "latency": "500 ns"}],
        "memory": {"bandwidth": "1600 GB/s"},
        "collectives": {"splits": 4, "algorithms": {"all-reduce": "ring"}},
    }


def changed(path: str, value: object) -> dict[str, Any]:
    """BASE with the value at a dotted path set, or removed for ``...``."""
    content: Any = copy.deepcopy(base())
    node = content
    *parents, last = path.split(".")
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return dict(content)


def message(path: str, value: object) -> str:
    with pytest.raises(InputError) as caught:
        load_machine(changed(path, value), Notes())
    return str(caught.value).removeprefix("machine file: ")


def test_every_key_is_read(tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(FULL)
    notes = Notes()
    machine = load_machine(file, notes)
    assert not notes
    assert (machine.name, machine.source, machine.ranks) == ("everything", "a test", 16)
    assert machine.network == Network(("Switch", "Ring"), (8, 2), (400.0, 50e9 / 2**30), (936.25, 1500.0))
    assert machine.memory == RemoteMemory("PER_NODE_MEMORY_EXPANSION", 1000, 50, 2, 8)
    bus = load_system({"preferred-dataset-splits": 1, "model-shared-bus": 1, "G": 0.0038}, Notes())
    assert machine.system == System(
        scheduling_policy="FIFO",
        collective_optimization="localBWAware",
        active_chunks_per_dimension=2,
        preferred_dataset_splits=4,
        endpoint_delay_ns=1,
        endpoint_delay_given=True,
        local_reduction_delay=9,
        model_shared_bus=True,
        L=5,
        o=2,
        g=1,
        G=bus.G,
        peak_perf_flops=989.4 * 1e12,
        local_mem_bw=3350 * 1e9,
        roofline_enabled=True,
        track_local_mem=True,
        local_mem_trace_filename="mem",
        implementations={
            "all-reduce": (Algorithm("ring"), Algorithm("direct", 2)),
            "all-gather": (Algorithm("ring"), Algorithm("ring")),
            "all-to-all": (Algorithm("oneDirect"),),
        },
        custom={"broadcast": "b.xml"},
        per_node_custom={17: "algo/a"},
    )
    check_dimensions(machine.system, machine.network, notes)
    machine.memory.check_ranks(machine.ranks)
    assert not notes


def test_defaults() -> None:
    notes = Notes()
    machine = load_machine(base(), notes)
    assert not notes
    assert machine == Machine(
        Network(("Ring",), (4,), (50.0,), (500.0,)),
        System(preferred_dataset_splits=4, local_mem_bw=1600e9, implementations={"all-reduce": (Algorithm("ring"),)}),
    )
    assert load_machine(machine, Notes()) is machine


@pytest.mark.parametrize(
    ("text", "bytes_per_ns"),
    [
        ("62 GB/s", 62.0),
        ("37.5 GB/s", 37.5),
        ("1 GiB/s", 2**30 / 1e9),
        ("400 Gbit/s", 50.0),
        ("0.05 TB/s", 50.0),
        ("5e4 MB/s", 50.0),
        ("50000000 kB/s", 50.0),
        ("50000000000 B/s", 50.0),
        ("1024 MiB/s", 2**30 / 1e9),
    ],
)
def test_units_of_bandwidth(text: str, bytes_per_ns: float) -> None:
    assert load_machine(changed("network.0.bandwidth", text), Notes()).network.bytes_per_ns == (bytes_per_ns,)


@pytest.mark.parametrize(("text", "latency_ns"), [("0 ns", 0.0), ("3.39 ns", 3.39), ("1.5us", 1500.0), ("1 s", 1e9)])
def test_units_of_time(text: str, latency_ns: float) -> None:
    assert load_machine(changed("network.0.latency", text), Notes()).network.latency_ns == (latency_ns,)


BANDWIDTHS = "B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, kbit/s, Mbit/s, Gbit/s, Tbit/s"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (
            "network.0.bandwidth",
            400,
            f"$.network[0].bandwidth: the unit is missing; found 400; expected a unit of {BANDWIDTHS}; "
            'write it out, such as "400 GiB/s"',
        ),
        ("network.0.bandwidth", "400", "$.network[0].bandwidth: the unit is missing; found '400'"),
        ("network.0.bandwidth", "400 Gb/s", "$.network[0].bandwidth: unknown unit 'Gb/s'"),
        ("network.0.bandwidth", "fast", "$.network[0].bandwidth: not a quantity; found 'fast'; expected a number and"),
        ("network.0.bandwidth", "-1 GB/s", "$.network[0].bandwidth: not a quantity"),
        ("network.0.bandwidth", "1e999 GB/s", "$.network[0].bandwidth: the number is out of range"),
        ("network.0.bandwidth", True, "$.network[0].bandwidth: not a quantity; found true"),
        ("network.0.bandwidth", "0 GB/s", "$.network[0].bandwidth: out of range; found '0 GB/s'"),
        ("network.0.bandwidth", ..., "$.network[0].bandwidth: the key is missing"),
        ("network.0.latency", "1 min", "$.network[0].latency: unknown unit 'min'"),
        ("network.0.latency", "1e99 s", "$.network: out of range; expected a finite latency"),
        ("network.0.npus", 1, "$.network[0].npus: not a valid number; found 1; expected an integer from 2"),
        ("network.0.npus", "010", "$.network[0].npus: not a valid number; found '010'"),
        ("network.0.npus", True, "$.network[0].npus: not a valid number; found true"),
        ("network.0.topology", "Torus", "$.network[0].topology: unknown topology; found 'Torus'; expected one of Ring"),
        ("network.0.links", 2, "$.network[0].links: unknown key; expected one of topology, npus, bandwidth, latency"),
        ("network", [], "$.network: no dimensions"),
        ("network", [3], "$.network[0]: not a mapping; found 3"),
        ("network", {}, "$.network: not a list; found a mapping of 0 keys"),
        ("network", ..., "$.network: the key is missing"),
        (
            "colectives",
            {},
            "$.colectives: unknown key; expected one of format, name, source, network, compute, memory, ",
        ),
        ("scheduling-policy", "LIFO", "$.scheduling-policy: unknown key"),
        ("format", 2, "$.format: unknown format; found 2; expected 1"),
        ("name", 3, "$.name: not a string"),
        (
            "compute",
            "fast",
            "$.compute: not a mapping; found 'fast'; expected a mapping of peak, roofline, replay-only, profile",
        ),
        ("compute.roofline", 1, "$.compute.roofline: not a switch; found 1; expected true or false"),
        ("compute.roofline", "false", "$.compute.roofline: not a switch; found 'false'"),
        ("compute.roofline", True, "$.compute.peak: the roofline model needs the peak compute"),
        ("compute.peak", "900 TFLOPS", "$.compute.peak: unknown unit 'TFLOPS'"),
        (
            "compute.pek",
            "900 TFLOP/s",
            "$.compute.pek: unknown key; expected one of peak, roofline, replay-only, profile; did you",
        ),
        ("memory.bandwidth", 3350, "$.memory.bandwidth: the unit is missing"),
        ("memory.shared-bus", {"gap": "1 ns"}, "$.memory.shared-bus.latency: the key is missing"),
        ("memory.expansion", {"kind": "pool"}, "$.memory.expansion.latency: the key is missing"),
        ("memory.expansion", "pool", "$.memory.expansion: not a mapping"),
        ("collectives", ..., "$.collectives: the key is missing; expected a mapping of splits"),
        ("collectives.splits", ..., "$.collectives.splits: the key is missing"),
        ("collectives.splits", 0, "$.collectives.splits: not a valid number; found 0; expected an integer from 1"),
        (
            "collectives.endpoint-delay",
            "1.5 ns",
            "$.collectives.endpoint-delay: out of range; found '1.5 ns'; expected a",
        ),
        ("collectives.endpoint-delay", 10, "$.collectives.endpoint-delay: the unit is missing"),
        ("collectives.optimization", "best", "$.collectives.optimization: unknown value; found 'best'"),
        ("collectives.algorithms.allreduce", "ring", "$.collectives.algorithms.allreduce: unknown key"),
        ("collectives.algorithms.all-reduce", "Ring", "$.collectives.algorithms.all-reduce[0]: unknown algorithm"),
        ("collectives.algorithms.all-reduce", 3, "$.collectives.algorithms.all-reduce: not a list; found 3"),
        ("collectives.algorithms.all-reduce", [3], "$.collectives.algorithms.all-reduce[0]: not a string"),
        (
            "collectives.algorithms.all-reduce",
            ["ring", "ring"],
            "$.collectives.algorithms.all-reduce: the list does not fit the network; found a list of 2 items; "
            "expected one name per dimension of the network (1)",
        ),
        ("collectives.custom.all-reduce", ["x"], "$.collectives.custom.all-reduce: not a string"),
        ("collectives.custom-per-node", {"x": "y"}, "$.collectives.custom-per-node: not a node id"),
    ],
)
def test_refusals(path: str, value: object, expected: str) -> None:
    assert message(path, value).startswith(expected)


def test_memory_expansion() -> None:
    pool = {"kind": "pool", "latency": "1000 ns", "bandwidth": "50 GB/s"}
    assert load_machine(changed("memory.expansion", pool), Notes()).memory == RemoteMemory("MEMORY_POOL", 1000, 50)
    per_npu = pool | {"kind": "per-npu"}
    assert load_machine(changed("memory.expansion", per_npu), Notes()).memory.kind == "PER_NPU_MEMORY_EXPANSION"
    where = "$.memory.expansion"
    assert message("memory.expansion", pool | {"bandwidth": "50 GiB/s"}).startswith(f"{where}.bandwidth: out of range")
    assert message("memory.expansion", pool | {"bandwidth": "0 GB/s"}).startswith(f"{where}.bandwidth: out of range")
    assert message("memory.expansion", pool | {"nodes": 2}).startswith(
        f"{where}.nodes: only expansion of kind per-node"
    )
    assert message("memory.expansion", pool | {"kind": "per-node"}).startswith(f"{where}.nodes: the key is missing")
    assert message("memory.expansion", pool | {"kind": "shared"}).startswith(f"{where}.kind: unknown value")


def test_false_is_off(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    text = FULL.replace("roofline: true", "roofline: false").replace("track: true", "track: false")
    file.write_text(text)
    notes = Notes()
    system = load_machine(file, notes).system
    assert (system.roofline_enabled, system.track_local_mem) == (False, False)
    assert [*notes] == [f"{file}: $.memory.track-file: the key has no effect without track"]
    file.write_text(text.replace("roofline: false", "roofline: off"))
    with pytest.raises(InputError, match="not a switch; found 'off'; expected true or false"):
        load_machine(file, Notes())


def test_a_machine_without_algorithms_or_memory_bandwidth_warns() -> None:
    notes = Notes()
    load_machine(changed("memory", {}) | {"collectives": {"splits": 1}}, notes)
    assert [*notes] == [
        "machine file: $.memory.bandwidth: is 0 or missing: reductions are free",
        "machine file: $.collectives: no algorithms: the machine can run no collective",
    ]


def test_other_files_are_pointed_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "net.yml"
    file.write_text("topology: [Ring]\n")
    with pytest.raises(
        InputError, match="ASTRA-sim's own files are given as network, system and memory, not as a machine"
    ):
        load_machine(file, Notes())


def test_names_that_are_no_preset() -> None:
    with pytest.raises(InputError) as caught:
        load_machine("hgx-h100-9", Notes())
    assert str(caught.value).startswith(
        "neither a preset nor a machine file; found 'hgx-h100-9'; expected a path, or one of"
    )
    assert "did you mean hgx-h100-8?" in str(caught.value)
    with pytest.raises(InputError, match="no such preset"):
        preset_text("../machine")
    with pytest.raises(InputError, match="machine file: no such file"):
        load_machine("absent.yaml", Notes())


AS_PUBLISHED = {
    "astra-sim-dgx-v100-4": "dgx_v100_4gpu",
    "astra-sim-hgx-h100-2": "hgx_h100_2gpu",
    "astra-sim-hgx-h100-4": "hgx_h100_4gpu",
    "astra-sim-tpu-v3-32-ring": "tpu_v3_32_ring",
    "astra-sim-tpu-v3-32-torus": "tpu_v3_32_2dtorus",
    "astra-sim-tpu-v3-8": "tpu_v3_8",
}
"""ASTRA-sim's files with placeholders, by preset; the machine itself has the name without the beginning."""


def test_every_preset_loads_and_those_with_placeholders_say_so() -> None:
    expected = (
        "hgx-h100-2 hgx-h100-4 hgx-h100-8 hgx-h100-16 hgx-h100-32 hgx-h100-1024-400g hgx-h100-1024-200g "
        "hgx-h100-1024-100g dgx-v100-4 paper-dgx2 paper-torus-8x8 tpu-v3-32-ring tpu-v3-32-torus tpu-v3-8"
    )
    assert preset_names() == (*expected.split(), *AS_PUBLISHED)
    for name in preset_names():
        notes = Notes()
        machine = load_machine(name, notes)
        check_dimensions(machine.system, machine.network, notes)
        begins = f"preset {name}: $.memory.bandwidth is a placeholder: 50 GB/s charge the reductions"
        told = [warning for warning in notes if warning.startswith(begins)]
        assert len(told) == (name in AS_PUBLISHED)
        assert all("is a placeholder" in warning for warning in notes) and bool(notes) == (name in AS_PUBLISHED)
        assert machine.name == name
        assert machine.source
        assert preset_text(name).startswith("# ")


REFERENCE = {
    "hgx-h100-8": "hgx_h100_8gpu",
    "hgx-h100-16": "hgx_h100_16gpu",
    "hgx-h100-32": "hgx_h100_32gpu",
    **AS_PUBLISHED,
}


@pytest.mark.parametrize("name", REFERENCE)
def test_presets_equal_the_references_files(name: str, shared_dir: Path) -> None:
    folder = shared_dir / "configs" / "astra-sim"
    machine = load_machine(name, Notes())
    system = load_system(folder / f"inputs_system_analytical_{REFERENCE[name]}.json", Notes())
    # Tracking is off in our presets (it fails on ordinary traces) and changes no time.
    expected = replace(system, track_local_mem=False, local_mem_trace_filename="local_mem_trace")
    assert machine.system == expected
    assert machine.network == load_network(folder / f"inputs_network_{REFERENCE[name]}.yml", Notes())
    assert machine.memory == RemoteMemory()


def test_known_figures_of_presets() -> None:
    def network(name: str) -> Network:
        return load_machine(name, Notes()).network

    assert network("astra-sim-hgx-h100-4") == Network(("Switch",), (4,), (741.34,), (936.25,))
    # One crossing instead of two at double speed.
    assert network("hgx-h100-4") == Network(("FullyConnected",), (4,), (741.34 / 2,), (936.25 * 2,))
    assert network("hgx-h100-32") == Network(("Switch", "Ring"), (8, 4), (400.0, 50.0), (936.25, 1000.0))
    for gigabits in (400, 200, 100):
        cluster = network(f"hgx-h100-1024-{gigabits}g")
        assert (cluster.topology, cluster.npus_count) == (("Switch", "Switch"), (8, 128))
        assert cluster.bytes_per_ns == (400 * 2**30 / 1e9, gigabits / 8)
    assert network("astra-sim-dgx-v100-4") == Network(("Ring",), (4,), (3.125,), (3.39,))
    assert network("dgx-v100-4").bytes_per_ns == (100.0,)
    assert network("tpu-v3-32-torus") == Network(("Ring", "Ring"), (4, 8), (80.0, 80.0), (1000.0, 1000.0))
    assert network("paper-torus-8x8").bytes_per_ns == (62.0, 62.0)
    assert network("paper-torus-8x8").npus_count == (8, 8)
    assert network("paper-dgx2").bytes_per_ns == (600.0, 37.5)
    assert (network("paper-dgx2").topology, network("paper-dgx2").npus_count) == (("Switch", "Switch"), (16, 4))
    hgx = load_machine("hgx-h100-8", Notes()).system
    assert (hgx.roofline_enabled, hgx.peak_perf_flops, hgx.local_mem_bw) == (True, 700e12, 3350e9)
    assert (hgx.preferred_dataset_splits, hgx.active_chunks_per_dimension, hgx.endpoint_delay_ns) == (4, 2, 1)
    memory = {name: load_machine(name, Notes()).system.local_mem_bw / 1e9 for name in preset_names()}
    assert {memory[name] for name in AS_PUBLISHED} == {50}
    assert (memory["hgx-h100-4"], memory["dgx-v100-4"], memory["tpu-v3-32-torus"]) == (3350, 900, 450)


def test_placeholders_are_named_by_their_place(tmp_path: Path) -> None:
    def warned(marks: str) -> list[str]:
        file = tmp_path / "machine.yaml"
        file.write_text(FULL.replace("format: 1\n", f"format: 1\nplaceholders: {marks}\n"))
        notes = Notes()
        load_machine(file, notes)
        return [warning for warning in notes if "placeholder" in warning]

    assert warned("{}") == []
    (told,) = warned("{'network[0].latency': a guess}")
    assert told == f"{tmp_path / 'machine.yaml'}: $.network[0].latency is a placeholder: a guess"
    absent = ("memory.speed", "network[9].latency", "", "memory.bandwidth[0]", "network.latency")
    for wrong in (f"{{'{place}': x}}" for place in absent):
        with pytest.raises(InputError, match="the file has no such key"):
            warned(wrong)
    with pytest.raises(InputError, match="not a string"):
        warned("{memory.bandwidth: [1]}")
    with pytest.raises(InputError, match="not a mapping"):
        warned("[memory.bandwidth]")


def test_the_documented_example_is_complete(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "reference-machine.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    file = tmp_path / "example.yaml"
    file.write_text(example)
    notes = Notes()
    machine = load_machine(file, notes)
    check_dimensions(machine.system, machine.network, notes)
    machine.memory.check_ranks(machine.ranks)
    assert not notes
    table = text.split("| `format`")[1].split("\n\n")[0] + "`format`"
    keys = {line.split(":")[0].strip(" -") for line in example.splitlines() if ":" in line}
    collectives = set(machine.system.implementations) | set(machine.system.custom) | {"17"}
    assert {key for key in keys - collectives if f"{key}`" not in table and f"`{key}" not in table} == set()
    for name in preset_names():
        assert f"`{name}`" in text
