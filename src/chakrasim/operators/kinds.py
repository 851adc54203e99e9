"""Operators that are no contraction: what kind of work they are, and their FLOPs per element, by name.

These FLOPs are ours (PyTorch's registry counts contractions only). They hardly move a roofline, which memory bounds for
all of them; they are stated so that totals can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.trace.work import WorkKind


@dataclass(frozen=True)
class Rate:
    """FLOPs per element; ``of`` says of which tensor: "input" (the first one), "output", or "source" (the last one)."""

    kind: WorkKind
    per_element: int
    of: str
    formula: str


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def _rates(kind: WorkKind, per_element: int, of: str, formula: str, names: str) -> dict[str, Rate]:
    return dict.fromkeys(names.split(), Rate(kind, per_element, of, formula))


RATES: Final[Mapping[str, Rate]] = {
    **_rates(
        WorkKind.SOFTMAX,
        5,
        "input",
        "maximum, subtract, exponent, sum, divide",
        "_softmax _log_softmax _safe_softmax _masked_softmax logsumexp",
    ),
    **_rates(
        WorkKind.SOFTMAX,
        4,
        "input",
        "multiply, sum, multiply, subtract",
        "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward",
    ),
    **_rates(
        WorkKind.NORMALIZATION,
        7,
        "input",
        "mean, subtract, square, sum, scale, weight, bias",
        "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit"
        " _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update"
        " _batch_norm_with_update_functional _batch_norm_no_update cudnn_batch_norm miopen_batch_norm",
    ),
    **_rates(
        WorkKind.NORMALIZATION,
        14,
        "input",
        "twice the forward",
        "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward batch_norm_backward"
        " cudnn_batch_norm_backward miopen_batch_norm_backward",
    ),
    **_rates(WorkKind.NORMALIZATION, 4, "input", "square, sum, scale, weight", "_fused_rms_norm"),
    **_rates(WorkKind.NORMALIZATION, 8, "input", "twice the forward", "_fused_rms_norm_backward"),
    **_rates(
        WorkKind.REDUCTION,
        1,
        "input",
        "1 per element of the input",
        "sum mean prod max min amax amin aminmax argmax argmin any all nansum count_nonzero cumsum cumprod"
        " logcumsumexp cummax cummin topk sort median mode kthvalue histc bincount unique _unique2 unique_dim nonzero"
        " searchsorted bucketize trace _foreach_max avg_pool2d avg_pool3d max_pool2d_with_indices"
        " max_pool3d_with_indices adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d"
        " _amp_foreach_non_finite_check_and_unscale_",
    ),
    **_rates(
        WorkKind.REDUCTION,
        2,
        "input",
        "square (or power) and sum",
        "linalg_vector_norm norm _foreach_norm _foreach_powsum linalg__powsum",
    ),
    **_rates(WorkKind.REDUCTION, 3, "input", "subtract, square, sum", "var std var_mean std_mean"),
    **_rates(
        WorkKind.REDUCTION,
        1,
        "output",
        "1 per element of the result",
        "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward avg_pool2d_backward"
        " avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward"
        " _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward",
    ),
    **_rates(
        WorkKind.EMBEDDING,
        0,
        "output",
        "0: rows are copied",
        "embedding index index_select gather take _unsafe_index masked_select embedding_renorm_ index_put index_put_"
        " _index_put_impl_ _unsafe_index_put scatter scatter_ index_copy index_copy_ index_fill index_fill_"
        " masked_scatter masked_scatter_",
    ),
    **_rates(
        WorkKind.EMBEDDING,
        1,
        "input",
        "1 per element of the gradient (or source) that is added",
        "embedding_dense_backward _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward",
    ),
    **_rates(
        WorkKind.EMBEDDING,
        1,
        "source",
        "1 per element of the source that is added",
        "index_add index_add_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ _embedding_bag"
        " _embedding_bag_forward_only embedding_bag",
    ),
    **_rates(
        WorkKind.COPY,
        0,
        "output",
        "0: elements are copied, set or moved",
        "copy_ copy _to_copy clone cat stack fill_ fill zero_ zero ones zeros full zeros_like ones_like full_like"
        " new_zeros new_ones new_full arange linspace eye constant_pad_nd slice_backward select_backward slice_scatter"
        " select_scatter flip diagonal_backward unfold_backward as_strided_scatter as_strided_copy roll repeat tril"
        " triu tril_ triu_ tril_indices triu_indices split_with_sizes_copy split_copy _pin_memory _foreach_copy_"
        " _foreach_copy _foreach_zero_ _foreach_zero _foreach_clone expand_copy view_copy transpose_copy permute_copy"
        " slice_copy t_copy unsqueeze_copy squeeze_copy repeat_interleave channel_shuffle native_channel_shuffle"
        " pixel_shuffle pixel_unshuffle col2im im2col reflection_pad2d replication_pad2d scalar_tensor"
        " _local_scalar_dense chunk_cat chunk_cat_mixed_dtype _chunk_cat all_gather_copy_in lift_fresh_copy randperm"
        " upsample_nearest2d _padded_dense_to_jagged_forward _jagged_to_padded_dense_forward sym_constrain_range lift"
        " copy_data_ prepack to_mkldnn _reshape_copy resize _pin_memory meshgrid one_hot",
    ),
    **_rates(WorkKind.OPTIMIZER, 14, "input", "decay 1, moments 3 + 4, denominator 3, update 3", "_fused_adamw_"),
    **_rates(WorkKind.OPTIMIZER, 15, "input", "decay 2, moments 3 + 4, denominator 3, update 3", "_fused_adam_"),
    **_rates(WorkKind.OPTIMIZER, 6, "input", "decay 2, momentum 2, update 2", "_fused_sgd_"),
    **_rates(WorkKind.OPTIMIZER, 8, "input", "decay 2, sum 2, root, sum, divide, update", "_fused_adagrad_"),
}

#: Operators whose first tensors give only their shape, not their elements.
SHAPE_ONLY: Final = words(
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones new_full new_empty"
    " new_empty_strided"
)

#: In-place operators that overwrite without reading.
OVERWRITES: Final = words(
    "copy_ fill_ zero_ normal_ uniform_ random_ exponential_ bernoulli_ geometric_ log_normal_ cauchy_ set_ resize_"
    " _foreach_copy_ _foreach_zero_ copy_data_"
)

#: Operators that read of their first tensor as many elements as they give.
READS_ROWS: Final = words("embedding index index_select gather take _unsafe_index")

#: In-place operators that read and write of their first tensor as many elements as their last tensor has.
WRITES_ROWS: Final = words("index_put_ _index_put_impl_ index_add_ scatter_add_ scatter_reduce_ scatter_ index_copy_")

#: Operators that make a tensor without work on it, or that are no work of a device.
FREE: Final = words(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ set_ _unsafe_view lift_fresh"
    " lift alias detach detach_ _reshape_alias record_stream _record_function_enter_new _record_function_enter"
    " _record_function_exit sym_size sym_stride sym_numel sym_storage_offset size stride numel dim storage_offset"
    " is_contiguous is_same_size device layout is_pinned _has_compatible_shallow_copy_type result_type can_cast"
    " _fused_sdp_choice set_data wait_tensor _wait_tensor is_nonzero _version requires_grad_"
    " sym_is_contiguous is_strides_like_format resize_storage_bytes_ inductor_resize_storage_bytes _assert_async"
    " is_non_overlapping_and_dense _assert_tensor_metadata _assert_scalar sym_constrain_range"
    " sym_constrain_range_for_size"
)


def kind_by_name(name: str, tags: Any) -> WorkKind:
    """The kind of an operator without an entry in `RATES`: by the tags that PyTorch gives operators."""
    if name.startswith(("_foreach_", "_fused_")):
        return WorkKind.OPTIMIZER
    names = {getattr(tag, "name", "") for tag in tags}
    if "pointwise" in names:
        return WorkKind.ELEMENTWISE
    if "reduction" in names:
        return WorkKind.REDUCTION
    if "view_copy" in names:
        return WorkKind.COPY
    return WorkKind.ELEMENTWISE if name in POINTWISE else WorkKind.OTHER


#: Pointwise operators that carry no such tag in every version of PyTorch.
POINTWISE: Final = words(
    "native_dropout native_dropout_backward bernoulli bernoulli_ normal_ uniform_ random_ rand randn rand_like"
    " randn_like randint randint_like normal exponential_ multinomial gelu_backward silu_backward threshold_backward"
    " tanh_backward sigmoid_backward hardtanh_backward hardswish_backward leaky_relu_backward elu_backward"
    " softplus_backward mish_backward log_sigmoid_forward log_sigmoid_backward _prelu_kernel _prelu_kernel_backward"
    " mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward"
    " binary_cross_entropy binary_cross_entropy_backward masked_fill masked_fill_ where glu glu_backward relu relu_"
    " _thnn_fused_lstm_cell _thnn_fused_gru_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward"
    " _amp_update_scale_ __or__ __and__ __xor__ __ior__ __iand__ __ixor__ lerp lerp_ complex polar view_as_real"
    " view_as_complex cross linalg_cross"
)
