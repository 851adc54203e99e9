"""Random jobs on random small machines: compute, collectives of random groups, messages."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import chakrasim as cs
from chakrasim.machine import Machine, load_network, load_system
from chakrasim.machine.slow import parse_slow
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace import CollectiveType, NodeType, Trace, TraceBuilder

KINDS = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
SIZES = (1024, 65536, 1 << 20)


@dataclass(frozen=True)
class RandomJob:
    traces: list[Trace]
    groups: dict[str, list[int]]
    machine: Machine

    def run(self, slow: dict[int, float] | None = None) -> SimulationResult:
        pairs = [f"{rank}={factor!r}" for rank, factor in (slow or {}).items()]
        machine = replace(self.machine, slow=parse_slow(pairs))
        return cs.simulate(self.traces, machine=machine, comm_groups=self.groups, fold=False)


def random_job(seed: int, issue: str) -> RandomJob:
    """A job of a seed; under astra-sim's issue about every second one cannot end."""
    rng = random.Random(seed)
    ranks = rng.choice([2, 4, 8])
    groups = [tuple(range(ranks))]
    for _ in range(rng.randint(0, 3)):
        groups.append(tuple(sorted(rng.sample(range(ranks), rng.randint(2, ranks)))))
    groups = list(dict.fromkeys(groups))
    programs: list[list[tuple[object, ...]]] = [[("compute", 1)] for _ in range(ranks)]
    for tag in range(rng.randint(5, 25)):
        what = rng.random()
        if what < 0.5:
            programs[rng.randrange(ranks)].append(("compute", rng.choice([1, 2, 5, 10, 50, 100])))
        elif what < 0.8:
            group = rng.randrange(len(groups))
            for rank in groups[group]:
                programs[rank].append(("collective", KINDS[tag % 4], SIZES[tag % 3], str(group + 1)))
        else:
            a, b = rng.sample(range(ranks), 2)
            programs[a].append(("send", b, tag, SIZES[tag % 3]))
            programs[b].append(("recv", a, tag, SIZES[tag % 3]))
    traces = [_trace(rng, program) for program in programs]
    named = {str(i + 1): list(group) for i, group in enumerate(groups)}
    return RandomJob(traces, named, _machine(rng, ranks, issue))


def _trace(rng: random.Random, program: list[tuple[object, ...]]) -> Trace:
    builder = TraceBuilder()
    for i, (what, *given) in enumerate(program):
        deps = [i - 1] if i and rng.random() < 0.7 else [rng.randrange(i)] if i and rng.random() < 0.8 else []
        if what == "compute":
            attrs = {"is_cpu_op": rng.random() < 0.1}
            builder.add(i, f"work {i}", int(NodeType.COMP_NODE), data_deps=deps, duration_micros=given[0], attrs=attrs)
        elif what == "collective":
            kind, size, group = given
            attrs = {
                "is_cpu_op": False,
                "comm_type": int(CollectiveType[str(kind)]),
                "comm_size": size,
                "pg_name": group,
            }
            builder.add(i, str(kind), int(NodeType.COMM_COLL_NODE), data_deps=deps, duration_micros=1, attrs=attrs)
        else:
            peer, tag, size = given
            side, node = (
                ("comm_dst", NodeType.COMM_SEND_NODE) if what == "send" else ("comm_src", NodeType.COMM_RECV_NODE)
            )
            attrs = {"is_cpu_op": False, side: peer, "comm_tag": tag, "comm_size": size}
            builder.add(i, str(what), int(node), data_deps=deps, attrs=attrs)
    return builder.build()


def _machine(rng: random.Random, ranks: int, issue: str) -> Machine:
    shape = rng.choice({2: [(2,)], 4: [(4,), (2, 2)], 8: [(8,), (2, 4), (2, 2, 2)]}[ranks])
    k = len(shape)
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "all-reduce-implementation": [rng.choice(["ring", "direct", "halvingDoubling"]) for _ in range(k)],
        "all-gather-implementation": ["ring"] * k,
        "reduce-scatter-implementation": ["ring"] * k,
        "all-to-all-implementation": ["direct"] * k,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        **rng.choice(
            [{"preferred-dataset-splits": 1}, {"preferred-dataset-splits": 4, "active-chunks-per-dimension": 2}]
        ),
    }
    network = {
        "topology": [rng.choice(["Ring", "Switch", "FullyConnected"]) for _ in shape],
        "npus_count": list(shape),
        "bandwidth": [rng.choice([10.0, 50.0]) for _ in shape],
        "latency": [500.0] * k,
    }
    return replace(Machine(load_network(network), load_system(system)), issue=issue)  # type: ignore[arg-type]
