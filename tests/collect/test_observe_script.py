"""``chakrasim collect``: unmodified scripts, in one process and on ranks."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("torch")

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.trace.linked.columns import OPERATION_NAMES, LinkedTrace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRAIN = """
    import sys, gc, torch
    from helper import WIDTH
    model = torch.nn.Linear(WIDTH, 4)
    first = torch.optim.AdamW(model.parameters())
    second = torch.optim.SGD(model.parameters(), lr=0.1)
    done = 0
    for number in range(int(sys.argv[1])):
        model(torch.ones(2, WIDTH)).sum().backward()
        first.step()
        second.step()
        done += 1
    open(sys.argv[2], "w").write(f"{done} {__name__} {gc.isenabled()} {sys.argv[0]}")
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def script(folder: Path, text: str = TRAIN) -> str:
    (folder / "helper.py").write_text("WIDTH = 8\n")
    (folder / "train.py").write_text(dedent(text))
    return str(folder / "train.py")


def steps_of(folder: Path) -> list[int]:
    recorded: list[int] = json.loads((folder / "manifest.0.json").read_text())["recorded_steps"]
    return recorded


def test_an_unmodified_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, out, said = script(tmp_path), tmp_path / "t", tmp_path / "said"
    path = list(sys.path)
    assert main(["collect", program, "-o", str(out), "--active", "2", "--", "7", str(said)]) == 0
    assert said.read_text() == f"7 __main__ True {program}"
    assert sys.path == path
    assert steps_of(out) == [3, 4]
    assert "1 rank: trustworthy" in capsys.readouterr().out
    # A step ends when the first optimizer has stepped, and with its annotation.
    events = json.loads(gzip.decompress((out / "device.0.json.gz").read_bytes()))["traceEvents"]
    spans = [(e["name"], float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e.get("ph") == "X"]
    for name, begin, end in spans:
        if name.startswith("ProfilerStep"):
            inside = [other for other, start, stop in spans if begin < start and stop < end]
            assert Counter(inside)["Optimizer.step#AdamW.step"] == 1
            assert Counter(inside)["Optimizer.step#SGD.step"] <= 1


def test_stop_ends_the_script_once_it_is_recorded(tmp_path: Path) -> None:
    program, said = script(tmp_path), tmp_path / "said"
    assert main(["collect", program, "-o", str(tmp_path / "t"), "--stop", "--", "1000000", str(said)]) == 0
    assert not said.exists()
    assert steps_of(tmp_path / "t") == [3, 4, 5]


def test_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["collect", "-m", "train", "-o", "t", "--no-verdict", "--", "7", "said"]) == 0
    assert steps_of(tmp_path / "t") == [3, 4, 5]


