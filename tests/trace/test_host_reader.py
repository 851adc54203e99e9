"""The host reader against a slow one, on real and made files; schemas; what is said of damage."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from random import Random
from typing import Any

import json_documents as jd
import pytest
import slow_readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same_traces import assert_same_host, texts

from chakrasim.errors import InputError
from chakrasim.files.storage import Stream
from chakrasim.notes import Notes
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.host.read import read_host
from chakrasim.trace.json.records import WINDOW_BYTES

NODE = (
    '{"id": 5, "name": "aten::add", "ctrl_deps": 2, "inputs": {"values": [[1,2,0,4,4,"cuda:0"],3], "shapes": [[4],[]], '
    '"types": ["Tensor(float)","Int"]}, "outputs": {"values": [], "shapes": [], "types": []}, '
    '"attrs": [{"name": "rf_id", "type": "uint64", "value": 9}, {"name": "pg_name", "type": "string", "value": "0"}]}'
)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a file and returns its name."""

    def to_file(text: str | bytes, name: str = "host.json") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return to_file


def _nodes(*nodes: str, schema: str = "1.1.1-chakra.0.0.4") -> str:
    return f'{{"schema": "{schema}", "pid": 7,\n"nodes": [' + ",\n".join(nodes) + '],\n"finish_ts": 3}'


def _fails(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_host(path, **options)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text.removeprefix(str(path)).removeprefix(": ")


def _warns(path: Path, **options: Any) -> tuple[HostTrace, list[str]]:
    notes = Notes()
    trace = read_host(path, notes=notes, **{"lenient": True} | options)
    assert all(warning.startswith(str(path)) for warning in notes)
    return trace, [warning.removeprefix(str(path)).removeprefix(": ") for warning in notes]


def test_real_files_equal_the_slow_reader(shared_dir: Path, tmp_path: Path) -> None:
    golden = shared_dir / "golden" / "chakra"
    files = sorted(golden.glob("*/host.*.json.gz")) + sorted(golden.glob("*/linked.*.json.gz"))
    files += sorted((shared_dir / "traces").glob("*/*_et*.json.gz"))
    with tarfile.open(shared_dir / "traces" / "param" / "dlrm_pytorch_et.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files += sorted(tmp_path.rglob("*_0.json"))
    assert len(files) > 40
    schemas = set()
    for path in files:
        if path.stat().st_size > 40_000 or path.name[-9] in "1234567" or "resnet111" in str(path):
            continue
        found, warnings = _warns(path, lenient=False)
        assert warnings == []
        assert_same_host(found, slow_readers.read_host(path))
        schemas.add(found.schema)
    assert {"1.0.1", "1.0.2-chakra.0.0.4", "1.1.1-chakra.0.0.4"} <= schemas


_SMALL = st.integers(-1, 2**62).map(str)
_TENSORS = st.tuples(*[jd.spaces] * 2, *[st.integers(0, 2**60)] * 5, jd.texts()).map(
    lambda parts: f"[{parts[0]}" + f" ,{parts[1]}".join(str(part) for part in parts[2:]) + "]"
)
_VALUES = st.recursive(
    st.one_of(_TENSORS, _TENSORS, jd.values),
    lambda parts: st.lists(parts, max_size=4).map(lambda found: "[" + " , ".join(found) + "]"),
    max_leaves=6,
)
_LISTS = st.lists(_VALUES, max_size=3).map(lambda found: "[" + ",".join(found) + "]")
_INTEGERS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_TEXTS = ("op_schema", "kernel_backend", "kernel_file")
_KNOWN = (
    *("id", "name", "parent", "ctrl_deps", "attrs", "input_shapes", "input_types", "output_shapes", "output_types"),
    *("inputs", "outputs", *_INTEGERS, *_TEXTS, *h.RARE_ATTRIBUTES),
)
_RARE_VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr).filter(lambda text: "." in text or "e" in text),
    jd.texts(), st.just("[1, 2]"), st.just("true"),
)  # fmt: skip


@st.composite
def _values_of(draw: st.DrawFn, name: str) -> str:
    return draw(_SMALL if name in _INTEGERS else jd.texts() if name in _TEXTS else _RARE_VALUES)


@st.composite
def _attributes(draw: st.DrawFn) -> str:
    found = []
    for name in draw(st.lists(st.sampled_from((*_INTEGERS, *_TEXTS, *h.RARE_ATTRIBUTES, "other")), max_size=5)):
        pairs = [('"name"', f'"{name}"'), ('"type"', draw(jd.texts())), ('"value"', draw(_values_of(name)))]
        found.append(draw(jd.members(draw(st.permutations(pairs)))))
    return "[" + ",".join(found) + "]"


