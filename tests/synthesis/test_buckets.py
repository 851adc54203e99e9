"""Gradients that are sent in buckets: of nodes outside of layers, too, and of a smaller size at first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.synthesis.file import model_bytes
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType, NodeType

Own = dict[str, int]
ENDS = {"layers": (2, 7), "width": (60, 300), "words": (100, 900)}
FIRST, LATER = 1 << 18, 3 << 19


def step(own: Own) -> Trace:
    """A step whose forward pass has nodes like those that gather gradients; all of these copied back at its end."""
    made, width, held = cs.TraceBuilder(), own["width"], 0
    sent, parts, gathered = list[int](), list[int](), list[int]()

    def add(name: str, waits: list[int], **attributes: object) -> int:
        made.add(len(made), name, data_deps=waits, attrs={"stream": 0, **attributes})
        return len(made) - 1

    def bucket(waits: list[int]) -> None:
        nonlocal held
        attributes = {"comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": held, "pg_name": "dp"}
        sent.append(len(made))
        made.add(len(made), "reduce", NodeType.COMM_COLL_NODE, data_deps=waits, attrs={"stream": 10, **attributes})
        held = 0
        gathered.clear()

    def gather(wait: int, size: int) -> None:
        nonlocal held
        parts.append(len(sent))
        gathered.append(add("scale", [wait, *gathered[-1:]], num_ops=size, bytes_written=4 * size))
        held += 4 * size
        if held >= (LATER if sent else FIRST):
            bucket(gathered[-1:])

    last = add("embed", [], num_ops=width)
    for _ in range(own["layers"]):
        last = add("scale", [last], num_ops=7 * width, bytes_written=28 * width)
        last = add("mm", [last], num_ops=width * width)
    last = add("loss", [last], num_ops=own["words"])
    gather(last, own["words"] * width)
    for _ in range(own["layers"]):
        for name, size in (("mm back", 4 * width**2), ("bias back", width), ("norm back", 2 * width)):
            last = add(name, [last], num_ops=2 * size)
            gather(last, size)
    last = add("embed back", [last], num_ops=9 * width)
    gather(last, own["words"] * width)
    if held:
        bucket(gathered[-1:])
    for part in parts:
        add("copy", [sent[part]], num_ops=3)
    return made.build()


def job(own: Own) -> Job:
    return Job((step(own),), np.zeros(2, np.int64), {"dp": ((0, 1),)}, {**own})


def learned_of(count: int, folder: Path) -> cs.Learned:
    random = np.random.default_rng(4)
    for number in range(count):
        own = {name: int(random.integers(*both)) for name, both in ENDS.items()}
        cs.write_job(folder / f"{number:02}", job(own))
    return cs.learn([str(folder / f"{number:02}") for number in range(count)])


def test_buckets_have_a_first_size_and_what_copies_them_back_waits_for_its_own(tmp_path: Path) -> None:
    learned = learned_of(40, tmp_path)
    assert not learned.lost
    cs.write_model(tmp_path / "m", learned)
    model = cs.read_model(tmp_path / "m")
    assert model_bytes(model) == model_bytes(learned)
    for layers, width, words in ((9, 200, 500), (4, 301, 120), (6, 90, 850)):
        own = {"layers": layers, "width": width, "words": words}
        (found,), wanted = cs.synthesize(model, own), step(own)
        (made,) = found.job.traces
        assert [made.name(i) for i in range(len(made))] == [wanted.name(i) for i in range(len(wanted))]
        for name in ("num_ops", "bytes_written", "comm_size"):
            assert made.attr(name).integers_or(0).tolist() == wanted.attr(name).integers_or(0).tolist()
        for number in range(len(wanted)):
            assert {*made.data_deps[number].tolist()} == {*wanted.data_deps[number].tolist()}


def test_models_with_damaged_buckets_are_refused(tmp_path: Path) -> None:
    content = json.loads(model_bytes(learned_of(30, tmp_path)))
    (own,) = content["meters"]
    for name, value in (("before", []), ("enough", own["enough"][:1]), ("behind", [["nothing"]]), ("loop", None)):
        (tmp_path / "m").write_text(json.dumps({**content, "meters": [{**own, name: value}]}))
        with pytest.raises(InputError, match="the model is damaged"):
            cs.read_model(tmp_path / "m")
