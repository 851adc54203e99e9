"""Constants fitted to measured collectives: what is held out is not read and is predicted, and what is refused."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from made_curves import MANY, ONE, SIZES, Made, holdout, written

from chakrasim import InputError, load_machine
from chakrasim.calibration import CollectiveCalibration, calibrate_collectives, machine_entries
from chakrasim.calibration.collectives.groups import nearest
from chakrasim.calibration.collectives.json_form import collective_calibration_json

LOGS = Path(__file__).parents[2] / "data" / "nccl-logs"
FAST = {"launch": -0.3, "Simple.wire": 0.2, "nvls.wire": 0.15}
OWN = [
    Made("ar8", constants=FAST),
    Made("ag8", collective="all_gather", constants=FAST),
    Made("ar4", nranks=4, constants=FAST),
    Made("ag4", nranks=4, collective="all_gather", constants=FAST),
]


def off(found: CollectiveCalibration, made: list[Made]) -> dict[str, float]:
    """By curve the mean error in per cent of the points held out, against the times they were made of."""
    by_name = {one.name: one for one in made}
    errors: dict[str, list[float]] = {}
    for point in found.points:
        one = by_name[point.curve]
        time = one.times(point.in_place)[list(one.sizes).index(point.size_bytes)]
        errors.setdefault(point.curve, []).append(abs(point.predicted_us / time - 1))
    return {name: 100 * float(np.mean(values)) for name, values in errors.items()}


def test_sizes_held_out_are_not_read_and_are_predicted(tmp_path: Path) -> None:
    hidden = SIZES[::2]
    file = holdout(tmp_path / "out.csv", [("ar8", "out", size) for size in hidden])
    data = written(tmp_path / "data", OWN, lambda name, size: name == "ar8" and size in hidden, "not read")
    found = calibrate_collectives(data, holdout=file)
    assert {(point.in_place, point.size_bytes) for point in found.points} == {
        (place, size) for place in (False, True) for size in hidden
    }
    assert all(point.time_us is None for point in found.points)
    assert all(point.low_us < point.predicted_us < point.high_us for point in found.points)
    assert off(found, OWN)["ar8"] < 2.5
    (group,) = found.groups
    assert group.points == 8 * len(SIZES) - 2 * len(hidden)
    assert 1 <= len(group.calibrated.constants.values) <= 12
    assert len(group.calibrated.constants.covariance) == len(group.calibrated.constants.values)


def test_what_is_held_out_is_predicted_the_same_whatever_its_times(tmp_path: Path) -> None:
    file = holdout(tmp_path / "out.csv", [("ar8", "", size) for size in SIZES[::3]])
    blank = written(tmp_path / "blank", OWN, lambda name, size: name == "ar8" and size in SIZES[::3])
    full = written(tmp_path / "full", [Made("ar8", constants=FAST, slower=lambda size: 1 + 3 * (size in SIZES[::3])),
                                       *OWN[1:]])  # fmt: skip
    assert calibrate_collectives(blank, holdout=file).points == calibrate_collectives(full, holdout=file).points


def test_another_number_of_ranks_and_another_collective(tmp_path: Path) -> None:
    made = [*OWN, Made("rs8", collective="reduce_scatter", constants=FAST), Made("ar2", nranks=2, constants=FAST)]
    file = holdout(tmp_path / "out.csv", [("rs8", "", ""), ("ar2", "", "")])
    found = calibrate_collectives(
        written(tmp_path / "data", made, lambda name, _: name in ("rs8", "ar2")), holdout=file
    )
    errors = off(found, made)
    assert errors["rs8"] < 6
    assert errors["ar2"] < 6
    assert len(found.points) == 4 * len(SIZES)


def test_what_nothing_like_was_measured_is_less_certain(tmp_path: Path) -> None:
    made = [*OWN, Made("rs8", collective="reduce_scatter", constants=FAST)]
    file = holdout(tmp_path / "out.csv", [("rs8", "", ""), ("ag8", "", SIZES[8])])
    found = calibrate_collectives(written(tmp_path / "data", made), holdout=file)
    unseen = next(point for point in found.points if point.curve == "rs8" and point.size_bytes == SIZES[8])
    seen = next(point for point in found.points if point.curve == "ag8")
    assert unseen.high_us / unseen.low_us > 1.1 * seen.high_us / seen.low_us
    assert all(a >= b for a, b in zip(found.groups[0].calibrated.unseen,
                                      found.groups[0].calibrated.constants.residual, strict=True))  # fmt: skip


def test_without_a_file_a_quarter_of_the_sizes_states_the_error(tmp_path: Path) -> None:
    found = calibrate_collectives(written(tmp_path / "data", OWN))
    assert {point.size_bytes for point in found.points} == set(SIZES[2::4])
    assert len(found.points) == 8 * len(SIZES[2::4])
    assert all(point.time_us for point in found.points)
    assert found.groups[0].points == 8 * len(SIZES)
    assert [error.points for error in found.errors] == [16, 8, 8, 8]
    for error in found.errors:
        assert error.error_percent is not None and error.error_percent < 3
        assert error.half_width_percent is not None and error.half_width_percent > 0
    half = calibrate_collectives(tmp_path / "data", holdout=0.5)
    assert {point.size_bytes for point in half.points} == set(SIZES[1::2])
    assert calibrate_collectives(tmp_path / "data", holdout="0.5").points == half.points


def test_a_group_without_points_takes_the_constants_of_the_nearest(tmp_path: Path) -> None:
    made = [*OWN, Made("later", constants=FAST, version="2.28.9"), Made("other", MANY, nranks=16, nodes=2)]
    file = holdout(tmp_path / "out.csv", [("later", "", ""), ("other", "", "")])
    found = calibrate_collectives(written(tmp_path / "data", made), holdout=file)
    assert off(found, made)["later"] < 5
    assert off(found, made)["other"] < 1e-3  # made without constants: the description alone
    widths = {name: np.median([p.high_us / p.low_us for p in found.points if p.curve == name]) for name in
              ("later", "other")}  # fmt: skip
    assert widths["other"] > widths["later"]


def test_the_nearest_group_is_of_the_same_machine_library_environment_version() -> None:
    known = {("m", "nccl-2.20.5", ""): 9, ("m", "nccl-2.27.7", "set"): 9, ("m", "nccl-2.29.7", ""): 9,
             ("m", "rccl-2.27.7", ""): 99, ("n", "nccl-2.27.7", ""): 99}  # fmt: skip
    assert nearest(("m", "nccl-2.27.7", ""), known) == ("m", "nccl-2.29.7", "")
    assert nearest(("m", "nccl-2.27.7", "set"), known) == ("m", "nccl-2.27.7", "set")
    assert nearest(("m", "rccl-2.20.5", ""), known) == ("m", "rccl-2.27.7", "")
    assert nearest(("o", "nccl-2.27.7", ""), known) is None


def test_as_json(tmp_path: Path) -> None:
    written(tmp_path / "data", [*OWN, Made("odd", collective="alltoallv")])
    told = collective_calibration_json(calibrate_collectives(tmp_path / "data"))
    assert set(told["points"][0]) == {"curve", "place", "bytes", "time_us", "predicted_us", "low_us", "high_us"}
    assert {point["place"] for point in told["points"]} == {"in", "out"}
    assert [one["curve"] for one in told["refused"]] == ["odd"]
    assert "a collective that is not known" in told["refused"][0]["reason"]
    assert [group["machine"] for group in told["groups"]] == ["one"]
    assert len(told["groups"][0]["residual"]) == len(told["groups"][0]["residual_unseen"]) == 4
    assert told["verdicts"] == []


def test_curves_and_sizes_that_are_not_there_are_told(tmp_path: Path) -> None:
    data = written(tmp_path / "data", OWN)
    file = holdout(tmp_path / "out.csv", [("ar8", "", 1024), ("ar8", "", 1000), ("lost", "", "")])
    found = calibrate_collectives(data, holdout=file)
    assert [point.size_bytes for point in found.points] == [1024, 1024]
    assert "1 curves that are to be held out are not in the data: lost" in found.warnings
    assert "1 sizes that are to be held out have no row: ar8 1000" in found.warnings
    assert found.refused["lost"] == "not in the data"
    file = holdout(tmp_path / "none.csv", [("lost", "", "")])
    with pytest.raises(InputError, match="no curve that is to be held out is in the data; found lost; expected ag4"):
        calibrate_collectives(data, holdout=file)


@pytest.mark.parametrize("share", [0, 0.9, -1, float("nan"), True])
def test_a_share_that_is_none(tmp_path: Path, share: float) -> None:
    with pytest.raises(InputError, match=r"the share that is held out is none; found .*; expected a file, or 0.01 to"):
        calibrate_collectives(written(tmp_path / "data", OWN[:1]), holdout=share)


def test_nothing_to_fit(tmp_path: Path) -> None:
    data = written(tmp_path / "data", OWN[:1], lambda name, size: True)
    with pytest.raises(InputError, match=r"there is nothing to fit: .*; found no times; expected measured times"):
        calibrate_collectives(data)
    written(tmp_path / "data", [Made("odd", collective="alltoallv")])
    with pytest.raises(InputError, match=r"there is nothing to fit: .*; found .*a collective that is not known"):
        calibrate_collectives(data)


def test_everything_held_out_is_predicted_from_descriptions(tmp_path: Path) -> None:
    file = holdout(tmp_path / "out.csv", [(one.name, "", "") for one in OWN])
    found = calibrate_collectives(written(tmp_path / "data", OWN), holdout=file)
    assert len(found.points) == 8 * len(SIZES)
    assert found.groups == ()


def test_a_log_is_of_the_board_of_its_gpus() -> None:
    found = calibrate_collectives(LOGS / "nccl-tests-2.17-h100-10x8.log.gz")
    assert any("the data do not say what joins its GPUs and nodes: taken as h100" in text for text in found.warnings)
    (group,) = found.groups
    site = group.curves[0].site
    assert (site.nodes, site.nics_per_node, site.nic_GBps, site.inside_GBps) == (10, 8, 50.0, 450.0)
    same = calibrate_collectives(LOGS / "nccl-tests-2.17-h100-10x8.log.gz", machine="h100")
    assert same.warnings == ()
    assert same.points == found.points


def test_the_network_that_a_log_names_counts() -> None:
    found = calibrate_collectives(LOGS / "nccl-tests-2021-mpirun-tags-p4d.log.gz")
    assert found.groups[0].curves[0].site.network == "efa"


def test_a_machine_that_the_ranks_do_not_fit(tmp_path: Path) -> None:
    log = LOGS / "nccl-tests-2.17-h100-10x8.log.gz"
    with pytest.raises(InputError, match="the ranks of the curve do not fit the machine; found 80 ranks on 10 nodes; "
                                         "expected as many on each node, at most 4"):  # fmt: skip
        calibrate_collectives(log, machine="gb200")
    single = tmp_path / "single.yaml"
    single.write_text("""network:
  graph: {ranks: 8, islands: {gpus: 8}, parts: [{nvswitch: {bandwidth: 450 GB/s, latency: 300 ns}}]}
