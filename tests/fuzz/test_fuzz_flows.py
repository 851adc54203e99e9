"""Damaged files of flows: an error with its place, or every flow of the file has an end or is said to have none.

``python tests/fuzz/test_fuzz_flows.py LOW HIGH`` runs the files that belong to the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
from damage import Files, damaged
from network_inputs import graph
from seeds import go_through, in_time

from chakrasim.cli.main import main
from chakrasim.machine.graph.formats.api import graph_text
from chakrasim.notes import Notes

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_FLOW_SEEDS", "250"))


@cache
def files() -> tuple[Files, ...]:
    """A case with everything that it can have, flows as objects, flows as a table."""
    draw = random.Random("flows")
    links = [["ab"[i % 2], i, draw.choice((10, 12.5, 50))] for i in range(8)]
    flows = [
        [draw.choice((0, 5, 0.5)), draw.choice((0, 1, 1e6, 65536)), draw.sample(range(8), draw.randint(0, 4))]
        for _ in range(20)
    ]
    case = {
        "links": links,
        "flows": flows,
        "weights": [draw.choice((1, 2, 0.5)) for _ in flows],
        "after": [None if at % 3 else draw.choice((None, *range(at))) for at in range(20)],
        "capacity_changes": [[100, 0, 5], [200, 0, 0], [300, 0, 10]],
    }
    listed = [
        {"source": at % 4, "destination": (at + 1) % 4, "size_bytes": 1000 * at, "after": at - 1 if at % 2 else -1}
        for at in range(8)
    ]
    listed = [{key: value for key, value in flow.items() if value != -1} for flow in listed]
    table = "source,destination,size_bytes,start_ns,after,weight,label\n"
    table += "".join(
        f"{at % 4},{(at + 1) % 4},{1000 * at},{at}.5,{at - 1 if at % 2 else ''},1,{at}\n" for at in range(8)
    )
    texts = {"case.json": json.dumps(case), "flows.json": json.dumps({"flows": listed}), "flows.csv": table}
    return tuple({name: text.encode()} for name, text in texts.items())


def outcome(seed: int, folder: Path) -> str:
    """What the command makes of the file of a seed."""
    draw = random.Random(f"flows {seed}")
    chosen = draw.choice(files())
    (name,) = chosen
    path, out, errors = folder / name, folder / "out.json", folder / "errors.txt"
    path.write_bytes(damaged(name, chosen, draw))
    out.unlink(missing_ok=True)
    words = ["flows", str(path), "--quiet", "--json", str(out), *(["--exact"] if draw.random() < 0.5 else [])]
    words += [] if name == "case.json" else ["--network", str(network_file(folder))]
    began = time.process_time()
    with errors.open("w") as stream:
        kept, sys.stderr = sys.stderr, stream
        try:
            code = main(words)
        finally:
            sys.stderr = kept
    in_time(began, name)
    said = errors.read_text()
    assert "Traceback" not in said, said
    if code == 2:
        assert not out.exists(), "half of a result"
        assert name in said or "--network" in said or "no network is given" in said, said
        return f"{name} refused"
    ends = json.loads(out.read_text())["finish_ns"]
    assert code == (3 if None in ends else 0), (code, said)
    assert all(end is None or (np.isfinite(end) and end >= 0) for end in ends)
    return f"{name} run"


def network_file(folder: Path) -> Path:
    """Four ranks on a file of a network."""
    path = folder / "net.json"
    if not path.exists():
        path.write_text(graph_text(graph(), "json", "net", Notes()))
    return path


def test_damaged_flows_are_refused_or_run(tmp_path: Path) -> None:
    seen = Counter(outcome(seed, tmp_path).split()[1] for seed in range(SEEDS))
    assert seen["run"] > SEEDS // 20
    assert seen["refused"] > SEEDS // 4


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        go_through(partial(outcome, folder=Path(folder)))
