"""Every kind of parallelism, captured: which collectives of which size, in which group, on which stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from captures import attribute, capture, collectives, example, messages, phases, program

from chakrasim.trace.kinds import NodeType


def rules(trace: object, name: str) -> set[str]:
    """Stream rules of the nodes of that name."""
    found = attribute(trace, "stream_rule")  # type: ignore[arg-type]
    return {found[node] for node in found if trace.name(node) == name}  # type: ignore[attr-defined]


def test_ddp_reduces_all_gradients_beside_the_backward_pass() -> None:
    done = example("train_ddp.py", 4, "--size", "tiny")
    (trace,) = done.job.traces
    parameters = done.captured.classes[0].result.summary.peak["parameters"]
    reduced = {key: count for key, count in collectives(trace).items() if key[0] == "all_reduce"}
    assert sum(size * count for (_, _, size), count in reduced.items()) == parameters
    assert all(role == "" for _, role, _ in reduced)
    assert rules(trace, "c10d::allreduce_") == {
        "asynchronous collectives and batches of messages of the process group of all ranks"
    }
    assert done.job.trace_of_rank.tolist() == [0, 0, 0, 0]
    assert done.captured.verified == (3,)


def test_fsdp2_gathers_twice_and_scatters_once_on_streams_of_its_own() -> None:
    done = example("train_fsdp2.py", 4, "--size", "tiny")
    (trace,) = done.job.traces
    found = collectives(trace)
    gathered = sum(size * count for (kind, _, size), count in found.items() if kind == "all_gather")
    scattered = sum(size * count for (kind, _, size), count in found.items() if kind == "reduce_scatter")
    # Each of the two blocks is gathered in both passes, the root once; comm_size of an all-gather is one rank's part.
    block = max(size for kind, _, size in found if kind == "all_gather")
    assert found["all_gather", "", block] == 4
    assert scattered == 4 * (gathered - 2 * block)
    assert rules(trace, "c10d::_allgather_base_") == {
        "FSDP2's stream for all-gather: synchronous collectives run on the stream of the caller"
    }
    assert set(attribute(trace, "stream").values()) == {0, 1, 2, 3}
    assert phases(trace, "c10d::_reduce_scatter_base_") == {"backward": 3}


def test_an_all_gather_waits_for_no_computation_but_the_copy_out_of_an_earlier_one() -> None:
    trace = example("train_fsdp2.py", 4, "--size", "tiny", verify=False).job.traces[0]
    streams = attribute(trace, "stream")
    prefetched = [
        node
        for node, phase in attribute(trace, "phase").items()
        if trace.name(node) == "c10d::_allgather_base_" and phase == "backward"
    ]
    assert len(prefetched) == 2
    for node in prefetched:
        waits = {int(dep) for dep in (*trace.ctrl_deps[node], *trace.data_deps[node])}
        assert {trace.name(dep) for dep in waits if streams[dep] == 0} == {"fsdp::split_with_sizes_copy"}


def test_tensor_parallel_reduces_every_half_of_a_layer_once_in_each_pass() -> None:
    (trace,) = example("train_tp.py", 4, "--size", "tiny").job.traces
    activation = 2 * 32 * 64 * 4
    found = collectives(trace)
    assert found["all_reduce", "", activation] == 2 * 2 + 2 * 2 + 1  # the output's input gradient too
    assert phases(trace, "_c10d_functional::all_reduce")["forward"] == 4


@pytest.mark.slow
def test_sequence_parallel_gathers_and_scatters() -> None:
    (trace,) = example("train_tp.py", 4, "--size", "tiny", "--sequence-parallel", "1").job.traces
    activation = 2 * 32 * 64 * 4
    found = collectives(trace)
    assert found["reduce_scatter", "", activation] == 2 * 2 + 2 * 2 + 2
    assert found["all_gather", "", activation // 4] >= 2 * 2 + 2 * 2


@pytest.mark.slow
def test_tensor_parallel_within_fsdp_has_the_roles_of_the_mesh() -> None:
    done = example("train_tp.py", 8, "--size", "tiny", "--fsdp", "2")
    assert {role: len(groups) for role, groups in done.job.process_groups.items()} == {"fsdp": 4, "tp": 2}
    assert done.job.process_groups["tp"] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert {role for _, role, _ in collectives(done.job.traces[0])} == {"fsdp", "tp"}


def test_a_pipeline_has_a_trace_for_each_stage_in_the_order_1f1b() -> None:
    done = example("train_pp.py", 2, "--size", "tiny")
    first, last = done.job.traces
    assert messages(first) == [("send", 1), ("send", 1), ("recv", 1)] + [("send", 1), ("recv", 1)] * 2 + [("recv", 1)]
    assert messages(last).count(("recv", 0)) == messages(last).count(("send", 0)) == 4
    assert sum(first.types == int(NodeType.COMM_SEND_NODE)) == 4


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.slow
def test_llama_shares_a_trace_in_each_stage(chunks: int) -> None:
    arguments = ["--model", "small", "--tp", "2", "--pp", "2", "--interleaved", f"{chunks}", "--micro-batches", "2"]
    done = example("train_llama.py", 16, *arguments, verify=False)
    assert done.job.trace_of_rank.tolist() == [0] * 8 + [1] * 8
    assert {role: len(groups) for role, groups in done.job.process_groups.items()} == {"pp": 8, "dp": 4, "tp": 8}
    counts = [len(messages(trace)) for trace in done.job.traces]
    assert counts == ([4, 4] if chunks == 1 else [12, 12])


@pytest.mark.slow
def test_a_job_runs_on_the_simulator() -> None:
    from chakrasim import simulate

    arguments = ["--model", "small", "--tp", "2", "--pp", "2", "--micro-batches", "2"]
    done = example("train_llama.py", 8, *arguments, device_profile="h100", verify=False)
    result = simulate(done.job, machine="hgx-h100-8", device_profile="h100")
    compute = [entry.result.summary.compute_ns or 0 for entry in done.captured.classes]
    assert result.makespan_ns > max(compute) > 0


EXPERTS = """
    import torch, torch.distributed as dist
    from torch import nn

    dist.init_process_group("nccl")
    rank, world, experts = dist.get_rank(), dist.get_world_size(), 2
    for start in range(0, world, experts):
        group = dist.new_group(list(range(start, start + experts)))
        own = group if start <= rank < start + experts else None
        if own is not None:
            mine = own
    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            dist.all_to_all_single(y, x.contiguous(), group=mine)
            return y
        @staticmethod
        def backward(ctx, g):
            return Exchange.apply(g)
    w = nn.Parameter(torch.randn(16, 16, device="cuda"))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        x = torch.randn(8, 16, device="cuda", requires_grad=True)
        Exchange.apply(Exchange.apply(x) @ w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_expert_parallel_exchanges_in_groups_of_the_programs_own(tmp_path: Path) -> None:
    done = capture(program(tmp_path, EXPERTS), world_size=6)
    assert done.job.process_groups == {"pg_1": ((0, 1), (2, 3), (4, 5))}
    assert collectives(done.job.traces[0]) == {("all_to_all", "pg_1", 8 * 16 * 4): 4}


ROOTED = """
    import torch, torch.distributed as dist

    dist.init_process_group("nccl")
    net = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    parts = [torch.zeros(16, device="cuda") for _ in range(4)]
    for _ in range(2):
        root = dist.get_rank() == 0
        dist.scatter(torch.zeros(16, device="cuda"), parts if root else None, src=0)
        dist.gather(parts[0], parts if root else None, dst=0)
        net(torch.randn(2, 8, device="cuda")).sum().backward()
        optimizer.step()
"""


def test_a_scatter_has_the_bytes_of_its_root_and_a_gather_those_of_a_part(tmp_path: Path) -> None:
    for trace in capture(program(tmp_path, ROOTED), world_size=4).job.traces:
        sizes = {kind: size for kind, _, size in collectives(trace)}
        assert sizes == {"scatter": 4 * 16 * 4, "gather": 16 * 4}


DEEP = """
    import torch, torch.distributed as dist
    from torch import nn

    dist.init_process_group("nccl")
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(100)]).cuda()
    net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        net(torch.randn(2, 64, device="cuda")).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_ddp_of_many_parameters_agrees_on_its_buckets(tmp_path: Path) -> None:
    (trace,) = capture(program(tmp_path, DEEP), world_size=4).job.traces
    sizes = [size for (_, _, size), count in collectives(trace).items() for _ in range(count)]
    assert sum(sizes) == 100 * (64 * 64 + 64) * 4
    assert len(sizes) == 2  # of 1 MiB


SPLIT_ATTENTION = """
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(64, 64) for _ in range(4))

        def forward(self, x):
            parts = [layer(x).view(2, 16, 8, 8).transpose(1, 2) for layer in (self.q, self.k, self.v)]
            found = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.o(found.transpose(1, 2).reshape(2, 16, 64))

    mesh = init_device_mesh("cuda", (4,), mesh_dim_names=("tp",))
    whole = ColwiseParallel(use_local_output=False)
    net = parallelize_module(Attention().cuda(), mesh, {"q": whole, "k": whole, "v": whole, "o": RowwiseParallel()})
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        net(torch.randn(2, 16, 64, device="cuda")).sum().backward()
        optimizer.step()
