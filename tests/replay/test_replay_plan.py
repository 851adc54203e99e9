"""What would be run, in which order, and what is refused before anything runs. Needs no PyTorch."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from chakrasim import InputError
from chakrasim.cli.main import main
from chakrasim.demo import TRACES
from chakrasim.replay import plan_replay, replay
from chakrasim.replay.api import buffer_bytes
from chakrasim.replay.environment import launched
from chakrasim.replay.operators import topmost
from chakrasim.replay.plan import Operation, ReplayPlan
from chakrasim.replay.received import Part, received, sent
from chakrasim.replay.result import statistics
from chakrasim.trace import NodeType, Trace, TraceBuilder, write
from chakrasim.trace.job.file import write_job
from chakrasim.trace.job.job import Job
from made_jobs_chakra import Made


def job(traces: list[Trace], **groups: tuple[tuple[int, ...], ...]) -> Job:
    return Job(tuple(traces), np.arange(len(traces)), groups)


def kinds(plan: ReplayPlan, rank: int) -> list[tuple[str, int, tuple[int, ...]]]:
    """Kind, bytes and what is waited for, of each operation."""
    return [(o.kind, o.size_bytes, o.waits) for o in plan.programs[rank]]


def fates(plan: ReplayPlan) -> dict[tuple[str, str], int]:
    return {(row.what, row.why): row.count for row in plan.coverage}


def assert_order_is_safe(plan: ReplayPlan) -> None:
    """Meetings come in one order everywhere, and only earlier ones are waited for."""
    attendance: Counter[int] = Counter()
    for program in plan.programs:
        met = [o.meeting for o in program if o.meeting >= 0]
        assert met == sorted(met)
        attendance.update(met)
        for at, operation in enumerate(program):
            assert all(other < at for other in operation.waits)
    expected = {o.meeting: plan.members(r, o) for r, p in enumerate(plan.programs) for o in p if o.meeting >= 0}
    assert attendance == expected


def test_dependencies_become_waits() -> None:
    def one() -> Trace:
        made = Made()
        first = made.collective("all_reduce", 100, after=[])
        made.collective("all_gather", 50, after=[])
        made.compute(after=[first])
        made.collective("all_reduce", 8, after=[2])
        return made.build()

    plan = plan_replay(job([one(), one()]))
    assert kinds(plan, 0) == [("all_reduce", 100, ()), ("all_gather", 50, ()), ("all_reduce", 8, (0,))]
    assert fates(plan) == {
        ("all_reduce", ""): 4,
        ("all_gather", ""): 2,
        ("compute nodes", "compute is not asked for (--compute)"): 2,
    }
    assert_order_is_safe(plan)


def test_ranks_that_begin_in_another_order_do_not_wait_for_ever() -> None:
    """On rank 0, A stands before X, on rank 1 behind it, with waits between: run in the order of the traces, each rank
    would wait for the other."""
    one, two = Made(), Made()
    a = one.collective("all_reduce", 100, "a", after=[])
    one.collective("all_reduce", 4, "c", after=[a])
    one.collective("all_reduce", 200, "x", after=[])
    x = two.collective("all_reduce", 200, "x", after=[])
    two.collective("all_reduce", 4, "c", after=[x])
    two.collective("all_reduce", 100, "a", after=[])
    pair = ((0, 1),)
    plan = plan_replay(job([one.build(), two.build()], a=pair, c=pair, x=pair))
    assert_order_is_safe(plan)
    assert [operation.size_bytes for operation in plan.programs[1]][-1] == 4


def test_a_circle_is_refused() -> None:
    one, two = Made(), Made()
    one.collective("all_reduce", 100, "a")
    one.collective("all_reduce", 200, "x")
    two.collective("all_reduce", 200, "x")
    two.collective("all_reduce", 100, "a")
    pair = ((0, 1),)
    with pytest.raises(InputError, match=r"wait for each other in a circle; found ranks 0, 1: all_reduce of"):
        plan_replay(job([one.build(), two.build()], a=pair, x=pair))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([("all_reduce", 100)], "number 1: rank 1 never comes to what rank 0 does.*all_gather of 50 bytes"),
        ([("all_reduce", 100), ("all_gather", 60)], "ranks do not agree.*rank 1: all_gather of 60 bytes"),
        ([("all_gather", 50), ("all_reduce", 100)], "number 0: ranks do not agree"),
    ],
)
def test_ranks_that_do_not_agree_are_refused(other: list[tuple[str, int]], message: str) -> None:
    one, two = Made(), Made()
    for kind, size in (("all_reduce", 100), ("all_gather", 50)):
        one.collective(kind, size)
    for kind, size in other:
        two.collective(kind, size)
    with pytest.raises(InputError, match=message):
        plan_replay(job([one.build(), two.build()]))


def test_a_message_that_nobody_receives_is_refused() -> None:
    one, two = Made(), Made()
    one.send(10, comm_dst=1)
    two.compute()
    with pytest.raises(InputError, match="rank 1 never comes to what rank 0 does"):
        plan_replay(job([one.build(), two.build()]))


def test_a_send_is_not_waited_for() -> None:
    """Both ranks send before they receive, as a pipeline does with batches of messages."""
    traces = []
    for rank in range(2):
        made = Made()
        made.send(10, comm_src=rank, comm_dst=1 - rank)
        made.recv(10, comm_src=1 - rank, comm_dst=rank)
        traces.append(made.build())
    plan = plan_replay(job(traces))
    assert_order_is_safe(plan)
    assert {operation.waits for program in plan.programs for operation in program} == {()}


def pipeline(ranks: int) -> list[Trace]:
    """Each rank receives, sends on, and adds up with all; groups of two."""
    traces = []
    for rank in range(ranks):
        made = Made()
        if rank:
            made.recv(64, comm_src=rank - 1, comm_dst=rank)
        if rank + 1 < ranks:
            made.send(64, comm_src=rank, comm_dst=rank + 1)
        made.collective("reduce_scatter", 96)
        made.collective("all_to_all", 80)
        made.collective("all_gather", 12)
        made.collective("broadcast", 40, root_rank=3)
        made.collective("all_reduce", 40, "two")
        traces.append(made.build())
    return traces


def test_fewer_ranks_cut_groups_and_sizes() -> None:
    two = ((0, 2), (1, 3))
    plan = plan_replay(job(pipeline(4), two=two), 2)
    assert [(o.kind, o.size_bytes, o.peer) for o in plan.programs[0]] == [
        ("send", 64, 1),
        ("reduce_scatter", 48, -1),
        ("all_to_all", 40, -1),
        ("all_gather", 12, -1),
        ("broadcast", 40, 0),
    ]
    assert fates(plan)["send", "the other side is no live rank"] == 1
    assert fates(plan)["all_reduce", "its group has fewer than two live ranks"] == 2
    assert "ranks 0 to 1 of 4 are replayed" in plan.notes
    assert "roots that are not live, so that the first live member takes their place: 2" in plan.notes
    assert_order_is_safe(plan)


def test_more_ranks_than_the_trace_has_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"found 4 ranks in the trace, 6 asked for; give --ranks 4.*retarget .* --to 8"
    ):
        plan_replay(job(pipeline(4), two=((0, 2), (1, 3))), 6)


def test_one_trace_stands_for_all_ranks() -> None:
    made = Made({"world_size": 8})
    made.collective("reduce_scatter", 800, "5")
    made.send(10, comm_dst=3)
    plan = plan_replay(made.build(), 2, comm_group={5: [0, 2, 4, 6]})
    assert [(o.kind, o.size_bytes) for o in plan.programs[1]] == [("reduce_scatter", 400)]
    assert plan.notes[0] == "one trace stands for all 2 ranks: all of its groups are all live ranks"
    assert fates(plan)["send", "one trace stands for all ranks: messages have no other side"] == 2


def mixed() -> list[Trace]:
    """Collectives of two kinds and a message, with a compute node behind, on two ranks."""
    made = []
    for rank in range(2):
        one = Made()
        one.collective("all_reduce", 100, after=[])
        one.collective("all_gather", 50)
        one.send(8, comm_src=0, comm_dst=1) if rank == 0 else one.recv(8, comm_src=0, comm_dst=1)
        one.compute(micros=7)
        one.collective("all_reduce", 8)
        one.compute(micros=9)
        made.append(one.build())
    return made


@pytest.mark.parametrize(
    ("only", "left"),
    [
        (["all_reduce"], ["all_reduce", "all_reduce"]),
        (["allgather", "wait"], ["all_gather"]),
        (["message", "_allgather_base"], ["all_gather", "send"]),
    ],
)
def test_only_some_kinds(only: list[str], left: list[str]) -> None:
    plan = plan_replay(job(mixed()), only=only)
    assert [operation.kind for operation in plan.programs[0]] == left
    gone = sum(row.count for row in plan.coverage if row.why == "not asked for (--only)")
    assert gone == 2 * (4 - len(left))
    assert_order_is_safe(plan)


def test_kinds_that_do_not_exist_or_do_not_occur_are_refused() -> None:
    with pytest.raises(InputError, match=r"no such collective.*found 'all_red'; expected all_reduce, .*, message"):
        plan_replay(job(mixed()), only=["all_red"])
    with pytest.raises(InputError, match=r"nothing to replay; found .*; 2 all_gather: not asked for \(--only\)"):
        plan_replay(job(mixed()), only=["scatter"])


def test_the_first_operations_alone() -> None:
    plan = plan_replay(job(mixed()), first=3, compute="sleep")
    assert kinds(plan, 0) == [("all_reduce", 100, ()), ("all_gather", 50, (0,)), ("send", 8, (1,))]
    assert plan.meetings == 3
    assert fates(plan)["all_reduce", "not among the first 3 (--first)"] == 2
    assert fates(plan)["all_reduce", ""] == 2
    assert plan_replay(job(mixed()), first=100) == plan_replay(job(mixed()))


def test_uneven_all_to_alls_are_rebalanced() -> None:
    def of(*sizes: int) -> list[Trace]:
        made = []
        for size in sizes:
            one = Made()
            one.collective("all_reduce", 4, after=[])
            one.collective("all_to_all", size, dtype="float32")
            made.append(one.build())
        return made

    with pytest.raises(InputError, match="ranks do not agree"):
        plan_replay(job(of(20, 44)))
    # 5 and 11 elements: 16 in all, 8 for each, as PARAM has it.
    plan = plan_replay(job(of(20, 44)), rebalance=True)
    assert [program[1].size_bytes for program in plan.programs] == [32, 32]
    assert "all-to-alls whose sizes differed, made equal (--rebalance): 1" in plan.notes
    assert [row.size_bytes for row in plan.coverage if row.what == "all_to_all"] == [64]
    plan = plan_replay(job(of(0, 64)), rebalance=True)
    assert [program[1].size_bytes for program in plan.programs] == [32, 32]
    plan = plan_replay(job(of(0, 0)), rebalance=True)
    assert plan == plan_replay(job(of(0, 0))) and fates(plan)["all_to_all", "it moves no bytes"] == 2
    assert plan_replay(job(of(32, 32)), rebalance=True).notes == plan_replay(job(of(32, 32))).notes


def test_the_topmost_operators_that_do_not_communicate() -> None:
    made = TraceBuilder()

    def add(name: str, schema: bool, *callers: int) -> int:
        attrs = {"is_cpu_op": True} | ({"op_schema": f"{name}(Tensor self) -> Tensor"} if schema else {})
        made.add(len(names), name, int(NodeType.COMP_NODE), ctrl_deps=list(callers), attrs=attrs)
        names.append(name)
        return len(names) - 1

    names: list[str] = []
    linear = add("aten::linear", True)
    add("aten::addmm", True, linear)
    engine = add("autograd::engine", False)  # has no schema: what it calls is run
    backward = add("AddmmBackward0", False, engine)
    add("aten::mm", True, backward)
    reduce = add("custom::reduce", True)  # communicates: what else it calls is run
    add("aten::div", True, reduce)
    add("c10d::allreduce_", True, reduce)
    chosen = topmost(made.build())
    assert [name for name, one in zip(names, chosen, strict=True) if one] == ["aten::linear", "aten::mm", "aten::div"]


def test_operators_of_recorded_host_traces() -> None:
    plan = plan_replay(TRACES / "host.0.json.gz", 2, compute="operators")
    calls = [call for operation in plan.programs[0] for call in operation.calls]
    assert {call.name for call in calls} >= {"aten::conv2d", "aten::linear", "aten::convolution_backward"}
    assert not {call.name for call in calls} & {"aten::_convolution", "aten::convolution"}
    with pytest.raises(InputError, match=r"the trace holds no operators to be run.*--compute sleep"):
        plan_replay(job(mixed()), compute="operators")


def test_times_of_the_trace() -> None:
    traces = []
    for rank in range(2):
        made = TraceBuilder()
        for at, start in enumerate((1_000, 1_500 + rank)):
            attrs = {"comm_type": 0, "comm_size": 8, "is_cpu_op": False, "start_ns": start}
            made.add(at, "all_reduce", 5 + 2, attrs=attrs)
        traces.append(made.build())
    plan = plan_replay(job(traces))
    assert [[operation.start_ns for operation in program] for program in plan.programs] == [[0, 500], [0, 501]]
    with pytest.raises(InputError, match="the trace does not say when its operations began"):
        replay(job(mixed()), timestamps=True, dry_run=True)


def test_times_of_the_trace_that_would_be_waited_for_without_end() -> None:
    def of(*starts_us: int) -> Trace:
        made = TraceBuilder()
        for at, start in enumerate(starts_us):
            attrs = {"comm_type": 0, "comm_size": 8}
            made.add(at, "all_reduce", int(NodeType.COMM_COLL_NODE), attrs=attrs, start_micros=start)
        return made.build()

    # One node does not say when it began; a pause of 5 s is one.
    epoch = 1_700_000_000_000_000
    said = r"node 0: rank 0 would wait .* until all_reduce began; found 1\.7e\+09 s .*leave --timestamps out"
    with pytest.raises(InputError, match=said):
        replay(job([of(epoch, 0, epoch + 400)] * 2), timestamps=True, dry_run=True)
    late = job([of(0, 10), of(0, 5_000_000)])
    replay(late, timestamps=True, dry_run=True, timeout_s=6)
    with pytest.raises(InputError, match="rank 1 would wait"):
        replay(late, timestamps=True, dry_run=True, timeout_s=4)


def test_profiles_replace_nothing(tmp_path: Path) -> None:
    (tmp_path / "rank-1.json.gz").write_text("mine")
    with pytest.raises(InputError, match="the profile is there already"):
        replay(job(mixed()), profile=tmp_path, dry_run=True)


@pytest.mark.parametrize("members", [2, 3, 5])
def test_data_that_tell_whose_they_are(members: int) -> None:
    """Every collective, carried out with lists, gives what is expected."""
    everyone = range(members)
    for kind in (
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "gather",
        "reduce_scatter",
        "all_to_all",
        "scatter",
    ):
        operation, root = Operation(kind, group=0, peer=1), 1
        given = [sent(operation, Part(rank, members, root)) for rank in everyone]
        for rank in everyone:
            result = received(operation, Part(rank, members, root))
            at_root = rank == root
            total = [sum(parts) for parts in zip(*given, strict=True)]
            wanted = {
                "all_reduce": total,
                "reduce": total if at_root else [],
                "broadcast": given[root],
                "all_gather": [parts[0] for parts in given],
                "gather": [parts[0] for parts in given] if at_root else [],
                "reduce_scatter": total[rank : rank + 1],
                "all_to_all": [parts[rank] for parts in given] if kind == "all_to_all" else [],
                "scatter": given[root][rank : rank + 1],
            }
            assert result == wanted[kind]
    assert received(Operation("send", peer=1), Part(0, 2, 1)) == []
    assert received(Operation("recv", peer=0), Part(1, 2, 0)) == sent(Operation("send", peer=1), Part(0, 2, 1))


def test_element_types_and_padding() -> None:
    def one() -> Trace:
        made = Made()
        made.collective("all_reduce", 6, dtype="bfloat16")
        made.collective("all_reduce", 7, dtype="float32")
        made.collective("all_to_all", 7)
        made.collective("reduce_scatter", 12)
        made.collective("all_reduce", 8, dtype="float8_e4m3fn")
        made.collective("all_reduce", 0)
        return made.build()

    plan = plan_replay(job([one(), one()]))
    assert [(o.dtype, o.size_bytes) for o in plan.programs[0]] == [
        ("bfloat16", 6),
        ("uint8", 7),
        ("uint8", 8),
        ("float32", 16),
        ("float32", 8),
    ]
    assert fates(plan)["all_reduce", "it moves no bytes"] == 2
    assert "inputs that are padded to equal parts for all members: 4" in plan.notes


def test_compute_stands_between_what_it_depends_on() -> None:
    def one() -> Trace:
        made = Made()
        first = made.collective("all_reduce", 100, after=[])
        made.compute(after=[], micros=30)
        made.compute(after=[first], micros=20, m=4, n=5, k=6)
        made.compute(after=[2], micros=7, num_ops=16)
        made.collective("all_reduce", 8, after=[3])
        return made.build()

    plan = plan_replay(job([one(), one()]), compute="sleep")
    assert [(o.kind, o.duration_ns, o.waits) for o in plan.programs[0]] == [
        ("all_reduce", 0, ()),
        ("compute", 30_000, ()),
        ("compute", 27_000, (0,)),
        ("all_reduce", 0, ()),
    ]
    plan = plan_replay(job([one(), one()]), compute="matmul")
    product = plan.programs[0][2]
    assert [(p.m, p.n, p.k) for p in product.products] == [(4, 5, 6), (2, 2, 2)]
    assert product.duration_ns == 0
    assert_order_is_safe(plan)


def test_a_shared_job_is_read_from_disk(tmp_path: Path) -> None:
    made = Made()
    made.collective("all_reduce", 64, "tp")
    made.collective("broadcast", 64, "dp", root_rank=1)
    roles = {"tp": ((0, 1), (2, 3)), "dp": ((0, 2), (1, 3))}
    write_job(tmp_path / "job", Job((made.build(),), np.zeros(4, np.int64), roles))
    plan = plan_replay(tmp_path / "job")
    assert [operation.peer for operation in (program[1] for program in plan.programs)] == [2, 3, 2, 3]
    assert {group.members for group in plan.groups} == {(0, 1, 2, 3), (0, 1), (2, 3), (0, 2), (1, 3)}


def test_group_files_beside_the_traces(tmp_path: Path) -> None:
    made = [Made(), Made()]
    for one in made:
        one.collective("broadcast", 64, "7", root_rank=0)
    write(tmp_path / "run", [one.build() for one in made])
    with pytest.raises(InputError, match=r"members of process group '7' are not known.*--comm-group"):
        plan_replay(tmp_path / "run")
    (tmp_path / "comm_group.json").write_text('{"7": [1, 0]}')
    assert [program[0].peer for program in plan_replay(tmp_path / "run").programs] == [0, 0]


def test_host_traces_of_pytorch(tmp_path: Path) -> None:
    """Folder, prefix, and one file: the demo's traces."""
    from chakrasim import demo

    folder = Path(demo.__file__).parent / "traces"
    for source, count in ((folder, 6), (folder / "host", 5), (folder / "host.0.json.gz", 6)):
        plan = plan_replay(source, 2)
        reduced = [(o.kind, o.size_bytes) for o in plan.programs[1]]
        assert reduced == ([("all_reduce", 1616936), ("all_reduce", 19200)] * 3)[:count], source
    # Without its device trace, rank 2 lacks the last collective of the others.
    lost = [row for row in plan_replay(folder / "host").coverage if row.what == "communication of the recorded run"]
    assert [(row.count, "other ranks did not record" in row.why) for row in lost] == [(3, True)]


