"""Replay of measured durations: dependencies decide, nothing else; collectives wait for their ranks, or do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim
from chakrasim import InputError, StallError, Trace, TraceBuilder, write
from chakrasim.cli.main import main
from chakrasim.report.tables.simulation import summary
from chakrasim.simulator.outcome.records import PARTS

COLL, SEND, RECV = 7, 5, 6


def build(
    *nodes: tuple[str, list[int], dict[str, object]], types: dict[int, int] | None = None, **meta: object
) -> Trace:
    builder = TraceBuilder(metadata=dict(meta))
    for number, (name, deps, attrs) in enumerate(nodes):
        builder.add(number, name, type=(types or {}).get(number, 4), data_deps=deps, attrs=attrs)
    return builder.build()


def all_reduce(meeting: int, duration: int, transfer: int, ranks: int = 2, **more: object) -> dict[str, object]:
    return {
        "comm_type": 0,
        "comm_size": 8,
        "duration_ns": duration,
        "transfer_ns": transfer,
        "meeting": meeting,
        "meeting_ranks": ranks,
        **more,
    }


def times(result: chakrasim.SimulationResult, rank: int = 0) -> list[tuple[int, int]]:
    record = result.records[rank]
    return list(zip(record.start_ns.tolist(), record.end_ns.tolist(), strict=True))


def test_nodes_run_as_soon_as_what_they_wait_for_has_ended() -> None:
    trace = build(
        ("a", [], {"duration_ns": 7, "is_cpu_op": True}),
        ("b", [], {"duration_ns": 5, "is_cpu_op": True}),
        ("c", [], {"duration_ns": 4}),
        ("d", [], {"duration_ns": 0}),
        ("e", [0, 3], {"duration_ns": 3, "delay_ns": 2}),
    )
    result = chakrasim.replay_recorded(trace)
    # Two operations of the CPU at once, and one of no length: only dependencies count.
    assert times(result) == [(0, 7), (0, 5), (0, 4), (0, 0), (9, 12)]
    assert result.replay == "recorded" and result.makespan_ns == 12
    assert result.fold_reason == "every rank simulated: measured durations are each rank's own"


def test_microseconds_serve_where_there_are_no_nanoseconds() -> None:
    builder = TraceBuilder()
    builder.add(3, "a", duration_micros=2)
    builder.add(9, "b", data_deps=[3], duration_micros=1)
    assert times(chakrasim.replay_recorded(builder.build())) == [(0, 2000), (2000, 3000)]


def test_one_rank_of_a_larger_job_runs_alone() -> None:
    trace = build(
        ("a", [], {"duration_ns": 5, "is_cpu_op": True}),
        ("all-reduce", [0], {"comm_type": 0, "comm_size": 8, "pg_name": "17", "duration_ns": 100}),
        ("recv", [0], {"comm_src": 12, "comm_tag": 1, "comm_size": 8, "duration_ns": 50}),
        types={1: COLL, 2: RECV},
    )
    assert times(chakrasim.replay_recorded(trace)) == [(0, 5), (5, 105), (5, 55)]


def test_a_node_begins_after_its_delay() -> None:
    """What lies before it is no part of it: neither in its record nor in what the rank's time went into."""
    trace = build(
        ("a", [], {"duration_ns": 5, "delay_ns": 100}),
        ("b", [0], {"duration_ns": 7, "delay_ns": 40, "is_cpu_op": True}),
        ("all-reduce", [1], {"comm_type": 0, "comm_size": 8, "duration_ns": 9, "delay_ns": 3}),
        types={2: COLL},
    )
    result = chakrasim.replay_recorded(trace)
    assert times(result) == [(100, 105), (145, 152), (155, 164)]
    parts = dict(zip(PARTS, result.parts_ns[0].tolist(), strict=True))
    assert parts == dict.fromkeys(PARTS, 0) | {"compute": 5, "exposed_comm": 9, "cpu": 7, "idle": 143}
    assert (result.gpu_ns.tolist(), result.comm_ns.tolist()) == ([5], [9])


