"""doctor, info, jsonize, draw and timeline from the command line."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chakrasim import jit
from chakrasim.trace import TraceBuilder, write_trace

sys.path.append(str(Path(__file__).resolve().parents[1] / "diagnosis"))
from made_jobs import device, host, job, save

Cli = Callable[..., Any]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    job(tmp_path / "traces")
    return tmp_path / "traces"


@pytest.fixture
def chakra(tmp_path: Path) -> Path:
    builder = TraceBuilder()
    builder.add(1, name="aten::mm", type=4, duration_micros=5, start_micros=100, attrs={"is_cpu_op": True, "tid": 3})
    attrs = {"is_cpu_op": False, "stream": 7}
    builder.add(2, name="gemm", type=4, data_deps=[1], duration_micros=10, start_micros=110, attrs=attrs)
    write_trace(tmp_path / "w.0.et", builder.build())
    return tmp_path / "w.0.et"


@pytest.mark.parametrize(
    ("command", "rooms"),
    [
        ("link --host traces/host.0.json --device traces/device.0.json -o linked.json", {"trace", "linker"}),
        ("link --host traces/host.0.json --device traces/device.0.json -o l.json --compat chakra", {"trace", "compat"}),
        ("info w.0.et", {"trace"}),
        ("doctor traces", {"trace", "linker"}),
        ("analyze critical-path traces/device.0.json", {"trace", "linker", "analysis"}),
    ],
)
@pytest.mark.usefixtures("traces", "chakra")
def test_of_rooms_that_compile_first_is_told_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, rooms: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cold: set[str] = set()
    monkeypatch.setattr(jit, "is_cold", lambda room: room in cold)
    for cold in ({"simulator"}, rooms, *({room} for room in rooms)):
        told = cli(*command.split(), *(["--force"] if command.startswith("link") else [])).err
        assert told.count("compiling (first run only") == (cold != {"simulator"})


# -- doctor ------------------------------------------------------------------------------------------------------------


def test_doctor_of_a_good_job(cli: Cli, traces: Path) -> None:
    outcome = cli("doctor", traces)
    assert outcome.code == 0 and outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "  2 ranks: trustworthy"
    assert [line.split() for line in lines if "host." in line] == [
        ["0", "host.0.json", "device.0.json", "process", "id", "0-2", "18", "18", "6", "2.99", "ms", "12.0%", "0.0%"],
        ["1", "host.1.json", "device.1.json", "process", "id", "0-2", "18", "18", "6", "2.99", "ms", "12.0%", "0.0%"],
    ]


def test_doctor_tells_cause_consequence_and_remedy(cli: Cli, tmp_path: Path) -> None:
    job(tmp_path / "t", sync=False)
    outcome = cli("doctor", tmp_path / "t")
    assert outcome.code == 1
    assert outcome.out.startswith("  2 ranks: usable, with warnings (1 warning)\n")
    assert outcome.out.endswith(
        "warning: missing-sync-events, ranks 0-1\n"
        "  cause: synchronisation was not recorded, though the host waits for the device 3 times and streams wait for "
        "each other 0 times\n"
        "  consequence: these dependencies are inferred from the names of calls and from times\n"
        "  remedy: profile(..., experimental_config="
        "torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True))\n"
    )


def test_doctor_as_json_and_quiet(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    outcome = cli("doctor", tmp_path / "t", "--json", "-")
    assert outcome.code == 2
    content = json.loads(outcome.out)
    assert content["verdict"] == "unusable" and content["findings"][0]["code"] == "no-traces"
    outcome = cli("doctor", tmp_path / "t", "--quiet", "--json", tmp_path / "f.json")
    assert outcome.out == "  0 ranks: unusable (1 error)\n"
    assert json.loads((tmp_path / "f.json").read_text()) == content


def test_doctor_with_a_map(cli: Cli, traces: Path, tmp_path: Path) -> None:
    table = save(tmp_path / "map.json", {"1": {"device": "device.0.json"}})
    content = json.loads(cli("doctor", traces, "--map", table, "--json", "-").out)
    assert [(rank["rank"], rank["rank_from"]) for rank in content["ranks"]] == [(1, "the map file")]


def test_doctor_of_a_file(cli: Cli, refused: Callable[..., str], traces: Path, tmp_path: Path) -> None:
    whole = json.loads(cli("doctor", traces, "--json", "-").out)
    outcome = cli("doctor", traces / "device.1.json", "--json", "-")
    one = json.loads(outcome.out)
    assert outcome.code == 1 and len(one["ranks"]) == 1
    for key in ("rank", "world_size", "kernels", "collectives", "busy_ns", "steps"):
        assert one["ranks"][0][key] == whole["ranks"][1][key]
    assert {finding["code"] for finding in one["findings"]} == {"missing-ranks", "no-host-trace"}
    (tmp_path / "notes.txt").write_text("nothing\n")
    outcome = cli("doctor", tmp_path / "notes.txt")
    assert outcome.code == 2 and f"no traces of the PyTorch profiler in {tmp_path / 'notes.txt'}" in outcome.out
    assert "this is no trace of the PyTorch profiler" in refused("trace", tmp_path / "notes.txt", "-o", tmp_path / "o")
    assert "replace an input" in refused("doctor", traces / "device.1.json", "--json", traces / "device.1.json")
    map_ = save(tmp_path / "map.json", {"1": {"device": "device.0.json"}})
    assert "a map is for a folder" in refused("doctor", traces / "device.1.json", "--map", map_)


def test_doctor_of_nothing(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "the folder cannot be listed" in refused("doctor", tmp_path / "none")
    (tmp_path / "map.json").write_text("[]")
    assert "the map is wrong" in refused("doctor", tmp_path, "--map", tmp_path / "map.json")


# -- info --------------------------------------------------------------------------------------------------------------


def test_info_of_a_device_trace(cli: Cli, traces: Path) -> None:
    content = json.loads(cli("info", traces / "device.0.json", "--json", "-").out)
    assert content["kind"] == "Kineto device trace"
    assert (content["steps"], content["depth"], content["threads"], content["streams"]) == ([0, 1, 2], 2, 1, 2)
    assert {amount["name"]: amount["count"] for amount in content["by_kind"]}["kernel"] == 18
    assert content["collectives"] == [
        {"operation": "all_reduce", "size_bytes": 4000, "group": "0", "count": 6, "total_ns": 120_000}
    ]
    assert (content["span_ns"], content["busy_ns"], content["parallelism"]) == (2_900_000, 360_000, 0.3828)
    assert "all_reduce  3.906 KiB  0          6  120 us" in cli("info", traces / "device.0.json").out


def test_info_of_a_host_trace_and_a_linked_one(cli: Cli, traces: Path, tmp_path: Path) -> None:
    content = json.loads(cli("info", traces / "host.0.json", "--json", "-").out)
    assert (content["kind"], content["schema"], content["elements"], content["depth"]) == (
        "PyTorch host trace",
        "1.1.1-chakra.0.0.4",
        23,
        3,
    )
    linked = host(device())
    linked["nodes"][3]["exclusive_dur"] = 5
    assert (
        "kind      linked trace in the form of chakra_trace_link, schema"
        in cli("info", save(tmp_path / "l.json.gz", linked)).out
    )


def test_linked_traces_of_ours(cli: Cli, traces: Path, tmp_path: Path) -> None:
    from chakrasim.linker.api import link
    from chakrasim.trace.linked.file import write_linked

    for rank in range(2):
        linked = link(traces / f"host.{rank}.json", traces / f"device.{rank}.json")
        write_linked(tmp_path / f"linked.{rank}.json", linked)
    content = json.loads(cli("info", tmp_path / "linked.0.json", "--json", "-").out)
    assert content["kind"] == "linked trace"
    assert {"name": "launch by correlation", "count": 18, "total_ns": 0} in content["edges"]
    assert content["collectives"][0]["size_bytes"] == 4000 and content["collectives"][0]["count"] == 6
    assert "launch by correlation" in cli("info", tmp_path / "linked.0.json").out
    both = (tmp_path / "linked.0.json", tmp_path / "linked.1.json")
    assert cli("timeline", *both, "-o", tmp_path / "x.json").code == 0
    assert sum(event["name"].startswith("nccl") for event in slices(tmp_path / "x.json")) == 12


def test_info_of_a_chakra_trace_has_its_parallelism(cli: Cli, chakra: Path) -> None:
    outcome = cli("info", chakra)
    assert "critical path   15 us, parallelism 1\n" in outcome.out


# -- jsonize -----------------------------------------------------------------------------------------------------------


def test_jsonize(cli: Cli, chakra: Path, tmp_path: Path) -> None:
    assert cli("jsonize", chakra, "-o", tmp_path / "f.json").code == 0
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["nodes"][1]["dataDeps"] == ["1"]
    outcome = cli("jsonize", "--input_filename", chakra, "--output_filename", "-", "--compat", "chakra")
    assert outcome.out.startswith('{}{\n  "id": "1",\n  "name": "aten::mm",\n  "type": "COMP_NODE",\n')
    with pytest.raises(json.JSONDecodeError):
        json.loads(outcome.out)


def test_jsonize_refuses(refused: Callable[..., str], chakra: Path) -> None:
    assert refused("jsonize", "-o", "x.json") == "no input is given; name a file"
    assert refused("jsonize", chakra) == "no output is given; add -o FILE"
    assert refused("jsonize", chakra, "--input_filename", chakra, "-o", "-").startswith("the input is given twice")
    assert "-o would replace an input" in refused("jsonize", chakra, "-o", chakra)


# -- draw --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["dot", "graphml", "svg"])
@pytest.mark.parametrize("by", ["auto", "module", "stream", "none"])
def test_draw(suffix: str, by: str, cli: Cli, chakra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no Graphviz
    assert cli("draw", chakra, "-o", tmp_path / f"x.{suffix}", "--by", by).code == 0
    assert (tmp_path / f"x.{suffix}").stat().st_size > 100


def test_draw_with_the_references_options(cli: Cli, chakra: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.graphml"
    assert cli("draw", "--input_filename", chakra, "--output_filename", target, "--compat", "chakra").code == 0
    assert '<data key="d0">gemm</data>' in target.read_text()


def test_draw_refuses(
    refused: Callable[..., str], chakra: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "a PDF needs the program dot of Graphviz" in refused("draw", chakra, "-o", tmp_path / "x.pdf")
    assert "expected one of .dot, .graphml, .svg, .pdf" in refused("draw", chakra, "-o", tmp_path / "x.png")


# -- timeline ----------------------------------------------------------------------------------------------------------


def slices(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return [event for event in content["traceEvents"] if event["ph"] == "X"]


def test_timeline_of_a_job_is_on_one_clock(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        traced = device(rank, 2, pid=100 + rank, collectives=2, shift=5000.25 * rank)
        save(tmp_path / "t" / f"device.{rank}.json", traced)
    outcome = cli("timeline", tmp_path / "t", "-o", tmp_path / "x.json.gz")
    assert outcome.code == 0 and outcome.err == ""
    ends: dict[int, list[float]] = {}
    for event in slices(tmp_path / "x.json.gz"):
        if event["name"].startswith("nccl"):
            ends.setdefault(event["pid"], []).append(event["ts"] + event["dur"])
    first, second = ends.values()
    assert first == second and len(first) == 6
    assert min(event["ts"] for event in slices(tmp_path / "x.json.gz")) == 0


def test_timeline_has_arrows_from_launches_to_kernels(cli: Cli, traces: Path, tmp_path: Path) -> None:
    assert cli("timeline", traces / "device.0.json", "-o", tmp_path / "x.json").code == 0
    content = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    phases = [event["ph"] for event in content]
    assert (phases.count("s"), phases.count("f"), phases.count("X")) == (18, 18, 63)
    names = [event["args"]["name"] for event in content if event["name"] in ("process_name", "thread_name")]
    assert names == [
        "rank 0 host",
        "thread 100",
        "rank 0 device 0",
        "synchronisation",
        "stream 7",
        "stream 20",
    ]


def test_timeline_of_chakra_traces(cli: Cli, refused: Callable[..., str], chakra: Path, tmp_path: Path) -> None:
    assert cli("timeline", chakra, "-o", tmp_path / "x.json").code == 0
    assert [(e["name"], e["ts"], e["dur"]) for e in slices(tmp_path / "x.json")] == [
        ("aten::mm", 0, 5),
        ("gemm", 10, 10),
    ]
    builder = TraceBuilder()
    builder.add(1, name="a", type=4, duration_micros=5)
    write_trace(tmp_path / "no.0.et", builder.build())
    assert "the trace has no start times" in refused("timeline", tmp_path / "no.0.et", "-o", tmp_path / "y.json")
    assert not (tmp_path / "y.json").exists()


def test_timeline_of_a_log(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "sim.log"
    log.write_text("issue,a=0,b=0,c=1,d=COMP_NODE_x\ncallback,a=0,b=1500,c=1,d=COMP_NODE_x\n")
    assert cli("timeline", log, "-o", tmp_path / "x.json", "--npu-frequency", "1.5GHz").code == 0
    assert [(e["ts"], e["dur"]) for e in slices(tmp_path / "x.json")] == [(0, 1)]
    old = ("--input_filename", log, "--output_filename", tmp_path / "y.json", "--num_npus", 1, "--npu_frequency", 1000)
    assert cli("timeline", *old, "--log_filename", "/dev/null", "--compat", "chakra").code == 0
    assert json.loads((tmp_path / "y.json").read_text())["traceEvents"][0]["dur"] == 0.0015


def test_timeline_refuses(refused: Callable[..., str], traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    assert "this file has no times to draw" in refused("timeline", traces / "host.0.json", "-o", target)
    assert "found no such file or folder" in refused("timeline", tmp_path / "none", "-o", target)
    assert "is no frequency" in refused("timeline", __file__, "-o", target, "--npu-frequency", "fast")
    assert "for logs of a simulation" in refused("timeline", traces, "-o", target, "--compat", "chakra")
    assert "needs --num-npus" in refused("timeline", __file__, "-o", target, "--compat", "chakra")
