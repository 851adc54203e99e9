"""What recorded operators compute, as attributes of the nodes that they become."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim
from chakrasim.converter.linked.api import convert
from chakrasim.linker.api import link
from chakrasim.linker.rows.operator_work import _parts, _shares
from chakrasim.machine import load_device
from chakrasim.notes import Notes
from chakrasim.simulator.lowering.compute import work_of
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.linked.file import read_linked, write_linked
from same_content import same_content

DEMO = Path(chakrasim.__file__).parent / "demo" / "traces"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
MATMUL = "aten::matmul(Tensor self, Tensor other) -> Tensor"
COPY = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"


def attributes(trace: Trace, *names: str) -> list[tuple[Any, ...]]:
    """Name and attributes of the nodes that have the first of them."""
    columns = [trace.attr(name) for name in names]
    nodes = [node for node in range(len(trace)) if columns[0].present[node]]
    return [(trace.name(node), *(c.value(node) if c.present[node] else None for c in columns)) for node in nodes]


def total(trace: Trace, name: str) -> int:
    return sum(value for _, value in attributes(trace, name))


class Host:
    """A host trace node by node, in the form of PyTorch 2."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]"}]
        self.nodes[0] |= {"ctrl_deps": 1, "inputs": self.side([]), "outputs": self.side([]), "attrs": []}

    def side(self, shapes: list[list[int]], device: str = "cuda:0", first: int = 0) -> dict[str, Any]:
        def elements(shape: list[int]) -> int:
            return shape[0] * elements(shape[1:]) if shape else 1

        def strides(shape: list[int]) -> list[int]:
            return [elements(shape[at + 1 :]) for at in range(len(shape))]

        values = [[first + at, 100 + first + at, 0, elements(s), 4, device] for at, s in enumerate(shapes)]
        types = ["Tensor(float)"] * len(shapes)
        return {"values": values, "shapes": shapes, "types": types, "strides": [strides(s) for s in shapes]}

    def op(self, name: str, schema: str, inputs: Any, outputs: Any, parent: int = 1, **more: Any) -> int:
        device = more.pop("device", "cuda:0")
        number = len(self.nodes) + 1
        texts = {"op_schema": schema, "kernel_backend": "", "kernel_file": "", **more}
        attrs = [{"name": key, "type": "string", "value": value} for key, value in texts.items()]
        attrs += [{"name": "tid", "type": "uint64", "value": 1}, {"name": "rf_id", "type": "uint64", "value": number}]
        sides = {"inputs": self.side(inputs, device), "outputs": self.side(outputs, device, 50)}
        self.nodes.append({"id": number, "name": name, "ctrl_deps": parent, **sides, "attrs": attrs})
        return number

    def trace(self, folder: Path, notes: Notes | None = None) -> Trace:
        path = folder / "host.json"
        path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": self.nodes}))
        return convert(link(path), notes=notes)


def test_who_calls_and_who_works(tmp_path: Path) -> None:
    """matmul only calls; mm works, and what it calls is its own work."""
    host = Host()
    outer = host.op("aten::matmul", MATMUL, [[3, 5], [5, 7]], [[3, 7]])
    inner = host.op("aten::mm", MM, [[3, 5], [5, 7]], [[3, 7]], outer)
    host.op("aten::copy_", COPY, [[3, 5], [3, 5]], [], inner)
    trace = host.trace(tmp_path)
    names = ("num_ops", "tensor_size", "bytes_read", "bytes_written", "op_kind", "dtype", "batch", "m", "n", "k")
    product = (210, 4 * (15 + 35 + 21), 200, 84, "gemm", "float32", 1, 3, 7, 5)
    assert attributes(trace, *names) == [("aten::mm", *product)]
    works_on_cpu = dict(attributes(trace, "is_cpu_op"))
    assert works_on_cpu.get("aten::mm") is not True and works_on_cpu["aten::matmul"] is True
    assert attributes(trace, "is_recorded") == []


def test_a_matmul_whose_calls_were_not_recorded(tmp_path: Path) -> None:
    host = Host()
    host.op("aten::matmul", MATMUL, [[3, 5], [5, 7]], [[3, 7]])
    assert attributes(host.trace(tmp_path), "num_ops") == [("aten::matmul", 210)]


