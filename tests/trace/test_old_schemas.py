"""Traces of Chakra's schemas 0.0.1 to 0.0.3, against the official library reading the same bytes.

``python tests/trace/test_old_schemas.py LOW HIGH`` reads damaged ones, by seeds.
"""

from __future__ import annotations

import random
import struct
import sys
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import official
import pytest
from old_messages import CLASSES, SCHEMAS, drawn

sys.path.append(str(Path(__file__).parents[1] / "fuzz"))
from mutations import MUTATIONS, SYSTEM
from seeds import go_through

import chakrasim as cs
import chakrasim.trace as ct
from chakrasim.errors import InputError
from chakrasim.files.inputs import Bound
from chakrasim.notes import Notes
from chakrasim.trace.chakra import legacy
from chakrasim.trace.kinds import CollectiveType

DATA = Path(__file__).parents[1] / "data" / "old-schemas"
TWO_NODES = bytes.fromhex("1108001209434f4d505f4e4f4445180338051308011209434f4d505f4e4f4445180320003805")
"""twoCompNodesDependent.0.eg of Chakra's own tests at c2a4ed4 (MIT)."""


def _read(data: bytes, **options: Any) -> tuple[ct.Trace, Notes]:
    notes = Notes()
    return ct.parse_trace(data, "x.et", notes=notes, **options), notes


