"""``link``, ``convert`` and ``generate`` from the command line, under our option names and the reference's."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from chakrasim.cli.main import main

DATA = Path(__file__).parents[1] / "data" / "chakra-tools"
PAIR = DATA / "evsync"
TEXT = "DATA\n1\nfc -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files of a pair, unpacked, and a text workload."""
    for name in ("host", "device", "linked"):
        (tmp_path / f"{name}.json").write_bytes(gzip.decompress((PAIR / f"{name}.0.json.gz").read_bytes()))
    (tmp_path / "w.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 2
    return capsys.readouterr().err


LINK = ("link", "--chakra-host-trace", "host.json", "--chakra-device-trace", "device.json", "--rank", "0")


def test_the_compatible_chain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LINK, "--output-file", "L.json", "--compat", "chakra"]) == 0
    assert json.loads((folder / "L.json").read_text()) == json.loads((folder / "linked.json").read_text())
    assert main(["convert", "PyTorch", "--input", "L.json", "--output", "X.et", "--compat", "chakra"]) == 0
    expected = gzip.decompress((PAIR / "chakra.0.et.gz").read_bytes())
    assert (folder / "X.et").read_bytes() == expected
    assert capsys.readouterr().out == "L.json: 18 nodes\nX.et: 17 nodes\n"
    # Without the word, and over what is there.
    assert main(["convert", "--input", "linked.json", "--output", "X.et", "--compat", "chakra", "--quiet"]) == 0
    assert (folder / "X.et").read_bytes() == expected
    assert not (folder / "debug.log").exists()


def test_the_compatible_chain_imports_neither_numpy_nor_numba(folder: Path) -> None:
    code = (
        "import sys; from chakrasim.cli.main import main;"
        "code = main(['convert', '--input', 'linked.json', '--output', 'X.et', '--compat', 'chakra']);"
        "sys.exit(code or bool({'numpy', 'numba'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_converting_a_linked_trace_loads_no_compiler(folder: Path) -> None:
    assert main([*LINK, "-o", "L.json", "--quiet"]) == 0
    code = (
        "import sys; from chakrasim.cli.main import main;"
        "code = main(['convert', 'L.json', '-o', 'X.et']); sys.exit(code or 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_default_chain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LINK, "-o", "L.json", "--quiet"]) == 0
    assert main(["convert", "L.json", "-o", "X.et", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["output"] == "X.et" and content["nodes"] > 17


@pytest.mark.parametrize(
    ("before", "after"),
    [(["--log-filename", "s.log"], []), ([], ["--log-filename", "s.log"]), (["--log-filename=s.log"], [])],
)
def test_simulate_writes_the_log_that_was_asked_for(
    before: list[str], after: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*before, "convert", *after, "PyTorch", "--input", "linked.json", "--output", "X.et", "--compat", "chakra"]
    assert main([*argv, "--simulate"]) == 0
    assert "completed at" in (folder / "s.log").read_text()
    assert "simulated end at" in capsys.readouterr().out


def test_simulate_without_a_log_file_writes_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(folder.iterdir())
    argv = ["convert", "--input", "linked.json", "--output", "X.et", "--compat", "chakra", "--simulate"]
    assert main(argv) == 0
    assert {path.name for path in set(folder.iterdir()) - before} == {"X.et"}
    assert "17 nodes\nsimulated end at" in capsys.readouterr().out


def test_text_workloads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["convert", "Text", "--input", "w.txt", "--output", "X", "--num-npus", "2", "--num-passes", "1"]
    assert main([*argv, "--compat", "chakra"]) == 0
    compat = [(folder / f"X.{rank}.et").read_bytes() for rank in (0, 1)]
    assert compat[0] != compat[1]  # ids run on
    assert main([*argv, "--force", "--quiet"]) == 0
    default = [(folder / f"X.{rank}.et").read_bytes() for rank in (0, 1)]
    assert default[0] == default[1]
    assert capsys.readouterr().out == "X.0.et to X.1.et: 6 nodes\n"


def test_groups_of_a_text_workload_get_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "w.txt").write_text("HYBRID_TRANSFORMER g: 2\n1\nfc -1 5 ALLREDUCE 8 5 NONE 0 5 ALLREDUCE 8 0\n")
    assert main(["convert", "Text", "w.txt", "-o", "X", "--num-npus", "4", "--num-passes", "1"]) == 0
    groups = json.loads((folder / "X.comm_group.json").read_text())
    assert groups == {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
    assert "X.comm_group.json: 4 communicator groups" in capsys.readouterr().out


def test_generate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "reference-set", "--num-npus", "1", "--default_runtime", "9"]) == 0
    assert len(list(folder.glob("*.0.et"))) == 14
    assert capsys.readouterr().out == ".: 14 traces\n"
    assert "add --force" in fails(capsys, "generate", "reference-set", "--num-npus", "1")


def test_existing_output_is_kept_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "X.1.et").write_text("mine")
    argv = ["convert", "Text", "w.txt", "-o", "X", "--num-npus", "2", "--num-passes", "1"]
    assert "X.1.et: the output exists; add --force" in fails(capsys, *argv)
    assert "linked.json: the output exists" in fails(capsys, *LINK, "-o", "linked.json")
    assert "would replace an input" in fails(capsys, *LINK, "-o", "host.json", "--force")
    assert (folder / "X.1.et").read_text() == "mine" and not (folder / "X.0.et").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["convert", "pytorch", "linked.json", "-o", "X"], "unexpected word 'pytorch'.*did you mean PyTorch?"),
        (["convert", "TEXT", "--input", "w.txt", "-o", "X"], "unexpected word 'TEXT'.*did you mean Text?"),
        (["convert", "-o", "X"], "no input is given"),
        (["convert", "Text", "w.txt", "-o", "X"], "a text workload needs --num-npus"),
        (["convert", "Text", "w.txt", "-o", "X", "--num-npus", "2"], "a text workload needs --num-passes"),
        (["convert", "linked.json", "-o", "X", "--num-npus", "2"], "--num-npus cannot be used with PyTorch"),
        (["convert", "linked.json", "-o", "X", "--simulate"], "--simulate needs --compat chakra"),
        (["convert", "linked.json", "-o", "X", "--input-file", "y"], "unknown option or argument '--input-file'"),
        ([*LINK, "--output-fil", "L.json"], "the following arguments are required"),
        (["link", "--host", "host.json", "-o", "L.json", "--compat", "chakra"], "needs --chakra-device-trace"),
        ([*LINK, "-o", "L.json", "--compat", "chakra", "--step", "3"], "--step cannot be used with --compat"),
        (["generate"], "the following arguments are required: KIND"),
    ],
)
def test_unusable_options_are_refused(
    argv: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    assert re.search(message, fails(capsys, *argv), re.DOTALL)
