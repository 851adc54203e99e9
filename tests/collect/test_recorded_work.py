"""Recorded operators have the operations and bytes that captured ones have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chakrasim.linker.api import link
from chakrasim.operators import kinds
from chakrasim.operators.recorded_calls import RecordedSide, describe_recorded, recorded_operator
from chakrasim.operators.tables import COMPOSITE, POINTWISE

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"


def side(*tensors: tuple[list[int], list[int] | None, int]) -> RecordedSide:
    """Tensors of float32: shape, strides (None: not recorded), and the number of their storage."""
    values, shapes, strides = [], [], []
    for number, (shape, steps, storage) in enumerate(tensors):
        elements = 1
        for size in shape:
            elements *= size
        values.append([number, storage, 0, elements, 4, "cuda:0"])
        shapes.append(shape)
        strides.append(steps)
    return RecordedSide(values, shapes, ["Tensor(float)"] * len(tensors), [s for s in strides if s is not None])


def described(schema: str, inputs: RecordedSide, outputs: RecordedSide) -> Any:
    operator = recorded_operator(schema)
    assert operator is not None
    return describe_recorded(operator, inputs, outputs)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_product(recorded: bool) -> None:
    left, right, result = ([3, 5], [5, 1], 1), ([5, 7], [1, 5], 2), ([3, 7], [7, 1], 3)
    first, second, third = ((shape, steps if recorded else None, at) for shape, steps, at in (left, right, result))
    work = described(MM, side(first, second), side(third))
    assert (work.name, work.kind.name, work.flops, work.dtype) == ("aten::mm", "GEMM", 2 * 3 * 5 * 7, "float32")
    assert (work.bytes_read, work.bytes_written) == (4 * (15 + 35), 4 * 21)
    assert (work.batch, work.m, work.n, work.k, work.is_free) == (1, 3, 7, 5, False)


def test_what_is_broadcast_counts_once_where_strides_were_recorded() -> None:
    result = ([4, 8], [8, 1], 3)
    work = described(ADD, side(([4, 8], [8, 1], 1), ([4, 8], [0, 1], 2)), side(result))
    assert (work.flops, work.bytes_read, work.bytes_written, work.kind.name) == (32, 4 * (32 + 8), 128, "ELEMENTWISE")
    work = described(ADD, side(([4, 8], None, 1), ([4, 8], None, 2)), side(([4, 8], None, 3)))
    assert work.bytes_read == 4 * 64


def test_a_wrapped_number_is_no_tensor() -> None:
    number = [9, 9, 0, 1, 8, "cpu"]
    tensor = side(([4, 8], [8, 1], 1))
    inputs = RecordedSide(
        [*tensor.values, number, 1], [[4, 8], [], []], ["Tensor(float)", "Tensor(double)", "Int"], [[8, 1], [], []]
    )
    assert described(ADD, inputs, side(([4, 8], [8, 1], 3))).bytes_read == 128


def test_equal_views_count_once_and_views_of_a_storage_at_most_all_of_it() -> None:
    same = ([4, 8], [8, 1], 1)
    assert described(ADD, side(same, same), side(([4, 8], [8, 1], 3))).bytes_read == 128


def test_schemas() -> None:
    view = recorded_operator("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)")
    assert view is not None and view.is_view and not view.is_composite and view.takes_tensors
    add = recorded_operator("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    assert add is not None and not add.is_view
    linear = recorded_operator("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
    assert linear is not None and linear.is_composite
    out = recorded_operator("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
    assert out is not None and [argument.is_out for argument in out._schema.arguments] == [False, False, True]
    pool = recorded_operator("aten::f(Tensor self, int[2] stride=[1, 1], float p=0.5, str? mode=None) -> Tensor")
    assert pool is not None
    assert [one.default_value for one in pool._schema.arguments[1:]] == [[1, 1], 0.5, None]
    assert recorded_operator("autograd::engine::evaluate_function: AddmmBackward0") is None
    assert recorded_operator("") is None


@pytest.mark.parametrize(
    "inputs",
    [
        RecordedSide([[1, 1, 0, 99, 4, "cpu"]] * 2, [[3, 5], [5, 7]], ["Tensor(float)"] * 2, []),
        RecordedSide([[1, 1]] * 2, [[3, 5], [5, 7]], ["Tensor(float)"] * 2, []),
        RecordedSide([[1, 1, 0, 15, 4, "cpu"]], [[3, 5]], ["Tensor(float)"], []),
        RecordedSide([[1, 1, 0, 15, 4, "cpu"]] * 2, [[3, 5]] * 2, ["Tensor(mystery)"] * 2, []),
        RecordedSide([[1, 1, 0, 15, 4, "cpu"]] * 2, [[3, 5]] * 2, [3, None], []),
    ],
)
def test_what_is_no_description_of_a_call(inputs: RecordedSide) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, IndexError, AttributeError)):
        described(MM, inputs, side(([3, 7], None, 3)))


def test_the_tables_are_those_of_the_installed_pytorch() -> None:
    torch: Any = pytest.importorskip("torch")
    composite, pointwise, own = set(), set(), set()
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        if namespace != "aten" or name.startswith("_test_"):
            continue
        plain, _, overload = name.partition(".")
        found = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
        (composite if found else own).add((plain, overload or "default"))
        operator = getattr(getattr(torch.ops.aten, plain, None), overload or "default", None)
        if "pointwise" in {tag.name for tag in getattr(operator, "tags", ())}:
            pointwise.add(plain)

    def is_listed(operator: tuple[str, str]) -> bool:
        return not COMPOSITE.isdisjoint({operator[0], ".".join(operator)})

    assert {operator for operator in composite | own if is_listed(operator)} == composite
    known = POINTWISE | kinds.POINTWISE | set(kinds.RATES)
    assert {name for name in pointwise if not name.startswith(("_foreach_", "_fused_"))} <= known
    assert pointwise >= POINTWISE


class Net:
    """A small model of many kinds of operators. Gradients meet once in a tensor: autograd adds them in place only where
    nobody looks on."""

    def __init__(self, torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(0)
        self.torch = torch
        self.embed, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.packed, self.out = nn.Linear(32, 96), nn.Linear(32, 50)
        self.conv, self.batch_norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.grouped = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.up = nn.ConvTranspose2d(4, 2, 2, groups=2)
        self.model = nn.ModuleList([value for value in vars(self).values() if isinstance(value, nn.Module)])

    def loss(self, tokens: Any) -> Any:
        torch, functional = self.torch, self.torch.nn.functional
        hidden = self.norm(self.embed(tokens))
        query, key, value = self.packed(hidden).chunk(3, -1)
        scores = torch.softmax(query @ key.transpose(1, 2) / 5, -1)
        mixed = functional.dropout(scores, 0.1) @ value
        image = torch.relu(self.batch_norm(self.conv(mixed.unsqueeze(1))))
        image = functional.max_pool2d(self.grouped(image), 1)
        rows = torch.cat([self.up(image)[:, :, :-1, :-1].sum(1)], 0) * torch.ones(1, 1, 32).expand(4, 1, 32)
        bent = torch.where(rows > 0, rows, 0.1).to(torch.bfloat16).float().clamp(max=3)
        return functional.cross_entropy(self.out(bent).flatten(0, 1), tokens.flatten()).pow(2).mean()


OPTIMIZERS: dict[str, Any] = {
    "fused": lambda torch, parameters: torch.optim.AdamW(parameters, 1e-3, fused=True),
    "foreach": lambda torch, parameters: torch.optim.SGD(parameters, 1e-3, momentum=0.9, foreach=True),
}


@pytest.mark.parametrize("optimizer", ["fused", pytest.param("foreach", marks=pytest.mark.slow)])
def test_operators_of_a_step_captured_and_observed(tmp_path: Path, optimizer: str) -> None:
    torch: Any = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    from chakrasim.operators.describe import describe

    captured: Counter[Any] = Counter()

    class Looking(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            work = describe(func, args, kwargs or {}, result)
            if not work.is_free:
                shape = work.batch, work.m, work.n, work.k, int(work.causal)
                amounts = work.flops, work.bytes_read, work.bytes_written
                captured[work.name, int(work.kind), *amounts, *shape, work.dtype, work.kernels] += 1
            return result

    def stepper() -> Any:
        net = Net(torch)
        tokens, chosen = torch.randint(0, 50, (4, 8)), OPTIMIZERS[optimizer](torch, net.model.parameters())

        def step() -> None:
            chosen.zero_grad()
            net.loss(tokens).backward()
            torch.nn.utils.clip_grad_norm_(net.model.parameters(), 1.0)
            chosen.step()

        step()
        return step

    with Looking():
        step = stepper()
        captured.clear()
        step()
    step = stepper()
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "host.json"))
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()
    linked = link(tmp_path / "host.json")
    works, texts = linked.works, linked.strings
    amounts = [getattr(works, name).tolist() for name in ("kind", "flops", "bytes_read", "bytes_written")]
    shape = [getattr(works, name).tolist() for name in ("batch", "m", "n", "k", "causal")]
    names, types = ([texts[index] for index in column.tolist()] for column in (works.name, works.dtype))
    observed = Counter(zip(names, *amounts, *shape, types, works.kernels.tolist(), strict=True))
    assert (captured - observed, observed - captured) == (Counter(), Counter())
    assert len(observed) > 40 and not works.problem.any()


def test_a_captured_program_and_the_same_observed(tmp_path: Path) -> None:
    """The work of a training step, by kind: what operators call is not counted beside them."""
    torch: Any = pytest.importorskip("torch")
    from chakrasim.collect.capturing.api import capture
    from chakrasim.converter.linked.api import convert
    from chakrasim.trace.kinds import NodeType

    lines = """\
