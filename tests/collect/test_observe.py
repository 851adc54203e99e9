"""Recording a loop: which steps are in both traces, what happens when the loop ends early or fails, folders."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from chakrasim.collect import observe  # noqa: E402
from chakrasim.collect.observing.files import check_observed  # noqa: E402
from chakrasim.collect.observing.job import Place  # noqa: E402
from chakrasim.collect.observing.verdict import await_ranks  # noqa: E402
from chakrasim.errors import InputError  # noqa: E402

FILES = {"host.0.json.gz", "device.0.json.gz", "manifest.0.json"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def train() -> Callable[[], None]:
    """One training step."""
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()

    return step


def read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def marks(folder: Path, rank: int = 0) -> tuple[list[str], list[str]]:
    """The names of the steps in the host and in the device trace."""
    host = [node["name"] for node in read(folder / f"host.{rank}.json.gz")["nodes"]]
    device = [event.get("name", "") for event in read(folder / f"device.{rank}.json.gz")["traceEvents"]]
    wanted = re.compile(r"ProfilerStep#|unfinished step")
    return [name for name in host if wanted.match(name)], [name for name in device if wanted.match(name)]


def test_both_traces_hold_the_active_steps(tmp_path: Path, train: Callable[[], None]) -> None:
    with observe(tmp_path / "t", wait=1, warmup=1, active=2, verdict=False) as steps:
        for _ in range(6):
            train()
            steps.step()
    assert marks(tmp_path / "t") == (["ProfilerStep#2", "ProfilerStep#3"],) * 2
    assert {file.name for file in (tmp_path / "t").iterdir()} == FILES
    assert steps.recorded == (2, 3)
    assert steps.number == 6
    assert not steps.shortfall
    manifest = json.loads((tmp_path / "t" / "manifest.0.json").read_text())
    assert manifest["format"] == "chakrasim-observed-1"
    assert manifest["recorded_steps"] == [2, 3]
    assert {part: len(times) for part, times in manifest["step_ns"].items()} == {
        "wait": 1,
        "warmup": 1,
        "active": 2,
        "after": 2,
    }
    assert manifest["versions"]["torch"] == torch.__version__
    assert (manifest["rank"], manifest["world_size"], manifest["process_groups"]) == (0, 1, [])


def test_an_iterable_gives_the_steps(tmp_path: Path, train: Callable[[], None]) -> None:
    seen = []
    with observe(tmp_path / "t", wait=0, warmup=0, active=2, verdict=False) as steps:
        for number in steps(range(2)):
            train()
            seen.append(number)
    assert seen == [0, 1]
    assert marks(tmp_path / "t")[0] == ["ProfilerStep#0", "ProfilerStep#1"]


def test_every_operator_has_its_record_in_both_traces(tmp_path: Path, train: Callable[[], None]) -> None:
    with observe(tmp_path / "t", wait=0, warmup=1, active=2, verdict=False) as steps:
        for _ in steps(range(3)):
            train()
    host = {node["name"] for node in read(tmp_path / "t" / "host.0.json.gz")["nodes"]}
    events = read(tmp_path / "t" / "device.0.json.gz")["traceEvents"]
    operators = {event["name"] for event in events if event.get("cat") == "cpu_op"}
    assert "aten::addmm" in operators
    assert operators <= host
    assert any(event.get("args", {}).get("Input Dims") for event in events)


def test_the_verdict_is_printed(tmp_path: Path, train: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    with observe(tmp_path / "t", wait=0, warmup=1, active=2) as steps:
        for _ in steps(range(3)):
            train()
    assert capsys.readouterr().out.startswith("  1 rank: trustworthy")
    assert steps.diagnosis is not None
    assert steps.diagnosis.exit_code == 0


def test_a_loop_that_ends_early_keeps_its_complete_steps(tmp_path: Path, train: Callable[[], None]) -> None:
    message = "the loop ended after 3 steps: 2 of 5 steps were recorded"
    with (
        pytest.warns(UserWarning, match=message),
        observe(tmp_path / "t", wait=0, warmup=1, active=5, verdict=False) as steps,
    ):
        for _ in range(3):
            train()
            steps.step()
        torch.ones(2) + 1
    assert marks(tmp_path / "t") == (["ProfilerStep#1", "ProfilerStep#2", "unfinished step 3"],) * 2
    assert steps.recorded == (1, 2)
    assert steps.shortfall == message


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_loop_without_a_complete_active_step_writes_nothing(
    tmp_path: Path, train: Callable[[], None], count: int
) -> None:
    text = rf"nothing was recorded: the loop ended after {count} steps, and recording begins after 3 \(1 wait"
    with pytest.warns(UserWarning, match=text), observe(tmp_path / "t", verdict=False) as steps:
        for _ in steps(range(count)):
            train()
    assert not steps.recorded
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").iterdir())
    # The profiler is free again.
    with observe(tmp_path / "again", wait=0, warmup=1, active=1, verdict=False) as steps:
        for _ in steps(range(2)):
            train()
    assert steps.recorded == (1,)


@pytest.mark.parametrize(("fails_in", "complete"), [(0, 0), (1, 0), (2, 0), (4, 2)])
def test_an_exception_goes_on_with_a_note_and_leaves_nothing(
    tmp_path: Path, train: Callable[[], None], fails_in: int, complete: int
) -> None:
    def run() -> None:
        with observe(tmp_path / "t", wait=1, warmup=1, active=4, verdict=False) as steps:
            for number in steps(range(9)):
                if number == fails_in:
                    raise ValueError("bad batch")
                train()

    with pytest.raises(ValueError, match="bad batch") as caught:
        run()
    assert caught.value.__notes__ == [
        f"chakrasim: nothing was recorded in {tmp_path / 't'}: the loop failed in step {fails_in}, with {complete} of "
        "4 steps complete"
    ]
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").iterdir())


def test_an_exception_after_the_active_steps_loses_nothing(tmp_path: Path, train: Callable[[], None]) -> None:
    def run() -> None:
        with observe(tmp_path / "t", wait=0, warmup=1, active=1, verdict=False) as steps:
            for number in steps(range(9)):
                if number == 5:
                    raise ValueError("bad batch")
                train()

    with pytest.raises(ValueError, match="bad batch") as caught:
        run()
    assert not hasattr(caught.value, "__notes__")
    assert {file.name for file in (tmp_path / "t").iterdir()} == FILES


def test_earlier_traces_are_replaced_on_demand_only(tmp_path: Path, train: Callable[[], None]) -> None:
    def record(**settings: Any) -> None:
        with observe(tmp_path, wait=0, warmup=1, active=1, verdict=False, **settings) as steps:
            for _ in steps(range(2)):
                train()

    record()
    (tmp_path / "host.3.json.gz").write_bytes(b"of a larger job")
    with pytest.raises(InputError, match=r"earlier traces; found device.0.json.gz, host.0.json.gz, host.3.json.gz"):
        record()
    record(force=True)
    assert {file.name for file in tmp_path.iterdir()} == FILES


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"the folder holds other files; found thesis.tex"):
        check_observed(tmp_path, Place(0, 1, True), force=True)
    with pytest.raises(InputError, match="this is a file"):
        check_observed(tmp_path / "thesis.tex", Place(0, 1, True), force=False)
    with pytest.raises(InputError, match="this is no name of a folder"):
        check_observed(Path("a\0b"), Place(0, 1, True), force=False)


def test_other_ranks_of_the_job_may_have_written_before(tmp_path: Path) -> None:
    (tmp_path / "host.1.json.gz").write_bytes(b"")
    check_observed(tmp_path, Place(0, 2, True), force=False)
    with pytest.raises(InputError, match="earlier traces"):
        check_observed(tmp_path, Place(1, 2, True), force=False)
    with pytest.raises(InputError, match="earlier traces"):
        check_observed(tmp_path, Place(0, 1, False), force=False)


@pytest.mark.parametrize("wrong", [{"active": 0}, {"warmup": -1}, {"wait": 1.5}])
def test_a_schedule_counts_steps(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="this is no number of steps"), observe(tmp_path, **wrong):
        pass


def test_without_pytorch_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"PyTorch cannot be imported.*pip install chakrasim\[torch\]"
    with pytest.raises(InputError, match=message), observe(tmp_path):
        pass


def test_waiting_for_ranks_ends(tmp_path: Path) -> None:
    (tmp_path / "manifest.1.json").write_text("{}")
    assert await_ranks(tmp_path, 3, 0) == [0, 2]
    assert await_ranks(tmp_path, 2, 0) == [0]
