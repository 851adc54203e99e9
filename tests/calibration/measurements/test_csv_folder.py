"""Folders of curves.csv, points.csv and machines.csv: what is read, what is told, and what is refused."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim import InputError
from chakrasim.calibration.measurements.csv_folder import Holdout, read_folder, read_holdout
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.calibration.measurements.names import bus_factor, spelled
from chakrasim.notes import Notes

SHARED = Path(__file__).parents[4] / "shared" / "validation" / "collectives"
CURVES = """curve,source,machine,gpu,nodes,gpus_per_node,nranks,library,version,collective,algo,proto,env,dtype
a,lab,m1,H100,2,8,16,NCCL,2.27.3,all_reduce,auto,auto,,float
b,lab,m2,B200,1,8,4,NCCL,,all_gather,,,"set 1, sockets",half
"""
POINTS = """curve,place,bytes,time_us,time_lo_us,time_hi_us,n_meas,algbw_GBps,busbw_GBps
a,in,1024,20.5,20,21,3,0.05,0.09
a,out,2048,22,,,,,
a,out,1024,,,,,,
b,out,8,10,10,10,1,,
"""
MACHINES = """machine,gpu,gpus_per_node,intra_node,intra_GBps_per_gpu_per_dir,network,nics_per_node,nic_Gbps,\
node_GBps_per_dir,cpu,basis
m1,H100,8,NVSwitch,450,unknown,,,~108,unknown,measured
m2,B200,8,NVSwitch,900,none,0,0,0,AMD,product data
"""


def write(folder: Path, curves: str = CURVES, points: str = POINTS, machines: str | None = MACHINES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "curves.csv").write_text(curves)
    (folder / "points.csv").write_text(points)
    if machines is not None:
        (folder / "machines.csv").write_text(machines)
    return folder


def read(folder: Path, *told: str, **options: object) -> Measurements:
    """The folder, read with just these warnings and notes (parts of them)."""
    notes = Notes()
    found = read_folder(folder, notes, **options)  # type: ignore[arg-type]
    assert len(notes) == len(told)
    for text, part in zip(notes, told, strict=True):
        assert part in text
    return found


def test_a_folder_is_read(tmp_path: Path) -> None:
    found = read(write(tmp_path))
    a, b = found.curves
    assert (a.name, a.nodes, a.gpus_per_node, a.nranks, a.version, a.collective) == (
        "a",
        2,
        8,
        16,
        "2.27.3",
        "all_reduce",
    )
    assert (b.algo, b.proto, b.env, b.dtype, b.version) == ("auto", "auto", "set 1, sockets", "half", "")
    assert a.place.tolist() == [False, False, True]
    assert a.bytes.tolist() == [1024, 2048, 1024]
    assert np.array_equal(a.time_us, [math.nan, 22, 20.5], equal_nan=True)
    assert a.low_us[2] == 20 and a.high_us[2] == 21
    assert a.repeats.tolist() == [0, 1, 3]
    assert a.sizes.tolist() == [1024, 2048]
    assert a.busbw_GBps[1] == pytest.approx(2048 / 22e3 * 2 * 15 / 16)
    assert len(found) == 4
    one, two = found.machines["m1"], found.machines["m2"]
    assert one.node_GBps_per_dir == 108 and one.approximate == ("node_GBps_per_dir",) and one.nics_per_node is None
    assert two.nics_per_node == 0 and two.node_GBps_per_dir == 0 and two.approximate == ()


def test_some_points_of_a_curve(tmp_path: Path) -> None:
    a = read(write(tmp_path)).curves[0]
    out = a.rows(~a.place)
    assert out.bytes.tolist() == [1024, 2048] and out.name == "a" and len(out) == 2


def test_points_measured_again_are_pooled_and_told(tmp_path: Path) -> None:
    points = "curve,place,bytes,time_us\na,out,8,10\na,out,8,14\na,out,8,\na,out,8,11\na,in,8,\na,in,8,\nb,out,8,3\n"
    a, b = read(write(tmp_path, points=points), "4 points were measured again").curves
    assert a.bytes.tolist() == [8, 8] and a.place.tolist() == [False, True]
    assert a.time_us[0] == 11 and a.low_us[0] == 10 and a.high_us[0] == 14 and a.repeats.tolist() == [3, 0]
    assert math.isnan(a.time_us[1]) and b.time_us.tolist() == [3]


def test_points_of_unknown_curves_and_of_size_0_are_counted(tmp_path: Path) -> None:
    points = POINTS + "zz,out,8,1,,,,,\na,in,0,1,,,,,\n"
    found = read(
        write(tmp_path, points=points), "1 points are of curves that curves.csv does not have: zz", "1 points of size 0"
    )
    assert len(found) == 4


def test_curves_without_points_are_noted(tmp_path: Path) -> None:
    found = read(write(tmp_path, points="curve,place,bytes,time_us\na,out,8,1\n"), "no points of 1 curves: b")
    assert [len(curve) for curve in found.curves] == [1, 0]


def test_machines_may_be_missing(tmp_path: Path) -> None:
    assert read(write(tmp_path / "1", machines=None), "there is no machines.csv").machines == {}
    short = "\n".join(MACHINES.splitlines()[:2])
    assert list(read(write(tmp_path / "2", machines=short), "no rows of 1 machines that have curves: m2").machines) == [
        "m1"
    ]


def test_nodes_that_are_blank(tmp_path: Path) -> None:
    blank = CURVES.replace("2,8,16", ",8,16").replace("1,8,4", ",,4")
    a, b = read(write(tmp_path, curves=blank), "nothing says on how many nodes some of the ranks were").curves
    assert (a.nodes, a.gpus_per_node) == (2, 8) and (b.nodes, b.gpus_per_node) == (1, 4)


def test_unknown_columns_and_collectives_are_told(tmp_path: Path) -> None:
    curves = (
        CURVES.replace("all_gather", "hop_around")
        .replace("dtype\n", "dtype,colour\n")
        .replace("float\n", "float,red\n")
    )
    curves = curves.replace("half\n", "half,blue\n")
    found = read(
        write(tmp_path, curves=curves), "columns that are not used: colour", "no such collective is known: 'hop_around'"
    )
    assert found.curves[1].collective == "hop_around"
    assert np.isnan(found.curves[1].busbw_GBps).all()


def test_whole_numbers_as_pandas_writes_them_beside_blanks(tmp_path: Path) -> None:
    assert read(write(tmp_path, points=POINTS.replace("1024", "1024.0"))).curves[0].bytes.tolist() == [1024, 2048, 1024]


def test_gzip_and_other_spellings(tmp_path: Path) -> None:
    write(tmp_path, curves=CURVES.replace("all_gather", "AllGather_perf"))
    (tmp_path / "points.csv").unlink()
    (tmp_path / "points.csv.gz").write_bytes(gzip.compress(POINTS.replace(",out,", ",out-of-place,").encode()))
    assert read(tmp_path).curves[1].collective == "all_gather"


def test_names_and_factors_of_collectives() -> None:
    names = [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "alltoall",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "sendrecv",
    ]
    assert [spelled(name) for name in names] == names
    assert [spelled(name + "_perf") for name in names] == names
    assert [bus_factor(name, 4) for name in names] == [1.5, 0.75, 0.75, 0.75, 1, 1, 0.75, 0.75, 1]
    assert spelled("AllToAll") == "alltoall" and spelled("what") == "what"


def test_what_is_held_out_is_not_read(tmp_path: Path) -> None:
    points = POINTS.replace("20.5,20,21,3", "?!,x,y,z").replace("b,out,8,10,10,10,1", "b,out,8,none of it,,,")
    held = tmp_path / "held.csv"
    held.write_text("curve,place,bytes,time_us\na,out,1024.0,never\nb,,,\n")
    holdout = read_holdout(held)
    assert holdout == Holdout(frozenset({"b"}), frozenset({("a", 1024)}))
    folder = write(tmp_path / "data", points=points)
    a, b = read(folder, holdout=holdout).curves
    assert np.array_equal(a.time_us, [math.nan, 22, math.nan], equal_nan=True)
    assert np.isnan(b.time_us).all()
    assert np.isnan(read(folder, times=False).curves[0].time_us).all()
    with pytest.raises(InputError, match="column time_us"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "points.csv",
            "20.5",
            "fast",
            r"line 2, column time_us: this is no such number; found 'fast'; expected a number",
        ),
        ("points.csv", "20.5", "-1", "line 2, column time_us"),
        ("points.csv", "20.5", "inf", "line 2, column time_us"),
        ("points.csv", "20.5", "0", "line 2, column time_us"),
        ("points.csv", ",20,21", ",21,20", "line 2, column time_hi_us: the high time is below the low one"),
        ("points.csv", ",3,0.05", ",2.5,0.05", "line 2, column n_meas"),
        ("points.csv", "2048", "2e400", "line 3, column bytes: this is no such number; found '2e400'"),
        ("points.csv", "2048", "-8", "line 3, column bytes"),
        ("points.csv", "2048", "", "line 3, column bytes"),
        ("points.csv", "a,out,2048", "a,over,2048", "line 3, column place: this is no place; found 'over'"),
        ("points.csv", "22,,,,,", "22,,,,", "line 3: the row has another number of fields than the header; found 8"),
        ("points.csv", "place", "plaice", "line 1: no column place; .*did you mean plaice"),
        ("points.csv", "time_lo_us", "time_us", "two columns have one name"),
        ("curves.csv", "8,16", "8,many", "line 2, column nranks: this is no such number; found 'many'"),
        ("curves.csv", "2,8,16", "0,8,16", "line 2, column nodes"),
        ("curves.csv", "8,16", "8,16000000", "line 2, column nranks: .*expected a whole number from 1 to 10,000,000"),
        ("curves.csv", "2,8,16", "32,8,16", "line 2, column nodes: there are more nodes than ranks"),
        ("curves.csv", "2,8,16", "2,4,16", "line 2, column gpus_per_node: too few for 16 ranks on 2 nodes"),
        ("curves.csv", "b,lab", "a,lab", "line 3, column curve: another curve has this name, on line 2"),
        ("curves.csv", "collective", "kind", "no column collective"),
        ("machines.csv", "~108", "~lots", "line 2, column node_GBps_per_dir"),
        ("machines.csv", ",8,NVSwitch,450", ",8.5,NVSwitch,450", "line 2, column gpus_per_node"),
        ("machines.csv", "m2", "m1", "line 3, column machine: another machine has this name, on line 2"),
    ],
)
def test_what_is_refused(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    path = write(tmp_path) / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message) as refused:
        read_folder(tmp_path)
    assert refused.value.file == str(path)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (b"", "the file is empty"),
        (b"curve,place,bytes\n", "no points of the curves"),
        (b"curve,place,bytes\nzz,in,8\n", "no points of the curves"),
        (b"\x7fELF\x00\x80", "this is not text; found a program"),
        (b"curve,place,bytes\n\xff,in,8\n", "byte 18: this is not text"),
        (b"curve,place,bytes\n\0,in,8\n", "this is not text"),
        (b"curve,place,bytes\n" + b"a" * 200_000 + b",in,8\n", "this is not CSV: field larger than field limit"),
        (gzip.compress(POINTS.encode())[:-20], "the gzip data are damaged"),
    ],
)
def test_files_that_are_no_points(tmp_path: Path, points: bytes, message: str) -> None:
    write(tmp_path)
    (tmp_path / "points.csv").write_bytes(points)
    with pytest.raises(InputError, match=message):
        read_folder(tmp_path)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"the folder has no curves\.csv; expected a folder with"):
        read_folder(tmp_path)
    with pytest.raises(InputError, match="this is no folder"):
        read_folder(write(tmp_path) / "curves.csv")


_TIMES = st.none() | st.floats(1e-3, 1e9, allow_nan=False)


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(1, 2**50)), _TIMES, min_size=1))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, points: dict[tuple[str, bool, int], float | None]
) -> None:
    rows = [
        f"{curve},{'in' if place else 'out'},{size},{'' if time is None else repr(time)}"
        for (curve, place, size), time in points.items()
    ]
    folder = write(tmp_path_factory.mktemp("data"), points="\n".join(["curve,place,bytes,time_us", *rows]) + "\n")
    found = read_folder(folder)
    read_back = {
        (curve.name, bool(place), int(size)): None if math.isnan(time) else float(time)
        for curve in found.curves
        for place, size, time in zip(curve.place, curve.bytes, curve.time_us, strict=True)
    }
    assert read_back == points
    for curve in found.curves:
        keys = list(zip(curve.place, curve.bytes, strict=True))
        assert keys == sorted(keys)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_the_published_curves() -> None:
    found = read(SHARED)
    assert len(found.curves) == 332 and len(found.machines) == 22 and len(found) == 23_323
    with (SHARED / "points.csv").open() as file:
        rows = {(row["curve"], row["place"] == "in", int(row["bytes"])): row for row in csv.DictReader(file)}
    for curve in found.curves:
        for at, busbw in enumerate(curve.busbw_GBps):
            row = rows[curve.name, bool(curve.place[at]), int(curve.bytes[at])]
            assert curve.time_us[at] == float(row["time_us"])
            assert busbw == pytest.approx(float(row["busbw_GBps"]), rel=1e-4)
