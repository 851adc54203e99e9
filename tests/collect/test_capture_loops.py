"""Loops that end by values of tensors: to their bound where they have one, else refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from captures import capture, program

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Trace

GENERATE = """
import torch
weight = torch.randn(16, 16, device="cuda")
tokens = torch.zeros(BATCH, 1, dtype=torch.long, device="cuda")
unfinished = torch.ones(BATCH, dtype=torch.long, device="cuda")
finished = False
while not finished:
    scores = torch.randn(BATCH, 16, device="cuda") @ weight
    following = scores.argmax(-1) * unfinished + 3 * (1 - unfinished)
    tokens = torch.cat([tokens, following[:, None]], 1)
    done = torch.full((BATCH,), tokens.shape[1] > 7, device="cuda", dtype=torch.bool)
    DONE
    unfinished = unfinished & ~done
    finished = bool(unfinished.max() == 0)
"""


def products(trace: Trace) -> int:
    """How many matrix products there are."""
    return sum(trace.name(node) == "aten::mm" for node in range(len(trace)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("batch", [4, pytest.param(256, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "done",
    [
        "pass",
        "done = torch.isin(following, torch.tensor([2, 3])) | done",
        "done = torch.logical_or(following == 2, done)",
        "done |= following == 2",
        "done = ~(~done & (following != 2))",
        "done = ~((~done).long() * following).bool()",
    ],
)
def test_a_loop_over_tokens_runs_to_its_bound(tmp_path: Path, batch: int, done: str) -> None:
    text = GENERATE.replace("BATCH", str(batch)).replace("DONE", done)
    captured = capture(program(tmp_path, text), world_size=1, step=0)
    assert products(captured.job.traces[0]) == 7


ENDLESS = """
import torch

def generate(model, x):
    done = torch.zeros(4, dtype=torch.bool, device="cuda")
    while not done.all():
        x = model(x)
        done = done | (x.sum(-1) > 3)
    return x

model = torch.nn.Linear(8, 8, device="cuda")
generate(model, torch.randn(4, 8, device="cuda"))
"""


def refused(folder: Path, text: str, patience_s: float) -> InputError:
    """What capturing a program that does not end ends with."""
    with pytest.raises(InputError) as caught:
        capture(program(folder, text), world_size=1, step=0, patience_s=patience_s)
    return caught.value


def test_a_loop_that_only_values_end_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, ENDLESS, 1)
    assert error.message == "this loop goes on until a tensor's value ends it, and a capture has no values"
    assert error.place in {f"{tmp_path}/program.py:{line}" for line in (6, 7, 8)}
    assert "--patience 10" in str(error.remedy)


def test_the_line_is_the_programs_own(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(ENDLESS.split("model = ")[0])
    head = f"import sys, torch; sys.path.insert(0, {str(library.parent)!r})\nfrom library import generate\n"
    error = refused(tmp_path, head + "model = " + ENDLESS.split("model = ")[1], 1)
    assert error.place == f"{tmp_path}/program.py:4, in the loop at {library}:6"


@pytest.mark.slow
def test_a_program_that_takes_no_step_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, "import time\n\ntime.sleep(3600)\n", 0.2)
    assert error.message == "the program has taken no step in 4 s"
    assert error.place == f"{tmp_path}/program.py:3"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "loop",
    [
        "for _ in range(30):\n    time.sleep(0.05); loss(x).item()",
        "step = 0\nwhile step < 30:\n    step += 1; time.sleep(0.05); loss(x).item(); optimizer.step()",
        "def short():\n    step = 0\n    while step < 10:\n        step += 1; time.sleep(0.05); loss(x).item()\n"
        "for _ in range(4):\n    short()",
    ],
)
def test_loops_that_end_are_not(tmp_path: Path, loop: str) -> None:
    head = (
        "import time, torch\nx = torch.randn(4, 4, device='cuda', requires_grad=True)\n"
        "optimizer = torch.optim.SGD([x])\ndef loss(x):\n    return (x @ x).sum()\n"
    )
    captured = capture(program(tmp_path, head + loop), world_size=1, step=0, patience_s=0.7)
    assert products(captured.job.traces[0]) in (30, 40)


def test_what_a_long_capture_is_at_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    text = "import time\nimport torch\nx = torch.randn(4, 4, device='cuda')\ny = x @ x\ntime.sleep(1.2)\n"
    capture(program(tmp_path, text), world_size=1, step=0, progress=told.append)
    assert told[0] == "rank 0"
    assert told[-1] == f"rank 0: step 1, 2 nodes, at {tmp_path}/program.py:5"


@pytest.mark.parametrize("patience_s", [0, -1.0, float("nan")])
def test_no_patience(tmp_path: Path, patience_s: Any) -> None:
    with pytest.raises(InputError, match="no such time"):
        capture(program(tmp_path, "pass"), world_size=1, patience_s=patience_s)