"""


def test_attention_of_tensors_that_know_their_split_is_split_by_heads(tmp_path: Path) -> None:
    (trace,) = capture(program(tmp_path, SPLIT_ATTENTION), world_size=4).job.traces
    assert sum(collectives(trace).values()) == 1  # the sum of the output
    attentions = {
        trace.name(node): batch for node, batch in attribute(trace, "batch").items() if "flash" in trace.name(node)
    }
    assert set(attentions.values()) == {2 * 8 // 4}
    assert len(attentions) == 2


@pytest.mark.slow
def test_dependencies_have_smaller_numbers() -> None:
    for trace in example(
        "train_llama.py", 8, "--model", "small", "--pp", "2", "--micro-batches", "2", verify=False
    ).job.traces:
        for deps in (trace.data_deps, trace.ctrl_deps):
            owner = np.repeat(np.arange(len(trace)), np.diff(deps.offsets))
            assert (deps.targets.astype(np.int64) < owner).all()


UNEVEN = """
    import torch, torch.distributed as dist

    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = lambda sender, taker: (sender * 7 + taker * 3) % 5
    given = [rows(rank, other) for other in range(world)]
    taken = [rows(other, rank) for other in range(world)]
    for _ in range(2):
        x = torch.ones(sum(given), 16, device="cuda")
        y = torch.empty(sum(taken), 16, device="cuda")
        dist.all_to_all_single(y, x, taken, given)
        back = [torch.empty(count, 16, device="cuda") for count in given]
        dist.all_to_all(back, list(y.split(taken)))
        y.sum().item()
"""


def test_uneven_dispatch_is_captured_with_its_parts_and_simulates(tmp_path: Path) -> None:
    from chakrasim import simulate

    world, row = 4, 16 * 4
    done = capture(program(tmp_path, UNEVEN), world_size=world, ranks="all", step=0)
    given = [[(rank * 7 + other * 3) % 5 * row for other in range(world)] for rank in range(world)]
    taken = [list(column) for column in zip(*given, strict=True)]
    for rank in range(world):
        trace = done.job.traces[int(done.job.trace_of_rank[rank])]
        assert list(attribute(trace, "comm_parts").values()) == [given[rank], taken[rank]] * 2
    result = simulate(done.job, machine="h100", gpus=world)
    busiest = max(max(map(sum, given)), max(map(sum, taken)))
    assert {(figures.type, figures.size_bytes) for figures in result.collectives} == {("all-to-all", busiest)}
