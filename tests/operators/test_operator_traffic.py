"""Bytes that operators read and write: what views touch, in place or not; kinds; calls that are free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from chakrasim.operators.describe import OperatorWork, describe  # noqa: E402
from chakrasim.trace.work import WorkKind  # noqa: E402


class Describing(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.works: list[OperatorWork] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.works.append(describe(func, args, kwargs or {}, result))
        return result


def only(program: Callable[[], Any]) -> OperatorWork:
    """What the one operator of a program does that is not free."""
    mode = Describing()
    with mode:
        program()
    (work,) = (work for work in mode.works if not work.is_free)
    return work


X = torch.ones(6, 8)
TABLE = torch.ones(1000, 16)
ROWS = torch.tensor([3, 1, 3])
NEW = torch.ones(3, 16)

CASES: list[tuple[str, Callable[[], Any], int, int, WorkKind]] = [
    ("one operand", lambda: torch.add(X, 1.0), 192, 192, WorkKind.ELEMENTWISE),
    ("the same twice", lambda: X * X, 192, 192, WorkKind.ELEMENTWISE),
    ("broadcast", lambda: X * X[0], 192, 192, WorkKind.ELEMENTWISE),
    ("strided view", lambda: X[:, ::2].clone(), 96, 96, WorkKind.COPY),
    ("unfolded view", lambda: X.flatten().unfold(0, 3, 1).clone(), 192, 46 * 3 * 4, WorkKind.COPY),
    ("two views of one", lambda: torch.cat([X[:2], X[2:4]]), 128, 128, WorkKind.COPY),
    ("in place", lambda: torch.relu_(X), 192, 192, WorkKind.ELEMENTWISE),
    ("overwritten", lambda: X.copy_(NEW[0, :8]), 32, 192, WorkKind.COPY),
    ("filled", lambda: X.fill_(1.0), 0, 192, WorkKind.COPY),
    ("shape only", lambda: torch.zeros_like(X), 0, 192, WorkKind.COPY),
    ("given output", lambda: torch.add(X[:3], 1.0, out=X[3:]), 96, 96, WorkKind.ELEMENTWISE),
    ("converted", lambda: X.to(torch.bfloat16), 192, 96, WorkKind.COPY),
    ("reduced", lambda: X.sum(0), 192, 32, WorkKind.REDUCTION),
    ("embedding", lambda: torch.nn.functional.embedding(ROWS, TABLE), 3 * 64 + 24, 3 * 64, WorkKind.EMBEDDING),
    ("rows by index", lambda: TABLE[ROWS], 3 * 64 + 24, 3 * 64, WorkKind.EMBEDDING),
    ("rows added", lambda: TABLE.index_add_(0, ROWS, NEW), 2 * 192 + 24, 192, WorkKind.EMBEDDING),
    ("product", lambda: torch.mm(X, X.t()), 192, 144, WorkKind.GEMM),
    ("softmax", lambda: X.softmax(-1), 192, 192, WorkKind.SOFTMAX),
    ("list of tensors", lambda: torch._foreach_mul_([X, TABLE], 2.0), 64192, 64192, WorkKind.OPTIMIZER),
]


@pytest.mark.parametrize(("name", "program", "read", "written", "kind"), CASES, ids=[name for name, *_ in CASES])
def test_bytes_and_kind(name: str, program: Callable[[], Any], read: int, written: int, kind: WorkKind) -> None:
    work = only(program)
    assert (work.bytes_read, work.bytes_written, work.kind) == (read, written, kind)


@pytest.mark.parametrize(
    "program",
    [
        lambda: X.view(48),
        lambda: X.t()[2:].unsqueeze(0).expand(3, 6, 6),
        lambda: torch.empty(5),
        lambda: X.new_empty(3),
        lambda: X.detach(),
        lambda: torch.ops.aten._unsafe_view(X, [48]),
        lambda: X.split(2),
    ],
)
def test_views_and_allocations_are_free(program: Callable[[], Any]) -> None:
    mode = Describing()
    with mode:
        program()
    assert mode.works
    assert all(work.is_free and work.flops == work.bytes_read == work.bytes_written == 0 for work in mode.works)


def test_fake_meta_and_real_tensors_give_the_same() -> None:
    def program(device: str) -> list[OperatorWork]:
        mode = Describing()
        with mode:
            x = torch.ones(2, 4, 8, 16, device=device, requires_grad=True)
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
            torch.nn.functional.layer_norm(y, (16,)).square().sum().backward()
        return [work for work in mode.works if not work.is_free]

    with FakeTensorMode():
        fake = program("cpu")
    assert fake == program("cpu")
    # The math implementation stands in for attention on meta: same products, other operators.
    assert {work.dtype for work in program("meta") if work.kind is WorkKind.GEMM} == {"float32"}


def test_launches_of_many_tensors() -> None:
    # 200 small tensors in two lists: 64 to a launch. One large one: 320 blocks of 65,536 elements to a launch.
    many = [torch.ones(8) for _ in range(200)]
    assert only(lambda: torch._foreach_add_(many, many)).kernels == 4
    assert only(lambda: torch._foreach_mul_([torch.empty(2**26, device="meta")], 2.0)).kernels == 4


def test_cached_calls_are_told_apart() -> None:
    first, second = only(lambda: torch.add(X, 1)), only(lambda: torch.add(X[:3], 1))
    assert (first.bytes_read, second.bytes_read) == (192, 96)
    assert only(lambda: torch.add(X, 1)) is first
    assert only(lambda: torch.mul(X, X)).bytes_read == 192
    other = X.clone()
    assert only(lambda: torch.mul(X, other)).bytes_read == 384