def test_what_cannot_be_told_is_counted_and_named(tmp_path: Path) -> None:
    host = Host()
    host.op("aten::mm", MM, [], [])
    host.op("my::gemm", "my::gemm(Tensor a, Tensor b) -> Tensor", [[3, 5], [5, 7]], [[3, 7]])
    for _ in range(2):
        host.op("triton_poi_fused_add_0", "", [[8]], [[8]], kernel_backend="triton")
    own = host.op("my::block", "my::block(Tensor a) -> Tensor", [[3, 5]], [[3, 7]])
    host.op("aten::mm", MM, [[3, 5], [5, 7]], [[3, 7]], own)
    notes = Notes()
    trace = host.trace(tmp_path, notes)
    fused = ("triton_poi_fused_add_0", "fused kernel")
    expected = [("aten::mm", "no shapes"), ("my::gemm", "no formula"), fused, fused]
    assert attributes(trace, "work_unknown") == expected
    # Bytes of an operator without a formula are known; those that others of a program call have the work.
    assert attributes(trace, "num_ops", "tensor_size") == [("my::gemm", 0, 284), ("aten::mm", 210, 284)]
    (told,) = [warning for warning in notes if "unknown work" in warning]
    assert told.endswith(
        "host.json: 4 operators of unknown work, which no device profile can time: triton_poi_fused_add_0 (2, fused "
        "kernel), aten::mm (1, no shapes), my::gemm (1, no formula)"
    )


def test_communication_is_no_work(tmp_path: Path) -> None:
    host = Host()
    outer = host.op("c10d::allreduce_", "c10d::allreduce_(Tensor[] tensors) -> Tensor[]", [[8]], [[8]])
    host.op("aten::copy_", COPY, [[8], [8]], [], outer)
    host.op("aten::copy_", COPY, [[8], [8]], [], host.op("xccl:all_reduce", "", [[8]], []))
    host.op("aten::copy_", COPY, [[8], [8]], [])
    assert attributes(host.trace(tmp_path), "tensor_size") == [("aten::copy_", 64)]


def test_beside_a_gpu_the_cpu_s_operators_stay_the_host_s(tmp_path: Path) -> None:
    host = Host()
    host.op("aten::copy_", COPY, [[8], [8]], [])
    host.op("aten::copy_", COPY, [[6], [6]], [], device="cpu")
    assert attributes(host.trace(tmp_path), "tensor_size") == [("aten::copy_", 64)]


def test_of_a_run_on_a_cpu_all_operators_work() -> None:
    """The demo's recording: three steps of training, the convolutions and matrix products of two layers each."""
    trace = convert(link(DEMO / "host.0.json.gz"))
    count = Counter(name for name, _ in attributes(trace, "num_ops"))
    worked = [count[f"aten::{name}"] for name in ("convolution", "convolution_backward", "addmm", "mm")]
    assert worked == [6, 6, 6, 12] and not count.keys() & {"aten::conv2d", "aten::linear", "aten::expand", "aten::view"}
    flops = Counter[str]()
    for _, kind, operations in attributes(trace, "op_kind", "num_ops"):
        flops[kind] += operations
    # Forward, and the gradients of inputs and weights; of the images none is asked for.
    first, second = 64 * 28 * 28 * 16 * 9, 64 * 14 * 14 * 32 * 16 * 9
    assert flops["convolution"] == 3 * 2 * (2 * first + 3 * second)
    assert flops["gemm"] == 3 * 2 * 3 * 64 * (1568 * 256 + 256 * 10)
    assert not trace.attr("work_unknown").present.any()


def test_the_time_of_a_profile_is_that_of_the_work() -> None:
    trace = convert(link(DEMO / "host.0.json.gz"))
    result = chakrasim.simulate(trace, ranks=8, machine="hgx-h100-8", device_profile="h100")
    assert result.counts["compute nodes timed by the device profile"] == 8 * len(attributes(trace, "num_ops"))
    computing = np.flatnonzero(trace.attr("num_ops").present)
    assert result.gpu_ns[0] == load_device("h100").durations_ns(work_of(trace, computing)).sum() > 100_000
    assert result.warnings == ()


def test_kernels_have_what_their_operators_do(shared_dir: Path) -> None:
    """A trace with a GPU: kernels together have the work of the operators, and keep their times unless asked."""
    folder = shared_dir / "traces" / "param"
    alone = convert(link(folder / "linear_et.json.gz"))
    linked = link(folder / "linear_et.json.gz", folder / "linear_kineto.json.gz")
    both = convert(linked)
    gemm = sum(flops for _, kind, flops in attributes(alone, "op_kind", "num_ops") if kind == "gemm")
    assert gemm == sum(flops for _, kind, flops in attributes(both, "op_kind", "num_ops") if kind == "gemm")
    assert gemm == 2 * 512 * 1024 * 1024 * (21 + 41)
    found = attributes(both, "num_ops", "is_recorded", "is_cpu_op")
    assert len(found) == 218 and all(row[2] is True and not row[3] for row in found)
    busy = {}
    for profile in (None, "h100", "v100"):
        result = chakrasim.simulate(both, ranks=8, machine="hgx-h100-8", device_profile=profile)
        busy[profile] = int(result.gpu_ns[0])
        timed = "compute nodes timed by the device profile"
        assert result.counts.get(timed, 0) == (8 * 218 if profile else 0)
        told = [warning for warning in result.warnings if "keep the durations measured on their device" in warning]
        assert len(told) == (profile is None)
    assert busy["h100"] < busy[None] and busy["h100"] < busy["v100"]


