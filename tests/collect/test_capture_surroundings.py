"""What programs ask of PyTorch around a training step: processes, meshes, numbers for devices, values to print."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from captures import attribute, capture, collectives, program

SPAWNED = """
    import torch, torch.distributed as dist, torch.multiprocessing as mp
    from torch import nn

    def run(rank, world):
        assert torch.version.cuda and dist.is_nccl_available()
        dist.init_process_group("nccl", rank=rank, world_size=world)
        net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).to(rank), device_ids=[rank])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.randn(4, 8, device=rank).to(rank)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    if __name__ == "__main__":
        mp.spawn(run, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""


def test_spawned_processes_are_the_rank_itself(tmp_path: Path) -> None:
    done = capture(program(tmp_path, SPAWNED), world_size=16)
    assert collectives(done.job.traces[0]) == {("all_reduce", "", (8 * 8 + 8) * 4): 1}
    assert len(done.job.trace_of_rank) == 16
    assert "torch.multiprocessing.spawn: this rank's call only: 1" in done.assumptions
    assert "init_process_group asked for 8 ranks, and got 16: 1" in done.assumptions


MESH = """
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("copies", "shards"))
    net = fully_shard(nn.Linear(8, 8).cuda(), mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for _ in range(3):
        x = net(torch.randn(2, 4, 16, 8, device="cuda"))
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
            y = nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True)
        y.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.memory_stats()["allocated_bytes.all.peak"]
"""


def test_a_mesh_makes_the_process_group_and_attention_is_fused(tmp_path: Path) -> None:
    done = capture(program(tmp_path, MESH), world_size=4)
    (trace,) = done.job.traces
    whole, shard = (8 * 8 + 8) * 4, (8 * 8 + 8) * 2
    assert collectives(trace) == {
        ("all_gather", "shards", shard): 1,
        ("reduce_scatter", "shards", whole): 1,
        ("all_reduce", "copies", shard): 1,
    }
    assert any("flash_attention" in trace.name(node) for node in range(len(trace)))
    assert f"placeholder: attention's dropout = 0 at {tmp_path}/program.py:14, 2 times" in done.assumptions


VALUES = """
    import torch
    from torch import nn

    net = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = net(torch.randn(4, 8, device="cuda")).sum()
        loss.backward()
        if not torch.isfinite(loss) or not all(p.grad.isfinite().all() for p in net.parameters()):
            continue
        optimizer.step()
        torch.cuda.memory._record_memory_history()
        torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
        print(f"{loss:.3f}", loss.detach().cpu().numpy() + 1)
"""


def test_values_are_finite_zeros(tmp_path: Path) -> None:
    done = capture(program(tmp_path, VALUES), world_size=1, step=3)
    script = f"{tmp_path}/program.py"
    assert done.captured.classes[0].result.placeholders == {
        f"item() = True (all is finite) at {script}:10": 9,
        f"item() = 0 at {script}:15": 2,
        f"numpy() = zeros at {script}:15": 2,
    }
    assert attribute(done.job.traces[0], "phase")


OWN_VALUES = """
    import os, torch
    weight = torch.nn.Parameter(torch.randn(4, 4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        y = torch.randn(4, 4) @ weight
        z = y.detach().sin() if torch.distributed.is_initialized() else y.detach().cos()
        y.sum().backward()
        optimizer.step()
        if os.environ["RANK"] == "1" and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo")
"""


def test_ranks_that_differ_in_no_figure_are_told_apart(tmp_path: Path) -> None:
    done = capture(program(tmp_path, OWN_VALUES), world_size=2)
    assert any("(as many nodes and FLOPs, but others)" in line for line in done.warnings)


MOVED = """
import torch, weakref
layer = torch.nn.Linear(4, 4)
layer.weight.is_split = True
kept = weakref.ref(layer.weight)
layer(torch.randn(2, 4)).sum().backward()
layer.zero_grad()
layer.to(torch.bfloat16).to("cuda")
assert layer.weight is kept() and layer.weight.is_split and layer.weight.dtype is torch.bfloat16
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    layer(torch.randn(2, 4, dtype=torch.bfloat16, device="cuda")).sum().backward()
    assert layer.weight.grad.dtype is torch.bfloat16
    optimizer.step()
"""


def test_a_parameter_keeps_its_attributes_and_who_refers_to_it_when_its_module_moves(tmp_path: Path) -> None:
    done = capture(program(tmp_path, MOVED), world_size=1)
    assert done.captured.classes[0].result.summary.peak["parameters"] == 2 * (4 * 4 + 4)
