"""What a device draws by what it does: its file, and the energy of seconds by state."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.errors import InputError
from chakrasim.estimation.parts import seconds_by_state
from chakrasim.machine.device.file import device_text, dump_device, load_device
from chakrasim.machine.device.power import STATES, Power

WATTS = st.floats(1, 2000)
SECONDS = st.floats(0, 1e6)


@given(WATTS, WATTS, st.none() | WATTS, SECONDS, SECONDS, SECONDS)
def test_energy_lies_between_its_bounds(
    busy_w: float, idle_w: float, moving_w: float | None, busy: float, moving: float, idle: float
) -> None:
    power = Power(busy_w, idle_w, moving_w)
    found = power.energy(dict(zip(STATES, (busy, moving, idle), strict=True)))
    assert found.low * (1 - 1e-12) <= found.joules <= found.high * (1 + 1e-12)
    twice = power.energy(dict(zip(STATES, (2 * busy, 2 * moving, 2 * idle), strict=True)))
    assert twice.joules == pytest.approx(2 * found.joules)


def test_energy_of_stated_watts() -> None:
    seconds = {"busy": 10.0, "communicating": 4.0, "idle": 1.0}
    assert Power(1000, 200).energy(seconds).joules == 10_000 + 4 * 600 + 200
    found = Power(1000, 200, 500).energy(seconds)
    assert (found.joules, found.low, found.high) == (12_200, 11_000, 15_000)
    assert Power(1000, 200).energy({"busy": 10.0}).low == 10_000


def test_parts_of_steps_are_states() -> None:
    found = seconds_by_state({"matrices": 1.0, "optimizer": 2.0, "host": 4.0, "comm_tp": 8.0, "bubble": 16.0})
    assert found == {"busy": 3.0, "communicating": 8.0, "idle": 20.0}
    simulated = seconds_by_state({"compute": 1.0, "overlap": 2.0, "exposed_comm": 4.0, "waiting": 8.0, "done": 16.0})
    assert simulated == {"busy": 3.0, "communicating": 4.0, "idle": 24.0}


def test_profiles_state_power_and_keep_it() -> None:
    h100 = load_device("h100")
    assert h100.power == Power(969, 189)
    said = replace(h100, power=Power(900, 150, 400.5))
    assert load_device(yaml.safe_load(dump_device(said))).power == said.power
    assert load_device("v100").power is None
    content = yaml.safe_load(device_text("h100"))
    for wrong in ({"busy": "900 W"}, {"busy": 900, "idle": "100 W"}, {"busy": "0 W", "idle": "1 W"}, "900 W"):
        with pytest.raises(InputError):
            load_device(content | {"power": wrong})
