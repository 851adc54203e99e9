"""Files of jobs: what is written is read back, expanded files are what other tools expect, and damage has a name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim import InputError, Job, TraceBuilder, read_job, write_job
from chakrasim.notes import Notes
from chakrasim.trace import NodeType, expand_job
from chakrasim.trace.job.file import prefixes_of, write_jobs
from chakrasim.trace.job.groups import number_groups
from chakrasim.trace.job.job import PEER
from same_content import same_content

TP = ((0, 1), (2, 3))
PP = ((0, 2), (1, 3))


def stage(number: int, **metadata: Any) -> cs.Trace:
    """Half a pipeline: an all-reduce in "tp", then a message to or from the other half."""
    builder = TraceBuilder(metadata={"rank": 2 * number, **metadata}, source=f"stage {number}")
    builder.add(0, "tp", NodeType.COMP_NODE, duration_micros=3, attrs={"is_cpu_op": False})
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "pg_name": "tp"}
    builder.add(1, "reduce", NodeType.COMM_COLL_NODE, data_deps=[0], attrs=attrs)
    message = {"is_cpu_op": False, "pg_name": "pp", PEER: 1 - number, "comm_size": 100, "comm_tag": 5}
    kind = NodeType.COMM_RECV_NODE if number else NodeType.COMM_SEND_NODE
    builder.add(2, "hand over", kind, data_deps=[1], attrs=message)
    rooted = {"is_cpu_op": False, "comm_type": 5, "comm_size": 8, "pg_name": "tp", "root_rank": 1}
    builder.add(3, "broadcast", NodeType.COMM_COLL_NODE, data_deps=[2], duration_micros=1, attrs=rooted)
    builder.add(4, "all", NodeType.COMM_COLL_NODE, data_deps=[3], attrs={**attrs, "pg_name": ""})
    return builder.build()


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "traces": (stage(0), stage(1)),
        "trace_of_rank": np.array([0, 0, 1, 1]),
        "process_groups": {"tp": TP, "pp": PP},
    }
    return Job(**{**fields, **changes})


@pytest.mark.parametrize("compress", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, compress: bool) -> None:
    written = write_job(tmp_path / "step", job(), compress=compress)
    ending = ".et.gz" if compress else ".et"
    names = [f"step.class-0{ending}", f"step.class-1{ending}", "step.ranks.json"]
    assert [os.path.basename(path) for path in written] == names == sorted(os.listdir(tmp_path))
    assert json.loads((tmp_path / "step.ranks.json").read_text()) == {
        "format": "chakrasim-ranks-1",
        "ranks": 4,
        "files": names[:2],
        "file_of_rank": [0, 0, 1, 1],
        "process_groups": {"tp": [[0, 1], [2, 3]], "pp": [[0, 2], [1, 3]]},
    }
    for prefix in (tmp_path / "step", tmp_path / "step.ranks.json"):
        back = read_job(prefix)
        assert back.process_groups == job().process_groups
        assert back.trace_of_rank.tolist() == [0, 0, 1, 1]
        assert all(same_content(a, b) for a, b in zip(back.traces, job().traces, strict=True))


def test_the_same_job_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_job(tmp_path / name / "step", job(), compress=True)
    assert all((tmp_path / "b" / path.name).read_bytes() == path.read_bytes() for path in (tmp_path / "a").iterdir())


def test_expanded_traces_name_ranks_and_numbers(tmp_path: Path) -> None:
    written = write_job(tmp_path / "step", job(), expand=True)
    assert [os.path.basename(path) for path in written] == [*(f"step.{r}.et" for r in range(4)), "step.comm_group.json"]
    groups = json.loads((tmp_path / "step.comm_group.json").read_text())
    assert groups == {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
    traces = cs.read(tmp_path / "step")
    assert [trace.metadata["rank"] for trace in traces] == [0, 1, 2, 3]
    assert [trace.node(1).attrs["pg_name"] for trace in traces] == ["1", "1", "2", "2"]
    assert [trace.node(3).attrs["root_rank"] for trace in traces] == [1, 1, 3, 3]
    assert [trace.node(4).attrs["pg_name"] for trace in traces] == [""] * 4
    assert {trace.node(0).name for trace in traces} == {"tp"}
    ends = [(t.node(2).attrs["comm_src"], t.node(2).attrs["comm_dst"], t.node(2).attrs["pg_name"]) for t in traces]
    assert ends == [(0, 2, "3"), (1, 3, "4"), (0, 2, "3"), (1, 3, "4")]
    assert all(PEER not in trace.attr_names() for trace in traces)


def test_read_gives_the_expanded_traces(tmp_path: Path) -> None:
    write_job(tmp_path / "shared", job())
    write_job(tmp_path / "apart", job(), expand=True)
    shared, apart = cs.read(tmp_path / "shared"), cs.read(tmp_path / "apart")
    assert all(same_content(a, b) for a, b in zip(shared, apart, strict=True))
    assert shared[0].ctrl_deps is shared[1].ctrl_deps and shared[0].ids is shared[1].ids
    notes = Notes()
    assert len(cs.read(tmp_path / "shared", ranks=3, notes=notes)) == 3
    assert "left out 1 ranks" in notes.warnings[0]
    with pytest.raises(InputError, match="fewer ranks than were asked for"):
        cs.read(tmp_path / "shared", ranks=5)
    with pytest.raises(InputError, match="not the number of ranks that was asked for"):
        read_job(tmp_path / "shared", ranks=5)


def test_ranks_that_do_the_same_share_an_expanded_trace() -> None:
    builder = TraceBuilder()
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1, "pg_name": "tp"}
    builder.add(0, type=NodeType.COMM_COLL_NODE, attrs=attrs)
    traces = expand_job(Job((builder.build(),), np.zeros(4, np.int64), {"tp": TP}))
    assert traces[0] is traces[1] and traces[2] is traces[3] and traces[0] is not traces[2]
    plain = Job((TraceBuilder().build(),), np.zeros(4, np.int64))
    assert len({id(trace) for trace in expand_job(plain)}) == 1


def test_numbers_that_traces_use_are_passed_over() -> None:
    builder = TraceBuilder()
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1, "pg_name": "2"}
    builder.add(0, type=NodeType.COMM_COLL_NODE, attrs=attrs)
    numbered = number_groups(job(traces=(*job().traces, builder.build())), taken=(3, 1))
    assert list(numbered.members) == [4, 5, 6, 7]
    assert numbered.of_rank["pp"].tolist() == [6, 7, 6, 7]


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path / "step", job())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    from chakrasim.trace.job import file as job_file

    made: list[int] = []

    def failing(trace: cs.Trace, ending: str) -> bytes:
        made.append(1)
        if len(made) == 2:
            raise InputError("no")
        return b"other bytes"

    monkeypatch.setattr(job_file, "_encoded", failing)
    with pytest.raises(InputError):
        write_job(tmp_path / "step", job())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(InputError, match=r"Not a directory|File exists"):
        monkeypatch.undo()
        write_job(tmp_path / "step.ranks.json" / "step", job())


@pytest.mark.parametrize("expand", [False, True])
def test_several_jobs_are_written_or_none(tmp_path: Path, expand: bool) -> None:
    prefixes = [str(tmp_path / name) for name in ("a", "b")]
    write_job(prefixes[0], job())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    wrong = job(trace_of_rank=np.array([0, 0, 1, 2]))
    with pytest.raises(InputError):
        write_jobs(prefixes, iter([job(parameters={"dp": 2}), wrong]), expand=expand)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    write_job(tmp_path / "c", job())
    written = write_jobs(prefixes, [job(), job()], expand=expand)
    assert [name for own in written for name in own] == [
        name for prefix in prefixes for name in write_job(prefix, job(), expand=expand)
    ]
    assert (tmp_path / "a.ranks.json").exists() == (not expand)
    assert (tmp_path / "c.ranks.json").exists()


def test_the_names_of_all_files_are_returned(tmp_path: Path) -> None:
    for expand in (False, True):
        for compress in (False, True):
            folder = tmp_path / f"{expand}{compress}"
            folder.mkdir()
            names = write_job(folder / "step", job(), expand=expand, compress=compress)
            assert sorted(names) == sorted(map(str, folder.iterdir()))


def test_expanding_over_a_job_removes_its_ranks_file(tmp_path: Path) -> None:
    prefix = tmp_path / "step"
    write_job(prefix, job())
    assert f"{prefix}.ranks.json" not in write_job(prefix, job(), expand=True)
    assert not os.path.exists(f"{prefix}.ranks.json")
    notes = Notes()
    write_job(prefix, job())
    read_job(prefix, notes=notes)
    assert "the traces by rank under the same prefix" in notes.warnings[0]


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "step.ranks.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


def text(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "step.ranks.json").write_text(content) and None


FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (text("{"), "the ranks file is no JSON"),
    (text("[" * 100_000), "(nested too deeply|no JSON)"),
    (text("[]"), r"not a ranks file.*at \$|\$: not a ranks file"),
    (text('{"format": 1, "format": 2}'), "a key is there twice.*'format'"),
    (damaged(lambda c: c.update(format="chakrasim-ranks-2")), r"\$.format.*chakrasim-ranks-2"),
    (damaged(lambda c: c.pop("files")), r"\$.files.*the field is missing"),
    (damaged(lambda c: c.update(ranks=True)), r"\$.ranks: not a number of ranks"),
    (damaged(lambda c: c.update(ranks=0)), r"\$.ranks: not a number of ranks"),
    (damaged(lambda c: c.update(ranks=5)), r"\$.file_of_rank: the list has the wrong length; found 4"),
    (damaged(lambda c: c.update(files=[])), r"\$.files: there are no traces"),
    (damaged(lambda c: c["files"].__setitem__(1, 7)), r"\$.files\[1\]: not a file's name"),
    (damaged(lambda c: c["files"].__setitem__(1, "../x.et")), r"\$.files\[1\]: the file is not beside"),
    (damaged(lambda c: c["files"].__setitem__(1, "/x.et")), r"\$.files\[1\]: the file is not beside"),
    (damaged(lambda c: c["files"].__setitem__(1, "x.et")), r"\$.files\[1\]: there is no such file"),
    (damaged(lambda c: c["file_of_rank"].__setitem__(2, 2)), r"\$.file_of_rank\[2\]: there is no such file; found 2"),
    (damaged(lambda c: c["file_of_rank"].__setitem__(2, -1)), r"\$.file_of_rank\[2\]: there is no such file"),
    (damaged(lambda c: c["file_of_rank"].__setitem__(2, 0.0)), r"\$.file_of_rank\[2\]: there is no such file"),
    (damaged(lambda c: c.update(process_groups=[])), r"\$.process_groups: not an object"),
    (damaged(lambda c: c["process_groups"].update(dp=3)), r"\$.process_groups.dp: not a list of groups"),
    (damaged(lambda c: c["process_groups"].update(dp=[3])), r"\$.process_groups.dp\[0\]: not a group"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0], []])), r"\$.process_groups.dp\[1\]: .*no members"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0, "1"]])), r"\$.process_groups.dp\[0\]\[1\]: not a rank"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0, True]])), r"\$.process_groups.dp\[0\]\[1\]: not a rank"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0, 4]])), r"\$.process_groups.dp\[0\]\[1\]: no such rank"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0, 10**30]])), r"\$.process_groups.dp\[0\]\[1\]: no such rank"),
    *(
        (
            damaged(lambda c, rank=rank: c["process_groups"].update(dp=[[0, rank]])),
            rf"\[1\]: no such rank; found {rank};",
        )
        for rank in (-1, -(2**62) - 1, -(2**63) - 1, -(10**30), 2**63)
    ),
    (damaged(lambda c: c["process_groups"].update(dp=[[0], [1, 0]])), r"dp\[1\]\[1\]: the rank is in group 0 of this"),
    (damaged(lambda c: c["process_groups"].update(dp=[[0, 0]])), r"dp\[0\]\[1\]: the rank is in group 0 of this"),
    (damaged(lambda c: c["process_groups"].update({"0": [[0]]})), r"\$.process_groups.0: this name stands for all"),
    (damaged(lambda c: c["process_groups"].pop("pp")), r"node 2 .*process group 'pp' is no role of the job"),
    (damaged(lambda c: c["process_groups"].update(tp=[[0, 1], [2]])), r"rank 3 runs this trace, but is in no group of"),
    (damaged(lambda c: c["process_groups"].update(pp=[[0], [2], [1, 3]])), r"'comm_peer' is no position in the group"),
    (damaged(lambda c: c["process_groups"].update(tp=[[0], [1], [2, 3]])), r"'root_rank' is no position in the group"),
    (lambda folder: (folder / "step.class-1.et").write_bytes(b"\xff\xff"), "step.class-1.et"),
    (lambda folder: (folder / "step.class-1.et").unlink(), r"\$.files\[1\]: there is no such file"),
    (lambda folder: (folder / "step.ranks.json").unlink(), "not the file that says which rank runs which"),
]


@pytest.mark.parametrize(("damage", "message"), FAULTS)
def test_faults_are_named_with_their_place(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    write_job(tmp_path / "step", job())
    damage(tmp_path)
    with pytest.raises(InputError, match=f"(?s){message}"):
        cs.read(tmp_path / "step")


def test_a_job_that_makes_no_sense_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such trace"):
        write_job(tmp_path / "step", job(trace_of_rank=np.array([0, 0, 1, 2])))
    with pytest.raises(InputError, match="not a list of traces by rank"):
        write_job(tmp_path / "step", job(trace_of_rank=np.zeros((2, 2))))
    builder = TraceBuilder()
    both = {"is_cpu_op": False, "comm_dst": 1, PEER: 1, "comm_size": 1, "comm_tag": 1, "pg_name": "tp"}
    builder.add(0, type=NodeType.COMM_SEND_NODE, attrs=both)
    with pytest.raises(InputError, match="the peer is given twice"):
        write_job(tmp_path / "step", job(traces=(builder.build(), stage(1))))
    builder = TraceBuilder()
    numbered = {"is_cpu_op": False, PEER: 1, "comm_size": 1, "comm_tag": 1, "pg_name": "7"}
    builder.add(0, type=NodeType.COMM_SEND_NODE, attrs=numbered)
    with pytest.raises(InputError, match="'7' is none"):
        write_job(tmp_path / "step", job(traces=(builder.build(), stage(1))))
    assert not list(tmp_path.iterdir())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_ranks_files_are_refused_or_read(tmp_path: Path, data: st.DataObject) -> None:
    write_job(tmp_path / "step", job())
    path = tmp_path / "step.ranks.json"
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([b"", b"7", b"-", b"]", b'"', b"\xff"]))
    path.write_bytes(raw)
    try:
        assert 1 <= len(cs.read(tmp_path / "step")) < 100
    except InputError as error:
        assert str(tmp_path) in str(error)


def test_lists_will_do_for_arrays_and_tuples() -> None:
    listed = Job(job().traces, [0, 0, 1, 1], {"tp": [[0, 1], [2, 3]], "pp": [[0, 2], [1, 3]]})  # type: ignore[arg-type, dict-item]
    assert all(same_content(a, b) for a, b in zip(expand_job(listed), expand_job(job()), strict=True))


def test_a_trace_that_no_rank_runs_is_told(tmp_path: Path) -> None:
    write_job(tmp_path / "step", job(trace_of_rank=np.array([0, 0, 0, 0])))
    notes = Notes()
    read_job(tmp_path / "step", notes=notes)
    assert "no rank runs step.class-1.et" in notes.warnings[0]


def test_a_folder_of_jobs_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path / "job", job())
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refusing(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InputError, match="closed: the folder cannot be listed: Permission denied"):
        prefixes_of(tmp_path)
