"""The decoder against the official library: every kind, every oddity of the wire format, random bytes."""

from __future__ import annotations

import random
import struct
from typing import Any

import official
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chakrasim.trace as ct
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.chakra import wire
from same_content import same_content

_U64 = st.integers(0, 2**64 - 1)
_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}


def _scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return st.one_of(st.sampled_from([low, high, 0, 1]), st.integers(low, high))
    if kind == "bool":
        return st.booleans()
    if kind == "string":
        return st.text(max_size=8)
    if kind == "bytes":
        return st.binary(max_size=8)
    return st.floats(width=32 if kind == "float" else 64)


@st.composite
def _attribute(draw: st.DrawFn) -> Any:
    attr: dict[str, Any] = {"name": draw(st.sampled_from(["", "a", "comm_size", "é"]))}
    if draw(st.booleans()):
        attr["doc_string"] = draw(st.text(max_size=4))
    kind = draw(st.sampled_from([*official.SCALARS, "none"]))
    if kind == "none":
        return attr
    if draw(st.booleans()):
        attr[f"{kind}_val"] = draw(_scalar(kind))
    else:
        attr[f"{kind}_list"] = {"values": draw(st.lists(_scalar(kind), max_size=4))}
    return attr


_IO = st.fixed_dictionaries({}, optional={name: st.text(max_size=5) for name in ("values", "shapes", "types")})
_NODE = st.fixed_dictionaries(
    {},
    optional={
        "id": _U64,
        "name": st.text(max_size=8),
        "type": st.integers(-(2**31), 2**31 - 1),
        "ctrl_deps": st.lists(_U64, max_size=4),
        "data_deps": st.lists(_U64, max_size=4),
        "start_time_micros": _U64,
        "duration_micros": _U64,
        "inputs": _IO,
        "outputs": _IO,
        "attr": st.lists(_attribute(), max_size=4),
    },
)
_META = st.fixed_dictionaries({}, optional={"version": st.text(max_size=5), "attr": st.lists(_attribute(), max_size=2)})


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(_META, st.lists(_NODE, max_size=5))
def test_what_the_official_library_writes_is_read_alike_and_written_alike(meta: Any, nodes: Any) -> None:
    metadata = official.GlobalMetadata(**meta)
    messages = [official.Node(**node) for node in nodes]
    data = official.frame(metadata.SerializeToString(), *(message.SerializeToString() for message in messages))
    trace = ct.parse_trace(data)
    official.assert_same(trace, metadata, messages)
    assert ct.encode_trace(trace) == data
    assert same_content(ct.parse_trace(ct.encode_trace(trace)), trace)


def _field(number: int, wire_type: int, payload: bytes = b"") -> bytes:
    return official.varint(number << 3 | wire_type) + payload


def _block(number: int, content: bytes) -> bytes:
    return _field(number, 2, official.varint(len(content)) + content)


_GROUP = _field(77, 3) + _field(1, 0, b"\x05") + _field(78, 3) + _field(78, 4) + _block(3, b"zz") + _field(77, 4)
_ATTR = _block(1, b"a")

