"""Matrix-like operators (products, convolutions, attention): the product each amounts to, and its FLOPs.

`CONTRACTIONS` has an entry for every matrix-like operator of ATen that training programs meet at dispatch, those of
PyTorch's own FLOP registry too: of these only the shape is used, their FLOPs are PyTorch's. A multiply-add is two
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from chakrasim.trace.work import WorkKind


@dataclass(frozen=True)
class Product:
    """``batch`` products of m x k by k x n, as `chakrasim.trace.work.SHAPE` says; ``flops`` of the whole operator."""

    kind: WorkKind
    flops: int
    batch: int
    m: int
    n: int
    k: int
    causal: bool = False
    kernels: int = 1


Arguments = Mapping[str, Any]
"""Arguments of a call by the names of the operator's schema."""


@dataclass(frozen=True)
class Contraction:
    """How an operator is counted.

    Attributes
    ----------
    formula: its FLOPs, for people.
    product: arguments and result to the product.
    """

    formula: str
    product: Callable[[Arguments, Any], Product]


def _gemm(batch: int, m: int, n: int, k: int) -> Product:
    return Product(WorkKind.GEMM, 2 * batch * m * n * k, batch, m, n, k)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in value.shape)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple | list) else result


def _two_matrices(left: str, right: str) -> Callable[[Arguments, Any], Product]:
    def product(arguments: Arguments, result: Any) -> Product:
        m, k = _shape(arguments[left])
        return _gemm(1, m, _shape(arguments[right])[1], k)

    return product


def _two_batches(left: str, right: str) -> Callable[[Arguments, Any], Product]:
    def product(arguments: Arguments, result: Any) -> Product:
        batch, m, k = _shape(arguments[left])
        return _gemm(batch, m, _shape(arguments[right])[2], k)

    return product


def _matrix_vector(matrix: str) -> Callable[[Arguments, Any], Product]:
    def product(arguments: Arguments, result: Any) -> Product:
        m, k = _shape(arguments[matrix])
        return _gemm(1, m, 1, k)

    return product


def _dot(arguments: Arguments, result: Any) -> Product:
    return _gemm(1, 1, 1, prod(_shape(arguments["self"])))


def _outer(first: str, second: str) -> Callable[[Arguments, Any], Product]:
    def product(arguments: Arguments, result: Any) -> Product:
        return _gemm(1, prod(_shape(arguments[first])), prod(_shape(arguments[second])), 1)

    return product


def _last_by_weight(left: str, weight: str) -> Callable[[Arguments, Any], Product]:
    """The last dimension of ``left`` with the result's last one; the weight may be packed."""

    def product(arguments: Arguments, result: Any) -> Product:
        *rows, k = _shape(arguments[left])
        return _gemm(1, prod(rows), _shape(_first(result))[-1], k)

    return product


