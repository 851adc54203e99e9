"""Building traces from Python, and looking into them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import official
import pytest

import chakrasim.trace as ct
from chakrasim.errors import InputError
from same_content import same_content


def _one(**attrs: object) -> ct.Trace:
    builder = ct.TraceBuilder(source="built")
    builder.add(7, "n", attrs=attrs)
    return builder.build()


_VALUES: dict[str, tuple[object, str, object]] = {
    "bool": (True, "bool_val", True),
    "int": (-5, "int64_val", -5),
    "large int": (2**63, "uint64_val", 2**63),
    "float": (0.1, "double_val", 0.1),
    "str": ("é", "string_val", "é"),
    "bytes": (b"\xff", "bytes_val", b"\xff"),
    "bools": ([True, False], "bool_list", [True, False]),
    "ints": ((1, -2), "int64_list", [1, -2]),
    "large ints": ([1, 2**64 - 1], "uint64_list", [1, 2**64 - 1]),
    "floats": ([1, 2.5], "double_list", [1.0, 2.5]),
    "strs": (["a", ""], "string_list", ["a", ""]),
    "empty list": ([], "int64_list", []),
    "nothing": (None, "none", None),
    "NumPy int": (np.int32(5), "int64_val", 5),
    "NumPy bool": (np.bool_(True), "bool_val", True),
    "NumPy array": (np.array([1.5, 2.0]), "double_list", [1.5, 2.0]),
    "enumeration": (ct.CollectiveType.BARRIER, "int64_val", 9),
    "enumerations": ([ct.CollectiveType.BARRIER], "int64_list", [9]),
    "stated kind": ({"sint32_val": -1}, "sint32_val", -1),
    "stated float": ({"float_val": 0.5}, "float_val", 0.5),
    "stated list": ({"fixed64_list": [2**64 - 1]}, "fixed64_list", [2**64 - 1]),
    "stated nothing": ({"none": None}, "none", None),
}


@pytest.mark.parametrize("name", _VALUES)
def test_python_value_becomes_its_kind(name: str) -> None:
    value, kind, back = _VALUES[name]
    trace = _one(x=value)
    column = trace.attr("x")
    assert ct.KIND_NAMES[int(column.kind[0])] == kind
    assert column.value(0) == back and type(column.value(0)) is type(back)
    data = ct.encode_trace(trace)
    official.assert_same(trace, *official.read(data))
    assert same_content(ct.parse_trace(data), trace)


_REFUSED: dict[str, tuple[object, str]] = {
    "object": (object(), "expected bool, int, float, str, bytes, a list of one of them, or None"),
    "mixed list": ([1, "a"], "found [1, 'a']; expected list elements of one type"),
    "bools and ints": ([True, 2], "expected list elements of one type"),
    "nested list": ([[1]], "expected list elements of one type"),
    "unknown kind": ({"int128_val": 5}, "expected a mapping of one kind"),
    "two kinds": ({"bool_val": True, "int64_val": 5}, "expected a mapping of one kind"),
    "too large": ({"int32_val": 2**31}, "found 2147483648; expected an integer from -2147483648 to 2147483647"),
    "below zero": ({"uint64_val": -1}, "expected an integer from 0 to 18446744073709551615"),
    "int beyond uint64": (2**64, "expected an integer from 0 to 18446744073709551615"),
    "no list": ({"bool_list": True}, "found True; expected a list"),
    "no text": ({"string_val": 5}, "this must be text; found 5; expected a str"),
    "no bytes": ({"bytes_val": "x"}, "found 'x'; expected bytes"),
    "no number": ({"double_val": "x"}, "found 'x'; expected a number"),
    "float too large": ({"float_val": 1e300}, "expected a number that this kind of float can hold"),
    "surrogate": ("\ud800", "this text cannot be written as UTF-8; found '\\ud800'"),
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_value_that_fits_no_kind_is_refused_and_leaves_nothing(name: str) -> None:
    value, message = _REFUSED[name]
    builder = ct.TraceBuilder(source="built")
    builder.add(1, "kept", attrs={"a": [1]})
    before = ct.encode_trace(builder.build())
    with pytest.raises(InputError) as caught:
        builder.add(2, attrs={"first": [5], "x": value})
    assert message in str(caught.value)
    assert str(caught.value).startswith("built: node 2, attribute 'x': ")
    assert ct.encode_trace(builder.build()) == before and len(builder) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"id": -1}, "node -1: the id does not fit the schema; found -1; expected an integer from 0 to"),
        ({"id": "x"}, "node 'x': the id does not fit the schema; found 'x'"),
        ({"id": 1, "type": 2**31}, "node 1: the type does not fit the schema"),
        ({"id": 1, "data_deps": [0, -1]}, "node 1: data_deps does not fit the schema; found -1"),
        ({"id": 1, "duration_micros": 1.5}, "node 1: duration_micros does not fit the schema; found 1.5"),
        ({"id": 1, "name": 5}, "node 1, the name: this must be text; found 5"),
        ({"id": 1, "inputs": {"value": "x"}}, "inputs and outputs have no such part; found 'value'; expected values"),
    ],
)
def test_field_that_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    builder = ct.TraceBuilder(source="built")
    with pytest.raises(InputError) as caught:
        builder.add(**arguments)
    assert message in str(caught.value)
    assert len(builder) == 0


def test_all_fields_of_a_node_come_back() -> None:
    builder = ct.TraceBuilder(version="1.0.0", metadata={"schema": "s", "pid": {"uint64_val": 5}})
    builder.add(1, "a", 99, [3, 4], [5], 10, 20, {"x": 1}, {"values": "v"}, {})
    trace = builder.build()
    node = trace.node(0)
    assert (node.id, node.name, node.type, node.type_name) == (1, "a", 99, "type 99")
    assert (node.data_deps, node.ctrl_deps, node.duration_micros, node.start_micros) == ((3, 4), (5,), 10, 20)
    assert node.inputs == {"values": "v", "shapes": "", "types": ""} and node.outputs == dict.fromkeys(node.inputs, "")
    assert trace.version == "1.0.0" and trace.metadata == {"schema": "s", "pid": 5}
    assert ct.parse_trace(ct.encode_trace(trace)).node(0) == node
    assert repr(trace) == "Trace(nodes 1, attributes 1, schema 1.0.0, source <memory>)"
    with pytest.raises(IndexError):
        trace.node(1)


def test_first_of_equal_attribute_names_wins() -> None:
    message = official.Node(attr=[{"name": "x", "int64_val": 5}, {"name": "y"}, {"name": "x", "int64_val": 6}])
    other = official.Node(attr=[{"name": "y", "bool_val": True}])
    data = official.frame(b"", *(each.SerializeToString() for each in (message, other, message)))
    trace = ct.parse_trace(data)
    column = trace.attr("x")
    assert column.present.tolist() == [True, False, True]
    assert column.integers(default=-1).tolist() == [5, -1, 5]
    assert column.integers().tolist() == [5, 0, 5]
    assert trace.node(0).attrs == {"x": 5, "y": None}
    assert sorted(trace.attr_names()) == ["x", "y"]
    assert not trace.attr("z").present.any()
    assert trace.attr("y").kind.tolist() == [0, 27, 0] and trace.attr("y").present.all()


def test_integers_are_twos_complement_and_other_kinds_are_refused_by_node() -> None:
    assert _one(x=True).attr("x").integers().tolist() == [1]
    assert _one(x={"uint64_val": 2**64 - 1}).attr("x").integers().tolist() == [-1]
    assert _one(x={"sint32_val": -7}).attr("x").integers().tolist() == [-7]
    with pytest.raises(InputError) as caught:
        _one(x=1.5).attr("x").integers()
    assert str(caught.value) == (
        "built: node 7 ('n', number 0 in the file): attribute 'x' is no integer; found double_val 1.5; "
        "expected an integer or bool value"
    )


def test_strings_and_lists_of_a_column() -> None:
    trace = _one(s="text", l=[True, False])
    assert trace.attr("s").string(0) == "text" and trace.attr("l").list(0) == [True, False]
    assert trace.attr("z").string(0) == "" and trace.attr("z").list(0) == []
    with pytest.raises(InputError, match="'s' has the wrong type; found string_val 'text'; expected a list value"):
        trace.attr("s").list(0)
    with pytest.raises(InputError, match=r"'l' has the wrong type; found bool_list .*; expected a string_val"):
        trace.attr("l").string(0)


def test_content_is_equal_whatever_the_order_of_the_string_table() -> None:
    first = _one(a="x", b="y")
    data = official.frame(b"", official.Node(attr=[{"name": "b", "string_val": "y"}]).SerializeToString())
    assert same_content(first, ct.parse_trace(ct.encode_trace(first)))
    assert not same_content(first, ct.parse_trace(data))
    assert not same_content(first, _one(a="x", b="z"))


def test_importing_does_not_load_the_compiler() -> None:
    command = "import sys, chakrasim.trace; sys.exit('numba' in sys.modules or 'google.protobuf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
