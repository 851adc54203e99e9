"""What --json writes says its format, and all of its keys are in the reference."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from chakrasim.cli.main import main
from chakrasim.demo import TRACES

PAGE = Path(__file__).parents[2] / "docs" / "reference-json.md"
SPEC = """\
model: {layers: 2, hidden: 256, heads: 4, vocabulary: 1024, sequence: 256}
parallel: {dp: 2, tp: 2, pp: 2}
batch: {micro_batches: 2}
"""
GOODPUT = "{step_s: 5, nodes: 64, failures: {gpu: 0.01}, checkpoint_write_s: 30, restart_s: 300, days: 3}\n"
ON = "--machine h100 --gpus 8"
MEASURED = Path(__file__).parents[1] / "data" / "layer-times"
COMMANDS = (
    "generate transformer --spec spec.yaml -o step",
    "generate collective --type all_reduce --size 1MiB --ranks 8 -o reduce",
    f"simulate step {ON}",
    f"explain step {ON}",
    f"what-if step {ON} --set compute=0.5",
    "what-if gpu.json.gz --set communication=0",
    f"estimate llama-7b {ON} --batch 8",
    "goodput --spec goodput.yaml",
    "experiment gpu-to-cpu-sync",
    "predict collective --machine h100 --collective all_reduce --size 1MiB --ranks 8",
    "compare 2.json 2.json",
    "compare-jobs step step --machine h100",
    "obfuscate step -o shared --level behaviour --device-profile h100 --machine h100",
    "bind step --measured recorded -o bound --least 0",
    "doctor recorded",
    f"calibrate compute --data {MEASURED}",
    "info gpu.json.gz",
    "analyze overlap gpu.json.gz",
    "analyze collectives recorded",
    "flows --machine h100 --gpus 16 --pattern incast:4x1MiB",
)


def documented() -> dict[str, set[str]]:
    """By format, the keys that the page has."""
    found: dict[str, set[str]] = {}
    for name, keys in re.findall(r"^\| `(chakrasim-[^`]+)` \| .* \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"`([^`]+)`", keys))
    return found


def test_documents_have_a_format_whose_keys_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    Path("goodput.yaml").write_text(GOODPUT)
    shutil.copytree(TRACES, "recorded")
    shutil.copy(Path(__file__).parents[1] / "data" / "hta" / "alexnet.json.gz", "gpu.json.gz")
    told = documented()
    for number, command in enumerate(COMMANDS):
        assert main([*command.split(), "--json", f"{number}.json"]) == 0
        written = json.loads(Path(f"{number}.json").read_text())
        keys = {*written} - {"format", "warnings", "notes"}
        if written["format"] != "chakrasim-analysis/1":
            assert keys <= told[written["format"]], (command, keys - told[written["format"]])
    assert len(told) > 20