def _fails(data: bytes, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        _read(data, **options)
    return str(caught.value)


def _value(one: Any, schema: str) -> Any:
    """The value of an attribute by the official library: the member that is set, of those that the type names first."""
    names = CLASSES[schema].declared
    name = names[one.type]
    if name.endswith("s") and len(name) > 1:
        return [value.decode() if isinstance(value, bytes) else value for value in getattr(one, name)]
    return getattr(one, name) if one.HasField(name) else None


def _expected_first(node: Any) -> dict[str, Any]:
    classes = CLASSES["0.0.1"]
    attrs: dict[str, Any] = {}
    for field, value in node.ListFields():
        name = field.name
        if name in ("id", "name", "node_type", "parent", "simulated_run_time"):
            continue
        if name.endswith("_loc"):
            value = classes.memories[value]
        elif name == "comm_type":
            value = int(CollectiveType[classes.collectives[value]])
        elif name == "communicator_id":
            if value == 0:
                continue
            name, value = "pg_name", str(value)
        elif name == "involved_dim":
            value = list(value)
        attrs[name] = value
    if node.simulated_run_time % 1000:
        attrs["compute_ns"] = node.simulated_run_time
    return attrs


def _expected_later(node: Any, schema: str) -> dict[str, Any]:
    attrs = {one.name: _value(one, schema) for one in node.attribute}
    if "comm_type" in attrs:
        attrs["comm_type"] = int(CollectiveType[CLASSES[schema].collectives[attrs["comm_type"]]])
    attrs.pop("runtime", None)
    return attrs


def _ports(node: Any, names: Iterable[str]) -> dict[str, str] | None:
    parts = dict(zip(("values", "shapes", "types"), names, strict=True))
    if not any(node.HasField(name) for name in parts.values()):
        return None
    return {part: getattr(node, name) for part, name in parts.items()}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_field_is_what_the_official_library_reads(schema: str) -> None:
    for seed in range(25):
        meta, nodes, data = drawn(schema, seed)
        trace, notes = _read(data)
        assert len(trace) == len(nodes), seed
        assert trace.metadata == {one.name: _value(one, schema) for one in meta}
        timed = 0
        for at, node in enumerate(nodes):
            ours = trace.node(at)
            number = node.node_type if schema == "0.0.1" else node.type
            assert (ours.id, ours.name, list(ours.data_deps)) == (node.id, node.name, list(node.parent))
            assert ours.type_name.removesuffix("_NODE") == CLASSES[schema].types[number]
            if schema == "0.0.1":
                assert ours.attrs == _expected_first(node), seed
                assert ours.duration_micros == (node.simulated_run_time + 500) // 1000
                timed += node.simulated_run_time > 0
                continue
            assert ours.attrs == _expected_later(node, schema), seed
            runtime = next((one.i for one in node.attribute if one.name == "runtime"), 0)
            assert ours.duration_micros == runtime
            timed += runtime > 0
            assert ours.inputs == _ports(node, ("inputs", "input_shapes", "input_types"))
            assert ours.outputs == _ports(node, ("outputs", "output_shapes", "output_types"))
        unit = "ns, as ASTRA-sim 2.0 took them" if schema == "0.0.1" else "microseconds, as 0.0.4 has them"
        said = f"x.et: schema {schema[:5]} states no unit of run times; {timed} are taken as {unit}"
        assert (said in notes.warnings) == (timed > 0), notes
        assert f"x.et: a trace of Chakra schema {schema[:5]}; parents are taken as data dependencies" in notes.notes


def test_the_sample_of_chakras_own_tests() -> None:
    trace, _ = _read(TWO_NODES)
    assert [trace.node(at).attrs for at in (0, 1)] == [{"compute_ns": 5}, {"compute_ns": 5}]
    assert [list(trace.data_deps[at]) for at in (0, 1)] == [[], [0]]
    assert set(trace.types.tolist()) == {ct.NodeType.COMP_NODE}


def test_a_sample_of_astra_sim_is_simulated(tmp_path: Path) -> None:
    notes = Notes()
    trace = ct.read_trace(DATA / "transformer_2stack.1.eg.gz", notes=notes)
    assert notes.warnings == () and len(trace) == 142 and len(trace.data_deps.targets) == 194
    assert int((trace.types == ct.NodeType.COMM_COLL_NODE).sum()) == 40
    assert trace.node(5).attrs == {"comm_type": 2, "comm_size": 419430400, "involved_dim": [True, True, True]}
    assert trace.node(0).attrs == {"tensor_size": 838860800, "num_ops": 10}
    for rank in (0, 1):
        ct.write_trace(tmp_path / f"w.{rank}.et", trace)
    ring = {"topology": ["Ring"], "npus_count": [2], "bandwidth": [50.0], "latency": [500.0]}
    assert cs.simulate(tmp_path / "w", system=SYSTEM, network=ring).makespan_ns > 0


def test_early_traces_of_0_0_4_without_metadata_are_read_whole() -> None:
    notes = Notes()
    trace = ct.read_trace(DATA / "resnet50_DataParallel.1.et.gz", notes=notes)
    assert len(trace) == 215 and int(trace.ids[0]) == 215 and int(trace.duration_micros.sum()) == 1_082_450
    assert [text.split(": ")[1] for text in notes] == ["the nodes have no metadata before them, which read as empty"]
    node = official.Node(name="a", type=4, duration_micros=7).SerializeToString()
    assert len(_read(official.frame(node, node))[0]) == 2


def test_damage_of_traces_without_metadata_is_where_it_is() -> None:
    node = official.Node(id=1, name="a", type=4, duration_micros=7).SerializeToString()
    node = node.removeprefix(b"\x08\x01")
    data = official.frame(node, node, node)
    begin = 2 * len(official.frame(node))
    assert f"which begins at byte {begin})" in _fails(data[:-2])
    kept, notes = _read(data[:-2], lenient=True)
    assert len(kept) == 2 and f"left out the last {len(data) - 2 - begin} of {len(data) - 2} bytes" in notes.warnings[0]


def test_looking_at_a_message_of_many_fields_takes_little_memory() -> None:
    data = official.frame(b"\x18\x01" * 100_000)
    tracemalloc.start()
    assert legacy.look(data, True) == (legacy.NO_METADATA, "nodes without metadata before them")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(data)


def test_run_times_of_the_pytorch_converter_are_microseconds() -> None:
    node = CLASSES["0.0.1"].Node(id=0, name="COMP_NODE_aten::mm", node_type=3, simulated_run_time=25)
    trace, notes = _read(official.frame(node.SerializeToString()))
    assert trace.node(0).duration_micros == 25 and "compute_ns" not in trace.node(0).attrs
    assert "taken as microseconds, as the converter of PyTorch traces wrote them" in str(notes)


def _later(schema: str, type: int = 4, **values: Any) -> Any:
    node = CLASSES[schema].Node(id=1, name="n", type=type)
    node.attribute.add(name="sure", type=0, f=0.5)
    for name, value in values.items():
        kind = {int: "i", str: "s", list: "ints"}[value.__class__]
        one = node.attribute.add(name=name, type=CLASSES[schema].declared.index(kind))
        if isinstance(value, list):
            one.ints.extend(value)
        else:
            setattr(one, kind, value)
    return node


def test_names_that_changed() -> None:
    node = _later("0.0.3u", 5, src=2, dst=3, involved_dim=[1, 0])
    node.attribute.add(name="string", type=3, s="12345", doc_string="why")  # declared as int by Chakra's generator
    trace, notes = _read(official.frame(node.SerializeToString()))
    attrs = trace.node(0).attrs
    assert (attrs["comm_src"], attrs["comm_dst"], attrs["involved_dim"]) == (2, 3, [True, False])
    assert attrs["string"] == "12345" and "x.et: left out the doc_string of 1 attributes" in notes.warnings
    assert trace.attr("involved_dim").kind.tolist() == [28]


def test_what_cannot_be_known_is_refused() -> None:
    bare = CLASSES["0.0.3"].Node(id=1, name="n", type=4)
    bare.attribute.add(name="x", type=4, bools=[True])
    text = _fails(official.frame(bare.SerializeToString()))
    assert "it cannot be told which schema this trace has; found attributes of 0.0.2 and of 0.0.3 alike" in text
    mixed = official.frame(*(_later(schema).SerializeToString() for schema in ("0.0.2", "0.0.3u")))
    assert "found attributes whose numbers and types no schema has together" in _fails(mixed)
    for node, said in (
        (_later("0.0.3u", comm_type=5), "comm_type is none that the schema has; found 5; expected up to 4"),
        (_later("0.0.3u", runtime=-1), "the run time is out of range; found -1"),
        (_later("0.0.3u", runtime="5 us"), "the run time is out of range; found '5 us'"),
    ):
        assert said in _fails(official.frame(node.SerializeToString()))
    wrong = CLASSES["0.0.1"].Node(id=1, name="n", comm_tag=1).SerializeToString()
    assert "the type is none that the schema has; found 9" in _fails(official.frame(wrong + b"\x18\x09"))
    assert "a string is not valid UTF-8" in _fails(official.frame(wrong + b"\x12\x01\xff"))
    assert "takes more memory than reading this file may take" in _fails(TWO_NODES, limit=Bound(100, ""))
    undecided = official.frame(b"\x08\x01\x12\x01a", b"\x08\x02")
    assert "found a node where the metadata should be" in _fails(undecided)


def test_a_trace_that_is_cut_is_kept_as_far_as_it_goes() -> None:
    assert "the trace is damaged: the file ends in the middle of a message" in _fails(TWO_NODES[:-3])
    trace, notes = _read(TWO_NODES[:-3], lenient=True)
    assert len(trace) == 1 and "kept the 1 nodes before it" in str(notes)
    tail = CLASSES["0.0.1"].Node(id=2, name="n", comm_tag=1).SerializeToString()
    trace, notes = _read(official.frame(tail + b"\xf8\x01\x05" + b"\x35" + struct.pack("<f", 1)))
    assert len(trace) == 1 and "left out 2 fields that Chakra schema 0.0.1 does not define" in str(notes)


def _outcome(seed: int) -> str:
    """What becomes of a damaged trace: "read" or "refused"; anything but one of our errors is raised on."""
    draw = random.Random(seed)
    schema = SCHEMAS[seed % 4]
    intact = {"one": drawn(schema, seed)[2]}
    data = bytearray(intact["one"])
    for _ in range(draw.choice((1, 1, 2, 3))):
        data = draw.choice(MUTATIONS)(data, draw, intact)
    for lenient in (True, False):
        try:
            trace = _read(bytes(data), lenient=lenient)[0]
        except InputError as error:
            assert "\n" not in str(error)
            found = "refused"
        else:
            found = "read"
            ct.parse_trace(ct.encode_trace(trace))
    return found


def test_damaged_traces_never_escape() -> None:
    found = {_outcome(seed) for seed in range(40)}
    assert found == {"read", "refused"}


if __name__ == "__main__":
    go_through(_outcome)
