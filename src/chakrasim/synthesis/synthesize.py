"""Jobs from a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chakrasim.synthesis.columns import of_rank
from chakrasim.synthesis.expand import trace_of
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.read import common_places
from chakrasim.trace.job.job import Job


def job_of(model: Model, parameters: Mapping[str, int]) -> Job:
    """The job of these parameters. Raises InputError for parameters that do not fit together."""
    ranks, groups = model.grid.made(parameters)
    places = [common_places(groups, ranks, np.array([rank])) for rank in range(ranks)]
    keys = [tuple(of_rank(own, name) for name in model.rank_columns) for own in places]
    distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    traces = tuple(trace_of(model, parameters, dict(zip(model.rank_columns, key, strict=True))) for key in distinct)
    return Job(traces, np.array([distinct[key] for key in keys], np.int64), groups)
