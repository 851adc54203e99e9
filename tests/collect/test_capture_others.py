"""What programs of others ask of PyTorch: each stopped a capture once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from captures import attribute, capture, program

from chakrasim.cli.main import main
from chakrasim.collect.capturing.api import Capture
from chakrasim.collect.capturing.pretended.cuda_graphs import DeviceGraph
from chakrasim.errors import InputError

pytestmark = pytest.mark.slow


def run(folder: Path, text: str, **options: Any) -> Capture:
    """All that a program does, on rank 1 of 2; what it asserts is the test."""
    return capture(program(folder, "import torch\n" + text), world_size=2, ranks=[1], step=0, **options)


TORCHVISION = """
import torch
_version = torch.version.cuda
if _version is not None and _version.partition(".")[0] != "{major}":
    raise RuntimeError("Detected that PyTorch and torchvision were compiled with different CUDA major versions")
"""


@pytest.mark.parametrize(("tag", "major"), [("cu130", 13), ("cu118", 11), ("cu126", 12)])
def test_the_cuda_version_is_the_one_that_extensions_were_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, major: int
) -> None:
    package = tmp_path / "site" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TORCHVISION.format(major=major))
    (package / "version.py").write_text(f"__version__ = '0.28.0+{tag}'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(torch.version, "cuda", None)
    run(tmp_path, f"import torchvision\nassert torch.version.cuda.startswith('{major}.')")


def test_a_cuda_version_that_pytorch_has_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    run(tmp_path, "assert torch.version.cuda == '12.6'")


HOST_TENSORS = """
counts = torch.arange(16, dtype=torch.uint8).view(torch.int64)
assert counts.tolist() == [0x0706050403020100, 0x0F0E0D0C0B0A0908]
assert torch.tensor([258]).view(torch.uint8).tolist()[:3] == [2, 1, 0]
seed = torch.cuda.get_rng_state()[:8].to("cuda").to("cpu").view(torch.uint64).item()
torch.manual_seed(seed)
weights = torch.frombuffer(bytearray(4 * 64 * 64), dtype=torch.uint8).view(torch.float32).view(64, 64)
assert (torch.zeros(64, 64, device="cuda") + weights.cuda()).shape == (64, 64)
"""


def test_host_tensors_are_seen_as_another_type(tmp_path: Path) -> None:
    run(tmp_path, HOST_TENSORS)


VALUES = """
losses = [torch.zeros((), device="cuda"), torch.ones((), device="cuda", dtype=torch.float64)]
assert torch.tensor(losses).dtype is torch.float64
assert torch.tensor([[1.0, losses[0]], [2.0, 3.0]]).shape == (2, 2)
assert losses[0].new_tensor(losses).shape == (2,)
assert torch.equal(losses[0], losses[1]) and torch.allclose(losses[0], losses[0])
assert not torch.equal(torch.tensor([1, 2]), torch.tensor([1, 3]))
"""


def test_a_list_of_device_values_makes_a_tensor(tmp_path: Path) -> None:
    done = run(tmp_path, VALUES)
    assert done.captured.classes[0].result.placeholders[f"equal() = True at {tmp_path}/program.py:7"] == 1


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("torch.ones(2, device=torch.device(1))", 'write torch.device("cuda", 0) for torch.device(0); see the limits'),
        (
            "torch.library.register_fake('torchvision::none')(len)",
            "install the torchvision that belongs to this PyTorch",
        ),
    ],
)
def test_an_error_that_does_not_say_what_to_do_gets_a_remedy(tmp_path: Path, line: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        run(tmp_path, line)
    assert remedy in str(caught.value) and "program.py:2: " in str(caught.value)


EMPTY_WEIGHTS = """
from torch import nn

def empty(module, name, param, register=nn.Module.register_parameter):
    register(module, name, param)
    if param is None:
        return
    kind = type(module._parameters[name])
    module._parameters[name] = kind(module._parameters[name].to("meta"), requires_grad=param.requires_grad)
    assert isinstance(module._parameters[name], nn.Parameter)

register = nn.Module.register_parameter
nn.Module.register_parameter = empty
net = nn.Linear(1000, 1000, bias=False)
nn.Module.register_parameter = register
assert net.weight.is_meta and net.weight.requires_grad
net.to_empty(device="cuda")
assert not net.weight.is_meta and net(torch.randn(2, 1000, device="cuda")).requires_grad
frozen = type(net.weight)(torch.zeros(3, device="cuda"), requires_grad=False)
assert isinstance(frozen, nn.Parameter) and not frozen.requires_grad
assert type(net.weight)(2, 3).shape == (2, 3)
assert torch.zeros(3, device="cuda").to("meta").device.type == "meta"
"""


def test_parameters_are_made_by_the_class_of_others(tmp_path: Path) -> None:
    done = run(tmp_path, EMPTY_WEIGHTS)
    assert done.to_mapping()["classes"][0]["memory"]["by_category"]["parameters"] == 1000 * 1000 * 4


FLEX = """
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

