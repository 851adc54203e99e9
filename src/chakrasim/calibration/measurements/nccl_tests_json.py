"""JSON that nccl-tests (-J) and rccl-tests (-Z json) write."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from chakrasim.calibration.measurements.curves import MOST_RANKS, Curve, MachineRow
from chakrasim.calibration.measurements.names import bus_factor, kind_of, spelled
from chakrasim.calibration.measurements.nccl_tests import version_of
from chakrasim.calibration.measurements.runs import Point, Run, stem_of
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.recognise import look

EXPECTED: Final = "JSON of nccl-tests (-J) or rccl-tests (-Z json)"
_PLACES: Final = (("out_of_place", False), ("in_place", True))
_QUIET: Final = ("NCCL_DEBUG", "NCCL_ALGO=", "NCCL_PROTO=", "NCCL_TESTS")
_TOLERANCE: Final = 2e-6  # of numbers that are printed with six decimals
_MOST: Final = 1 << 60
_MOST_GPUS: Final = 1024


class _Read:
    """The parts of a document, each asked for with its place."""

    def __init__(self, file: str, notes: Notes) -> None:
        self.file = file
        self.notes = notes
        self.unequal = self.empty = self.untimed = 0

    def fail(self, path: str, found: object, expected: str) -> InputError:
        return InputError(
            f"this is no {EXPECTED}", file=self.file, place=path, found=repr(found)[:60], expected=expected
        )

    def member(self, value: Any, path: str, kind: type, expected: str) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fail(path, value, expected)
        return value

    def whole(self, value: Any, path: str, low: int = 0, most: int = _MOST) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= most:
            raise self.fail(path, value, f"a whole number from {low} to {most:,}")
        return value

    def number(self, value: Any, path: str) -> float:
        """A number that is not negative; NaN for null and for text that says so."""
        if value is None or (isinstance(value, str) and value.lower() in ("nan", "n/a")):
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
            raise self.fail(path, value, "a number")
        return float(value)

    def point(self, size: int, place: bool, said: tuple[Any, Any, Any], factor: float, path: str) -> Point | None:
        """The point of a time in us and its two bandwidths; None, and counted, if it cannot be used."""
        time, algbw, busbw = (self.number(value, f"{path}.{name}") for value, name in zip(said, _SAID, strict=True))
        if size == 0:
            self.empty += 1
        elif not time > 0:
            self.untimed += 1
        elif not (_near(algbw, size / time / 1e3) and _near(busbw, factor * size / time / 1e3)):
            self.unequal += 1
        else:
            return (place, size, time, math.nan, math.nan, 1)
        return None

    def tell(self) -> None:
        """Say what was left out."""
        for count, why in ((self.unequal, "the bandwidths beside them are others"), (self.untimed, "there is no time")):
            if count:
                self.notes.warn(f"{self.file}: {count:,} results are left out: {why}")
        if self.empty:
            self.notes.note(f"{self.file}: {self.empty:,} results of size 0 are left out")


_SAID: Final = ("time", "alg_bw", "bus_bw")


def _near(printed: float, value: float) -> bool:
    return math.isnan(printed) or abs(printed - value) <= _TOLERANCE * max(1.0, value) + 1e-5 * value


def read_json(file: str, text: str, notes: Notes) -> list[Run]:
    """The runs in such a file. Raises InputError for JSON of anything else, and for JSON that ends early."""
    read = _Read(file, notes)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as fault:
        document = _lines(text)
        if document is None:
            place = f"line {fault.lineno}" if isinstance(fault, json.JSONDecodeError) else None
            message = (
                f"the JSON is damaged or cut off: {fault.msg if isinstance(fault, json.JSONDecodeError) else fault}"
            )
            raise InputError(message, file=file, place=place, expected=EXPECTED) from None
    if isinstance(document, dict) and isinstance(document.get("results"), list) and "config" in document:
        runs = _of_nccl_tests(read, document)
    elif isinstance(document, list) and document and isinstance(document[0], dict) and "busBw" in document[0]:
        runs = _of_rccl_tests(read, document)
    else:
        found = look(text[:4096].encode()) or "JSON"
        raise InputError(f"this is no {EXPECTED}", file=file, found=found, expected=EXPECTED)
    read.tell()
    if not any(run.points for run in runs):
        raise InputError("there are no times in this file", file=file, expected=EXPECTED)
    return runs


def _lines(text: str) -> list[Any] | None:
    """Records that stand on a line each; None if they do not."""
    try:
        return [json.loads(line.rstrip(",")) for line in text.splitlines() if line.strip(" \t,[]")]
    except (ValueError, RecursionError):
        return None


def _of_nccl_tests(read: _Read, document: Mapping[str, Any]) -> list[Run]:
    head, machine = _head(read, document)
    factor = bus_factor(head.collective, head.nranks)
    groups: dict[tuple[str, str], list[Point]] = {}
    for at, result in enumerate(document["results"]):
        path = f"$.results[{at}]"
        read.member(result, path, dict, "an object")
        size = read.whole(result.get("size"), f"{path}.size")
        dtype, redop = (read.member(result.get(name, ""), f"{path}.{name}", str, "text") for name in ("type", "redop"))
        points = groups.setdefault((dtype, redop), [])
        for name, place in _PLACES:
            said = result.get(name)
            if said is None:
                continue
            read.member(said, f"{path}.{name}", dict, "an object")
            if "cpu_time" in said:
                raise read.fail(f"{path}.{name}", "cpu_time", "times of collectives, not of their calls (without -C 1)")
            values = (said.get("time"), said.get("alg_bw"), said.get("bus_bw"))
            point = read.point(size, place, values, factor, f"{path}.{name}")
            points += [point] if point else []
    return [
        Run(replace(head, dtype=dtype, redop=redop), points, None, machine) for (dtype, redop), points in groups.items()
    ]


def _head(read: _Read, document: Mapping[str, Any]) -> tuple[Curve, MachineRow]:
    config = read.member(document["config"], "$.config", dict, "an object")
    devices = read.member(config.get("devices", []), "$.config.devices", list, "a list")
    each = read.whole(config.get("nthreads", 1), "$.config.nthreads", 1, _MOST_GPUS)
    each *= read.whole(config.get("ngpus", 1), "$.config.ngpus", 1, _MOST_GPUS)
    # There is one entry for a process, whatever the number of its GPUs.
    processes = set()
    for at, device in enumerate(devices):
        path = f"$.config.devices[{at}]"
        read.member(device, path, dict, "an object")
        processes.add((str(device.get("hostname", "")), str(device.get("pid", at)), str(device.get("group", 0))))
    groups = {group for _, _, group in processes}
    mine = [process for process in processes if process[2] == min(groups)]
    hosts = sorted({host for host, _, _ in mine if host})
    nranks = max(len(mine), 1) * each
    nodes = max(len(hosts), 1)
    gpu = str(devices[0].get("device_info", ""))[:80].strip() if devices else ""
    version = document.get("nccl_version")
    per_node = -(-nranks // nodes)
    name = f"{gpu or 'unknown'} x{per_node}"
    env = _environment(document.get("env"))
    curve = Curve(
        name=stem_of(read.file),
        source=os.path.basename(read.file),
        machine=name,
        gpu=gpu,
        nodes=nodes,
        gpus_per_node=per_node,
        nranks=nranks,
        library="NCCL",
        version=version_of(version) if isinstance(version, int) and 1000 <= version < 10**6 else "",
        collective=_program(read, document),
        algo=env.get("NCCL_ALGO", "auto"),
        proto=env.get("NCCL_PROTO", "auto"),
        env=" ".join(f"{key}={value}" for key, value in env.items() if not f"{key}=".startswith(_QUIET)),
        hosts=tuple(hosts),
    )
    return curve, MachineRow(name, gpu=gpu, gpus_per_node=per_node)


def _environment(lines: Any) -> dict[str, str]:
    """The library's variables among those of the program."""
    pairs = (line.split("=", 1) for line in lines if isinstance(line, str)) if isinstance(lines, list) else ()
    return {pair[0]: pair[1] for pair in sorted(pairs) if len(pair) == 2 and pair[0].startswith(("NCCL_", "RCCL_"))}


