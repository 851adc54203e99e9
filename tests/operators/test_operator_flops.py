"""FLOPs of operators: PyTorch's counter for its registry, our formulas by hand count, and nothing 0 in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula  # noqa: E402

from chakrasim.operators.contractions import CONTRACTIONS  # noqa: E402
from chakrasim.operators.describe import OperatorWork, describe  # noqa: E402
from chakrasim.operators.flops import FlopSource, unknown_warning  # noqa: E402
from chakrasim.trace.work import WorkKind  # noqa: E402

aten = torch.ops.aten


class Describing(TorchDispatchMode):
    """Describes every operator below it."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[OperatorWork] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        work = describe(func, args, kwargs or {}, result)
        self.works.append(work)
        return result

    def flops(self, *sources: FlopSource) -> int:
        """Of the given sources; of all without any."""
        return sum(work.flops for work in self.works if not sources or work.flops_from in sources)

    def unknown(self) -> list[str]:
        """The calls that count 0 because nobody has a formula."""
        return [work.name for work in self.works if work.flops_from is FlopSource.UNKNOWN]


def described(program: Callable[[], Any]) -> Describing:
    mode = Describing()
    with mode:
        program()
    return mode


def counted(program: Callable[[], Any]) -> int:
    counter = FlopCounterMode(display=False)
    with counter:
        program()
    return int(counter.get_total_flops())