memory: {bandwidth: 3350 GB/s}
collectives: {library: nccl, site: {vendor: nvidia, capability: 90}}
""")
    with pytest.raises(InputError, match="the machine has no NICs, but the curve has several nodes"):
        calibrate_collectives(log, machine=single)


def test_a_machine_where_all_are_described(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="machine has no effect: the data describe all of their machines"):
        calibrate_collectives(written(tmp_path / "data", [Made("ar8", ONE)]), machine="h100")


def test_a_log_without_hosts_and_gpus(tmp_path: Path) -> None:
    text = gzip.decompress((LOGS / "nccl-tests-2.17-h100-10x8.log.gz").read_bytes()).decode()
    (tmp_path / "bare.log").write_text(text.replace("NVIDIA H100 80GB HBM3", "NVIDIA Graphics Device"))
    with pytest.raises(InputError, match=r"there is nothing to fit: .*no bandwidth between nodes of|a GPU that is not"):
        calibrate_collectives(tmp_path / "bare.log")


def test_times_and_bandwidths_that_cannot_be(tmp_path: Path) -> None:
    odd = Made("odd", slower=lambda size: 1e30 if size == SIZES[3] else 1e-9 if size == SIZES[5] else 1.0)
    found = calibrate_collectives(written(tmp_path / "data", [odd]))
    assert "4 times that no collective takes, below 10 ns or above a day, are left out" in found.warnings
    assert found.groups[0].points == 2 * len(SIZES) - 4
    text = (tmp_path / "data" / "machines.csv").read_text()
    (tmp_path / "data" / "machines.csv").write_text(text.replace("450.0", "1e300"))
    with pytest.raises(
        InputError, match=r"no machine has such a bandwidth of a GPU; found 1e[+]300 GB/s; expected 0.001"
    ):
        calibrate_collectives(tmp_path / "data")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_damaged_folders_are_fitted_or_refused(seed: int, tmp_path: Path) -> None:
    """Whatever is in the cells: a result, or an InputError."""
    draw = random.Random(seed)
    made = [Made("a", sizes=SIZES[::6]), Made("b", MANY, "alltoall", 16, 2, sizes=SIZES[::6])]
    data = written(tmp_path / "data", made)
    whole = {name: (data / name).read_text() for name in ("curves.csv", "points.csv", "machines.csv")}
    words = [
        "-1",
        "0",
        "1e300",
        "1e-300",
        "nan",
        "",
        "x",
        "sockets",
        "rack of 0",
        "PCIe",
        "MI300X",
        "GB200",
        "1",
        "NCCL_ALGO=Foo",
    ]
    for _ in range(25):
        name = draw.choice(list(whole))
        lines = whole[name].splitlines()
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(1, len(lines))
            cells = lines[at].split(",")
            cells[draw.randrange(len(cells))] = draw.choice(words)
            lines[at] = ",".join(cells)
        for other, text in whole.items():
            (data / other).write_text("\n".join(lines) if other == name else text)
        try:
            found = calibrate_collectives(data)
        except InputError:
            continue
        for group in found.groups:
            assert load_machine(machine_entries(group)).calibrated == group.calibrated


def test_a_single_rank_carries_nothing(tmp_path: Path) -> None:
    alone = Made("alone", nranks=1, slower=lambda size: 50.0 if size > 1 << 20 else 1.0)
    assert calibrate_collectives(written(tmp_path / "data", [*OWN, alone])).verdicts == ()
