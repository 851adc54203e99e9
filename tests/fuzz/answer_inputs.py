"""Small intact inputs of the commands that answer questions, and of those that learn, bind and compare."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import job_inputs
import machine_inputs
import numpy as np
import tool_inputs
from damage import Files

import chakrasim as cs
from chakrasim.cli.main import main

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "trace"))
import foreign_texts

import made_steps

SWEEPS = (
    f"""\
base: {{model: {job_inputs.MODEL}, machine: h100, gpus: 8, batch: 8}}
vary:
  tp: [1, 2]
  pp: {{from: 1, to: 2, factor: 2}}
  micro_batch: [1, 2]
where: ["dp * tp * pp == gpus"]
front: [step_s, memory_bytes]
""",
    "base: {model: llama-7b, machine: machine.yaml, gpus: 8, batch: 8, price_per_gpu_hour: 2.5}\n"
    "vary: {nic: [200G, 400G], recompute: [none, full]}\n",
)
GOODPUT = """\
step_s: 5.2
nodes: 64
failures: {gpu: 0.0021, network: 0.0005}
checkpoint_write_s: 30
checkpoint_interval_s: best
restart_s: 300
days: 2
"""
SCENARIOS = """\
# a scenario a line
rank:0-1=1.2
communication=0.5; op:*=1.1
"""
BOARD = "format: 1\nname: own\nboard: h100\ngpus: 16\nfabric: {kind: rail}\n"


def _written(*words: str, below: Files | None = None) -> Files:
    """What a command writes into a folder, given as "OUT"; ``below``: what it finds there, and leaves."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (below or {}).items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(data)
        if main([word.replace("OUT", folder) for word in words]):
            raise AssertionError(words)
        found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.*"))
                 if path.is_file()}  # fmt: skip
    return {name: data for name, data in found.items() if name not in (below or {})}


@cache
def asked() -> tuple[Files, ...]:
    """What estimates, plans and sweeps read."""
    machine = {"machine.yaml": job_inputs.MACHINE.replace("RANKS", "4").encode(), "device.yaml": job_inputs._device()}
    specs = tuple({"step.yaml": spec.encode(), **machine} for spec in job_inputs.SPECS)
    return (*specs, {"step.yaml": job_inputs.SPECS[0].encode(), "machine.yaml": BOARD.encode()})


@cache
def sweeps() -> tuple[Files, ...]:
    """Sweeps, one of a machine of its own."""
    return tuple({"sweep.yaml": text.encode(), "machine.yaml": BOARD.encode()} for text in SWEEPS)


@cache
def specs_of_goodput() -> tuple[Files, ...]:
    """A long training."""
    return ({"job.yaml": GOODPUT.encode()},)


@cache
def scenarios() -> tuple[Files, ...]:
    """Jobs and their machine, with scenarios beside them."""
    return tuple({**files, "scenarios.txt": SCENARIOS.encode()} for files in job_inputs.jobs()[:5])


@cache
def straggler_steps() -> tuple[Files, ...]:
    """Steps in the open straggler format; most of the tables have odd cells, which few changes of bytes make."""
    draw, made, found = random.Random("steps"), made_steps.Made(2, 2, 2, 2, 1), []
    whole = made.columns()
    for number in range(128):
        columns = {name: column.copy() for name, column in whole.items()}
        for _ in range(number % 3):
            _make_odd(columns, draw)
        with tempfile.TemporaryDirectory() as folder:
            made.write(Path(folder), columns)
            found.append({path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())})
    return tuple(found)


def _make_odd(columns: dict[str, Any], draw: random.Random) -> None:
    """Give a column other numbers, in one row or all; another type; or take it away."""
    name = draw.choice(sorted(columns))
    column, kind = columns[name], draw.randrange(8)
    if kind == 0:
        del columns[name]
    elif kind == 1:
        columns[name] = column.astype(draw.choice((str, "f4", "i1") if column.dtype.kind in "if" else (str, "U3")))
    else:
        at = draw.randrange(len(column)) if kind < 6 else slice(None)
        odd = [-1, 0, 7, 1 << 31, *((np.nan, np.inf, 1e300, -1e18) if column.dtype.kind == "f" else ())]
        column[at] = column[draw.randrange(len(column))] if draw.random() < 0.4 else draw.choice(odd)


