"""Matrix products in waves of blocks: what they lose, and the A100's profile against public measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.errors import InputError
from chakrasim.machine import dump_device, load_device
from chakrasim.machine.device.tiling import Tiling
from chakrasim.trace.work import Work, WorkKind

A100_POINTS = (
    # EleutherAI/cookbook, benchmarks/sizing/sample_results/transformer.out and bmm.out: batch, m, n, k, TFLOP/s.
    (1, 8192, 12288, 4096, 241.616),
    (1, 8192, 4096, 4096, 234.852),
    (1, 8192, 16384, 4096, 241.128),
    (1, 8192, 4096, 16384, 252.764),
    (1, 8192, 51200, 4096, 255.380),
    (64, 2048, 2048, 256, 130.182),
    (64, 2048, 256, 2048, 218.952),
    (128, 1024, 1024, 1024, 227.295),
    (128, 1024, 2048, 1024, 243.258),
    # stas00/ml-engineering, compute/accelerator/README.md: the A100 SXM's best products of two searches.
    (1, 1024, 10240, 5120, 271.2),
    (1, 6912, 2048, 16384, 267.9),
)
PROFILE = {
    "name": "blocks",
    "memory": "80 GB",
    "bandwidth": "1000 GB/s",
    "peak": {"float16": "100 TFLOP/s"},
    "efficiency": {
        "gemm": {"start": "1 us", "compute": 0.5, "bandwidth": 0.5, "processors": 10, "tile": "128 x 256", "ramp": 64},
        "elementwise": {"start": "1 us", "compute": 1.0, "bandwidth": 0.8},
    },
}


def products(*shapes: tuple[int, int, int, int]) -> Work:
    batch, m, n, k = (np.array(column, np.int64) for column in zip(*shapes, strict=True))
    zero = np.zeros(len(m), np.int64)
    return Work(
        kind=np.full(len(m), WorkKind.GEMM, np.int64),
        flops=2 * batch * m * n * k,
        bytes_read=2 * batch * (m * k + k * n),
        bytes_written=2 * batch * m * n,
        batch=batch,
        m=m,
        n=n,
        k=k,
        causal=zero.astype(np.bool_),
        dtype=np.full(len(m), "float16"),
        kernels=zero + 1,
    )


def slowdown(tiling: Tiling, *shape: int) -> float:
    return float(tiling.slowdown(products(shape), np.arange(1))[0])  # type: ignore[arg-type]


def test_full_waves_lose_nothing_but_the_ramp() -> None:
    assert slowdown(Tiling(10, 128, 256), 1, 1280, 256, 512) == 1.0
    assert slowdown(Tiling(10, 128, 256, ramp=128), 1, 1280, 256, 512) == 1.25


def test_one_block_more_than_a_wave_costs_a_wave() -> None:
    assert slowdown(Tiling(10, 128, 256), 1, 11 * 128, 256, 512) == pytest.approx(20 / 11)
    assert slowdown(Tiling(10, 256, 256), 11, 256, 256, 512) == pytest.approx(20 / 11)


def test_blocks_lie_the_better_way_round_and_stick_out_at_the_edge() -> None:
    assert slowdown(Tiling(1, 128, 256), 1, 256, 128, 8) == 1.0
    assert slowdown(Tiling(1, 128, 256), 1, 300, 256, 8) == pytest.approx(3 * 128 / 300)


def test_a_result_that_is_smaller_than_a_block_has_smaller_blocks() -> None:
    # 20 batches fill two waves: blocks of 64 x 64, 64 x 256 and 256 x 64 around results of 60 x 60 and 60 x 1000.
    assert slowdown(Tiling(10, 128, 256), 20, 60, 60, 512) == pytest.approx(64 * 64 / 3600)
    assert slowdown(Tiling(10, 128, 256), 20, 60, 1000, 512) == pytest.approx(64 * 1024 / 60_000)
    assert slowdown(Tiling(10, 128, 256), 20, 60, 1000, 512) == slowdown(Tiling(10, 128, 256), 20, 1000, 60, 512)
    # No block is narrower than 64.
    assert slowdown(Tiling(10, 128, 256), 20, 16, 256, 512) == pytest.approx(4)


def test_smaller_blocks_where_the_largest_are_too_few() -> None:
    # Nine blocks of 128 x 256, 18 of 128 x 128 or 36 of 64 x 128 leave more processors idle than 72 of 64 x 64.
    assert slowdown(Tiling(10, 128, 256), 1, 9 * 128, 256, 256) == pytest.approx(80 / 72)
    # Each wave begins with the time of 16 steps of the largest block, 64 of one of 64 x 64.
    costs = [waves * (256 + ramp) / 256 * 10 * size / (9 * 2) for waves, ramp, size in ((1, 16, 2), (2, 32, 1))]
    assert slowdown(Tiling(10, 128, 256, ramp=16), 1, 9 * 128, 256, 256) == pytest.approx(min(costs))
    # Enough blocks: no smaller ones, though they would fill the last wave.
    assert slowdown(Tiling(10, 128, 256), 1, 11 * 128, 256, 256) == pytest.approx(20 / 11)


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_few_rows_take_about_as_long_as_their_weights_are_read(rows: int) -> None:
    work = products((1, rows, 14336, 4096), (1, rows, 4096, 14336))
    profile = load_device("a100")
    assert (profile.durations_ns(work) < 1.3 * np.maximum(*profile.bounds_ns(work))).all()


def test_work_without_a_shape_loses_nothing() -> None:
    assert slowdown(Tiling(10, 128, 256, ramp=128), 0, 0, 0, 0) == 1.0


@given(st.tuples(st.integers(1, 64), st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 10_000)))
def test_no_product_is_faster_than_with_all_processors_busy(shape: tuple[int, int, int, int]) -> None:
    assert slowdown(Tiling(108, 256, 128, 250), *shape) >= 1.0


def test_a_profile_with_blocks_is_read_and_written() -> None:
    profile = load_device(PROFILE)
    assert profile.efficiency[WorkKind.GEMM].tiling == Tiling(10, 128, 256, 64)
    assert "tile: 128 x 256" in dump_device(profile)
    # 20 blocks in two full waves at 50 TFLOP/s, of which k 512 is eight ninths; results go when they are done.
    one = profile.durations_ns(products((1, 2560, 256, 512)))
    flops = 2 * 2560 * 256 * 512
    result_ns = 2 * 2560 * 256 / 500
    assert one[0] == pytest.approx(1000 + flops / 50e12 * 1e9 * 576 / 512 + result_ns, abs=1)


def test_a_result_that_is_added_to_in_float32_moves_four_times_the_bytes() -> None:
    profile, plain = load_device(PROFILE), products((1, 2560, 256, 512))
    added = replace(plain, bytes_read=plain.bytes_read + 4 * 2560 * 256, bytes_written=2 * plain.bytes_written)
    longer = profile.durations_ns(added) - profile.durations_ns(plain)
    assert longer[0] == pytest.approx(3 * 2 * 2560 * 256 / 500, abs=1)


def test_no_product_is_below_the_roofline() -> None:
    profile = load_device(PROFILE)
    work = products((1, 8, 8, 8), (1, 10_000, 1, 3), (64, 1, 1, 10_000), (1, 5000, 5000, 5000))
    assert (profile.durations_ns(work) >= np.maximum(*profile.bounds_ns(work))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile": "128x256"}, "not a block"),
        ({"tile": "0 x 256"}, "not a block"),
        ({"processors": 0}, "out of range"),
        ({"processors": 1.5}, "not a whole number"),
        ({"ramp": 2.5}, "not a whole number"),
        ({"processors": None}, "the key is missing"),
        ({"tile": None}, "the key is missing"),
    ],
)
def test_faulty_blocks_are_refused(change: dict[str, object], message: str) -> None:
    gemm = {**PROFILE["efficiency"]["gemm"], **change}  # type: ignore[index]
    gemm = {key: value for key, value in gemm.items() if value is not None}
    with pytest.raises(InputError, match=message):
        load_device({**PROFILE, "efficiency": {**PROFILE["efficiency"], "gemm": gemm}})  # type: ignore[dict-item]


def test_the_a100_meets_public_measurements() -> None:
    work = products(*[point[:4] for point in A100_POINTS])
    rate = work.flops / load_device("a100").durations_ns(work) / 1e3
    ratio = rate / np.array([point[4] for point in A100_POINTS])
    assert np.sqrt(np.mean(np.log(ratio) ** 2)) < 0.052
    assert (np.abs(ratio - 1) < 0.11).all()