def test_all_ranks_of_a_real_job(shared_dir: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_dir / "traces" / "param" / "dlrm_pytorch_et.tar.gz") as archive:
        archive.extract("dlrm_pytorch_et/dlrm_eg_3.json", tmp_path, filter="data")
    trace = convert(link(tmp_path / "dlrm_pytorch_et" / "dlrm_eg_3.json"))
    kinds = Counter(kind for _, kind in attributes(trace, "op_kind"))
    assert kinds["gemm"] > 20 and total(trace, "num_ops") > 0
    assert not [name for name, _ in attributes(trace, "num_ops") if name.startswith("c10d::")]


def test_a_share_for_each_kernel_of_an_operator() -> None:
    shares = _shares(np.array([4, 2, 4, 4]), np.array([10, 7, 20, 30]))
    assert shares[1].tolist() == [0.0, 1.0]
    parts = _parts(np.full(3, 1001), shares[[0, 2, 3]])
    assert sum(parts) == 1001 and parts[2] - parts[0] > 300
    assert _parts(np.full(2, 7), _shares(np.array([1, 1]), np.array([0, 0]))).tolist() == [0, 7]
    assert _parts(np.full(3, -1), shares[[0, 2, 3]]).tolist() == [-1, -1, -1]


def test_a_linked_file_keeps_them(tmp_path: Path) -> None:
    linked = link(DEMO / "host.0.json.gz")
    write_linked(tmp_path / "linked.json", linked)
    assert read_linked(tmp_path / "linked.json").works == linked.works
    assert same_content(convert(read_linked(tmp_path / "linked.json")), convert(linked))
    document = json.loads((tmp_path / "linked.json").read_text())
    document["works"]["row"][0] = 10**6
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(chakrasim.InputError, match="row of works holds a number that cannot be"):
        read_linked(tmp_path / "bad.json")
    del document["works"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert len(read_linked(tmp_path / "old.json").works) == 0


@pytest.mark.parametrize("shape", [[2**40, 2**40], [-3, -5], [2**70, 1], ["3", 5], [[3], 5]])
def test_shapes_that_cannot_be(tmp_path: Path, shape: list[Any]) -> None:
    host = Host()
    host.op("aten::mm", MM, [[3, 5], [5, 7]], [[3, 7]])
    host.op("aten::relu", "aten::relu(Tensor self) -> Tensor", [[8]], [[8]])
    left = host.nodes[1]["inputs"]
    left["shapes"][0] = shape
    sizes = [int(str(size).strip("[]")) for size in shape]
    left["values"][0][3] = sizes[0] * sizes[1]
    trace = host.trace(tmp_path)
    expected = [] if shape == ["3", 5] else [("aten::mm", "no shapes")]
    assert attributes(trace, "work_unknown") == expected
    assert ("aten::relu", 8) in attributes(trace, "num_ops")


def test_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    host = Host()
    host.op("aten::odd", "aten::odd(Tensor self) -> Tensor", [[8]], [[8]])
    path = tmp_path / "host.json"
    host.trace(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"aten::odd(", b"aten::\xff\xfe("))
    assert attributes(convert(link(path)), "num_ops") == []


def test_a_host_trace_without_nodes_says_nothing_of_kernels(tmp_path: Path) -> None:
    header = {"schema": "1.0.1", "pid": 1, "time": 1, "start_ts": 1}
    (tmp_path / "host.json").write_text(json.dumps({**header, "nodes": []}))
    rows = [("cpu_op", "aten::mm", 1, 0, 9), ("cuda_runtime", "cudaLaunchKernel", 1, 1, 2), ("kernel", "gemm", 7, 4, 3)]
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        | {"args": {"External id": 2, **({} if cat == "cpu_op" else {"correlation": 7, "stream": 7})}}
        for cat, name, tid, ts, dur in rows
    ]
    (tmp_path / "device.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert len(link(tmp_path / "host.json", tmp_path / "device.json").works.row) == 0
