"""Logs of nccl-tests and rccl-tests: published ones with figures read by eye, and made ones in every form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import FACTORS, Form, Made, log, printed_us

from chakrasim import InputError
from chakrasim.calibration.measurements.curves import Curve, Measurements
from chakrasim.calibration.measurements.nccl_tests import version_of
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes

LOGS = Path(__file__).parents[2] / "data" / "nccl-logs"
SOME: list[Made] = [(8, 17.93, 17.72), (1024, 20.35, 20.32), (1 << 20, 164.3, 187.7), (1 << 30, 12345.0, 12346.0)]


def read(path: Path, *told: str) -> Measurements:
    """The file, read with just these warnings and notes (parts of them)."""
    notes = Notes()
    found = read_measurements(path, notes)
    assert len(notes) == len(told), list(notes)
    for text, part in zip(notes, told, strict=True):
        assert part in text
    return found


def read_text(folder: Path, text: str, *told: str) -> Measurements:
    (folder / "made.log").write_text(text)
    return read(folder / "made.log", *told)


def at(curve: Curve, size: int, in_place: bool) -> float:
    (found,) = np.flatnonzero((curve.bytes == size) & (curve.place == in_place))
    return float(curve.time_us[found])


def test_markdown_of_gh200() -> None:
    (curve,) = read(LOGS / "cscs-gh200-indented.txt").curves
    assert (curve.collective, curve.nodes, curve.gpus_per_node, curve.nranks) == ("all_reduce", 2, 4, 8)
    assert (curve.gpu, curve.dtype, curve.redop) == ("NVIDIA GH200 120GB", "float", "sum")
    assert (curve.library, curve.version, curve.hosts) == ("NCCL", "", ("nid005471", "nid005487"))
    assert len(curve) == 50 and curve.sizes.tolist() == [8 << at for at in range(25)]
    assert at(curve, 8, False) == 17.93 and at(curve, 8, True) == 17.72
    assert at(curve, 524288, True) == 349.6 and at(curve, 134217728, False) == 1916.4
    assert curve.busbw_GBps[24] == pytest.approx(122.57, abs=0.01)


def test_five_tables_of_ten_nodes() -> None:
    curves = read(LOGS / "nccl-tests-2.17-h100-10x8.log.gz").curves
    names = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"]
    assert [curve.collective for curve in curves] == names
    assert {(curve.nodes, curve.gpus_per_node, curve.nranks, curve.version) for curve in curves} == {
        (10, 8, 80, "2.29.2")
    }
    assert {len(curve) for curve in curves} == {20}
    assert at(curves[0], 33554432, False) == 798.52 and at(curves[0], 17179869184, True) == 105146
    assert at(curves[1], 17179868160, True) == 52531.4
    assert at(curves[2], 67107840, True) == 650.0
    assert at(curves[3], 33553920, True) == 980.59 and at(curves[3], 17179868160, False) == 336737
    assert at(curves[4], 17179869184, True) == 1128397
    assert {(curve.dtype, curve.redop) for curve in curves} == {("double", "sum"), ("double", "none")}


def test_labels_of_mpirun_and_lines_of_the_library() -> None:
    inferred = "all_reduce of 16 ranks, as its bandwidths tell: the log has no such line"
    found = read(LOGS / "nccl-tests-2021-mpirun-tags-p4d.log.gz", inferred)
    (curve,) = found.curves
    assert (curve.nodes, curve.gpus_per_node, curve.nranks, curve.version) == (2, 8, 16, "2.9.9+cuda11.2")
    assert curve.gpu == "A100-SXM4-40GB" and len(curve) == 60
    assert (
        at(curve, 8, False) == 179.1 and at(curve, 268435456, True) == 13430 and at(curve, 4294967296, False) == 183834
    )
    said = found.recorded[curve.name]
    assert (said.library, said.version, said.nranks, said.network) == ("NCCL", "2.9.9+cuda11.2", 16, "AWS Libfabric")
    assert dict(said.channels) == {"coll": 8, "p2p": 8, "p2p per peer": 1}
    assert said.thread_thresholds == (8, 8, 64, 128, 8, 64, 8, 8, 512)
    assert dict(said.transports) == {"NET/AWS": 64, "P2P/IPC/read": 256}
    machine = found.machines[curve.machine]
    assert (machine.gpu, machine.gpus_per_node, machine.network) == ("A100-SXM4-40GB", 8, "AWS Libfabric")
    assert machine.nic_Gbps is None and machine.intra_GBps_per_gpu_per_dir is None


def test_times_in_exponents_are_taken_from_bandwidths() -> None:
    told = "3 times were printed with few digits, and are taken from the bandwidths beside them (first on line 21)"
    pairs, messages = read(LOGS / "nccl-tests-slow-pair-exponent.log", told).curves
    assert (pairs.collective, messages.collective, pairs.nranks, pairs.version) == ("alltoall", "sendrecv", 2, "2.28.7")
    assert at(pairs, 17179869184, False) == 9527230
    # 1.0e+07 us beside 1.69 and 0.84 GB/s: between what 1.695 GB/s and 0.845 GB/s of half the bytes leave
    assert at(pairs, 17179869184, True) == pytest.approx((17179869.184 / 1.695 + 17179869.184 / 1.685) / 2, rel=0.003)
    assert at(messages, 17179869184, False) == pytest.approx(17179869.184 / 0.97, rel=0.005)
    assert at(messages, 17179869184, True) == pytest.approx(17179869.184 / 0.99, rel=0.005)


def test_labels_of_srun_without_a_head() -> None:
    told = ("all_reduce of 16 ranks, as its bandwidths tell", "nothing says on how many nodes", "has no end")
    (curve,) = read(LOGS / "srun-labels-p4de.txt", *told).curves
    assert (curve.collective, curve.nranks, curve.nodes, curve.gpu, curve.version) == ("all_reduce", 16, 1, "", "")
    assert len(curve) == 58 and at(curve, 8, False) == 164.3 and at(curve, 2147483648, True) == 51406


@pytest.mark.parametrize(
    "form",
    [
        Form(),
        Form(fitted=False),
        Form(root=False, fitted=False, wrong="error", group=""),
        Form(per_iteration=True),
        Form(timestamp=True),
        Form(per_iteration=True, timestamp=True),
        Form(header=False),
        Form(header=False, root=False),
        Form(noise=True),
        Form(label="0: "),
        Form(label="07: "),
        Form(label="[1,0]<stdout>:"),
        Form(label="[1,0]<stderr>: "),
        Form(label="[0] "),
        Form(label="[0]", noise=True),
        Form(label="    "),
        Form(label="> "),
        Form(label="\t| "),
        Form(label="2026-01-02T03:04:05.678901Z "),
        Form(label="[pod/nccl-test-worker-0/main] "),
        Form(label="node-1: [1,0]<stdout>:  "),
    ],
    ids=str,
)
def test_forms(tmp_path: Path, form: Form) -> None:
    found = read_text(tmp_path, log(SOME, "all_reduce", 16, 2, form))
    (curve,) = found.curves
    assert (curve.collective, curve.nranks, curve.nodes, curve.gpus_per_node) == ("all_reduce", 16, 2, 8)
    assert curve.gpu == form.gpu and curve.hosts == ("node0", "node1")
    assert curve.version == ("2.28.7+cuda12.9" if form.noise else "2.28.7")
    for size, *times in SOME:
        assert [at(curve, size, place) for place in (False, True)] == [printed_us(time, form) for time in times]
    assert bool(found.recorded) == form.noise


@pytest.mark.parametrize("nranks", [2, 3, 8, 24])
@pytest.mark.parametrize("collective", FACTORS)
def test_collectives(tmp_path: Path, collective: str, nranks: int) -> None:
    (curve,) = read_text(tmp_path, log(SOME, collective, nranks, 1, Form())).curves
    assert (curve.collective, curve.nranks, len(curve)) == (collective, nranks, 8)


def test_in_place_alone(tmp_path: Path) -> None:
    (curve,) = read_text(tmp_path, log(SOME, "all_reduce", 4, 1, Form(only_in_place=True))).curves
    assert curve.place.all() and curve.time_us.tolist() == [time for _, _, time in SOME]


def test_the_oldest_tables_are_in_ms(tmp_path: Path) -> None:
    form = Form(root=False, fitted=False, milliseconds=True, wrong="res", group="")
    made = [(1 << 20, 1234.0, 1235.0), (1 << 30, 12345.0, 12346.0)]
    (curve,) = read_text(tmp_path, log(made, "all_reduce", 4, 1, form)).curves
    assert curve.time_us.tolist() == [1234, 12345, 1235, 12346]


def test_bandwidths_of_before_2020(tmp_path: Path) -> None:
    """All-gather and reduce-scatter printed what is the bus bandwidth now in both columns."""
    row = "    1048576         65536     float    1000.0   0.92   0.92  0e+00    1000.0   0.92   0.92  0e+00\n"
    text = log([], "all_gather", 8, 1, Form(header=False)).replace("# Out", row + "# Out")
    assert read_text(tmp_path, text).curves[0].time_us.tolist() == [1000, 1000]


def test_rccl(tmp_path: Path) -> None:
    text = log(SOME, "all_reduce", 8, 1, Form(gpu="AMD Instinct MI300X"))
    assert read_text(tmp_path, text).curves[0].library == "RCCL"
    text = log(SOME, "all_reduce", 8, 1, Form(gpu="")).replace(
        "# Using", "rccl-tests: Version develop:448c4c7\n# Using"
    )
    assert read_text(tmp_path, text).curves[0].library == "RCCL"
    text = "RCCL version : 2.22.3-HEAD:7d8d67c\n" + log(SOME, "all_reduce", 8, 1, Form(gpu=""))
    found = read_text(tmp_path, text).curves[0]
    assert (found.library, found.version, found.gpu) == ("RCCL", "2.22.3-HEAD:7d8d67c", "")


def test_groups_carry_out_their_own_collectives(tmp_path: Path) -> None:
    lines = log(SOME, "all_reduce", 8, 2, Form()).splitlines()
    whole = "\n".join(
        line.replace("Group  0", f"Group  {int(line.split()[2]) % 4}") if "Rank" in line else line for line in lines
    )
    rows = log(SOME, "all_reduce", 2, 1, Form(head=False))
    (curve,) = read_text(tmp_path, whole[: whole.index("#\n#      ")] + rows).curves
    assert (curve.nranks, curve.nodes) == (2, 2)


def test_cycles_and_files_are_pooled(tmp_path: Path) -> None:
    once = log(SOME[:1], "all_reduce", 4, 1, Form())
    again = log([(8, 19.93, 17.72)], "all_reduce", 4, 1, Form(head=False))
    (curve,) = read_text(tmp_path, once + "# Testing 2 cycle.\n" + again, "2 points were measured again").curves
    assert curve.time_us.tolist() == [pytest.approx(18.93), 17.72] and curve.repeats.tolist() == [2, 2]
    assert curve.low_us[0] == 17.93 and curve.high_us[0] == 19.93


def test_other_nodes_are_other_curves(tmp_path: Path) -> None:
    one = log(SOME, "sendrecv", 2, 2, Form())
    curves = read_text(tmp_path, one + one.replace("node", "host")).curves
    assert [curve.hosts for curve in curves] == [("node0", "node1"), ("host0", "host1")]
    assert [curve.name for curve in curves] == ["made-sendrecv-N2-n2", "made-sendrecv-N2-n2-2"]


def test_types_are_curves(tmp_path: Path) -> None:
    text = log(SOME, "all_reduce", 4, 1, Form()) + log(SOME, "all_reduce", 4, 1, Form(head=False), "half")
    assert [curve.dtype for curve in read_text(tmp_path, text).curves] == ["float", "half"]


def test_variables_that_were_set(tmp_path: Path) -> None:
    said = [("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL128."), ("NCCL_NET", "Socket."), ("NCCL_DEBUG", "INFO")]
    lines = "".join(f"n:1:1 [0] NCCL INFO {name} set by environment to {value}\n" for name, value in said)
    (curve,) = read_text(tmp_path, lines + log(SOME, "all_reduce", 4, 1, Form())).curves
    assert (curve.algo, curve.proto, curve.env) == ("Ring", "LL128", "NCCL_NET=Socket")


def test_choices_beside_the_times_that_they_took(tmp_path: Path) -> None:
    head, rows = log(SOME, "all_gather", 8, 1, Form()).split("#\n#    ", 1)
    calls = "".join(
        f"n:1:1 [0] NCCL INFO AllGather: {size // 8} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..{high}}}\n"
        for size, high in ((1024, 0), (1 << 20, 7), (1 << 30, 23))
        for _ in range(25)
    )
    found = read_text(tmp_path, head + calls + "#\n#    " + rows)
    said = found.recorded[found.curves[0].name]
    choice = said.choice("all_gather", 1 << 20)
    assert choice is not None and (choice.algorithm, choice.protocol, choice.channels, choice.times) == (
        "Ring",
        "Simple",
        8,
        25,
    )
    assert said.choice("all_gather", 8) is None and said.choice("all_reduce", 1024) is None


ROW = "    1048576        262144     float     sum      -1    164.3    6.38   11.17       0" + (
    "    187.7    5.59    9.78       0"
)


@pytest.mark.parametrize(
    ("old", "new", "told", "points"),
    [
        ("164.3    6.38", "164.3    6.50", "1 times are left out: the bandwidths printed beside them are others", 1),
        ("11.17", "12.17", "1 times are left out: the bandwidths printed beside them are others (first on line 19)", 1),
        ("164.3", "16.43", "1 times are left out", 1),
        (" 1048576 ", " 2097152 ", "2 times are left out", 0),
        ("164.3", "16x.3", "1 rows are left out: they are damaged or cut off", 1),
        ("    9.78       0", "", "1 rows are left out: they are damaged or cut off", 1),
        ("   187.7    5.59    9.78       0", "", "1 rows are left out: they are damaged or cut off", 1),
        ("262144", "2621440", "1 rows are left out: they are damaged or cut off", 0),
        ("1048576", "1048577", "1 rows are left out: they are damaged or cut off", 0),
        ("11.17       0", "11.17      12", "1 rows have wrong results", 2),
        ("164.3    6.38   11.17", "  N/A     N/A     N/A", "1 rows have no time at one place", 1),
        (" 1048576        262144", "       0             0", "1 rows of size 0 are left out", 0),
        (
            "164.3    6.38   11.17",
            "2e+02    6.38   11.17",
            "1 times were printed with few digits, and are taken from",
            2,
        ),
        ("164.3    6.38   11.17", "1e+05    0.01    0.02", "1 times are left out: they were printed with too few", 1),
    ],
)
def test_rows_that_are_left_out_are_counted(tmp_path: Path, old: str, new: str, told: str, points: int) -> None:
    text = log(SOME[:1], "all_reduce", 8, 1, Form()).replace("# Out of", f"{ROW}\n# Out of")
    assert len(read_text(tmp_path, text).curves[0]) == 4
    assert old in text
    changed = text.replace(old, new)
    assert len(read_text(tmp_path, changed, told).curves[0]) == 2 + points


def test_times_of_calls_are_left_out(tmp_path: Path) -> None:
    text = log(SOME, "all_reduce", 4, 1, Form())
    cpu = text.replace("    time ", " cputime ")
    found = read_text(tmp_path, text + cpu, "4 rows are left out: they are times of the calls on the CPU")
    assert len(found.curves) == 1


def test_collectives_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    uneven = log(SOME, "alltoall", 4, 1, Form()).replace("alltoall_perf", "alltoallv_perf")
    found = read_text(
        tmp_path, uneven + log(SOME, "all_reduce", 4, 1, Form()), "no such collective is known: 'alltoallv"
    )
    assert [curve.collective for curve in found.curves] == ["all_reduce"]


def test_a_log_that_was_cut_off(tmp_path: Path) -> None:
    text = log(SOME, "all_reduce", 4, 1, Form())
    cut = text[: text.index("# Out of") - 20]
    told = ("has no end: was the run cut off?", "1 rows are left out: they are damaged or cut off")
    assert len(read_text(tmp_path, cut, *told).curves[0]) == 7


def test_kinds_of_gpus(tmp_path: Path) -> None:
    text = log(SOME, "all_reduce", 4, 1, Form()).replace("HBM3", "PCIe", 1)
    assert read_text(tmp_path, text, "2 kinds of GPUs took part").curves[0].gpu == "NVIDIA H100 80GB HBM3"


def test_what_the_bandwidths_leave_open_is_not_guessed(tmp_path: Path) -> None:
    for collective, nranks in (("all_gather", 4), ("broadcast", 4)):
        (tmp_path / "made.log").write_text(log(SOME, collective, nranks, 1, Form(head=False)))
        with pytest.raises(InputError, match="nothing says which collective of how many ranks it is of"):
            read_measurements(tmp_path / "made.log")


@pytest.mark.parametrize("nranks", [3, 8, 16, 72])
def test_ranks_as_bandwidths_tell(tmp_path: Path, nranks: int) -> None:
    made = [(1 << power, 100.0 + (1 << power) / 400e3, 100.0 + (1 << power) / 400e3) for power in range(20, 34)]
    text = log(made, "all_reduce", nranks, 1, Form(head=False))
    assert read_text(tmp_path, text, f"all_reduce of {nranks} ranks", "how many nodes").curves[0].nranks == nranks


def test_versions() -> None:
    assert [version_of(code) for code in (22902, 22809, 23007, 2804, 2708)] == [
        *("2.29.2", "2.28.9", "2.30.7", "2.8.4", "2.7.8")
    ]


_FORMS = st.builds(
    Form,
    root=st.booleans(),
    fitted=st.booleans(),
    wrong=st.sampled_from(["#wrong", "error"]),
    per_iteration=st.booleans(),
    timestamp=st.booleans(),
    label=st.sampled_from(["", "0: ", "[1,0]<stdout>:", "   ", "[0] "]),
    noise=st.booleans(),
    group=st.sampled_from(["", "Group  0 "]),
)


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.integers(1, 2**30).map(lambda count: count * 16), st.tuples(*[st.floats(1, 9e6)] * 2), min_size=1
    ),
    st.sampled_from(sorted(FACTORS)),
    st.integers(1, 4),
    st.integers(2, 9),
    _FORMS,
    st.sampled_from(["float", "double", "half", "int8"]),
)
def test_what_is_printed_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    times: dict[int, tuple[float, float]],
    collective: str,
    nodes: int,
    each: int,
    form: Form,
    dtype: str,
) -> None:
    made = [(size, *pair) for size, pair in sorted(times.items())][:8]
    path = tmp_path_factory.mktemp("log") / "made.log"
    path.write_text(log(made, collective, nodes * each, nodes, form, dtype))
    (curve,) = read_measurements(path).curves
    assert (curve.collective, curve.nodes, curve.nranks, curve.dtype) == (collective, nodes, nodes * each, dtype)
    expected = [printed_us(made_row[1 + place], form) for place in (0, 1) for made_row in made]
    assert curve.time_us.tolist() == expected
    assert curve.bytes.tolist() == [size for size, _, _ in made] * 2
