"""The host trace: matching, data dependencies, shapes, and the host trace alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kineto_maker import KinetoMaker
from linked_checks import check, edges, evidence, name_of, row

from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import EdgeKind, Evidence
from chakrasim.trace.linked.file import read_linked, write_linked


def tensor(number: int) -> list[Any]:
    """A tensor with its own storage."""
    return [number, 1000 + number, 0, 16, 4, "cuda:0"]


def node(
    id_: int, name: str, rf_id: int, parent: int = 2, inputs: Any = (), outputs: Any = (), tid: int = 1, **attrs: int
) -> dict[str, Any]:
    """A node of a host trace; ``inputs`` and ``outputs`` are tensors."""
    values = {"rf_id": rf_id, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": tid, "fw_tid": 0, **attrs}
    return {
        "id": id_,
        "name": name,
        "ctrl_deps": parent,
        "inputs": {"values": list(inputs), "shapes": [[4, 4]] * len(inputs), "types": ["Tensor(float)"] * len(inputs)},
        "outputs": {"values": list(outputs), "shapes": [], "types": []},
        "attrs": [{"name": key, "type": "uint64", "value": value} for key, value in values.items()]
        + [{"name": "op_schema", "type": "string", "value": f"{name}(Tensor a) -> Tensor"}],
    }


FRAME = [
    node(1, "[pytorch|profiler|execution_trace|process]", 0, 1),
    node(2, "[pytorch|profiler|execution_trace|thread]", 0, 1),
]


def write_host(folder: Path, nodes: list[dict[str, Any]], name: str = "host.json") -> Path:
    """The nodes as a host trace."""
    path = folder / name
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 100, "nodes": [*FRAME, *nodes]}))
    return path


def small(folder: Path, ids: str = "Record function id") -> tuple[Path, Path]:
    """A producer and a consumer, each a wrapper with the operator proper inside."""
    host = [
        node(3, "aten::linear", 11, 2, [tensor(1)], [tensor(2)]),
        node(4, "aten::addmm", 12, 3, [tensor(1)], [tensor(2)]),
        node(5, "aten::relu", 13, 2, [tensor(2)], [tensor(3)]),
    ]
    trace = KinetoMaker(folder)
    trace.op("aten::linear", 0, 50, **{ids: 11}).op("aten::addmm", 5, 40, **{ids: 12}).op(
        "aten::relu", 60, 20, **{ids: 13}
    )
    trace.launch("gemm", 10, 60, 30, 1).launch("relu", 65, 200, 30, 2, stream=20)
    return write_host(folder, host), trace.write()


@pytest.mark.parametrize(
    ("ids", "method"),
    [("Record function id", "record function id"), ("External id", "name and order"), ("no id", "name and order")],
)
def test_matching(tmp_path: Path, ids: str, method: str) -> None:
    linked = link(*small(tmp_path, ids))
    check(linked)
    assert linked.header["host_join"]["by"] == method
    assert linked.counts["host_nodes_matched"] == 3
    at = row(linked, "aten::addmm")
    assert linked.host_id[at] == 4
    assert linked.strings[int(linked.op_schema[at])] == "aten::addmm(Tensor a) -> Tensor"
    assert json.loads(linked.strings[int(linked.values[at, 0])]) == [tensor(1)]
    assert json.loads(linked.strings[int(linked.shapes[at, 0])]) == [[4, 4]]
    assert json.loads(linked.strings[int(linked.values[at, 1])]) == [tensor(2)]


def test_data_edges_join_the_operators_proper(tmp_path: Path) -> None:
    """From who gave the memory to who takes it, never between wrapper and wrapped; kernels of two streams too."""
    linked = link(*small(tmp_path))
    check(linked)
    assert edges(linked, EdgeKind.DATA) == [("aten::addmm:1", "aten::relu"), ("gemm", "relu")]
    assert evidence(linked, EdgeKind.DATA) == {Evidence.HOST_TRACE}


def test_a_storage_written_in_place_is_taken_from_its_last_writer(tmp_path: Path) -> None:
    view = [9, 1001, 0, 8, 4, "cuda:0"]
    nodes = [
        node(3, "aten::empty", 11, 2, [], [tensor(1)]),
        node(4, "aten::fill_", 12, 2, [tensor(1)], [tensor(1)]),
        node(5, "aten::neg", 13, 2, [view], [tensor(4)]),
    ]
    trace = KinetoMaker(tmp_path)
    for at, (name, rf_id) in enumerate((("aten::empty", 11), ("aten::fill_", 12), ("aten::neg", 13))):
        trace.op(name, 10 * at, 5, **{"Record function id": rf_id})
    linked = link(write_host(tmp_path, nodes), trace.write())
    check(linked)
    assert edges(linked, EdgeKind.DATA) == [("aten::empty", "aten::fill_"), ("aten::fill_", "aten::neg")]


def test_one_iteration_of_the_host_against_many_of_the_device(tmp_path: Path) -> None:
    """PyTorch before 2.1: External ids run beside the host trace's, with another start on each thread."""
    nodes, trace = [], KinetoMaker(tmp_path)
    for at in range(40):
        nodes.append(node(3 + at, f"aten::op{at % 7}", 1 + at, tid=1 + at // 20))
    for at in range(120):
        shift = 5 if at % 40 < 20 else 305
        trace.op(f"aten::op{at % 40 % 7}", 10 * at, 5, tid=7, **{"External id": 1 + at + shift})
    linked = link(write_host(tmp_path, nodes), trace.write())
    check(linked)
    assert linked.header["host_join"]["by"] == "External id"
    assert linked.counts["host_nodes_matched"] == 40


def test_traces_of_different_runs(tmp_path: Path) -> None:
    host = write_host(tmp_path, [node(3 + at, f"aten::op{at}", 1 + at) for at in range(10)])
    device = KinetoMaker(tmp_path).op("aten::other", 0, 5, **{"Record function id": 1}).write()
    notes = Notes()
    linked = link(host, device, notes=notes)
    assert (linked.counts["rf_ids_in_both"], linked.counts["rf_ids_with_equal_names"]) == (1, 0)
    assert "host and device trace seem to be of different runs; found 0 of 10 operators" in notes.warnings[0]
    with pytest.raises(InputError, match="seem to be of different runs"):
        link(host, device, strict=True)


WHOLE_LOOP = Path(__file__).resolve().parents[1] / "data" / "torch" / "whole-loop"


def test_an_observer_around_the_whole_loop_is_compared_within_the_recorded_window(tmp_path: Path) -> None:
    notes = Notes()
    files = WHOLE_LOOP / "pytorch_et.json.gz", WHOLE_LOOP / "kineto_trace.json.gz"
    linked = link(*files, strict=True, notes=notes)
    assert not notes
    names = ("host_nodes", "host_nodes_matched", "host_nodes_unmatched", "host_nodes_outside_the_window", "operators")
    assert [linked.counts[name] for name in names] == [112, 112, 0, 679, 112]


@pytest.mark.parametrize(
    ("ids", "method"), [("Record function id", "record function id"), ("External id", "External id")]
)
def test_nodes_outside_of_the_window_say_nothing_about_the_run(tmp_path: Path, ids: str, method: str) -> None:
    nodes = [node(3 + at, f"aten::op{at % 7}", 1 + at) for at in range(200)]
    trace = KinetoMaker(tmp_path)
    for at in range(80, 120):
        trace.op(f"aten::op{at % 7}", 10 * at, 5, **{ids: 1 + at})
    linked = link(write_host(tmp_path, nodes), trace.write(), strict=True)
    assert linked.header["host_join"]["by"] == method
    assert (linked.counts["host_nodes"], linked.counts["host_nodes_matched"]) == (40, 40)


def test_nodes_of_the_window_that_the_device_trace_lacks_still_tell_of_another_run(tmp_path: Path) -> None:
    nodes = [node(3 + at, f"aten::op{at}", 1 + at) for at in range(200)]
    trace = KinetoMaker(tmp_path)
    for at in (80, 99):
        trace.op(f"aten::op{at}", 10 * at, 5, **{"Record function id": 1 + at})
    host, device = write_host(tmp_path, nodes), trace.write()
    with pytest.raises(InputError, match="seem to be of different runs; found 2 of 20 operators"):
        link(host, device, strict=True)


def test_shapes_come_from_the_device_trace_alone(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op(
        "aten::mm", 0, 5, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    )
    linked = link(device=trace.write())
    assert json.loads(linked.strings[int(linked.shapes[0, 0])]) == [[2, 3], [3, 4]]
    assert json.loads(linked.strings[int(linked.types[0, 0])]) == ["float", "float"]
    assert linked.values[0].tolist() == [0, 0]


def test_record_function_id_zero_is_none(tmp_path: Path) -> None:
    """Triton and MTIA traces have it on every event."""
    host = write_host(tmp_path, [node(3, "aten::mm", 7)])
    trace = KinetoMaker(tmp_path).op("aten::mm", 0, 5, **{"Record function id": 0})
    linked = link(host, trace.write())
    assert linked.counts["rf_ids_in_both"] == 0
    assert linked.host_id.tolist() == [3]


def test_host_alone(tmp_path: Path) -> None:
    host, _ = small(tmp_path)
    notes = Notes()
    linked = link(host, notes=notes)
    check(linked)
    assert [name_of(linked, at) for at in range(3)] == ["aten::linear", "aten::addmm", "aten::relu"]
    assert edges(linked, EdgeKind.DATA) == [("aten::addmm", "aten::relu")]
    assert edges(linked, EdgeKind.CONTROL) == [("aten::linear", "aten::addmm")]
    assert not linked.start_ns.any() and not linked.duration_ns.any()
    assert linked.counts["rows_without_times"] == 3
    assert "3 operators have no times: there is no device trace" in notes.warnings[0]


def test_host_alone_with_steps_and_a_backward_thread(tmp_path: Path) -> None:
    nodes = [
        node(3, "ProfilerStep#4", 9, 2),
        node(4, "aten::mm", 10, 3, seq_id=5),
        node(5, "MmBackward0", 11, 2, tid=2, seq_id=5, fw_tid=1),
    ]
    linked = link(write_host(tmp_path, nodes))
    check(linked)
    assert linked.step.tolist() == [4, -1]
    assert edges(linked, EdgeKind.INTER_THREAD) == [("aten::mm", "MmBackward0")]
    assert linked.parent.tolist() == [-1, -1]


@pytest.mark.parametrize("pid", [10**30, True, -5])
def test_a_process_with_an_absurd_number_is_unknown(tmp_path: Path, pid: int) -> None:
    """It was written to the linked file, which then could not be read."""
    path = write_host(tmp_path, [node(3, "aten::mm", 7)])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": pid}))
    write_linked(tmp_path / "linked.json", link(path))
    assert [lane.pid for lane in read_linked(tmp_path / "linked.json").lanes] == [-1]


def test_the_wrong_file(tmp_path: Path) -> None:
    """L-233, L-114: the kinds of the files confused; one message that names what it is."""
    host, device = small(tmp_path)
    with pytest.raises(InputError):
        link(device=host)
    with pytest.raises(InputError):
        link(host=device)


def test_rank(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path, distributedInfo={"rank": 3, "world_size": 8}).op("a", 0, 1)
    linked = link(device=trace.write())
    assert (linked.rank, linked.world_size) == (3, 8)
    assert link(device=trace.write(), rank=5).rank == 5
    assert link(device=KinetoMaker(tmp_path).op("a", 0, 1).write()).rank == -1
