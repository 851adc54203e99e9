"""Measured training steps that were published: what ran, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

_FILE = Path(__file__).parent / "megatron-selene.yaml"


@dataclass(frozen=True)
class MeasuredRun:
    """One iteration of a GPT model under Megatron-LM.

    Attributes
    ----------
    name: model and kind of recomputation.
    hidden, layers, heads, sequence, vocabulary: of the model; its feed-forward part has four times ``hidden``.
    tensor, pipeline, chunks: ranks that share a layer, pipeline stages, model chunks that a stage holds.
    batch, micro_batch: sequences of an iteration and of one pass.
    selective: sequence parallelism, attention alone is recomputed; else all is, without sequence parallelism.
    seconds: the measured iteration.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    sequence: int
    vocabulary: int
    tensor: int
    pipeline: int
    chunks: int
    batch: int
    micro_batch: int
    selective: bool
    seconds: float

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline

    @property
    def micro_batches(self) -> int:
        return self.batch // self.micro_batch


def megatron_runs() -> tuple[MeasuredRun, ...]:
    """The eight runs of arXiv:2205.05198, Table 5."""
    content = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return tuple(
        MeasuredRun(
            name=f"{model['name']} {recompute}",
            hidden=model["hidden"],
            layers=model["layers"],
            heads=model["heads"],
            sequence=content["sequence"],
            vocabulary=content["vocabulary"],
            tensor=content["tensor-parallel"],
            pipeline=model["pipeline"],
            chunks=model["chunks"],
            batch=model["batch"],
            micro_batch=model["micro-batch"],
            selective=recompute == "selective",
            seconds=seconds,
        )
        for model in content["models"]
        for recompute, seconds in model["seconds"].items()
    )
