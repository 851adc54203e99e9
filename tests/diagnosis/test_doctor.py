"""What the doctor finds: each fault provoked alone in a job in which everything else is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chakrasim
from chakrasim.diagnosis.checks.findings import Finding, Severity
from chakrasim.diagnosis.checks.ranks import check_delays, check_ranks
from chakrasim.diagnosis.doctor import Diagnosis, diagnose
from chakrasim.diagnosis.facts import RankFacts
from chakrasim.errors import InputError
from chakrasim.trace.linked.delays import LongestDelay
from made_jobs import US, Document, device, event, host, job, save


def one(diagnosis: Diagnosis, code: str) -> Finding:
    """The finding of this code, which must be there once."""
    found = [finding for finding in diagnosis.findings if finding.code == code]
    assert len(found) == 1, diagnosis.findings
    finding = found[0]
    assert finding.cause and finding.consequence and finding.remedy
    return finding


def alone(folder: Path, change: Callable[[Document], None] = lambda document: None, **settings: Any) -> Diagnosis:
    """One rank whose device trace was changed; its host trace was not."""
    traced = device(**settings)
    save(folder / "host.0.json", host(traced))
    change(traced)
    save(folder / "device.0.json", traced)
    return diagnose(folder)


def launches(document: Document) -> list[dict[str, Any]]:
    return [e for e in document["traceEvents"] if e["name"] == "cudaLaunchKernel"]


def kernels(document: Document) -> list[dict[str, Any]]:
    return [e for e in document["traceEvents"] if e.get("cat") == "kernel"]


def remove(document: Document, gone: list[dict[str, Any]]) -> None:
    document["traceEvents"] = [e for e in document["traceEvents"] if not any(e is other for other in gone)]


def test_a_job_in_which_all_is_right_is_trustworthy(tmp_path: Path) -> None:
    job(tmp_path)
    diagnosis = chakrasim.doctor(tmp_path)
    assert diagnosis.findings == ()
    assert (diagnosis.exit_code, diagnosis.verdict) == (0, "trustworthy")
    facts = diagnosis.ranks[1]
    assert (facts.rank, facts.program, facts.gpu, facts.gpus, facts.world_size) == (1, "python", "NVIDIA H100", 1, 2)
    assert (facts.steps, facts.step_kernels, facts.partial_steps) == ((0, 1, 2), (6, 6, 6), ())
    assert (facts.operators, facts.kernels, facts.copies, facts.collectives, facts.nodes) == (18, 18, 0, 6, 23)
    assert (facts.schema, facts.span_ns, facts.busy_ns) == ("1.1.1-chakra.0.0.4", 2_990_000, 360_000)
    assert json.loads(json.dumps(diagnosis.to_mapping()))["ranks"][1]["paired_by"] == "process id"


def test_files_given_instead_of_a_folder(tmp_path: Path) -> None:
    from chakrasim.diagnosis.files.discover import discover

    job(tmp_path)
    assert diagnose(discover(tmp_path)).exit_code == 0
    assert one(diagnose([]), "no-traces").cause == "there are no traces of the PyTorch profiler in the list"


def test_delays_that_no_dependency_explains(tmp_path: Path) -> None:
    def delayed(document: Document) -> None:
        kernels(document)[-1].update(ts=US + 2880, dur=25)  # launched from 2165 to 2170

    assert alone(tmp_path / "right").ranks[0].delay_only_share == {"0": 0.0, "1": 0.0, "2": 0.0}
    diagnosis = alone(tmp_path / "late", delayed)
    finding = one(diagnosis, "unexplained-delays")
    assert finding.severity is Severity.WARNING
    assert finding.cause.startswith(
        "71.7 % of the critical path of step 2 on rank 0 is delay that no dependency explains"
    )
    assert "enable_cuda_sync_events" in finding.remedy
    assert diagnosis.ranks[0].to_mapping()["delay_only_share"]["0"] == 0.0
    assert finding.evidence["delay_only_share"] == {"0": diagnosis.ranks[0].delay_only_share}


def test_a_delay_before_the_first_work_of_a_stream_is_told_as_such() -> None:
    longest = LongestDelay(463_251_758, 0.99, "resolve", "device 9 stream 3", begins_stream=True)
    (finding,) = check_delays([RankFacts(rank=0, kernels=9, delay_only_share={"-1": 0.97}, longest_delay=longest)])
    assert "463.3 ms (99.0 % of all) before resolve on device 9 stream 3, the first work" in finding.cause
    assert "launched before the recording began" in finding.consequence and "idle" in finding.remedy


def test_delays_without_a_device_are_those_of_a_busy_machine() -> None:
    (finding,) = check_delays([RankFacts(rank=0, delay_only_share={"3": 0.12})])
    assert "threads that waited for a processor" in finding.consequence
    assert finding.remedy == "record on a machine that is not busy"


def test_the_rank_with_most_unexplained_delay_is_named(tmp_path: Path) -> None:
    for rank, (_, traced) in enumerate(job(tmp_path, world=3)):
        if rank:
            kernels(traced)[-1].update(ts=US + 2600 + 100 * rank, dur=2900 - 2600 - 100 * rank + 5)
        save(tmp_path / f"device.{rank}.json", traced)
    finding = one(diagnose(tmp_path), "unexplained-delays")
    assert finding.ranks == (1, 2)
    assert finding.cause == (
        "53.5 % of the critical path of step 2 on rank 2 is delay that no dependency explains (the most of ranks 1-2); "
        "the longest: 530 us (100.0 % of all) before ncclDevKernel_AllReduce_Sum_f32_RING_LL on device 2 stream 20"
    )


def test_a_number_of_ranks_that_no_run_has_is_told_and_not_used(tmp_path: Path) -> None:
    for rank, (_, traced) in enumerate(job(tmp_path, world=2)):
        traced["distributedInfo"]["world_size"] = 2**31 - 1
        save(tmp_path / f"device.{rank}.json", traced)
    report = diagnose(tmp_path)
    finding = one(report, "absurd-world-size")
    assert finding.cause == "the traces tell of 2,147,483,647 ranks, which no run has"
    assert finding.ranks == (0, 1)
    assert not [other for other in report.findings if other.code == "missing-ranks"]


def test_ranks_beyond_what_runs_have_are_counted_though_not_all_are_named() -> None:
    (finding,) = check_ranks([RankFacts(rank=rank) for rank in (0, 2, 3_000_000)], have_one_clock=True)
    assert finding.cause == ("the highest rank is 3,000,000, but 2,999,998 of them have no trace: 1, 3-1048575, ...")
    assert finding.evidence == {"world_size": 3_000_001, "found": 3, "missing": 2_999_998}


# -- host and device ---------------------------------------------------------------------------------------------------


def test_host_and_device_of_different_programs(tmp_path: Path) -> None:
    traced = device()
    other = host(traced)
    for node in other["nodes"][3:]:
        node["name"] = "aten::other"
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    finding = one(diagnosis, "different-runs")
    assert finding.cause == "14 of 15 record function ids that both traces hold have different names"
    assert "ExecutionTraceObserver" in finding.remedy
    assert diagnosis.exit_code == 2


def test_two_runs_of_one_program(tmp_path: Path) -> None:
    traced = device()
    other = host(traced, pid=555)
    other["time"] = "2023-12-24 00:00:00"
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    assert one(diagnosis, "different-processes").cause == (
        "the host trace is of process 555, the device trace of process 100, recorded at least 923 hours apart; "
        "15 of 15 operators agree by id and name"
    )
    assert diagnosis.exit_code == 1


def test_without_ids_the_names_of_operators_are_compared(tmp_path: Path) -> None:
    traced = device()
    other = host(traced)
    for node in other["nodes"][2:]:
        node["name"] = "aten::other"
    for part in traced["traceEvents"]:
        part["args"].pop("Record function id", None)
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    assert one(diagnosis, "different-runs").cause == (
        "of 1 kinds of operators in the host trace only 0 occur in the device trace"
    )
    assert one(diagnosis, "missing-record-function-ids").severity is Severity.WARNING


@pytest.mark.parametrize(("kept", "code"), [(8, 1), (2, 2)])
def test_observer_that_was_not_active(kept: int, code: int, tmp_path: Path) -> None:
    traced = device()
    other = host(traced)
    other["nodes"] = other["nodes"][:kept]
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    finding = one(diagnosis, "observer-inactive")
    assert finding.cause == f"the host trace holds {kept - 2} of the 15 operators that the device trace recorded"
    assert diagnosis.exit_code == code


def test_one_side_alone_is_usable(tmp_path: Path) -> None:
    save(tmp_path / "d" / "device.0.json", device())
    diagnosis = diagnose(tmp_path / "d")
    assert one(diagnosis, "no-host-trace").severity is Severity.NOTE
    assert diagnosis.exit_code == 0
    save(tmp_path / "h" / "host.0.json", host(device()))
    diagnosis = diagnose(tmp_path / "h")
    assert one(diagnosis, "no-device-trace").cause == "rank 0 has a host trace only (host.0.json)"
    assert diagnosis.exit_code == 1


def test_a_schedule_that_never_became_active(tmp_path: Path) -> None:
    whole = device()
    save(tmp_path / "host.0.json", host(whole))
    diagnosis = diagnose(tmp_path)
    finding = one(diagnosis, "schedule-never-active")
    assert (finding.severity, finding.evidence) == (Severity.WARNING, {"profiler_steps": 3})
    assert finding.cause.startswith("the observer saw 3 profiler steps, but there is no device trace")
    assert "skip_first + wait + warmup" in finding.remedy
    # What export_chrome_trace writes of a profiler that was warming up.
    marks = [event("PyTorch Profiler (0)", "Trace", 0, 6000, pid="Spans", tid="PyTorch Profiler")]
    marks.append({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": US + 6000})
    save(tmp_path / "device.0.json", whole | {"traceEvents": marks})
    diagnosis = diagnose(tmp_path)
    assert [found.code for found in diagnosis.findings] == ["schedule-never-active"]
    assert diagnosis.findings[0].cause == (
        "the profiler was on and recorded nothing: no step, operator, call or kernel, though the observer saw 3 "
        "profiler steps"
    )
    assert diagnosis.exit_code == 2
    with pytest.raises(
        InputError, match=r"unusable; found schedule-never-active: .*recorded nothing.*skip_first \+ wait"
    ):
        chakrasim.trace_directory(tmp_path, tmp_path / "out")
    with pytest.raises(InputError, match=r"no work in this trace.*after skip_first \+ wait \+ warmup steps only"):
        chakrasim.link(tmp_path / "host.0.json", tmp_path / "device.0.json")


def test_a_host_trace_of_some_ranks_alone_is_a_missing_file(tmp_path: Path) -> None:
    job(tmp_path)
    (tmp_path / "device.1.json").unlink()
    codes = {finding.code for finding in diagnose(tmp_path).findings}
    assert "no-device-trace" in codes and "schedule-never-active" not in codes


def test_an_observer_around_the_whole_loop_is_trustworthy_and_passes_strictly(tmp_path: Path) -> None:
    recorded = Path(__file__).resolve().parents[1] / "data" / "torch" / "whole-loop"
    assert diagnose(recorded).findings == ()
    report = chakrasim.trace_directory(recorded, tmp_path / "out", strict=True)
    assert report.warnings == () and report.ranks[0].warnings == ()


def test_faults_of_the_host_trace_alone(tmp_path: Path) -> None:
    traced = device()
    other = host(traced, schema="2.0.0-chakra.9")
    other["nodes"][5]["id"] = other["nodes"][4]["id"]
    other["nodes"][8]["ctrl_deps"] = 999
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    assert "states the schema '2.0.0-chakra.9'; known are 1.0.1 to 1.1.1" in one(diagnosis, "unknown-schema").cause
    assert "damaged-file" not in {finding.code for finding in diagnosis.findings}
    assert one(diagnosis, "duplicate-nodes").cause == "1 of 17 nodes of the host trace repeat an id"
    assert one(diagnosis, "missing-parents").cause == "1 of 17 nodes of the host trace name a parent that is not there"


def test_a_newer_schema_is_no_damage(tmp_path: Path) -> None:
    traced = device()
    save(tmp_path / "in" / "host.0.json", host(traced, schema="1.2.0-chakra.0.0.4"))
    save(tmp_path / "in" / "device.0.json", traced)
    report = chakrasim.trace_directory(tmp_path / "in", tmp_path / "out")
    assert [finding.code for finding in report.diagnosis.findings] == ["unknown-schema"]
    assert "('1.2.0-chakra.0.0.4') is newer than what is known here: read as 1.1.1" in report.ranks[0].warnings[0]
    with pytest.raises(InputError, match=r"1 warning in strict mode: the host trace states the schema '1\.2\.0"):
        chakrasim.trace_directory(tmp_path / "in", tmp_path / "strict", strict=True)


def test_traces_are_made_of_what_can_be_linked_without_being_lenient(tmp_path: Path) -> None:
    traced = device()
    other = host(traced)
    other["nodes"][5]["ctrl_deps"] = "x"
    save(tmp_path / "in" / "host.0.json", other)
    save(tmp_path / "in" / "device.0.json", traced)
    report = chakrasim.trace_directory(tmp_path / "in", tmp_path / "out")
    assert one(report.diagnosis, "damaged-file").cause in report.ranks[0].warnings
    assert report.ranks[0].warnings[0].endswith("took 1 values that should be integers for absent")


def test_empty_traces(tmp_path: Path) -> None:
    save(tmp_path / "host.0.json", {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []})
    save(tmp_path / "device.0.json", {"schemaVersion": 1, "traceEvents": []})
    diagnosis = diagnose(tmp_path)
    assert [finding.code for finding in diagnosis.findings] == ["empty-trace", "empty-trace"]
    assert diagnosis.exit_code == 2


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    diagnosis = diagnose(tmp_path)
    assert one(diagnosis, "no-traces").cause == (
        f"there are no traces of the PyTorch profiler in {tmp_path} (a.txt: no trace)"
    )
    assert diagnosis.exit_code == 2 and diagnosis.ignored == (("a.txt", "no trace"),)


# -- kernels and launches ----------------------------------------------------------------------------------------------


def test_kernels_lost_at_the_beginning_of_the_window(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        remove(document, kernels(document)[:3])
        document["INFO"] = ["Record counts: Out-of-range = 7, Blocklisted runtime = 2"]

    diagnosis = alone(tmp_path, change)
    finding = one(diagnosis, "lost-kernels")
    assert finding.cause == (
        "3 of 12 kernel launches have no kernel: 3 at the beginning of the window, 0 in between, 0 at its end "
        "(3 in step 0)"
    )
    assert finding.evidence["out_of_range_records"] == 7
    assert one(diagnosis, "uneven-steps").cause == (
        "1 of 3 steps launch another number of kernels than the usual 4 (step 0: 1)"
    )
    assert diagnosis.ranks[0].partial_steps == (0,)
    assert diagnosis.exit_code == 1


def test_kernels_lost_in_between_and_at_the_end(tmp_path: Path) -> None:
    diagnosis = alone(tmp_path, lambda document: remove(document, [kernels(document)[5], kernels(document)[-1]]))
    assert one(diagnosis, "lost-kernels").cause.startswith(
        "2 of 12 kernel launches have no kernel: 0 at the beginning of the window, 1 in between, 1 at its end"
    )
    assert diagnosis.ranks[0].partial_steps == (1, 2)


def test_launches_into_a_graph_under_capture_are_not_lost(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        first = launches(document)[0]["ts"] - US
        remove(document, kernels(document)[:1])
        document["traceEvents"] += [
            event("cudaStreamBeginCapture_v2", "cuda_runtime", first - 2, 1),
            event("cudaStreamEndCapture", "cuda_runtime", first + 10, 1),
        ]

    diagnosis = alone(tmp_path, change)
    assert not [finding for finding in diagnosis.findings if finding.code == "lost-kernels"]


@pytest.mark.parametrize(
    "sign",
    ["launches", "backend", "host tensors"],
)
def test_a_window_without_kernels_though_a_gpu_was_in_use(sign: str, tmp_path: Path) -> None:
    traced = device()
    other = host(traced)
    remove(traced, [e for e in traced["traceEvents"] if e.get("cat") in ("kernel", "cuda_sync")])
    if sign != "launches":
        remove(traced, [e for e in traced["traceEvents"] if e.get("cat") == "cuda_runtime"])
    if sign != "backend":
        del traced["distributedInfo"]
    if sign == "host tensors":
        other["nodes"][4]["inputs"] = {
            "values": [[1, 2, 0, 8, 4, "cuda:0"]],
            "shapes": [[8]],
            "types": ["Tensor(float)"],
        }
    save(tmp_path / "host.0.json", other)
    save(tmp_path / "device.0.json", traced)
    diagnosis = diagnose(tmp_path)
    said = {"launches": "12 kernel launches", "backend": "the back end nccl", "host tensors": "tensors on cuda:0"}[sign]
    cause = one(diagnosis, "no-device-events").cause
    assert cause == f"the window holds no kernels although a device was in use ({said})"
    assert diagnosis.exit_code == 2


def test_a_run_on_the_host_alone_needs_no_kernels(tmp_path: Path) -> None:
    traced = device(kernels=1)
    remove(traced, [e for e in traced["traceEvents"] if e.get("cat") in ("kernel", "cuda_sync", "cuda_runtime")])
    traced["distributedInfo"]["backend"] = "gloo"
    save(tmp_path / "host.0.json", host(traced))
    save(tmp_path / "device.0.json", traced)
    assert diagnose(tmp_path).exit_code == 0


def test_kernels_without_a_launch(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        remove(document, [launches(document)[5]])
        kernels(document)[6]["args"]["correlation"] = 0
        remove(document, [launches(document)[5]])

    diagnosis = alone(tmp_path, change)
    finding = one(diagnosis, "unlinked-kernels")
    assert finding.cause == (
        "2 of 12 kernels and copies have no launch (16.7% of device time; 1 without a correlation id)"
    )
    assert diagnosis.exit_code == 1


def test_most_kernels_without_a_launch_is_unusable(tmp_path: Path) -> None:
    diagnosis = alone(tmp_path, lambda document: remove(document, launches(document)[2:]))
    assert one(diagnosis, "unlinked-kernels").severity is Severity.ERROR


def test_kernels_of_the_warm_up(tmp_path: Path) -> None:
    early = event("gemm", "kernel", -500, 20, 0, 7, device=0, stream=7, correlation=3)
    diagnosis = alone(tmp_path, lambda document: document["traceEvents"].append(early))
    assert one(diagnosis, "warm-up-leakage").cause == (
        "1 kernels or copies start before the first operator or call of the window"
    )


@pytest.mark.parametrize(("early_us", "severity"), [(0.5, Severity.NOTE), (30, Severity.WARNING)])
def test_kernels_before_their_launch(early_us: float, severity: Severity, tmp_path: Path) -> None:
    def change(document: Document) -> None:
        kernels(document)[4]["ts"] = launches(document)[4]["ts"] - early_us

    finding = one(alone(tmp_path, change), "kernel-before-launch")
    assert finding.severity is severity
    assert f"1 of 12 kernels and copies start before their launch, by up to {early_us:.3f} us" == finding.cause


@pytest.mark.parametrize(
    "name",
    [
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaLaunchCooperativeKernel",
        "cudaLaunchKernelExC",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "someVendorsLaunch",
    ],
)
def test_no_name_of_a_launch_loses_kernels(name: str, tmp_path: Path) -> None:
    """Case 26 of the users' list."""

    def change(document: Document) -> None:
        for launch in launches(document):
            launch.update(name=name, cat="cuda_driver" if name.startswith("cu") else "privateuse1_runtime")

    assert alone(tmp_path, change).findings == ()


