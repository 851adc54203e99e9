"""Controls of congestion: each holds queues down, and the one of the how-to works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packet_cases import waiting_at

PAGE = Path(__file__).parents[3] / "docs" / "howto-add-a-congestion-control.md"
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from packet_cases import waiting_at
import types
from chakrasim.simulator.packet.control import table
swift = types.ModuleType("swift")
exec(sys.stdin.read(), swift.__dict__)
none = waiting_at(150_000, 12)
table.SIZES[20], table.INT_BYTES[20] = swift.SIZE, 8
table.STAMPED.add(20)
table.begin, table.on_ack = swift.begin, swift.on_ack
print(waiting_at(150_000, 20), none)
"""


@pytest.mark.parametrize("mode", [1, 3, 8, 10])
def test_a_control_leaves_less_in_the_queue_than_a_window_alone(mode: int) -> None:
    assert 0 <= 2 * waiting_at(600_000, mode) < waiting_at(600_000, 12)


def test_the_control_of_the_how_to_holds_the_queue_down() -> None:
    code = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    assert len(code.splitlines()) <= 80
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT, str(Path(__file__).parent)],
        input=code,
        env={**os.environ, "CHAKRASIM_JIT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    swift, none = map(int, done.stdout.split())
    assert 2 * swift < none
