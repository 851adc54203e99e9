"""``link --compat chakra``: equal to what the reference linker wrote, and its failures named."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pairs import made_device, made_host, made_table
from slow_reference_linker import link as slow_link

from chakrasim import InputError
from chakrasim.compat.chakra_link import synchronisation as compat_sync
from chakrasim.compat.chakra_link.link import link_compat
from chakrasim.notes import Notes

DATA = Path(__file__).parents[1] / "data" / "chakra-tools"
FOLDERS = (
    *("alexnet", "dlrm_dev", "evsync", "evsyncms", "mi250", "nosteps", "resnet103", "simpleadd", "timeline"),
    *("torch213cpu", "triton"),
    pytest.param("resnet111", marks=pytest.mark.slow),  # as resnet103, of a later format
)
PAIRS = [json.loads(line) for line in gzip.decompress((DATA / "pairs.jsonl.gz").read_bytes()).splitlines()]


def same(left: Any, right: Any) -> bool:
    """Equality in which 1, 1.0 and True differ."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def link(folder: Path, host: Any, device: Any) -> Any:
    (folder / "h.json").write_text(json.dumps(host))
    (folder / "d.json").write_text(json.dumps(device))
    return json.loads(link_compat(folder / "h.json", folder / "d.json"))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The synchronisation dependencies that the linker finds."""
    given: dict[int, list[int]] = {}
    monkeypatch.setattr(compat_sync, "_table", lambda *_: given)
    return given


def check_folder(folder: Path) -> None:
    for host in sorted(folder.glob("host.*.json.gz")):
        device, linked = (host.with_name(host.name.replace("host", name)) for name in ("device", "linked"))
        assert same(json.loads(link_compat(host, device)), json.loads(gzip.decompress(linked.read_bytes())))


@pytest.mark.parametrize("name", ["evsync", "triton"])
def test_small_pairs_are_linked_as_the_reference_links_them(name: str) -> None:
    check_folder(DATA / name)


@pytest.mark.parametrize("name", FOLDERS)
def test_recorded_pairs_are_linked_as_the_reference_links_them(name: str, shared_dir: Path) -> None:
    check_folder(shared_dir / "golden" / "chakra" / name)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_random_pairs_are_linked_as_the_reference_links_them(
    number: int, tmp_path: Path, table: dict[int, list[int]]
) -> None:
    pair = PAIRS[number]
    table |= dict(pair["sync"])
    assert same(link(tmp_path, pair["host"], pair["device"]), pair["linked"])


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), nodes=st.integers(0, 25), operators=st.integers(1, 40), launches=st.integers(0, 15))
def test_it_equals_the_specification_taken_literally(
    seed: int, nodes: int, operators: int, launches: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    host, device, table = made_host(draw, nodes), made_device(draw, operators, launches), made_table(draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compat_sync, "_table", lambda *_: table)
        try:
            linked = link(tmp_path_factory.mktemp("pair"), host, device)
        except InputError as refused:
            assert "exclusive duration of an operator is negative" in str(refused)
            with pytest.raises(ValueError):
                slow_link(host, device, table)
            return
    assert same(linked, slow_link(host, device, table))


def operator(ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def launch(ts: float, correlation: int) -> dict[str, Any]:
    event = operator(ts, 1, correlation=correlation)
    return {**event, "cat": "cuda_runtime", "name": "cudaLaunchKernel"}


HOST = made_host(random.Random(1), 3) | {"schema": "1.0.2-chakra.0.0.4"}
STEP = {**operator(0, 100), "cat": "user_annotation", "name": "ProfilerStep#1"}
DEVICE = {"traceEvents": [STEP, operator(1, 5, **{"Record function id": 1, "External id": 3}), launch(2, 7)]}


def _opposite(host: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return list(zip(host["nodes"], reversed(host["nodes"]), strict=True))


def host_with(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    host: dict[str, Any] = json.loads(json.dumps(HOST))
    change(host)
    return host


def device_with(*events: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": [*DEVICE["traceEvents"], *events]}


@pytest.mark.parametrize(
    ("host", "device", "message"),
    [
        (host_with(lambda h: h.update(schema="1.2.0-chakra.0.0.4")), DEVICE, r"schema: .*ValueError.*'1.2.0-chakra"),
        (host_with(lambda h: [n.update(id=n["id"] + 1) for n in h["nodes"]]), DEVICE, "no node with id 1 .*KeyError"),
        (host_with(lambda h: h["nodes"][0].pop("ctrl_deps")), DEVICE, "node .*has no ctrl_deps .*KeyError"),
        (host_with(lambda h: h["nodes"][0]["attrs"].pop(2)), DEVICE, "node .*no attribute 'seq_id' .*ValueError"),
        (host_with(lambda h: h.update(schema="1.1.1-chakra.0.0.4")), DEVICE, "node .*no strides .*KeyError"),
        (
            host_with(lambda h: [n.update(ctrl_deps=m["id"]) for n, m in _opposite(h)]),
            DEVICE,
            "parents of nodes form a cycle .*never ends",
        ),
        (HOST, device_with(launch(3, 7)), "event 3 .*two launches.* same correlation id .*ValueError.*found 7"),
        (HOST, device_with({"ph": "b", "cat": "ac2g", "name": "x", "id": 1, "ts": 1}), "phase other .*AssertionError"),
        (HOST, device_with({"ph": "s", "cat": "ac2g", "name": "x", "ts": 1}), "event 3 .*no id .*KeyError"),
        (
            HOST,
            device_with(*[operator(1700000000123456.25, 0.2)] * 2),
            "event 3 .*exclusive duration .*negative .*ValueError.*found -0.04",
        ),
    ],
)
def test_where_the_reference_fails_the_message_says_how(host: Any, device: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        link(tmp_path, host, device)


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (DEVICE["traceEvents"][1:], "TypeError .no ProfilerStep"),
        (DEVICE["traceEvents"][:2], "KeyError 'cuda_runtime'"),
        (
            [*DEVICE["traceEvents"], {**launch(9, 8), "args": {"correlation": 8, "stream": "0x5"}}],
            "TypeError .a stream is text",
        ),
    ],
)
def test_where_only_its_analysis_fails_there_are_no_synchronisations(
    events: list[Any], fault: str, tmp_path: Path
) -> None:
    (tmp_path / "h.json").write_text(json.dumps(HOST))
    (tmp_path / "d.json").write_text(json.dumps({"traceEvents": events}))
    notes = Notes()
    linked = json.loads(link_compat(tmp_path / "h.json", tmp_path / "d.json", notes=notes))
    assert len(linked["nodes"]) == 4
    assert any("no synchronisation dependencies" in text and fault.split(".")[0] in text for text in notes)


def test_a_packed_host_trace_is_read(tmp_path: Path) -> None:
    (tmp_path / "h.json.gz").write_bytes(gzip.compress(json.dumps(HOST).encode()))
    (tmp_path / "d.json").write_text(json.dumps(DEVICE))
    assert len(json.loads(link_compat(tmp_path / "h.json.gz", tmp_path / "d.json"))["nodes"]) == 4


def test_kernels_without_a_known_launch_are_counted(tmp_path: Path) -> None:
    kernel = {**operator(5, 2, correlation=99, stream=7), "cat": "kernel", "name": "gemm"}
    (tmp_path / "h.json").write_text(json.dumps(HOST))
    (tmp_path / "d.json").write_text(json.dumps(device_with(kernel)))
    notes = Notes()
    link_compat(tmp_path / "h.json", tmp_path / "d.json", notes=notes)
    assert any("1 kernels and copies have no known launch" in text for text in notes)


def test_faults_of_the_reference_are_kept(tmp_path: Path) -> None:
    """Memsets and graph launches vanish, and operators of one External id each get the same kernels."""
    args = {"External id": 3, "Record function id": 2}
    graph = {**launch(6, 8), "name": "cudaGraphLaunch"}
    work = [
        {**operator(9 + n, 1, correlation=correlation, stream=7, **{"External id": 3}), "cat": category, "name": name}
        for n, (correlation, category, name) in enumerate(
            [(7, "kernel", "gemm"), (8, "kernel", "in a graph"), (7, "gpu_memset", "Memset")]
        )
    ]
    rf_ids = {1: 0, 2: 1, 3: 2}
    host = host_with(
        lambda h: h.update(
            nodes=[
                {**h["nodes"][0], "id": n, "ctrl_deps": 1, "attrs": [{"name": "rf_id", "type": "", "value": rf}, *rest]}
                for n, rf in rf_ids.items()
                for rest in [h["nodes"][0]["attrs"][1:]]
            ]
        )
    )
    nodes = link(tmp_path, host, device_with(operator(7, 1, **args), graph, *work))["nodes"]
    assert [(node["id"], node["ctrl_deps"], node.get("cat")) for node in nodes] == [
        *((0, 0, None), (1, 0, None), (2, 1, "kernel"), (3, 0, None), (4, 3, "kernel"))
    ]


def test_damaged_input_never_ends_in_anything_else(tmp_path: Path) -> None:
    draw = random.Random(7)
    texts = [json.dumps(HOST).encode(), json.dumps(device_with(operator(3, 1))).encode()]
    for _ in range(200):
        files = []
        for name, text in zip(("h.json", "d.json"), texts, strict=True):
            damaged = bytearray(text)
            for _ in range(draw.randint(0, 3)):
                at = draw.randrange(len(damaged))
                damaged[at : at + draw.randint(0, 3)] = draw.choice(
                    [b"", b"-1", b"null", b'"', b"9" * 25, b"\xff", b"[]"]
                )
            files.append(tmp_path / name)
            files[-1].write_bytes(damaged)
        with contextlib.suppress(InputError):
            json.loads(link_compat(*files))
