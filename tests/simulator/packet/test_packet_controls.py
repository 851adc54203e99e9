"""Controls of congestion hold queues down."""

from __future__ import annotations

import pytest
from packet_cases import waiting_at


@pytest.mark.parametrize("mode", [1, 3, 8, 10])
def test_a_control_leaves_less_in_the_queue_than_a_window_alone(mode: int) -> None:
    assert 0 <= 2 * waiting_at(600_000, mode) < waiting_at(600_000, 12)
