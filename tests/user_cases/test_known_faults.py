"""The reference tools' known faults (chakra-toolchain.md, 13), one test or more each: ours does the right thing.

They are numbered as there. Short and end to end; details are tested beside the code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim import Trace, TraceBuilder
from chakrasim.cli.main import main
from chakrasim.linker.communication.group_table import GroupTable
from chakrasim.notes import Notes
from chakrasim.trace import read_trace
from chakrasim.trace.chakra.graph import NodeView
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.linked.columns import EdgeKind, Evidence, LinkedTrace
from linker.kineto_maker import KinetoMaker
from made_jobs import device, host, job, save
from made_traces import SEND_RECV, MadeTrace

ROOT = Path(__file__).resolve().parents[2]


def chakra(linked: LinkedTrace, folder: Path) -> list[NodeView]:
    """The nodes, once converted, written, and read back."""
    cs.write(str(folder / "chakra"), [cs.convert(linked)])
    (trace,) = cs.read(str(folder / "chakra"))
    return [trace.node(at) for at in range(len(trace))]


def one(nodes: list[NodeView], name: str) -> NodeView:
    (found,) = [node for node in nodes if node.name == name and "part" not in node.attrs]
    return found


def kinds(node: NodeView) -> dict[int, int]:
    """Kind of each data dependency, by node."""
    return dict(zip(node.data_deps, node.attrs.get("data_dep_kinds", ()), strict=True))


def name(linked: LinkedTrace, row: int) -> str:
    return linked.strings[int(linked.name[row])]


def edges(linked: LinkedTrace, *wanted: EdgeKind) -> list[tuple[str, str]]:
    which = np.flatnonzero(np.isin(linked.edge_kind, wanted)).tolist()
    return sorted((name(linked, linked.edge_source[at]), name(linked, linked.edge_target[at])) for at in which)


def two_streams(folder: Path) -> KinetoMaker:
    """Two kernels on stream 7, one on 20 that waits for an event after the first, and a wait for stream 20."""
    trace = KinetoMaker(folder).op("aten::mm", 0, 40)
    trace.launch("first", 1, 100, 50, 11).call("cudaEventRecord", 7, 1, 12).launch("second", 10, 160, 50, 13)
    trace.call("cudaStreamWaitEvent", 20, 1, 14)
    trace.sync("Stream Wait Event", 20, 1, 14, stream=20, on_stream=7, record=12)
    trace.launch("other", 25, 155, 100, 15, stream=20)
    trace.call("cudaStreamSynchronize", 50, 210, 16).sync("Stream Sync", 50, 208, 16, stream=20)
    return trace.op("next", 270, 5)


# --- 1 to 3: order and synchronisation --------------------------------------------------------------------------------


def test_fault_1_synchronisation_reaches_the_file_and_kernels_are_waited_for(tmp_path: Path) -> None:
    nodes = chakra(cs.link(device=two_streams(tmp_path).write()), tmp_path)
    wait, kernel = one(nodes, "cudaStreamSynchronize"), one(nodes, "other")
    assert kinds(wait)[kernel.id] == EdgeKind.SYNC_STREAM
    assert all(node.start_micros > 0 for node in nodes)
    assert {node.name for node in nodes if not node.attrs["is_cpu_op"]} == {"first", "second", "other"}
    waited_for = {source for node in nodes for source in node.data_deps}
    assert {one(nodes, "first").id, kernel.id} <= waited_for


def test_fault_2_streams_have_an_order_and_wait_for_each_other(tmp_path: Path) -> None:
    nodes = chakra(cs.link(device=two_streams(tmp_path).write()), tmp_path)
    first = one(nodes, "first")
    assert kinds(one(nodes, "second"))[first.id] == EdgeKind.STREAM
    assert kinds(one(nodes, "other"))[first.id] == EdgeKind.EVENT_WAIT
    assert one(nodes, "other").attrs["start_ns"] - first.attrs["start_ns"] == 55_000


def test_fault_3_every_step_counts_and_records_are_no_condition(tmp_path: Path) -> None:
    for recorded in (True, False):
        trace = KinetoMaker(tmp_path)
        for step in range(3):
            at = 1000 * step
            trace.note(f"ProfilerStep#{step}", at, 1000).launch(f"k{step}", at + 10, at + 50, 100, 10 + step)
            trace.call("cudaStreamSynchronize", at + 20, 150, 20 + step)
            if recorded:
                trace.sync("Stream Sync", at + 20, 145, 20 + step, stream=7)
        linked = cs.link(device=trace.write())
        waits = linked.edge_kind == EdgeKind.SYNC_STREAM
        assert [source for source, _ in edges(linked, EdgeKind.SYNC_STREAM)] == ["k0", "k1", "k2"]
        assert set(linked.edge_evidence[waits]) == {Evidence.SYNC_RECORD if recorded else Evidence.INFERRED}


def test_fault_3_external_ids_that_collide_make_no_pairs(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("innocent", 400, 20, **{"External id": 13})
    trace.call("cudaLaunchKernel", 10, 5, 11, **{"External id": 11}).kernel("k", 50, 100, 11, **{"External id": 11})
    trace.call("cudaStreamSynchronize", 20, 140, 13, **{"External id": 13}).sync("Stream Sync", 20, 135, 13, stream=7)
    linked = cs.link(device=trace.write())
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k", "cudaStreamSynchronize")]
    assert linked.counts["false_pairs_of_reference"] == 1


# --- 4 and 5: crashes -------------------------------------------------------------------------------------------------


def no_step(document: dict[str, Any]) -> None:
    document["traceEvents"] = [e for e in document["traceEvents"] if "ProfilerStep" not in e["name"]]


def no_device(document: dict[str, Any]) -> None:
    gone = ("kernel", "cuda_runtime", "cuda_sync")
    document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") not in gone]


def text_streams(document: dict[str, Any]) -> None:
    for e in document["traceEvents"]:
        if "stream" in e["args"]:
            e["args"]["stream"] = str(e["args"]["stream"])


def equal_launches(document: dict[str, Any]) -> None:
    calls = [e for e in document["traceEvents"] if e["name"] == "cudaLaunchKernel"]
    document["traceEvents"].append(calls[0] | {"ts": calls[0]["ts"] + 6, "dur": 1})


def children_longer_than_their_caller(document: dict[str, Any]) -> None:
    first = next(e for e in document["traceEvents"] if e["name"] == "aten::mm")
    for at in (0.0, 20.0003):
        child = {"ts": first["ts"] + at, "dur": 20.0001, "name": "aten::mul", "args": {}}
        document["traceEvents"].append(first | child)


def waits_outside_of_the_step(document: dict[str, Any]) -> None:
    for e in document["traceEvents"]:
        if e["name"] in ("cudaDeviceSynchronize", "Context Sync"):
            e["ts"] += 95


CRASHES = [
    no_step,
    no_device,
    text_streams,
    equal_launches,
    children_longer_than_their_caller,
    waits_outside_of_the_step,
]


@pytest.mark.parametrize("change", CRASHES, ids=lambda change: change.__name__)
def test_fault_4_what_stops_the_reference_works(change: Any, tmp_path: Path) -> None:
    traced = device()
    hosts = save(tmp_path / "host.json.gz", host(traced))
    change(traced)
    linked = cs.link(hosts, save(tmp_path / "device.json", traced))
    kernels = 0 if change is no_device else 12
    assert linked.counts["device_rows"] == kernels and linked.counts["unlinked_device_rows"] == 0
    assert len([node for node in chakra(linked, tmp_path) if "stream" in node.attrs]) == kernels
    assert (linked.duration_ns >= 0).all()
    steps = cs.replay_recorded(str(tmp_path / "chakra.0.et")).steps
    assert len(steps) == (1 if change is no_step else 3) and all(step.error_pct == 0 for step in steps)


def test_fault_4_paths_may_be_relative_and_files_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = device()
    save(tmp_path / "sub" / "host.json.gz", host(traced))
    save(tmp_path / "sub" / "device.json.gz", traced)
    monkeypatch.chdir(tmp_path)
    words = ["link", "--host", "sub/host.json.gz", "--device", "sub/device.json.gz", "-o", "sub/linked.json", "--quiet"]
    assert main(words) == 0
    assert main(["convert", "sub/linked.json", "-o", "sub/x.et", "--quiet"]) == 0
    assert len(read_trace("sub/x.et")) > 0


WITHOUT = """
import sys
for module in ("pandas", "networkx", "google.protobuf", "torch", "hta", "et_replay", "psutil", "pydot", "jupyterlab"):
    sys.modules[module] = None
