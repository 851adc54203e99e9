"""Data-parallel training with DistributedDataParallel.

torchrun --nproc-per-node 2 train_ddp.py --size tiny
"""

import torch
import torch.distributed as dist
from model import SIZES, Llama, loss_of, options, random_batch, start
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    chosen = options()
    size = SIZES[chosen.size]
    device = start()
    model = DistributedDataParallel(Llama(size).to(device))
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
