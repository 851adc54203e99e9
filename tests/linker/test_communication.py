"""Kernels and host collectives joined with what PyTorch recorded of them."""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim.collectives.kernel_names import can_carry_out, is_communication_kernel, operation_of_kernel
from chakrasim.collectives.spelling import operation_of
from chakrasim.linker.api import link
from chakrasim.linker.communication.find import sizes_of
from chakrasim.linker.communication.group_table import GroupTable, parse_group_list, parse_ranks
from chakrasim.linker.communication.groups import resolve_groups
from chakrasim.linker.communication.records import Facts, Message
from chakrasim.trace.element_types import element_bytes
from chakrasim.trace.host.group_marks import ddp_mark, group_mark
from chakrasim.trace.kinds import CollectiveType as C
from chakrasim.trace.linked.columns import (
    COALESCED,
    OPERATION_NAMES,
    RECV,
    SEND,
    UNKNOWN,
    LinkedTrace,
    ProcessGroup,
    RowKind,
)
from made_traces import NCCL, SEND_RECV, MadeTrace, texts

GLOO = Path(__file__).resolve().parents[1] / "data" / "torch" / "gloo4"


def listed(linked: LinkedTrace) -> list[tuple[str, int, str]]:
    """(operation, bytes, group) of each entry."""
    found = linked.communication
    return [
        (OPERATION_NAMES[operation], size, linked.groups[group].name if group >= 0 else "?")
        for operation, size, group in zip(
            found.operation.tolist(), found.size_bytes.tolist(), found.group.tolist(), strict=True
        )
    ]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("allreduce", C.ALL_REDUCE),
        ("allreduce_coalesced", C.ALL_REDUCE),
        ("nccl:all_reduce", C.ALL_REDUCE),
        ("nccl:all_reduce_barrier", C.BARRIER),
        ("_allgather_base", C.ALL_GATHER),
        ("allgather_into_tensor_coalesced", C.ALL_GATHER),
        ("_c10d_functional::all_gather_into_tensor", C.ALL_GATHER),
        ("_reduce_scatter_base", C.REDUCE_SCATTER),
        ("reduce_scatter_tensor_coalesced", C.REDUCE_SCATTER),
        ("all_to_allv", C.ALL_TO_ALL),
        ("alltoall_base_", C.ALL_TO_ALL),
        ("_broadcast_oop", C.BROADCAST),
        ("_reduce_oop", C.REDUCE),
        ("nccl:send 0->1", SEND),
        ("recvAnySource", RECV),
        ("nccl:coalesced", COALESCED),
        ("coalesced", COALESCED),
        ("wait", UNKNOWN),
        ("17", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_names_of_operations(name: str, operation: int) -> None:
    assert operation_of(name) == operation


def test_names_of_kernels() -> None:
    known = {
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": C.ALL_REDUCE,
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": C.ALL_GATHER,
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": C.REDUCE_SCATTER,
        "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": C.REDUCE,
        "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)": C.BROADCAST,
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": UNKNOWN,
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": UNKNOWN,
        "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)": UNKNOWN,
        "void vllm::cross_device_reduce_1stage<float, 2>(...)": C.ALL_REDUCE,
    }
    for name, operation in known.items():
        assert is_communication_kernel(name), name
        assert operation_of_kernel(name) == operation, name
    for name in ("void at::native::reduce_kernel<512>", "Memcpy DtoH", "ampere_sgemm_128x64_tn", "Stream Sync"):
        assert not is_communication_kernel(name), name
    assert can_carry_out(SEND_RECV, C.ALL_TO_ALL) and not can_carry_out(SEND_RECV, C.ALL_REDUCE)
    assert can_carry_out(NCCL, C.BARRIER) and not can_carry_out(NCCL, SEND)


def test_element_types() -> None:
    sizes = {"Float": 4, "c10::BFloat16": 2, "long int": 8, "Float8_e4m3fn": 1, "ComplexDouble": 16, "Sparse": 0}
    assert {name: element_bytes(name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("operation", "inside", "outside", "expected"),
    [
        (C.ALL_GATHER, 100, -1, (100, 100, 400)),
        (C.ALL_GATHER, -1, 400, (100, 100, 400)),
        (C.REDUCE_SCATTER, 400, -1, (400, 400, 100)),
        (C.REDUCE_SCATTER, -1, 100, (400, 400, 100)),
        (C.ALL_REDUCE, 8, -1, (8, 8, 8)),
        (C.ALL_TO_ALL, 13568, 3072, (13568, 13568, 3072)),
        (C.SCATTER, 400, 100, (400, 400, 100)),
        (C.GATHER, 100, 400, (100, 100, 400)),
        (SEND, 64, 64, (64, 64, 0)),
        (RECV, 64, 64, (64, 0, 64)),
        (C.ALL_REDUCE, -1, -1, (-1, -1, -1)),
        (UNKNOWN, 3, 5, (5, 3, 5)),
    ],
)
def test_bytes_of_each_side(operation: int, inside: int, outside: int, expected: tuple[int, int, int]) -> None:
    assert sizes_of(operation, Facts(in_bytes=inside, out_bytes=outside), 4) == expected


# -- process groups ----------------------------------------------------------------------------------------------------


def test_a_list_of_groups_that_is_cut_off_gives_the_complete_ones() -> None:
    whole = json.dumps([{"pg_name": "0", "ranks": []}, {"pg_name": "1", "ranks": [0, 1]}])
    assert parse_group_list(whole)[1]
    entries, complete = parse_group_list(whole[:-12])
    assert [entry["pg_name"] for entry in entries] == ["0"]
    assert not complete
    assert parse_group_list("") == ([], False)


def test_ranks_that_pytorch_shortened_are_rebuilt() -> None:
    assert parse_ranks("[0, 1]") == (0, 1)
    assert parse_ranks("[0, 8, 16, ..., 240, 248]", 32) == tuple(range(0, 256, 8))
    assert parse_ranks("[0, 1, 2, ...]", 64) == tuple(range(64))
    assert parse_ranks("[0, 1, 5, ..., 30]", 16) == ()
    assert parse_ranks("[0, 1, 2, ...]") == ()
    assert parse_ranks("[0, 999999999, ...]", 64) == parse_ranks("[2, 1, ...]", 64) == ()


def test_what_is_said_first_of_a_group_wins_and_contradictions_are_counted() -> None:
    table = GroupTable()
    table.add("1", "tp", size=2)
    table.add("1", "", (4, 5), backend="nccl")
    assert table.groups == [ProcessGroup("1", "tp", (4, 5), 2, "nccl")]
    assert table.conflicts == 0
    table.add("1", "", (4, 6))
    table.add("1", "", size=4)
    assert table.groups == [ProcessGroup("1", "tp", (4, 5), 2, "nccl")]
    assert table.conflicts == 2


# -- joining, on made traces -------------------------------------------------------------------------------------------


def test_l_196_one_entry_for_a_gather_whose_kernel_has_the_id_of_its_record(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("_allgather_base", 0, 40, **{"External id": 17, "In msg nelems": 250, "Out msg nelems": 500})
    made.event("user_annotation", "nccl:_all_gather_base", 5, 30, **{"External id": 18})
    made.kernel(50, 20, 20, "ncclDevKernel_AllGather_RING_LL(...)", **{"External id": 17})
    linked = made.link(tmp_path)
    assert listed(linked) == [("all_gather", 1000, "0")]
    assert (linked.communication.in_bytes[0], linked.communication.out_bytes[0]) == (1000, 2000)
    assert linked.groups == (ProcessGroup("0", "default_pg", (0, 1), 2),)
    assert linked.kind[linked.communication.row[0]] == RowKind.KERNEL


def test_l_184_recorded_starts_and_durations_stay(tmp_path: Path) -> None:
    starts = [28_743_436, 28_755_013, 28_786_286, 28_809_750, 28_871_565]
    durations = [8_932.93, 31_272.55, 22_644.126, 42_481.079, 44_283.024]
    made = MadeTrace()
    for start, duration in zip(starts, durations, strict=True):
        made.all_reduce(start, duration)
    found = made.link(tmp_path).communication
    assert found.start_ns.tolist() == [(start + 1_000_000) * 1000 for start in starts]
    assert (found.end_ns - found.start_ns).tolist() == [8932930, 31272550, 22644126, 42481079, 44283024]
    assert (found.end_ns[:-1] <= found.start_ns[1:]).all()
    assert found.ordinal.tolist() == [0, 1, 2, 3, 4]


def test_l_131462_the_group_of_a_bare_kernel_is_that_of_the_record_around_its_launch(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("allreduce", 0, 40, **{"External id": 3, "Process Group Name": "5", "Seq": 9})
    made.operator("aten::mul", 50, 5, **{"External id": 29840})
    made.kernel(60, 20, 20, **{"External id": 29840, "correlation": 29840})
    linked = made.link(tmp_path)
    assert listed(linked) == [("all_reduce", 1000, "5")]
    assert linked.communication.sequence.tolist() == [9]
    assert texts(linked, linked.communication.evidence) == ["record_param_comms by launch"]
    assert texts(linked, linked.communication.dtype) == ["Float"]


def test_arguments_of_the_kernel_are_taken_first(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("allreduce", 0, 40, 11)
    said = {"Collective name": "broadcast", "In msg nelems": 250, "Out msg nelems": 250, "dtype": "Half"}
    made.kernel(60, 20, 20, "ncclDevKernel_Broadcast_RING_LL(...)", **said, **{"Process Group Name": "0"})
    linked = made.link(tmp_path)
    assert listed(linked) == [("broadcast", 500, "0")]
    assert texts(linked, linked.communication.evidence) == ["kernel arguments"]


def test_a_lost_launch_is_made_up_for_by_the_external_id_then_by_order(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("allreduce", 0, 5, 1, **{"External id": 41})
    made.record("allreduce", 10, 5, 2, **{"External id": 42})
    made.record("broadcast", 20, 5, 3, **{"External id": 43})
    made.kernel(100, 5, None, **{"External id": 42})
    made.kernel(110, 5, None)
    made.kernel(120, 5, None, "ncclDevKernel_Broadcast_RING_LL(...)")
    linked = made.link(tmp_path)
    assert listed(linked) == [("all_reduce", 8, "0"), ("all_reduce", 4, "0"), ("broadcast", 12, "0")]
    assert texts(linked, linked.communication.evidence) == [
        "record_param_comms by External id",
        "record_param_comms by order",
        "record_param_comms by order",
    ]
    assert linked.counts["communications_joined_by_order"] == 2


def test_l_37_messages_have_their_peer_and_an_all_to_all_of_messages_its_type(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("send", 0, 10, **{"Dst Rank": 1})
    made.kernel(20, 5, 5, SEND_RECV)
    made.record("recv", 30, 10, **{"Src Rank": 1})
    made.kernel(50, 5, 35, SEND_RECV)
    made.record("all_to_all", 60, 10)
    made.kernel(80, 5, 65, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(...)")
    linked = made.link(tmp_path)
    assert [entry[0] for entry in listed(linked)] == ["send", "recv", "all_to_all"]
    assert linked.communication.peer.tolist() == [1, 1, -1]
    assert linked.communication.size_bytes.tolist() == [1000, 1000, 1000]


def batch(made: MadeTrace, at: float, *messages: tuple[str, int]) -> None:
    """batch_isend_irecv: records without a launch, then one launch outside of all records."""
    for number, (name, peer) in enumerate(messages):
        made.record(name, at + 2 * number, 1, **{"Src Rank" if name == "recv" else "Dst Rank": peer})
    made.kernel(at + 50, 20, at + 30, SEND_RECV)


def test_l_134_batches_are_the_records_before_the_end_of_their_group(tmp_path: Path) -> None:
    for rank, peer in ((0, 8), (8, 0)):
        made = MadeTrace(rank, 16)
        inner = [("send", peer), ("recv", peer)] if rank == 0 else [("recv", peer), ("send", peer)]
        ends = ("send", "recv") if rank == 0 else ("recv", "send")
        batch(made, 0, (ends[0], peer))
        for step in range(3):
            batch(made, 100 * (step + 1), *inner)
        batch(made, 400, (ends[1], peer))
        linked = made.link(tmp_path)
        found = linked.communication
        assert len(found) == 8
        assert Counter(np.unique(found.row, return_counts=True)[1].tolist()) == {1: 2, 2: 3}
        names = [entry[0] for entry in listed(linked)]
        assert names == [ends[0], *[name for name, _ in inner] * 3, ends[1]]
        assert set(found.peer.tolist()) == {peer}
        sends = found.operation == SEND
        assert found.ordinal[sends].tolist() == found.ordinal[~sends].tolist() == [0, 1, 2, 3]
        assert set(texts(linked, found.evidence)) == {"record_param_comms before the end of a group"}
        assert linked.counts["communication_records_without_kernel"] == 0


def test_l_178_a_coalesced_kernel_without_records_stays_and_with_records_is_rebuilt(tmp_path: Path) -> None:
    made = MadeTrace()
    made.event("user_annotation", "nccl:coalesced", 0, 20)
    made.kernel(30, 5, 10, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(...)")
    made.event("user_annotation", "nccl:coalesced", 50, 20)
    made.kernel(80, 5, 60, SEND_RECV)
    for at in (100, 103):
        made.record("_reduce_scatter_base", at, 2, **{"In msg nelems": 500})
    made.event("user_annotation", "nccl:coalesced", 110, 20)
    made.kernel(140, 5, 115, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(...)")
    linked = made.link(tmp_path)
    # The name of a kernel may tell; the group is that of the others on the stream, a guess.
    assert listed(linked)[:2] == [("reduce_scatter", -1, "0"), ("coalesced", -1, "0")]
    assert linked.counts["communication_groups_guessed"] == 2
    assert listed(linked)[2:] == [("reduce_scatter", 2000, "0")] * 2
    assert linked.communication.row[2] == linked.communication.row[3]


def test_several_kernels_of_one_group_get_the_records_that_they_can_carry_out(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("send", 0, 1, **{"Dst Rank": 1})
    made.record("allreduce", 2, 1, 7)
    made.record("recv", 4, 1, **{"Src Rank": 1})
    made.event("user_annotation", "nccl:coalesced", 10, 20)
    made.kernel(40, 5, 12)
    made.kernel(50, 5, 15, SEND_RECV)
    assert [entry[:2] for entry in listed(made.link(tmp_path))] == [("all_reduce", 28), ("send", 1000), ("recv", 1000)]


def test_a_record_that_several_kernels_carry_out_has_its_bytes_divided(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("all_to_all", 0, 20, 251)
    made.kernel(30, 5, 5, SEND_RECV)
    made.kernel(40, 5, 10, SEND_RECV)
    made.kernel(50, 5, 15, SEND_RECV)
    assert [entry[1] for entry in listed(made.link(tmp_path))] == [335, 335, 334]


def test_unknown_operations_stay_and_are_counted(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("shuffle", 0, 10)
    made.kernel(20, 5, 5, "ncclDevKernel_Generic(...)")
    made.kernel(30, 5, 25, "rcclGenericKernel<1, false>(...)")
    linked = made.link(tmp_path)
    assert listed(linked) == [("unknown", 1000, "0"), ("unknown", -1, "0")]
    assert linked.counts["communications_of_unknown_kind"] == 2


def test_kernels_of_any_name_count_if_a_record_launches_them_but_not_its_operators(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("allreduce", 0, 40)
    made.kernel(50, 5, 10, "mscclKernel<...>")
    made.kernel(60, 5, 15, "void my_collective(float*)")
    made.operator("aten::copy_", 20, 10)
    made.kernel(70, 5, 25, "void at::native::elementwise_kernel<128>(...)")
    linked = made.link(tmp_path)
    assert [linked.strings[int(linked.name[row])] for row in linked.communication.row] == [
        "mscclKernel<...>",
        "void my_collective(float*)",
    ]


def test_the_inner_record_of_a_barrier_does_not_hide_it_and_waits_are_no_work(tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("wait", 0, 3)
    made.record("barrier", 10, 20, 1)
    made.kernel(40, 5, 15)
    linked = made.link(tmp_path)
    assert listed(linked) == [("barrier", 4, "0")]
    assert linked.counts["communication_records_without_kernel"] == 0


def test_a_root_becomes_a_global_rank(tmp_path: Path) -> None:
    made = MadeTrace(4, 8)
    args = {"Process Group Name": "3", "Group size": 4, "Process Group Ranks": "[1, 3, 4, 6]", "Rank": 2}
    made.record("broadcast", 0, 10, **args)
    made.kernel(20, 5, 5, "ncclDevKernel_Broadcast_RING_LL(...)")
    made.record("reduce", 30, 10, **args)
    made.kernel(50, 5, 35, "ncclDevKernel_Reduce_Sum_f32_RING_LL(...)")
    made.record("allreduce", 60, 10, **args)
    made.kernel(80, 5, 65)
    assert made.link(tmp_path).communication.peer.tolist() == [4, 4, -1]


def test_ranks_that_no_job_has_are_not_taken(tmp_path: Path) -> None:
    """Such a rank once came out as peer -1,048,576."""
    made = MadeTrace(0, 8)
    absurd = {"Global rank start": 0, "Global rank stride": 1 << 20, "Group size": 4096}
    made.record("broadcast", 0, 10, **absurd, **{"Process Group Name": "3", "Process Group Ranks": "", "Rank": 4095})
    made.kernel(20, 5, 5, "ncclDevKernel_Broadcast_RING_LL(...)")
    linked = made.link(tmp_path)
    assert linked.communication.peer.tolist() == [-1]
    assert [(group.name, group.ranks, group.size) for group in linked.groups] == [("3", (), 4096)]


def test_a_world_that_cannot_be_takes_no_memory(tmp_path: Path) -> None:
    made = MadeTrace(0, 2)
    made.header["distributedInfo"]["world_size"] = 1 << 60
    made.record("allreduce", 0, 10, **{"Process Group Name": "", "Process Group Description": ""})
    made.kernel(20, 5, 5)
    linked = made.link(tmp_path)
    assert linked.world_size == -1
    assert [(group.name, group.ranks) for group in linked.groups] == [("[0, 1]", (0, 1))]


def test_l_109_l_162h_waiting_records_are_no_communication(tmp_path: Path) -> None:
    made = MadeTrace()
    made.event("cuda_sync", "Stream Sync", 0, 5, stream=20)
    made.operator("aten::mm", 10, 5)
    made.kernel(30, 5, 12, "ampere_sgemm_128x64_tn")
    linked = made.link(tmp_path)
    assert len(linked.communication) == 0
    assert linked.communication.row.dtype == np.int32


@pytest.mark.parametrize("damage", ["name", "dtype", "ranks", "number"])
def test_odd_arguments_never_stop_the_linker(tmp_path: Path, damage: str) -> None:
    odd: dict[str, Any] = {
        "name": {"Collective name": 17},
        "dtype": {"dtype": None},
        "ranks": {"Process Group Ranks": {"a": 1}, "Group size": "x"},
        "number": {"In msg nelems": "many", "Seq": 2.5},
    }[damage]
    made = MadeTrace()
    made.record("allreduce", 0, 10, **odd)
    made.kernel(20, 5, 5)
    assert listed(made.link(tmp_path))[0][0] == "all_reduce"


# -- gloo --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", range(4))
def test_gloo_of_pytorch_2_15(rank: int) -> None:
    """What each collective is, and its group, which gloo does not record: by its worker threads."""
    linked = link(GLOO / f"host.{rank}.json.gz", GLOO / f"device.{rank}.json.gz")
    data, tensor = ("1", "2")[rank % 2], ("3", "4")[rank // 2]
    # gloo carries the reduce-scatter out as an all-reduce of the whole input.
    collectives = [
        ("all_gather", 1024, data),
        ("all_reduce", 1024, tensor),
        ("all_reduce", 2048, data),
        ("all_reduce", 1024, "0"),
        ("broadcast", 1024, "0"),
    ]
    messages = [("recv", 1024, "0")] * (rank > 0) + [("send", 1024, "0")] * (rank < 3)
    found = linked.communication
    order = np.argsort(found.start_ns, kind="stable").tolist()
    entries = [listed(linked)[at] for at in order]
    assert [entry for entry in entries if entry[0] not in ("send", "recv")] == collectives
    assert sorted(entry for entry in entries if entry[0] in ("send", "recv")) == messages
    peers = {OPERATION_NAMES[int(found.operation[at])]: int(found.peer[at]) for at in order}
    assert peers.get("recv", rank - 1) == rank - 1
    assert peers.get("send", rank + 1) == rank + 1
    assert peers["broadcast"] == 0
    assert (linked.kind[found.row] == RowKind.HOST_COLLECTIVE).all()
    by_name = {group.name: group.ranks for group in linked.groups}
    assert by_name[data] == (rank % 2, rank % 2 + 2)
    assert by_name[tensor] == (rank // 2 * 2, rank // 2 * 2 + 1)


def test_gloo_without_a_host_trace_has_the_same_groups() -> None:
    both = link(GLOO / "host.1.json.gz", GLOO / "device.1.json.gz")
    alone = link(device=GLOO / "device.1.json.gz")
    assert listed(alone) == listed(both)


def test_a_host_trace_alone_has_sizes_but_does_not_guess_gloos_groups() -> None:
    linked = link(GLOO / "host.1.json.gz")
    assert sorted(listed(linked)) == [
        ("all_gather", 1024, "?"),
        ("all_reduce", 1024, "?"),
        ("all_reduce", 1024, "?"),
        ("all_reduce", 2048, "?"),
        ("broadcast", 1024, "?"),
        ("recv", 1024, "0"),
        ("send", 1024, "0"),
    ]
    assert linked.counts["communications_without_group"] == 5


def annotated_gloo(folder: Path, annotations: Callable[[dict[str, Any]], str]) -> LinkedTrace:
    """The device trace of rank 1 with an annotation around each operator of c10d for which there is a name."""
    document = json.loads(gzip.decompress((GLOO / "device.1.json.gz").read_bytes()))
    operators = [event for event in document["traceEvents"] if str(event.get("name")).startswith("c10d::")]
    for operator in operators:
        name = annotations(operator)
        if name:
            extent = {"ts": operator["ts"] - 0.001, "dur": operator["dur"] + 0.002}
            where = {key: operator[key] for key in ("ph", "pid", "tid")}
            document["traceEvents"].append({**where, **extent, "cat": "user_annotation", "name": name, "args": {}})
    file = folder / "device.1.json"
    file.write_text(json.dumps(document))
    return link(device=file)


def test_the_recorders_annotations_name_gloos_groups(tmp_path: Path) -> None:
    plain = link(device=GLOO / "device.1.json.gz")
    assert {group for _, _, group in listed(plain)} > {"0"}
    linked = annotated_gloo(tmp_path, lambda operator: group_mark("0"))
    assert listed(linked) == [(operation, size, "0") for operation, size, _ in listed(plain)]


def test_the_rest_is_the_group_of_distributed_data_parallel(tmp_path: Path) -> None:
    def mark(operator: dict[str, Any]) -> str:
        return ddp_mark("3") if operator["name"] == "c10d::broadcast_" else group_mark("0")

    found = [entry for entry in listed(annotated_gloo(tmp_path, mark)) if entry[2] != "0"]
    assert found == [("broadcast", 1024, "3")]


def test_a_gloo_group_that_has_all_its_threads_has_no_others() -> None:
    """FSDP2 and tensor parallelism: all sizes prove two members, and only the second group's collectives are marked."""
    groups = GroupTable(rank=0, world_size=4)
    groups.add("0", "default_pg", range(4), backend="gloo")
    groups.add("1", "mesh_fsdp", (0, 2), backend="gloo")
    tensor = groups.add("3", "mesh_tp", (0, 1), backend="gloo")
    gathered = int(C.ALL_GATHER)
    unmarked, marked = Facts(in_bytes=8, out_bytes=16), Facts(in_bytes=8, out_bytes=16, group=tensor)
    threads = [("thread", 1, tid) for tid in (50, 51, 63, 64)]
    items = [
        Message(at, 0, 0, 0, unmarked if at < 2 else marked, "", thread, gathered) for at, thread in enumerate(threads)
    ]
    assert resolve_groups(items, groups, {}) == [1, 1, tensor, tensor]


# -- real traces -------------------------------------------------------------------------------------------------------


def test_gloo_of_pytorch_2_13(shared_dir: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / "torch213cpu"
    for rank in range(2):
        linked = link(folder / f"host.{rank}.json.gz", folder / f"device.{rank}.json.gz")
        assert listed(linked) == [("all_reduce", 1_049_600, "0"), ("all_reduce", 4_198_400, "0")] * 5
        assert linked.groups[0].ranks == (0, 1)
        assert linked.counts["communication_groups_guessed"] == 0


@pytest.fixture(scope="module")
def dlrm(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[LinkedTrace]:
    folder = tmp_path_factory.mktemp("dlrm")
    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    hosts = {json.loads(path.read_text())["pid"]: path for path in folder.rglob("dlrm_eg_*.json")}
    devices = sorted(folder.rglob("worker*.json"))
    return [link(hosts[59811 + rank], path) for rank, path in enumerate(devices)]


def test_the_64_collectives_of_dlrm_on_8_v100(shared_dir: Path, dlrm: list[LinkedTrace]) -> None:
    with open(shared_dir / "traces" / "param" / "dlrm_8xV100_nccl.csv", newline="") as file:
        expected = list(csv.DictReader(file))
    kinds = {"all_to_allv": "all_to_all", "all_to_all": "all_to_all", "allreduce": "all_reduce"}
    found = [
        (linked.rank, *entry[:2], int(out_bytes), (end - start) // 1000)
        for linked in dlrm
        for entry, out_bytes, start, end in zip(
            listed(linked),
            linked.communication.out_bytes,
            linked.communication.start_ns,
            linked.communication.end_ns,
            strict=True,
        )
    ]
    assert found == [
        (int(row["rank"]), kinds[row["collective"]], int(row["in_bytes"]), int(row["out_bytes"]), int(row["dur_us"]))
        for row in expected
    ]
    for linked in dlrm:
        assert linked.groups == (ProcessGroup("0", "default_pg", tuple(range(8)), 8),)
        assert linked.communication.group.tolist() == [0] * 8
        assert linked.communication.sequence.tolist() == list(range(147, 155))
        assert linked.counts["communication_groups_guessed"] == 0


def test_dlrm_without_host_traces_has_the_same_bytes(dlrm: list[LinkedTrace]) -> None:
    both = dlrm[3]
    alone = link(device=both.source.split(" + ")[1])
    assert listed(alone) == listed(both)
    assert alone.communication.out_bytes.tolist() == both.communication.out_bytes.tolist()
    assert alone.counts["communication_groups_guessed"] == 8


def test_resnet_on_two_gpus(shared_dir: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / "resnet111"
    linked = link(folder / "host.0.json.gz", folder / "device.0.json.gz")
    total: Counter[str] = Counter()
    for name, size, group in listed(linked):
        assert group == "0"
        total[name] += size
    assert total == {"all_reduce": 306_684_384, "broadcast": 638_712}
    assert linked.communication.sequence.tolist() == list(range(47, 68))
    # The host trace is of another run, with one rank: the device's word counts, the contradiction is counted.
    assert linked.groups[0].ranks == (0, 1)
    assert linked.counts["process_group_conflicts"] > 0


def test_a_job_of_128_ranks_with_records_of_old_pytorch(shared_dir: Path) -> None:
    linked = link(device=shared_dir / "traces" / "hta" / "sampled_rank-0.json.gz")
    found = linked.communication
    assert Counter(entry[0] for entry in listed(linked)) == {"all_to_all": 4, "all_reduce": 4, "all_gather": 2}
    gathers = found.operation == C.ALL_GATHER
    assert found.in_bytes[gathers].tolist() == [16_777_216] * 2
    assert found.out_bytes[gathers].tolist() == [1_073_741_824] * 2
    # The sizes prove groups of 64 of the 128 ranks; which ones, and the group of the others, nothing tells.
    assert {linked.groups[group].size for group in found.group[gathers].tolist()} == {64}
    assert set(found.group[~gathers].tolist()) == {-1}
    assert linked.counts["communications_without_group"] == 8