def test_host_traces_of_a_dlrm(shared_dir: Path, tmp_path: Path) -> None:
    """Schema 1.0.1, 8 ranks: all 8 collectives of each, in whole and cut to 2 ranks."""
    with tarfile.open(shared_dir / "traces" / "param" / "dlrm_pytorch_et.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    plan = plan_replay(tmp_path / "dlrm_pytorch_et")
    assert [len(program) for program in plan.programs] == [8] * 8
    assert Counter(o.kind for o in plan.programs[3]) == {"all_to_all": 5, "all_reduce": 3}
    assert_order_is_safe(plan)
    cut = plan_replay(tmp_path / "dlrm_pytorch_et", 2)
    whole, part = ([o.size_bytes for o in p.programs[0] if o.kind == "all_to_all"] for p in (plan, cut))
    assert [size // 4 for size in whole] == part


def test_a_trace_of_a_record_alone(tmp_path: Path) -> None:
    """A host trace whose records have attributes (schema 1.1.1)."""
    names = ("collective_name", "dtype", "in_msg_nelems", "out_msg_nelems", "pg_name", "pg_size")
    values = ("allreduce", "Float", 16, 16, "0", 2)
    kinds = ("string", "string", "uint64", "uint64", "string", "uint64")
    attrs = [{"name": n, "type": k, "value": v} for n, k, v in zip(names, kinds, values, strict=True)]
    base = {"inputs": {"values": [], "shapes": [], "types": []}, "outputs": {"values": [], "shapes": [], "types": []}}
    said = [{"name": n, "type": "uint64", "value": v} for n, v in (("rf_id", 1), ("tid", 1), ("seq_id", 0))]
    groups = json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], "group_size": 2}])
    document = {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 5,
        "nodes": [
            {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 0, **base, "attrs": said},
            {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, **base, "attrs": said},
            {
                "id": 3,
                "name": "## process_group:init ##",
                "ctrl_deps": 2,
                **base,
                "inputs": {"values": [groups], "shapes": [[]], "types": ["String"]},
                "attrs": said,
            },
            {"id": 4, "name": "record_param_comms", "ctrl_deps": 2, **base, "attrs": said + attrs},
        ],
    }
    for rank in range(2):
        text = json.dumps(document | {"pid": 5 + rank}).encode()
        (tmp_path / f"rank-{rank}.et.json.gz").write_bytes(gzip.compress(text))
    plan = plan_replay(tmp_path / "rank")
    assert [(o.kind, o.size_bytes, o.dtype) for o in plan.programs[1]] == [("all_reduce", 64, "float32")]


