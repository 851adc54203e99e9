"""Outputs into folders that are not there yet: every command that writes makes them."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim.cli.main import COMMANDS
from chakrasim.converter.master import merge_traces
from chakrasim.demo import TRACES
from chakrasim.trace import TraceBuilder, read, write_trace

PAIR = Path(__file__).parents[1] / "data" / "chakra-tools" / "evsync"
LOG = "issue,sys->id=0, tick=0, node->id=1, node->name=a\ncallback,sys->id=0, tick=9, node->id=1, node->name=a\n"

#: Command lines; each writes new/er/FILE, whose name is the last word of the pair.
WRITERS = [
    ("generate collective --type all_reduce --size 8 --ranks 2 -o new/er/c", "c.ranks.json"),
    ("generate collective --type all_reduce --size 8 --ranks 2 -o new/er/c --expand", "c.0.et"),
    ("generate collective --type all_reduce --size 8 --ranks 2 -o c --json new/er/c.json", "c.json"),
    ("generate reference-set --num-npus 1 --output-dir new/er", "ALL_REDUCE.0.et"),
    ("merge w -o new/er/all.et", "all.et"),
    ("split all.et -o new/er/w", "w.1.et"),
    ("link --device device.json -o new/er/linked.json", "linked.json"),
    ("link --host host.json --device device.json -o new/er/linked.json --compat chakra", "linked.json"),
    ("link recorded -o new/er", "linked.0.json"),
    ("trace recorded -o new/er", "chakra.0.et"),
    ("convert linked.json -o new/er/x.et --compat chakra", "x.et"),
    ("convert linked.json -o x.et --compat chakra --simulate --log-filename new/er/s.log", "s.log"),
    ("convert Text w.txt -o new/er/x --num-npus 2 --num-passes 1", "x.1.et"),
    ("retarget w --to 4 -o new/er/w", "w.ranks.json"),
    ("learn w w -o new/er/m", "m"),
    ("synthesize m --output new/er/s", "s.ranks.json"),
    ("obfuscate w --level names --machine hgx-h100-2 --output new/er/o", "o.ranks.json"),
    ("jsonize w.0.et -o new/er/w.json", "w.json"),
    ("draw w.0.et -o new/er/w.svg", "w.svg"),
    ("timeline device.json -o new/er/t.json.gz", "t.json.gz"),
    ("timeline run.log -o new/er/t.json", "t.json"),
    ("simulate w --machine hgx-h100-2 --json new/er/r.json", "r.json"),
    ("simulate w --machine hgx-h100-2 --timeline new/er/t.json", "t.json"),
    ("explain w --machine hgx-h100-2 --json new/er/x.json", "x.json"),
    ("what-if w --machine hgx-h100-2 --set compute=2 --json new/er/x.json", "x.json"),
    ("flows --machine h100 --pattern incast:1x1KiB --json new/er/f.json", "f.json"),
    ("predict collective --machine h100 --collective all_reduce --size 8 --json new/er/p.json", "p.json"),
    ("predict collective --machine h100 --collective all_reduce --sizes 8:64 --plot new/er/p.svg", "p.svg"),
    ("estimate llama3-8b --machine h100 --gpus 8 --batch 8 --json new/er/e.json", "e.json"),
    ("calibrate collectives --data slow.log --output new/er/m.yaml --json new/er/c.json", "m.yaml"),
    ("network fabric.topo -o new/er/fabric.graphml", "fabric.graphml"),
    ("network fabric.topo --json new/er/n.json", "n.json"),
    ("replay w --dry-run --json new/er/r.json", "r.json"),
    ("info w --json new/er/i.json", "i.json"),
    ("doctor recorded --json new/er/d.json", "d.json"),
    ("analyze kernels device.json --json new/er/k.json", "k.json"),
    ("analyze kernels device.json --csv new/er/k.csv", "k.csv"),
    ("analyze collectives recorded --json new/er/c.json", "c.json"),
    ("compare device.json device.json --json new/er/c.json", "c.json"),
    ("compare-jobs w w --machine hgx-h100-2 --json new/er/c.json", "c.json"),
    ("bind w --measured recorded -o new/er/b --least 0", "b.ranks.json"),
    ("analyze critical-path device.json --overlay new/er/o.json", "o.json"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an input for each command."""
    builder = TraceBuilder()
    builder.add(1, name="ar", type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20})
    cs.write(tmp_path / "w", [builder.build()] * 2)
    write_trace(tmp_path / "all.et", merge_traces(read(tmp_path / "w")))
    for name in ("host", "device", "linked"):
        (tmp_path / f"{name}.json").write_bytes(gzip.decompress((PAIR / f"{name}.0.json.gz").read_bytes()))
    (tmp_path / "w.txt").write_text("DATA\n1\nfc -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 0\n")
    (tmp_path / "fabric.topo").write_text("3 1 2\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n")
    (tmp_path / "run.log").write_text(LOG)
    shutil.copy(PAIR.parents[1] / "nccl-logs" / "nccl-tests-slow-pair-exponent.log", tmp_path / "slow.log")
    (tmp_path / "recorded").mkdir()
    for rank in (0, 1):
        shutil.copy(TRACES / f"device.{rank}.json.gz", tmp_path / "recorded")
    monkeypatch.chdir(tmp_path)
    cs.write_model(tmp_path / "m", cs.learn(["w", "w"]))
    return tmp_path


@pytest.mark.parametrize(("line", "name"), WRITERS, ids=[line for line, _ in WRITERS])
def test_a_folder_of_an_output_is_made(line: str, name: str, place: Path, cli: Callable) -> None:
    outcome = cli(*line.split())
    assert outcome.code in (0, 1), outcome.err
    assert (place / "new" / "er" / name).stat().st_size
    assert not [path.name for path in (place / "new").rglob(".*")]


def test_every_command_that_writes_is_here() -> None:
    # Those need PyTorch or data, take long, or write nothing.
    without = {"collect", "capture", "machines", "demo", "validate", "experiment", "goodput", "plan", "sweep"}
    assert {line.split()[0] for line, _ in WRITERS} == set(COMMANDS) - without


def test_a_run_that_fails_makes_no_folder(place: Path, cli: Callable) -> None:
    assert cli("simulate", "none", "--machine", "hgx-h100-2", "--json", "new/r.json").code == 2
    assert cli("merge", "none", "-o", "new/all.et").code == 2
    assert cli("trace", "none", "-o", "new/out").code == 2
    assert not (place / "new").exists()
