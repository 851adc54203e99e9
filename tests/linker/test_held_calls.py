"""Calls whose work was held up by other work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chakrasim.linker.evidence.enqueued import links
from chakrasim.linker.evidence.events import Spans
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.rows.shape import _held


@pytest.mark.parametrize("sources", [(2, 3), (3, 2)])
def test_work_that_waits_for_two_streams_is_held_by_the_one_that_had_not_ended(sources: tuple[int, int]) -> None:
    lane, end = np.array([0, 0, 1, 2], np.int32), np.array([10, 300, 200, 50])
    device = Spans(lane, lane, end - 5, end, lane.astype(np.uint8))
    work: Any = SimpleNamespace(device=device, host=range(2))
    call = np.array([-1, 1, -1, -1], np.int32)
    launches = Launches(call, call, call, np.array([0, 100, 0, 0]))
    assert _held(work, launches, links(sources, (1, 1), 0, 0)).tolist() == [False, True, False]