class TestTransfer:
    def ranks(self, first: int, second: int, **more: object) -> list[Trace]:
        return [
            build(
                ("compute", [], {"duration_ns": compute}),
                ("all-reduce", [0], all_reduce(4, 90, transfer, **more)),
                types={1: COLL},
            )
            for compute, transfer in ((first, 30), (second, 20))
        ]

    def test_a_collective_begins_when_its_last_rank_has_come(self) -> None:
        result = chakrasim.replay_recorded(self.ranks(10, 50), "transfer")
        assert times(result, 0) == [(0, 10), (10, 80)]
        assert times(result, 1) == [(0, 50), (50, 70)]
        assert result.comm_ns.tolist() == [70, 20]

    def test_recorded_durations_are_taken_instead(self) -> None:
        result = chakrasim.replay_recorded(self.ranks(10, 50))
        assert times(result, 0)[1] == (10, 100)

    def test_delay_comes_before_the_meeting(self) -> None:
        result = chakrasim.replay_recorded(self.ranks(10, 50, delay_ns=3), "transfer")
        assert times(result, 0)[1] == (10 + 3, 50 + 3 + 30)

    def test_a_rank_that_waited_for_nobody_takes_its_recorded_time(self) -> None:
        ranks = [
            build(("send", [], {**all_reduce(0, 15, 0), "comm_dst": 1, "comm_tag": 0}), types={0: SEND}),
            build(
                ("compute", [], {"duration_ns": 40}),
                ("recv", [0], {**all_reduce(0, 9, 9), "comm_src": 0, "comm_tag": 0}),
                types={1: RECV},
            ),
        ]
        result = chakrasim.replay_recorded(ranks, "transfer")
        assert times(result, 0) == [(0, 15)] and times(result, 1)[1] == (40, 49)

    @pytest.mark.parametrize(
        ("kind", "expected"), [(5, [(10, 20), (30, 40), (2, 20)]), (1, [(10, 40), (30, 40), (2, 12)])]
    )
    def test_rooted_collectives_wait_for_their_root_or_their_root_for_all(
        self, kind: int, expected: list[tuple[int, int]]
    ) -> None:
        """A broadcast (5) waits for rank 0, which waits for nobody; of a reduce (1) only rank 0 waits."""
        ranks = [
            build(
                ("compute", [], {"duration_ns": compute}),
                ("rooted", [0], {**all_reduce(0, 10, 10, 3), "comm_type": kind, "root_rank": 0}),
                types={1: COLL},
            )
            for compute in (10, 30, 2)
        ]
        result = chakrasim.replay_recorded(ranks, "transfer")
        assert [times(result, rank)[1] for rank in range(3)] == expected

    def test_ranks_that_wait_in_a_circle_are_named(self) -> None:
        ranks = [
            build(
                ("one", [], all_reduce(first, 5, 5)),
                ("two", [0], all_reduce(1 - first, 5, 5)),
                types={0: COLL, 1: COLL},
            )
            for first in (0, 1)
        ]
        with pytest.raises(StallError) as caught:
            chakrasim.replay_recorded(ranks, "transfer")
        assert caught.value.cycle == (0, 1)
        assert "rank 0 waits in node 0 ('one', number 0 in the file) for rank 1 to come to it" in str(caught.value)

    def test_a_rank_that_never_comes_is_missed(self) -> None:
        with pytest.raises(StallError, match=r"3 took part where it was recorded, 2 are here"):
            chakrasim.replay_recorded(self.ranks(1, 2, meeting_ranks=3), "transfer")

    def test_traces_without_transfer_times_are_refused(self) -> None:
        trace = build(("all-reduce", [], {"comm_type": 0, "duration_ns": 5}), types={0: COLL})
        with pytest.raises(
            InputError, match=r"no collective or message has a transfer time.*convert all ranks together"
        ):
            chakrasim.replay_recorded([trace, trace], "transfer")

    def test_single_collectives_without_one_are_counted(self) -> None:
        ranks = self.ranks(10, 50)
        extra = build(
            ("compute", [], {"duration_ns": 10}),
            ("all-reduce", [0], all_reduce(4, 90, 30)),
            ("lonely", [1], {"comm_type": 0, "duration_ns": 6}),
            types={1: COLL, 2: COLL},
        )
        result = chakrasim.replay_recorded([extra, ranks[1]], "transfer")
        assert times(result, 0)[2] == (80, 86)
        assert result.counts == {
            "collectives and messages without a transfer time (their recorded duration is used)": 1
        }

    def test_ranks_that_share_a_trace_meet_too(self) -> None:
        trace = build(("all-reduce", [], all_reduce(0, 9, 4, 3)), types={0: COLL})
        result = chakrasim.replay_recorded(trace, ranks=3, how="transfer")
        assert [times(result, rank) for rank in range(3)] == [[(0, 4)]] * 3


