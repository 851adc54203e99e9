"""Llama-like training at any scale: FSDP2 x tensor (and sequence) parallel x pipeline, micro-batches in the order 1F1B.

torchrun --nproc-per-node 4 train_llama.py --model small --tp 2 --pp 2
chakrasim capture train_llama.py --world-size 1024 --output llama -- --model 7b --tp 8 --pp 8
"""

import argparse
from functools import partial

import torch
import torch.distributed as dist
from model import SIZES, Llama, Size, angles, loss_of, random_batch, start
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from train_tp import split


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SIZES, default="small")
    parser.add_argument("--tp", type=int, default=1, help="ranks that share a layer")
    parser.add_argument("--pp", type=int, default=1, help="pipeline stages")
    parser.add_argument("--dp", type=int, default=0, help="ranks that share parameters; default: those that are left")
    parser.add_argument("--interleaved", type=int, default=1, help="chunks of layers per rank")
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--checkpoint", action="store_true", help="compute activations again in the backward pass")
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def chunk(chosen: argparse.Namespace, size: Size, index: int, chunks: int) -> Llama:
    """The layers of one chunk, without memory yet."""
    bounds = [size.layers * i // chunks for i in (index, index + 1)]
    with torch.device("meta"):
        return Llama(size, *bounds)


def shard(chosen: argparse.Namespace, model: Llama, mesh: DeviceMesh) -> None:
    """Split the layers over the ranks of "tp" and the parameters over those of "dp"."""
    if chosen.tp > 1:
        split(model, mesh["tp"], sequence_parallel=True)
    if chosen.checkpoint:
        apply_activation_checkpointing(model, checkpoint_wrapper, check_fn=lambda part: part in set(model.blocks))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if chosen.dtype == "bf16" else MixedPrecisionPolicy()
    # With a pipeline the parameters stay gathered until the last micro-batch, as its schedules take care of.
    wrap = partial(fully_shard, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=chosen.pp == 1)
    for block in model.blocks:
        wrap(block)
    wrap(model)


def materialise(model: Llama, size: Size, device: str) -> None:
    """Memory for the local parameters, with values."""
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02) if parameter.dim() > 1 else nn.init.ones_(parameter)
    for buffer, values in zip((model.cosine, model.sine), angles(size.sequence, size.width // size.heads), strict=True):
        buffer.copy_(values)


def pipeline(chosen: argparse.Namespace, models: list[Llama], size: Size, device: str, mesh: DeviceMesh):
    """The schedule over this rank's chunks; shapes are given, so that nothing about them is exchanged at run time."""
    rank, ranks, chunks = mesh.get_local_rank(), mesh.size(), mesh.size() * len(models)
    dtype = torch.bfloat16 if chosen.dtype == "bf16" else torch.float32
    tokens = torch.empty(size.batch, size.sequence, dtype=torch.long, device=device)
    shape = (size.batch, size.sequence // chosen.tp, size.width)
    hidden = torch.empty(shape, dtype=dtype, device=device, requires_grad=True)
    shape = (size.batch, size.sequence, size.vocabulary)
    logits = torch.empty(shape, dtype=dtype, device=device, requires_grad=True)
    stages = [
        PipelineStage(
            model,
            index,
            chunks,
            torch.device(device),
            input_args=hidden if index else tokens,
            output_args=hidden if index < chunks - 1 else logits,
            group=mesh.get_group(),
        )
        for index, model in zip(range(rank, chunks, ranks), models, strict=True)
    ]
    if len(stages) == 1:
        return Schedule1F1B(stages[0], chosen.micro_batches, loss_fn=loss_of)
    return ScheduleInterleaved1F1B(stages, chosen.micro_batches, loss_fn=loss_of)


def main() -> None:
    chosen = parse()
    size = SIZES[chosen.model]
    device = start()
    data = chosen.dp or dist.get_world_size() // (chosen.tp * chosen.pp)
    mesh = init_device_mesh(device, (chosen.pp, data, chosen.tp), mesh_dim_names=("pp", "dp", "tp"))
    rank = mesh["pp"].get_local_rank()
    chunks = chosen.pp * chosen.interleaved
    models = [chunk(chosen, size, index, chunks) for index in range(rank, chunks, chosen.pp)]
    for model in models:
        shard(chosen, model, mesh)
        materialise(model, size, device)
    schedule = pipeline(chosen, models, size, device, mesh["pp"]) if chosen.pp > 1 else None
    optimizer = torch.optim.AdamW([p for model in models for p in model.parameters()], lr=3e-4, foreach=True)
    for step in range(chosen.steps):
        seed = step * data + mesh["dp"].get_local_rank()
        tokens, targets = random_batch(size, device, seed=seed, batch=size.batch * chosen.micro_batches)
        if schedule is not None:
            inputs = (tokens,) if rank == 0 else ()
            schedule.step(*inputs, target=targets if rank == chosen.pp - 1 else None)
        else:
            for i in range(chosen.micro_batches):
                models[0].set_requires_gradient_sync(i == chosen.micro_batches - 1)
                part = slice(i * size.batch, (i + 1) * size.batch)
                loss = loss_of(models[0](tokens[part]), targets[part])
                (loss / chosen.micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
