"""``convert PyTorch --compat chakra``: the bytes that the reference converter wrote, and its failures named."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError
from chakrasim.compat.chakra_convert.convert import convert_compat, convert_text
from chakrasim.compat.chakra_convert.rough_check import Outcome, simulate, write_log

DATA = Path(__file__).parents[1] / "data" / "chakra-tools"
FOLDERS = (
    *("alexnet", "dlrm_dev", "evsync", "evsyncms", "mi250", "nosteps", "resnet103", "resnet111", "simpleadd"),
    *("timeline", "torch213cpu", "triton"),
)
LINKED = [json.loads(line) for line in gzip.decompress((DATA / "linked.jsonl.gz").read_bytes()).splitlines()]
SOUND = [case for case in LINKED if "et" in case]
FAULTY = [case for case in LINKED if "error" in case]


def check_folder(folder: Path, output: Path) -> None:
    for linked in sorted(folder.glob("linked.*.json.gz")):
        convert_compat(linked, output)
        expected = linked.with_name(linked.name.replace("linked", "chakra").replace(".json", ".et"))
        assert output.read_bytes() == gzip.decompress(expected.read_bytes())


@pytest.mark.parametrize("name", ["evsync", "triton", "micro"])
def test_small_traces_are_converted_as_the_reference_converts_them(name: str, tmp_path: Path) -> None:
    check_folder(DATA / name, tmp_path / "x.et")


LONG = "dlrm_dev"  # eight ranks; others of its kind are quick


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == LONG)) for n in FOLDERS])
def test_recorded_traces_are_converted_as_the_reference_converts_them(
    name: str, tmp_path: Path, shared_dir: Path
) -> None:
    check_folder(shared_dir / "golden" / "chakra" / name, tmp_path / "x.et")


@pytest.mark.parametrize("number", range(len(SOUND)))
def test_random_traces_are_converted_as_the_reference_converts_them(number: int) -> None:
    case = SOUND[number]
    assert convert_text(case["linked"], "linked.json").data == base64.b64decode(case["et"])


@pytest.mark.parametrize("number", range(len(FAULTY)))
def test_where_the_reference_fails_its_exception_is_named(number: int) -> None:
    case = FAULTY[number]
    with pytest.raises(InputError, match=rf"linked\.json.*reference tool stops with {case['error']}"):
        convert_text(case["linked"], "linked.json")


@pytest.mark.parametrize("layout", [{"indent": 4}, {"separators": (",", ":")}, {"indent": 1, "ensure_ascii": False}])
def test_the_layout_of_the_file_does_not_matter(layout: dict[str, Any]) -> None:
    for case in SOUND[:60]:
        text = json.dumps(json.loads(case["linked"]), **layout)
        assert convert_text(text, "linked.json").data == base64.b64decode(case["et"])


def node(identity: int, parent: int, name: str = "aten::add", **fields: Any) -> dict[str, Any]:
    attrs = {"rf_id": 1, "fw_parent": 0, "seq_id": -1, "scope": 7, "tid": 1, "fw_tid": 0, "op_schema": ""}
    port = {"values": [], "shapes": [], "types": []}
    listed = [{"name": key, "type": "", "value": value} for key, value in attrs.items()]
    return {
        "id": identity,
        "name": name,
        "ctrl_deps": parent,
        "inputs": port,
        "outputs": port,
        "attrs": listed,
        **fields,
    }


THREAD = "[pytorch|profiler|execution_trace|thread]"


def linked(*nodes: dict[str, Any], **header: Any) -> str:
    head = {"schema": "1.0.2-chakra.0.0.4", "pid": 1, "time": "t", "start_ts": 1, "finish_ts": 2}
    return json.dumps({**head, **header, "nodes": list(nodes)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (linked(node(0, 0, THREAD), schema="1.0.4-chakra.0.0.4"), r"schema: .*ValueError.*'1\.0\.4-chakra"),
        (linked(node(0, 0, THREAD), schema="1.1.1-chakra.1.0.0"), r"schema: .*AttributeError"),
        ('{"schema": "1.0.2-chakra.0.0.4", "nodes": []}', "no 'pid' .*KeyError"),
        (linked(node(0, 0, THREAD), node(1, 0.0)), r"node 1 .*cannot be converted: 'float'.*TypeError"),
        (linked(node(0, 0, THREAD), node(1, 0), node(2, 0, inter_thread_dep=1.0)), r"node 2 .*'float'.*TypeError"),
        (linked(node(0, 0, THREAD), node(1, 0), node(2, 0, inter_thread_dep=[1])), r"node 2 .*'list'.*TypeError"),
        (linked(node(0, 0, THREAD) | {"attrs": []}), r"node 0 \(.*no attribute 'rf_id' .*AttributeError"),
        (linked(node(0, 0, THREAD), {"id": 5}), r"node 5 \(None, number 1 in the file\): .*no 'name' .*KeyError"),
        (
            linked(node(0, 0, THREAD), node(1, 0, "ncclKernel_SendRecv", cat="kernel")),
            r"node 1 \('ncclKernel_SendRecv'\): .*stands for no collective .*ValueError",
        ),
        (
            linked(node(0, 0, THREAD), node(1, 0, inter_thread_dep=2), node(2, 1)),
            r"node 1 .*cycle .*Exception.*1 -> 2 -> 1",
        ),
        (linked(node(0, 0, THREAD), node(1, 0, inter_thread_dep=9)), r"node 1 .*not there .*KeyError.*node 9"),
        (linked(node(0, 0, THREAD), node(1, 0, exclusive_dur=-1.5)), r"node 1 .*-1 is out of range .*ValueError"),
        ("[]", r"line 1, column 1: this is no linked trace: Expecting '\{'"),
        ('{"nodes": [{"id": 1,}]}', r"line 1, column \d+: this is no linked trace"),
        ("", "line 1, column 1: this is no linked trace.*found the end of the file"),
    ],
)
def test_messages_name_the_node_and_the_exception(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        convert_text(text, "linked.json")


def test_a_long_chain_is_no_trouble() -> None:
    """The reference's search for cycles has Python's limit of recursion."""
    nodes = [node(0, 0, THREAD), *(node(at, 0, inter_thread_dep=at + 1 if at % 2 else None) for at in range(1, 3000))]
    with pytest.raises(InputError, match=r"not there .*KeyError|cycle .*Exception"):
        convert_text(linked(*nodes), "linked.json")
    assert (
        len(convert_text(linked(node(0, 0, THREAD), *(node(n, n - 1) for n in range(1, 3000))), "x").dependencies)
        == 3000
    )


def test_nothing_is_written_where_conversion_fails(tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text(linked(node(0, 0, THREAD), node(1, 0, inter_thread_dep=9)))
    with pytest.raises(InputError):
        convert_compat(tmp_path / "l.json", tmp_path / "x.et")
    assert [path.name for path in tmp_path.iterdir()] == ["l.json"]


@pytest.mark.parametrize("number", range(0, len(SOUND), 3))
def test_simulation_writes_the_lines_of_the_reference(number: int) -> None:
    case = SOUND[number]
    converted = convert_text(case["linked"], "linked.json")
    assert list(simulate(converted.nodes, converted.dependencies, Outcome())) == case["log"]


@pytest.mark.parametrize(
    ("name", "end", "host", "device"), [("resnet103", 919357, 14390, 3660), ("dlrm_dev", 18258, 1674, 261)]
)
def test_simulation_ends_when_the_reference_ends(name: str, end: int, host: int, device: int, shared_dir: Path) -> None:
    raw = (shared_dir / "golden" / "chakra" / name / "linked.0.json.gz").read_bytes()
    converted = convert_text(gzip.decompress(raw).decode(), name)
    outcome = Outcome()
    for _ in simulate(converted.nodes, converted.dependencies, outcome):
        pass
    assert (outcome.end, outcome.host_nodes, outcome.device_nodes) == (end, host, device)


def test_the_log_has_a_level_and_a_time(tmp_path: Path) -> None:
    write_log(str(tmp_path / "log"), iter(["CPU Node ID 1 completed at 2us, tid: 3"]))
    text = (tmp_path / "log").read_text()
    assert text.startswith("DEBUG [") and text.endswith("M] CPU Node ID 1 completed at 2us, tid: 3\n")


def test_damaged_input_never_ends_in_anything_else() -> None:
    draw = random.Random(5)
    for _ in range(200):
        text = draw.choice(SOUND)["linked"]
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text))
            text = (
                text[:at]
                + draw.choice(["", "-1", "null", '"', "9" * 25, "[]", "}", "1e999", "\ud800", "\\ud800"])
                + text[at + draw.randint(0, 3) :]
            )
        with contextlib.suppress(InputError):
            convert_text(text, "linked.json")
