"""Shapes put into device traces are those that the profiler records itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim.collect.observing.shapes import add_shapes, shapes_of

MEMBERS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
HOST = """{
  "nodes": [
      {
        "id": 2, "name": "aten::full", "ctrl_deps": 1,
        "inputs": {"values": [[2,3],0.500000,"<None>",[]], "shapes": [[[],[]],[],[],[]], "types": ["GenericList[Int,Int]","Double","None","GenericList[]"], "strides": [[[],[]],[],[],[]]},
        "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
        "attrs": [{"name": "rf_id", "type": "uint64", "value": 7}]
      },
      {
        "id": 3, "name": "broken", "ctrl_deps": 1,
        "inputs": {"values": [1, "shapes": []},
        "attrs": [{"name": "rf_id", "type": "uint64", "value": 8}]
      }
  ]
}"""  # noqa: E501
DEVICE = """{
  "record_shapes": 0,
  "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "a", "args": {
      "External id": 1,"Record function id": 7, "Ev Idx": 0
  }},
  {"ph": "X", "cat": "cpu_op", "name": "\\"Record function id\\": 7", "args": {
      "External id": 2,"Record function id": 70, "Ev Idx": 1
  }}
  ]
}"""


def programs(torch: Any) -> None:
    """Arguments of all kinds."""
    functional = torch.nn.functional
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten())
    optimizer = torch.optim.AdamW(model.parameters())
    images = torch.randn(2, 3, 8, 8)
    functional.cross_entropy(model(images), torch.tensor([1, 2])).backward()
    optimizer.step()
    torch.cat([images, images.clamp(min=-0.1)], 1)[:, 1:3].sum((2, 3), keepdim=True).to(torch.float64)
    torch.split(images.bfloat16(), [1, 2], 1)
    torch.nn.LSTM(4, 5)(torch.randn(3, 2, 4))
    torch.zeros(()).sum([])
    functional.scaled_dot_product_attention(*[torch.randn(1, 2, 4, 8)] * 3, is_causal=True)


def test_they_are_those_of_the_profiler(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "host.json"))
    with torch.profiler.profile(record_shapes=True, execution_trace_observer=observer) as profiler:
        programs(torch)
    profiler.export_chrome_trace(str(tmp_path / "device.json"))
    shapes = shapes_of(tmp_path / "host.json")
    compared = 0
    for event in json.loads((tmp_path / "device.json").read_bytes())["traceEvents"]:
        recorded = event.get("args", {})
        if event.get("cat") != "cpu_op":
            continue
        found = json.loads(b"{" + shapes[str(recorded["Record function id"]).encode()][2:] + b"}")
        numbers = recorded.get("Concrete Inputs", [])
        exact = ["" if "." in text else text for text in numbers]
        assert found == {name: recorded[name] for name in MEMBERS if name in recorded} | (
            {"Concrete Inputs": exact} if numbers else {}
        )
        compared += bool(found)
    assert compared > 100


def test_operators_get_their_shapes_and_others_are_counted(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(HOST)
    (tmp_path / "device.json").write_text(DEVICE)
    assert add_shapes(tmp_path / "device.json", tmp_path / "host.json") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device.json", "host.json"]
    made = json.loads((tmp_path / "device.json").read_bytes())
    assert made["record_shapes"] == 1
    assert [event["args"] for event in made["traceEvents"]] == [
        {
            "External id": 1,
            "Record function id": 7,
            "Input Dims": [[], [], [], []],
            "Input type": ["ScalarList", "Scalar", "", "ScalarList"],
            "Input Strides": [[], [], [], []],
            "Concrete Inputs": ["[2, 3]", "", "", "[]"],
            "Ev Idx": 0,
        },
        {"External id": 2, "Record function id": 70, "Ev Idx": 1},
    ]


def test_inputs_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(HOST)
    assert shapes_of(tmp_path / "host.json")[b"8"] == b""
