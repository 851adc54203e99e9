"""A Python loop over tokens, where a GPU would run one kernel, is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from captures import capture, program

pytestmark = pytest.mark.slow

SCAN = """
import torch

class Scan(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(8, 8)

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        gates = torch.sigmoid(self.gate(x))
        LOOP
        return torch.stack(states, 1)

class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(Scan() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

model = Model(2).to("cuda")
model(torch.randn(2, TOKENS, 8, device="cuda")).sum().backward()
"""
FOR = """states = []
        for token in range(x.shape[1]):
            state = gates[:, token] * state + x[:, token]
            states.append(state)"""
WHILE = """states, token = [], 0
        while token < x.shape[1]:
            state = gates[:, token] * state + x[:, token]
            states.append(state)
            token += 1"""
COMPREHENSION = """states = [
            one * state + other
            for one, other in zip(gates.unbind(1), x.unbind(1))
        ]"""
FUSED = "states = (gates * x).unbind(1)"


def warnings(folder: Path, loop: str, tokens: int, **options: str) -> tuple[str, ...]:
    """What is said of a step with this loop."""
    text = SCAN.replace("LOOP", loop).replace("TOKENS", str(tokens))
    return capture(program(folder, text), world_size=1, step=0, **options).warnings  # type: ignore[arg-type]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("loop", "line"), [(FOR, 13), (WHILE, 13), (COMPREHENSION, 12)])
def test_a_loop_over_tokens_is_said(tmp_path: Path, loop: str, line: int) -> None:
    (warning,) = warnings(tmp_path, loop, 100)
    assert warning.startswith(
        f"Scan: the Python loop at {tmp_path}/program.py:{line} goes over 100 slices of a tensor and runs 400 small "
        "operators ("
    )
    share = re.search(r"with their backward (\d+)% of the step's operators", warning)
    assert share is not None
    assert int(share[1]) > 90
    assert "torch.library.custom_op" in warning


def test_with_a_device_its_share_is_of_the_time(tmp_path: Path) -> None:
    (warning,) = warnings(tmp_path, FOR, 100, device_profile="a100")
    assert "% of the step's compute time" in warning


@pytest.mark.parametrize(("loop", "tokens"), [(FUSED, 1000), (FOR, 20)])
def test_others_are_not(tmp_path: Path, loop: str, tokens: int) -> None:
    assert warnings(tmp_path, loop, tokens) == ()


def test_nor_are_large_operators_and_batches_of_a_script(tmp_path: Path) -> None:
    text = """
    import torch
    class Wide(torch.nn.Module):
        def forward(self, x, weight):
            return [x[i] @ weight for i in range(len(x))]
    data = torch.randn(100, 2048, 2048, device="cuda")
    Wide()(data, torch.randn(2048, 2048, device="cuda"))
    layer = torch.nn.Linear(2, 2, device="cuda")
    for batch in torch.randn(100, 2, 2, device="cuda"):
        layer(batch)
    """
    assert capture(program(tmp_path, text), world_size=1, step=0).warnings == ()
