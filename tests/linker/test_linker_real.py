"""Real traces: recorded times come out again, and every dependency that the reference knows of is there."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linked_checks import BLOCKING, check

from chakrasim.linker.api import link
from chakrasim.linker.rows.replay import replay
from chakrasim.trace.linked.columns import DEVICE_KINDS, EdgeKind, LinkedTrace

PAIRS = ["alexnet", "dlrm_dev", "evsync", "mi250", "nosteps", "resnet103", "resnet111", "simpleadd", "timeline",
         "torch213cpu", "triton"]  # fmt: skip
DEVICES = ["hta/resnet_kineto", "hta/nccl_data", "hta/step_based_trace_2543932", "hta/sampled_rank-0",
           "hta/sampled_rank-1", "hta/multi_stream_event_sync_trace", "param/linear_kineto"]  # fmt: skip
#: Where every work of the device has its launch in the trace.
SYNC = (EdgeKind.EVENT_WAIT, *BLOCKING)


def check_steps(linked: LinkedTrace) -> None:
    """Every step's span comes out again (to the nanosecond: the bar is 5 %)."""
    start, end = replay(linked)
    host = ~linked.is_device
    for step in np.unique(linked.step[linked.step >= 0]):
        rows = host & (linked.step == step)
        recorded = linked.end_ns[rows].max() - linked.start_ns[rows].min()
        assert end[rows].max() - start[rows].min() == recorded
    notes = linked.annotations
    for at in np.flatnonzero(notes.step >= 0):
        rows = host & (linked.step == notes.step[at]) & (linked.lane == notes.thread[at])
        assert linked.start_ns[rows].min() == notes.start_ns[at]
        assert linked.end_ns[rows].max() == notes.start_ns[at] + notes.duration_ns[at]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, shared_dir: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / name
    linked = link(folder / "host.0.json.gz", folder / "device.0.json.gz")
    check(linked)
    check_steps(linked)
    counts = linked.counts
    assert counts["rf_ids_with_equal_names"] >= 0.99 * counts["rf_ids_in_both"] > 0
    assert counts["edges_rejected_circular"] == counts["rows_begun_before_their_sources_ended"] == 0


@pytest.mark.parametrize("name", DEVICES)
def test_devices_alone(name: str, shared_dir: Path) -> None:
    linked = link(device=shared_dir / "traces" / f"{name}.json.gz")
    check(linked)
    check_steps(linked)
    assert linked.counts["unlinked_device_rows"] == linked.counts["edges_rejected_circular"] == 0


def test_work_of_the_device_is_all_there(shared_dir: Path) -> None:
    """gpu_memset, and launches that the reference does not know, included: resnet103 has 3,774 of it."""
    folder = shared_dir / "golden" / "chakra" / "resnet103"
    linked = link(folder / "host.0.json.gz", folder / "device.0.json.gz")
    assert int(linked.is_device.sum()) == 3774
    assert int(linked.duration_ns[linked.is_device].sum()) == 165_185_838
    assert int((linked.edge_kind == EdgeKind.LAUNCH).sum()) == 3774


def test_dlrm_pairs_by_process(shared_dir: Path, tmp_path: Path) -> None:
    """Host schema 1.0.1, without record-function ids: matched by name and order, wholly."""
    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
    devices = {}
    for path in (tmp_path / "dlrm_kineto").iterdir():
        events = json.loads(path.read_text())["traceEvents"]
        devices[next(event["pid"] for event in events if event.get("cat") == "cpu_op")] = path
    hosts = sorted((tmp_path / "dlrm_pytorch_et").iterdir())
    assert len(hosts) == len(devices) == 8
    for path in hosts:
        linked = link(path, devices[json.loads(path.read_text())["pid"]])
        check(linked)
        check_steps(linked)
        assert linked.counts["host_nodes_matched"] == linked.counts["host_nodes"] == 1633
        assert len(linked.communication) == 8


def sync_goldens(shared_dir: Path) -> list[tuple[Path, Path]]:
    """(result of the reference, its trace) where the reference found synchronisation."""
    folder = shared_dir / "golden" / "analysis"
    found = []
    for path in [*sorted(folder.glob("cp_*.json")), *sorted((folder / "syn").glob("*.*.json"))]:
        golden = json.loads(path.read_text())
        if golden.get("all_sync_edges"):
            made = folder / "syn" / f"{path.name.split('.')[0]}.json"
            found.append((path, made if path.parent.name == "syn" else shared_dir / "traces" / golden["trace"]))
    return found


def test_every_synchronisation_that_the_reference_finds(shared_dir: Path) -> None:
    goldens = sync_goldens(shared_dir)
    assert len(goldens) >= 20
    traces: dict[Path, tuple[set[tuple[int, int, bool]], list[dict[str, Any]]]] = {}
    for golden, path in goldens:
        if path not in traces:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                events = json.load(file)["traceEvents"]
            traces[path] = _synchronisation(link(device=path)), events
        ours, events = traces[path]
        for (source, _), (target, side) in json.loads(golden.read_text())["all_sync_edges"]:
            ends = (events[source]["args"]["correlation"], events[target]["args"]["correlation"])
            assert (*ends, side == "S") in ours, (golden.name, source, target)


def _synchronisation(linked: LinkedTrace) -> set[tuple[int, int, bool]]:
    """Edges as (correlation of the work, correlation of what waited, whether that is work of the device)."""
    which = np.isin(linked.edge_kind, SYNC)
    source, target = linked.edge_source[which], linked.edge_target[which]
    on_device = np.isin(linked.kind[target], DEVICE_KINDS)
    columns = (linked.correlation[source], linked.correlation[target], on_device)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_no_synchronisation_ends_after_the_call_returned(shared_dir: Path) -> None:
    for name in ("alexnet", "simpleadd", "evsync", "evsyncms"):
        linked = link(device=shared_dir / "golden" / "chakra" / name / "device.0.json.gz")
        which = np.isin(linked.edge_kind, BLOCKING)
        late = linked.end_ns[linked.edge_source[which]] - linked.end_ns[linked.edge_target[which]]
        assert which.any() and (late <= 1000).all()


def test_false_pairs_of_the_reference_are_counted(shared_dir: Path) -> None:
    for name, count in (("alexnet", 24), ("simpleadd", 24), ("evsync", 0)):
        linked = link(device=shared_dir / "golden" / "chakra" / name / "device.0.json.gz")
        assert linked.counts["false_pairs_of_reference"] == count