def test_repeated_correlation_ids_and_graphs(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        launches(document)[1]["args"]["correlation"] = launches(document)[0]["args"]["correlation"]
        for kernel in kernels(document)[4:8]:
            kernel["args"]["correlation"] = launches(document)[4]["args"]["correlation"]

    diagnosis = alone(tmp_path, change)
    assert one(diagnosis, "duplicated-correlation").cause == ("1 calls of the device's runtime repeat a correlation id")
    assert one(diagnosis, "cuda-graphs").cause == "1 launches start several kernels, 4 in all (graphs)"


# -- what was not recorded ---------------------------------------------------------------------------------------------


def test_synchronisation_was_not_recorded(tmp_path: Path) -> None:
    diagnosis = alone(tmp_path, sync=False)
    finding = one(diagnosis, "missing-sync-events")
    assert "the host waits for the device 3 times and streams wait for each other 0 times" in finding.cause
    assert "enable_cuda_sync_events=True" in finding.remedy
    assert diagnosis.exit_code == 1


def test_the_profilers_own_synchronisation_at_its_stop_is_no_loss(tmp_path: Path) -> None:
    finding = one(alone(tmp_path, sync=False, steps=1), "missing-sync-events")
    assert finding.severity is Severity.NOTE


def test_waits_whose_event_is_not_known(tmp_path: Path) -> None:
    """Case 37: CUDA 12.9 and newer."""
    wait = event("Stream Wait Event", "cuda_sync", 100, 0, 0, 7, device=0, stream=7, correlation=9)
    finding = one(alone(tmp_path, lambda document: document["traceEvents"].append(wait)), "unresolved-sync-events")
    assert finding.cause.startswith("1 of 1 waits for an event do not say where it was recorded")
    assert finding.severity is Severity.WARNING


def test_no_shapes(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["record_shapes"] = 0
        for part in document["traceEvents"]:
            part["args"].pop("Input Dims", None)

    assert one(alone(tmp_path, change), "missing-record-shapes").severity is Severity.NOTE
    (tmp_path / "host.0.json").unlink()
    assert one(diagnose(tmp_path), "missing-record-shapes").severity is Severity.WARNING


def test_no_process_groups(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        del document["distributedInfo"]["pg_config"]
        for part in document["traceEvents"]:
            part["args"].pop("Process Group Ranks", None)

    finding = one(alone(tmp_path, change, collectives=2), "missing-process-groups")
    assert finding.cause == "there are 6 collectives, but no record of the process groups"


def test_no_step_is_fine(tmp_path: Path) -> None:
    """Case 31: start() and stop() without step(), no distributedInfo."""

    def change(document: Document) -> None:
        del document["distributedInfo"]
        remove(document, [e for e in document["traceEvents"] if e["name"].startswith("ProfilerStep")])

    diagnosis = alone(tmp_path, change)
    assert one(diagnosis, "no-profiler-step").severity is Severity.NOTE
    assert diagnosis.exit_code == 0 and diagnosis.ranks[0].steps == ()


def test_no_ids_at_all(tmp_path: Path) -> None:
    traced = device()
    for part in traced["traceEvents"]:
        for name in ("External id", "Record function id"):
            part["args"].pop(name, None)
    save(tmp_path / "device.0.json", traced)
    assert one(diagnose(tmp_path), "missing-ids").severity is Severity.NOTE


# -- time --------------------------------------------------------------------------------------------------------------


def test_times_that_cannot_be(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["traceEvents"][3]["dur"] = -4
        kernels(document)[2]["ts"] = kernels(document)[1]["ts"] + 5

    diagnosis = alone(tmp_path, change)
    assert "left out 1 events whose ts or dur is no number, negative" in one(diagnosis, "damaged-file").cause
    assert one(diagnosis, "overlap-in-stream").cause == (
        "1 kernels start before the one before them in their stream has ended, by up to 15.000 us"
    )


def test_times_finer_than_a_nanosecond_are_a_note(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["traceEvents"][5]["dur"] = 1.00049

    assert one(alone(tmp_path, change), "repaired-file").severity is Severity.NOTE


def test_a_file_cut_short_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    """Case 32 of the users' list: a truncated tail, and missing commas."""
    job(tmp_path)
    whole = (tmp_path / "device.0.json").read_text()
    (tmp_path / "device.0.json").write_text(whole[: len(whole) * 4 // 5])
    diagnosis = diagnose(tmp_path)
    assert one(diagnosis, "damaged-file").files == ("device.0.json",)
    assert diagnosis.exit_code == 1 and diagnosis.ranks[0].steps == (0, 1, 2)


def test_a_file_that_cannot_be_read_at_all(tmp_path: Path) -> None:
    job(tmp_path)
    (tmp_path / "device.0.json").write_bytes(b'{"schemaVersion": 1, "traceEvents": 7}')
    diagnosis = diagnose(tmp_path)
    assert diagnosis.exit_code == 1  # the host trace of rank 0 is left
    assert ("device.0.json", "a JSON document that is no trace") in diagnosis.ignored
    (tmp_path / "device.0.json").write_bytes(b'{"schemaVersion": 1, "traceEvents": [')
    assert diagnose(tmp_path).exit_code == 2


def test_a_clock_that_jumps_is_unusable(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        document["traceEvents"][2]["ts"] -= 10**12

    diagnosis = alone(tmp_path, change)
    assert "277.8 hours" in one(diagnosis, "clock-jump").cause and diagnosis.exit_code == 2


@pytest.mark.parametrize(("over_us", "severity"), [(0.5, Severity.NOTE), (30, Severity.WARNING)])
def test_operators_that_end_after_what_is_around_them(over_us: float, severity: Severity, tmp_path: Path) -> None:
    def change(document: Document) -> None:
        launches(document)[3]["dur"] = 35 + over_us

    finding = one(alone(tmp_path, change), "operators-not-nested")
    assert finding.severity is severity and f"by up to {over_us:.3f} us" in finding.cause


# -- ranks -------------------------------------------------------------------------------------------------------------


def test_missing_ranks(tmp_path: Path) -> None:
    job(tmp_path, 4)
    for rank in (1, 2):
        (tmp_path / f"host.{rank}.json").unlink()
        (tmp_path / f"device.{rank}.json").unlink()
    finding = one(diagnose(tmp_path), "missing-ranks")
    assert finding.cause == "the run had 4 ranks, but 2 of them have no trace: 1-2"
    assert finding.ranks == (1, 2)


def test_ranks_of_different_jobs(tmp_path: Path) -> None:
    save(tmp_path / "device.0.json", device(0, 2))
    save(tmp_path / "device.1.json", device(1, 4, pid=101))
    diagnosis = diagnose(tmp_path)
    assert one(diagnosis, "different-jobs").cause == "the traces state different numbers of ranks: 2 (1), 4 (1)"
    assert diagnosis.exit_code == 2


def test_ranks_that_recorded_different_steps(tmp_path: Path) -> None:
    for rank, steps in enumerate((3, 3, 2)):
        save(tmp_path / f"device.{rank}.json", device(rank, 3, pid=100 + rank, steps=steps))
    assert one(diagnose(tmp_path), "different-steps").cause == (
        "ranks 2 recorded other steps than most: steps 0 to 1, not steps 0 to 2"
    )


def test_a_rank_without_kernels(tmp_path: Path) -> None:
    documents = job(tmp_path, 2)
    traced = documents[1][1]
    remove(traced, [e for e in traced["traceEvents"] if e.get("cat") in ("kernel", "cuda_sync")])
    save(tmp_path / "device.1.json", traced)
    assert one(diagnose(tmp_path), "ranks-without-kernels").ranks == (1,)


def changed_job(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> Diagnosis:
    """Three ranks; ``change`` gets the collective kernels of the last."""
    documents = job(folder, 3)
    traced = documents[2][1]
    change([e for e in kernels(traced) if e["name"].startswith("nccl")])
    save(folder / "device.2.json", traced)
    return diagnose(folder)


def test_collectives_of_another_size(tmp_path: Path) -> None:
    diagnosis = changed_job(tmp_path, lambda found: found[3]["args"].update({"In msg nelems": 7}))
    assert one(diagnosis, "collective-size").cause == (
        "ranks of group 0 differ about the size of 1 collective, first number 3 (all_reduce): rank 0 4000 bytes, "
        "rank 1 4000 bytes, rank 2 28 bytes"
    )


def test_collectives_of_another_type(tmp_path: Path) -> None:
    diagnosis = changed_job(tmp_path, lambda found: found[1]["args"].update({"Collective name": "broadcast"}))
    finding = one(diagnosis, "collective-kind")
    assert finding.cause.endswith("first number 1: rank 0 all_reduce, rank 1 all_reduce, rank 2 broadcast")
    assert finding.ranks == (2,)
    assert diagnosis.exit_code == 2


def test_collectives_in_another_order(tmp_path: Path) -> None:
    documents = job(tmp_path, 2)
    for rank, places in enumerate(((0, 2), (1, 3))):
        traced = documents[rank][1]
        found = [e for e in kernels(traced) if e["name"].startswith("nccl")]
        for place in places:
            found[place]["args"]["Collective name"] = "broadcast"
        save(tmp_path / f"device.{rank}.json", traced)
    finding = one(diagnose(tmp_path), "collective-order")
    assert "differ about the order of 4 collectives" in finding.cause and "deadlocks" in finding.consequence


def test_another_number_of_collectives(tmp_path: Path) -> None:
    def change(found: list[dict[str, Any]]) -> None:
        found[5].update(name="gemm", args={"device": 2, "stream": 20, "correlation": 999})

    finding = one(changed_job(tmp_path, change), "collective-count")
    assert finding.cause == (
        "rank 2 recorded 5 of the 6 collectives of group 0; the first that it lacks is number 5 (all_reduce)"
    )


def uses(document: Document, launch: dict[str, Any]) -> bool:
    """Whether a kernel belongs to this launch."""
    return any(e["args"]["correlation"] == launch["args"]["correlation"] for e in kernels(document))


def test_a_rank_outside_of_the_group_is_not_missed(tmp_path: Path) -> None:
    documents = job(tmp_path, 3)
    for rank in range(3):
        traced = documents[rank][1]
        found = [e for e in kernels(traced) if e["name"].startswith("nccl")]
        if rank == 2:
            remove(traced, found)
            remove(traced, [e for e in launches(traced) if not uses(traced, e)])
        for kernel in found:
            kernel["args"].update({"Process Group Ranks": "[0, 1]", "Process Group Name": "7"})
        save(tmp_path / f"device.{rank}.json", traced)
    assert not [finding for finding in diagnose(tmp_path).findings if finding.code.startswith("collective")]


def test_clocks_that_are_apart_are_measured_by_the_collectives(tmp_path: Path) -> None:
    for rank in range(2):
        save(tmp_path / f"device.{rank}.json", device(rank, 2, pid=100 + rank, collectives=2, shift=5000 * rank))
    finding = one(diagnose(tmp_path), "clocks-apart")
    assert finding.cause == "the clocks of ranks 1 are up to 5 ms off, by the ends of shared collectives"
    assert finding.evidence == {"shift_ns": {"0": 0, "1": -5_000_000}}


def test_windows_apart_without_collectives(tmp_path: Path) -> None:
    for rank in range(2):
        save(tmp_path / f"device.{rank}.json", device(rank, 2, pid=100 + rank, shift=10_000 * rank))
    assert one(diagnose(tmp_path), "windows-apart").cause.startswith("rank 1 starts 7.01 ms after rank 0 has ended")


# -- real traces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("torch213cpu", 0, {"uneven-ends"}),
        ("resnet103", 1, {"different-processes", "missing-sync-events", "missing-ranks", "missing-record-shapes"}),
        ("mi250", 1, {"different-processes", "missing-sync-events", "uneven-steps"}),
        ("evsyncms", 1, {"different-processes", "missing-record-shapes", "no-profiler-step", "unresolved-sync-events"}),
    ],
)
def test_real_pairs(name: str, code: int, found: set[str], shared_dir: Path) -> None:
    diagnosis = diagnose(shared_dir / "golden" / "chakra" / name)
    assert {finding.code for finding in diagnosis.findings} == found
    assert diagnosis.exit_code == code


def test_the_measure_of_agreement_on_a_real_pair(shared_dir: Path) -> None:
    finding = one(diagnose(shared_dir / "golden" / "chakra" / "resnet103"), "different-processes")
    assert finding.cause.endswith("14,388 of 14,388 operators agree by id and name")
