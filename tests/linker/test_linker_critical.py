"""The flag of edges on the critical path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrasim.demo import TRACES
from chakrasim.linker.api import link
from chakrasim.trace.linked.columns import ON_CRITICAL_PATH, EdgeKind, LinkedTrace
from chakrasim.trace.linked.delays import longest_delay
from made_traces import MadeTrace


def path(linked: LinkedTrace) -> list[int]:
    """The flagged edges, from the last row to end back to the start; each must lead on from the one before."""
    flagged = np.flatnonzero(linked.edge_flags & ON_CRITICAL_PATH)
    into = {int(linked.edge_target[edge]): int(edge) for edge in flagged}
    assert len(into) == len(flagged)
    row, walked = int(np.argmax(linked.end_ns)), []
    while row in into:
        walked.append(into[row])
        row = int(linked.edge_source[into[row]])
    assert sorted(walked) == flagged.tolist()
    return walked


def accounts_for_all_time(linked: LinkedTrace) -> None:
    walked = path(linked)
    rows = [int(np.argmax(linked.end_ns)), *(int(linked.edge_source[edge]) for edge in walked)]
    on_path = linked.duration_ns[rows] + linked.delay_ns[rows]
    assert int(on_path.sum()) == int(linked.end_ns.max() - linked.start_ns.min())
    assert not (linked.edge_kind[walked] == EdgeKind.CONTROL).any()


@pytest.mark.parametrize("rank", range(4))
def test_the_path_accounts_for_all_time_of_a_run(rank):
    accounts_for_all_time(link(TRACES / f"host.{rank}.json.gz", TRACES / f"device.{rank}.json.gz"))


@pytest.mark.parametrize("name", ["alexnet", "evsync", "resnet103", "dlrm_dev"])
def test_the_path_goes_through_synchronisation(shared_dir, name):
    folder = shared_dir / "golden" / "chakra" / name
    linked = link(folder / "host.0.json.gz", folder / "device.0.json.gz")
    accounts_for_all_time(linked)
    kinds = {EdgeKind(kind).name for kind in linked.edge_kind[path(linked)]}
    assert ("SYNC_STREAM" in kinds or "SYNC_EVENT" in kinds) == (name != "resnet103")


def streams(folder: Path, *, recorded: bool, steps: int = 1) -> LinkedTrace:
    """Steps of 1,000 us in which a kernel of 100 us waits for an all-reduce of 700 us on another stream, and the host
    for that kernel. ``recorded``: the wait between the streams is in the trace."""
    trace = MadeTrace()
    for step in range(steps):
        at, number = 1000 * step, 10 * step
        trace.event("user_annotation", f"ProfilerStep#{step}", at, 1000)
        trace.kernel(at + 20, 100, at + 10, name="before")
        trace.kernel(at + 20, 700, at + 12, stream=30)
        if recorded:
            trace.event("cuda_runtime", "cudaEventRecord", at + 14, 1, correlation=number + 1)
            trace.event("cuda_runtime", "cudaStreamWaitEvent", at + 15, 1, correlation=number + 2)
            waits = {"stream": 20, "correlation": number + 2, "wait_on_stream": 30}
            waits |= {"wait_on_cuda_event_record_corr_id": number + 1}
            trace.event("cuda_sync", "Stream Wait Event", at + 15, 1, device=0, **waits)
        trace.kernel(at + 720, 100, at + 17, name="after")
        trace.event("cuda_runtime", "cudaDeviceSynchronize", at + 30, 795, correlation=number + 5)
        trace.event("cuda_sync", "Context Sync", at + 30, 795, device=0, stream=-1, correlation=number + 5)
    return trace.link(folder)


def test_a_wait_that_was_not_recorded_is_found_from_times(tmp_path: Path) -> None:
    paths = streams(tmp_path, recorded=False, steps=2).step_paths
    assert [(path.step, path.path_ns, path.delay_ns) for path in paths] == [(0, 10**6, 7_000), (1, 10**6, 7_000)]


def test_a_wait_that_was_recorded_is_none(tmp_path: Path) -> None:
    (path,) = streams(tmp_path, recorded=True).step_paths
    assert (path.path_ns, path.delay_ns) == (1_000_000, 7_000)
    assert path.delay_only_share == 0.007


def test_without_steps_it_is_the_path_of_the_whole(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.kernel(20, 100, 10)
    trace.kernel(500, 100, None)  # no launch: since the kernel before it nothing explains the time
    (path,) = trace.link(tmp_path).step_paths
    assert (path.step, path.path_ns, path.delay_ns) == (-1, 590_000, 389_000)


def test_the_longest_delay_is_named_and_whether_its_stream_was_recorded_before(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.kernel(5_000, 100, 10, name="held up by what was there before")
    trace.kernel(5_200, 100, 20, name="after it")
    found = longest_delay(trace.link(tmp_path))
    assert found is not None and found.name == "held up by what was there before" and found.begins_stream
    assert found.delay_ns > 4_900_000 and 0.9 < found.share < 1
    assert str(found).endswith("the first work of that stream in the trace")
    trace.kernel(30_000, 100, 30, name="later")
    found = longest_delay(trace.link(tmp_path))
    assert found is not None and found.name == "later" and not found.begins_stream


def test_a_wait_for_what_is_not_in_the_trace_is_a_delay_before_the_first_work_of_its_stream(shared_dir: Path) -> None:
    linked = link(device=shared_dir / "traces/wild/traces/sglang_qwen3_8b_decode.json.gz")
    (path,) = linked.step_paths
    found = longest_delay(linked)
    assert found is not None and found.begins_stream and found.delay_ns > 0.97 * path.path_ns


def test_waits_of_traces_without_records_of_synchronisation_are_found(shared_dir: Path) -> None:
    wild = shared_dir / "traces/wild"
    (path,) = link(device=wild / "reduced/stream_wait_without_event_record.json").step_paths
    assert (path.step, path.path_ns, path.delay_ns) == (1, 1_200_000, 9_000)
    paths = link(device=wild / "traces/ddp_resnet_mi300_rank0.json.gz").step_paths
    assert [path.step for path in paths] == [15, 16, 17]
    assert all(path.delay_only_share < 0.03 for path in paths)


@pytest.mark.parametrize("name", ["alexnet", "evsync", "evsyncms"])
def test_traces_with_all_records_of_synchronisation_have_next_to_none(shared_dir: Path, name: str) -> None:
    folder = shared_dir / "golden/chakra" / name
    linked = link(folder / "host.0.json.gz", folder / "device.0.json.gz")
    assert linked.step_paths and all(path.delay_only_share < 0.001 for path in linked.step_paths)
