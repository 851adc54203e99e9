"""Errors of predicted times, by layer and pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerError:
    """How far the predictions of one layer are off, over all its numbers of tokens.

    ``mape_percent`` is the mean of |predicted / measured - 1|, ``bias_percent`` the median of predicted / measured - 1,
    ``roofline_mape_percent`` the first of a roofline without efficiencies. ``projection``: one matrix product, of those
    that are reported as GEMMs. ``held_out``: the fit has not seen the model.
    """

    device: str
    model: str
    parts: int
    layer: str
    projection: bool
    held_out: bool
    points: int
    mape_percent: float
    bias_percent: float
    roofline_mape_percent: float


@dataclass(frozen=True)
class Pooled:
    """Mean errors over all points of several layers."""

    points: int
    mape_percent: float
    roofline_mape_percent: float


def pooled(errors: Sequence[LayerError]) -> Pooled | None:
    """The errors of all layers together, each point with the same weight; None of nothing."""
    points = sum(error.points for error in errors)
    if not points:
        return None
    return Pooled(
        points,
        sum(error.mape_percent * error.points for error in errors) / points,
        sum(error.roofline_mape_percent * error.points for error in errors) / points,
    )


def grouped(errors: Sequence[LayerError]) -> dict[tuple[str, str, int], list[LayerError]]:
    """By device, model and number of parts."""
    groups: dict[tuple[str, str, int], list[LayerError]] = {}
    for error in errors:
        groups.setdefault((error.device, error.model, error.parts), []).append(error)
    return dict(sorted(groups.items()))
