"""The system JSON: every key, every default, every message."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chakrasim.collectives import registered
from chakrasim.collectives.algorithms import ring
from chakrasim.errors import InputError
from chakrasim.machine import Algorithm, Network, System, check_dimensions, load_system
from chakrasim.notes import Notes

BASE: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "collective-optimization": "baseline",
    "preferred-dataset-splits": 4,
    "local-mem-bw": 1600,
}


def load(**keys: object) -> tuple[System, list[str]]:
    """BASE with keys changed (underscores for dashes; ``...`` removes one), and the warnings without their prefix."""
    content = dict(BASE)
    for name, value in keys.items():
        key = name.replace("_", "-")
        content[key] = value
        if value is ...:
            del content[key]
    notes = Notes()
    system = load_system(content, notes)
    return system, [line.removeprefix("system configuration: ") for line in notes]


def message(**keys: object) -> str:
    with pytest.raises(InputError) as caught:
        load(**keys)
    return str(caught.value).removeprefix("system configuration: ")


def test_defaults_are_the_references() -> None:
    system, warnings = load()
    assert warnings == []
    assert system == System(
        scheduling_policy="LIFO",
        collective_optimization="baseline",
        active_chunks_per_dimension=1,
        preferred_dataset_splits=4,
        endpoint_delay_ns=10,
        endpoint_delay_given=False,
        local_reduction_delay=1,
        local_mem_bw=1600e9,
        local_mem_trace_filename="local_mem_trace",
    )


def test_plain_keys_are_read() -> None:
    system, warnings = load(
        scheduling_policy="FIFO",
        collective_optimization="localBWAware",
        active_chunks_per_dimension=3,
        endpoint_delay=7,
        peak_perf=900,
        roofline_enabled=1,
        track_local_mem=1,
        local_mem_trace_filename="mem/trace",
    )
    assert warnings == []
    assert (system.scheduling_policy, system.collective_optimization) == ("FIFO", "localBWAware")
    assert (system.active_chunks_per_dimension, system.endpoint_delay_ns, system.endpoint_delay_given) == (3, 7, True)
    assert (system.peak_perf_flops, system.roofline_enabled) == (900 * 1e12, True)
    assert (system.track_local_mem, system.local_mem_trace_filename) == (True, "mem/trace")


def test_explicit_is_a_policy_and_highest_is_not() -> None:
    assert load(scheduling_policy="EXPLICIT")[0].scheduling_policy == "EXPLICIT"
    assert message(scheduling_policy="HIGHEST") == (
        "$.scheduling-policy: unknown value; found 'HIGHEST'; expected one of LIFO, FIFO, EXPLICIT"
    )
    assert message(collective_optimization="localBWaware") == (
        "$.collective-optimization: unknown value; found 'localBWaware'; expected one of baseline, localBWAware; "
        "did you mean localBWAware?"
    )


def test_missing_policies_are_assumed_with_a_warning() -> None:
    system, warnings = load(scheduling_policy=..., collective_optimization=...)
    assert (system.scheduling_policy, system.collective_optimization) == ("LIFO", "baseline")
    assert warnings == [
        "$.scheduling-policy: the key is missing, LIFO is assumed",
        "$.collective-optimization: the key is missing, baseline is assumed",
    ]


def test_splits_must_be_there_and_positive() -> None:
    assert message(preferred_dataset_splits=...) == (
        "$.preferred-dataset-splits: the key is missing; expected an integer of at least 1; "
        "give the number of chunks per collective, such as 4"
    )
    expected = "; expected an integer from 1 to 2147483647"
    assert message(preferred_dataset_splits=0) == f"$.preferred-dataset-splits: out of range; found 0{expected}"
    assert message(preferred_dataset_splits=0.9).startswith("$.preferred-dataset-splits: out of range; found 0.9")
    assert message(preferred_dataset_splits="4") == f"$.preferred-dataset-splits: not a number; found '4'{expected}"
    assert load(preferred_dataset_splits=4.7)[0].preferred_dataset_splits == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("active_chunks_per_dimension", 0),
        ("endpoint_delay", -1),
        ("endpoint_delay", 2**31),
        ("endpoint_delay", float("nan")),
        pytest.param("endpoint_delay", 10**5000, id="huge"),
        ("local_reduction_delay", -1),
        ("local_mem_bw", -1),
        ("local_mem_bw", float("inf")),
        ("local_mem_bw", 1e300),
        ("peak_perf", 1e300),
        ("peak_perf", 10**400),
        ("L", -1),
        ("G", 1e39),
        ("o", 2**63),
    ],
)
def test_numbers_out_of_range(key: str, value: object) -> None:
    assert message(**{key: value}).startswith(f"$.{key.replace('_', '-')}: out of range; found ")


@pytest.mark.parametrize("value", ["10", None, [1], {"a": 1}])
def test_numbers_of_another_type(value: object) -> None:
    for key in ("endpoint-delay", "local-mem-bw", "L", "model-shared-bus"):
        assert message(**{key: value}).startswith(f"$.{key}: not a number; found ")


def test_fractions_are_cut_off_with_a_warning() -> None:
    system, warnings = load(endpoint_delay=10.9)
    assert system.endpoint_delay_ns == 10
    assert warnings == ["$.endpoint-delay: 10.9 is cut off to 10"]


def test_a_boolean_counts_as_a_number() -> None:
    system, warnings = load(endpoint_delay=True, local_mem_bw=True)
    assert (system.endpoint_delay_ns, system.local_mem_bw) == (1, 1e9)
    assert warnings == ["$.endpoint-delay: true counts as 1", "$.local-mem-bw: true counts as 1"]


def test_injection_scale_applies_only_to_a_given_delay() -> None:
    assert load(endpoint_delay=10)[0].scaled_endpoint_delay_ns(0.25) == 2
    assert load()[0].scaled_endpoint_delay_ns(0.25) == 10


@pytest.mark.parametrize("key", ["roofline-enabled", "trace-enabled", "replay-only", "track-local-mem"])
def test_switches_are_on_unless_the_number_zero(key: str) -> None:
    field = key.replace("-", "_")
    for value in (0, 0.0, -0.0):
        system, warnings = load(**{key: value})
        assert not getattr(system, field)
        assert warnings == []
    assert getattr(load(**{key: 2})[0], field)
    for value, shown in ((False, "false"), (True, "true"), (None, "null"), ("0", "'0'")):
        system, warnings = load(**{key: value})
        assert getattr(system, field)
        assert warnings[0].startswith(f"$.{key}: {shown} turns it on, as anything but the number 0 does")


def test_shared_bus_needs_exactly_one() -> None:
    for value, on in ((1, True), (True, True), (1.9, True), (0, False), (2, False), (False, False)):
        assert load(model_shared_bus=value)[0].model_shared_bus is on
    assert load(model_shared_bus=2)[1] == ["$.model-shared-bus: 2 leaves the shared bus off; only 1 turns it on"]


def test_loggp_parameters_are_kept_as_32_bit_floats() -> None:
    system, warnings = load(model_shared_bus=1, L=40.5, o=7.9, g=3, G=0.0038, local_reduction_delay=5)
    assert (system.L, system.o, system.g, system.local_reduction_delay) == (40, 7, 3, 5)
    assert system.G == struct.unpack("f", struct.pack("f", 0.0038))[0] != 0.0038
    assert warnings == ["$.L: 40.5 is cut off to 40 ns", "$.o: 7.9 is cut off to 7 ns"]
    # 2^24 + 1 has no 32-bit representation.
    assert load(model_shared_bus=1, L=2**24 + 1)[0].L == 2**24


@pytest.mark.parametrize("key", ["L", "o", "g", "G", "local-reduction-delay"])
def test_bus_keys_need_the_bus(key: str) -> None:
    assert load(**{key: 1})[1] == [f"$.{key}: the key has no effect without model-shared-bus 1"]


def test_keys_whose_switch_is_off() -> None:
    assert load(peak_perf=900)[1] == ["$.peak-perf: the key has no effect without roofline-enabled"]
    assert load(local_mem_trace_filename="x")[1] == [
        "$.local-mem-trace-filename: the key has no effect without track-local-mem"
    ]
    assert load(replay_only=1, roofline_enabled=1, peak_perf=1)[1] == [
        "$.roofline-enabled: the key has no effect with replay-only on",
        "$.peak-perf: the key has no effect without roofline-enabled",
    ]


def test_values_that_make_something_free() -> None:
    assert load(local_mem_bw=...)[1] == ["$.local-mem-bw: is 0 or missing: reductions are free"]
    assert load(roofline_enabled=1)[1] == [
        "$.peak-perf: is 0 or missing: compute nodes under the roofline model take 0 ns"
    ]


def test_unknown_keys_warn_and_suggest() -> None:
    assert load(boost_mode=0, prefered_dataset_splits=2)[1] == [
        "$.boost-mode: the key has no effect",
        "$.prefered-dataset-splits: the key has no effect; did you mean preferred-dataset-splits?",
    ]


def test_a_flood_of_unknown_keys_is_counted() -> None:
    warnings = load(**{f"k{i}": 1 for i in range(50)})[1]
    assert len(warnings) == 21
    assert warnings[-1] == "$: 30 more keys have no effect"


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("ring", Algorithm("ring")),
        ("oneRing", Algorithm("oneRing")),
        ("doubleBinaryTree", Algorithm("doubleBinaryTree")),
        ("halvingDoubling", Algorithm("halvingDoubling")),
        ("oneHalvingDoubling", Algorithm("oneHalvingDoubling")),
        ("direct", Algorithm("direct")),
        ("direct4", Algorithm("direct", 4)),
        ("direct99999", Algorithm("direct", 99999)),
        ("oneDirect", Algorithm("oneDirect")),
        ("oneDirect16", Algorithm("oneDirect", 16)),
    ],
)
def test_algorithm_names(text: str, algorithm: Algorithm) -> None:
    system, warnings = load(all_reduce_implementation=[text])
    assert warnings == []
    assert system.implementations == {"all-reduce": (algorithm,)}
    assert algorithm.text == text


@pytest.mark.parametrize(
    ("text", "window", "read_as"),
    [
        ("direct04", 4, "direct4"),
        ("direct4x", 4, "direct4"),
        ("direct123456", 12345, "direct12345"),
        ("direct-1", None, "direct without a window"),
    ],
)
def test_sloppy_windows_are_read_as_the_reference_does(text: str, window: int | None, read_as: str) -> None:
    system, warnings = load(all_to_all_implementation=[text])
    assert system.implementations["all-to-all"] == (Algorithm("direct", window),)
    assert warnings == [f"$.all-to-all-implementation[0]: {text!r} is read as {read_as}"]


def test_bad_algorithms() -> None:
    unknown = message(all_reduce_implementation=["ring", "Ring"])
    assert unknown.startswith("$.all-reduce-implementation[1]: unknown algorithm; found 'Ring'; expected one of ring, ")
    assert unknown.endswith("did you mean ring?")
    assert message(all_reduce_implementation=["direct0"]) == (
        "$.all-reduce-implementation[0]: a window below 1 never sends; found 'direct0'; "
        "expected direct1 or more, or direct"
    )
    assert message(all_reduce_implementation=["directX"]).startswith("$.all-reduce-implementation[0]: not a window")
    assert message(all_reduce_implementation=[3]).startswith("$.all-reduce-implementation[0]: not a string; found 3")
    assert message(all_reduce_implementation="ring").startswith("$.all-reduce-implementation: not a list; found 'ring'")


def test_registered_algorithms_are_accepted() -> None:
    with registered("mine", ring.schedule):
        assert load(all_gather_implementation=["mine"])[0].implementations["all-gather"] == (Algorithm("mine"),)


def test_parameters_of_an_algorithm_are_read_and_written_back() -> None:
    with registered("mine", ring.schedule, parameters={"group": 8, "levels": 2}):
        system = load(all_gather_implementation=["mine( group = 4,levels=-3 )"])[0]
        (mine,) = system.implementations["all-gather"]
        assert mine == Algorithm("mine", None, (("group", 4), ("levels", -3)))
        assert mine.text == "mine(group=4, levels=-3)"
        assert load_system(system.to_mapping(), Notes()) == system


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mine(size=4)", "mine has no such parameter; found 'size'; expected one of group"),
        ("ring(group=4)", "ring has no such parameter; found 'group'; expected none"),
        (
            "mine(group=4",
            "not an algorithm with parameters; found 'mine(group=4'; expected a form such as mine(group=8)",
        ),
        ("mine(group=four)", "not an algorithm with parameters; found 'mine(group=four)'; expected a form such as"),
        ("mine(group=1, group=2)", "a parameter is given twice; found 'mine(group=1, group=2)'"),
        ("nine(group=4)", "unknown algorithm; found 'nine(group=4)'; expected one of "),
    ],
)
def test_parameters_that_an_algorithm_does_not_have_are_refused(text: str, expected: str) -> None:
    with registered("mine", ring.schedule, parameters={"group": 8}), pytest.raises(InputError) as error:
        load(all_gather_implementation=[text])
    assert str(error.value).split("$.all-gather-implementation[0]: ")[1].startswith(expected)


def test_our_own_collective_keys() -> None:
    keys = ("broadcast", "reduce", "gather", "scatter", "barrier", "reduce-scatter-block")
    system, warnings = load(**{f"{key}-implementation": ["ring"] for key in keys})
    assert warnings == []
    assert tuple(system.implementations) == keys


def test_an_empty_list_counts_as_missing() -> None:
    system, warnings = load(all_reduce_implementation=[])
    assert system.implementations == {}
    assert warnings == ["$.all-reduce-implementation: an empty list counts as a missing key"]


def test_custom_takes_exactly_one_path() -> None:
    system, warnings = load(all_reduce_implementation=["ring"], all_reduce_implementation_custom=["algo/ar"])
    assert system.custom == {"all-reduce": "algo/ar"}
    assert warnings == ["$.all-reduce-implementation: the key has no effect beside all-reduce-implementation-custom"]
    for bad in ([], ["a", "b"], [1], "a"):
        assert "$.all-reduce-implementation-custom: not " in message(all_reduce_implementation_custom=bad)


def test_paths_are_found_from_here_then_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    config = folder / "system.json"
    config.write_text(json.dumps(BASE | {"all-gather-implementation-custom": ["ag"]}))
    monkeypatch.chdir(tmp_path)
    assert load_system(config, Notes()).custom["all-gather"] == "ag"
    (folder / "ag.0.et").touch()
    assert load_system(config, Notes()).custom["all-gather"] == str(folder / "ag")
    (tmp_path / "ag.0.et.gz").touch()
    assert load_system(config, Notes()).custom["all-gather"] == "ag"


def test_per_node_custom_file(tmp_path: Path) -> None:
    config = tmp_path / "system.json"
    config.write_text(json.dumps(BASE | {"per-node-custom-implementation": "nodes.yml"}))
    nodes = tmp_path / "nodes.yml"
    nodes.write_text("17: algo/a\n0x12: algo/b\n")
    system = load_system(config, Notes())
    assert system.per_node_custom == {17: "algo/a", 18: "algo/b"}
    nodes.write_text("x: algo/a\n")
    with pytest.raises(InputError, match="not a node id; found 'x'; expected an integer >= 0"):
        load_system(config, Notes())
    nodes.write_text("1: [a]\n")
    with pytest.raises(InputError, match=r"\$\.1: not a string; found a list of 1 items"):
        load_system(config, Notes())
    nodes.write_text("1: a\n01: b\n")
    with pytest.raises(InputError, match="the node is there twice"):
        load_system(config, Notes())
    nodes.unlink()
    with pytest.raises(InputError, match="per-node custom implementations: no such file"):
        load_system(config, Notes())
    assert "not a mapping of node ids" in message(per_node_custom_implementation=3)


def test_mapping_round_trip() -> None:
    system = System(
        scheduling_policy="FIFO",
        preferred_dataset_splits=3,
        endpoint_delay_ns=0,
        endpoint_delay_given=True,
        model_shared_bus=True,
        L=5,
        g=2,
        G=0.5,
        local_reduction_delay=9,
        peak_perf_flops=989.4 * 1e12,
        local_mem_bw=0.1 * 1e9,
        roofline_enabled=True,
        track_local_mem=True,
        local_mem_trace_filename="t",
        implementations={"all-to-all": (Algorithm("direct", 2), Algorithm("ring"))},
        custom={"barrier": "b.xml"},
        per_node_custom={3: "c"},
    )
    assert (
        load_system(
            json.loads(json.dumps(system.to_mapping() | {"per-node-custom-implementation": {"3": "c"}})), Notes()
        )
        == system
    )
    assert load_system(system, Notes()) is system


def test_typed_construction_is_checked() -> None:
    good = System(preferred_dataset_splits=1)
    for change in (
        {"preferred_dataset_splits": 0},
        {"scheduling_policy": "X"},
        {"endpoint_delay_ns": 1.5},
        {"local_mem_bw": -1.0},
        {"roofline_enabled": 1},
        {"implementations": {"all-reduce": ("ring",)}},
        {"implementations": {"allreduce": (Algorithm("ring"),)}},
        {"custom": {"x": "y"}},
        {"per_node_custom": {"1": "y"}},
        {"local_mem_trace_filename": None},
    ):
        with pytest.raises(InputError, match="System: "):
            replace(good, **change)  # type: ignore[arg-type]


def test_lists_are_compared_with_the_dimensions() -> None:
    flat = Network(("Ring",), (4,), (50.0,), (500.0,))
    cube = Network(("Ring", "Ring"), (4, 2), (50.0, 25.0), (500.0, 500.0))
    notes = Notes()
    check_dimensions(load(all_reduce_implementation=["ring", "ring"])[0], cube, notes)
    check_dimensions(load(all_reduce_implementation=["oneRing"])[0], cube, notes)
    assert not notes
    check_dimensions(load(all_reduce_implementation=["ring"])[0], cube, notes)
    check_dimensions(load(all_reduce_implementation=["oneDirect2", "ring"])[0], cube, notes, "s.json")
    assert [*notes] == [
        "system configuration: $.all-reduce-implementation: covers 1 of 2 dimensions: "
        "the collective leaves the outer ones out",
        "s.json: $.all-reduce-implementation: entries behind oneDirect2 have no effect: it spans all ranks",
    ]
    with pytest.raises(InputError, match="more algorithms than dimensions; found 2; expected at most 1"):
        check_dimensions(load(all_reduce_implementation=["ring", "ring"])[0], flat, notes)
