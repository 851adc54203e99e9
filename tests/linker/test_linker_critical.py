"""The flag of edges on the critical path."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.demo import TRACES
from chakrasim.linker.api import link
from chakrasim.trace.linked import ON_CRITICAL_PATH, EdgeKind, LinkedTrace


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