def test_too_few_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, said = script(tmp_path), str(tmp_path / "said")
    assert main(["collect", program, "-o", str(tmp_path / "t"), "--", "5", said]) == 0
    assert "warning: the loop ended after 5 steps: 2 of 3 steps were recorded" in capsys.readouterr().err
    assert main(["collect", program, "-o", str(tmp_path / "u"), "--", "2", said]) == 2
    assert "nothing was recorded: the loop ended after 2 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('bad')", "train.py: the program failed; found ValueError: bad; see its traceback"),
        ("raise SystemExit(3)", "train.py: the program ended with an exit status; found 3"),
        ("print('no training')", "train.py: no step was seen: no optimizer of torch.optim stepped in this process"),
        ("this is no Python", "train.py: the program failed; found SyntaxError"),
    ],
)
def test_what_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    assert main(["collect", script(tmp_path, text), "-o", str(tmp_path / "t")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert ("Traceback" in said) == ("failed" in message)
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").iterdir())


def test_wrong_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["collect", str(tmp_path / "none.py"), "-o", str(tmp_path / "t")]) == 2
    assert "none.py: there is no such script" in capsys.readouterr().err
    (tmp_path / "foreign").write_text("")
    assert main(["collect", script(tmp_path), "-o", str(tmp_path)]) == 2
    assert "the folder holds other files" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    assert main(["collect", script(tmp_path), "--nproc", "2", "-o", str(tmp_path / "t")]) == 2
    assert "--nproc starts the ranks, and this is one already" in capsys.readouterr().err


# -- ranks -------------------------------------------------------------------------------------------------------------


def collect(ranks: int, program: str, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chakrasim", "collect", program, "--nproc", str(ranks), "-o", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, "--", *arguments], capture_output=True, text=True, env=environment, timeout=300)


def recorded(out: Path, done: subprocess.CompletedProcess[str]) -> str:
    """What was said of a recording without a fault, but for what a busy machine does to the times of small steps."""
    warned = {finding.code for finding in cs.doctor(out).findings if finding.severity.name != "NOTE"}
    assert warned <= {"unexplained-delays", "uneven-steps"}, done.stdout
    assert done.returncode == bool(warned), done.stderr
    return done.stdout


def linked(out: Path, ranks: int) -> list[LinkedTrace]:
    return [cs.link(out / f"host.{rank}.json.gz", out / f"device.{rank}.json.gz") for rank in range(ranks)]


def collectives(trace: LinkedTrace) -> Counter[tuple[str, str]]:
    """(operation, description of the group) of each entry."""
    found = trace.communication
    groups = [trace.groups[group].description if group >= 0 else "?" for group in found.group.tolist()]
    return Counter(zip([OPERATION_NAMES[one] for one in found.operation.tolist()], groups, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("example", ["fsdp2", "ddp", "tp", "pp"])
def test_examples_on_two_ranks(tmp_path: Path, example: str) -> None:
    out = tmp_path / "t"
    done = collect(2, str(EXAMPLES / f"train_{example}.py"), out, "--size", "tiny", "--steps", "7")
    assert "  2 ranks: " in recorded(out, done)
    traces = linked(out, 2)
    for rank, trace in enumerate(traces):
        host = gzip.decompress((out / f"host.{rank}.json.gz").read_bytes())
        assert len(trace.communication) == host.count(b'"name": "gloo:') > 0
        assert set(trace.communication.group.tolist()) == {0}
    made = cs.trace_directory(out, tmp_path / "out")
    assert [rank.steps for rank in made.ranks] == [(3, 4, 5)] * 2
    steps = cs.replay_recorded(str(tmp_path / "out" / "chakra"), "transfer").steps
    assert len(steps) == 6
    assert all(abs(step.simulated_ns / step.measured_ns - 1) < 0.1 for step in steps)


@pytest.mark.slow
def test_modules_do_not_come_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But they do come from the folder of the program, as when Python runs it."""
    (tmp_path / "here").mkdir()
    for name in ("argparse", "numpy", "torch", "chakrasim"):
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(Path(cs.__file__).parents[1]))
    program, said = script(tmp_path), tmp_path / "said"
    words = ["collect", program, "--nproc", "1", "-o", str(tmp_path / "t"), "--no-verdict"]
    assert main([*words, "--", "7", str(said)]) == 0
    assert said.read_text() == f"7 __main__ True {program}"
    assert (tmp_path / "t" / "manifest.0.json").exists()
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
def test_groups_that_gloo_does_not_record(tmp_path: Path) -> None:
    """Two groups with the same members, so that nothing but the annotations tells them apart."""
    program = script(
        tmp_path,
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        data, other = dist.new_group([0, 1], group_desc="data"), dist.new_group([0, 1], group_desc="other")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8), process_group=data)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            model(torch.ones(2, 8)).sum().backward()
            dist.all_reduce(torch.ones(5), group=other)
            dist.all_reduce(torch.ones(6))
            dist.all_gather_into_tensor(torch.empty(8), torch.ones(4), group=other)
            optimizer.step()
        dist.destroy_process_group()
        """,
    )
    recorded(tmp_path / "t", collect(2, program, tmp_path / "t"))
    for trace in linked(tmp_path / "t", 2):
        assert collectives(trace) == {
            ("all_reduce", "data"): 3,
            ("all_reduce", "other"): 3,
            ("all_reduce", "default_pg"): 3,
            ("all_gather", "other"): 3,
        }


@pytest.mark.slow
def test_a_rank_that_fails(tmp_path: Path) -> None:
    text = """
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        if os.environ["RANK"] == "1":
            raise RuntimeError("out of luck")
    """
    done = collect(2, script(tmp_path, text), tmp_path / "t")
    assert done.returncode == 2
    assert "RuntimeError: out of luck" in done.stderr
    assert "the ranks failed" in done.stderr


WORKERS = """
    import torch
    from torch.utils.data import DataLoader
    data = [torch.full((4,), float(number)) for number in range(64)]
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        for batch in DataLoader(data, 32, num_workers=1, multiprocessing_context="fork"):
            model(batch + 1).sum().backward()
        optimizer.step()
"""


def test_workers_that_are_forked_while_recording_write_nothing(tmp_path: Path) -> None:
    assert main(["collect", script(tmp_path, WORKERS), "-o", str(tmp_path / "t")]) == 0
    host = json.loads(gzip.decompress((tmp_path / "t" / "host.0.json.gz").read_bytes()))
    numbers = [node["id"] for node in host["nodes"]]
    assert len(numbers) == len(set(numbers))
