"""The test traces of the reference generator."""

from __future__ import annotations

from pathlib import Path

from chakrasim.compat.chakra_generator import Defaults, file_names, reference_set, write_reference_set
from chakrasim.trace import encode_trace, read_trace


def test_all_files_equal_those_of_the_reference(shared_dir: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / "generator"
    made = {f"{name}.et": encode_trace(trace) for name, trace in reference_set(2)}
    assert made == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert list(made) == file_names(2)


def test_ids_count_through_all_files(tmp_path: Path) -> None:
    paths = write_reference_set(tmp_path, 3)
    assert len(paths) == 14 * 3
    ids = [int(number) for path in paths for number in read_trace(path).ids]
    assert ids == list(range(16 * 3))


def test_every_kind_of_attribute_is_there(tmp_path: Path) -> None:
    name, trace = next(reference_set(1))
    attrs = trace.node(0).attrs
    assert (name, len(attrs)) == ("one_metadata_node_all_types.0", 30)
    assert (attrs["sfixed64"], attrs["bytes_list"][-1], attrs["bool_list"]) == (
        -9876543210,
        b"12354",
        [True, False] * 5,
    )
    documented = [trace.strings[int(at)] for at in trace.attrs.doc if at]
    assert documented == [
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "string")
    ]


def test_defaults_can_be_changed() -> None:
    made = {name: trace.node(0) for name, trace in reference_set(1, Defaults(7, 11, 13))}
    assert made["one_comp_node.0"].duration_micros == 7
    assert made["one_comm_send_node.0"].attrs == {"is_cpu_op": False, "tensor_size": 11}
    assert made["ALL_REDUCE.0"].attrs == {"is_cpu_op": False, "comm_type": 0, "comm_size": 13}
    assert made["BARRIER.0"].attrs["comm_size"] == 0


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    write_reference_set(tmp_path / "none", 1)
    assert len(list((tmp_path / "none").iterdir())) == 14