@cache
def results() -> tuple[Files, ...]:
    """Two runs to compare: simulated, estimated, recorded."""
    job = job_inputs.jobs()[1]
    words = ("simulate", "OUT/job", "--quiet", "--machine")
    simulated = {
        **_written(*words, "OUT/machine.yaml", "--json", "OUT/a.json", below=job),
        **_written(*words, "OUT/machine.yaml", "--no-fold", "--json", "OUT/b.json", below=job),
    }
    model = {"step.yaml": job_inputs.SPECS[1].encode()}
    estimates = ("estimate", "OUT/step.yaml", "--quiet", "--machine")
    estimated = {
        **_written(*estimates, "h100", "--json", "OUT/a.json", below=model),
        **_written(*estimates, "a100", "--json", "OUT/b.json", below=model),
    }
    traces = [files["device.0.json"] for files in tool_inputs.devices()[:4]]
    recorded = {"a.json": traces[1], "b.json": traces[3]}
    return simulated, estimated, recorded, {"a.json": traces[0], "b.json": traces[2]}


def _step(layers: int, hidden: int, dp: int) -> str:
    model = f"{{layers: {layers}, hidden: {hidden}, heads: 4, vocabulary: 256, sequence: 16}}"
    return f"model: {model}\nparallel: {{dp: {dp}, tp: 2}}\nbatch: {{micro_batches: 1, micro_batch: 1}}\n"


@cache
def learned() -> tuple[Files, ...]:
    """Few small jobs, and what is learned from them."""
    found: Files = {}
    for number, (layers, hidden, dp) in enumerate([(1, 64, 1), (2, 64, 2), (2, 128, 1), (3, 128, 2)]):
        spec = {"spec.yaml": _step(layers, hidden, dp).encode()}
        words = ("generate", "transformer", "--spec", "OUT/spec.yaml", "--quiet", "--output")
        found |= _written(*words, f"OUT/jobs/{number}/job", below=spec)
    return ({**found, **_written("learn", "OUT/jobs", "-o", "OUT/m.chakrasim-model", "--quiet", below=found)},)


@cache
def bound() -> tuple[Files, ...]:
    """Jobs as captured, and folders of what was recorded."""
    job = {f"pre/{name}": data for name, data in job_inputs.jobs()[1].items()}
    return tuple({**job, **{f"post/{name}": data for name, data in files.items()}} for files in tool_inputs.jobs()[:3])


@cache
def foreign() -> tuple[Files, ...]:
    """Jobs of other makers."""
    texts = {"w.txt": foreign_texts.SIMAI, "w.csv": foreign_texts.AICB}
    goals = tuple({"w.goal": foreign_texts.goal(seed, most=8).encode()} for seed in range(6))
    return (*({name: text.encode()} for name, text in texts.items()), *goals)


@cache
def measured_collectives() -> tuple[Files, ...]:
    """Logs of nccl-tests."""
    folder = tool_inputs.DATA / "nccl-logs"
    logs = [path.read_bytes() for path in sorted(folder.iterdir())]
    logs = [gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in logs]
    return tuple({"run.log": _thinned(data)} for data in logs if len(data) < 1 << 16)


def _thinned(data: bytes) -> bytes:
    """A log without two of three sizes: the fewer are fitted, the more logs are."""
    sizes = count()
    lines = data.splitlines(keepends=True)
    return b"".join(
        line for line in lines if not re.search(rb"\b\d+ +\d+ +[a-z]\w+ +\w+ +-?\d", line) or next(sizes) % 3 == 0
    )


@cache
def measured_steps() -> tuple[Files, ...]:
    """Published steps, of few layers and passes on few devices: what a row simulates is small."""
    with (Path(cs.__file__).parent / "validation" / "steps" / "steps.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["gpus"] in ("4", "8", "16") and row["layers"] != "88"]
    for row in rows:
        passes = min(int(row["grad_accum"] or 1), 2)
        batch = passes * int(row["micro_batch"] or 1) * int(row["dp"] or 1)
        row |= {"layers": str(2 * int(row["pp"] or 1) * int(row["vp"] or 1)), "grad_accum": str(passes)}
        row |= {"global_batch": str(batch)}
    chosen = [[row for row in rows if row["gpu"] == "H100-SXM-80GB"], [row for row in rows if row["pp"] != "1"], rows]
    return tuple({"steps.csv": _table(some[at :: len(some) // 2][:2])} for some in chosen for at in (0, 7))


def _table(rows: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()


@cache
def flows() -> tuple[Files, ...]:
    """Flows with their links, and flows for a machine."""
    case = {"links": [[0, 1, 10.0], [1, 2, 5.0], [2, 0, 2.5]],
            "flows": [[0, 1000, [0, 1]], [5, 3000, [1]], [9, 700, [2]]], "weights": [1, 2, 1]}  # fmt: skip
    table = "source,destination,size_bytes,start_ns,label\n0,1,4096,0,a\n1,2,100000,10,b\n3,0,1,20,c\n"
    return {"case.json": json.dumps(case).encode()}, {"flows.csv": table.encode(), "machine.yaml": BOARD.encode()}


@cache
def machines() -> tuple[Files, ...]:
    """Machines of every kind."""
    return ({"machine.yaml": BOARD.encode()}, *asked()[:1], *machine_inputs.configurations()[1:])
