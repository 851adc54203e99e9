"""In which order a pipeline stage runs forward and backward passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.spec.spec import Spec

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Turn:
    """A pass over chunk ``chunk`` (counted over all stages) of a micro-batch."""

    forward: bool
    chunk: int
    micro_batch: int


def turns(spec: Spec, stage: int) -> list[Turn]:
    """The passes of a stage, in order.

    1F1B: Narayanan et al. 2019 (PipeDream-flush) and 2021, arXiv:2104.04473, section 2.2; interleaved: the same, as
    Megatron-LM orders it: groups of as many micro-batches as there are stages go through a stage's chunks in turn.
    GPipe: Huang et al. 2019, arXiv:1811.06965: all forward passes, then all backward passes.
    """
    columns = (column.tolist() for column in order_of(spec, stage))
    return [Turn(*one) for one in zip(*columns, strict=True)]


def order_of(spec: Spec, stage: int) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """The same as columns: bool[n] and int64[n] twice, the fields of `Turn`."""
    stages, virtual = spec.parallel.pp, spec.parallel.virtual_stages
    total, behind = spec.batch.micro_batches * virtual, stages - 1 - stage
    warm_up = min(behind if virtual == 1 else 2 * behind + (virtual - 1) * stages, total)
    if spec.schedule == "gpipe":
        warm_up = total
    k = np.arange(total)
    group, within = np.divmod(k, stages * virtual)
    turn, position = np.divmod(within, stages)
    # Behind the first forward passes they alternate with backward ones, as long as there are some.
    places = np.concatenate([np.maximum(k, 2 * k - warm_up), np.minimum(warm_up + 2 * k + 1, total + k)])
    order = np.argsort(places)
    forward = order < total
    chunk = np.concatenate([turn, virtual - 1 - turn]) * stages + stage
    batch = group * stages + position
    return forward, chunk[order], np.concatenate([batch, batch])[order]