@st.composite
def jobs(draw: st.DrawFn) -> list[list[tuple[list[int], int, int, int]]]:
    """Some ranks; every node is (dependencies, duration, delay, meeting or -1), meetings in one order on all ranks."""
    ranks = draw(st.integers(1, 4))
    meetings = draw(st.integers(0, 3))
    job = []
    for _ in range(ranks):
        nodes: list[tuple[list[int], int, int, int]] = []
        for meeting in [*(m for k in range(meetings) for m in [-1] * draw(st.integers(0, 3)) + [k]), -1]:
            before = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3, unique=True)) if nodes else []
            last = [at for at, node in enumerate(nodes) if node[3] >= 0][-1:]
            deps = sorted({*before, *(last if meeting >= 0 else [])})
            nodes.append((deps, draw(st.integers(0, 50)), draw(st.integers(0, 9)), meeting))
        job.append(nodes)
    return job


@settings(max_examples=150)
@given(jobs())
def test_transfer_replay_is_the_longest_path_over_all_ranks(job: list[list[tuple[list[int], int, int, int]]]) -> None:
    traces = []
    for nodes in job:
        builder = TraceBuilder()
        for at, (deps, duration, delay, meeting) in enumerate(nodes):
            attrs = {"duration_ns": 99, "transfer_ns": duration + 1, "meeting": meeting, "meeting_ranks": len(job)}
            plain = {"duration_ns": duration}
            chosen = {**(attrs if meeting >= 0 else plain), "delay_ns": delay}
            builder.add(at, f"n{at}", type=COLL if meeting >= 0 else 4, data_deps=deps, attrs=chosen)
        traces.append(builder.build())
    result = chakrasim.replay_recorded(traces, "transfer")
    ends = _longest_paths(job)
    assert [result.records[rank].end_ns.tolist() for rank in range(len(job))] == ends


def _longest_paths(job: list[list[tuple[list[int], int, int, int]]]) -> list[list[int]]:
    ends = [[-1] * len(nodes) for nodes in job]
    arrivals: dict[int, dict[int, int]] = {}
    for _ in range(5):
        for rank, nodes in enumerate(job):
            for at, (deps, duration, delay, meeting) in enumerate(nodes):
                if any(ends[rank][dep] < 0 for dep in deps):
                    continue
                come = max((ends[rank][dep] for dep in deps), default=0) + delay
                if meeting < 0:
                    ends[rank][at] = come + duration
                    continue
                arrivals.setdefault(meeting, {})[rank] = come
                if len(arrivals[meeting]) == len(job):
                    ends[rank][at] = max(arrivals[meeting].values()) + duration + 1
    return ends


class TestSteps:
    META: ClassVar[dict[str, object]] = {
        "step_numbers": [4],
        "step_ns": [100],
        "step_first": [1],
        "step_first_ns": [8],
        "step_last": [2],
        "step_last_ns": [1],
        "span_ns": 500,
    }

    def trace(self, **meta: object) -> Trace:
        return build(
            ("start offset", [], {"duration_ns": 1000, "is_cpu_op": True, "is_start_offset": True}),
            ("a", [0], {"duration_ns": 10, "is_cpu_op": True}),
            ("b", [1], {"duration_ns": 95, "is_cpu_op": True}),
            **meta,
        )

    def test_a_step_is_measured_between_its_nodes(self) -> None:
        result = chakrasim.replay_recorded(self.trace(**self.META))
        (time,) = result.steps
        assert (time.rank, time.step, time.measured_ns, time.simulated_ns) == (0, 4, 100, (1105 - 1) - (1010 - 8))
        assert time.error_pct == pytest.approx(2.0)
        assert json.loads(result.to_json())["steps"] == [
            {"rank": 0, "step": 4, "measured_ns": 100, "simulated_ns": 102, "error_pct": time.error_pct}
            | {"delay_only_share": None}
        ]
        assert "largest error 2.00 %; an unknown share is delay that no dependency explains" in summary(result)
        assert "Profiler steps" in summary(result) and "+2.00 %" in summary(result)

    def test_no_error_is_shown_without_the_share_of_the_path_that_is_delay_only(self) -> None:
        meta = self.META | {"step_path_ns": [80], "step_delay_only_ns": [20]}
        result = chakrasim.replay_recorded(self.trace(**meta))
        assert json.loads(result.to_json())["steps"][0]["delay_only_share"] == 0.25
        assert "+2.00 %      25.0 %" in summary(result)
        assert "largest error 2.00 %; up to 25.0 % of a critical path is delay that no dependency" in summary(result)
        (warning,) = result.warnings
        assert warning.startswith(
            "up to 25.0 % of a step's critical path (rank 0, step 4; above 10 % on rank 0) is delay that no dependency "
        )
        assert warning.endswith("_ExperimentalConfig(enable_cuda_sync_events=True))")
        with pytest.raises(InputError, match="1 warning in strict mode: up to 25"):
            chakrasim.replay_recorded(self.trace(**meta), strict=True)

    @pytest.mark.parametrize("wrong", [[20, 1], ["x"], [-1], [81], 5])
    def test_a_share_that_cannot_be_is_unknown(self, wrong: object) -> None:
        meta = self.META | {"step_path_ns": [80], "step_delay_only_ns": wrong}
        result = chakrasim.replay_recorded(self.trace(**meta))
        assert [time.delay_only_share for time in result.steps] == [None] and not result.warnings

    def test_a_small_share_is_shown_and_no_warning(self) -> None:
        result = chakrasim.replay_recorded(self.trace(span_ns=100, path_ns=100, delay_only_ns=10))
        assert [time.delay_only_share for time in result.steps] == [0.1] and not result.warnings

    def test_without_steps_it_is_the_whole_span_after_the_start(self) -> None:
        result = chakrasim.replay_recorded(self.trace(span_ns=100))
        assert [(time.step, time.measured_ns, time.simulated_ns) for time in result.steps] == [(None, 100, 105)]

    def test_traces_that_say_nothing_have_no_steps(self) -> None:
        result = chakrasim.replay_recorded(self.trace())
        assert result.steps == () and "Profiler steps" not in summary(result)
        assert "steps" not in json.loads(result.to_json())

    @pytest.mark.parametrize("wrong", [{"step_first": [77]}, {"step_ns": ["x"]}, {"step_last": []}])
    def test_metadata_that_do_not_fit_are_left_out(self, wrong: dict[str, object]) -> None:
        result = chakrasim.replay_recorded(self.trace(**{**self.META, **wrong}))
        assert [time.step for time in result.steps] in ([], [None])

    def test_a_common_start_leaves_out_the_offset(self) -> None:
        trace = self.trace(**self.META)
        simulated = chakrasim.simulate(trace, common_start=True, machine="hgx-h100-2", ranks=2)
        for result in (chakrasim.replay_recorded(trace, common_start=True), simulated):
            assert result.records[0].start_ns[1] == 0


