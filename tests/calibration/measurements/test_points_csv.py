"""Single CSV files of points: our columns, and those of rccl-tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim import InputError
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes

POINTS = """collective,nranks,nodes,place,bytes,time_us,version
all_reduce,8,1,out,1024,15.5,2.27.3
all_reduce,8,1,in,1024,15.0,2.27.3
all_reduce,8,1,out,2048,,2.27.3
all_gather,16,2,out,1024,35.5,2.27.3
"""


def read(folder: Path, text: str, *told: str) -> Measurements:
    path = folder / "mine.csv"
    path.write_text(text)
    notes = Notes()
    found = read_measurements(path, notes)
    assert len(notes) == len(told), list(notes)
    for line, part in zip(notes, told, strict=True):
        assert part in line
    return found


def test_curves_are_what_rows_have_in_common(tmp_path: Path) -> None:
    reduce, gather = read(tmp_path, POINTS).curves
    assert (reduce.name, reduce.collective, reduce.nranks, reduce.version) == (
        *("mine-all_reduce-N1-n8", "all_reduce", 8, "2.27.3"),
    )
    assert reduce.place.tolist() == [False, False, True] and reduce.time_us[[0, 2]].tolist() == [15.5, 15.0]
    assert (gather.nodes, gather.gpus_per_node, gather.source) == (2, 8, "mine.csv")


def test_names_given_and_other_names_of_columns(tmp_path: Path) -> None:
    text = "\ufeffcurve, collective ,ranks,size,time,colour\n"
    text += "fast,AllReduce,8,1024,15.5,red\nslow,AllReduce,8,1024,55.5,red\n"
    curves = read(tmp_path, text, "columns that are not used: colour", "on how many nodes").curves
    assert [curve.name for curve in curves] == ["fast", "slow"]
    assert not curves[0].place.any() and curves[1].time_us.tolist() == [55.5]


RCCL = """numCycle,collective,nodes,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,wrong
0,AllReduce,2,16,8,1,1048576,float,sum,0,164.3,6.382082,11.966403,0
0,AllReduce,2,16,8,1,1048576,float,sum,1,187.7,5.586446,10.474587,0
"""


def test_rccl_tests(tmp_path: Path) -> None:
    unused = "columns that are not used: numCycle"
    for text in (RCCL, RCCL.replace("nodes,", "", 1)):
        (curve,) = read(tmp_path, text, unused).curves
        assert (curve.collective, curve.nodes, curve.nranks, curve.gpus_per_node, curve.dtype) == (
            *("all_reduce", 2, 16, 8, "float"),
        )
        assert curve.time_us.tolist() == [164.3, 187.7] and curve.place.tolist() == [False, True]


def test_repeated_points_are_pooled(tmp_path: Path) -> None:
    text = POINTS + "all_reduce,8,1,out,1024,17.5,2.27.3\n"
    assert read(tmp_path, text, "1 points were measured again").curves[0].time_us[0] == 16.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POINTS.replace("15.5", "fast"), "line 2, column time_us: this is no such number; found 'fast'"),
        (POINTS.replace("15.5", "1_5.5"), "line 2, column time_us"),
        (POINTS.replace("1024,15.5", "1k,15.5"), "line 2, column bytes"),
        (
            POINTS.replace("all_gather", "dance"),
            "line 5, column collective: no such collective is known; found 'dance'",
        ),
        (POINTS.replace("16,2", "16,32"), "line 5, column nodes: there are more nodes than ranks"),
        (POINTS.replace(",in,", ",up,"), "line 3, column place"),
        (POINTS.replace("nranks", "persons"), "line 1: no column nranks"),
        (POINTS.splitlines()[0] + "\n", "there are no points in this file"),
        (
            "curve,place,bytes,time_us\na,out,8,1\n",
            "does not say what was measured; .*; name the folder with curves.csv",
        ),
        (POINTS + '"all_reduce,8\n', "line 6"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read(tmp_path, text)
    assert refused.value.file == str(tmp_path / "mine.csv")


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["all_reduce", "alltoall"]), st.integers(2, 99), st.booleans(), st.integers(1, 2**50)
        ),
        st.floats(1e-3, 1e9),
        min_size=1,
    )
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, points: dict[tuple[str, int, bool, int], float]
) -> None:
    rows = [
        f"{name},{ranks},{'in' if place else 'out'},{size},{us!r}" for (name, ranks, place, size), us in points.items()
    ]
    found = read(
        tmp_path_factory.mktemp("csv"), "\n".join(["collective,nranks,place,bytes,time_us", *rows]), "how many nodes"
    )
    assert {
        (curve.collective, curve.nranks, bool(place), int(size)): float(time)
        for curve in found.curves
        for place, size, time in zip(curve.place, curve.bytes, curve.time_us, strict=True)
    } == points
