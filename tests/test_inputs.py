"""Every reader opens regular files only and takes no more memory than its bound, which can be raised."""

from __future__ import annotations

import gc
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chakrasim.analysis.critical_path.overlay import write_overlay
from chakrasim.calibration.measured import read_measured
from chakrasim.cli.main import main
from chakrasim.collectives.custom.msccl_xml import read_msccl
from chakrasim.compat.astra_sim.read_log import log_lines
from chakrasim.compat.chakra_convert.convert import convert_compat
from chakrasim.converter.text_workload.read import read_workload
from chakrasim.diagnosis.files.discover import survey
from chakrasim.diagnosis.files.sniff import sniff
from chakrasim.errors import InputError
from chakrasim.files import json_head
from chakrasim.files.inputs import VARIABLE, bound
from chakrasim.machine import load_groups, load_machine
from chakrasim.notes import Notes
from chakrasim.trace import TraceBuilder, encode_trace, read_trace
from chakrasim.trace.host.read import read_host
from chakrasim.trace.job.file import read_job
from chakrasim.trace.kineto.read import read_kineto
from chakrasim.trace.linked.file import read_linked

MANY = 10 << 20
EVENTS = b'{"schemaVersion": 1, "traceEvents": [' + b"{}," * MANY + b"{}]}"
NODES = b'{"schema": "1.1.1", "pid": 1, "nodes": [' + b'{"id":1},' * (MANY // 3) + b'{"id":2}]}'
LINKED = b'{"schema":"chakrasim-linked-1","x": [' + b"[]," * MANY + b"[]]}"

READERS: dict[str, Callable[[str], Any]] = {
    "x.et": read_trace,
    "device.json": read_kineto,
    "host.json": read_host,
    "linked.json": read_linked,
    "reference.json": lambda path: convert_compat(path, f"{path}.et"),
    "traced.json": lambda path: write_overlay(path, f"{path}.out", set(), [], True),
    "x.ranks.json": read_job,
    "text.txt": read_workload,
    "x.xml": read_msccl,
    "machine.yaml": lambda path: load_machine(path, Notes()),
    "groups.json": lambda path: load_groups(path, Notes()),
    "simulation.log": lambda path: list(log_lines(path)),
    "map.json": lambda path: survey(Path(path).parent, map_file=path),
    "layers.csv": lambda path: read_measured(Path(path).parent, Notes()),
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError("a reader waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(name: str, path: Path) -> str:
    with pytest.raises(InputError) as caught:
        READERS[name](str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_by_name_and_never_waited_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    said = refusal(name, path)
    assert said.startswith(f"{path}: this is no regular file; found a named pipe; expected "), said
    assert said.endswith("; write what comes out of it into a file, and name that")
    for device in ("/dev/zero", "/dev/full", "/dev/null"):
        path.unlink()
        path.symlink_to(device)
        said = refusal(name, path)
        assert said.startswith(f"{path}: this is no regular file; found a device; expected "), said
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert "this is no regular file; found a socket; expected " in refusal(name, path)
    path.unlink()
    path.symlink_to(path.name)
    assert "oo many levels of symbolic links" in refusal(name, path)
    path.unlink()
    path.mkdir()
    assert "folder" in refusal(name, path) or "irectory" in refusal(name, path) or name == "layers.csv"


def test_a_folder_with_pipes_and_devices_is_looked_through(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "host.0.json")
    (tmp_path / "device.0.json").symlink_to("/dev/zero")
    assert survey(tmp_path).ranks == ()
    assert sniff(tmp_path / "host.0.json").note == "it cannot be read: this is no regular file"


def test_a_configuration_may_come_out_of_a_pipe_that_the_shell_made(tmp_path: Path) -> None:
    here, there = os.pipe()
    os.write(there, b'{"1": [0, 1]}')
    os.close(there)
    try:
        assert dict(load_groups(f"/dev/fd/{here}", Notes()).members) == {1: (0, 1)}
    finally:
        os.close(here)


def empty_nodes(count: int) -> bytes:
    """A trace of so many nodes, all of number 0, of three bytes each."""
    return b"\0" + b"\2\x08\0" * count


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["x.et", "device.json", "host.json", "linked.json", "x.ranks.json", "text.txt"])
@pytest.mark.parametrize("size_bytes", [1 << 33, 1 << 42])
def test_a_hole_is_no_file_to_be_read(name: str, size_bytes: int, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(size_bytes)
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        said = refusal(name, tmp_path / name)
        gc.collect()
    assert not unclosed
    assert "this file may take" in said or "nothing but zeros" in said, said


@pytest.mark.parametrize(
    ("name", "data"),
    [("x.et", empty_nodes(MANY)), ("device.json", EVENTS), ("host.json", NODES), ("linked.json", LINKED),
     ("reference.json", LINKED), ("simulation.log", b"some other line\n" * (MANY // 2))],
)  # fmt: skip
def test_a_small_file_that_grows_is_refused(
    name: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    monkeypatch.setenv(VARIABLE, "64MiB")
    said = refusal(name, path)
    pattern = (
        r"takes more memory than reading this file may take; found [0-9,]+ bytes or more; expected at most [0-9,]+; "
    )
    assert re.search(pattern, said), said
    assert said.endswith(f"set the environment variable {VARIABLE}, for instance to 32GiB, if this is meant")


def test_the_bound_follows_from_the_file_and_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound(1000).bytes == (1 << 30) + 256_000
    assert bound(1000, 5).bytes == 5
    monkeypatch.setenv(VARIABLE, "32GiB")
    assert bound(1000).bytes == 32 << 30
    monkeypatch.setenv(VARIABLE, "1.5 gib")
    assert bound(1000).bytes == 3 << 29
    monkeypatch.setenv(VARIABLE, "3 lots")
    with pytest.raises(InputError, match=f"{VARIABLE}: this is no size; found '3 lots'; expected bytes, such as 32GiB"):
        bound(1000)
    path = tmp_path / "x.et"
    path.write_bytes(gzip.compress(empty_nodes(999_999), 9, mtime=0))
    monkeypatch.setenv(VARIABLE, "64MB")
    assert "the trace takes more memory" in refusal("x.et", path)
    monkeypatch.setenv(VARIABLE, "640MB")
    assert len(read_trace(path)) == 999_999


def test_max_bytes_bounds_the_reading_of_a_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.et"
    path.write_bytes(gzip.compress(empty_nodes(1 << 20), 9, mtime=0))
    words = ["simulate", str(path), "--ranks", "8", "--machine", "hgx-h100-8", "--check"]
    assert main([*words, "--max-bytes", "16MiB"]) == 2
    said = capsys.readouterr().err
    assert f"{path}: the trace takes more memory than reading this file may take; found " in said
    assert said.endswith("expected at most 16,777,216; raise max_bytes (--max-bytes) if this is meant\n")
    main([*words, "--max-bytes", "1GiB"])
    assert "two nodes have the id 0" in capsys.readouterr().err  # it was read


def test_a_file_of_many_small_compressed_parts_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "x.et"
    path.write_bytes(gzip.compress(b"", mtime=0) * 200_000 + gzip.compress(b"\0\0", mtime=0))
    assert len(read_trace(path)) == 1


def test_events_without_anything_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    path.write_bytes(b'{"traceEvents": [' + b"{}," * 99_999 + b"{}]}")
    assert read_kineto(path).event_count == 100_000
    path.write_bytes(b'{"schema": "1.1.1", "pid": 1, "nodes": [' + b"{}," * 99_999 + b'{"id": 1}]}')
    assert read_host(path, lenient=True).ids.tolist() == [1]


def test_a_value_before_the_events_is_not_looked_at_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "device.json.gz"
    data = b'{"traceName": [' + b"[]," * (MANY // 200) + b'[]], "traceEvents": []}'
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    note = "damaged JSON: one value fills more than is looked at"
    assert sniff(path).note != note
    monkeypatch.setattr(json_head, "MOST", json_head.MOST // 40)
    assert sniff(path).note == note


def node(kind: int, **attributes: int) -> bytes:
    builder = TraceBuilder(version="0.0.4")
    builder.add(1, name="n", type=kind, duration_micros=1, attrs={"is_cpu_op": False, **attributes})
    return encode_trace(builder.build())


LIMITED = """
import resource, sys
from chakrasim.cli.main import main
from chakrasim.trace import read_trace
from pathlib import Path
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30))
for words in (
    f"draw {folder}/kind.et -o {folder}/p.svg --by stream",
    f"draw {folder}/kind.et -o {folder}/p.dot --by module",
    f"info {folder}/one.et --ranks 2147483647",
    f"simulate {folder}/one.et --ranks 2147483647 --machine hgx-h100-8",
    f"simulate {folder}/one.et --ranks 2147483647 --replay-durations",
    f"info {folder}/zeros.et.gz",
):
    print(main(words.split()), flush=True)
print(int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10)
"""


def test_numbers_in_files_and_options_take_no_memory(tmp_path: Path) -> None:
    (tmp_path / "kind.et").write_bytes(node(2**31 - 1))
    (tmp_path / "one.et").write_bytes(node(7, comm_type=0, comm_size=8))
    (tmp_path / "zeros.et.gz").write_bytes(gzip.compress(empty_nodes(70 << 20), 1, mtime=0))
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if re.fullmatch(r"[0-9]+", line)]
    assert lines[:6] == ["0", "0", "0", "2", "2", "2"], done.stdout + done.stderr
    assert int(lines[6]) < 1200, f"{lines[6]} MiB"
    assert "not enough memory" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "error" in line]
    assert said[0].endswith("2147483647 ranks are asked for, but the network has 8 NPUs; make the two numbers equal")
    assert said[1].endswith("simulate fewer ranks, or raise the limit (max_bytes)")
    assert "zeros.et.gz: the trace takes more memory than reading this file may take" in said[2]