BODIES = {
    "fields in any order, last one wins": _field(7, 0, b"\x05") + _field(1, 0, b"\x01") + _field(7, 0, b"\x09"),
    "name twice": _block(2, b"first") + _block(2, b"second"),
    "packed and unpacked dependencies mixed": _block(5, b"\x01\x02") + _field(5, 0, b"\x03") + _block(5, b"\xac\x02"),
    "unpacked control dependencies": _field(4, 0, b"\x03") + _field(4, 0, b"\x07"),
    "empty packed block": _block(4, b"") + _block(5, b""),
    "type truncated to 32 bits": _field(3, 0, official.varint(2**40 + 5)),
    "negative type": _field(3, 0, official.varint(2**64 - 3)),
    "unknown type": _field(3, 0, official.varint(99)),
    "unknown fields of all wire types": _field(50, 0, b"\x01")
    + _field(51, 1, b"12345678")
    + _block(52, b"abc")
    + _field(53, 5, b"1234")
    + _GROUP,
    "known fields with another wire type": _block(1, b"abc")
    + _field(2, 0, b"\x05")
    + _field(7, 5, b"1234")
    + _field(10, 0, b"\1"),
    "dependency as fixed64": _field(5, 1, b"12345678"),
    "overlong varints": _field(1, 0, b"\x81\x80\x00")
    + b"\xba\x80\x00"
    + b"\x81\x00"
    + _field(7, 0, b"\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00"),
    "tenth byte of a varint overflows": _field(1, 0, b"\xff" * 9 + b"\x7f"),
    "tag of five bytes": b"\xf8\xff\xff\xff\x0f\x01",
    "tag of five bytes, too large": b"\xf8\xff\xff\xff\x1f\x01",
    "tag of six bytes": b"\xf8\xff\xff\xff\x8f\x00\x01",
    "inputs merged": _block(8, _block(1, b"v") + _block(2, b"s")) + _block(8, _block(2, b"t")),
    "inputs present and empty": _block(8, b""),
    "group in inputs": _block(9, _GROUP + _block(3, b"t")),
    "value replaced by another kind": _block(10, _ATTR + _field(9, 0, b"\x05") + _block(29, b"x")),
    "scalar replaced by list": _block(10, _field(9, 0, b"\x05") + _block(10, _block(1, b"\x01\x02")) + _ATTR),
    "lists of the same kind merged": _block(10, _block(10, _block(1, b"\x01\x02")) + _block(10, _field(1, 0, b"\x03"))),
    "list replaced, then back": _block(
        10, _block(10, _block(1, b"\x01\x02")) + _block(28, _block(1, b"\x01")) + _block(10, _block(1, b"\x07"))
    ),
    "list replaced by scalar": _block(10, _block(10, _block(1, b"\x01")) + _field(27, 0, b"\x02"))
    + _block(10, _block(12, b"")),
    "list of strings": _block(10, _block(30, _block(1, b"x") + _block(1, b"") + _block(1, "ü".encode()))),
    "list of strings as numbers": _block(10, _block(30, _field(1, 0, b"\x01"))),
    "packed list of doubles cut": _block(10, _block(4, _block(1, b"1234567"))),
    "packed list of floats cut": _block(10, _block(6, _block(1, b"12345"))),
    "packed list of varints cut": _block(10, _block(10, _block(1, b"\x01\x80"))),
    "unpacked list of doubles": _block(10, _block(4, _field(1, 1, struct.pack("<d", 1.5)))),
    "packed bools above 1": _block(10, _block(28, _block(1, b"\x02\xac\x02\x00"))),
    "int32 list with long values": _block(
        10, _block(8, _block(1, official.varint(2**64 - 1) + official.varint(2**40 + 1)))
    ),
    "zigzag": _block(10, _field(15, 0, official.varint(2**33 + 3)))
    + _block(10, _field(17, 0, official.varint(2**64 - 1))),
    "attribute without value": _block(10, _ATTR) + _block(10, b""),
    "attribute with wrong wire types": _block(
        10, _field(9, 5, b"1234") + _field(5, 1, b"12345678") + _field(29, 0, b"\1")
    ),
    "attribute field 33": _block(10, _ATTR + _field(33, 0, b"\x01") + _block(100, b"a")),
    "group in attribute and list": _block(10, _GROUP + _block(10, _GROUP + _field(1, 0, b"\x03"))),
    "bytes then the same text": _block(10, _block(31, b"\xff")) + _block(2, b"\xff"),
    "bytes that are no text": _block(10, _block(31, b"\xff\xfe")) + _block(10, _block(32, _block(1, b"\xff"))),
    "text is not UTF-8": _block(2, b"\xff"),
    "text is overlong UTF-8": _block(2, b"\xc0\x80"),
    "text holds a surrogate": _block(2, b"\xed\xa0\x80"),
    "text above U+10FFFF": _block(2, b"\xf4\x90\x80\x80"),
    "text at the limits of UTF-8": _block(2, "\x00\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode()),
    "text cut in a character": _block(2, b"\xe2\x82"),
    "attribute name not UTF-8": _block(10, _block(1, b"\x80")),
    "string list not UTF-8": _block(10, _block(30, _block(1, b"\x80"))),
    "unknown text not UTF-8": _block(60, b"\xff"),
    "field number 0": b"\x00\x01",
    "wire type 6": b"\x0e",
    "wire type 7": b"\x0f",
    "end of group alone": _field(5, 4),
    "group without end": _field(77, 3) + _field(1, 0, b"\x01"),
    "group with another end": _field(77, 3) + _field(78, 4),
    "group cut in a tag": _field(77, 3) + b"\x80",
    "group with an absurd block": _field(77, 3) + _field(1, 2, b"\xff\xff\xff\xff\x07") + _field(77, 4),
    "groups nested 90 deep": _field(77, 3) * 90 + _field(77, 4) * 90,
    "groups nested 200 deep": _field(77, 3) * 200 + _field(77, 4) * 200,
    "length beyond the message": _field(2, 2, b"\x05abc"),
    "length of six bytes": _field(2, 2, b"\x83\x80\x80\x80\x80\x00abc"),
    "length above 2 GiB": _field(2, 2, b"\xff\xff\xff\xff\x0fabc"),
    "varint cut": _field(1, 0, b"\x80"),
    "varint of eleven bytes": _field(1, 0, b"\x80" * 10 + b"\x00"),
    "tag alone": _field(1, 0),
    "fixed cut": _field(53, 5, b"123"),
    "attribute beyond the node": _field(10, 2, b"\x10" + _ATTR),
    "value beyond the attribute": _block(10, _field(29, 2, b"\x10abc")) + b"x" * 20,
    "list beyond the attribute": _block(10, _field(10, 2, b"\x10\x0a")) + b"x" * 20,
    "empty node": b"",
}


def _compare(body: bytes) -> None:
    data = official.frame(b"", body)
    try:
        node = official.Node.FromString(body)
    except DecodeError:
        with pytest.raises(InputError):
            ct.parse_trace(data)
        return
    trace = ct.parse_trace(data)
    assert official.our_content(trace, 0) == official.node_content(node)
    assert same_content(ct.parse_trace(ct.encode_trace(trace)), trace)


@pytest.mark.parametrize("name", BODIES)
def test_oddity_is_read_or_refused_as_by_the_official_library(name: str) -> None:
    _compare(BODIES[name])


@pytest.mark.parametrize("depth", range(96, 104))
@pytest.mark.parametrize("place", ["node", "attribute", "list", "inputs"])
def test_groups_nest_as_deep_as_the_official_library_allows(place: str, depth: int) -> None:
    group = _field(77, 3) * depth + _field(77, 4) * depth
    wrapped = {
        "node": group,
        "attribute": _block(10, group),
        "list": _block(10, _block(10, group)),
        "inputs": _block(8, group),
    }
    _compare(wrapped[place])


def _mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1)
        action = rng.randrange(5)
        if action == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(out):
            out[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif action == 2:
            del out[at : at + rng.choice((1, 2, 7))]
        elif action == 3:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 5)))
        else:
            other = rng.randrange(len(out) + 1)
            out[at:at] = out[other : other + rng.randrange(12)]
    return bytes(out)


