"""Seeded damage to files of all kinds: JSON documents by their structure, Chakra traces by their messages, or bytes."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from mutations import MUTATIONS

Files = dict[str, bytes]

NUMBERS = (
    *(0, 1, -1, 2, 7, 255, 4096, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**70), 10**40),
    *(0.5, -0.0, 1e-9, 1e18, 1e300, -1e300, float("nan"), float("inf"), float("-inf")),
)
VALUES = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "12",
        "-1",
        "0x10",
        "1e400",
        "nan",
        "\udcff",
        "\0",
        "\u00e4\u4e2d",
        "a" * 300,
        "[0, 1]",
    ),
    *("[0, 1]", [], [[]], [0, 1], ["0", "1"], [[1, 2, 0, 4, 4, "cuda:0"]], {}, {"a": 1}, {"": None}, [None, {}, "x"]),
)
PIECES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u12", b"\\ud800", b"\n", b"\0", b"\t", b"\xff", b"\xc3\xa4"),
    *(b'"ts": ', b'"dur": -1', b'"args": {', b'"traceEvents": [', b'{"ph": "X"}', b'{"id": 5}', b"NaN", b"-Infinity"),
    *(b'"nodes": [', b"1e400", b"123456789012345678901", b"0.0005", b"true", b"null", b"{}", b"[]", b"[[[[", b"//"),
)
AMOUNTS = ("0", "-1", "1e9", "1e400", "nan", ".inf", "9" * 30, "0.0000001", "1,000", "", "0x10", "1 k")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
NESTED = (b"[" * 3000, b'{"a":' * 3000, b'{"traceEvents": ' + b"[" * 2000 + b"]" * 2000 + b"}", b'{"nodes": [[[]]]}')


def damaged(name: str, files: Files, draw: random.Random) -> bytes:
    """The bytes of one of the files, damaged."""
    data = files[name]
    if draw.random() < 0.06:
        return _another_file(data, files, draw)
    kept = name.endswith((".yaml", ".yml")) and draw.random() < 0.6
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if kept:
            data = _yaml(data, draw)
            continue
        orderly = 0.9 if data[:1] == b"<" else 0.65
        data = _structure(data, draw) if draw.random() < orderly else _bytes(data, files, draw)
    if draw.random() < 0.04:
        data = gzip.compress(data, 1, mtime=0)
        data = _bytes(data, files, draw) if draw.random() < 0.6 else data
    return data


def no_file(path: Path, draw: random.Random) -> None:
    """What is no file under a file's name: a folder, a pipe, a device, a link to itself; or a file of nothing but a
    hole."""
    kind = draw.randrange(7)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        with path.open("wb") as file:
            file.truncate(draw.choice((1 << 18, 1 << 33, 1 << 42)))
    else:
        path.symlink_to(("/dev/zero", "/dev/null", "/dev/full", path.name)[kind - 3])


def _another_file(data: bytes, files: Files, draw: random.Random) -> bytes:
    """Something else altogether, or the same in another encoding."""
    others: tuple[Callable[[], bytes], ...] = (
        lambda: b"",
        lambda: files[draw.choice(sorted(files))],
        lambda: data.decode("latin-1").encode("utf-16"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data + data,
        lambda: draw.choice(NESTED),
        lambda: json.dumps(draw.choice(VALUES)).encode(),
        lambda: draw.randbytes(draw.choice((1, 2, 9, 200))),
        lambda: b"\0" * draw.choice((1, 5000)),
        lambda: gzip.compress(gzip.compress(data, 1), 1),
    )
    return draw.choice(others)()


def _bytes(data: bytes, files: Files, draw: random.Random) -> bytes:
    text = bytearray(data)
    if draw.random() < 0.5:
        return bytes(draw.choice(MUTATIONS[:-1])(text, draw, files))
    at = draw.randrange(len(text) + 1)
    text[at : at + draw.choice((0, 0, 1, 2, 20, 300))] = draw.choice(PIECES)
    return bytes(text)


def _structure(data: bytes, draw: random.Random) -> bytes:
    """Damage that leaves the form of the file intact: JSON stays JSON, messages stay messages, lines stay lines."""
    if data[:1] in (b"{", b"["):
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return data
        for _ in range(draw.choice((1, 1, 2, 5))):
            _edit(document, draw)
        return json.dumps(document, ensure_ascii=draw.random() < 0.7).encode("utf-8", "surrogatepass")
    if data[:1] == b"<":
        return _elements(data, draw)
    messages = _messages(data)
    return _words(data, draw) if messages is None else _edited_messages(messages, draw)


# -- JSON --------------------------------------------------------------------------------------------------------------


def _yaml(data: bytes, draw: random.Random) -> bytes:
    """YAML that stays YAML; quantities among its texts get other numbers or units."""
    try:
        document = yaml.load(data, _LOADER)
    except (yaml.YAMLError, ValueError, RecursionError):
        return data
    _edit(document, draw)
    how = {"sort_keys": False, "allow_unicode": draw.random() < 0.7, "width": 200}
    try:
        text = yaml.dump(document, Dumper=_DUMPER, **how)
    except UnicodeEncodeError:  # The fast one writes no halves of characters.
        text = yaml.dump(document, Dumper=yaml.SafeDumper, **how)
    if draw.random() < 0.3:
        amounts = list(re.finditer(r"[0-9.]+(?= [A-Za-z])", text))
        if amounts:
            at = draw.choice(amounts)
            text = text[: at.start()] + draw.choice(AMOUNTS) + text[at.end() :]
    return text.encode("utf-8", "surrogatepass")


def _place(document: Any, draw: random.Random) -> tuple[Any, Any] | None:
    """A random container of the document and a key in it."""
    owner, key, inner = None, None, document
    while isinstance(inner, dict | list) and inner and (owner is None or draw.random() < 0.88):
        owner = inner
        key = draw.choice(list(owner)) if isinstance(owner, dict) else draw.randrange(len(owner))
        inner = owner[key]
    return None if owner is None else (owner, key)


def _edit(document: Any, draw: random.Random) -> None:
    place, other = _place(document, draw), _place(document, draw)
    if place is None or other is None:
        return
    owner, key = place
    value = owner[key]
    kind = draw.randrange(9)
    if kind == 0:
        del owner[key]
    elif kind == 1:
        owner[key] = deepcopy(draw.choice(VALUES))
    elif kind == 2:
        owner[key] = draw.choice(NUMBERS)
    elif kind == 3:
        owner[key] = _near(value, draw)
    elif kind == 4:
        owner[key] = draw.choice((str(value), [value], {"a": value}, bool(value), len(str(value))))
    elif kind == 5:
        owner[key] = json.loads(json.dumps(other[0][other[1]]))
    elif kind == 6:
        _double(owner, key, draw)
    elif kind == 7 and isinstance(owner, dict):
        owner[draw.choice((key.upper(), key + " ", "", *owner))] = owner.pop(key)
    else:
        _shuffle(owner, draw)


def _near(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value[: len(value) // 2] if isinstance(value, str) else value
    return draw.choice((value + 1, value - 1, -value, value * 1000, value / 1000, value + 0.0005, value + 2**53))


def _double(owner: Any, key: Any, draw: random.Random) -> None:
    if isinstance(owner, list):
        copy = json.loads(json.dumps(owner[key]))
        owner.insert(draw.randrange(len(owner) + 1), copy)
    else:
        owner[draw.choice(("id", "ts", "dur", "name", "rank", "correlation", "stream", "External id"))] = owner[key]


def _shuffle(owner: Any, draw: random.Random) -> None:
    if isinstance(owner, list):
        draw.shuffle(owner)
    else:
        keys = list(owner)
        values = [owner[key] for key in keys]
        draw.shuffle(values)
        owner.update(zip(keys, values, strict=True))


# -- XML ---------------------------------------------------------------------------------------------------------------

XML_VALUES = (
    *("-1", "0", "1", "2", "3", "7", "255", "999999999", "-999999999", "9999999999", "1e3", "", " 1 ", "x", "0x1"),
    *("s", "r", "rcs", "rrc", "rrs", "rrcs", "re", "cpy", "nop", "allreduce", "allgather", "i", "o", "&#27;", "&lt;"),
)
XML_PIECES = (
    *('<!DOCTYPE a [<!ENTITY b "c">]>', "<![CDATA[x]]>", "<!-- -->", "<?xml version='1.0' encoding='utf-16'?>", "&b;"),
    *("<step/>", "</tb>", "<tb>", "<gpu id='0'>", "</algo>", "<algo>", "text", "\0"),
)


def _elements(data: bytes, draw: random.Random) -> bytes:
    """Attributes with other values, lost or renamed; lines lost, doubled, moved or put in between."""
    text = data.decode("utf-8", "replace")
    attributes = list(re.finditer(r'(\w+)="([^"]*)"', text))
    if attributes and draw.random() < 0.7:
        at = draw.choice(attributes)
        value = draw.choice((*XML_VALUES, draw.choice(attributes)[2]))
        new = draw.choice(
            (f'{at[1]}="{value}"',) * 8 + ("", f'{draw.choice(attributes)[1]}="{at[2]}"', f"{at[0]} {at[0]}")
        )
        return (text[: at.start()] + new + text[at.end() :]).encode()
    lines = text.split("\n")
    at_line, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(4)
    if kind == 0:
        del lines[at_line]
    elif kind == 1:
        lines.insert(other, lines[at_line])
    elif kind == 2:
        lines[at_line], lines[other] = lines[other], lines[at_line]
    else:
        lines.insert(other, draw.choice(XML_PIECES))
    return "\n".join(lines).encode()


# -- Chakra traces -----------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError


def _encoded(value: int) -> bytes:
    out = bytearray()
    value &= 2**64 - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _messages(data: bytes) -> list[bytes] | None:
    """The length-delimited messages of a Chakra trace; None if the bytes are nothing of the kind."""
    if data[:2] == b"\x1f\x8b":
        return None
    found, at = [], 0
    try:
        while at < len(data):
            length, at = _varint(data, at)
            if at + length > len(data):
                return None
            found.append(data[at : at + length])
            at += length
    except (IndexError, ValueError):
        return None
    return found if len(found) > 1 else None


def _edited_messages(messages: list[bytes], draw: random.Random) -> bytes:
    at = draw.randrange(len(messages))
    kind = draw.randrange(8)
    if kind == 0:
        del messages[at]
    elif kind == 1:
        messages.insert(draw.randrange(len(messages) + 1), messages[at])
    elif kind == 2:
        other = draw.randrange(len(messages))
        messages[at], messages[other] = messages[other], messages[at]
    else:
        messages[at] = _edited_message(messages[at], draw, 0)
    return b"".join(_encoded(len(message)) + message for message in messages)


def _edited_message(message: bytes, draw: random.Random, depth: int) -> bytes:
    """One field deleted, doubled, given another number or another value."""
    try:
        fields = _fields(message)
    except (IndexError, ValueError):
        return message
    if not fields:
        return message
    at = draw.randrange(len(fields))
    number, wire, value = fields[at]
    kind = draw.randrange(8)
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields.insert(draw.randrange(len(fields) + 1), fields[at])
    elif kind == 2:
        fields[at] = draw.randrange(1, 40), wire, value
    elif isinstance(value, int):
        odd = (
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            100,
            2**31,
            2**32,
            2**53 + 1,
            2**63 - 1,
            2**63,
            2**64 - 1,
            value + 1,
            value * 1000,
        )
        fields[at] = number, wire, draw.choice(odd)
    elif wire == 2 and depth < 3 and draw.random() < 0.8:
        fields[at] = number, wire, _edited_message(value, draw, depth + 1)
    else:
        fields[at] = number, wire, draw.choice((b"", b"x", b"\xff\xff", value * 2, value[:-1], draw.randbytes(8)))
    return b"".join(_field(*field) for field in fields)


def _fields(message: bytes) -> list[tuple[int, int, int | bytes]]:
    found: list[tuple[int, int, int | bytes]] = []
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = message[at : at + size], at + size
        elif wire == 2:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            raise ValueError
        if at > len(message):
            raise ValueError
        found.append((tag >> 3, wire, value))
    return found


def _field(number: int, wire: int, value: int | bytes) -> bytes:
    tag = _encoded(number << 3 | wire)
    if isinstance(value, int):
        return tag + _encoded(value)
    if wire == 2:
        return tag + _encoded(len(value)) + value
    return tag + value[: 8 if wire == 1 else 4].ljust(8 if wire == 1 else 4, b"\0")


# -- lines -------------------------------------------------------------------------------------------------------------

WORDS = (
    *(
        "-1",
        "0",
        "1",
        "2",
        "99999999999999999999",
        "1e9",
        "nan",
        "inf",
        "0.5",
        "",
        "x",
        "\u00e4",
        "\0",
        "1_000",
        "+3",
        "0x1f",
    ),
    *(
        "ALLREDUCE",
        "ALLTOALL",
        "NONE",
        "MODEL",
        "DATA",
        "HYBRID_DLRM",
        "checkpoints:",
        "model_parallel_NPU_group:",
        "MICRO",
    ),
    *("TRANSFORMER", "issue", "callback", "COMP_NODE", "node->id=", "tick=-5", "MEM_LOAD_NODE", "a=1"),
)


def _words(data: bytes, draw: random.Random) -> bytes:
    """Words and lines of a text replaced, moved, doubled and lost."""
    lines = data.decode("utf-8", "replace").split("\n")
    at = draw.randrange(len(lines))
    kind = draw.randrange(7)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(draw.randrange(len(lines) + 1), lines[at])
    elif kind == 2:
        draw.shuffle(lines)
    else:
        mark = "," if "," in lines[at] else "\t" if "\t" in lines[at] else " "
        words = lines[at].split(mark)
        word = draw.randrange(len(words))
        if kind == 3:
            words.insert(word, draw.choice(WORDS))
        elif kind == 4:
            del words[word]
        elif words[word].strip("-0123456789") or draw.random() < 0.2:
            words[word] = draw.choice(WORDS)
        else:
            words[word] = str(draw.choice((-1, 0, 1, 2, 3, 50, 10**6, 2**31, 2**62, 2**63, 10**20)))
        lines[at] = mark.join(words)
    return "\n".join(lines).encode("utf-8", "replace")
