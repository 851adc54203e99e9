"""Master traces: all ranks in one, and back, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim import InputError, Trace, TraceBuilder
from chakrasim.cli.main import main
from chakrasim.converter.master import merge_traces, split_trace
from chakrasim.trace import encode_trace, read, read_trace, write
from same_content import same_content

NAMES = st.sampled_from(["", "rank", "num_ops", "is_cpu_op", "0/rank", "schema", "näme"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.lists(st.text(max_size=3), max_size=3),
    st.lists(st.binary(max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(0, 9), max_size=3),
    st.builds(lambda x: {"sint32_list": x}, st.lists(st.integers(-9, 9), max_size=3)),
)
ATTRS = st.dictionaries(NAMES, VALUES, max_size=3)
IDS = st.one_of(st.integers(0, 20), st.integers(2**64 - 3, 2**64 - 1))
PORTS = st.none() | st.dictionaries(st.sampled_from(["values", "shapes", "types"]), st.text(max_size=3))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    builder = TraceBuilder(version=draw(st.sampled_from(["", "1.0.0"])), metadata=draw(ATTRS))
    for node in draw(st.lists(IDS, unique=True, max_size=6)):
        builder.add(
            node,
            name=draw(st.text(max_size=3)),
            type=draw(st.integers(0, 9)),
            data_deps=draw(st.lists(IDS, max_size=3)),
            ctrl_deps=draw(st.lists(IDS, max_size=2)),
            duration_micros=draw(st.integers(0, 9)),
            start_micros=draw(st.integers(0, 9)),
            attrs=draw(ATTRS),
            inputs=draw(PORTS),
            outputs=draw(PORTS),
        )
    return builder.build()


@settings(max_examples=150)
@given(st.lists(traces(), max_size=4))
@pytest.mark.slow
def test_splitting_a_merged_trace_gives_the_same_bytes(ranks: list[Trace]) -> None:
    master = merge_traces(ranks)
    again = split_trace(master)
    assert [encode_trace(trace) for trace in again] == [encode_trace(trace) for trace in ranks]
    assert encode_trace(merge_traces(again)) == encode_trace(master)


def step(rank: int) -> Trace:
    builder = TraceBuilder(metadata={"schema": "made", "rank": rank})
    builder.add(4, "load", attrs={"is_cpu_op": True})
    builder.add(7, "all-reduce", type=7, data_deps=[4], attrs={"comm_type": 0, "comm_size": 10 + rank})
    return builder.build()


def test_a_master_trace_has_distinct_ids_and_says_the_rank_of_every_node() -> None:
    master = merge_traces([step(0), step(1)])
    nodes = [master.node(at) for at in range(len(master))]
    assert [node.id for node in nodes] == [4, 7, 12, 15]
    assert [node.data_deps for node in nodes] == [(), (4,), (), (12,)]
    assert [node.attrs["rank"] for node in nodes] == [0, 0, 1, 1]
    assert [node.attrs.get("comm_size") for node in nodes] == [None, 10, None, 11]
    assert master.metadata == {
        "schema": "chakrasim-master-1",
        "nodes": [2, 2],
        "id_offsets": [0, 8],
        "versions": ["", ""],
        "0/schema": "made",
        "0/rank": 0,
        "1/schema": "made",
        "1/rank": 1,
    }


def test_the_commands_give_back_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path / "step", [step(rank) for rank in range(11)])
    assert main(["merge", str(tmp_path / "step"), "--output", str(tmp_path / "all.et.gz")]) == 0
    assert main(["split", str(tmp_path / "all.et.gz"), "--output", str(tmp_path / "again")]) == 0
    for rank, path in enumerate(paths):
        assert (tmp_path / f"again.{rank}.et").read_bytes() == Path(path).read_bytes()
    said = capsys.readouterr().out
    assert "22 nodes of 11 ranks written to" in said
    assert main(["merge", str(tmp_path / "again"), "--output", str(tmp_path / "two.et"), "--quiet"]) == 0
    assert (tmp_path / "two.et").read_bytes() == encode_trace(read_trace(tmp_path / "all.et.gz"))
    assert capsys.readouterr().out == ""


def test_real_steps_survive(shared_dir: Path) -> None:
    ranks = read(shared_dir / "workloads" / "stage-llm16" / "w")
    again = split_trace(merge_traces(ranks))
    assert all(same_content(one, other) for one, other in zip(again, ranks, strict=True))


def test_only_a_master_trace_can_be_split() -> None:
    with pytest.raises(InputError, match=r"this is no master trace; found schema 'made'|this is no master trace"):
        split_trace(step(0))


def test_a_master_trace_that_was_changed_is_refused() -> None:
    master = merge_traces([step(0), step(1)])
    builder = TraceBuilder(metadata={**master.metadata, "id_offsets": {"uint64_list": [0, 8]}})
    builder.add(4, "load", attrs={"rank": 1})
    with pytest.raises(InputError, match=r"not those that its metadata count.*found 1 nodes"):
        split_trace(builder.build())


def test_split_does_not_replace_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "s", [step(0), step(1)])
    assert main(["merge", str(tmp_path / "s"), "--output", str(tmp_path / "m.1.et")]) == 0
    assert main(["split", str(tmp_path / "m.1.et"), "--output", str(tmp_path / "m")]) == 2
    assert "would replace an input" in capsys.readouterr().err
