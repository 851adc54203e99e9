"""The line of a YAML file in which what is refused stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrasim.config.kinds import text, whole
from chakrasim.config.section import open_section
from chakrasim.config.table import REQUIRED, Key, list_of, names, read
from chakrasim.errors import InputError
from chakrasim.notes import Notes

ITEM = (Key("name", text, REQUIRED, ""), Key("count", whole(1), 1, ""))
TABLE = (Key("items", list_of(ITEM, "a list", "items"), REQUIRED, ""),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# first\n\nitems:\n- name: a\n  count: 0\n", "line 5: $.items[0].count: "),
        ("items:\n  - {name: a}\n  - {count: 2}\n", "line 3: $.items[1].name: the key is missing"),
        ("\nitems: []\nnmae: 1\n", "line 3: $.nmae: unknown key"),
        ("a: &x {name: b, count: -1}\nitems: [*x]\n", "line 1: $.a: unknown key"),
        ("\n\nother: 1\n", "line 3: $.other: unknown key"),
        ("{}\n", "line 1: $.items: the key is missing"),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        section = open_section(path, "list", "yaml", Notes())
        section.refuse_unknown(names(TABLE))
        read(section, TABLE)
    assert f"some.yaml: {said}" in str(refused.value)


def test_mappings_have_no_lines() -> None:
    with pytest.raises(InputError) as refused:
        read(open_section({"items": [{}]}, "list", "yaml", Notes()), TABLE)
    assert str(refused.value).startswith("list: $.items[0].name: the key is missing")
