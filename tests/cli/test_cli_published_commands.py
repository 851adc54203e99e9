"""Command lines that guides to other tools print run here with another program's name, or are answered with ours."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim.demo import TRACES
from chakrasim.linker.api import link
from chakrasim.trace import TraceBuilder, read_trace
from chakrasim.trace.linked.file import write_linked

DATA = Path(__file__).parents[1] / "data"
PAIR = DATA / "chakra-tools" / "evsync"

#: What stands for what begins a command line there.
PROGRAMS = {
    "python -m chakra.trace_link.trace_link": "link",
    "python -m chakra.et_converter.et_converter": "convert",
    "sudo docker exec astra-sim ${BINARY}": "simulate",
    "chakra_visualizer": "draw",
    "chakra_jsonizer": "jsonize",
    "/bin/mpirun -np 8 commsTraceReplay.par": "replay",
    "python sync_dep.py": "analyze critical-path",
    "chakra_trace_link": "link",
    "chakra_converter": "convert",
}
#: Names of files there, and here.
PLACES = {
    "${WORKLOAD_CONFIG}": "w",
    "${SYSTEM_CONFIG}": "system.json",
    "${NETWORK_CONFIG}": "network.yml",
    "${REMOTE_MEMORY_CONFIG}": "memory.json",
    "${STATS}": "/results/run_initial_stats/",
    "/path/to/": "",
    "<ET-PATH>": "recorded",
    "~/Downloads/cuda-sync/": "",
    "/Users/theo/Downloads/": "",
    "~/": "",
    "> /tmp/out": "",
    "/tmp/rank_0": "rank_0.log",
    "[graphm1|pdf|dot]": "graphm1",
}


def published() -> Iterator[str]:
    """The command lines, each in one line."""
    text = re.sub(r"(?m)^#.*$", "", (DATA / "published-commands.txt").read_text())
    for block in re.split(r"\n\s*\n", text):
        if block.strip():
            yield " ".join(block.replace("\\\n", " ").split())


def ours(line: str) -> list[str]:
    """The words of a command line with our program, and our files."""
    program = next(program for program in sorted(PROGRAMS, key=len, reverse=True) if line.startswith(program))
    rest = line.removeprefix(program)
    for there, here in PLACES.items():
        rest = rest.replace(there, here)
    return [*PROGRAMS[program].split(), *shlex.split(rest)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that the command lines name."""
    for names, source in (
        (("pytorch_et.json", "et_0.json"), "host"),
        (("kineto_trace.json", "kineto_0.json"), "device"),
        (("of_the_reference.json",), "linked"),
    ):
        for name in names:
            (tmp_path / name).write_bytes(gzip.decompress((PAIR / f"{source}.0.json.gz").read_bytes()))
    for name in ("merged_trace.json", "megatron_0.json"):
        write_linked(tmp_path / name, link(tmp_path / "et_0.json", tmp_path / "kineto_0.json"))
    builder = TraceBuilder()
    builder.add(1, name="ar", type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20})
    cs.write(tmp_path / "w", [builder.build()] * 2)
    shutil.copy(tmp_path / "w.0.et", tmp_path / "chakra_et")
    ways = {f"{name}-implementation": ["ring"] for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}
    system = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1, **ways}
    system |= {"preferred-dataset-splits": 2, "collective-optimization": "localBWAware", "local-mem-bw": 100}
    (tmp_path / "system.json").write_text(json.dumps(system))
    (tmp_path / "network.yml").write_text("topology: [Switch]\nnpus_count: [2]\nbandwidth: [50.0]\nlatency: [500.0]\n")
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    (tmp_path / "recorded").mkdir()
    for rank in range(4):
        shutil.copy(TRACES / f"host.{rank}.json.gz", tmp_path / "recorded")
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: What each line, in the order of the file, is in our words; what it writes; what it is warned of.
EXPECTED = [
    ("link --host pytorch_et.json --device kineto_trace.json -o O", "merged_trace.json", ["--exact-match"]),
    ("convert PyTorch merged_trace.json -o O", "chakra_traces", ["--num_dims"]),
    (
        "simulate w --system system.json --network network.yml --memory memory.json",
        None,
        ["--path has no effect"],
    ),
    ("draw chakra_et -o output.graphml", None, []),
    ("jsonize chakra_et -o O", "output_json", []),
    ("replay recorded", None, []),
    ("analyze critical-path kineto_0.json --rank 0", None, []),
    ("link --host et_0.json --device kineto_0.json --rank 0 -o O", "megatron_0.json", []),
    ("convert PyTorch megatron_0.json -o O", "megatron_0.chakra", []),
]


