"""Jobs of another size: groups, sizes, messages, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chakrasim import InputError, simulate
from chakrasim.cli.main import main
from chakrasim.converter.retarget.api import retarget
from chakrasim.converter.retarget.job_input import load_job
from chakrasim.trace import NodeType, Trace, encode_trace, read, write
from chakrasim.trace.job.expand import expand_job
from chakrasim.trace.job.file import read_job, write_job
from chakrasim.trace.job.job import Job
from made_jobs_chakra import Made, nodes

TP2_DP4 = {"tp": ((0, 1), (2, 3), (4, 5), (6, 7)), "dp": ((0, 2, 4, 6), (1, 3, 5, 7))}
NUMBERED = {1: (0, 1), 2: (2, 3), 3: (4, 5), 4: (6, 7), 5: (0, 2, 4, 6), 6: (1, 3, 5, 7)}
MACHINE = """
format: 1
name: switch
source: an example
network:
  - {topology: Switch, npus: NPUS, bandwidth: 10 GB/s, latency: 1 us}
collectives: {splits: 2, algorithms: {all-reduce: ring, all-gather: ring, reduce-scatter: ring, all-to-all: ring}}
"""


def shared_job() -> Job:
    """FSDP over 4, tensor parallel over 2: all ranks do the same."""
    made = Made({"world_size": 8})
    made.collective("all_gather", 3000, "dp")
    made.compute(phase="forward", num_ops=100, tensor_size=40)
    made.collective("all_reduce", 512, "tp")
    made.collective("reduce_scatter", 12000, "dp")
    made.compute("adam", phase="optimizer", num_ops=1000, tensor_size=4000, bytes_read=2000, micros=100)
    made.collective("all_reduce", 4)
    return Job((made.build(),), np.zeros(8, np.int64), TP2_DP4)


def recorded(folder: Path, ranks: int = 8) -> str:
    """A run like it, recorded: a file for each rank, groups by number."""
    traces = []
    for rank in range(ranks):
        made = Made({"world_size": ranks, "rank": rank})
        made.collective("all_gather", 3000, str(5 + rank % 2))
        made.compute(micros=10 + rank)
        made.collective("broadcast", 512, str(1 + rank // 2), root_rank=rank - rank % 2)
        made.collective("all_reduce", 8000, "0", meeting=4, meeting_ranks=8, transfer_ns=99)
        traces.append(made.build())
    prefix = str(folder / "run")
    write(prefix, traces)
    (folder / "comm_group.json").write_text(json.dumps(NUMBERED))
    return prefix


def columns(job: Job) -> list[list[tuple[object, ...]]]:
    """By rank: type, bytes and members of each collective."""
    found = []
    for rank in range(job.ranks):
        rows: list[tuple[object, ...]] = []
        for attrs in nodes(job.traces[job.trace_of_rank[rank]]):
            groups = job.process_groups.get(attrs.get("pg_name", ""), (tuple(range(job.ranks)),))
            members = next(group for group in groups if rank in group)
            rows.append((attrs["comm_type"], attrs["comm_size"], members))
        found.append(rows)
    return found


def test_data_parallel_groups_grow_and_others_are_repeated() -> None:
    made = retarget(shared_job(), 16)
    assert made.job.ranks == 16
    assert made.job.process_groups["dp"] == ((0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15))
    assert made.job.process_groups["tp"] == tuple((rank, rank + 1) for rank in range(0, 16, 2))
    assert {fate.title: (fate.grows, fate.members) for fate in made.fates} == {
        "all ranks": (True, (8, 16)),
        "dp": (True, (4, 8)),
        "tp": (False, (2, 2)),
    }


def test_sizes_follow_the_rules() -> None:
    made = retarget(shared_job(), 16)
    assert [attrs["comm_size"] for attrs in nodes(made.job.traces[0])] == [1500, 512, 12000, 4]
    compute = nodes(made.job.traces[0], NodeType.COMP_NODE)
    assert compute[0]["num_ops"] == 100
    assert {name: compute[1][name] for name in ("num_ops", "tensor_size", "bytes_read")} == {
        "num_ops": 500,
        "tensor_size": 2000,
        "bytes_read": 1000,
    }
    assert made.job.traces[0].duration_micros.tolist() == [5, 10, 5, 5, 50, 5]
    told = dict(made.assumptions)
    assert told["all-reduces keep their bytes: gradients are as large as before"] == 1
    assert told["optimizer nodes do a shard's share of their work"] == 1
    assert told["collectives of groups that stay are as recorded, in every replica"] == 1


def test_what_does_not_come_out_even_is_rounded_up_and_told() -> None:
    made = retarget(shared_job(), 64)
    assert nodes(made.job.traces[0])[0]["comm_size"] == 375
    made = retarget(shared_job(), 8 * 7)
    assert nodes(made.job.traces[0])[0]["comm_size"] == -(-3000 * 4 // 28)
    assert dict(made.assumptions)["comm_size that does not come out even is rounded up"] == 1


@pytest.mark.parametrize("between", [2, 4, 16, 32])
def test_there_and_back_is_the_same_job(between: int) -> None:
    job = retarget(shared_job(), 8).job
    back = retarget(retarget(job, between).job, 8).job
    assert columns(back) == columns(job)
    assert [trace.duration_micros.tolist() for trace in back.traces] == [[5, 10, 5, 5, 100, 5]]


def test_the_same_number_changes_nothing() -> None:
    job = shared_job()
    made = retarget(job, 8)
    assert made.job.traces == job.traces
    assert made.job.process_groups == job.process_groups
    assert made.assumptions == ()


def test_a_recorded_run_keeps_its_ranks_apart(tmp_path: Path) -> None:
    made = retarget(recorded(tmp_path), 16)
    assert len(made.job.traces) == 8
    assert made.job.trace_of_rank.tolist() == [*range(8), *range(8)]
    assert made.job.process_groups["5"] == ((0, 2, 4, 6, 8, 10, 12, 14),)
    assert made.job.process_groups["2"] == ((2, 3), (10, 11))
    whys = {fate.title: fate.why for fate in made.fates}
    assert whys["1"] == "its members are neighbours: taken as tensor-parallel or the like"
    assert whys["5"] == "its members are apart: taken as data-parallel"
    first = nodes(made.job.traces[3])
    assert first[1]["root_rank"] == 0, "the position in the group"
    assert "meeting" not in first[2]
    assert made.job.traces[3].metadata["world_size"] == 16


def test_fewer_ranks_leave_out_the_others(tmp_path: Path) -> None:
    made = retarget(recorded(tmp_path), 4)
    assert len(made.job.traces) == 4
    assert made.job.process_groups == {"1": ((0, 1),), "2": ((2, 3),), "5": ((0, 2),), "6": ((1, 3),)}
    assert nodes(made.job.traces[0])[0]["comm_size"] == 6000
    assert made.assumptions[0] == ("the traces of ranks 4 to 7 are left out", 4)


def pipeline() -> list[Trace]:
    """Two stages of two data-parallel ranks each; rank 0 sends to 2, 1 to 3."""
    traces = []
    for rank in range(4):
        made = Made({"world_size": 4})
        if rank < 2:
            made.send(100, comm_src=rank, comm_dst=rank + 2)
        else:
            made.recv(100, comm_src=rank - 2, comm_dst=rank)
        made.collective("all_reduce", 4096, "1" if rank < 2 else "2")
        traces.append(made.build())
    return traces


def test_messages_stay_within_their_replica(tmp_path: Path) -> None:
    write(tmp_path / "pp", pipeline())
    (tmp_path / "pp.comm_group.json").write_text('{"1": [0, 1], "2": [2, 3]}')
    made = retarget(tmp_path / "pp", 12, grow=["1", "2"])
    assert made.job.process_groups["replica"] == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))
    expanded = expand_job(made.job)
    assert [nodes(expanded[rank], NodeType.COMM_SEND_NODE)[0]["comm_dst"] for rank in (0, 1, 4, 9)] == [2, 3, 6, 11]
    assert [nodes(expanded[rank], NodeType.COMM_RECV_NODE)[0]["comm_src"] for rank in (2, 7)] == [0, 5]
    again = retarget(made.job, 24, grow=["1", "2"])
    assert nodes(expand_job(again.job)[13], NodeType.COMM_SEND_NODE)[0]["comm_dst"] == 15
    with pytest.raises(InputError, match="no rank that stays"):
        retarget(tmp_path / "pp", 2, grow=["1", "2"])


def test_without_a_data_parallel_group_it_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "pp", pipeline())
    (tmp_path / "pp.comm_group.json").write_text('{"1": [0, 1], "2": [2, 3]}')
    with pytest.raises(InputError, match=r"no process group with collectives is data-parallel.*--grow GROUP"):
        retarget(tmp_path / "pp", 8)


def test_all_ranks_may_stay(tmp_path: Path) -> None:
    made = retarget(shared_job(), 16, keep=["0"])
    assert nodes(made.job.traces[0])[3]["pg_name"] == "replica"
    assert made.job.process_groups["replica"] == (tuple(range(8)), tuple(range(8, 16)))


@pytest.mark.parametrize(
    ("to", "more", "message"),
    [
        (12, {}, "neither a multiple nor a divisor of the trace's; found 12 for 8 ranks.*--to 8 or 16"),
        (3, {}, "--to 8, or a divisor of 8"),
        (16, {"grow": ["x"]}, "there is no process group 'x'"),
        (16, {"grow": ["tp"], "keep": ["tp"]}, "cannot both grow and stay"),
        (0, {}, "out of range"),
        (1, {}, "process group 'tp' does not fit into 1 ranks"),
    ],
)
def test_what_cannot_be_done_is_refused(to: int, more: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        retarget(shared_job(), to, **more)


def test_unknown_members_and_missing_ranks_are_refused(tmp_path: Path) -> None:
    prefix = recorded(tmp_path)
    (tmp_path / "comm_group.json").unlink()
    with pytest.raises(InputError, match=r"the members of process group '5' are not known.*--comm-group"):
        retarget(prefix, 16)
    with pytest.raises(InputError, match="names a rank without a trace; found rank 9"):
        retarget(prefix, 16, comm_group={"5": [0, 9]})
    for rank in range(1, 8):
        (tmp_path / f"run.{rank}.et").unlink()
    with pytest.raises(InputError, match=r"not all ranks of the job; found traces of 1 of 8 ranks.*trace all 8 ranks"):
        retarget(prefix, 16)


def test_one_process_is_no_data_parallel_job() -> None:
    made = Made()
    made.compute()
    with pytest.raises(
        InputError, match="record two ranks, a single one shows no data parallelism, or use chakrasim generate"
    ):
        retarget(Job((made.build(),), np.zeros(1, np.int64)), 4)


def test_a_root_outside_its_group_is_refused(tmp_path: Path) -> None:
    made = Made()
    made.collective("broadcast", 8, "1", root_rank=3)
    write(tmp_path / "x", [made.build()] * 2)
    with pytest.raises(InputError, match="root of a collective is not in its group 1"):
        load_job(tmp_path / "x", comm_group={"1": [0, 1]})


def test_the_command_writes_a_job_that_simulates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = recorded(tmp_path)
    report = tmp_path / "report.json"
    assert main(["retarget", prefix, "--to", "32", "--output", str(tmp_path / "big"), "--json", str(report)]) == 0
    text = capsys.readouterr().out
    assert "32 of 8 in" in text
    assert "its members are apart: taken as data-parallel" in text
    content = json.loads(report.read_text())
    assert (content["ranks"], content["traces"], len(content["files"])) == (32, 8, 9)
    assert {"what", "nodes"} == set(content["assumptions"][0])
    machine = tmp_path / "machine.yaml"
    machine.write_text(MACHINE.replace("NPUS", "32"))
    shared = simulate(read_job(tmp_path / "big"), machine=machine)
    assert main(["retarget", prefix, "--to", "32", "-o", str(tmp_path / "wide"), "--expand", "--quiet"]) == 0
    groups = tmp_path / "wide.comm_group.json"
    wide = simulate(str(tmp_path / "wide"), machine=machine, comm_groups=str(groups))
    assert shared.finish_ns.tolist() == wide.finish_ns.tolist()
    assert max(shared.finish_ns) > 0


def test_the_command_never_replaces_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = recorded(tmp_path)
    assert main(["retarget", prefix, "--to", "16", "--output", prefix]) == 2
    assert "--output would replace the input" in capsys.readouterr().err


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    prefix = recorded(tmp_path)
    first, second = (retarget(prefix, 16).job.traces for _ in range(2))
    assert [encode_trace(trace) for trace in first] == [encode_trace(trace) for trace in second]
    write_job(tmp_path / "job", retarget(prefix, 16).job)
    assert len(read(tmp_path / "job")) == 16


def test_a_recorded_dlrm_grows(shared_dir: Path, tmp_path: Path) -> None:
    import tarfile

    import chakrasim

    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / "in", filter="data")
    chakrasim.trace_directory(tmp_path / "in", tmp_path / "out")
    made = retarget(tmp_path / "out" / "chakra", 16)
    assert dict(made.assumptions) == {
        "all-reduces keep their bytes: gradients are as large as before": 24,
        "all-to-alls keep the bytes of a rank: they are cut into more or fewer parts": 40,
        "compute nodes keep their work: each rank's batch stays, the global one changes": 33277,
        "meetings and transfer times of the recorded run are left out": 64,
    }
    machine = tmp_path / "machine.yaml"
    machine.write_text(MACHINE.replace("NPUS", "16"))
    result = simulate(made.job, machine=machine)
    assert len(result.finish_ns) == 16


@pytest.mark.parametrize("parallel", ["tp: 2, pp: 2", "tp: 2, pp: 1, zero: 3"])
def test_a_generated_job_becomes_the_one_generated_larger(parallel: str, tmp_path: Path) -> None:
    """Twice the replicas and twice the global batch: every node has the work, bytes and role of the larger job's."""
    for replicas in (2, 4):
        spec = tmp_path / f"{replicas}.yaml"
        sizes = "{layers: 4, hidden: 256, heads: 8, vocabulary: 1024, sequence: 128}"
        batch = f"{{global_batch: {4 * replicas}, micro_batch: 1}}"
        spec.write_text(f"model: {sizes}\nparallel: {{dp: {replicas}, {parallel}}}\nbatch: {batch}\n")
        words = ["generate", "transformer", "--spec", str(spec), "--output", str(tmp_path / f"dp{replicas}")]
        assert main([*words, "--quiet"]) == 0
    larger = read_job(tmp_path / "dp4")
    made = retarget(tmp_path / "dp2", larger.ranks).job
    assert len(made.traces) == len(larger.traces)
    for one, other in zip(made.traces, larger.traces, strict=True):
        assert [one.node(at) for at in range(len(one))] == [other.node(at) for at in range(len(other))]
    assert {role: len(groups) for role, groups in made.process_groups.items()} == {
        role: len(groups) for role, groups in larger.process_groups.items()
    }


def test_names_tell_what_grows() -> None:
    named = {
        "dp_replicate": True,
        "expert_dp": True,
        "data_parallel": True,
        "mesh_fsdp": True,
        "expert_parallel": False,
        "tensor": False,
        "embedding": False,
        "tp0": False,
    }
    made = Made()
    for name in named:
        made.collective("all_reduce", 64, name)
    job = Job((made.build(),), np.zeros(4, np.int64), dict.fromkeys(named, ((0, 2), (1, 3))))
    assert {fate.title: fate.grows for fate in retarget(job, 8).fates} == named


def test_one_replica_on_all_ranks_is_no_data_parallel_group() -> None:
    """Tensor parallel over all ranks, and FSDP groups of one member each: what all ranks do together is no gradient."""
    made = Made()
    made.collective("all_reduce", 64)
    alone = tuple((rank,) for rank in range(4))
    job = Job((made.build(),), np.zeros(4, np.int64), {"fsdp": alone})
    with pytest.raises(
        InputError, match=r"all ranks \(groups fsdp have one member.*--grow GROUP.*record more than one"
    ):
        retarget(job, 8)
    assert retarget(job, 8, grow=["0"]).fates[0].grows
