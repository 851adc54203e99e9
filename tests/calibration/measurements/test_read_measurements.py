"""Files and folders are told apart by what is in them; damaged ones by their messages."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from made_logs import Form, log

from chakrasim import InputError
from chakrasim.calibration.measurements.csv_folder import read_folder
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes

SHIPPED = Path(read_folder.__code__.co_filename).parents[2] / "validation" / "collectives"
MADE = [(8, 17.93, 17.72), (1 << 20, 164.3, 187.7)]
LOG = log(MADE, "all_reduce", 8, 1, Form())
CSV = "collective,nranks,bytes,time_us\nall_gather,8,1024,20\n"


def test_everything_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(log(MADE, "alltoall", 8, 1, Form()).encode()))
    (tmp_path / "c.csv").write_text(CSV)
    (tmp_path / "notes.md").write_text("not read")
    found = read_measurements([tmp_path, SHIPPED])
    assert {curve.collective for curve in found.curves[-2:]} == {"all_reduce", "alltoall"}
    assert len(found.curves) == 237 + 3
    assert len(found.machines) == 13 + 1
    assert len({curve.name for curve in found.curves}) == 240


def test_runs_in_two_files_are_pooled(tmp_path: Path) -> None:
    """Only if they have one source: a file is one."""
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text(LOG.replace("17.93", "19.93"))
    found = read_measurements([tmp_path / "a.log", tmp_path / "b.log"])
    assert [curve.name for curve in found.curves] == ["a-all_reduce-N1-n8", "b-all_reduce-N1-n8"]
    again = read_measurements([tmp_path / "a.log", tmp_path / "a.log"], notes := Notes())
    assert len(again.curves) == 1 and "4 points were measured again" in notes.warnings[0]


def test_what_ships_with_the_package() -> None:
    notes = Notes()
    found = read_measurements(SHIPPED, notes)
    assert len(found.curves) == 237 and len(found) == 18_567 and len(notes) == 0
    assert {curve.source for curve in found.curves} == {
        *("aiconfigurator", "aws-p4d", "h100-clusters", "cscs-alps", "vidur"),
    }
    readme = (SHIPPED / "README.md").read_text()
    assert all(f"| `{curve.source}` |" in readme for curve in found.curves)
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 500_000


def test_shipped_points_are_the_published_ones(shared_dir: Path) -> None:
    published = {curve.name: curve for curve in read_folder(shared_dir / "validation" / "collectives").curves}
    for curve in read_folder(SHIPPED).curves:
        other = published[curve.name]
        assert curve.time_us.tolist() == other.time_us.tolist() and curve.bytes.tolist() == other.bytes.tolist()


def test_line_ends_and_strange_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\xef\xbb\xbf\xff\xfe strange \xe2\x82\r\n" + LOG.replace("\n", "\r\n").encode())
    assert len(read_measurements(path).curves[0]) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; expected a log of nccl-tests"),
        (b" \n\n", "the file is empty"),
        (b"hello\nworld\n", "there are no measurements in this file; found a text file beginning 'hello'"),
        (b"\0\1\2" * 100, "this is no text; found a zero byte"),
        (b"\x7fELF" + b"x" * 50, "this is no text; found a program"),
        (LOG.encode("utf-16"), "this is no text; found text in UTF-16"),
        (b"PK\x03\x04" + b"x" * 50, "this is no text; found a zip archive"),
        (gzip.compress(LOG.encode(), mtime=0)[:-30], "the gzip data are damaged; found the data end early"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"\x1f\x8b" + b"x" * 100, "the gzip data are damaged"),
        (gzip.compress(gzip.compress(LOG.encode(), mtime=0), mtime=0), "this is no text; found gzip data inside gzip"),
        (b'{"traceEvents": [{"ph": "X"}]}', "found a JSON file that looks like a Kineto"),
        (b"\x07\n\x050.0.4", "this is no text|no measurements"),
        (LOG.split("float")[0].encode(), "there are no measurements in this file"),
        (LOG.replace("float", "quad").encode(), "there are no measurements in this file"),
        (LOG.replace("all_reduce_perf", "dance_perf").encode(), "no such collective is known: 'dance_perf'"),
    ],
)
def test_files_without_measurements(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        read_measurements(path)
    assert refused.value.file == str(path)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_measurements(tmp_path / "nothing")
    with pytest.raises(InputError, match="the folder has no measurements"):
        read_measurements(tmp_path)
    with pytest.raises(InputError, match="no measurements are named"):
        read_measurements([])
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(InputError, match="this is no regular file; found a named pipe"):
        read_measurements(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "points.csv").write_text("curve,place,bytes\n")
    with pytest.raises(InputError, match=r"the folder has no curves\.csv"):
        read_measurements(tmp_path / "data")


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOG.encode() + b"x" * (5 << 20) + b"\n")
    assert len(read_measurements(path).curves[0]) == 4
