"""What programs do beside computing: values, data loaders, mixed precision, accumulation, recomputation, GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from captures import attribute, capture, collectives, example, messages, phases, program  # noqa: E402

MIXED = """
    import os
    import torch, torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 5))
    net = nn.parallel.DistributedDataParallel(net.cuda(), device_ids=[device.index], output_device=device)
    data = TensorDataset(torch.randn(200, 3, 8, 8), torch.randint(5, (200,)))
    loader = DataLoader(data, 5, sampler=DistributedSampler(data), num_workers=2, pin_memory=True)
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for number, (x, y) in enumerate(loader):
        last = number % 2 == 1
        x, y = x.to(device, non_blocking=True), y.cuda()
        with torch.autocast("cuda", dtype=torch.float16), torch.enable_grad() if last else net.no_sync():
            loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        if last:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if loss.isnan():
                raise RuntimeError("a placeholder is finite")
            print(loss.item(), torch.cuda.max_memory_allocated())
"""


def test_autocast_scaler_accumulation_and_a_data_loader(tmp_path: Path) -> None:
    done = capture(program(tmp_path, MIXED), world_size=4)
    (trace,) = done.job.traces
    # Two micro-batches compute, gradients are reduced in the second.
    assert phases(trace, "aten::convolution") == {"forward": 2}
    assert sum(count for (kind, _, _), count in collectives(trace).items() if kind == "all_reduce") == 1
    dtypes = attribute(trace, "dtype")
    assert {dtypes[node] for node in dtypes if trace.name(node) == "aten::convolution"} == {"float16"}
    assert done.captured.classes[0].result.placeholders
    assert any("item() = 0" in line for line in done.assumptions)


@pytest.mark.slow
def test_recomputation_is_a_phase_of_its_own() -> None:
    done = example("train_llama.py", 4, "--model", "small", "--checkpoint", "--micro-batches", "1", verify=False)
    trace = done.job.traces[0]
    counted = phases(trace, "aten::silu")
    assert counted["recompute"] == counted["forward"] > 0
    plain = example("train_llama.py", 4, "--model", "small", "--micro-batches", "1", verify=False)
    peaks = [found.captured.classes[0].result.summary.peak for found in (done, plain)]
    assert peaks[0]["activations"] < peaks[1]["activations"]


VALUES = """
    import torch, torch.distributed as dist
    from torch import nn

    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    weight = nn.Parameter(torch.randn(16, 8, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        samples = torch.tensor([8], device="cuda")
        dist.all_reduce(samples)
        assert samples.item() == 8 * world
        gathered = [torch.zeros(1, dtype=torch.int64, device="cuda") for _ in range(world)]
        dist.all_gather(gathered, torch.tensor([rank], device="cuda"))
        assert [int(part) for part in gathered] == [rank] * world
        objects = [None] * world
        dist.all_gather_object(objects, {"rank": rank})
        dist.barrier()
        (torch.randn(4, 16, device="cuda") @ weight).sum().backward()
        optimizer.step()
"""


def test_values_of_the_host_stay_and_others_count_as_equal(tmp_path: Path) -> None:
    done = capture(program(tmp_path, VALUES), world_size=3, ranks="all")
    assert collectives(done.job.traces[0]) == {
        ("all_reduce", "", 8): 1,
        ("all_gather", "", 8): 1,
        ("barrier", "", 0): 1,
    }
    assert not done.captured.classes[0].result.placeholders
    assert any(line.startswith("all_gather_object: copies of the own object") for line in done.assumptions)


EXCHANGED = """
    import torch, torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    dist.init_process_group("nccl")
    rank, stages = dist.get_rank(), dist.get_world_size()
    module = nn.Linear(8, 8).cuda()
    stage = PipelineStage(module, rank, stages, torch.device("cuda"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(4, 8, device="cuda")
        schedule.step(*([x] if rank == 0 else []), target=x if rank == stages - 1 else None)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.slow
def test_stages_that_exchange_shapes_get_them_from_the_stages_beside_them(tmp_path: Path) -> None:
    done = capture(program(tmp_path, EXCHANGED), world_size=3)
    assert [len(messages(trace)) for trace in done.job.traces] == [4, 8, 4]
    assert any(line.startswith("recv_object_list") for line in done.assumptions)


def test_a_function_is_called_once_for_each_step() -> None:
    from torch import nn

    model = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(3, 8)
    before = model.weight.detach().clone()

    def step() -> None:
        model(data).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    done = capture(step, world_size=2)
    summary = done.captured.classes[0].result.summary
    assert summary.flops["gemm"] == 2 * 3 * 8 * 4 * 2
    assert summary.peak["parameters"] == summary.peak["gradients"] == (8 * 4 + 4) * 4
    assert torch.equal(before, model.weight)


STEPS = """
    import torch
    weight = torch.nn.Parameter(torch.randn(4, 4))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    for number in range(3):
        for _ in range(number + 1):
            (torch.randn(4, 4) @ weight).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("step", "products"), [(1, 1), (2, 2), (3, 3), (0, 6)])
def test_which_step_is_recorded(tmp_path: Path, step: int, products: int) -> None:
    done = capture(program(tmp_path, STEPS), world_size=1, step=step)
    assert phases(done.job.traces[0], "aten::mm")["forward"] == products


STREAMS = """
    import torch
    weight = torch.nn.Parameter(torch.randn(4, 4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    side = torch.cuda.Stream()
    for _ in range(3):
        x = torch.randn(4, 4, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x.exp()
        z = x.sin()
        torch.cuda.current_stream().wait_stream(side)
        (z @ weight + y).sum().backward()
        optimizer.step()
"""


def test_streams_of_the_program_are_those_of_the_trace(tmp_path: Path) -> None:
    (trace,) = capture(program(tmp_path, STREAMS), world_size=1).job.traces
    streams = attribute(trace, "stream")
    node = {trace.name(number): number for number in range(len(trace))}
    assert streams[node["aten::exp"]] == 1 and streams[node["aten::sin"]] == 0
    assert node["aten::exp"] not in trace.ctrl_deps[node["aten::sin"]]
    assert (
        node["aten::exp"] in trace.ctrl_deps[node["aten::mm"]].tolist()
        or node["aten::exp"] in trace.ctrl_deps[node["aten::sin"] + 1]
    )


def test_without_gpus_a_program_finds_none(tmp_path: Path) -> None:
    text = STEPS.replace("import torch\n", "import torch\n    assert not torch.cuda.is_available()\n", 1)
    assert len(capture(program(tmp_path, text), world_size=1, with_gpu=False).job.traces[0])


ONE_GPU = """
    import torch
    from torch import nn

    net = nn.DataParallel(nn.Linear(8, 8)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        net(torch.randn(2, 8).cuda()).sum().backward()
        optimizer.step()
"""


def test_data_parallel_computes_on_one_gpu(tmp_path: Path) -> None:
    done = capture(program(tmp_path, ONE_GPU), world_size=1)
    assert phases(done.job.traces[0], "aten::addmm") == {"forward": 1}
    assert "DataParallel: all is computed on the one GPU of its rank: 1" in done.assumptions


FLEXIBLE = """
    import torch
    from torch import nn
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    net = nn.Linear(32, 96).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    attention = torch.compile(flex_attention)
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128)
    for _ in range(2):
        parts = net(torch.randn(2, 128, 32, device="cuda")).view(2, 128, 3, 4, 8).permute(2, 0, 3, 1, 4)
        attention(*parts, block_mask=mask).sum().backward()
        optimizer.step()
"""


def test_attention_with_a_function_of_the_users_counts_all_scores(tmp_path: Path) -> None:
    done = capture(program(tmp_path, FLEXIBLE), world_size=1)
    (trace,) = done.job.traces
    (flops,) = [value for node, value in attribute(trace, "num_ops").items() if trace.name(node).endswith("for_cpu")]
    assert flops == 4 * 2 * 4 * 128 * 128 * 8
    assert any("flex_attention of all scores at" in line for line in done.assumptions)