def test_the_parameter_of_simulate_works_for_one_more_release() -> None:
    trace = build(("a", [], {}))
    with pytest.warns(DeprecationWarning, match=r"is replay_recorded\(\.\.\., 'recorded'\)"):
        old = chakrasim.simulate(trace, machine="hgx-h100-2", physics=True, replay_durations="recorded")  # type: ignore[call-arg]
    assert old.warnings == ("the machine has no effect: measured durations are replayed",)
    assert old.finish_ns.tolist() == chakrasim.replay_recorded(trace).finish_ns.tolist()
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="common_strat"):
        chakrasim.simulate(trace, replay_durations="recorded", congestion="aware", common_strat=True)  # type: ignore[call-arg]


def test_what_cannot_be_a_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"attribute 'delay_ns' is no time; found -1"):
        chakrasim.replay_recorded(build(("a", [], {"delay_ns": -1})))
    with pytest.raises(InputError, match=r"unknown kind of replay; found 'measured'"):
        chakrasim.replay_recorded(build(("a", [], {})), "measured")  # type: ignore[arg-type]


class TestCommandLine:
    def test_a_file_and_a_prefix_run_without_a_machine(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths = write(tmp_path / "t", TestTransfer().ranks(10, 50))
        for words in (["--replay-durations"], ["--replay-durations", "recorded"], ["--replay-durations=recorded"]):
            assert main(["simulate", paths[1], *words, "--quiet", "--json", "-"]) == 0
            assert json.loads(capsys.readouterr().out)["finish_ns"] == [140]
        assert main(["simulate", "--replay-durations", str(tmp_path / "t"), "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["finish_ns"] == [100, 140]
        assert main(["simulate", str(tmp_path / "t"), "--replay-durations", "transfer"]) == 0
        assert "no machine: measured compute and transfer times replayed" in capsys.readouterr().out

    def test_a_machine_is_told_to_have_no_effect(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(tmp_path / "t", TestTransfer().ranks(10, 50))
        assert main(["simulate", str(tmp_path / "t"), "--replay-durations", "--machine", "hgx-h100-2", "--quiet"]) == 0
        assert "the machine has no effect: measured durations are replayed" in capsys.readouterr().err


def test_measured_compute_runs_where_the_roofline_has_nothing_to_go_by() -> None:
    builder = TraceBuilder()
    builder.add(0, "kernel", duration_micros=3, attrs={"is_cpu_op": False, "duration_ns": 3_000})
    result = chakrasim.simulate(builder.build(), ranks=8, machine="hgx-h100-8")
    assert result.finish_ns.tolist() == [3000] * 8
    assert any("take their recorded duration" in warning for warning in result.warnings)