q = torch.randn(2, 4, 128, 16, device="cuda", requires_grad=True)
k = torch.randn(2, 2, 128, 16, device="cuda", requires_grad=True)
{call}
loss.backward()
assert q.grad.shape == q.shape and k.grad.shape == k.shape
"""
WITH_AUX = """
out, aux = flex_attention(q, k, k, enable_gqa=True, return_aux=AuxRequest(lse=True, max_scores=True))
assert aux.lse.shape == aux.max_scores.shape == (2, 4, 128)
assert aux.lse.dtype is torch.float32 and aux.lse.requires_grad and not aux.max_scores.requires_grad
loss = (out * torch.sigmoid(aux.lse).unsqueeze(-1)).sum()
"""
WITH_LSE = """
out, lse = flex_attention(q, k, k, enable_gqa=True, return_lse=True)
assert lse.shape == (2, 4, 128)
loss = out.sum() + lse.sum()
assert flex_attention(q.detach(), k.detach(), k.detach(), enable_gqa=True, return_aux=AuxRequest())[1].lse is None
"""


@pytest.mark.parametrize(("call", "times"), [(WITH_AUX, 1), (WITH_LSE, 2)])
def test_flex_attention_gives_what_else_is_asked_for(tmp_path: Path, call: str, times: int) -> None:
    done = run(tmp_path, FLEX.format(call=call))
    forward = 2 * 2 * (2 * 4 * 128 * 128 * 16)
    flops = done.to_mapping()["classes"][0]["flops"]
    assert flops["attention"] == times * forward + forward * 5 // 2


GENERATORS = """
from torch.utils.checkpoint import checkpoint

assert len(torch.cuda.default_generators) == torch.cuda.device_count() == 2
torch.cuda.manual_seed(7)
assert torch.cuda.initial_seed() == 7 and torch.cuda.default_generators[1].initial_seed() == 7
before = torch.cuda.get_rng_state()
with torch.random.fork_rng(devices=[0, 1]):
    torch.cuda.manual_seed_all(8)
    assert torch.cuda.default_generators[0].initial_seed() == 8
torch.cuda.set_rng_state(before, "cuda:0")
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
generator = torch.cuda.default_generators[0]
generator.graphsafe_set_state(generator.graphsafe_get_state())
generator.set_state(generator.clone_state().get_state())
x = torch.randn(4, 4, device="cuda", requires_grad=True)
for reentrant in (True, False):
    checkpoint(torch.nn.functional.dropout, x, use_reentrant=reentrant).sum().backward()
"""


def test_every_gpu_has_a_generator(tmp_path: Path) -> None:
    run(tmp_path, GENERATORS)


QUESTIONS = """
from torch.profiler import ProfilerActivity, profile

cuda = torch.cuda
properties = cuda.get_device_properties(0)
assert properties.shared_memory_per_block_optin > properties.shared_memory_per_block > 0
assert properties.max_threads_per_multi_processor == 2048 and properties.L2_cache_size > 0
assert cuda.memory.mem_get_info() == cuda.mem_get_info() == (properties.total_memory, properties.total_memory)
cuda.memory.reset_peak_memory_stats()
assert cuda.memory_stats()["active_bytes.all.current"] == cuda.utilization() == cuda.memory.memory_allocated() == 0
assert cuda.can_device_access_peer(0, 1) and cuda.memory_snapshot() == [] and cuda.get_allocator_backend() == "native"
cuda.cudart().cudaProfilerStart(), cuda.profiler.stop(), cuda.check_error(0), cuda.set_sync_debug_mode("warn")
cuda.nvtx.range_end(cuda.nvtx.range_start("x"))
with cuda.nvtx.range("y"), torch.autograd.profiler.emit_nvtx(), cuda.profiler.profile():
    pass
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    torch.ones(2, device="cuda")
stream = cuda.Stream(priority=-1)
assert stream.device.type == "cuda" and cuda.Stream.priority_range() == (0, 0) and stream.priority == 0
assert isinstance(stream, torch.Stream) and torch.Event("cuda", enable_timing=True).query()
accelerator = torch.accelerator
assert accelerator.memory_allocated() == 0 and accelerator.get_memory_info()[0] == properties.total_memory
accelerator.set_stream(stream), accelerator.empty_cache(), accelerator.reset_peak_memory_stats()
with accelerator.device_index(0):
    pass
