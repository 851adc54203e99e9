"""Wrong input of the commands that make, change, calibrate and run jobs: each kind by its message."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError, read_job
from chakrasim.generator.collective import collective_job

Cli = Callable[..., Any]
Refused = Callable[..., str]
SPEC = """\
model: {layers: 2, hidden: 64, heads: 4, vocabulary: 256, sequence: 16}
parallel: {dp: 2, tp: 2, pp: 2}
batch: {global_batch: 8, micro_batch: 1}
"""
MACHINE = """\
format: 1
name: eight
network: [{topology: Switch, npus: 8, bandwidth: 50 GB/s, latency: 500 ns}]
memory: {bandwidth: 100 GB/s}
compute: {profile: PROFILE}
collectives: {splits: 2, algorithms: {all-reduce: ring}}
"""
TIMES = Path(__file__).parents[1] / "data" / "layer-times"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.yaml").write_text(SPEC)
    return tmp_path / "step.yaml"


@pytest.fixture
def job(cli: Cli, spec: Path, tmp_path: Path) -> Path:
    assert cli("generate", "transformer", "--spec", spec, "-o", "job", "--quiet").code == 0
    return tmp_path / "job"


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("", "no prefix of file names; found ''"),
        ("out/", "no prefix of file names; found 'out/'"),
        ("a\0b", "no prefix of file names"),
        ("job.ranks.json", "a ranks file's name, not a prefix; found 'job.ranks.json'; give job"),
        ("step.yaml/no/job", "its folder cannot be made; found no folder: step.yaml"),
    ],
)
def test_prefixes_of_outputs(refused: Refused, job: Path, tmp_path: Path, prefix: str, message: str) -> None:
    (tmp_path / "out").mkdir()
    before = sorted(os.listdir(tmp_path))
    for words in (
        ("generate", "transformer", "--spec", "step.yaml"),
        ("generate", "collective", "--type", "all_reduce", "--size", "1", "--ranks", "2"),
        ("retarget", "job", "--to", "16"),
    ):
        assert message in refused(*words, "-o", prefix)
    assert sorted(os.listdir(tmp_path)) == before
    assert not os.listdir(tmp_path / "out")


@pytest.mark.parametrize("name", ["new.ranks.json", "new.class-0.et", "new.12.et.gz", "new.comm_group.json"])
def test_json_does_not_replace_the_job_beside_it(refused: Refused, job: Path, name: str) -> None:
    told = refused("generate", "transformer", "--spec", "step.yaml", "-o", "new", "--json", name)
    assert f"{name}: --json would replace a file of the job" in told
    assert "would replace a file" in refused("retarget", "job", "--to", "16", "-o", "new", "--json", name)
    assert not list(job.parent.glob("new.*"))


def test_retarget_does_not_replace_its_input(refused: Refused, job: Path) -> None:
    assert "would replace the input" in refused("retarget", "job.ranks.json", "--to", "16", "-o", "job")


def test_replay_takes_the_ranks_file_too(cli: Cli, job: Path) -> None:
    both = [json.loads(cli("replay", name, "--dry-run", "--json", "-").out) for name in ("job", "job.ranks.json")]
    for content in both:
        content.pop("source", None)
    assert both[0] == both[1]


@pytest.mark.parametrize(
    "words", [("learn", "X", "-o", "m"), ("compare-jobs", "X", "job"), ("bind", "X", "--measured", "job", "-o", "b")]
)
def test_a_file_where_a_job_should_be_is_named_for_what_it_is(
    refused: Refused, job: Path, words: tuple[str, ...]
) -> None:
    for name, told in (
        ("job.class-0.et", "found a trace of one rank, by its name; expected PREFIX.ranks.json"),
        ("step.yaml", "found a text file beginning 'model:"),
        ("empty", "found an empty file"),
    ):
        Path("empty").touch()
        assert f"{name}: this file is no job; {told}" in refused(*(name if word == "X" else word for word in words))


@pytest.mark.parametrize("sizes", ["hidden: 1099511627776", "sequence: 1099511627776"])
def test_work_beyond_64_bits(refused: Refused, spec: Path, sizes: str) -> None:
    key = sizes.partition(":")[0]
    old = {"hidden": "hidden: 64", "sequence": "sequence: 16"}[key]
    spec.write_text(SPEC.replace(old, sizes))
    for device in ((), ("--device-profile", "h100")):
        told = refused("generate", "transformer", "--spec", spec, "-o", "new", *device)
        assert "beyond what a trace can hold" in told
        assert "make the model's sizes" in told


def test_more_passes_than_memory_holds(refused: Refused, spec: Path) -> None:
    spec.write_text(SPEC.replace("global_batch: 8, micro_batch: 1", "micro_batches: 200000"))
    told = refused("generate", "transformer", "--spec", spec, "-o", "new")
    assert "$.model.layers: layers x micro-batches (200000) are more than a trace should have" in told


def test_more_messages_than_are_made() -> None:
    with pytest.raises(InputError, match=r"all_pairs of 1,048,576 ranks, 1 times, has more nodes .* use all_to_all"):
        collective_job("all_pairs", 1, 1 << 20)
    with pytest.raises(InputError, match=r"found 20,000,000 nodes; expected at most 4,000,000"):
        collective_job("send_recv", 1, 1000, repeat=10_000)
    with pytest.raises(InputError, match=r"size is out of range; found 4611686018427387904; expected 0 to 2\^62 - 1"):
        collective_job("all_reduce", 1 << 62, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 column 1: the ranks file is no JSON: Expecting value"),
        (b'{"ranks": 8,', "line 1 column 13: the ranks file is no JSON"),
        (b"\x89PNG\r\n\x1a\n", "byte 0: the ranks file is no text; expected JSON in UTF-8"),
        (b"[" * 100_000, "the ranks file is nested too deeply"),
        (b'{"ranks": ' + b"9" * 5000 + b"}", "the ranks file is no JSON: Exceeds the limit"),
    ],
)
def test_damaged_ranks_files(refused: Refused, job: Path, content: bytes, message: str) -> None:
    Path("job.ranks.json").write_bytes(content)
    for words in (("simulate", "job", "--machine", "hgx-h100-8"), ("info", "job"), ("replay", "job", "--dry-run")):
        assert f"job.ranks.json: {message}" in refused(*words)


def test_ranks_files_with_more_traces_than_ranks(job: Path) -> None:
    content = json.loads(Path("job.ranks.json").read_text())
    Path("job.ranks.json").write_text(json.dumps({**content, "files": content["files"] * 100_000}))
    with pytest.raises(
        InputError, match=r"\$.files: there are more traces than ranks; found 200000; expected at most 8"
    ):
        read_job(job)


def test_other_ranks_than_the_job_has(refused: Refused, job: Path) -> None:
    told = refused("simulate", "job", "--machine", "hgx-h100-8", "--ranks", "9")
    assert "9 ranks are asked for, but the workload and the network have 8; leave ranks out" in told


def test_timelines_of_jobs(refused: Refused, job: Path) -> None:
    for name in ("job", "job.ranks.json"):
        told = refused("timeline", name, "-o", "t.json")
        assert "this file has no times to draw; found a job" in told
        assert "simulate the job" in told


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("nope", "machine.yaml: line 5: $.compute.profile: neither a shipped device nor a file; found 'nope'"),
        ('""', "machine.yaml: line 5: $.compute.profile: no name; expected a file, or one of a100"),
        ("none.yaml", "none.yaml: device profile: no such file"),
        ("folder", "folder: device profile: cannot be read (Is a directory)"),
        ("job.class-0.et", ": not YAML: "),
        ("[h100]", "$.compute.profile: not a string"),
    ],
)
def test_device_profiles_of_machines(refused: Refused, job: Path, profile: str, message: str) -> None:
    Path("folder").mkdir()
    Path("machine.yaml").write_text(MACHINE.replace("PROFILE", profile))
    assert message in refused("simulate", "job", "--machine", "machine.yaml")


def test_quantities_out_of_range(refused: Refused, job: Path) -> None:
    Path("machine.yaml").write_text(MACHINE.replace("PROFILE", "h100").replace("50 GB/s", "1e400 GB/s"))
    told = refused("simulate", "job", "--machine", "machine.yaml")
    assert "$.network[0].bandwidth: the number is out of range; found '1e400 GB/s'" in told


def test_files_that_are_no_text(refused: Refused, spec: Path) -> None:
    spec.write_bytes(b"model: \x89PNG\r\n")
    told = refused("generate", "transformer", "--spec", spec, "-o", "new")
    assert "step.yaml: byte 7: not YAML: " in told
    assert "expected text in UTF-8 without control characters" in told


def test_folders_without_a_name(refused: Refused) -> None:
    assert "'': no such folder" in refused("calibrate", "compute", "--data", "")
    assert "--out: this is no name of a folder" in refused("demo", "--out", "")


def test_calibration_keeps_its_input(refused: Refused, tmp_path: Path) -> None:
    shutil.copytree(TIMES, tmp_path / "times")
    (times,) = (tmp_path / "times").glob("*/*/Llama*/tp1/layers.csv")
    before = times.read_bytes()
    for option in ("--output", "--json"):
        told = refused("calibrate", "compute", "--data", tmp_path / "times", option, times)
        assert f"{option} would replace measured times" in told
    assert times.read_bytes() == before
    assert "--output takes a file" in refused("calibrate", "compute", "--data", TIMES, "--output", "-")


@pytest.mark.parametrize("size", [2**26, 2**31 - 1])
def test_dimensions_whose_work_has_more_than_64_bits(refused: Refused, tmp_path: Path, size: int) -> None:
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "head_dim"), size)
    model = {**sizes, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 1000}
    (tmp_path / "models.json").write_text(json.dumps({"Llama-3.1-8B": model}))
    told = refused("calibrate", "compute", "--data", TIMES, "--model-config", tmp_path / "models.json")
    assert "layers.csv: layer " in told
    assert "operations or bytes of a layer are beyond 2^62" in told
