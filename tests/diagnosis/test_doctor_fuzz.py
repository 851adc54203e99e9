"""Damaged files in a folder: the doctor always ends with findings, never with a traceback."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from chakrasim.diagnosis.doctor import diagnose
from chakrasim.errors import InputError
from chakrasim.report.tables.diagnosis import diagnosis_sections
from chakrasim.text.layout import plain_text
from made_jobs import job, save

NOISE = (b"\xff" * 9, b"\x00", b"-1", b"1e999", b"null", b'""', b"[]", b"9" * 30, b"\x1f\x8b", b"{", b"}", b",", b"NaN")
VALUES = (None, True, -1, 0, 2**31, 2**63, -(2**70), 0.5, 1e300, "x", "", "12", [], [[1]], {}, {"a": 1})


def broken_bytes(data: bytes, draw: random.Random) -> bytes:
    text = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            del text[at:]
        elif kind == 1:
            text[at : at + draw.randint(0, 40)] = draw.choice(NOISE)
        elif kind == 2:
            del text[at : at + draw.randint(1, 200)]
        else:
            text[at:at] = text[at : at + draw.randint(1, 300)]
    return bytes(text)


def broken_values(data: bytes, draw: random.Random) -> bytes:
    document = json.loads(data)
    places = [(document, key) for key in document]
    for items in (document.get("traceEvents") or document.get("nodes") or [])[:200]:
        places += [(items, key) for key in items]
        places += [(items["args"], key) for key in items.get("args", {})]
    for _ in range(draw.randint(1, 6)):
        owner, key = draw.choice(places)
        if draw.random() < 0.2:
            owner.pop(key, None)
        else:
            owner[key] = draw.choice(VALUES)
    return json.dumps(document).encode()


def test_damaged_folders_are_examined_to_the_end(tmp_path: Path) -> None:
    job(tmp_path, 2, steps=2)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    draw = random.Random(33)
    codes: set[int] = set()
    for round_ in range(60):
        for name, data in whole.items():
            damaged = data
            if draw.random() < 0.6:
                damaged = (broken_bytes if draw.random() < 0.5 else broken_values)(data, draw)
            if draw.random() < 0.2:
                damaged = broken_bytes(gzip.compress(damaged, 1, mtime=0), draw)
            (tmp_path / name).write_bytes(damaged)
        try:
            diagnosis = diagnose(tmp_path)
        except InputError as error:
            raise AssertionError(f"round {round_}: {error}") from error
        assert plain_text(diagnosis_sections(diagnosis))
        json.dumps(diagnosis.to_mapping())
        codes.add(diagnosis.exit_code)
    assert codes == {0, 1, 2} or codes == {1, 2}


def test_files_of_all_sorts_in_one_folder(tmp_path: Path) -> None:
    job(tmp_path / "sub", 2)
    for number, noise in enumerate(NOISE):
        (tmp_path / f"device.{number}.json").write_bytes(noise)
    save(tmp_path / "deep.json", {"traceEvents": {"a": 1}, "nodes": 3})
    (tmp_path / "nest.json").write_bytes(b'{"traceEvents": ' + b"[" * 5000)
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    assert diagnose(tmp_path).ranks