import torch

torch.manual_seed(0)
layers = torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)
model = torch.nn.Sequential(*layers)
device = "cuda" if torch.cuda.is_available() else "cpu"
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
inputs, targets = torch.ones(32, 64, device=device), torch.zeros(32, dtype=torch.long, device=device)


def step():
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    program = tmp_path / "program.py"
    program.write_text(lines + "\nfor _ in range(3):\n    step()\n")
    (trace,) = capture(program, world_size=1).job.traces
    names: dict[str, Any] = {}
    exec(lines, names)
    names["step"]()
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "host.json"))
    observer.start()
    names["step"]()
    observer.stop()
    observer.unregister_callback()
    recorded = convert(link(tmp_path / "host.json"))

    def totals(trace: Any) -> dict[str, tuple[int, int]]:
        kinds, operations, size = (trace.attr(name) for name in ("op_kind", "num_ops", "tensor_size"))
        found: dict[str, tuple[int, int]] = {}
        for node in range(len(trace)):
            if trace.types[node] == NodeType.COMP_NODE and operations.present[node]:
                before = found.get(kinds.string(node), (0, 0))
                found[kinds.string(node)] = (before[0] + operations.value(node), before[1] + size.value(node))
        return found

    assert totals(recorded) == totals(trace)
    assert totals(trace)["gemm"][0] == 2 * 32 * (2 * 64 * 128 + 3 * 128 * 10)