@st.composite
def _node(draw: st.DrawFn) -> str:
    pairs = [('"id"', draw(_SMALL)), ('"name"', draw(jd.texts()))]
    if draw(st.booleans()):
        for side in ("inputs", "outputs"):
            parts = [(f'"{part}"', draw(_LISTS)) for part in ("values", "shapes", "types")]
            parts += draw(st.lists(st.tuples(st.just('"strides"'), jd.values), max_size=1))
            pairs.append((f'"{side}"', draw(jd.members(draw(st.permutations(parts))))))
        pairs.append(('"ctrl_deps"', draw(_SMALL)))
        pairs.append(('"attrs"', draw(_attributes())))
    else:
        names = ("inputs", "input_shapes", "input_types", "outputs", "output_shapes", "output_types")
        pairs += [(f'"{name}"', draw(_LISTS)) for name in names]
        pairs.append(('"parent"', draw(_SMALL)))
    for name in draw(st.lists(st.sampled_from((*_INTEGERS, *_TEXTS, *h.RARE_ATTRIBUTES)), max_size=3)):
        pairs.append((draw(jd.texts(st.just(name))), draw(_values_of(name))))
    pairs += draw(st.lists(st.tuples(jd.names_beside(*_KNOWN), jd.values), max_size=2))
    return draw(jd.members(draw(st.permutations(pairs))))


