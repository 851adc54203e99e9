"""Jobs of other makers' formats: told apart by content, read without loss, refused with place and remedy."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from foreign_texts import AICB, HEADER, NAMES, SIMAI, count_aicb, count_goal, count_simai, goal

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.files import job_formats as kinds
from chakrasim.notes import Notes
from chakrasim.trace import Job, NodeType
from chakrasim.trace.foreign.goal import STARTS
from chakrasim.trace.foreign.read import read_foreign
from chakrasim.trace.kinds import OPERATION_NAMES
from chakrasim.trace.work import COMPUTE_NS


def job_of(tmp_path: Path, text: str, ranks: int | None = None, notes: Notes | None = None) -> Job:
    path = tmp_path / "job"
    path.write_text(text)
    return read_foreign(path, ranks=ranks, notes=notes)


def refusal(tmp_path: Path, text: str, ranks: int | None = None) -> str:
    with pytest.raises(InputError) as caught:
        job_of(tmp_path, text, ranks)
    return str(caught.value)


def test_formats_are_told_apart_by_content() -> None:
    micro = b"MICRO\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n"
    early = HEADER.split(" ep:")[0].encode() + b" checkpoints: 0 checkpoint_initiates: 0\n1\n"
    cases = {
        goal(0).encode(): kinds.GOAL,
        b"// a comment\n/* and\n another */ num_ranks 2\nrank 0 {\n}": kinds.GOAL,
        SIMAI.encode(): kinds.SIMAI,
        early: kinds.EARLY,
        AICB.encode(): kinds.AICB,
        f"{NAMES}\n".encode(): kinds.AICB,
        micro: kinds.TEXT,
    }
    assert {text: kinds.kind_of(text) for text in cases} == cases
    for other in (b"", b"{}", b'{"traceEvents": []}', b"MICRO", b"rank", b"num_ranks: 4\n", b"[rank0]\n", b"\xff\xfe"):
        assert kinds.kind_of(other) == "", other


@pytest.mark.parametrize("seed", range(12))
def test_goal_is_read_as_an_independent_count_has_it(tmp_path: Path, seed: int) -> None:
    text = goal(seed)
    job = job_of(tmp_path, text)
    found: Counter[str] = Counter()
    for trace in (job.traces[which] for which in job.trace_of_rank):
        send, receive = (trace.types == int(kind) for kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))
        found["send"] += int(send.sum())
        found["recv"] += int(receive.sum())
        found["calc"] += int((~send & ~receive).sum())
        found["requires"] += len(trace.data_deps.targets)
        starts = trace.attr(STARTS)
        found["irequires"] += sum(len(starts.list(node)) for node in range(len(trace)))
        found["bytes"] += int(trace.attr("comm_size").integers(0)[send].sum())
        found["ns"] += int(trace.attr(COMPUTE_NS).integers(0).sum())
    assert +found == +count_goal(text)


def test_goal_runs_to_the_nanosecond(tmp_path: Path) -> None:
    text = "num_ranks 2\nrank 0 { a: calc 1234; s: send 1000b to 1 tag 3\ns requires a }\n"
    text += "rank 1 {\nr: recv 1000b from 0 tag 3\nb: calc 7 cpu 0\nz: calc 0\nb requires z\nz requires r\n}\n"
    path = tmp_path / "two.goal"
    path.write_text(text)
    machine = {
        "format": 1,
        "name": "two",
        "network": [{"topology": "FullyConnected", "npus": 2, "bandwidth": "1 GB/s", "latency": "500 ns"}],
        "memory": {"bandwidth": "1 GB/s"},
        "collectives": {"splits": 1, "active-chunks": 1, "endpoint-delay": "0 ns", "optimization": "baseline",
                        "scheduling": "LIFO", "algorithms": {"all-reduce": "ring", "all-gather": "ring",
                        "reduce-scatter": "ring", "all-to-all": "ring"}},
    }  # fmt: skip
    assert cs.simulate(path, machine=machine).finish_ns.tolist() == [1234 + 1500, 1234 + 1500 + 7]


def test_dependencies_on_beginnings_are_kept_and_inherited(tmp_path: Path) -> None:
    notes = Notes()
    text = "num_ranks 1\nrank 0 {\nc irequires b\nb requires a\nc: calc 3\nb: calc 2\na: calc 1\n}"
    (trace,) = job_of(tmp_path, text, notes=notes).traces
    assert [trace.name(node) for node in range(3)] == ["a", "b", "c"]
    assert [deps.tolist() for deps in (trace.data_deps[2], trace.ctrl_deps[2])] == [[], [0]]
    assert trace.attr(STARTS).list(2) == [1]
    assert "irequires" in notes.warnings[0]


def test_large_tags_are_numbered_anew(tmp_path: Path) -> None:
    notes = Notes()
    text = "num_ranks 2\nrank 0 {\nsend 1b to 1 tag 4000000000\n}\nrank 1 {\nrecv 1b from 0 tag 4000000000\n}"
    job = job_of(tmp_path, text, notes=notes)
    assert [trace.attr("comm_tag").integers().tolist() for trace in job.traces] == [[0], [0]]
    assert "tags" in notes.warnings[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_ranks 1\nrank 0 {\ncalc 1\n", "line 3"),
        ("num_ranks 1\nrank 1 {\n}", "from 0 to 0"),
        ("num_ranks 0\nrank 0 {\n}", "1 to 1048576"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "each rank once"),
        ("num_ranks 2\nrank 0 {\nrecv 1b from -1 tag 0\n}", "any source"),
        ("num_ranks 2\nrank 0 {\nsend 1b from 1\n}", "line 3"),
        ("num_ranks 2\nrank 0 {\nsend 1b to 2 tag 0\n}", "from 0 to 1"),
        ("num_ranks 1\nrank 0 {\na: calc 1\na: calc 2\n}", "twice"),
        ("num_ranks 1\nrank 0 {\na: calc 1\nb requires a\n}", "no operation"),
        ("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\nb requires a\na irequires b\n}", "circle"),
        ("num_ranks 1\nrank 0 {\ncalc 99999999999999999999\n}", "2^62"),
        ("num_ranks 1\nrank 0 { /* open\n}", "not closed"),
    ],
)
def test_wrong_goal_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


def test_simai_is_read_as_an_independent_count_has_it(tmp_path: Path) -> None:
    notes = Notes()
    job = job_of(tmp_path, SIMAI, notes=notes)
    (trace,) = job.traces
    said = count_simai(SIMAI)
    computing = trace.types == int(NodeType.COMP_NODE)
    assert int(computing.sum()) == 3 * said["rows"]
    assert int(trace.attr(COMPUTE_NS).integers(0).sum()) == said["ns"]
    names = Counter(re.split("_(?:fwd|ig|wg)_", trace.name(node))[1] for node in np.flatnonzero(~computing).tolist())
    assert names == {name: count for name, count in said.items() if name not in ("rows", "ns", "BROADCAST")}
    assert {role: (len(groups), len(groups[0])) for role, groups in job.process_groups.items()} == {
        "tp": (16, 2), "dp": (4, 8), "ep": (16, 2), "dp_ep": (8, 4), "pp": (16, 2),
    }  # fmt: skip
    assert job.process_groups["ep"][0] == (0, 2) and job.process_groups["dp_ep"][0] == (0, 4, 8, 12)
    said_all = " ".join(notes.warnings)
    for what in ("pp_comm, 4,096 bytes", "BROADCAST", "0 bytes: 1", "column 12"):
        assert what in said_all


def test_simai_sizes_of_gathers_are_those_of_results(tmp_path: Path) -> None:
    (trace,) = job_of(tmp_path, SIMAI).traces
    gathers = np.flatnonzero(trace.attr("stated_bytes").present)
    stated = trace.attr("stated_bytes").integers(0)[gathers]
    given = trace.attr("comm_size").integers(0)[gathers]
    assert dict(zip(stated.tolist(), given.tolist(), strict=True)) == {503316: 251658, 201326: 100663, 28078: 3510}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("all_gpus: 32", "all_gpus: 33"), "do not divide"),
        (("all_gpus: 32", "cp: 32"), "unknown"),
        (("ALLTOALL_EP", "ALLTOALL_XP"), "collective"),
        (("622731", "-5"), "column 3"),
        (("\t100\n", "\n"), "wrong columns"),
        (("model_parallel_NPU_group: 2", "model_parallel_NPU_group: x"), "word 2"),
    ],
)
def test_wrong_simai_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert said in refusal(tmp_path, SIMAI.replace(*change))


def test_ranks_that_a_file_does_not_name_are_asked_for(tmp_path: Path) -> None:
    early = SIMAI.replace(HEADER, HEADER.split(" ep:")[0])
    table = AICB.split("\n", 1)[1].split("[", 1)[0].replace(",4,", ",8,").replace("send_next", "")
    table = "\n".join(line for line in table.splitlines() if "isend" not in line)
    for text in (early, table):
        assert "--ranks" in refusal(tmp_path, text)
        assert job_of(tmp_path, text, 16).ranks == 16


def test_aicb_is_read_as_an_independent_count_has_it(tmp_path: Path) -> None:
    job = job_of(tmp_path, AICB)
    found: Counter[str] = Counter()
    for trace in job.traces:
        kinds_of = trace.attr("comm_type").integers(-1)
        for node, kind in enumerate(trace.types.tolist()):
            other = {4: "computation", 5: "isend", 6: "irecv", 1: "epoch_end"}
            found[other.get(kind) or OPERATION_NAMES[int(kinds_of[node])]] += 1
    assert found == count_aicb(AICB)
    assert job.process_groups["pp"][3] == (3, 11) and job.process_groups["dp"][1] == (1, 3, 5, 7)
    first = job.traces[0]
    assert first.attr("duration_ns").integers(0)[0] == 3_380_000 and first.attr("stage").string(0) == "init"
    result = cs.simulate(job, machine=cs.load_machine("hgx-h100-16"))
    assert int(result.finish_ns.min()) > 1_500_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("CommType.barrier", "CommType.barrel"), "unknown"),
        (("tp_group,2", "tp_group,3"), "two sizes"),
        (("send_next", "send_prev"), "other side"),
        (("rank15", "rank16"), "missing"),
        (("rank15", "rank3"), "two parts"),
        (("3.38", "nan"), "elapsed"),
        (("msg_size,stage", "size,stage"), "msg_size"),
    ],
)
def test_wrong_aicb_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert said in refusal(tmp_path, AICB.replace(change[0], change[1], 1))


def test_other_files_have_no_kind(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("HYBRID")
    assert kinds.foreign_kind(path) == kinds.foreign_kind(tmp_path) == kinds.foreign_kind(tmp_path / "none") == ""
