"""The network YAML: what is read, in which order it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrasim.errors import InputError
from chakrasim.machine import Network, load_network
from chakrasim.notes import Notes

GOOD = {"topology": ["Ring", "Switch"], "npus_count": [4, 2], "bandwidth": [50, 12.5], "latency": [500, 936.25]}


def message(content: dict[str, object]) -> str:
    with pytest.raises(InputError) as caught:
        load_network(content, Notes())
    return str(caught.value).removeprefix("network configuration: ")


def read(tmp_path: Path, text: str, notes: Notes | None = None) -> Network:
    file = tmp_path / "net.yml"
    file.write_text(text)
    return load_network(file, Notes() if notes is None else notes)


def test_values_and_derived_values() -> None:
    network = load_network(GOOD, Notes())
    assert network == Network(("Ring", "Switch"), (4, 2), (50.0, 12.5), (500.0, 936.25))
    assert (network.ranks, network.dimensions) == (8, 2)
    assert load_network(network, Notes()) is network
    assert load_network(network.to_mapping(), Notes()) == network


@pytest.mark.parametrize(
    ("gib", "bytes_per_ns"),
    [(50, 53.6870912), (370.67, 398.00388190208), (741.34, 796.00776380416), (80, 85.89934592), (450, 483.1838208)],
)
def test_a_gigabyte_is_two_to_the_thirty(gib: float, bytes_per_ns: float) -> None:
    assert Network(("Ring",), (4,), (gib,), (0,)).bytes_per_ns == (bytes_per_ns,)


def test_numbers_are_read_as_the_references_yaml_library_does(tmp_path: Path) -> None:
    numbers = "npus_count: [0x10, 010, '+3']\nbandwidth: [1e2, '5.', .5]\nlatency: [010, 0, 1E1]\n"
    network = read(tmp_path, "topology: [Ring, Ring, Ring]\n" + numbers)
    assert network.npus_count == (16, 8, 3)
    assert network.bandwidth_gib == (100.0, 5.0, 0.5)
    assert network.latency_ns == (10.0, 0.0, 10.0)


def test_arrays_are_lists() -> None:
    arrays = {**GOOD, "npus_count": np.array([4, 2]), "latency": np.array([500, 936.25])}
    assert load_network(arrays, Notes()) == load_network(GOOD, Notes())


def test_to_be_determined_is_refused_by_name(tmp_path: Path) -> None:
    text = "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ tbd ]\nlatency: [ tbd ]\n"
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == (
        f"{tmp_path / 'net.yml'}: line 3: $.bandwidth[0]: not a number; found 'tbd'; "
        "expected a finite number in GB/s (2^30 bytes)"
    )


def test_unknown_keys_warn() -> None:
    notes = Notes()
    load_network({**GOOD, "bandwith": [1], "links": 3}, notes)
    assert [*notes] == [
        "network configuration: $.bandwith: the key has no effect; did you mean bandwidth?",
        "network configuration: $.links: the key has no effect",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"topology": ["ring", "Switch"]},
            "$.topology[0]: unknown topology; found 'ring'; expected one of Ring, FullyConnected, Switch, or "
            "module:name; "
            "did you mean Ring?",
        ),
        ({"topology": [None, "Ring"]}, "$.topology[0]: unknown topology; found null"),
        ({"topology": "Switch"}, "$.topology: not a list; found 'Switch'"),
        ({"topology": []}, "$.topology: no dimensions"),
        ({"npus_count": [4, 8.0]}, "$.npus_count[1]: not a number of NPUs; found 8.0; expected an integer"),
        ({"npus_count": [4, True]}, "$.npus_count[1]: not a number of NPUs; found true"),
        ({"npus_count": [4, "09"]}, "$.npus_count[1]: not a number of NPUs; found '09'"),
        ({"npus_count": [4, 2**40]}, "$.npus_count[1]: not a number of NPUs"),
        (
            {"npus_count": [4]},
            "$.npus_count: the number of values is wrong; found 1; expected 2, one per entry of topology",
        ),
        ({"bandwidth": [50]}, "$.bandwidth: the number of values is wrong; found 1"),
        ({"latency": [1, 2, 3]}, "$.latency: the number of values is wrong; found 3"),
        ({"npus_count": [4, 1]}, "$.npus_count[1]: out of range; found 1; expected more than 1 NPU in a dimension"),
        ({"npus_count": [65536, 65536]}, "$.npus_count: too many NPUs; expected a product of at most 2147483647"),
        ({"bandwidth": [50, 0]}, "$.bandwidth[1]: out of range; found 0.0; expected a finite bandwidth above 0"),
        ({"bandwidth": [1e300, 1]}, "$.bandwidth[0]: out of range"),
        ({"bandwidth": [".inf", 1]}, "$.bandwidth[0]: not a number; found '.inf'"),
        ({"bandwidth": [float("nan"), 1]}, "$.bandwidth[0]: not a finite number; found nan"),
        ({"bandwidth": [10**400, 1]}, "$.bandwidth[0]: not a finite number; found an integer of 1329 bits"),
        ({"bandwidth": [True, 1]}, "$.bandwidth[0]: not a number; found true"),
        ({"bandwidth": ["1_000", 1]}, "$.bandwidth[0]: not a number; found '1_000'"),
        ({"latency": [-1, 0]}, "$.latency[0]: out of range; found -1.0; expected a finite latency of 0 ns or more"),
        ({"latency": [None, 0]}, "$.latency[0]: not a number; found null; expected a finite number in ns"),
        ({"latency": [5e18, 0]}, "$.latency[0]: out of range"),
    ],
)
def test_refusals(change: dict[str, object], expected: str) -> None:
    assert message({**GOOD, **change}).startswith(expected)


def test_the_first_fault_in_the_references_order_is_named() -> None:
    assert message({**GOOD, "topology": ["x"], "bandwidth": ["tbd"]}).startswith("$.topology[0]")
    assert message({**GOOD, "npus_count": [1, 1], "latency": ["tbd", 1]}).startswith("$.latency[0]")
    assert message({**GOOD, "npus_count": [1, 1], "latency": [1]}).startswith("$.latency: the number")


def test_missing_keys_and_other_files() -> None:
    partial = {key: value for key, value in GOOD.items() if key != "latency"}
    assert message(partial) == "$.latency: the key is missing; expected a list with one value per dimension"
    assert message({"scheduling-policy": "LIFO"}) == (
        "$: not a network configuration; expected the keys topology, npus_count, bandwidth, latency"
    )
    with pytest.raises(InputError, match="expected a path or a mapping"):
        load_network([1], Notes())  # type: ignore[arg-type]


def test_typed_construction_is_checked() -> None:
    with pytest.raises(InputError, match=r"Network: \$\.npus_count\[0\]: out of range; found 1"):
        Network(("Ring",), (1,), (1.0,), (0.0,))
    with pytest.raises(InputError, match=r"Network: \$\.latency_ns: not a list; found 5.0"):
        Network(("Ring",), (2,), (1.0,), 5.0)  # type: ignore[arg-type]
