"""The page of operators names every formula."""

from __future__ import annotations

from pathlib import Path

from chakrasim.collect.capturing.recorded.memory import CATEGORIES
from chakrasim.operators.contractions import CONTRACTIONS
from chakrasim.operators.kinds import RATES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference-operator-work.md"
#: In the registry of PyTorch 2.13.
REGISTERED = {
    "mm addmm bmm baddbmm _scaled_mm convolution _convolution cudnn_convolution convolution_overrideable",
    "_slow_conv2d_forward convolution_backward _scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward _flash_attention_forward _efficient_attention_forward",
    "_flash_attention_backward _efficient_attention_backward flex_attention flex_attention_backward",
}


def rows() -> list[list[str]]:
    """The cells of the page's tables."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_contractions_are_listed_with_their_formula() -> None:
    listed = {name: cells[0] for cells in rows() if len(cells) == 2 for name in cells[1].replace("`", "").split(", ")}
    registered = {name for line in REGISTERED for name in line.split()}
    for name, entry in CONTRACTIONS.items():
        if name not in registered:
            assert listed[name] == entry.formula


def test_rates_are_listed() -> None:
    listed = {name: cells[:3] for cells in rows() if len(cells) == 4 for name in cells[3].replace("`", "").split(", ")}
    for name, rate in RATES.items():
        assert listed[name] == [str(rate.per_element), rate.of, rate.formula]


def test_categories_are_listed() -> None:
    assert set(CATEGORIES) <= {cells[0] for cells in rows()}
