"""Jobs from a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chakrasim.synthesis.columns import missing
from chakrasim.synthesis.expand import trace_of
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.read import places_of
from chakrasim.trace.job.job import Job, Parameter


def job_of(model: Model, columns: Mapping[str, int], parameters: Mapping[str, Parameter]) -> Job:
    """The job of these parameters, whose numbers are ``columns``. Raises InputError for parameters that do not fit
    together."""
    ranks, groups = model.grid.made(columns)
    places = {name: column.tolist() for name, column in places_of(groups, ranks).items()}
    keys = [tuple(places[name][rank] if name in places else missing(name) for name in model.rank_columns)
            for rank in range(ranks)]  # fmt: skip
    distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    traces = tuple(trace_of(model, columns, dict(zip(model.rank_columns, key, strict=True))) for key in distinct)
    return Job(traces, np.array([distinct[key] for key in keys], np.int64), groups, parameters)