@given(nodes=st.lists(_node(), max_size=4), packed=st.booleans())
@settings(max_examples=18, suppress_health_check=list(HealthCheck))
def test_made_documents_equal_the_slow_reader(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[str], packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "made.json"
    data = _nodes(*nodes).encode("utf-8")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert_same_host(read_host(path), slow_readers.read_host(path))


def test_a_node_is_read_with_all_its_parts(write: Any) -> None:
    trace, warnings = _warns(write(_nodes(NODE)), lenient=False)
    assert warnings == [] and trace.schema == "1.1.1-chakra.0.0.4" and trace.header["finish_ts"] == 3
    assert (trace.ids[0], trace.parent[0], trace.rf_id[0], trace.tid[0]) == (5, 2, 9, -1)
    assert trace.strings[int(trace.name[0])] == "aten::add"
    assert texts(trace.strings, trace.rare_column("pg_name").bits) == ["0"]
    assert trace.span(0, h.SPAN_NAME) == '"aten::add"' and trace.span(0, h.SPAN_IN_SHAPES) == "[[4],[]]"
    assert json.loads(trace.span(0, h.SPAN_NODE))["ctrl_deps"] == 2
    tensors = trace.tensors
    assert (len(tensors), tensors.tensor_id[0], tensors.elements[0], tensors.argument[0]) == (1, 1, 4, 0)


def test_what_packed_data_say_of_their_size_is_a_hint(write: Any) -> None:
    random = Random(1)
    data = _nodes(*(NODE.replace("aten::add", f"{random.getrandbits(256):x}") for _ in range(8000))).encode()
    plain = read_host(write(data))
    whole = gzip.compress(data)
    assert Stream(str(write(whole)), "").likely_bytes == len(data) > WINDOW_BYTES
    # The last member's size, and none at all.
    for packed in (whole, gzip.compress(data[:-9]) + gzip.compress(data[-9:]), whole + bytes(40)):
        trace = read_host(write(packed))
        assert_same_host(trace, plain)
        assert len(trace.text) == len(data)
    cut = whole[:-4] + b"\xff" * 4
    assert Stream(str(write(cut)), "").likely_bytes == 64 * len(cut)
    assert len(read_host(write(cut), lenient=True)) == 8000


def test_unsigned_numbers_are_taken_in_twos_complement(write: Any) -> None:
    for text, wanted in (
        ("18446744073709551615", -1),
        ("9223372036854775808", -(2**63)),
        ("18446744073709551616", -1),
        ("-9223372036854775808", -(2**63)),
    ):
        trace, _ = _warns(write(_nodes(NODE.replace('"value": 9', f'"value": {text}'))))
        assert trace.rf_id.tolist() == [wanted]
        assert trace.counts == ({"values of an unexpected kind": 1} if text.endswith("6") else {})


@pytest.mark.parametrize(
    ("schema", "warning"),
    [
        ("1.0.1", None),
        ("1.0.4-chakra.0.0.4", None),
        ("1.2.0-chakra.0.0.5", "newer than what is known here: read as 1.1.1"),
        ("2.0.0", "newer than what is known here: read as 1.1.1"),
        ("", "the schema of this host trace is unknown ('')"),
    ],
)
def test_schemas(write: Any, schema: str, warning: str | None) -> None:
    trace, warnings = _warns(write(_nodes(NODE, schema=schema)), lenient=False)
    assert trace.schema == schema and len(trace) == 1
    assert warnings == [] if warning is None else warning in warnings[0]


def test_a_missing_comma_between_nodes_is_repaired(write: Any) -> None:
    path = write(_nodes(f"{NODE}\n{NODE}", NODE))
    trace, warnings = _warns(path)
    assert len(trace) == 3 and trace.counts == {"missing or superfluous commas": 1}
    assert warnings == [f"repaired 1 missing or superfluous commas, the first in byte {54 + len(NODE)} (line 3)"]
    assert '(line 3): a node is malformed: a comma is missing or too many; found \'{"id": 5' in _fails(path)


def test_a_truncated_tail_is_left_out(write: Any) -> None:
    text = _nodes(NODE, NODE, NODE)
    cut = text[: text.rindex('"ctrl_deps"')]
    path = write(cut)
    trace, warnings = _warns(path)
    lost = len(cut) - cut.rindex('{"id"')
    assert len(trace) == 2 and trace.counts == {"damaged places": 1, "lost bytes": lost}
    assert warnings == [
        f"byte {len(cut)} (line 4): the file ends in the middle of a node; found the end of the file: "
        f"kept 2 nodes, left out {lost} bytes"
    ]
    assert "the file ends in the middle of a node" in _fails(path)
    trace, warnings = _warns(write(text[: text.index('],\n"finish')]))
    assert len(trace) == 3 and "kept 3 nodes, left out 0 bytes" in warnings[0]


def test_unbalanced_braces_cost_one_node(write: Any) -> None:
    broken = NODE.replace('"types": []}, "attrs"', '"types": [], "attrs"')
    path = write(_nodes(NODE, broken, NODE))
    trace, warnings = _warns(path)
    assert len(trace) == 2 and trace.header["finish_ts"] == 3
    assert len(warnings) == 1 and "kept 2 nodes" in warnings[0]
    broken = NODE.replace("[[1,2,0,4", "[[1,2,0,4}")
    trace, warnings = _warns(write(_nodes(NODE, broken, NODE, broken)))
    assert len(trace) == 2 and trace.header["finish_ts"] == 3
    assert "its brackets do not match" in warnings[0] or "a comma is missing" in warnings[0]
    assert "(and at 1 more places): kept 2 nodes" in warnings[0]


def test_two_documents_in_one_file_are_said(write: Any) -> None:
    path = write(_nodes(NODE) + "\n" + _nodes(NODE))
    trace, warnings = _warns(path)
    assert len(trace) == 1
    assert "a second document follows the first: did several ranks write to this file?" in warnings[0]
    assert "a second document follows the first" in _fails(path)


def test_nodes_without_an_id(write: Any) -> None:
    path = write(_nodes(NODE, NODE.replace('"id"', '"no"'), "3"))
    trace, warnings = _warns(path)
    assert len(trace) == 1 and warnings == ['left out 2 elements of nodes that have no "id"']
    assert "an element of nodes has no id" in _fails(path)


def test_other_files_are_refused_by_name(write: Any, tmp_path: Path) -> None:
    expected = "expected a PyTorch execution (host) trace"
    kineto = "found a JSON file that looks like a Kineto (PyTorch profiler, device) trace"
    assert kineto in _fails(write('{"schemaVersion": 1, "traceEvents": []}'))
    assert "found a JSON document with the members 'a'; expected a list 'nodes'" in _fails(write('{"a": 1}'))
    assert "found a JSON document without members" in _fails(write("{}"))
    assert "found nodes that are no list" in _fails(write('{"nodes": 7}'))
    assert "found a list of other things" in _fails(write('{"nodes": [{"a": 1}]}'), lenient=True)
    assert _fails(write("")) == f"the file is empty; {expected}; create the file again"
    assert "found a Chakra trace" in _fails(write(b"\x07\x0a\x050.0.4\x03\x08\x01\x18"))
    assert "found gzip data inside gzip" in _fails(write(gzip.compress(gzip.compress(b"{}"))))
    assert "found a zip archive" in _fails(write(b"PK\x03\x04abcd"))
    assert "found text in UTF-16" in _fails(write(_nodes(NODE).encode("utf-16")))
    assert "found a text file beginning 'hello'" in _fails(write("hello"))
    assert "there is no such file" in _fails(tmp_path / "none.json")
    assert f"this is a folder; {expected}" in _fails(tmp_path)
