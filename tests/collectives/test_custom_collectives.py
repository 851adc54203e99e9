"""Custom collectives from Chakra traces: hash order, lowering, and every way in which a trace cannot be used."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.collectives import Collective
from chakrasim.collectives.custom.hash_order import HashOrder
from chakrasim.collectives.custom.load import custom_programs
from chakrasim.collectives.custom.program import CustomKind
from chakrasim.collectives.custom.traces import lower_trace, lower_traces
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace import NodeType, Trace, TraceBuilder, read_trace, write


class PlainOrder:
    """The rule as it is written down: a list, and a search for the first element of the bucket."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.buckets = 1

    def insert(self, key: int) -> None:
        if key in self.keys:
            return
        if len(self.keys) + 1 > (0 if self.buckets == 1 else self.buckets):
            primes = (13, 29, 59, 127, 257, 541, 1109, 2357)
            self.buckets = 13 if self.buckets == 1 else next(p for p in primes if p >= 2 * self.buckets)
            old, self.keys = self.keys, []
            for one in old:
                self.place(one)
        self.place(key)

    def place(self, key: int) -> None:
        same = [i for i, other in enumerate(self.keys) if other % self.buckets == key % self.buckets]
        self.keys.insert(same[0] if same else 0, key)


keys = st.one_of(st.integers(0, 60), st.integers(0, 2**64 - 1))


@settings(max_examples=60)
@given(st.lists(keys, max_size=150))
def test_hash_order_follows_the_rule(inserted: list[int]) -> None:
    fast, plain = HashOrder(), PlainOrder()
    for key in inserted:
        fast.insert(key)
        plain.insert(key)
        assert list(fast) == plain.keys and fast.buckets == plain.buckets and len(fast) == len(plain.keys)


def test_hash_order_examples() -> None:
    assert list(HashOrder([0, 1, 2])) == [2, 1, 0]
    assert list(HashOrder([1, 14, 2, 27])) == [2, 27, 14, 1]  # 1, 14 and 27 share bucket 1 of 13
    order = HashOrder(range(14))
    assert order.buckets == 29
    assert list(order) == [13, *range(13)]  # growing turns the order of the first 13 around
    assert HashOrder().buckets == 1 and list(HashOrder()) == []


MESSAGE = {"comm_size": 1000, "comm_tag": 7}
SEND = (NodeType.COMM_SEND_NODE, {**MESSAGE, "comm_dst": 1})
RECV = (NodeType.COMM_RECV_NODE, {**MESSAGE, "comm_src": 1})
COMP = (NodeType.COMP_NODE, {})


def trace(*nodes: tuple[int, tuple[int, dict[str, Any]], tuple[int, ...]], micros: int = 0) -> Trace:
    builder = TraceBuilder()
    for key, (kind, attrs), deps in nodes:
        builder.add(key, f"node{key}", type=kind, data_deps=deps, attrs=attrs, duration_micros=micros)
    return dataclasses.replace(builder.build(), source="algo.0.et")


def lower(*nodes: Any, micros: int = 0) -> Any:
    notes = Notes()
    program = lower_trace(trace(*nodes, micros=micros), 4, notes)
    assert not notes
    return program


def test_nodes_become_columns() -> None:
    program = lower((5, SEND, ()), (9, RECV, (5,)), (2, COMP, (9, 5)), micros=3)
    assert program.kind.tolist() == [CustomKind.SEND, CustomKind.RECV, CustomKind.COMP]
    assert program.peer.tolist() == [1, 1, -1]
    assert program.size_bytes.tolist() == [1000, 1000, 0]
    assert program.tag.tolist() == [7, 7, 0]
    assert program.delay_ns.tolist() == [0, 0, 3000]
    assert program.parents_count.tolist() == [0, 1, 2]
    assert program.child_offsets.tolist() == [0, 2, 3, 3]
    assert program.children.tolist() == [2, 1, 2]  # the set of 9 and 2 lists 2 first
    assert program.free.tolist() == [0] and program.free_buckets == 13
    assert program.hash_keys.tolist() == [5, 9, 2]


def test_computation_without_a_duration_takes_a_nanosecond() -> None:
    assert lower((0, COMP, ())).delay_ns.tolist() == [1]


def test_dependencies_named_twice_count_once() -> None:
    assert lower((0, COMP, ()), (1, COMP, (0, 0))).parents_count.tolist() == [0, 1]


def test_free_nodes_come_in_the_order_of_the_hash_map() -> None:
    program = lower(*((key, COMP, ()) for key in range(4)))
    # the map lists 3 2 1 0; inserting in this order into a set turns it around
    assert program.free.tolist() == [0, 1, 2, 3]
    assert len(lower(*((key, COMP, ()) for key in range(20))).free) == 20


@given(st.lists(st.integers(2**63, 2**64 - 1), min_size=1, max_size=40, unique=True))
@settings(max_examples=20)
def test_ids_beyond_63_bits_keep_their_buckets(ids: list[int]) -> None:
    program = lower(*((key, COMP, ()) for key in ids))
    for buckets in (13, 29, 59):
        assert [key % buckets for key in program.hash_keys.tolist()] == [key % buckets for key in ids]


def test_a_shared_trace_gives_a_shared_program() -> None:
    one = trace((0, COMP, ()))
    first, second = lower_traces([one, one], [3, 8], Notes())
    assert first is second


@pytest.mark.parametrize("tag, expected", [(500_000_007, 7), (7, 7), (2**32 - 5, -5), (2**31, -147483648)])
def test_tags_are_reduced_as_in_the_reference(tag: int, expected: int) -> None:
    program = lower((0, (NodeType.COMM_SEND_NODE, {**SEND[1], "comm_tag": tag}), ()))
    assert program.tag.tolist() == [expected]


