"""Which ranks belong together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.spec.spec import Spec

Groups = tuple[tuple[int, ...], ...]


def process_groups(spec: Spec) -> dict[str, Groups]:
    """The groups of each role that has any of two ranks or more.

    Rank = tp position + tp * (cp position + cp * (dp position + dp * stage)). Neighbours in dp and cp, or, where
    experts are whole, in a stage, share experts ("ep"); neighbours in dp and cp the parameters of a replica ("fsdp");
    "expert_dp" are the ranks that hold the same experts, "dp" those that hold the same of all else, "cp" those that
    share sequences. "embedding" joins first and last stage if they hold one matrix.
    """
    split = spec.parallel
    ranks = np.arange(split.ranks).reshape(split.pp, split.copies, split.tp)
    by_dp = ranks.transpose(0, 2, 1)
    found: dict[str, NDArray[np.int64]] = {
        "tp": ranks.reshape(-1, split.tp),
        "pp": ranks.transpose(1, 2, 0).reshape(-1, split.pp),
    }
    if split.zero == 3:
        found["fsdp"] = by_dp.reshape(-1, split.fsdp)
        found["dp"] = _strided(by_dp, split.fsdp)
    else:
        found["dp"] = by_dp.reshape(-1, split.copies)
    found["cp"] = by_dp.reshape(-1, split.cp)
    if split.experts_apart:
        holders = by_dp if split.expert_tp == split.tp else ranks.reshape(split.pp, 1, split.stage_ranks)
        found["ep"] = holders.reshape(-1, split.ep)
        found["expert_dp"] = _strided(holders, split.ep)
    if spec.copies_embedding:
        found["embedding"] = ranks[[0, -1]].transpose(1, 2, 0).reshape(-1, 2)
    return {role: tuple(map(tuple, groups.tolist())) for role, groups in found.items() if groups.shape[1] > 1}


def _strided(by_dp: NDArray[np.int64], stride: int) -> NDArray[np.int64]:
    """Every ``stride``-th rank along the last axis."""
    stages, tp, dp = by_dp.shape
    return by_dp.reshape(stages, tp, dp // stride, stride).transpose(0, 1, 3, 2).reshape(-1, dp // stride)