from chakrasim.cli.main import main
sys.exit(main(["link", "--device", "device.json", "-o", "l.json"]) or main(["convert", "l.json", "-o", "x.et"]))
"""


def test_fault_5_and_18_no_other_packages_are_needed_and_no_wait_is_lost(tmp_path: Path) -> None:
    """Event waits are there whatever is installed, with nothing swallowed."""
    two_streams(tmp_path).write()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert (done.returncode, said) == (0, [])
    trace = read_trace(tmp_path / "x.et")
    found = {kind for at in range(len(trace)) for kind in kinds(trace.node(at)).values()}
    assert {EdgeKind.EVENT_WAIT, EdgeKind.SYNC_STREAM} <= found


# --- 6 to 9: device work and communication ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "category"),
    [
        ("cudaMemsetAsync", "gpu_memset"),
        ("cudaMemcpy2DAsync", "gpu_memcpy"),
        ("cudaMemcpyPeerAsync", "gpu_memcpy"),
        ("cudaGraphLaunch", "kernel"),
        ("hipGraphLaunch", "kernel"),
        ("cuMemcpyDtoHAsync_v2", "gpu_memcpy"),
    ],
)
def test_fault_6_no_work_of_the_device_is_lost(call: str, category: str, tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("op", 0, 50).call(call, 10, 5, 77)
    for at in range(3 if "Graph" in call else 1):
        trace.kernel(f"work {at}", 30 + 40 * at, 40, 77, category=category)
    nodes = chakra(cs.link(device=trace.write()), tmp_path)
    work = [node for node in nodes if not node.attrs["is_cpu_op"]]
    assert len(work) == (3 if "Graph" in call else 1)
    assert all(kinds(node).get(one(nodes, call).id) == EdgeKind.LAUNCH for node in work)


@pytest.mark.parametrize(
    ("kernel", "said", "wanted"),
    [
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", {"Dst Rank": 1}, "send"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", {}, "reduce"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", {}, "allreduce"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", {}, "gather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", {}, "all_to_all"),
    ],
)
def test_fault_7_every_kernel_of_nccl_converts(kernel: str, said: dict[str, int], wanted: str, tmp_path: Path) -> None:
    """Also: what one kernel carries out under a gather is no all-to-all."""
    made = MadeTrace()
    made.record(wanted, 0, 40, **said)
    made.kernel(50, 20, 20, kernel)
    node = one(chakra(made.link(tmp_path), tmp_path), kernel)
    if wanted == "send":
        assert node.type == NodeType.COMM_SEND_NODE
    else:
        wanted_type = {"allreduce": "ALL_REDUCE"}.get(wanted, wanted.upper())
        assert (node.type, node.attrs["comm_type"]) == (NodeType.COMM_COLL_NODE, CollectiveType[wanted_type])


def test_fault_8_messages_have_peers_and_tags_and_groups_are_taken_apart(tmp_path: Path) -> None:
    made = MadeTrace()
    for at, (kind, key) in enumerate((("send", "Dst Rank"), ("recv", "Src Rank"))):
        made.record(kind, 2 * at, 1, **{key: 1})
    made.event("user_annotation", "nccl:coalesced", 10, 20)
    made.kernel(40, 20, 15, SEND_RECV)
    found = [node for node in chakra(made.link(tmp_path), tmp_path) if node.type in (5, 6)]
    assert [(NodeType(node.type).name, node.attrs["comm_src"], node.attrs["comm_dst"]) for node in found] == [
        ("COMM_SEND_NODE", 0, 1),
        ("COMM_RECV_NODE", 1, 0),
    ]
    assert all(node.attrs["comm_size"] == 1000 and node.attrs["comm_tag"] >= 0 for node in found)


@pytest.mark.parametrize(
    ("dtype", "size"), [("Bool", 1), ("Half", 2), ("BFloat16", 2), ("Long", 8), ("Float8_e4m3fn", 1)]
)
def test_fault_8_sizes_count_elements_of_any_type_and_both_sides(dtype: str, size: int, tmp_path: Path) -> None:
    made = MadeTrace()
    made.record("_allgather_base", 0, 40, **{"dtype": dtype, "In msg nelems": 250, "Out msg nelems": 500})
    made.kernel(50, 20, 20, "ncclDevKernel_AllGather_RING_LL")
    found = made.link(tmp_path).communication
    assert (found.in_bytes[0], found.out_bytes[0]) == (250 * size, 500 * size)
    assert found.size_bytes[0] == 250 * size


@pytest.mark.parametrize("group", ["7", ""])
@pytest.mark.parametrize(
    "kernel", ["ncclKernel_AllReduce_RING_LL_Sum_float", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
)
def test_fault_9_the_group_is_known_whatever_the_kernels_name(group: str, kernel: str, tmp_path: Path) -> None:
    """An empty name is a name too: the members are those that the record states."""
    made = MadeTrace(ranks=4)
    made.record("allreduce", 0, 40, **{"Process Group Name": group, "Process Group Ranks": "[0, 2]", "Group size": 2})
    made.kernel(50, 20, 20, kernel)
    linked = made.link(tmp_path)
    (at,) = linked.communication.group.tolist()
    assert at >= 0 and linked.groups[at].ranks == (0, 2)
    node = one(chakra(linked, tmp_path), kernel)
    assert node.type == NodeType.COMM_COLL_NODE and node.attrs["pg_name"] not in ("", "0")


def test_fault_9_groups_without_a_name_are_told_apart_by_their_members(tmp_path: Path) -> None:
    table, found = GroupTable(rank=0, world_size=4), []
    for members in ((0, 2), (0, 1), (0, 2), (0, 1, 2, 3)):
        found.append(table.add_members(members))
    assert found == [0, 1, 0, 2] and table.add_members(()) == -1
    assert [group.name for group in table.groups] == ["[0, 2]", "[0, 1]", "0"]


# --- 10 to 12: operators ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [{"External id": 5}, {}, {"Record function id": 0, "External id": 0}])
def test_fault_10_operators_with_equal_ids_or_none_share_no_kernels(ids: dict[str, int], tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path)
    for at in range(4):
        trace.op(f"op {at}", 100 * at, 50, **ids)
        trace.call("cudaLaunchKernel", 100 * at + 10, 5, 20 + at, **ids)
        trace.kernel(f"k{at}", 100 * at + 20, 60, 20 + at, **ids)
    traced = json.loads(trace.write().read_text())
    linked = cs.link(save(tmp_path / "host.json", host(traced)), tmp_path / "device.json")
    device_rows = np.flatnonzero(linked.is_device).tolist()
    assert [(name(linked, at), name(linked, linked.parent[at])) for at in device_rows] == [
        (f"k{at}", f"op {at}") for at in range(4)
    ]
    assert len([node for node in chakra(linked, tmp_path) if not node.attrs["is_cpu_op"]]) == 4


def test_fault_11_times_are_kept_to_the_nanosecond(tmp_path: Path) -> None:
    """Operators without a node of the host trace have theirs too; a chain loses nothing by being cut."""
    trace = KinetoMaker(tmp_path).note("ProfilerStep#1", 0, 3000).op("Optimizer.step#Adam.step", 0, 100.123)
    for at in range(1000):
        trace.op(f"op {at}", 101 + 1.999 * at, 1.999)
    nodes = chakra(cs.link(device=trace.write()), tmp_path)
    assert one(nodes, "Optimizer.step#Adam.step").attrs["duration_ns"] == 100_123
    chain = [node for node in nodes if node.name.startswith("op ")]
    assert sum(node.attrs["duration_ns"] for node in chain) == 1_999_000
    assert sum(node.duration_micros for node in chain) == 1999


def test_fault_12_every_dependency_is_on_a_node_of_the_file(tmp_path: Path) -> None:
    job(tmp_path / "in")
    report = cs.trace_directory(tmp_path / "in", tmp_path / "out")
    for trace in cs.read(report.prefix):
        known = set(trace.ids.tolist())
        assert set(trace.ctrl_deps.targets.tolist()) | set(trace.data_deps.targets.tolist()) <= known
        assert len(trace.ctrl_deps.targets) > 0
    result = cs.simulate(report.prefix, comm_groups=report.comm_group, machine="hgx-h100-2")
    assert len(result.finish_ns) == 2


# --- 13 to 18: tools --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        ("1.0.1", True),
        ("1.0.4-chakra.0.0.4", True),
        ("1.1.1-chakra.0.0.4", True),
        ("1.1.1-chakra.1.0.0", None),
        ("1.2.0-chakra.0.0.5", False),
    ],
)
def test_fault_13_every_schema_links_and_converts(schema: str, known: bool | None, tmp_path: Path) -> None:
    traced, notes = device(), Notes()
    hosts = save(tmp_path / "host.json", host(traced, schema=schema))
    linked = cs.link(hosts, save(tmp_path / "device.json", traced), notes=notes)
    assert linked.counts["host_nodes_matched"] == 12 and len(chakra(linked, tmp_path)) == len(linked)
    assert known is None or any("schema" in warning for warning in notes) is not known


def test_fault_14_commands_end_with_a_status_and_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    assert main(["convert"]) == 2
    assert "error" in capsys.readouterr().err
    path = two_streams(tmp_path).write()
    assert main(["link", "--device", str(path), "-o", str(tmp_path / "l.json"), "--quiet"]) == 0
    assert main(["convert", str(tmp_path / "l.json"), "-o", str(tmp_path / "x.et"), "--quiet"]) == 0
    assert list((tmp_path / "cwd").iterdir()) == []


def test_fault_15_one_json_document(tmp_path: Path) -> None:
    path = pictured(tmp_path)
    assert main(["jsonize", str(path), "-o", str(tmp_path / "x.json")]) == 0
    assert len(json.loads((tmp_path / "x.json").read_text())["nodes"]) == 2


def test_fault_15_pictures_need_no_program_and_show_both_kinds_of_edges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for suffix in ("svg", "graphml", "dot"):
        assert main(["draw", str(pictured(tmp_path)), "-o", str(tmp_path / f"x.{suffix}"), "--by", "none"]) == 0
    assert (tmp_path / "x.graphml").read_text().count("<edge ") == 2
    assert (tmp_path / "x.dot").read_text().count("->") == 2


def pictured(folder: Path) -> Path:
    """Two nodes joined by a control and a data dependency."""
    builder = TraceBuilder()
    builder.add(1, "a", type=4, duration_micros=5)
    builder.add(2, "b", type=4, data_deps=[1], ctrl_deps=[1], duration_micros=5)
    cs.write(str(folder / "w"), [builder.build()])
    return folder / "w.0.et"


def test_fault_15_timelines_have_all_nodes_in_microseconds(tmp_path: Path) -> None:
    """At a clock that is no whole number of MHz, and whatever the nodes are called."""
    log = tmp_path / "sim.log"
    log.write_text("issue,a=0,b=2001,c=1,d=gemm\ncallback,a=0,b=4002,c=1,d=gemm\n")
    assert main(["timeline", str(log), "-o", str(tmp_path / "x.json"), "--npu-frequency", "2.001GHz"]) == 0
    events = [e for e in json.loads((tmp_path / "x.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [("gemm", 1.0, 1.0)]


def test_fault_16_text_workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.txt"
    path.write_text("DATA\n1\nlayer -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 64 0\n")
    words = ["convert", "Text", "--input", str(path), "--output", str(tmp_path / "x"), "--num-npus", "2"]
    assert main([*words, "--num-passes", "1", "--quiet"]) == 0
    traces = cs.read(str(tmp_path / "x"))
    assert [trace.ids.tolist() for trace in traces] == [list(range(len(traces[0])))] * 2
    nodes = [traces[1].node(at) for at in range(len(traces[1]))]
    assert [node.attrs["comm_size"] for node in nodes if node.type == NodeType.COMM_COLL_NODE] == [64]
    assert all("is_cpu_op" in node.attrs for node in nodes)
    for text, problem in (("SUM", "unknown"), ("NONE 0 1 NONE 0 1 ALLREDUCE 64 0\nb -1 1 NONE", "layers")):
        path.write_text(f"DATA\n1\nlayer -1 5 {text} 9 6 NONE 0 7 NONE 0 0\n")
        assert main([*words, "--num-passes", "1", "--quiet", "--force"]) == 2
        assert problem in capsys.readouterr().err


def test_fault_17_deep_graphs_and_real_ones_have_no_cycle(tmp_path: Path) -> None:
    """Every dependency is on a node before it, so there is nothing to search."""
    trace = KinetoMaker(tmp_path)
    for level in range(2000):
        trace.op(f"op {level}", level, 8000 - 2 * level)
    converted = cs.convert(cs.link(device=trace.write()))
    assert forward(converted) and len(converted) >= 2000
    cs.replay_recorded(converted)


def forward(trace: Trace) -> bool:
    owner = np.repeat(np.arange(len(trace)), np.diff(trace.data_deps.offsets))
    return bool((trace.data_deps.targets.astype(np.int64) < owner).all())


def test_fault_18_requirements_are_true_and_come_from_the_index() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    names = [requirement.partition(">")[0] for requirement in project["dependencies"]]
    assert names == ["numpy", "numba", "PyYAML", "rich"]
    assert not any("@" in requirement or "git+" in requirement for requirement in project["dependencies"])


def test_all_faults_are_here() -> None:
    tests = [found for found in globals() if found.startswith("test_fault_")]
    assert {int(word) for found in tests for word in found.split("_")[2:5:2] if word.isdigit()} == set(range(1, 19))
