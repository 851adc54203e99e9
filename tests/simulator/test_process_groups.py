"""Process groups that traces carry in metadata nodes."""

from __future__ import annotations

import json

import pytest

import chakrasim as cs

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "preferred-dataset-splits": 1,
    "collective-optimization": "baseline",
    "local-mem-bw": 100,
    "all-reduce-implementation": ["ring"],
}
NETWORK = {"topology": ["Switch"], "npus_count": [4], "bandwidth": [10.0], "latency": [100.0]}


def trace(group: str, declared: object = None) -> cs.Trace:
    """An all-reduce in a group, after a metadata node that declares groups."""
    builder = cs.TraceBuilder()
    if declared is not None:
        builder.add(0, name="## process_group:init ##", type=1, inputs={"values": f"['{json.dumps(declared)}']"})
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "pg_name": group}
    builder.add(1, name="ar", type=7, attrs=attrs)
    return builder.build()


def test_groups_come_from_metadata_nodes() -> None:
    declared = [{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [2, 3]}, {"pg_name": "3", "ranks": []}]
    traces = [trace("1", declared)] * 2 + [trace("2", declared)] * 2
    given = cs.simulate(
        [trace("1")] * 2 + [trace("2")] * 2,
        system=SYSTEM,
        network=NETWORK,
        comm_groups={"1": [0, 1], "2": [2, 3]},
    )
    found = cs.simulate(traces, system=SYSTEM, network=NETWORK)
    assert found.finish_ns.tolist() == given.finish_ns.tolist()
    assert found.counts["skipped nodes (no operation, or a roofline node without a tensor)"] == 4


def test_an_empty_list_means_all_ranks() -> None:
    declared = [{"pg_name": "3", "ranks": []}]
    found = cs.simulate(trace("3", declared), ranks=4, system=SYSTEM, network=NETWORK)
    given = cs.simulate(trace("0"), ranks=4, system=SYSTEM, network=NETWORK)
    assert found.finish_ns.tolist() == given.finish_ns.tolist()


def test_the_file_wins_with_a_warning() -> None:
    declared = [{"pg_name": "1", "ranks": [0, 1]}]
    result = cs.simulate(trace("1", declared), ranks=4, system=SYSTEM, network=NETWORK, comm_groups={"1": [0, 1, 2, 3]})
    assert any("process group 1 is defined otherwise" in warning for warning in result.warnings)


@pytest.mark.parametrize("declared", [17, {"a": 1}, [[1]], [{"pg_name": "x", "ranks": [0]}], [{"ranks": [0]}]])
def test_other_metadata_is_skipped(declared: object) -> None:
    with pytest.raises(cs.InputError, match="communicator group '1' is not known"):
        cs.simulate(trace("1", declared), ranks=4, system=SYSTEM, network=NETWORK)