def test_a_dry_run_needs_no_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "run", pipeline(4))
    (tmp_path / "comm_group.json").write_text("{}")
    target = tmp_path / "replay.json"
    words = ["replay", str(tmp_path / "run"), "--backend", "gloo", "--ranks", "2", "--dry-run", "--json", str(target)]
    assert main(words) == 2
    assert "process group 'two' are not known" in capsys.readouterr().err
    (tmp_path / "comm_group.json").write_text('{"2": [0, 1]}')
    write(tmp_path / "run", [two_group(trace) for trace in pipeline(4)])
    assert main(words) == 0
    assert "Collectives that would be run" in capsys.readouterr().out
    content = json.loads(target.read_text())
    assert content["dry_run"] is True
    assert content["operations"] == [5, 5]
    assert content["collectives"][0]["latency"] is None
    assert {row["what"] for row in content["coverage"] if row["replayed"]} >= {"send", "recv", "all_to_all"}
    assert content["groups"][0] == {"name": "", "ranks": [0, 1]}


def two_group(trace: Trace) -> Trace:
    """The same without the collectives of a named group."""
    made = TraceBuilder()
    for at in range(len(trace)):
        node = trace.node(at)
        if "pg_name" not in node.attrs:
            made.add(node.id, node.name, node.type, node.data_deps, attrs=node.attrs)
    return made.build()


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no traces under this name"):
        plan_replay(tmp_path / "nothing")
    made = Made()
    made.compute()
    with pytest.raises(InputError, match="there is nothing to replay; found 2 compute nodes"):
        plan_replay(job([made.build(), made.build()]))
    made.collective("all_reduce", -4)
    with pytest.raises(InputError, match=r"without a usable comm_size; found -4"):
        plan_replay(job([made.build(), made.build()]))
    with pytest.raises(InputError, match="unknown stand-in for compute"):
        replay(tmp_path, compute="guess")