half = cuda.HalfTensor(2, 3)
assert half.type() == "torch.cuda.HalfTensor" and half.shape == (2, 3) and isinstance(half, cuda.HalfTensor)
assert cuda.FloatTensor([1.0, 2.0]).dtype is torch.float32 and half.type(cuda.FloatTensor).dtype is torch.float32
assert half.type("torch.cuda.DoubleTensor").dtype is torch.float64 and torch.arange(2).type() == "torch.LongTensor"
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
assert torch.ones(2).dtype is torch.float64
"""


def test_questions_about_gpus_are_answered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, QUESTIONS)
    assert "Failed to record CUDA event" not in capfd.readouterr().err


def test_a_file_that_pytorch_saved_is_loaded_by_a_function(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3, 3)}, tmp_path / "real.pt")
    text = f"loaded = torch.load({str(tmp_path / 'real.pt')!r}, map_location=lambda storage, location: storage)"
    run(tmp_path, text + "\nassert loaded['weight'].cuda().shape == (3, 3)")


SAFETENSORS = """
class safe_open:
    def __init__(self, filename, framework, device="cpu"):
        assert device == "cpu", device
"""
SAFETENSORS_TORCH = """
from safetensors import safe_open

def load_file(filename, device="cpu"):
    return safe_open(filename, framework="pt", device=device)

def save_file(tensors, filename, metadata=None):
    raise AssertionError("it would read the memory of tensors")
"""


def test_safetensors_touches_no_memory_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "safetensors"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SAFETENSORS)
    (package / "torch.py").write_text(SAFETENSORS_TORCH)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    text = """
from safetensors import safe_open
from safetensors.torch import load_file, save_file
safe_open("f", "pt", device="cuda:0"), load_file("f", device=0), load_file("f", torch.device("cuda", 1))
save_file({"a": torch.ones(2, device="cuda")}, "f")
"""
    done = run(tmp_path, text)
    assert "safetensors' save_file left out: 1" in done.assumptions


GRAPHED = """
weight = torch.nn.Parameter(torch.randn(8, 8, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
x = torch.randn(4, 8, device="cuda")
for step in range(1, 5):
    if step == 2:
        with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.Stream()):
            loss = (x @ weight).sum()
            loss.backward()
    if step > 1:
        graph.replay()
    else:
        (x @ weight).sum().backward()
    optimizer.step()
"""


def test_a_cuda_graph_counts_once_where_it_is_captured(tmp_path: Path) -> None:
    script = program(tmp_path, "import torch\n" + GRAPHED)
    (trace,) = capture(script, world_size=1).job.traces
    assert [trace.name(node) for node in range(len(trace))].count("aten::mm") == 2
    assert set(attribute(trace, "stream").values()) == {0}
    DeviceGraph().debug_dump(debug_path="graph.dot")  # its one argument has a name
    with pytest.raises(InputError, match=r"program.py:13: a CUDA graph .*record the step in which they are captured"):
        capture(script, world_size=1, step=3)


MODULE = """
import sys
from pathlib import Path
import torch
from . import sizes

assert __name__ == "__main__" and __package__ == "inner.deep" and Path(sys.argv[0]) == Path(__file__)
assert sys.argv[1:] == ["--rows", "3"] and sys.path[0] == str(Path.cwd())
weight = torch.nn.Parameter(torch.randn(sizes.WIDTH, sizes.WIDTH).cuda())
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    (torch.randn(int(sys.argv[2]), sizes.WIDTH, device="cuda") @ weight).sum().backward()
    optimizer.step()
"""


def packaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of two levels in the current folder."""
    deep = folder / "inner" / "deep"
    deep.mkdir(parents=True)
    (deep.parent / "__init__.py").touch()
    (deep / "__init__.py").touch()
    (deep / "sizes.py").write_text("WIDTH = 8\n")
    (deep / "train.py").write_text(MODULE)
    (deep / "broken.py").write_text("import nowhere_at_all\n")
    monkeypatch.chdir(folder)


def test_a_module_runs_as_python_m_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged(tmp_path, monkeypatch)
    command = ["capture", "-m", "inner.deep.train", "--world-size", "2", "-o", "step", "--json", "-"]
    assert main([*command, "--", "--rows", "3"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["classes"]
    assert entry["flops"]["gemm"] == 2 * (2 * 3 * 8 * 8)


@pytest.mark.parametrize("command", [["capture", "--world-size", "2", "-o", "step"], ["collect", "-o", "traces"]])
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("inner.deep.train2", "inner.deep.train2: there is no such module; expected a module in "),
        ("nowhere.train", "nowhere.train: there is no such module; expected a module in "),
        ("inner.deep.broken", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ],
)
def test_a_module_that_is_not_there_is_told_from_one_that_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    module: str,
    message: str,
) -> None:
    packaged(tmp_path, monkeypatch)
    assert main([command[0], "-m", module, *command[1:]]) == 2
    assert message in capsys.readouterr().err
