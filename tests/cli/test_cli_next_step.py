"""What commands say comes next: said only to people, and it works as it stands."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from chakrasim.cli.main import COMMANDS, main
from chakrasim.cli.next_step import STEPS
from chakrasim.collect.observing.verdict import print_verdict
from chakrasim.demo import TRACES

NEXT = "next: "


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TRACES, "recorded")


def after(command: str, code: int = 0) -> str:
    """What a person reads last when the command has run, on standard error but for `trace`."""
    said = sys.stderr = Terminal()
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            assert main(shlex.split(command)) == code, (command, said.getvalue())
    finally:
        sys.stderr = sys.__stderr__
    lines = [line for line in re.split(r"[\r\n]|\x1b\[\d*[A-Z]", said.getvalue()) if line.startswith(NEXT)]
    if command.startswith("trace "):
        return shown.getvalue().partition("next, for instance:\n")[2].splitlines()[0].strip()
    assert len(lines) == 1, (command, said.getvalue())
    return lines[0].removeprefix(NEXT)


def chain(command: str, most: int = 12) -> list[str]:
    """Run a command, and what it says comes next, until that is no command or was there before."""
    said: list[str] = []
    while len(said) < most:
        said.append(after(command))
        if not said[-1].startswith("chakrasim ") or said[-1] in said[:-1]:
            return said
        command = said[-1].removeprefix("chakrasim ")
    raise AssertionError(said)


def test_from_a_recording_to_a_timeline() -> None:
    simulated = "simulate recorded-chakra/chakra --comm-group recorded-chakra/comm_group.json --machine hgx-h100-4"
    assert chain("doctor recorded") == [
        "chakrasim trace recorded -o recorded-chakra",
        "chakrasim simulate recorded-chakra/chakra --replay-durations",
        f"chakrasim {simulated}",
        f"chakrasim {simulated} --timeline step.json.gz",
        "open step.json.gz at https://ui.perfetto.dev",
    ]
    assert Path("step.json.gz").is_file()
    assert after("doctor recorded") == "chakrasim trace recorded -o recorded-2-chakra"


def test_from_linked_traces_to_a_picture() -> None:
    assert chain("link recorded -o linked") == [
        "chakrasim convert PyTorch -i linked/linked.0.json -o linked/linked.0.et",
        "chakrasim info linked/linked.0.et",
        "chakrasim draw linked/linked.0.et -o linked/linked.0.et.svg",
        "look at linked/linked.0.et.svg",
    ]


def test_from_a_made_job_to_a_timeline() -> None:
    assert chain("generate collective --type all_reduce --size 1MiB --ranks 8 -o 'a job/x'")[0] == (
        "chakrasim simulate 'a job/x' --machine hgx-h100-8"
    )
    assert chain("retarget 'a job/x' --to 16 -o larger")[0] == "chakrasim simulate larger --machine hgx-h100-16"
    assert chain("generate collective --type all_reduce --size 1MiB --ranks 7 -o seven")[0] == "chakrasim machines"
    assert after("simulate larger --machine hgx-h100-16 --check") == "chakrasim simulate larger --machine hgx-h100-16"


@pytest.mark.parametrize(
    "command",
    [
        "analyze summary recorded",
        "analyze collectives recorded",
        "analyze critical-path recorded/device.0.json.gz",
        "info recorded/device.0.json.gz",
        "generate reference-set --num-npus 2 --output-dir set",
        "timeline recorded -o t.json",
        "machines",
        "replay x --dry-run",
        "merge x -o m.et",
        "split m.et -o parts",
        "jsonize x.0.et -o x.json",
        "draw x.0.et -o x.svg",
        "convert Text --num-npus 8 --num-passes 1 -i w.txt -o w",
    ],
)
def test_what_is_next_works(command: str) -> None:
    main(["generate", "collective", "--type", "all_reduce", "--size", "64", "--ranks", "2", "-o", "x", "--expand"])
    main(["merge", "x", "-o", "m.et"])
    Path("w.txt").write_text("DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 64 5\n")
    assert chain(command)


def test_what_is_next_is_for_the_kind_of_file() -> None:
    assert chain("info recorded/host.0.json.gz")[:3] == [
        "chakrasim link --host recorded/host.0.json.gz -o linked.json",
        "chakrasim convert PyTorch -i linked.json -o linked.et",
        "chakrasim info linked.et",
    ]
    assert after("info linked.json") == "chakrasim convert PyTorch -i linked.json -o linked-2.et"
    pair = "recorded/host.0.json.gz recorded/device.0.json.gz"
    assert chain(f"analyze collectives {pair} recorded/device.1.json.gz")[0] == (
        "chakrasim analyze summary recorded/device.0.json.gz recorded/device.1.json.gz"
    )
    host, device = pair.split()
    command = f"link --host {host} --device {device} -o reference.json"
    assert main([*command.split(), "--compat", "chakra"]) == 0
    said = after("info reference.json")
    assert said == "chakrasim convert PyTorch -i reference.json -o reference.et --compat chakra"
    assert main(shlex.split(said)[1:]) == 0
    assert after("machines h100") == "simulate --device-profile takes a file like it"
    assert after("machines hgx-h100-8") == "simulate --machine takes a file like it"


def test_what_is_next_reads_as_was_read() -> None:
    Path("map.json").write_text('{"0": {"device": "device.1.json.gz"}}')
    said = after("doctor recorded --map map.json", code=1)
    assert said == "chakrasim trace recorded --map map.json -o recorded-chakra"
    assert main(shlex.split(said)[1:]) == 0
    for name in ("device.0.json.gz", "host.0.json.gz"):
        damaged = gzip.decompress(Path("recorded", name).read_bytes()).replace(b"},", b"}", 1)
        Path("recorded", name).write_bytes(gzip.compress(damaged))
    assert chain("info --lenient recorded/device.0.json.gz")[0] == (
        "chakrasim analyze summary recorded/device.0.json.gz --lenient"
    )
    said = after("doctor recorded", code=1)
    assert said == "chakrasim trace recorded -o recorded-2-chakra --lenient"
    assert main(shlex.split(said)[1:]) == 0


def test_the_verdict_on_what_was_collected_names_commands_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    Path("recorded").rename("what was recorded")
    assert print_verdict(Path("what was recorded"), 0, 0.0) is not None
    looked, made = re.findall(r"chakrasim (.*?)  ?(?:shows|-o OUT)", capsys.readouterr().out)
    assert [shlex.split(words) for words in (looked, made)] == [
        [word, "what was recorded"] for word in ("doctor", "trace")
    ]


PROGRAM = """
import torch, torch.distributed
torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_what_is_next_after_a_capture_and_the_demo_works() -> None:
    pytest.importorskip("torch")
    Path("train.py").write_text(PROGRAM)
    assert chain("capture train.py --world-size 8 -o job")[0] == "chakrasim simulate job --machine hgx-h100-8"
    assert chain("demo --out shown")[0] == "chakrasim simulate shown/chakra/chakra --replay-durations"


def test_every_command_has_something_to_say() -> None:
    assert {*STEPS} == {*COMMANDS}


def test_scripts_and_the_quiet_hear_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["generate", "collective", "--type", "all_reduce", "--size", "64", "--ranks", "8", "-o", "x"]
    assert main(job) == 0
    assert "next:" not in "".join(capsys.readouterr())
    for more in (["--quiet"], ["--json", "-"]):
        said = sys.stderr = Terminal()
        try:
            assert main([*job, *more]) == 0
        finally:
            sys.stderr = sys.__stderr__
        assert "next:" not in said.getvalue()
        shown = capsys.readouterr().out
        assert json.loads(shown) if "--json" in more else not shown
