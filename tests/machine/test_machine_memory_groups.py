"""The remote-memory JSON and the communicator-group JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chakrasim.errors import InputError
from chakrasim.machine import CommGroups, RemoteMemory, load_groups, load_memory
from chakrasim.notes import Notes

POOL = {"memory-type": "MEMORY_POOL", "remote-mem-latency": 1000, "remote-mem-bw": 50}
NODES = {**POOL, "memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 2, "num-npus-per-node": 4}


def memory_message(content: dict[str, object]) -> str:
    with pytest.raises(InputError) as caught:
        load_memory(content, Notes())
    return str(caught.value).removeprefix("remote-memory configuration: ")


def groups_message(content: object) -> str:
    with pytest.raises(InputError) as caught:
        load_groups(content, Notes())  # type: ignore[arg-type]
    return str(caught.value).removeprefix("communicator-group configuration: ")


def test_memory_is_read() -> None:
    assert load_memory(None, Notes()) == RemoteMemory() == load_memory({"memory-type": "NO_MEMORY_EXPANSION"}, Notes())
    assert load_memory(POOL, Notes()) == RemoteMemory("MEMORY_POOL", 1000, 50)
    per_node = load_memory(NODES, Notes())
    assert per_node == RemoteMemory("PER_NODE_MEMORY_EXPANSION", 1000, 50, 2, 4)
    for memory in (RemoteMemory(), load_memory(POOL, Notes()), per_node):
        assert load_memory(memory.to_mapping(), Notes()) == memory
        assert load_memory(memory, Notes()) is memory


def test_memory_warnings() -> None:
    notes = Notes()
    memory = load_memory({**POOL, "remote-mem-bw": 200.7, "num-nodes": 2, "x": 1}, notes)
    assert memory.bandwidth == 200
    load_memory({"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 5}, notes)
    load_memory({"memory-type": "NO_MEMORY_EXPANSION", "remote-mem-bw": 5}, notes)
    assert [line.removeprefix("remote-memory configuration: ") for line in notes] == [
        "$.remote-mem-bw: 200.7 is cut off to 200",
        "$.x: the key has no effect",
        "$.num-nodes: the key has no effect with MEMORY_POOL",
        "$.remote-mem-bw: is 0 or missing: an access takes its latency alone, whatever its size",
        "$.remote-mem-bw: the key has no effect with NO_MEMORY_EXPANSION",
    ]


def test_memory_refusals() -> None:
    kinds = "expected one of NO_MEMORY_EXPANSION, PER_NODE_MEMORY_EXPANSION, PER_NPU_MEMORY_EXPANSION, MEMORY_POOL"
    assert memory_message({}) == f"$.memory-type: the key is missing; {kinds}"
    assert memory_message({"memory-type": "POOL"}).startswith(f"$.memory-type: unknown value; found 'POOL'; {kinds}")
    assert memory_message({"memory-type": 3}).startswith("$.memory-type: not a string; found 3")
    assert memory_message({**POOL, "remote-mem-latency": -1}).startswith("$.remote-mem-latency: out of range; found -1")
    assert memory_message({**POOL, "remote-mem-bw": "50"}).startswith("$.remote-mem-bw: not a number; found '50'")
    assert memory_message({**NODES, "num-npus-per-node": 0}) == (
        "$.num-npus-per-node: is 0 or missing; expected at least 1 NPU per memory node"
    )
    with pytest.raises(InputError, match="RemoteMemory: "):
        RemoteMemory("MEMORY_POOL", latency_ns=-1)
    with pytest.raises(InputError, match="RemoteMemory: "):
        RemoteMemory("nowhere")


def test_every_rank_needs_a_memory_node() -> None:
    memory = load_memory(NODES, Notes())
    memory.check_ranks(8)
    load_memory(POOL, Notes()).check_ranks(10**6)
    with pytest.raises(
        InputError, match="too few memory nodes; found 2; expected at least 3 for 9 ranks with 4 per node"
    ):
        memory.check_ranks(9)


def test_groups_keep_the_listed_order(tmp_path: Path) -> None:
    expected = {2: (3, 1, 2), 1: (0,)}
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"2": [3, 1, 2], "1": [0]}))
    groups = load_groups(file, Notes())
    assert dict(groups.members) == expected
    assert list(groups) == [2, 1]
    assert (len(groups), 2 in groups, 3 in groups, groups[2]) == (2, True, False, (3, 1, 2))
    assert load_groups({2: np.array([3, 1, 2]), "1": [np.int64(0)]}, Notes()) == groups  # type: ignore[dict-item]
    assert load_groups(groups.to_mapping(), Notes()) == groups == CommGroups(expected)
    assert load_groups(groups, Notes()) is groups
    assert len(load_groups(None, Notes())) == 0
    assert load_groups({"501": range(4)}, Notes())[501] == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"0": [0, 1]},
            "$.0: the group id is out of range; found '0'; expected an integer from 1 to 2147483647; "
            "group 0 stands for all ranks and cannot be listed",
        ),
        ({-3: [0, 1]}, "$.-3: the group id is out of range; found -3"),
        ({"2147483648": [0]}, "$.2147483648: the group id is out of range"),
        ({"tp": [0]}, "$.tp: not a group id; found 'tp'; expected an integer > 0"),
        ({True: [0]}, "$.true: not a group id; found true"),
        ({None: [0]}, "$.null: not a group id; found null"),
        ({"1": [0], 1: [1]}, "$.1: the group is there twice; found group 1"),
        ({"1": []}, "$.1: the group has no members; expected at least one rank"),
        ({"1": 5}, "$.1: not a list; found 5; expected a list of ranks"),
        ({"1": [0, 1.0]}, "$.1[1]: not a rank; found 1.0; expected an integer from 0 to 2147483647"),
        ({"1": [0, -1]}, "$.1[1]: not a rank; found -1"),
        ({"1": [True]}, "$.1[0]: not a rank; found true"),
        ({"1": ["0"]}, "$.1[0]: not a rank; found '0'"),
        ({"1": [4, 5, 4]}, "$.1[2]: the rank is in the group twice; found 4; expected distinct ranks"),
        (
            [[0, 1]],
            "$: not a communicator-group configuration; found a list of 1 items; expected a mapping of group ids",
        ),
        ({"scheduling-policy": "LIFO"}, "$.scheduling-policy: not a group id"),
    ],
)
def test_group_refusals(content: object, expected: str) -> None:
    assert groups_message(content).startswith(expected)


def test_group_members_must_exist() -> None:
    groups = CommGroups({4: (0, 9, 1)}, "g.json")
    groups.check_ranks(10)
    with pytest.raises(InputError) as caught:
        groups.check_ranks(9)
    assert str(caught.value) == (
        "g.json: $.4[1]: no such rank; found 9; expected a rank below 9, the number of ranks of the machine"
    )
    with pytest.raises(InputError, match="CommGroups: "):
        CommGroups({0: (1,)})