def test_random_damage_is_read_or_refused_as_by_the_official_library() -> None:
    rng = random.Random(20260101)
    bodies = [body for body in BODIES.values() if len(body) < 100]
    refused = 0
    for _ in range(1500):
        body = _mutated(rng, b"".join(rng.choice(bodies) for _ in range(rng.randrange(1, 4))))
        _compare(body)
    for _ in range(400):
        data = _mutated(rng, official.frame(_block(2, _ATTR), *(rng.choice(bodies) for _ in range(4))))
        try:
            metadata, nodes = official.read(data)
        except (ValueError, DecodeError):
            refused += 1
            with pytest.raises(InputError):
                ct.parse_trace(data)
        else:
            official.assert_same(ct.parse_trace(data), metadata, nodes)
    assert 50 < refused < 400


def test_unknown_fields_are_counted_in_a_warning() -> None:
    notes = Notes()
    ct.parse_trace(official.frame(b"", BODIES["unknown fields of all wire types"]), "x.et", notes=notes)
    assert [*notes] == ["x.et: left out 5 fields that Chakra schema 0.0.4 does not define"]


def test_many_entries_of_every_sort_make_the_arrays_grow() -> None:
    node = official.Node(
        ctrl_deps=range(300),
        data_deps=range(2000),
        attr=[{"name": f"a{i}", "int64_list": {"values": range(9)}} for i in range(99)],
    )
    texts = official.Node(attr=[{"name": "t", "string_list": {"values": [f"text {i}" for i in range(5000)]}}])
    messages = [official.Node(id=7), *[official.Node()] * 3000, node, texts, *[official.Node(id=8)] * 50]
    data = official.frame(b"", *(message.SerializeToString() for message in messages))
    trace = ct.parse_trace(data)
    official.assert_same(trace, official.GlobalMetadata(), messages)
    assert ct.encode_trace(trace) == data


def test_the_kernels_run_uncompiled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, value in vars(wire).items() if hasattr(value, "py_func")]
    data = official.frame(b"", *(body for body in BODIES.values() if _readable(body)))
    compiled = ct.parse_trace(data)
    for name in names:
        monkeypatch.setattr(wire, name, getattr(wire, name).py_func)
    assert same_content(ct.parse_trace(data), compiled)


def _readable(body: bytes) -> bool:
    try:
        official.Node.FromString(body)
    except DecodeError:
        return False
    return True


def test_texts_of_all_lengths_and_more_nodes_than_are_encoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from chakrasim.trace.chakra import encode

    texts = ["".join(chr(97 + (at * at + size) % 26) for at in range(size)) for size in (*range(140), 5000, 20000)]
    builder = ct.TraceBuilder()
    for number, text in enumerate(texts):
        builder.add(number, text, attrs={"t": text, f"u{number % 3}": [text, "", text]})
    trace = builder.build()
    together = ct.encode_trace(trace)
    again = ct.parse_trace(together)
    assert [again.node(at).name for at in range(len(texts))] == texts
    assert [again.node(at).attrs for at in range(len(texts))] == [
        {"t": text, f"u{number % 3}": [text, "", text]} for number, text in enumerate(texts)
    ]
    assert [official.Node.FromString(body).name for body in official.bodies(together)[1:]] == texts
    monkeypatch.setattr(encode, "_NODES", 7)
    assert ct.encode_trace(trace) == together
