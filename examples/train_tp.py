"""Tensor-parallel training with DTensor: attention heads and feed-forward columns are split, all ranks see one batch.

torchrun --nproc-per-node 2 train_tp.py --size tiny
torchrun --nproc-per-node 4 train_tp.py --size tiny --fsdp 2        # two ranks each: FSDP2 x tensor parallel
torchrun --nproc-per-node 2 train_tp.py --size tiny --sequence-parallel 1
"""

import torch
import torch.distributed as dist
from model import SIZES, Llama, loss_of, options, random_batch, start
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def split(model: Llama, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """Split the blocks of the model over the ranks of ``mesh``."""
    outside = Shard(1) if sequence_parallel else Replicate()
    plan: dict[str, nn.Module | object] = {
        "attention": PrepareModuleInput(
            input_layouts=(outside, None, None), desired_input_layouts=(Replicate(), None, None)
        ),
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.o": RowwiseParallel(output_layouts=outside),
        "feed_forward": PrepareModuleInput(input_layouts=(outside,), desired_input_layouts=(Replicate(),)),
        "feed_forward.gate": ColwiseParallel(),
        "feed_forward.up": ColwiseParallel(),
        "feed_forward.down": RowwiseParallel(output_layouts=outside),
    }
    ends = {"output": ColwiseParallel(input_layouts=outside, output_layouts=Replicate())}
    if sequence_parallel:
        plan |= {"attention_norm": SequenceParallel(), "feed_forward_norm": SequenceParallel()}
        ends |= {"norm": SequenceParallel()}
        ends |= {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    parallelize_module(model, mesh, ends)


def main() -> None:
    chosen = options(fsdp=1, sequence_parallel=0)
    size = SIZES[chosen.size]
    device = start()
    tensor = dist.get_world_size() // chosen.fsdp
    mesh = init_device_mesh(device, (chosen.fsdp, tensor), mesh_dim_names=("fsdp", "tp"))
    model = Llama(size).to(device)
    split(model, mesh["tp"], bool(chosen.sequence_parallel))
    if chosen.fsdp > 1:
        for block in model.blocks:
            fully_shard(block, mesh=mesh["fsdp"])
        fully_shard(model, mesh=mesh["fsdp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    replica = mesh["fsdp"].get_local_rank()
    for step in range(chosen.steps):
        tokens, targets = random_batch(size, device, seed=step * chosen.fsdp + replica)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
