"""Jobs written for ASTRA-sim, by its rules, and as tables of nodes, read back by pyarrow."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.exchange.astra_sim import astra_sim_job
from chakrasim.exchange.parquet import parquet_bytes
from chakrasim.generator.transformer import transformer_job
from chakrasim.machine import load_device
from chakrasim.notes import Notes
from chakrasim.trace import CollectiveType, Job, NodeType, TraceBuilder, read, write_job

SPEC: dict[str, Any] = {
    "model": {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 1024, "sequence": 256},
    "parallel": {"dp": 2, "tp": 2, "pp": 2},
    "batch": {"micro_batches": 2},
}


def _job() -> Job:
    builder = TraceBuilder(metadata={"rank": 0})
    builder.add(0, "start", NodeType.METADATA_NODE)
    builder.add(1, "work", data_deps=[0], duration_micros=2, attrs={"compute_ns": 1700, "share": 0.5, "wide": 1 << 63})
    attrs = {"comm_type": CollectiveType.BARRIER, "comm_size": 1, "pg_name": "all", "mixed": "a", "comm_parts": [1, 2]}
    builder.add(2, "barrier", NodeType.COMM_COLL_NODE, [1], [0], attrs=attrs)
    builder.add(3, "last", data_deps=[2], duration_micros=5, attrs={"mixed": 7, "on": True}, inputs={"values": "[1]"})
    return Job((builder.build(),), np.zeros(2, np.int64), {"all": ((0, 1),)})


def test_what_astra_sim_reads(tmp_path: Path) -> None:
    prefix, out = tmp_path / "step", tmp_path / "astra"
    job = transformer_job(SPEC)
    write_job(prefix, job)
    assert (
        main(["convert", str(prefix), "--to", "astra-sim", "-o", str(out), "--device-profile", "h100", "--quiet"]) == 0
    )
    groups = json.loads((tmp_path / "astra.comm_group.json").read_text())
    assert "0" not in groups and all(set(members) <= set(range(8)) for members in groups.values())
    assert sorted(path.name for path in tmp_path.glob("astra.*.et")) == [f"astra.{rank}.et" for rank in range(8)]
    profile, exact = load_device("h100"), 0
    for rank, trace in enumerate(read(out)):
        for at in range(len(trace)):
            node = trace.node(at)
            if node.type == NodeType.COMM_COLL_NODE:
                assert rank in groups[node.attrs["pg_name"]] and {"comm_type", "comm_size"} <= set(node.attrs)
            elif node.type in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
                ends = node.attrs["comm_src"], node.attrs["comm_dst"]
                assert ends[node.type == NodeType.COMM_RECV_NODE] == rank and max(ends) < 8
                assert {"comm_size", "comm_tag"} <= set(node.attrs)
            else:
                assert node.type == NodeType.COMP_NODE and node.attrs["is_cpu_op"] is False
        exact += int(trace.duration_micros.sum())
    assert exact > 0
    notes = Notes()
    converted = astra_sim_job(job, profile=profile, notes=notes)
    assert sum(int(converted.traces[which].duration_micros.sum()) for which in job.trace_of_rank.tolist()) == exact
    assert len(notes) == 1 and "ASTRA-sim counts whole microseconds: " in notes.warnings[0]


def test_what_astra_sim_does_not_run_is_told() -> None:
    notes = Notes()
    trace = astra_sim_job(_job(), notes=notes).traces[0]
    assert trace.ids.tolist() == [1, 2, 3] and trace.duration_micros.tolist() == [2, 0, 5]
    assert [trace.node(at).data_deps for at in range(3)] == [(), (1,), (2,)] and not len(trace.ctrl_deps[1])
    assert trace.node(1).attrs["comm_parts"] == [1, 2] and trace.node(2).attrs == {"mixed": 7, "on": True}
    assert notes.warnings == (
        "ASTRA-sim counts whole microseconds: 2 computations are rounded, 600 ns in all, over all ranks",
        "2 metadata nodes are left out, over all ranks: what waits for one waits for what it waits for",
        "ASTRA-sim does not run 2 collectives of type barrier, over all ranks",
    )


def test_what_waits_for_metadata_waits_for_what_is_behind() -> None:
    builder, kind = TraceBuilder(metadata={"rank": 0}), NodeType.METADATA_NODE
    for number in (10, 11):
        builder.add(number, "work", duration_micros=1)
    builder.add(4, "inner", NodeType.INVALID_NODE, [10], [11])
    builder.add(3, "outer", kind, [4])
    builder.add(5, "alone", kind)
    attrs = {"comm_type": CollectiveType.BROADCAST, "comm_size": 8}
    builder.add(6, "last", NodeType.COMM_COLL_NODE, [3, 10], [5, 11], attrs=attrs)
    notes = Notes()
    trace = astra_sim_job(Job((builder.build(),), np.zeros(1, np.int64)), notes=notes).traces[0]
    last = trace.node(2)
    assert trace.ids.tolist() == [10, 11, 6] and last.attrs == attrs
    assert set(last.data_deps) == {10, 11} and last.ctrl_deps == (11,)
    assert notes.warnings[1:] == ("ASTRA-sim has 1 broadcasts without a duration take 1 ns, over all ranks",)
    builder = TraceBuilder(metadata={"rank": 0})
    builder.add(0, "alone", kind)
    assert not len(astra_sim_job(Job((builder.build(),), np.zeros(1, np.int64)), notes=notes).traces[0])
    assert notes.warnings[-1] == "ASTRA-sim does not run 1 traces without work, over all ranks"


def test_one_computation_without_a_time_leaves_the_others_theirs() -> None:
    builder = TraceBuilder(metadata={"rank": 0})
    builder.add(0, "stated", attrs={"compute_ns": 4000})
    builder.add(1, "whole", duration_micros=3)
    builder.add(2, "work", attrs={"num_ops": 1000, "tensor_size": 10})
    notes = Notes()
    trace = astra_sim_job(Job((builder.build(),), np.zeros(2, np.int64)), notes=notes).traces[0]
    assert trace.duration_micros.tolist() == [4, 3, 0]
    assert notes.warnings == ("2 computations have no time, over all ranks: ASTRA-sim's roofline has to time them",)


def test_numbers_that_no_integer_column_holds_are_text(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    builder, wide = TraceBuilder(metadata={"rank": 0}), (1 << 63) + 5
    builder.add(0, "low", attrs={"both": -1, "low": -1, "high": 5})
    builder.add(1, "high", attrs={"both": wide, "low": 2, "high": wide})
    (tmp_path / "t.parquet").write_bytes(parquet_bytes(Job((builder.build(),), np.zeros(1, np.int64))))
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["attr.both"].to_pylist() == ["-1", str(wide)]
    assert table["attr.low"].to_pylist() == [-1, 2] and table["attr.high"].to_pylist() == [5, wide]


def test_nodes_as_a_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    few = {**SPEC, "model": {**SPEC["model"], "layers": 1}, "batch": {}, "parallel": {"dp": 2, "tp": 2}}
    for number, job in enumerate((_job(), transformer_job(few))):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(parquet_bytes(job))
        table = parquet.read_table(path)
        said = json.loads(table.schema.metadata[b"chakrasim"])
        assert said["format"] == "chakrasim-nodes/1" and said["trace_of_rank"] == job.trace_of_rank.tolist()
        rows, at = table.to_pylist(), 0
        for which, trace in enumerate(job.traces):
            ranks = np.flatnonzero(job.trace_of_rank == which)
            for position in range(len(trace)):
                node, row = trace.node(position), rows[at]
                at += 1
                assert (row["trace"], row["rank"], row["ranks"]) == (which, ranks[0], len(ranks))
                assert (row["id"], row["name"], row["type"]) == (node.id, node.name, node.type_name)
                assert (row["data_deps"], row["ctrl_deps"]) == (list(node.data_deps), list(node.ctrl_deps))
                assert (row["start_us"], row["duration_us"]) == (node.start_micros, node.duration_micros)
                found = {
                    name[5:]: value for name, value in row.items() if name.startswith("attr.") and value is not None
                }
                for name in ("mixed", "comm_parts"):
                    if name in found:
                        found[name] = json.loads(found[name])
                assert found == node.attrs
        assert at == len(rows)
    assert table.schema.field("attr.is_cpu_op").type == "bool"
    first = parquet.read_table(tmp_path / "0.parquet")
    assert first.schema.field("attr.wide").type == "uint64" and first["inputs.values"].to_pylist() == [None] * 3 + [
        "[1]"
    ]


def test_commands_for_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    write_job(tmp_path / "j", _job())
    target = tmp_path / "nodes.parquet"
    assert main(["convert", str(tmp_path / "j"), "--to", "parquet", "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 4 nodes of 1 traces, which 2 ranks run\n"
    before = target.read_bytes()
    assert main(["convert", str(tmp_path / "j"), "--to", "parquet", "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err and target.read_bytes() == before
    assert main(["convert", str(tmp_path / "j"), "--to", "astra-sim", "-o", str(tmp_path / "j")]) == 2
    assert "--output would replace the input" in capsys.readouterr().err
    words = ["--to", "parquet", "-o", str(target), "--device-profile", "h100"]
    assert main(["convert", str(tmp_path / "j"), *words]) == 2
    assert "--device-profile cannot be used with Parquet" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "j"), "--to", "astra-sim", "-o", str(tmp_path / "a"), "--strict"]) == 2
    assert not list(tmp_path.glob("a.*"))
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [one for one in sys.modules if one.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match="writing Parquet needs pyarrow; pip install"):
        parquet_bytes(_job())
