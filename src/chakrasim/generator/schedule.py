"""In which order a pipeline stage runs forward and backward passes."""

from __future__ import annotations

from dataclasses import dataclass

from chakrasim.generator.spec.spec import Spec


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
    stages, count = spec.parallel.pp, spec.batch.micro_batches
    if spec.schedule == "gpipe":
        return [Turn(forward, stage, batch) for forward in (True, False) for batch in range(count)]
    virtual = spec.parallel.virtual_stages
    total = count * virtual
    behind = stages - 1 - stage
    warm_up = min(behind if virtual == 1 else 2 * behind + (virtual - 1) * stages, total)
    forward = [_pass(True, k, stage, stages, virtual) for k in range(total)]
    backward = [_pass(False, k, stage, stages, virtual) for k in range(total)]
    steady = [turn for pair in zip(forward[warm_up:], backward, strict=False) for turn in pair]
    return [*forward[:warm_up], *steady, *backward[total - warm_up :]]


def _pass(forward: bool, k: int, stage: int, stages: int, virtual: int) -> Turn:
    """The k-th forward or backward pass of a stage."""
    group, within = divmod(k, stages * virtual)
    turn, position = divmod(within, stages)
    chunk = turn if forward else virtual - 1 - turn
    return Turn(forward, chunk * stages + stage, group * stages + position)
