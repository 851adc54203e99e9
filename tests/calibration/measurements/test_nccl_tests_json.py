"""JSON of nccl-tests (-J) and rccl-tests (-Z json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes


def result(size: int, out_us: float, in_us: float | None, factor: float) -> dict[str, Any]:
    """A result as nccl-tests writes it, with six decimals."""

    def place(us: float) -> dict[str, Any]:
        algbw = size / us / 1e3
        return {"time": round(us, 6), "alg_bw": round(algbw, 6), "bus_bw": round(algbw * factor, 6), "nwrong": 0.0}

    return {
        "size": size,
        "count": size // 4,
        "type": "float",
        "redop": "sum",
        "root": "    -1",
        "out_of_place": place(out_us),
        "in_place": None if in_us is None else place(in_us),
        "actual_iterations": 20,
        "experiment_name": "AllReduce",
    }


def document() -> dict[str, Any]:
    devices = [
        {"rank": 4 * at, "group": 0, "pid": 100 + at, "hostname": f"h{at}", "device": 0, "device_info": "NVIDIA H100"}
        for at in range(2)
    ]
    return {
        "version": 3,
        "args": ["./build/all_reduce_perf", "-b", "8"],
        "nccl_version": 22902,
        "env": ["PATH=/bin", "NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5", "NCCL_DEBUG=INFO", "nothing"],
        "config": {"nthreads": 1, "ngpus": 4, "devices": devices},
        "results": [result(0, 5, 5, 1.75), result(8, 17.931234, 17.7, 1.75), result(1 << 30, 4012.3, None, 1.75)],
        "out_of_bounds": {"count": 0, "okay": "true"},
    }


def read(folder: Path, content: Any, *told: str) -> Measurements:
    path = folder / "run.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    notes = Notes()
    found = read_measurements(path, notes)
    assert len(notes) == len(told)
    for text, part in zip(notes, told, strict=True):
        assert part in text
    return found


def test_nccl_tests(tmp_path: Path) -> None:
    found = read(tmp_path, document(), "2 results of size 0 are left out")
    (curve,) = found.curves
    assert (curve.name, curve.collective, curve.nranks, curve.nodes) == ("run-all_reduce-N2-n8", "all_reduce", 8, 2)
    assert (curve.gpu, curve.gpus_per_node, curve.library, curve.version) == ("NVIDIA H100", 4, "NCCL", "2.29.2")
    assert (curve.algo, curve.proto, curve.env) == ("Ring", "auto", "NCCL_IB_HCA=mlx5")
    assert (curve.dtype, curve.redop, curve.hosts) == ("float", "sum", ("h0", "h1"))
    assert curve.time_us.tolist() == [17.931234, 4012.3, 17.7] and curve.bytes.tolist() == [8, 1 << 30, 8]
    assert found.machines[curve.machine].gpus_per_node == 4


def test_one_process_has_one_device_entry(tmp_path: Path) -> None:
    made = document()
    made["config"].update(ngpus=8, devices=made["config"]["devices"][:1])
    assert read(tmp_path, made, "size 0").curves[0].nranks == 8


def test_results_that_contradict_themselves_are_counted(tmp_path: Path) -> None:
    made = document()
    made["results"][1]["out_of_place"]["alg_bw"] = 1.0
    made["results"][2]["out_of_place"]["time"] = "nan"
    told = ("1 results are left out: the bandwidths", "1 results are left out: there is no time", "size 0")
    assert read(tmp_path, made, *told).curves[0].time_us.tolist() == [17.7]


RCCL: dict[str, Any] = {
    "numCycle": 0,
    "name": "AllReduce",
    "nodes": 2,
    "ranks": 16,
    "ranksPerNode": 8,
    "gpusPerRank": 1,
    "size": 1 << 20,
    "type": "float",
    "redop": "sum",
    "inPlace": 1,
    "time": 164.3,
    "algBw": 6.382082,
    "busBw": 11.966403,
    "wrong": "0",
}


def test_rccl_tests(tmp_path: Path) -> None:
    records = [RCCL, {**RCCL, "inPlace": 0, "time": 328.6, "algBw": 3.191041, "busBw": 5.983202}]
    for text in (json.dumps(records), "\n".join(map(json.dumps, records))):
        (curve,) = read(tmp_path, text).curves
        assert (curve.library, curve.nranks, curve.nodes, curve.gpus_per_node) == ("RCCL", 16, 2, 8)
        assert curve.time_us.tolist() == [328.6, 164.3]
    more = {**RCCL, "numCycle": 1}
    assert read(tmp_path, [RCCL, more], "1 points were measured again").curves[0].repeats.tolist() == [2]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("results", 1, "size"), "8", r"\$\.results\[1\]\.size: this is no JSON of nccl-tests .*; found '8'"),
        (("results", 1, "size"), True, r"\$\.results\[1\]\.size"),
        (("results", 1, "size"), -1, r"\$\.results\[1\]\.size"),
        (("results", 1), 3, r"\$\.results\[1\]: .*expected an object"),
        (("results", 1, "out_of_place"), 3, r"\$\.results\[1\]\.out_of_place"),
        (("results", 1, "out_of_place", "time"), "soon", r"\$\.results\[1\]\.out_of_place\.time: .*expected a number"),
        (("results", 1, "out_of_place", "cpu_time"), 3.0, "times of collectives, not of their calls"),
        (("results", 1, "type"), 3, r"\$\.results\[1\]\.type"),
        (("config", "ngpus"), 0, r"\$\.config\.ngpus"),
        (("config", "devices"), {}, r"\$\.config\.devices"),
        (("config", "devices", 0), 1, r"\$\.config\.devices\[0\]"),
        (("config",), 1, r"\$\.config"),
        (("args",), ["./dance"], None),
        (("results",), [], "the name of a program"),
        (("results",), {}, "this is no JSON of nccl-tests"),
    ],
)
def test_what_is_refused(tmp_path: Path, path: tuple[Any, ...], value: Any, message: str | None) -> None:
    made = copy.deepcopy(document())
    if path[0] == "results" and value == []:
        made["args"] = []
    inner: Any = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    if message is None:  # the results name it, too
        assert read(tmp_path, made, "size 0").curves[0].collective == "all_reduce"
        return
    with pytest.raises(InputError, match=message):
        read(tmp_path, made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(document())[:-200], "line 1: the JSON is damaged or cut off"),
        ("[" * 100_000, "no measurements|damaged"),
        ('{"a": ' * 100_000, "the JSON is damaged or cut off"),
        ("{}", "this is no JSON of nccl-tests"),
        ("[]", "this is no JSON of nccl-tests"),
        ('{"traceEvents": []}', "found a JSON file that looks like a Kineto"),
        ('{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "found a JSON file that looks like a PyTorch"),
        (json.dumps([{**RCCL, "name": "Dance"}]), r"\$\[0\]\.name"),
        (json.dumps([{**RCCL, "ranks": 0}]), r"\$\[0\]\.ranks"),
        (json.dumps([RCCL, 3]), r"\$\[1\]"),
        (json.dumps([{**RCCL, "time": 0.0}]), "there are no times in this file"),
    ],
)
def test_json_of_other_things(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_measurements(tmp_path / "run.json")
