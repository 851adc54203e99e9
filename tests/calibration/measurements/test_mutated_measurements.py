"""Damaged logs, JSON and CSV: one of our errors, or curves that make sense. Nothing else."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest
from made_logs import Form, log
from test_nccl_debug import GRAPH, INIT
from test_nccl_tests_json import RCCL, document

from chakrasim import InputError
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.calibration.measurements.read import read_measurements
from chakrasim.notes import Notes

LOGS = Path(__file__).parents[2] / "data" / "nccl-logs"
TOKENS = (
    *(
        b"nan",
        b"inf",
        b"-1",
        b"1e400",
        b"1e-400",
        b"9" * 30,
        b"0",
        b"N/A",
        b"",
        b"\0",
        b"\xff",
        b"1_0",
        b"0x10",
        b"1e+07",
    ),
    *(
        b"float",
        b"half",
        b"#",
        b"[1,0]<stdout>:",
        b"Rank",
        b"\n",
        b"\r",
        b",",
        b'"',
        b"{",
        b"}",
        b"null",
        b"true",
        b"~",
        b"-",
    ),
    *(b"\xd9\xa1", b"all_gather_perf", b"nccl-library=99999", b"nThread 1 nGpus 1 minBytes ", b"cputime", b"1.2.3"),
)


def intact() -> dict[str, bytes]:
    """A file of every kind, none of them long."""
    made = [(1 << power, 15.0 + power, 15.5 + (1 << power) / 3e3) for power in range(3, 31, 3)]
    calls = "n0:7:9 [0] NCCL INFO AllReduce: 512 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n"
    old = Form(root=False, fitted=False, milliseconds=True, wrong="res", group="")
    points = "\n".join(f"a,{place},{size},{out}" for size, out, _ in made for place in ("in", "out"))
    return {
        "new.log": log(made, "all_reduce", 16, 2, Form(noise=True)).encode(),
        "tags.log": log(made, "alltoall", 8, 1, Form(label="[1,0]<stdout>:", per_iteration=True)).encode(),
        "old.log": log(made, "all_gather", 4, 1, old).encode(),
        "headless.log": log(made, "all_reduce", 16, 2, Form(head=False)).encode(),
        "debug.log": (INIT + GRAPH + calls + log(made, "all_reduce", 16, 2, Form())).encode(),
        "slow.log": (LOGS / "nccl-tests-slow-pair-exponent.log").read_bytes(),
        "run.json": json.dumps(document()).encode(),
        "rccl.json": json.dumps([RCCL, {**RCCL, "size": 2 << 20, "time": 328.6}]).encode(),
        "mine.csv": (
            "collective,nranks,nodes,place,bytes,time_us,time_lo_us,n_meas\n"
            + "".join(f"all_reduce,8,1,out,{size},{out},{out - 1},3\n" for size, out, _ in made)
        ).encode(),
        "points.csv": f"curve,place,bytes,time_us\n{points}\n".encode(),
        "curves.csv": b"curve,machine,nodes,gpus_per_node,nranks,collective\na,m,2,8,16,all_reduce\n",
        "machines.csv": b"machine,gpu,gpus_per_node,nic_Gbps,node_GBps_per_dir\nm,H100,8,400,~400\n",
    }


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data after one to four small accidents."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        lines = data.split(b"\n")
        line = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[min(end, at + 40) :]
            case 3:
                data = data[:at] + rng.choice(TOKENS) + data[at:]
            case 4:
                words = lines[line].split(b"," if b"," in lines[line] else b" ")
                words[rng.randrange(len(words))] = rng.choice(TOKENS)
                lines[line] = (b"," if b"," in lines[line] else b" ").join(words)
                data = b"\n".join(lines)
            case 5:
                data = b"\n".join([*lines[:line], rng.choice(lines), *lines[line:]])
            case 6:
                rng.shuffle(lines)
                data = b"\n".join(lines)
            case 7:
                data = data[:at] + data[at:end][:200] + data[at:]
    return data


def check(found: Measurements) -> None:
    """What holds for all measurements, however they were come by."""
    assert len({curve.name for curve in found.curves}) == len(found.curves)
    for curve in found.curves:
        assert 1 <= curve.nodes <= curve.nranks <= curve.nodes * curve.gpus_per_node
        assert (curve.bytes > 0).all()
        known = curve.time_us[~np.isnan(curve.time_us)]
        assert (known > 0).all() and np.isfinite(known).all()
        assert not (curve.low_us > curve.high_us).any()
        assert (curve.repeats[~np.isnan(curve.time_us)] > 0).all()
        keys = list(zip(curve.place.tolist(), curve.bytes.tolist(), strict=True))
        assert keys == sorted(set(keys))
    for debug in found.recorded.values():
        assert all(choice.bytes >= 0 and choice.times > 0 for choice in debug.choices)


def mutate(folder: Path, count: int, first: int = 0) -> tuple[int, int]:
    """How many of the damaged inputs were read, and how many were refused."""
    files = intact()
    names = list(files)
    refused = 0
    for seed in range(first, first + count):
        rng = random.Random(seed)
        name = names[seed % len(names)]
        data = damaged(files[name], rng)
        target = folder / name
        if name in ("points.csv", "curves.csv", "machines.csv"):
            target = folder / "data"
            target.mkdir(exist_ok=True)
            for other in ("points.csv", "curves.csv", "machines.csv"):
                (target / other).write_bytes(data if other == name else files[other])
        else:
            packed = rng.random() < 0.05
            target.write_bytes(damaged(gzip.compress(data), rng) if packed else data)
        notes = Notes()
        try:
            found = read_measurements(target, notes)
        except InputError as error:
            assert "\n" not in str(error), f"seed {seed}"
            refused += 1
        else:
            check(found)
        assert all("\n" not in text for text in notes), f"seed {seed}"
    return count - refused, refused


def test_intact_ones_are_read(tmp_path: Path) -> None:
    for name, data in intact().items():
        if name not in ("curves.csv", "machines.csv", "points.csv"):
            (tmp_path / name).write_bytes(data)
            found = read_measurements(tmp_path / name)
            check(found)
            assert len(found)


def test_damaged_ones_never_escape(tmp_path: Path) -> None:
    read, refused = mutate(tmp_path, 360)
    assert read > 100 and refused > 50


@pytest.mark.slow
def test_ten_thousand_damaged_ones_never_escape(tmp_path: Path) -> None:
    read, refused = mutate(tmp_path, 10_000, first=1_000)
    assert read > 3_000 and refused > 1_500
