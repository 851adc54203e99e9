"""Small intact inputs of every tool, as folders of files by name."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from damage import Files

from chakrasim.cli.main import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import made_jobs

DATA = Path(__file__).resolve().parents[1] / "data"


def _lines(name: str) -> list[Any]:
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def _bytes(document: object) -> bytes:
    return json.dumps(document).encode()


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def _command(*words: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        if main([str(word) for word in words]) > 1:
            raise AssertionError(f"{words}: {said.getvalue()}")


@cache
def pairs() -> tuple[Files, ...]:
    """Host and device traces of one rank."""
    job = made_jobs.device(0, 2, steps=1, kernels=2, collectives=2)
    found = [{"host.0.json": _bytes(made_jobs.host(job)), "device.0.json": _bytes(job)}]
    for name in ("evsync", "triton"):
        folder = DATA / "chakra-tools" / name
        found.append({f"{kind}.0.json": _unpacked(folder / f"{kind}.0.json.gz") for kind in ("host", "device")})
    folder = DATA / "torch" / "gloo4"
    found.append({f"{kind}.0.json": _unpacked(folder / f"{kind}.0.json.gz") for kind in ("host", "device")})
    made = sorted(_lines("chakra-tools/pairs"), key=lambda pair: len(json.dumps(pair)))[:40:4]
    found += [{"host.0.json": _bytes(pair["host"]), "device.0.json": _bytes(pair["device"])} for pair in made]
    return tuple(found)


@cache
def devices() -> tuple[Files, ...]:
    """Device traces of one rank or two."""
    found = [{"device.0.json": pair["device.0.json"]} for pair in pairs()[:4]]
    ranks = [made_jobs.device(rank, 2, steps=2, kernels=2, collectives=1, shift=40 * rank) for rank in range(2)]
    found += [{f"device.{rank}.json": _bytes(ranks[rank]) for rank in range(2)}] * 3
    cases = [_bytes(case["trace"]) for name in ("probes", "random") for case in _lines(f"critical-path/{name}")[:24]]
    return (*found, *({"device.0.json": case} for case in cases))


@cache
def jobs() -> tuple[Files, ...]:
    """Folders of host and device traces of a whole job."""
    made = [made_jobs.device(rank, 2, pid=100 + rank, steps=1, kernels=2, collectives=2) for rank in range(2)]
    small: Files = {}
    for rank, document in enumerate(made):
        small[f"host.{rank}.json"] = _bytes(made_jobs.host(document, pid=100 + rank))
        small[f"device.{rank}.json"] = _bytes(document)
    gloo = {path.name[:-3]: _unpacked(path) for path in sorted((DATA / "torch" / "gloo4").glob("*.[01].json.gz"))}
    choice = {"0": {"host": "host.0.json", "device": "device.0.json"}, "1": {"device": "device.1.json"}}
    alone = {name: data for name, data in small.items() if name.startswith("device")}
    return small, small, gloo, {**small, "map.json": _bytes(choice)}, alone, *pairs()[4:]


@cache
def linked() -> tuple[Files, ...]:
    """Linked traces, ours and the reference's."""
    found = []
    for number, pair in enumerate(pairs()):
        for names in (("host", "device"), ("device",), ("host",)) if number < 2 else (("host", "device"),):
            with tempfile.TemporaryDirectory() as folder:
                words: list[object] = []
                for name in names:
                    path = Path(folder, f"{name}.0.json")
                    path.write_bytes(pair[path.name])
                    words += [f"--{name}", path]
                _command("link", *words, "-o", f"{folder}/linked.json")
                found.append({"linked.0.json": Path(folder, "linked.json").read_bytes()})
    return tuple(found)


@cache
def reference_linked() -> tuple[Files, ...]:
    """Linked traces as the reference writes them."""
    made = sorted((case["linked"].encode() for case in _lines("chakra-tools/linked")), key=len)
    folders = [DATA / "chakra-tools" / name / "linked.0.json.gz" for name in ("micro", "evsync", "triton")]
    return tuple({"linked.0.json": data} for data in (*map(_unpacked, folders), *made[:160:4]))


@cache
def traces() -> tuple[Files, ...]:
    """Chakra traces: converted jobs with their groups, the reference's, and generated ones."""
    found = []
    for job in (jobs()[0], jobs()[0], jobs()[2], pairs()[1], jobs()[4]):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in job.items():
                Path(folder, name).write_bytes(data)
            _command("trace", folder, "-o", f"{folder}/out", "--jobs", "1")
            names = sorted(path for path in Path(folder, "out").iterdir() if path.name != "report.json")
            found.append({path.name: path.read_bytes() for path in names})
    for name in ("micro", "triton"):
        found.append({"chakra.0.et": _unpacked(DATA / "chakra-tools" / name / "chakra.0.et.gz")})
    with tempfile.TemporaryDirectory() as folder:
        _command("generate", "reference-set", "--num-npus", "2", "--output-dir", folder)
        for path in sorted(Path(folder).glob("*.0.et")):
            other = Path(str(path).replace(".0.et", ".1.et"))
            found.append({"chakra.0.et": path.read_bytes(), "chakra.1.et": other.read_bytes()})
    return tuple(found)


@cache
def masters() -> tuple[Files, ...]:
    """Master traces of several ranks."""
    found = []
    for files in traces():
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            _command("merge", f"{folder}/chakra", "-o", f"{folder}/all.et")
            found.append({"all.et": Path(folder, "all.et").read_bytes()})
    return tuple(found)


@cache
def texts() -> tuple[Files, ...]:
    """Text workloads of ASTRA-sim 1.0."""
    made = sorted((case["text"] for case in _lines("chakra-tools/text")), key=len)
    return tuple({"w.txt": text.encode("utf-8", "surrogatepass")} for text in made[:120:3])


@cache
def logs() -> tuple[Files, ...]:
    """Logs of a simulation."""
    names = ("COMP_NODE_x", "COMM_COLL_NODE_1", "MEM_LOAD_NODE_a", "COMM_SEND_NODE_<a, b>")
    lead = "[2026-03-26 10:00:00.000] [workload] [info] "
    plain, long = [], ["noise"]
    for at in range(8):
        name = names[at % len(names)]
        rank, begin, end = at % 2, 1000 * at, 1000 * at + 1500
        plain += [f"issue,a={rank},b={begin},c={at},d={name}", f"callback,a={rank},b={end},c={at},d={name}"]
        rest = f"node->id={at},node->name={name},node->type=7"
        long += [f"{lead}{what},sys->id={rank},tick={t},{rest}" for what, t in (("issue", begin), ("callback", end))]
    return tuple({"run.log": ("\n".join(lines) + "\n").encode()} for lines in (plain, long))
