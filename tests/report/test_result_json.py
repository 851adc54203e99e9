"""JSON and data frames hold the result's figures; the JSON is the same whenever the input is."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from chakrasim import InputError


def test_figures(step):
    content = json.loads(step.to_json())
    assert content["makespan_ns"] == 84012
    assert content["finish_ns"] == [84012] * 4
    assert content["exposed_comm_ns"] == [29012] * 4
    assert content["parts_ns"]["overlap"] == [30000] * 4
    assert [sum(times[rank] for times in content["parts_ns"].values()) for rank in range(4)] == [84012] * 4
    assert content["classes"] == [0] * 4 and content["ranks"] == 4 and content["simulated"]
    assert content["finish_order"] == step.finish_order.tolist()
    (collective,) = content["collectives"]
    assert (collective["type"], collective["size_bytes"], collective["mean_ns"]) == ("all-reduce", 1 << 20, 59012.0)
    assert sum(content["links"]["bytes"]) * content["links"]["copies"] == content["message_bytes"]
    assert content["peak_memory_bytes"] is None
    assert list(content) == sorted(content)


def test_the_same_input_gives_the_same_bytes(run, step):
    nodes = step.records[0].graph.trace
    assert step.to_json() == step.to_json()
    again = run(
        [{"id": 1, "type": 4, "duration_micros": 5, "attrs": {}}], [{"id": 1, "type": 4, "attrs": {}}], fold=False
    )
    assert again.to_json() == again.to_json() and len(nodes) == 4


def test_unaware_runs_have_no_links(run):
    result = run([{"id": 1, "type": 4, "duration_micros": 5, "attrs": {}}], ranks=2)
    assert json.loads(result.to_json())["links"] is None


@pytest.mark.parametrize(
    ("warning", "kept"),
    [
        ("/home/me/x y/w.0.et: left out 3 fields", "w.0.et: left out 3 fields"),
        ("runs/a/system.json: $.x: no effect", "system.json: $.x: no effect"),
        ("C:\\runs\\system.json: no effect", "system.json: no effect"),
        ("system.json: no effect", "system.json: no effect"),
        ("rank 3: see a/b.json: bad", "rank 3: see a/b.json: bad"),
        ("12 GB/s: fast", "12 GB/s: fast"),
    ],
)
def test_warnings_lose_the_folder_of_their_file(step, warning, kept):
    assert json.loads(dataclasses.replace(step, warnings=(warning,)).to_json())["warnings"] == [kept]


def test_written_file_holds_the_text(step, tmp_path):
    path = tmp_path / "r.json"
    text = step.to_json(path)
    assert path.read_text() == text


def test_frame_has_one_row_per_rank(step):
    pytest.importorskip("pandas")
    frame = step.to_frame()
    assert frame.index.name == "rank" and len(frame) == 4
    assert frame["finish_ns"].tolist() == [84012] * 4
    parts = frame[[name for name in frame if name.startswith("part_")]]
    assert (parts.sum(axis=1) == 84012).all()


def test_frame_without_pandas_says_what_to_install(step, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"needs pandas; pip install chakrasim\[frames\]"):
        step.to_frame()