def _matmul(arguments: Arguments, result: Any) -> Product:
    left, right = _shape(arguments["self"]), _shape(arguments["other"])
    k = left[-1]
    n = right[-1] if len(right) > 1 else 1
    if len(right) <= 2:
        return _gemm(1, prod(left[:-1]), n, k)
    m = left[-2] if len(left) > 1 else 1
    return _gemm(prod(_shape(result)) // max(m * n, 1), m, n, k)


def _grouped(arguments: Arguments, result: Any) -> Product:
    """Grouped products: where rows (or the contracted dimension) are divided into groups by offsets, each row belongs
    to one group, so that the work is that of one product, whatever the offsets."""
    left, right = _shape(arguments["self"]), _shape(arguments["mat2"])
    if len(left) == 3 and len(right) == 3:
        return _gemm(left[0], left[1], right[2], left[2])
    offsets = arguments.get("offs")
    groups = _shape(offsets)[0] if offsets is not None else 1
    m, k, n = left[-2], left[-1], right[-1]
    total = 2 * m * k * n
    if len(right) == 3:
        m = -(-m // groups)
    elif len(left) == 3:
        n = -(-n // groups)
    else:
        k = -(-k // groups)
    return Product(WorkKind.GEMM, total, groups, m, n, k)


def _trilinear(arguments: Arguments, result: Any) -> Product:
    """Sum over products of three broadcast tensors: two multiplications and an addition per element of the product."""
    shapes = []
    for name, expand in (("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")):
        shape = list(_shape(arguments[name]))
        for dimension in arguments[expand]:
            shape.insert(dimension, 1)
        shapes.append(shape)
    elements = prod(max(sizes) for sizes in zip(*shapes, strict=True))
    return Product(WorkKind.GEMM, 3 * elements, 1, elements, 1, 1)


def _bilinear(arguments: Arguments, result: Any) -> Product:
    outputs, left, right = _shape(arguments["weight"])
    rows = prod(_shape(arguments["input1"])[:-1])
    return Product(WorkKind.GEMM, 2 * rows * outputs * left * (right + 1), 1, rows, outputs * left, right)


def _pairs(arguments: Arguments, result: Any) -> Product:
    """Distances of all pairs: a difference, a power and a sum per coordinate."""
    *batch, m, k = _shape(arguments["x1"])
    n = _shape(arguments["x2"])[-2]
    return Product(WorkKind.GEMM, 3 * prod(batch) * m * n * k, prod(batch), m, n, k)


def _forward_convolution(
    inputs: tuple[int, ...], weight: tuple[int, ...], output: tuple[int, ...], transposed: bool, groups: int
) -> Product:
    """A convolution as the GEMM that it amounts to: pixels x output channels x (input channels of a group x filter)."""
    pixels = inputs[0] * prod((inputs if transposed else output)[2:])
    outer, inner, *window = weight
    m, k = pixels, inner * prod(window)
    n = outer // max(groups, 1)
    if transposed:
        n, k = inner * prod(window), outer // max(groups, 1)
    flops = 2 * pixels * prod(weight)
    return Product(WorkKind.CONVOLUTION, flops, groups, m, n, k)


def _convolution(inputs: str = "input") -> Callable[[Arguments, Any], Product]:
    def product(arguments: Arguments, result: Any) -> Product:
        return _forward_convolution(
            _shape(arguments[inputs]),
            _shape(arguments["weight"]),
            _shape(_first(result)),
            bool(arguments.get("transposed", False)),
            int(arguments.get("groups", 1)),
        )

    return product


def _transposed_convolution(arguments: Arguments, result: Any) -> Product:
    shapes = _shape(arguments.get("input", arguments.get("self"))), _shape(arguments["weight"]), _shape(result)
    return _forward_convolution(*shapes, True, int(arguments.get("groups", 1)))


def _convolution_backward(*, whole_weight: bool) -> Callable[[Arguments, Any], Product]:
    """A product as large as the forward's for each gradient asked for: of the input, of the weight. ``whole_weight``:
    the weight's as if the convolution had no groups, as PyTorch's registry counts it."""

    def product(arguments: Arguments, result: Any) -> Product:
        inputs = arguments.get("input", arguments.get("self"))
        groups = int(arguments.get("groups", 1))
        forward = _forward_convolution(
            _shape(inputs),
            _shape(arguments["weight"]),
            _shape(arguments["grad_output"]),
            bool(arguments.get("transposed", False)),
            groups,
        )
        of_input, of_weight = (bool(wanted) for wanted in arguments["output_mask"][:2])
        flops = (of_input + of_weight * (groups if whole_weight else 1)) * forward.flops
        shape = forward.batch, forward.m, forward.n, forward.k
        return Product(WorkKind.CONVOLUTION, flops, *shape, kernels=max(of_input + of_weight, 1))

    return product


def _attention(products: int, kernels: int, heads: int = 1) -> Callable[[Arguments, Any], Product]:
    """``products`` of queries, keys and heads' size: 2 forward, 5 backward (scores again, then four gradients).

    ``heads`` is the dimension of the heads: 1 in (batch, heads, length, size), 2 in (batch, length, heads, size); with
    three dimensions the rows of all sequences follow one another (cum_seq), and the longest ones count, as in PyTorch.
    """

    def product(arguments: Arguments, result: Any) -> Product:
        query = _shape(arguments["query"])
        key, value = _shape(arguments["key"]), _shape(arguments["value"])
        if len(query) == 3:
            offsets = arguments.get("cum_seq_q", arguments.get("cu_seqlens_q"))
            sequences = _shape(offsets)[0] - 1 if offsets is not None else 1
            m = int(arguments.get("max_q", arguments.get("max_seqlen_q")) or query[0])
            n = int(arguments.get("max_k", arguments.get("max_seqlen_k")) or key[0])
            batch = sequences * query[1]
        else:
            length = 3 - heads
            batch, m, n = query[0] * query[heads], query[length], key[length]
        size, value_size = query[-1], value[-1]
        # Of five products of the backward, three have the size of a query's head, two that of a value's.
        queries = (products + 1) // 2
        flops = 2 * batch * m * n * (queries * size + (products - queries) * value_size)
        causal = bool(arguments.get("is_causal", False)) or arguments.get("custom_mask_type") in (1, 2)
        return Product(WorkKind.ATTENTION, flops, batch, m, n, size, causal, kernels)

    return product


def _recurrent(passes: int) -> Callable[[Arguments, Any], Product]:
    """Recurrent layers: every weight of the layer is used once for every element of every sequence."""

    def product(arguments: Arguments, result: Any) -> Product:
        inputs = _shape(arguments["input"])
        weights = arguments.get("weight")
        if weights is None:
            weights = [arguments[name] for name in sorted(arguments) if name.startswith("weight")]
        matrices = [_shape(weight) for weight in weights if len(weight.shape) == 2]
        rows = prod(inputs[:-1])
        flops = 2 * passes * rows * sum(prod(shape) for shape in matrices)
        n, k = max(matrices, key=prod, default=(0, 0))
        return Product(WorkKind.GEMM, flops, 1, rows, n, k, kernels=passes * max(len(matrices), 1))

    return product


def _counted(formula: str, product: Callable[[Arguments, Any], Product], names: str) -> dict[str, Contraction]:
    return dict.fromkeys(names.split(), Contraction(formula, product))


_MM = "2 m n k"
_CONV = "2 x pixels of the output (of the input if transposed) x elements of the weight"
_SDPA = "2 x batch x heads x queries x keys x (head size + value size), causal or not"
_SDPA_BACKWARD = "2 x batch x heads x queries x keys x (3 head size + 2 value size): scores again, four gradients"
_BACKWARD_CONV = "the forward's for each gradient asked for (input, weight)"

CONTRACTIONS: Final[Mapping[str, Contraction]] = {
    **_counted(_MM, _two_matrices("self", "mat2"), "mm"),
    **_counted(_MM, _two_matrices("mat1", "mat2"), "addmm _addmm_activation"),
    **_counted(_MM + " as if dense", _two_matrices("mat1", "mat2"), "_sparse_addmm"),
    **_counted(_MM, _two_matrices("self", "mat2"), "_int_mm"),
    **_counted(_MM + " as if dense", _two_matrices("sparse", "dense"), "_sparse_mm"),
    **_counted(_MM, _two_matrices("self", "mat2"), "_scaled_mm _scaled_mm_v2"),
    **_counted("2 b m n k", _two_batches("self", "mat2"), "bmm"),
    **_counted("2 b m n k", _two_batches("batch1", "batch2"), "baddbmm addbmm"),
    **_counted("2 m k", _matrix_vector("self"), "mv"),
    **_counted("2 m k", _matrix_vector("mat"), "addmv"),
    **_counted("2 k", _dot, "dot vdot"),
    **_counted("2 m n", _outer("vec1", "vec2"), "addr"),
    **_counted("2 m n", _outer("self", "vec2"), "outer ger"),
    **_counted(_MM, _last_by_weight("input", "weight"), "linear"),
    **_counted(_MM, _last_by_weight("self", "weight"), "mkldnn_linear"),
    **_counted("2 b m n k", _matmul, "matmul"),
    **_counted("2 m n k over all groups together", _grouped, "_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2"),
    **_counted(
        _MM,
        _last_by_weight("self", "mat2"),
        "_weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int8pack_mm",
    ),
    **_counted(_MM, _last_by_weight("input", "weight"), "_mixed_dtypes_linear"),
    **_counted(_MM + " as if dense", _last_by_weight("dense_B", "compressed_A"), "_cslt_sparse_mm"),
    **_counted(_MM + " as if dense", _last_by_weight("input", "weight"), "_sparse_semi_structured_linear"),
    **_counted(_MM + " as if dense", _last_by_weight("mat2", "mat1"), "_sparse_semi_structured_mm"),
    **_counted("3 per element of the broadcast product", _trilinear, "_trilinear"),
    **_counted("2 rows x outputs x left x (right + 1)", _bilinear, "bilinear"),
    **_counted("3 b m n k", _pairs, "_cdist_forward"),
    **_counted(_CONV, _convolution(), "convolution _convolution _convolution_mode convolution_overrideable"),
    **_counted(
        _CONV,
        _convolution("self"),
        "cudnn_convolution cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution"
        " miopen_depthwise_convolution mkldnn_convolution _slow_conv2d_forward slow_conv3d_forward _conv_depthwise2d"
        " conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d",
    ),
    **_counted(_CONV, _convolution(), "conv1d conv2d conv3d"),
    **_counted(
        _CONV,
        _transposed_convolution,
        "conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d"
        " cudnn_convolution_transpose miopen_convolution_transpose",
    ),
    **_counted(_BACKWARD_CONV, _convolution_backward(whole_weight=True), "convolution_backward"),
    **_counted(
        _BACKWARD_CONV,
        _convolution_backward(whole_weight=False),
        "convolution_backward_overrideable _slow_conv2d_backward",
    ),
    **_counted(
        _SDPA,
        _attention(2, 1),
        "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention"
        " _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu"
        " _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math_for_mps flex_attention",
    ),
    **_counted(
        _SDPA_BACKWARD,
        _attention(5, 3),
        "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward"
        " _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward"
        " _scaled_dot_product_fused_attention_overrideable_backward flex_attention_backward",
    ),
    **_counted(_SDPA, _attention(2, 1, heads=2), "_flash_attention_forward _efficient_attention_forward"),
    **_counted(_SDPA, _attention(2, 1), "_cudnn_attention_forward"),
    **_counted(_SDPA_BACKWARD, _attention(5, 3, heads=2), "_flash_attention_backward _efficient_attention_backward"),
    **_counted(_SDPA_BACKWARD, _attention(5, 3), "_cudnn_attention_backward"),
    **_counted("2 x rows x elements of the weights", _recurrent(1), "mkldnn_rnn_layer _cudnn_rnn miopen_rnn"),
    **_counted(
        "4 x rows x elements of the weights",
        _recurrent(2),
        "mkldnn_rnn_layer_backward _cudnn_rnn_backward miopen_rnn_backward",
    ),
}
