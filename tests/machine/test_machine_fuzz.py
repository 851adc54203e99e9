"""Whatever the bytes or values are: a configuration or an InputError, nothing else."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chakrasim.errors import InputError
from chakrasim.machine import load_groups, load_machine, load_memory, load_network, load_system, preset_text
from chakrasim.notes import Notes

SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring", "direct4"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 3350,
    "L": 40.5,
    "roofline-enabled": 1,
    "peak-perf": 700,
}
NETWORK = {"topology": ["Ring", "Switch"], "npus_count": [4, 2], "bandwidth": [50.0, 25], "latency": [500, 1.5]}
MEMORY = {"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-bw": 1, "num-nodes": 2, "num-npus-per-node": 4}
GROUPS = {"1": [0, 1], "2": [3, 2]}
LOADERS: dict[str, tuple[Any, Any]] = {
    "system": (load_system, SYSTEM),
    "network": (load_network, NETWORK),
    "memory": (load_memory, MEMORY),
    "groups": (load_groups, GROUPS),
}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def outcome(load: Any, source: Any) -> None:
    """Call a loader; anything but a result or an InputError with one printable line escapes and fails the test."""
    try:
        load(source, Notes())
    except InputError as error:
        assert str(error)
        assert "\n" not in str(error)
        str(error).encode()


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=60, derandomize=True)
@given(data=st.data())
def test_any_value_of_any_key(name: str, data: st.DataObject) -> None:
    load, good = LOADERS[name]
    key = data.draw(st.sampled_from(sorted(good)) | st.text(max_size=5))
    outcome(load, {**good, key: data.draw(VALUES)})


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=40, derandomize=True)
@given(value=VALUES, key=VALUES.filter(lambda key: not isinstance(key, list | dict)))
def test_any_value_as_a_whole(name: str, value: object, key: object) -> None:
    load, good = LOADERS[name]
    if not isinstance(value, str):
        outcome(load, value)
    outcome(load, {**good, key: value})


def mutate(data: bytes, draw: random.Random) -> bytes:
    """A few bit flips, cuts, doublings and insertions."""
    bytes_ = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(bytes_) or 1)
        kind = draw.randrange(4)
        if kind == 0 and bytes_:
            bytes_[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del bytes_[at:]
        elif kind == 2:
            bytes_[at:at] = bytes_[at : at + draw.randint(1, 20)]
        else:
            bytes_[at:at] = draw.choice(
                [b"\x00", b"[", b"{", b"*a ", b"&a ", b": ", b"\xff", b"1e999", b"\n- ", b"!!x "]
            )
    return bytes(bytes_)


@pytest.mark.parametrize("name", [*LOADERS, "machine", "swapped"])
def test_mutated_files(name: str, tmp_path: Path) -> None:
    preset = preset_text("hgx-h100-16").encode()
    texts = {key: json.dumps(good, indent=1).encode() for key, (_, good) in LOADERS.items()} | {"machine": preset}
    loaders = {key: load for key, (load, _) in LOADERS.items()} | {"machine": load_machine}
    draw = random.Random(f"seed {name}")
    file = tmp_path / "config"
    for _ in range(150):
        loader, text = (name, name) if name in loaders else (draw.choice([*loaders]), draw.choice([*texts]))
        file.write_bytes(mutate(texts[text], draw))
        outcome(loaders[loader], file)


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60))
def test_any_bytes(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(data)
    for load in (load_system, load_network, load_memory, load_groups, load_machine):
        outcome(load, file)
