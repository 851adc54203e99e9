"""Jobs from a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from chakrasim.synthesis.columns import missing
from chakrasim.synthesis.expand import trace_of
from chakrasim.synthesis.grammar.durations import OF_RANKS, Draw
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.on_device import timed
from chakrasim.synthesis.read import places_of
from chakrasim.trace.job.job import Job, Parameter


def job_of(
    model: Model,
    columns: Mapping[str, int],
    parameters: Mapping[str, Parameter],
    seed: tuple[int, ...] = (0,),
    below: Counter[str] | None = None,
) -> Job:
    """The job of these parameters, whose numbers are ``columns``. Where recorded durations scatter, those of each rank
    are drawn with ``seed``. What its distinct traces have below 0 where nothing can be is counted in ``below``, by what
    it is of, and how often it is in doubt whether enough has added up. Raises InputError for parameters that do not fit
    together, OverflowError for numbers beyond int64."""
    ranks, groups = model.grid.made(columns)
    places = places_of(groups, ranks)
    table = np.stack([places[name] if name in places else np.full(ranks, missing(name)) for name in model.rank_columns]
                     or [np.zeros(ranks, np.int64)], axis=1)  # fmt: skip
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    which = np.argsort(order)[which.reshape(-1)]
    keys = table[first[order]].tolist()
    if model.scatter is not None:
        keys, which = table.tolist(), np.arange(ranks)
    traces = tuple(
        trace_of(model, columns, dict(zip(model.rank_columns, key, strict=False)), _draw(model, seed, number), below)
        for number, key in enumerate(keys)
    )
    if model.device:
        traces = tuple(timed(trace, model.device) for trace in traces)
    return Job(traces, which, groups, parameters)


def _draw(model: Model, seed: tuple[int, ...], rank: int) -> Draw | None:
    if model.scatter is None:
        return None
    return Draw(model.scatter, np.random.default_rng((OF_RANKS, *seed, rank)), seed)