def test_dependencies_that_cannot_be(tmp_path: Path) -> None:
    made = TraceBuilder()
    made.add(1, data_deps=[2])
    with pytest.raises(InputError, match="depends on node 2, which does not exist"):
        plan_replay(made.build())
    made.add(2, data_deps=[1])
    with pytest.raises(InputError, match="dependencies form a circle"):
        plan_replay(made.build())


def test_ids_need_not_ascend() -> None:
    made = TraceBuilder()
    attrs = {"comm_type": 0, "comm_size": 4, "is_cpu_op": False}
    made.add(9, "first", 7, attrs=attrs)
    made.add(3, "second", 7, [9], attrs=attrs | {"comm_size": 8})
    plan = plan_replay(made.build(), 2)
    assert kinds(plan, 0) == [("all_reduce", 4, ()), ("all_reduce", 8, (0,))]


def test_statistics() -> None:
    figures = statistics([30, 10, 20, 40])
    assert figures is not None
    assert (figures.min_ns, figures.mean_ns, figures.p50_ns, figures.max_ns) == (10, 25.0, 25.0, 40)
    assert figures.p95_ns == pytest.approx(38.5)
    assert statistics([]) is None


def test_launchers() -> None:
    assert launched({}) is None
    found = launched({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0"})
    assert found is not None
    assert (found.launcher, found.rank, found.ranks, found.local_rank) == ("torchrun", 1, 4, 0)
    assert launched({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}) is None
    found = launched({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"})
    assert found is not None
    assert found.rank == 3
    with pytest.raises(InputError, match="RANK is no number"):
        launched({"RANK": "x", "WORLD_SIZE": "4"})
    with pytest.raises(InputError, match="RANK is no rank of WORLD_SIZE"):
        launched({"RANK": "4", "WORLD_SIZE": "4"})


def test_a_launcher_and_ranks_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(InputError, match="torchrun started 4 processes; found 2 ranks asked for"):
        replay(job(pipeline(4)), 2)


def test_buffers_are_counted() -> None:
    plan = plan_replay(job(pipeline(4), two=((0, 2), (1, 3))))
    given = {64, 96, 80, 12, 40}
    assert buffer_bytes(plan, 0) == sum(given) + 96 // 4 + 80 + 12 * 4 + 40
