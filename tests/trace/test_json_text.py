"""Chakra traces as JSON, against protobuf's own json_format."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import official
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim.trace as ct
from chakrasim.compat.chakra_jsonize import concatenated_texts, indented
from chakrasim.trace.chakra import json_text

WORD = st.text(max_size=8)
ID = st.integers(0, 2**64 - 1)
REAL = st.floats(width=64)
SHORT = st.floats(width=32)


def scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in ("double", "float"):
        return REAL if kind == "double" else SHORT
    if kind in ("bool", "string", "bytes"):
        return {"bool": st.booleans(), "string": WORD, "bytes": st.binary(max_size=6)}[kind]
    bits = 64 if "64" in kind else 32
    low = 0 if kind.startswith(("uint", "fixed")) else -(2 ** (bits - 1))
    return st.integers(low, low + 2**bits - 1)


@st.composite
def filled(draw: st.DrawFn, owner: Any) -> Any:
    """An official message with attributes of any kind."""
    for _ in range(draw(st.integers(0, 3))):
        attr = owner.attr.add(name=draw(WORD), doc_string=draw(st.sampled_from(["", "says"])))
        kind = draw(st.sampled_from(official.SCALARS))
        if draw(st.booleans()):
            setattr(attr, f"{kind}_val", draw(scalar(kind)))
        else:
            part = getattr(attr, f"{kind}_list")
            part.SetInParent()
            part.values.extend(draw(st.lists(scalar(kind), max_size=3)))
    return owner


@st.composite
def messages(draw: st.DrawFn) -> list[Any]:
    found = [draw(filled(official.GlobalMetadata(version=draw(st.sampled_from(["", "0.0.4"])))))]
    for _ in range(draw(st.integers(0, 3))):
        node = official.Node(
            id=draw(ID),
            name=draw(WORD),
            type=draw(st.sampled_from([0, 1, 4, 7, 99])),
            ctrl_deps=draw(st.lists(ID, max_size=2)),
            data_deps=draw(st.lists(ID, max_size=2)),
            start_time_micros=draw(st.sampled_from([0, 5])),
            duration_micros=draw(ID),
        )
        for port in (node.inputs, node.outputs):
            if draw(st.booleans()):
                port.SetInParent()
                port.values, port.shapes = draw(WORD), draw(WORD)
        found.append(draw(filled(node)))
    return found


def ours(found: list[Any]) -> ct.Trace:
    return ct.parse_trace(official.frame(*(message.SerializeToString() for message in found)))


@settings(max_examples=300)
@given(messages())
def test_indented_texts_are_those_of_protobuf(found: list[Any]) -> None:
    trace = ours(found)
    texts = [json_text.metadata_text(trace), *json_text.node_texts(trace)]
    assert list(map(indented, texts)) == [json_format.MessageToJson(message) for message in found]


@settings(max_examples=100)
@given(messages())
def test_the_document_is_valid_json_with_the_same_content(found: list[Any]) -> None:
    document = json.loads("".join(json_text.document_texts(ours(found))))
    assert document == {
        "metadata": json_format.MessageToDict(found[0]),
        "nodes": [json_format.MessageToDict(node) for node in found[1:]],
    }


@pytest.mark.parametrize("bits", [0x00000001, 0x3DCCCCCD, 0x7F7FFFFF, 0x00800000, 0x4B800001, 0x3F9E0652])
def test_32_bit_numbers_have_their_shortest_digits(bits: int) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    node = official.Node(id=1)
    node.attr.add(name="f", float_val=value)
    (text,) = json_text.node_texts(ours([official.GlobalMetadata(), node]))
    assert indented(text) == json_format.MessageToJson(node)
    assert math.isfinite(value)


def test_compat_stops_at_a_node_without_fields_as_the_reference_does() -> None:
    found = [official.GlobalMetadata(), official.Node(id=1), official.Node(), official.Node(id=2)]
    skipped: list[int] = []
    text = "".join(concatenated_texts(ours(found), skipped.append))
    assert text == '{}{\n  "id": "1"\n}'
    assert skipped == [2]
