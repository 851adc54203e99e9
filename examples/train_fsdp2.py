"""Fully sharded training with FSDP2 (fully_shard), each block and the rest a unit of its own.

torchrun --nproc-per-node 2 train_fsdp2.py --size tiny
"""

import torch
import torch.distributed as dist
from model import SIZES, Llama, loss_of, options, random_batch, start
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    chosen = options()
    size = SIZES[chosen.size]
    device = start()
    mesh = init_device_mesh(device, (dist.get_world_size(),), mesh_dim_names=("fsdp",))
    model = Llama(size).to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(chosen.steps):
        tokens, targets = random_batch(size, device, seed=step * dist.get_world_size() + dist.get_rank())
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
