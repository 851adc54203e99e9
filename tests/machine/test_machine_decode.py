"""Files and texts: bounded, located, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrasim.config.decode import MAX_FILE_BYTES, decode_json, decode_yaml
from chakrasim.config.values import describe, step
from chakrasim.errors import InputError
from chakrasim.machine import load_groups, load_memory, load_network, load_system
from chakrasim.notes import Notes


def json_message(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        decode_json(data, "f.json", Notes())
    return str(caught.value)


def yaml_message(text: str) -> str:
    with pytest.raises(InputError) as caught:
        decode_yaml(text.encode(), "f.yml")
    return str(caught.value)


def test_json_of_a_repeated_key_the_last_value_wins() -> None:
    notes = Notes()
    assert decode_json(b'{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', "f.json", notes) == {"a": 3, "b": {"c": 2}}
    assert [*notes] == ["f.json: $.b.c: the key is there more than once, the last value counts (and 1 more such keys)"]


def test_json_text_behind_the_value_is_reported() -> None:
    notes = Notes()
    assert decode_json(b'\xef\xbb\xbf {"a": 1} xyz\n', "f.json", notes) == {"a": 1}
    assert [*notes] == ["f.json: 3 characters behind the JSON value are not read"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "f.json: line 1 column 1: not JSON: Expecting value"),
        (b'{"a": }', "f.json: line 1 column 7: not JSON: Expecting value"),
        (b"topology: [Ring]", "f.json: line 1 column 1: not JSON: Expecting value"),
        (b'{"a": NaN}', "f.json: not JSON: NaN is not a JSON number"),
        (
            b'{\n "a": "x\\uDCFF"}',
            "f.json: line 2 column 9: not JSON: half of a character; found \\udcff; expected both of its halves",
        ),
        (b'{"a": \xff}', "f.json: byte 6: not JSON: the bytes are not UTF-8 text"),
        (b"[" * 100_000, "f.json: nested too deeply; expected at most 32 levels"),
        (b"[" * 40 + b"]" * 40, "f.json: nested too deeply; expected at most 32 levels"),
        (b"1" * 5000, "f.json: not JSON: "),
    ],
)
def test_json_refusals(data: bytes, expected: str) -> None:
    assert json_message(data).startswith(expected)


def test_yaml_scalars_stay_text() -> None:
    tree = decode_yaml(b"a: [1e9, on, 010, 'x', ~]\nb: &x {c: 1:30}\nd: *x\n", "f.yml")
    assert tree == {"a": ["1e9", "on", "010", "x", "~"], "b": {"c": "1:30"}, "d": {"c": "1:30"}}
    assert decode_yaml(b"", "f.yml") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "f.yml: line 2 column 1: the key 'a' is there twice"),
        ("a: [1\n", "f.yml: line 2 column 1: not YAML: "),
        ("a: 1\n--- \nb: 2\n", "f.yml: line 2 column 1: a second YAML document; one is expected"),
        (
            "a: !!python/object:os.system x\n",
            "f.yml: line 1 column 4: the tag 'tag:yaml.org,2002:python/object:os.system'",
        ),
        ("a: &x [*x]\n", "f.yml: line 1 column 8: the alias *x stands inside what it names"),
        ("a: *nowhere\n", "f.yml: line 1 column 4: the alias *nowhere names nothing above it"),
        ("[a]: 1\n", "f.yml: line 1 column 1: a key of $ is a list of 0 items; keys are plain words"),
        ("a: " + "[" * 5000, "f.yml: line 1 column 35: nested deeper than 32 levels"),
        ("a: \x01", "f.yml: byte 3: not YAML: "),
    ],
)
def test_yaml_refusals(text: str, expected: str) -> None:
    assert yaml_message(text).startswith(expected)


def test_a_bomb_of_aliases_is_not_expanded() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    with pytest.raises(InputError, match="not a network configuration"):
        load_network(decode_yaml("\n".join(lines).encode(), "f.yml"), Notes())  # type: ignore[arg-type]
    lines.append("topology: *a59")
    lines.append("npus_count: [2]\nbandwidth: [1]\nlatency: [1]")
    with pytest.raises(InputError, match="unknown topology; found a list of 2 items"):
        load_network(decode_yaml("\n".join(lines).encode(), "f.yml"), Notes())  # type: ignore[arg-type]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    loaders = (load_system, load_network, load_memory, load_groups)
    for load in loaders:
        with pytest.raises(InputError, match="no such file; check the path"):
            load(tmp_path / "absent", Notes())  # type: ignore[operator]
        with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
            load(str(tmp_path), Notes())  # type: ignore[operator]
        with pytest.raises(InputError, match=r"cannot be read \(not a path\)"):
            load("a\x00b", Notes())  # type: ignore[operator]
    large = tmp_path / "large"
    large.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(InputError, match=f"system configuration: too large; expected at most {MAX_FILE_BYTES} bytes"):
        load_system(large, Notes())


def test_a_configuration_is_a_mapping_with_string_keys(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("[1, 2]")
    with pytest.raises(InputError, match=r"list.json: \$: not a system configuration; found a list of 2 items"):
        load_system(file, Notes())
    with pytest.raises(InputError, match="a key is not a string; found 3; expected string keys"):
        load_system({3: 4}, Notes())


def test_values_are_shown_short_and_printable() -> None:
    assert describe("x" * 1000) == repr("x" * 60) + "..."
    assert describe("\ud800\n") == r"'\ud800\n'"
    assert describe(object()) == "a Python object"
    assert step("a\nb") == r".'a\nb'"
    assert step(3) == "[3]"