def meta(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.empty(*shape, device="meta", dtype=dtype)


def _convolution(groups: int, transposed: bool) -> tuple[Any, ...]:
    weight = meta(8, 6 // groups, 3, 3) if not transposed else meta(6, 8 // groups, 3, 3)
    return meta(2, 6, 10, 10), weight, None, [1, 1], [0, 0], [1, 1], transposed, [0, 0], groups


def _backward(mask: list[bool], transposed: bool = False) -> tuple[Any, ...]:
    inputs, weight, _, *rest = _convolution(1, transposed)
    gradient = meta(2, 8, 12, 12) if transposed else meta(2, 8, 8, 8)
    return gradient, inputs, weight, [8], *rest, mask


def _heads(length: int, heads: int = 4, size: int = 16) -> Any:
    return meta(2, heads, length, size, dtype=torch.bfloat16)


def _rows(length: int, heads: int = 4, size: int = 16) -> Any:
    return meta(2, length, heads, size, dtype=torch.bfloat16)


def _seed() -> Any:
    return torch.empty((), dtype=torch.int64, device="meta")


def _samples() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """(name, operator, arguments) on the meta device: at least one call of every operator of the registry that runs
    without a GPU."""
    yield "mm", aten.mm.default, (meta(3, 5), meta(5, 7))
    yield "addmm", aten.addmm.default, (meta(7), meta(3, 5), meta(5, 7))
    yield "bmm", aten.bmm.default, (meta(2, 3, 5), meta(2, 5, 7))
    yield "baddbmm", aten.baddbmm.default, (meta(2, 3, 7), meta(2, 3, 5), meta(2, 5, 7))
    for groups in (1, 2):
        for transposed in (False, True):
            yield f"convolution {groups}", aten.convolution.default, _convolution(groups, transposed)
    yield "_convolution", aten._convolution.default, (*_convolution(1, False), False, False, True, True)
    for mask in ([True, True, False], [True, False, False], [False, True, True], [False, False, True]):
        yield f"convolution_backward {mask}", aten.convolution_backward.default, _backward(mask)
    yield "transposed backward", aten.convolution_backward.default, _backward([True, True, False], True)
    q, k, v = _heads(32), _heads(48), _heads(48)
    yield "efficient", aten._scaled_dot_product_efficient_attention.default, (q, k, v, None, True, 0.0, True)
    yield "flash", aten._scaled_dot_product_flash_attention.default, (q, k, v, 0.0, True, False)
    yield "cudnn", aten._scaled_dot_product_cudnn_attention.default, (q, k, v, None, True, 0.0, True, False)
    sums = meta(2, 4, 32)
    yield (
        "flash backward",
        aten._scaled_dot_product_flash_attention_backward.default,
        (q, q, k, v, q, sums, None, None, 32, 48, 0.0, True, _seed(), _seed()),
    )
    yield (
        "efficient backward",
        aten._scaled_dot_product_efficient_attention_backward.default,
        (q, q, k, v, None, q, sums, _seed(), _seed(), 0.0, [True, True, True, False], True),
    )
    yield (
        "cudnn backward",
        aten._scaled_dot_product_cudnn_attention_backward.default,
        (q, q, k, v, q, sums, _seed(), _seed(), None, None, None, 32, 48, 0.0, True),
    )
    # PyTorch's formulas for these take (batch, rows, heads, size) for (batch, heads, rows, size): rows are all 32 here.
    rows = _rows(32), _rows(32), _rows(32)
    yield "flash rows forward", aten._flash_attention_forward.default, (*rows, None, None, 32, 48, 0.0, True, False)
    yield (
        "flash rows backward",
        aten._flash_attention_backward.default,
        (rows[0], *rows, rows[0], sums, None, None, 32, 48, 0.0, True, _seed(), _seed()),
    )
    yield (
        "efficient rows forward",
        aten._efficient_attention_forward.default,
        (*rows, None, None, None, 32, 48, 0.0, 1, True),
    )


SAMPLES = list(_samples())


@pytest.mark.parametrize(("name", "func", "args"), SAMPLES, ids=[name for name, *_ in SAMPLES])
def test_registered_operator_counts_as_pytorch(name: str, func: Any, args: tuple[Any, ...]) -> None:
    expected = counted(lambda: func(*args))
    work = next(work for work in described(lambda: func(*args)).works if not work.is_free)
    assert (work.flops, work.flops_from) == (expected, FlopSource.PYTORCH)
    # The shape stands for the same work: our own formula of it gives PyTorch's figure.
    schema = [argument.name for argument in func._schema.arguments]
    product = CONTRACTIONS[func._schema.name.split("::")[1]].product(dict(zip(schema, args, strict=False)), func(*args))
    if "rows" not in name:
        assert product.flops == expected
    if work.kind is WorkKind.GEMM:
        assert 2 * work.batch * work.m * work.n * work.k == expected


def test_every_registered_operator_has_a_shape() -> None:
    names = {getattr(packet, "__name__", str(packet)) for packet in flop_registry}
    assert names <= set(CONTRACTIONS)


def test_shapes_of_products() -> None:
    works = described(lambda: torch.bmm(torch.ones(2, 3, 5), torch.ones(2, 5, 7))).works
    assert [(w.kind, w.batch, w.m, w.n, w.k) for w in works if w.kind is WorkKind.GEMM] == [(WorkKind.GEMM, 2, 3, 7, 5)]
    q = torch.ones(2, 4, 32, 16, requires_grad=True)
    keys = torch.ones(2, 4, 48, 16)
    attend = torch.nn.functional.scaled_dot_product_attention
    forward, backward = (
        work for work in described(lambda: attend(q, keys, keys, is_causal=True).sum().backward()).works
        if work.kind is WorkKind.ATTENTION
    )  # fmt: skip
    assert (forward.batch, forward.m, forward.n, forward.k, forward.causal) == (8, 32, 48, 16, True)
    assert forward.flops == 2 * 2 * 8 * 32 * 48 * 16  # PyTorch 2.13 counts 0 on a CPU
    assert (backward.flops, backward.kernels) == (5 * 2 * 8 * 32 * 48 * 16, 3)


def _grouped() -> Any:
    offsets = torch.tensor([4, 8], dtype=torch.int32)
    left = torch.ones(8, 16, dtype=torch.bfloat16)
    return aten._grouped_mm(left, torch.ones(2, 32, 16, dtype=torch.bfloat16).transpose(1, 2), offsets)


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda: torch.mv(torch.ones(3, 5), torch.ones(5)), 2 * 3 * 5),
        (lambda: torch.dot(torch.ones(5), torch.ones(5)), 2 * 5),
        (lambda: torch.addmv(torch.ones(3), torch.ones(3, 5), torch.ones(5)), 2 * 3 * 5),
        (lambda: torch.addr(torch.ones(3, 4), torch.ones(3), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.addbmm(torch.ones(3, 4), torch.ones(2, 3, 5), torch.ones(2, 5, 4)), 2 * 2 * 3 * 5 * 4),
        (lambda: torch._int_mm(torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)), 8192),
        (lambda: torch.cdist(torch.ones(3, 4), torch.ones(5, 4), p=1.0), 3 * 3 * 5 * 4),
        (lambda: aten._addmm_activation(torch.ones(7), torch.ones(3, 5), torch.ones(5, 7)), 2 * 3 * 5 * 7),
        (_grouped, 2 * 8 * 16 * 32),
        (lambda: torch.nn.LSTM(4, 8)(torch.ones(3, 2, 4)), 2 * 3 * 2 * (4 * 8) * (4 + 8)),
    ],
)
def test_contractions_that_the_registry_lacks(program: Callable[[], Any], flops: int) -> None:
    found = described(program)
    assert found.flops(FlopSource.CONTRACTION, FlopSource.PYTORCH) == flops
    assert not found.unknown()


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda: torch.ones(3, 4) + torch.ones(4), 12),
        (lambda: torch.softmax(torch.ones(3, 4), -1), 5 * 12),
        (lambda: torch.nn.functional.layer_norm(torch.ones(3, 4), (4,)), 7 * 12),
        (lambda: torch.ones(3, 4).sum(), 12),
        (lambda: torch.ones(3, 4).clone(), 0),
        (lambda: torch.nn.functional.embedding(torch.tensor([1, 2]), torch.ones(9, 4)), 0),
        (lambda: torch._foreach_add_([torch.ones(5), torch.ones(7)], 1.0), 12),
        (lambda: torch.ones(2, 6).view(3, 4).t(), 0),
    ],
)
def test_flops_per_element(program: Callable[[], Any], flops: int) -> None:
    assert described(program).flops() == flops


