"""What captured programs keep in the host's memory: loads and stores with their bytes, streams and dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest
from captures import program

from chakrasim.collect.capturing.api import Capture, capture
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import NodeType

STORE, LOAD = int(NodeType.MEM_STORE_NODE), int(NodeType.MEM_LOAD_NODE)
BY_HAND = """
    import torch
    H = 1024
    w = torch.randn(H, H, device="cuda", requires_grad=True)
    pinned = torch.empty(H, H, pin_memory=True)
    side = torch.cuda.Stream()
    optimizer = torch.optim.SGD([w], lr=0.1)
    x = torch.randn(8, H, device="cuda")
    for _ in range(2):
        y = x @ w
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            pinned.copy_(w.detach(), non_blocking=True)
        kept = y.detach().to("cpu")
        same = y.to(x.device)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            z = y @ w
        loss = z.sum()
        loss.backward()
        assert loss.cpu().item() == 0 and kept.cpu() is kept and x.cuda() is x
        torch.cuda.current_stream().wait_stream(side)
        w.data.copy_(pinned, non_blocking=True)
        back = kept.cuda(non_blocking=True) * 2
        kept * 3
        likes = torch.empty_like(pinned, device="cuda"), pinned.new_empty((H, H), device="cuda:0")
        likes[0].copy_(pinned)
        x @ likes[0] @ torch.zeros_like(pinned, device=torch.device("cuda")) @ likes[1]
        optimizer.step()
        optimizer.zero_grad()
"""
SHARDED = """
    import os
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    H = 512
    model = nn.Sequential(nn.Linear(H, 4 * H, bias=False), nn.GELU(), nn.Linear(4 * H, H, bias=False)).to("cuda")
    for part in (model[0], model[2], model):
        fully_shard(part, offload_policy=CPUOffloadPolicy())
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(32, H, device="cuda")
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def _accesses(trace: Trace) -> list[tuple[int, int, int, str]]:
    """Type, bytes, stream and phase."""
    nodes = map(trace.node, range(len(trace)))
    return [
        (one.type, one.attrs["tensor_size"], one.attrs["stream"], one.attrs["phase"])
        for one in nodes
        if one.type in (STORE, LOAD)
    ]


def _of(found: Capture) -> Trace:
    return found.job.traces[0]


def test_copies_to_the_host_and_back(tmp_path: Path) -> None:
    found = capture(program(tmp_path, BY_HAND), world_size=1)
    trace, weights, rows = _of(found), 4 * 1024 * 1024, 4 * 8 * 1024
    accesses = _accesses(trace)
    assert accesses[:2] == [(STORE, weights, 1, "forward"), (STORE, rows, 0, "forward")]
    # save_on_cpu: both operands of the product go, and come back for its backward pass.
    assert sorted(accesses[2:6]) == sorted(
        [
            (STORE, rows, 0, "forward"),
            (STORE, weights, 0, "forward"),
            (LOAD, rows, 0, "backward"),
            (LOAD, weights, 0, "backward"),
        ]
    )
    # The last one: a tensor that is made on the GPU, like one in the host's memory.
    assert accesses[6:] == [(LOAD, size, 0, "forward") for size in (weights, rows, weights)]
    nodes = [trace.node(at) for at in range(len(trace))]
    stores = [one.id for one in nodes if one.type == STORE]
    loads = [one for one in nodes if one.type == LOAD]
    assert [one.data_deps for one in loads[-3:]] == [(stores[0],), (stores[1],), (stores[0],)]
    product = next(one for one in nodes if one.name == "aten::mul")
    assert product.data_deps == (loads[-2].id,)
    assert sum(one.name == "aten::mm" and loads[-1].id in one.data_deps for one in nodes) == 1
    assert sum(one.name == "aten::zeros_like" for one in nodes) == 1
    assert sum(one.name == "aten::mul" for one in nodes) == 1
    left_out = "operators on tensors in the host's memory left out: what a CPU takes is not known: 1"
    assert left_out in found.assumptions


@pytest.mark.slow
def test_programs_that_name_no_gpu_have_no_other_memory(tmp_path: Path) -> None:
    text = "import torch\nw = torch.randn(64, 64, requires_grad=True)\nopt = torch.optim.SGD([w], lr=1)\n"
    text += 'for _ in range(2):\n    (w.to("cpu") @ w.cpu()).sum().backward()\n    opt.step()\n'
    assert _accesses(_of(capture(program(tmp_path, text), world_size=1))) == []


@pytest.mark.slow
def test_fsdp_with_parameters_on_the_host(tmp_path: Path) -> None:
    found = capture(program(tmp_path, SHARDED), world_size=2)
    shard = 4 * 4 * 512 * 512 // 2
    accesses = [(kind, size) for kind, size, _, _ in _accesses(_of(found))]
    # Each weight comes for the forward and for the backward pass; its gradient goes.
    assert accesses.count((LOAD, shard)) == 4 and accesses.count((STORE, shard)) == 2 and len(accesses) == 6
    assert "peak_bytes_parameters" not in _of(found).metadata
