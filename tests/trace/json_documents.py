"""Hypothesis strategies for JSON text in all its forms: spacing, escapes, orders, numbers, unknown members."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

spaces = st.text(" \n\t\r", max_size=3)
plain_texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
integers = st.integers(-(2**70), 2**70)
numbers = st.one_of(
    integers.map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@st.composite
def texts(draw: st.DrawFn, of: st.SearchStrategy[str] = plain_texts) -> str:
    """A JSON string: characters as they are or escaped, as may be."""
    parts = []
    for letter in draw(of):
        usual = json.dumps(letter, ensure_ascii=False)[1:-1]
        units = letter.encode("utf-16-be")
        escaped = "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
        ways = [usual, escaped, *(["\\/"] if letter == "/" else [])]
        parts.append(draw(st.sampled_from(ways)))
    return '"' + "".join(parts) + '"'


def names_beside(*known: str) -> st.SearchStrategy[str]:
    """Names of members that a reader does not know. Hypothesis draws words of the code under test too."""
    return texts(plain_texts.filter(lambda name: name not in known))


@st.composite
def _list(draw: st.DrawFn, parts: st.SearchStrategy[str]) -> str:
    found = draw(st.lists(parts, max_size=4))
    return "[" + draw(spaces) + ",".join(draw(spaces) + part + draw(spaces) for part in found) + "]"


@st.composite
def members(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> str:
    """A JSON object of these members, name and value being JSON text."""
    inside = ",".join(
        f"{draw(spaces)}{name}{draw(spaces)}:{draw(spaces)}{value}{draw(spaces)}" for name, value in pairs
    )
    return "{" + (inside or draw(spaces)) + "}"


@st.composite
def _object(draw: st.DrawFn, parts: st.SearchStrategy[str]) -> str:
    return draw(members(draw(st.lists(st.tuples(texts(), parts), max_size=3))))


values = st.recursive(
    st.one_of(texts(), numbers, st.sampled_from(["true", "false", "null"])),
    lambda parts: st.one_of(_list(parts), _object(parts)),
    max_leaves=8,
)


def shuffled(pairs: Any) -> Any:
    """The members in any order; names that are not escaped stay in the order of their duplicates."""
    return st.permutations(pairs)