def test_numbers_of_more_than_32_bits_are_cut_with_a_warning() -> None:
    notes = Notes()
    program = lower_trace(trace((0, (5, {**SEND[1], "comm_dst": 2**32 + 2}), ())), 4, notes)
    assert program.peer.tolist() == [2]
    assert len(notes) == 1
    assert "comm_dst 4294967298 does not fit 32 bits and is read as 2 (1 nodes)" in notes.warnings[0]


def without(node: tuple[int, dict[str, Any]], name: str) -> tuple[int, dict[str, Any]]:
    return node[0], {key: value for key, value in node[1].items() if key != name}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "custom collective without nodes; expected at least one node"),
        ([(0, (7, {}), ())], r"cannot hold this node; found node type 7; expected COMP_NODE \(4\)"),
        ([(3, without(SEND, "comm_dst"), ())], "node 3 .*comm_dst is missing or no integer; found none"),
        ([(3, without(SEND, "comm_size"), ())], "comm_size is missing or no integer"),
        ([(3, without(SEND, "comm_tag"), ())], "comm_tag is missing or no integer"),
        ([(3, without(RECV, "comm_src"), ())], "comm_src is missing or no integer"),
        ([(3, (5, {**SEND[1], "comm_dst": "x"}), ())], "comm_dst is missing or no integer; found 'x'"),
        ([(3, (5, {**SEND[1], "comm_size": -1}), ())], "comm_size is negative or absurdly large; found -1"),
        ([(3, (5, {**SEND[1], "comm_dst": 4}), ())], "rank outside the group; found peer 4; expected 0 to 3"),
        ([(3, COMP, (8,))], r"node 3 .*a node that does not exist; found a dependency on node 8"),
        ([(3, COMP, ()), (3, COMP, ())], "two nodes with the same id; found id 3, which node 3 .*number 0"),
        ([(3, COMP, (4,)), (4, COMP, (3,)), (5, COMP, (4,))], "dependency cycle.*; found 3 nodes on or behind a cycle"),
        ([(3, COMP, (3,))], "dependency cycle"),
    ],
)
def test_traces_that_cannot_be_used_are_refused(nodes: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        lower(*nodes)
    assert str(caught.value).startswith("algo.0.et: ")


def test_the_node_named_for_a_cycle_is_on_it() -> None:
    with pytest.raises(InputError, match=r"node (3|4) \("):
        lower((5, COMP, (4,)), (6, COMP, (5,)), (3, COMP, (4,)), (4, COMP, (3,)), (7, COMP, ()))


def test_absurd_durations_are_refused() -> None:
    with pytest.raises(InputError, match=r"duration of 2\^63 ns or more; found duration_micros 9223372036854776"):
        lower((0, COMP, ()), micros=9223372036854776)
    assert lower((0, COMP, ()), micros=9223372036854775).delay_ns[0] == 9223372036854775000


def test_the_number_of_files_is_that_of_the_members() -> None:
    with pytest.raises(InputError, match=r"another number of members.*; found 1 files; expected 2, one per member"):
        lower_traces([trace((0, COMP, ()))], [0, 1], Notes())


def test_a_rank_does_not_talk_to_itself() -> None:
    send = trace((0, SEND, ()))
    with pytest.raises(
        InputError, match=r"a rank to itself; found peer 1, which is rank 5 itself; expected .*ascending"
    ):
        lower_traces([send, trace((0, RECV, ()))], [7, 5], Notes())
    lower_traces([send, trace((0, (6, {**MESSAGE, "comm_src": 0}), ()))], [5, 7], Notes())


def test_the_shipped_custom_collective(shared_dir: Path) -> None:
    folder = shared_dir / "workloads" / "custom-collectives"
    traces = [read_trace(folder / f"custom_allreduce.{rank}.et") for rank in range(8)]
    notes = Notes()
    programs = lower_traces(traces, range(8), notes)
    assert not notes
    for rank, program in enumerate(programs):
        kinds = np.bincount(program.kind, minlength=3).tolist()
        assert kinds == [14, 14, 7]
        assert set(program.peer.tolist()) == {-1, (rank + 1) % 8, (rank - 1) % 8}
        assert program.size_bytes.sum() == 28 * 131072
        assert program.delay_ns.sum() == 7 * 7000
        assert program.free.tolist() == [0]


def test_a_path_is_a_prefix_of_traces_or_an_msccl_algorithm(tmp_path: Path) -> None:
    answer = trace((0, (6, {**MESSAGE, "comm_src": 0}), ()))
    write(tmp_path / "algo", [trace((0, SEND, ())), answer])
    programs = custom_programs(str(tmp_path / "algo"), Collective.ALL_REDUCE, [4, 6], 1, lambda size: 0, Notes())
    assert [program.kind.tolist() for program in programs] == [[CustomKind.SEND], [CustomKind.RECV]]
    with pytest.raises(InputError):
        custom_programs(str(tmp_path / "algo"), Collective.ALL_REDUCE, [4, 6, 7], 1, lambda size: 0, Notes())
    step = '<step s="0" type="cpy" cnt="1"/>'
    (tmp_path / "one.xml").write_text(
        f'<algo nchunksperloop="1" ngpus="2"><gpu id="0"/><gpu id="1"><tb id="0">{step}</tb></gpu></algo>'
    )
    programs = custom_programs(str(tmp_path / "one.xml"), Collective.ALL_REDUCE, [6, 4], 1, lambda size: 0, Notes())
    assert [len(program) for program in programs] == [1, 0]  # GPU 1 is rank 4, the lower one