def test_there_are_as_many_as_expected() -> None:
    assert len(list(published())) == len(EXPECTED)


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_a_published_command_does_what_ours_does(number: int, place: Path, cli: Callable) -> None:
    line, (mine, written, warned) = list(published())[number], EXPECTED[number]
    words = ours(line)
    if words[0] == "replay":  # PyTorch and several processes are for other tests
        words, mine = [*words, "--dry-run"], f"{mine} --dry-run"
    if written is not None:
        (place / written).unlink(missing_ok=True)
    found = cli(*words)
    if words[0] == "draw":  # The guide's text has a misprint; the answer is the command.
        assert found.code == 2 and found.err.strip().endswith(f"say chakrasim {mine}")
        assert cli(*shlex.split(mine)).code == 0 and (place / "output.graphml").exists()
        return
    assert found.code == 0, found.err
    said = [part for part in found.err.splitlines() if "has no effect" in part]
    assert len(said) == len(warned) and all(name in part for name, part in zip(warned, said, strict=True))
    expected = cli(*shlex.split(mine.replace("-o O", "-o expected.json")))
    assert expected.code == 0
    assert found.out == expected.out.replace("expected.json", str(written))
    if written is not None:
        assert (place / written).read_bytes() == (place / "expected.json").read_bytes()


def test_the_published_chain_ends_in_a_trace_that_runs(place: Path, cli: Callable) -> None:
    for name in ("merged_trace.json", "megatron_0.json"):
        (place / name).unlink()
    for number in (0, 1, 7, 8):
        assert cli(*ours(list(published())[number])).code == 0
    assert len(read_trace("chakra_traces")) == len(read_trace("megatron_0.chakra")) > 10


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jsonize --input_filename a --input_filename b --output_filename o", "say chakrasim jsonize a -o o.0; "),
        ("draw --input_filename w.0.et --output_filename o.png", "say chakrasim draw w.0.et -o o.svg"),
        ("draw --input_filename w.0.et --output_filename 'my o.graphm1'", "draw w.0.et -o 'my o.graphml'"),
        ("convert --input_type FlexFlow --input_filename a --output_filename b", "found 'FlexFlow'; expected PyTorch"),
        ("convert PyTorch --input_type pytorch --input_filename a --output_filename b", "kind of input is given twice"),
        (
            "convert --input_type PyTorch --input_filename of_the_reference.json --output_filename x.et",
            "say chakrasim convert PyTorch --input of_the_reference.json --output x.et --compat chakra",
        ),
        ("replay --trace-path recorded --use-one-trace", "say chakrasim replay recorded/host.0.json.gz"),
        ("replay --trace-path recorded --trace-type=basic", "say chakrasim replay recorded"),
        ("replay --trace-path recorded --output-path o", "say chakrasim replay recorded --json o/replay.json"),
        ("replay recorded --trace-path recorded", "the traces are given twice"),
        ("replay", "no traces are given"),
        ("analyze critical-path", "no trace is given"),
    ],
)  # fmt: skip
def test_what_cannot_run_as_it_is_is_answered_with_the_new_command(
    line: str, message: str, place: Path, refused: Callable[..., str]
) -> None:
    assert message in refused(*shlex.split(line))


def test_old_options_in_all_their_spellings(place: Path, cli: Callable) -> None:
    (place / "t.txt").write_text("DATA\n1\nfc -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 0\n")
    line = (
        "convert --input_type=Text --input-filename=t.txt --output_filename=x --num_npus 2 --num_passes=1 --num-dims=2"
    )
    outcome = cli(*shlex.split(line))
    assert outcome.code == 0 and "--num-dims has no effect" in outcome.err
    assert len(cs.read("x")) == 2
    one = "replay --trace-path recorded/host.0.json.gz --use-one-trace --num-replays 3 --warmup-iter=1 --nw-stack x"
    outcome = cli(*shlex.split(f"{one} --device cpu --auto-shrink --ranks 4 --dry-run"))
    assert outcome.code == 0 and "3 after 1 for warm-up" in outcome.out
    many = "--rebalance-policy equal --colls-per-batch 2 --allow-ops all_reduce,wait --max-msg-cnt 2"
    assert cli(*shlex.split(f"replay --trace-path recorded --dry-run {many}")).code == 0
    assert "found 'fair', expected equal" in cli("replay", "recorded", "--dry-run", "--rebalance-policy", "fair").err
    # Host traces have no times.
    assert "when its operations began" in cli("replay", "recorded", "--dry-run", "--use-timestamp").err
    said = [line.split()[2] for line in outcome.err.splitlines() if "has no effect" in line]
    assert said == ["--nw-stack", "--device", "--auto-shrink"]
