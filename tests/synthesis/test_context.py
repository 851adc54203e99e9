"""Jobs in which one operator comes all over, as captured programs have it: its places tell its nodes apart."""

from __future__ import annotations

from itertools import product

import numpy as np

from chakrasim.synthesis.api import learn, synthesize
from chakrasim.synthesis.grammar.context import runs_of
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.job.job import Job, Parameter
from chakrasim.trace.kinds import CollectiveType, NodeType
from synthesis.test_learn import nodes


def captured(layers: int, width: int, ranks: int) -> Job:
    """Forward and backward of layers of two products each; a collective as soon as gradients of 30,000 are there."""
    made = TraceBuilder(metadata={"arguments": f"{layers} {width}", "peak_bytes": width * layers * 7})
    count = gathered = 0

    def add(name: str, operations: int, data: list[int]) -> int:
        nonlocal count
        made.add(count, name, data_deps=data, ctrl_deps=[count - 1] if count else [], attrs={"num_ops": operations})
        count += 1
        return count - 1

    last = add("embed", width, [])
    kept = []
    for _ in range(layers):
        up = add("mm", 8 * width**2, [last])
        last = add("mm", 4 * width**2, [add("act", 2 * width, [up])])
        kept.append((up, last))
    last = add("mm", 1000 * width, [last])
    for up, down in reversed(kept):
        for part, of in ((4, down), (8, up)):
            last = add("mm", part * width**2, [last])
            last = add("mm", part * width**2, [last, of])
            gathered += part * width**2
            if gathered > 30_000:
                made.add(count, "sum", NodeType.COMM_COLL_NODE, ctrl_deps=[last], attrs={
                    "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": gathered, "pg_name": "dp"})  # fmt: skip
                count, gathered = count + 1, 0
    return Job((made.build(),), np.zeros(ranks, np.int64), {"dp": (tuple(range(ranks)),)}, {})


def test_runs_are_found_from_the_outermost_on() -> None:
    one, other = runs_of(np.array([9] + [1, 2, 2, 2, 3] * 3 + [8, 8]))[:2]
    assert one == 9 and not isinstance(other, int)
    assert other.count == 3
    assert [each if isinstance(each, int) else each.count for each in other.body] == [1, 3, 3]


def test_captured_programs_are_learned_from_their_arguments() -> None:
    splits = [*product((2, 3, 4, 6), (32, 40, 48, 96, 128), (2, 4))]
    learned = learn([({"layers": a, "width": b}, captured(a, b, c)) for a, b, c in splits[::2]])
    for layers, width, ranks in ((5, 40, 2), (3, 128, 4), (8, 128, 2)):
        own: dict[str, Parameter] = {"layers": layers, "width": width, "dp": ranks}
        (one,) = synthesize(learned, own)
        wanted = captured(layers, width, ranks).traces[0]
        found = [(name, data) for name, _, data, _, _ in nodes(one.job.traces[0]) if name != "sum"]
        assert [name for name, _ in found] == [wanted.name(i) for i in range(len(wanted)) if wanted.name(i) != "sum"]
        operations = (
            one.job.traces[0].attr("num_ops").integers_or(0).sum(),
            wanted.attr("num_ops").integers_or(0).sum(),
        )
        assert operations[0] == operations[1]


def test_a_number_that_is_one_everywhere_tells_no_iterations() -> None:
    """Collectives of c10d, behind any of three nodes of a layer, do not part the kinds of nodes around them."""

    def job(layers: int, width: int) -> Job:
        made = TraceBuilder(metadata={"arguments": f"{layers} {width}"})
        held = count = 0
        for _ in range(layers):
            for part in (3, 2, 1):
                made.add(count, "mm", ctrl_deps=[count - 1] if count else [], attrs={"num_ops": part * width})
                held, count = held + part * width, count + 1
                if held >= 4096:
                    made.add(count, "c10d::sum", NodeType.COMM_COLL_NODE, ctrl_deps=[count - 1], attrs={
                        "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": held, "pg_name": "dp"})  # fmt: skip
                    held, count = 0, count + 1
        return Job((made.build(),), np.zeros(2, np.int64), {"dp": ((0, 1),)}, {})

    splits = [*product((3, 4, 5, 7), (128, 320, 512, 700, 900))]
    learned = learn([({"layers": a, "width": b}, job(a, b)) for a, b in splits])
    work = [role for role in learned.model.roles if role.type == NodeType.COMP_NODE]
    assert len(work) == 3
