"""Pipeline-parallel training, one stage of layers per rank, micro-batches in the order 1F1B.

torchrun --nproc-per-node 2 train_pp.py --size tiny
"""

import torch
import torch.distributed as dist
from model import SIZES, Llama, loss_of, options, random_batch, start
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def main() -> None:
    chosen = options(micro_batches=4)
    size = SIZES[chosen.size]
    device = start()
    rank, stages = dist.get_rank(), dist.get_world_size()
    module = Llama(size, size.layers * rank // stages, size.layers * (rank + 1) // stages).to(device)
    # Shapes are given, so that nothing about them is exchanged at run time.
    tokens = torch.empty(size.batch, size.sequence, dtype=torch.long, device=device)
    hidden = torch.empty(size.batch, size.sequence, size.width, device=device, requires_grad=True)
    logits = torch.empty(size.batch, size.sequence, size.vocabulary, device=device, requires_grad=True)
    stage = PipelineStage(
        module,
        rank,
        stages,
        torch.device(device),
        input_args=hidden if rank else tokens,
        output_args=hidden if rank < stages - 1 else logits,
    )
    schedule = Schedule1F1B(stage, chosen.micro_batches, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for step in range(chosen.steps):
        tokens, targets = random_batch(size, device, seed=step, batch=size.batch * chosen.micro_batches)
        if rank == 0:
            schedule.step(tokens)
        elif rank == stages - 1:
            schedule.step(target=targets)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
