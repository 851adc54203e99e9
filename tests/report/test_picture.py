"""Graphs of traces as dot, GraphML and SVG."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import networkx as nx
import pytest

from chakrasim.compat import chakra_visualizer
from chakrasim.errors import InputError
from chakrasim.report.picture.files import dot_texts, graphml_texts, svg_texts
from chakrasim.report.picture.graph import MOST_NODES, Arrow, Box, Picture, picture_of
from chakrasim.trace import Trace, TraceBuilder, read_trace


def small() -> Trace:
    """A thread with an operator that launches a kernel and an all-reduce after it."""
    builder = TraceBuilder()
    host = {"is_cpu_op": True, "tid": 1}
    builder.add(1, name="[pytorch|profiler|execution_trace|thread]", type=4, attrs=host)
    builder.add(2, name="aten::linear", type=4, ctrl_deps=[1], duration_micros=5, attrs=host)
    builder.add(3, name="aten::mm", type=4, ctrl_deps=[2], data_deps=[2], duration_micros=7, attrs=host)
    builder.add(4, name='gemm<"8-8", x&y>', type=4, data_deps=[3], attrs={"is_cpu_op": False, "stream": 7})
    attrs = {"is_cpu_op": False, "stream": 20, "comm_type": 0, "comm_size": 8}
    builder.add(5, name="nccl", type=7, data_deps=[4, 99], attrs=attrs)
    return builder.build()


def big() -> Trace:
    builder = TraceBuilder()
    for number in range(2000):
        caller = [number - number % 10] if number % 10 else []
        attrs = {"is_cpu_op": True, "tid": number % 3}
        name = "AddBackward0" if not number % 20 else "aten::linear" if not number % 10 else "aten::mm"
        before = [number - 1] if number else []
        builder.add(number, name=name, type=4, ctrl_deps=caller, data_deps=before, duration_micros=1, attrs=attrs)
    return builder.build()


def test_every_node_and_dependency_of_a_small_trace() -> None:
    picture = picture_of(small())
    assert [(box.key, box.kind, box.duration_ns) for box in picture.boxes[1:3]] == [
        ("2", "COMP_NODE", 5000),
        ("3", "COMP_NODE", 7000),
    ]
    assert set(picture.arrows) == {
        Arrow(0, 1, "control"),
        Arrow(1, 2, "control"),
        Arrow(1, 2, "data"),
        Arrow(2, 3, "data"),
        Arrow(3, 4, "data"),
    }
    assert picture.missing == 1


def test_a_big_trace_is_summarised_by_the_outermost_operators() -> None:
    trace = big()
    assert len(trace) > MOST_NODES
    picture = picture_of(trace)
    assert [box.label for box in picture.boxes] == [
        "AddBackward\n1,000 nodes, 1 ms",
        "aten::linear\n1,000 nodes, 1 ms",
    ]
    assert {(a.source, a.target, a.kind, a.count) for a in picture.arrows} == {(0, 1, "data", 100), (1, 0, "data", 99)}
    assert len(picture_of(trace, "none").boxes) == 2000
    assert [box.label.split("\n")[0] for box in picture_of(trace, "stream").boxes] == [
        "thread 0",
        "thread 1",
        "thread 2",
    ]


def test_a_million_nodes_are_sorted_by_stream_in_one_pass(tmp_path: Path) -> None:
    (tmp_path / "empty.et").write_bytes(b"\0" + b"\2\x08\0" * ((1 << 20) - 1))  # each node of its number alone
    (box,) = picture_of(read_trace(tmp_path / "empty.et"), "stream").boxes
    assert (box.label.split("\n")[0], box.nodes) == ("device", (1 << 20) - 1)


def test_kernels_belong_to_the_operator_that_launched_them() -> None:
    picture = picture_of(small(), "module")
    assert [(box.label.split("\n")[0], box.nodes) for box in picture.boxes] == [
        ("[pytorch|profiler|execution_trace|thread]", 1),
        ("aten::linear", 4),
    ]
    assert [box.label.split("\n")[0] for box in picture_of(small(), "stream").boxes] == [
        "thread 1",
        "stream 7",
        "stream 20",
    ]


def test_graphml_keeps_both_kinds_of_dependency() -> None:
    graph = nx.read_graphml(io.BytesIO("".join(graphml_texts(picture_of(small()))).encode()))
    assert graph.is_multigraph() and len(graph) == 5
    assert graph.nodes["4"]["label"] == 'gemm<"8-8", x&y>'
    assert sorted(data["dependency"] for data in graph["2"]["3"].values()) == ["control", "data"]


def test_compat_graphml_keeps_one_kind_and_names_unknown_nodes() -> None:
    graph = nx.read_graphml(io.BytesIO("".join(chakra_visualizer.graphml_texts(small())).encode()))
    assert not graph.is_multigraph()
    assert graph.nodes["99"] == {} and graph.nodes["2"] == {"label": "aten::linear"}
    assert {pair: data["dependency"] for *pair_, data in graph.edges(data=True) for pair in [tuple(pair_)]} == {
        ("1", "2"): "control",
        ("2", "3"): "control",
        ("3", "4"): "data",
        ("4", "5"): "data",
        ("99", "5"): "data",
    }


def test_compat_dot_quotes_labels_as_the_reference() -> None:
    text = "".join(chakra_visualizer.dot_texts(small()))
    assert '\t1 [label="\\[pytorch\\|profiler\\|execution_trace\\|thread\\]" id=1 shape=record]\n' in text
    assert '\t4 [label="gemm\\<\\"8\\-8\\", x\\&y\\>" id=4 shape=record]\n' in text
    assert "\t2 -> 3 [arrowhead=normal]\n\t2 -> 3 [arrowhead=tee]\n" in text


def test_dot_is_quoted() -> None:
    text = "".join(dot_texts(picture_of(small())))
    assert text.startswith("digraph trace {") and text.endswith("}\n")
    assert '"4" [label="gemm<\\"8-8\\", x&y>" fillcolor="#d9e8f5" tooltip="COMP_NODE"]' in text
    assert '"2" -> "3" [tooltip=control style=dashed color="#888888"]' in text


def test_svg_has_a_box_a_node_and_layers_go_down() -> None:
    text = "".join(svg_texts(picture_of(small())))
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    boxes = [group.find(f"{space}rect") for group in root.findall(f"{space}g")]
    heights = [int(box.attrib["y"]) for box in boxes if box is not None]
    assert len(heights) == 5 and heights == sorted(set(heights))
    assert len(root.findall(f"{space}path")) == 5


def test_circles_of_groups_are_drawn() -> None:
    boxes = tuple(Box(str(n), f"b{n}", "COMP_NODE", 1, 0) for n in range(4))
    arrows = tuple(Arrow(a, b, "data") for a, b in ((0, 1), (1, 2), (2, 1), (2, 3), (3, 3)))
    assert ElementTree.fromstring("".join(svg_texts(Picture(boxes, arrows))))


def test_pictures_that_nobody_can_look_at_are_refused() -> None:
    boxes = tuple(Box(str(n), "b", "COMP_NODE", 1, 0) for n in range(3001))
    with pytest.raises(InputError, match="the graph is too big for a picture; found 3,001 nodes"):
        list(svg_texts(Picture(boxes, ())))


def test_names_with_control_characters() -> None:
    builder = TraceBuilder()
    builder.add(1, name="a\x00\x1bb", type=4)
    trace = builder.build()
    for texts in (
        graphml_texts(picture_of(trace)),
        svg_texts(picture_of(trace)),
        chakra_visualizer.graphml_texts(trace),
    ):
        assert ElementTree.fromstring("".join(texts).encode())


def step() -> Trace:
    """Two layers forward and backward, a hundred operators in each, and the optimizer."""
    builder = TraceBuilder()
    parts = [("layer 0", "forward"), ("layer 1", "forward"), ("layer 1", "backward"), ("layer 0", "backward")]
    for number in range(600):
        module, phase = parts[number // 150]
        attrs = {"is_cpu_op": False, "phase": phase, "op_kind": "gemm"}
        name = f"{module} {phase}: product" if number % 3 else f"product {number}"
        builder.add(number, name=name, type=4, data_deps=[number - 1] if number else [], attrs=attrs)
    attrs = {"is_cpu_op": False, "phase": "backward", "comm_type": 0, "comm_size": 8, "pg_name": "dp"}
    builder.add(600, name="gradients", type=7, data_deps=[599, 0], attrs=attrs)
    return builder.build()


def test_a_step_is_summarised_by_phase_and_module_whatever_its_number() -> None:
    picture = picture_of(step())
    labels = [box.label.split("\n") for box in picture.boxes]
    assert labels == [
        ["forward: gemm", "100 nodes, 0 ns"],
        ["forward: layer #", "200 nodes, 0 ns"],
        ["backward: gemm", "100 nodes, 0 ns"],
        ["backward: layer #", "200 nodes, 0 ns"],
        ["backward: collectives of dp", "1 node, 0 ns"],
    ]
    assert sorted((arrow.source, arrow.target) for arrow in picture.arrows) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert picture.weaker == 3


def test_of_operators_whose_arrows_cross_the_strongest_into_each_is_drawn() -> None:
    builder = TraceBuilder()
    for number in range(600):
        earlier = sorted({number - 1, number // 2, number // 3}) if number else []
        name = f"aten::op{'abcdef'[number // 100]}"
        builder.add(number, name=name, type=4, data_deps=earlier, attrs={"is_cpu_op": True})
    picture = picture_of(builder.build(), "module")
    assert sorted((arrow.source, arrow.target) for arrow in picture.arrows) == [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    assert picture.weaker > 0