def _program(read: _Read, document: Mapping[str, Any]) -> str:
    arguments = document.get("args")
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    names = [os.path.basename(first)] if isinstance(first, str) else []
    names += [str(result.get("experiment_name", "")) for result in document["results"][:1] if isinstance(result, dict)]
    for name in names:
        if kind_of(spelled(name)) is not None:
            return spelled(name)
    raise read.fail("$.args[0]", first, "the name of a program that measures a collective, such as all_reduce_perf")


def _of_rccl_tests(read: _Read, records: list[Any]) -> list[Run]:
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for at, record in enumerate(records):
        path = f"$[{at}]"
        read.member(record, path, dict, "an object")
        name = read.member(record.get("name"), f"{path}.name", str, "the name of a collective")
        collective = spelled(name)
        if kind_of(collective) is None:
            raise read.fail(f"{path}.name", name, "the name of a collective")
        gpus = read.whole(record.get("gpusPerRank", record.get("gpus", 1)), f"{path}.gpusPerRank", 1, _MOST_GPUS)
        nranks = read.whole(record.get("ranks", 1), f"{path}.ranks", 1, MOST_RANKS // gpus) * gpus
        nodes = min(read.whole(record.get("nodes", 1), f"{path}.nodes", 1), nranks)
        place = str(record.get("inPlace")).lower() in ("1", "true")
        size = read.whole(record.get("size"), f"{path}.size")
        said = (record.get("time"), record.get("algBw"), record.get("busBw"))
        point = read.point(size, place, said, bus_factor(collective, nranks), path)
        key = (collective, nranks, nodes, str(record.get("type", "")), str(record.get("redop", "")))
        groups.setdefault(key, []).extend([point] if point else [])
    return [_rccl_run(read.file, key, points) for key, points in groups.items()]


def _rccl_run(file: str, key: tuple[Any, ...], points: list[Point]) -> Run:
    collective, nranks, nodes, dtype, redop = key
    each = -(-nranks // nodes)
    curve = Curve(
        *(stem_of(file), os.path.basename(file), f"unknown x{each}", "", nodes, each, nranks, "RCCL", "", collective),
        dtype=dtype,
        redop=redop,
    )
    return Run(curve, points, None, MachineRow(curve.machine, gpus_per_node=each))