def test_fused_optimizer() -> None:
    parameters = [torch.ones(10, requires_grad=True), torch.ones(3, 4, requires_grad=True)]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    (work,) = (work for work in described(optimizer.step).works if work.kind is WorkKind.OPTIMIZER and work.flops > 2)
    assert (work.name, work.flops, work.kernels) == ("aten::_fused_adamw_", 14 * 22, 1)
    # Parameters and two moments are read and written, gradients and step numbers read.
    assert (work.bytes_read, work.bytes_written) == (4 * 4 * 22 + 8, 3 * 4 * 22)


def _models() -> Iterator[tuple[str, Callable[[], Any]]]:
    def transformer() -> Any:
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        return lambda: layer(torch.ones(2, 8, 32)).sum().backward()

    def convolutions() -> Any:
        stack = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ConvTranspose2d(8, 4, 3, groups=2),
            torch.nn.Conv2d(4, 4, 3, groups=4, stride=2),
        )
        return lambda: stack(torch.ones(2, 3, 16, 16)).square().mean().backward()

    def recurrent() -> Any:
        network = torch.nn.GRU(8, 16, 2)
        return lambda: network(torch.ones(5, 2, 8))[0].sum().backward()

    def mixed() -> Any:
        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))

        def step() -> None:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                layers(torch.ones(3, 8)).float().sum().backward()

        return step

    yield "transformer", transformer()
    yield "convolutions", convolutions()
    yield "recurrent", recurrent()
    yield "mixed precision", mixed()


MODELS = list(_models())


@pytest.mark.parametrize(("name", "step"), MODELS, ids=[name for name, _ in MODELS])
def test_whole_model_counts_as_pytorch(name: str, step: Callable[[], Any]) -> None:
    found = described(step)
    assert found.flops(FlopSource.PYTORCH) == counted(step) > 0
    assert not found.unknown()


def test_inference_mode_meets_composite_operators() -> None:
    layer = torch.nn.Linear(8, 16)
    with torch.inference_mode():
        found = described(lambda: layer(torch.ones(3, 8)) @ torch.ones(16, 2))
    assert found.flops(FlopSource.PYTORCH, FlopSource.CONTRACTION) == 2 * 3 * 8 * 16 + 2 * 3 * 16 * 2


def test_unknown_matrix_operator_is_named() -> None:
    with torch.library._scoped_library("chakratest", "FRAGMENT") as library:
        library.define("mystery(Tensor a, Tensor b) -> Tensor")
        library.impl("mystery", lambda a, b: a @ b, "CompositeExplicitAutograd")
        mystery = torch.ops.chakratest.mystery
        found = described(lambda: mystery(torch.ones(3, 4), torch.ones(4, 5)))
        assert found.unknown() == ["chakratest::mystery"]
        said = unknown_warning("chakratest::mystery", 1)
        assert said.startswith("chakratest::mystery: 1 calls look like matrix products")
        # PyTorch's own way to register a formula is the way round.
        register_flop_formula(mystery)(lambda a, b, *_, out_shape=None, **__: 2 * a[0] * a[1] * b[1])
        try:
            found = described(lambda: mystery(torch.ones(3, 6), torch.ones(6, 5)))
        finally:
            del flop_registry[mystery]
    assert found.flops(FlopSource.PYTORCH) == 2 * 3 * 6 * 5
    assert not found.unknown()


def test_matrix_like_names_of_aten_are_counted_or_reported() -> None:
    """No operator of ATen with a matrix-like name can count 0 in silence."""
    from chakrasim.operators.flops import is_matrix_like
    from chakrasim.operators.kinds import FREE, RATES

    names = {schema.name[6:] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}
    suspects = [name for name in names if any(word in name for word in ("mm", "matmul", "conv", "attention", "linear"))]
    known = {name for name in suspects if name.removesuffix("_") in CONTRACTIONS or name in CONTRACTIONS}
    silent = {name for name in suspects if name not in known and not is_matrix_like(name, False, 2)}
    # Neither interpolation nor conversion nor the gamma function is a product.
    assert silent <= FREE | set(RATES) | {
        name for name in silent if "upsample" in name or "gamma" in name or "quantize" in name
    }
    assert {"mm", "addmm_", "convolution", "linear", "_grouped_mm"} <= known
