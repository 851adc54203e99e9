"""What Megatron-LM does beyond the least: messages in parts, clipped gradients, scaled losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chakrasim.generator.transformer import generate_transformer
from chakrasim.trace import Trace
from chakrasim.trace.work import BYTES_READ, BYTES_WRITTEN, FLOPS

SMALL = {"layers": 2, "hidden": 64, "heads": 8, "vocabulary": 128, "sequence": 32}


def step(parallel: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **more: Any) -> Trace:
    content = {"model": {**SMALL, **(model or {})}, "parallel": parallel or {}, "batch": {"micro_batches": 4}, **more}
    return generate_transformer(content).job.traces[0]


def moved(trace: Trace, words: str) -> tuple[int, int]:
    """Bytes read and written by the nodes that have ``words`` in their name."""
    chosen = np.array([words in trace.strings[int(name)] for name in trace.name_index])
    return tuple(int(trace.attr(name).bits[chosen].sum()) for name in (BYTES_READ, BYTES_WRITTEN))  # type: ignore[return-value]


def test_a_message_in_parts_is_gathered_by_the_ranks_that_share_a_matrix() -> None:
    content = {"model": SMALL, "parallel": {"tp": 4, "pp": 2}, "batch": {"micro_batches": 4}}
    whole = generate_transformer(content).totals.communication
    parts = generate_transformer(
        {**content, "parallel": {"tp": 4, "pp": 2, "scatter_gather": True}}
    ).totals.communication
    assert parts["send", "pp"] == (whole["send", "pp"][0], whole["send", "pp"][1] // 4)
    # One gathering for each message on each rank, of the part that the rank received.
    assert parts["all_gather", "tp"] == parts["receive", "pp"]


def test_sequence_parallelism_has_its_parts_anyway() -> None:
    content = {"model": SMALL, "parallel": {"tp": 4, "pp": 2, "sp": True}, "batch": {"micro_batches": 4}}
    other = {**content, "parallel": {**content["parallel"], "scatter_gather": True}}  # type: ignore[dict-item]
    assert generate_transformer(other).totals == generate_transformer(content).totals


@pytest.mark.parametrize(
    ("dtype", "clip", "passes"),
    [("bfloat16", False, 0), ("bfloat16", True, 3), ("float16", False, 2), ("float16", True, 5)],
)
def test_gradients_are_read_and_written_before_the_update(dtype: str, clip: bool, passes: int) -> None:
    trace = step(dtype=dtype, clip_gradients=clip)
    gradients = moved(trace, "zero gradients")[1]
    found = sum(sum(moved(trace, f"{verb} gradients")) for verb in ("unscale", "norm of", "clip"))
    assert found == passes * gradients


def test_dropout_writes_a_byte_for_each_element_and_reads_it_again() -> None:
    trace = step(model={"dropout": True}, flash_attention=False)
    elements = 4 * 2 * 32 * 64
    assert moved(trace, "attention residual") == (2 * 2 * elements, 3 * elements)
    assert moved(trace, "feed-forward dropout gradient") == (3 * elements, 2 * elements)


def test_gradients_of_biases_are_sums_over_tokens() -> None:
    names = ("attention output", "feed-forward output", "qkv", "up")
    columns = (64, 64, 3 * 64, 4 * 64)
    trace = step(model={"bias": True})
    for name, count in zip(names, columns, strict=True):
        assert moved(trace, f"{name} bias gradient") == (4 * 2 * 32 * count * 2, 4 * 2 * count * 2)
    assert moved(step(), "bias gradient") == (0, 0)


def test_masked_scores_are_not_read() -> None:
    causal, full = (step(model={"causal": masked}, flash_attention=False) for masked in (True, False))
    for words, reads in (("softmax", 3), ("softmax gradient", 2)):
        scores = 4 * 2 * 8 * 32 * 32
        assert moved(full, words)[0] == reads * 2 * scores
        assert moved(causal, words)[0] == reads * scores
    assert causal.attr(FLOPS).bits.sum() == full.attr(FLOPS).bits.sum()
