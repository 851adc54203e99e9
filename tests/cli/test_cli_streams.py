"""Standard streams that are closed, full or not read, and amounts that a float would round."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from chakrasim import write
from chakrasim.cli.options import amount
from chakrasim.trace import TraceBuilder

SOURCE = Path(__file__).resolve().parents[2] / "src"
GENERATE = ("generate", "collective", "--type", "all_reduce", "--ranks", 2)
REFUSED = b"chakrasim: error: standard output: the operating system refuses: Bad file descriptor\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of one node."""
    builder = TraceBuilder()
    builder.add(0, "alone", type=4, duration_micros=3, attrs={"is_cpu_op": False})
    write(tmp_path / "step", [builder.build()])
    return tmp_path / "step.0.et"


def run(redirection: str, *argv: object) -> subprocess.CompletedProcess[bytes]:
    """The command under a shell that closes or redirects its streams, which are buffered as they usually are."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(SOURCE)]))
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "chakrasim", *map(str, argv)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, env={**env, "PYTHONPATH": path}, capture_output=True, check=False, timeout=120)


@pytest.mark.parametrize("command", ["info", "machines"])
def test_a_closed_output_is_an_error_that_is_said(command: str, trace: Path) -> None:
    done = run(">&-", command, *[trace] * (command == "info"))
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", REFUSED)


def test_what_goes_to_a_closed_standard_error_does_not_go_to_the_output(tmp_path: Path) -> None:
    done = run("2>&-", "info", tmp_path / "nosuch.et")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", "<&-", "2>&-"])
def test_files_are_written_whatever_is_closed(streams: str, tmp_path: Path) -> None:
    done = run(streams, *GENERATE, "--size", 1, "-o", tmp_path / "a", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.class-0.et", "a.ranks.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-"])
def test_warnings_that_cannot_be_told_do_not_end_a_run(streams: str, tmp_path: Path, trace: Path) -> None:
    machine = tmp_path / "machine.yaml"
    dimension = "{topology: Ring, npus: 2, bandwidth: 1 GB/s, latency: 1 ns}"
    machine.write_text(f"network: [{dimension}]\ncollectives: {{splits: 1}}\n")
    normal = run("", "simulate", trace, "--ranks", 2, "--machine", machine)
    assert b"warning" in normal.stderr
    done = run(streams, "simulate", trace, "--ranks", 2, "--machine", machine)
    assert (done.returncode, done.stdout) == (0, normal.stdout)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device(trace: Path) -> None:
    done = run(">/dev/full", "info", trace)
    assert done.returncode == 2
    assert done.stderr == b"chakrasim: error: the operating system refuses: No space left on device\n"
    assert run(">/dev/full 2>/dev/full", "info", trace).returncode == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 2**53 + 1),
        ("4611686018427387903", 2**62 - 1),
        ("9007199254740993B", 2**53 + 1),
        ("1.000000001GB", 1_000_000_001),
        ("1e18", 10**18),
        ("1.5GiB", 3 << 29),
        ("8TiB", 8 << 40),
    ],
)
def test_amounts_are_exact(text: str, value: int) -> None:
    assert amount(text) == value


@pytest.mark.parametrize("text", ["0", "4611686018427387905", "1e19", "1e99TiB", "-1", "0.5", "1GiB/s", "\u0661"])
def test_amounts_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected an amount"):
        amount(text)


def test_the_size_of_a_collective_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    done = run("", *GENERATE, "--size", 2**53 + 1, "-o", tmp_path / "a", "--json", "-", "--quiet")
    assert done.returncode == 0 and b'"comm_size": 9007199254740993,' in done.stdout
