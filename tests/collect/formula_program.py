"""GPT as the papers count it: four h x h matrices of attention, two of h x 4h, scores made by products, no biases.

formula_program.py --plan ddp|zero2|zero3|tp|sp --layers 2
"""

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, SEQUENCE, BATCH, VOCABULARY = 64, 8, 32, 2, 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.attention_input, self.mlp_input = nn.Identity(), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention_input(self.norm1(x))
        q, k, v = (
            part(y).view(BATCH, SEQUENCE, -1, WIDTH // HEADS).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + self.o(mixed.transpose(1, 2).reshape(BATCH, SEQUENCE, -1))
        return x + self.down(nn.functional.gelu(self.up(self.mlp_input(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.output(x)


def split(model: Gpt, mesh, sequence_parallel: bool) -> None:
    outside = Shard(1) if sequence_parallel else Replicate()
    whole = PrepareModuleInput(input_layouts=(outside,), desired_input_layouts=(Replicate(),))
    plan = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    plan |= {name: RowwiseParallel(output_layouts=outside) for name in ("o", "down")}
    plan |= {"attention_input": whole, "mlp_input": whole}
    if sequence_parallel:
        plan |= {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    if sequence_parallel:
        ends = {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=outside),
            "output": ColwiseParallel(input_layouts=outside, output_layouts=Replicate()),
        }
        parallelize_module(model, mesh, ends)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", default="ddp")
    parser.add_argument("--layers", type=int, default=2)
    chosen = parser.parse_args()
    dist.init_process_group("gloo")
    model: nn.Module = Gpt(chosen.layers)
    if chosen.plan == "ddp":
        model = DistributedDataParallel(model)
    elif chosen.plan in ("tp", "sp"):
        split(model, init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",)), chosen.plan == "sp")
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=chosen.plan == "zero3")
        fully_shard(model, mesh=mesh, reshard_after_forward=chosen.plan == "zero3")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(2):
        tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
        logits = model(tokens)
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
