"""Damaged files in other makers' formats: one of our errors, or a job that makes sense.

``python tests/fuzz/test_fuzz_foreign.py LOW HIGH`` goes through many seeds.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "trace"))

from foreign_texts import AICB, SIMAI, goal
from mutations import LIMITS, MUTATIONS
from seeds import go_through

import chakrasim as cs
from chakrasim.analysis.info.workload import job_info
from chakrasim.errors import ChakrasimError, InputError
from chakrasim.exchange.goal import goal_text, goal_traces
from chakrasim.files import job_formats as kinds
from chakrasim.notes import Notes
from chakrasim.trace import Job
from chakrasim.trace.foreign.aicb import read_aicb
from chakrasim.trace.foreign.goal import read_goal
from chakrasim.trace.foreign.simai import read_simai

Read = Callable[[Path], Job]
READERS: dict[str, Read] = {
    "goal": lambda path: read_goal(path, notes=Notes(), max_bytes=1 << 28),
    "simai": lambda path: read_simai(path, notes=Notes(), max_bytes=1 << 28),
    "aicb": lambda path: read_aicb(path, ranks=16, notes=Notes(), max_bytes=1 << 28),
}
MORE_KIB = 1 << 19
"""Memory that all mutants together may take beyond what there was, and seconds that one may."""
SECONDS = 10.0


def outcome(name: str, seed: int, path: Path) -> str:
    """What becomes of a mutant: "read", "run" or "refused". Anything but one of our errors is raised on."""
    draw = random.Random(f"{name} {seed}")
    intact = {"goal": goal(seed % 20).encode(), "simai": SIMAI.encode(), "aicb": AICB.encode()}
    data = bytearray(intact[name])
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice((*MUTATIONS, *[_line] * 7))(data, draw, intact)
    path.write_bytes(data)
    kinds.kind_of(bytes(data))
    began = time.process_time()
    try:
        job = READERS[name](path)
        if job.ranks <= 1 << 12:
            job_info(job)
        if name == "goal":
            assert sum(map(len, goal_text(goal_traces(job), job.ranks)))
    except InputError as error:
        assert "\n" not in str(error) and str(path) in str(error), error
        return "refused"
    finally:
        assert time.process_time() - began < SECONDS
    if seed % 10 or job.ranks > 64:
        return "read"
    network = [{"topology": "Ring", "npus": job.ranks, "bandwidth": "1 GB/s", "latency": "1 us"}]
    try:
        cs.simulate(job, machine={**_MACHINE, "network": network}, limits=LIMITS)
    except ChakrasimError:
        return "read"
    return "run"


_MACHINE = {
    "format": 1,
    "name": "ring",
    "memory": {"bandwidth": "1 GB/s"},
    "collectives": {"splits": 1, "active-chunks": 1, "endpoint-delay": "0 ns", "optimization": "baseline",
                    "scheduling": "LIFO", "algorithms": dict.fromkeys(
                        ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"), "ring")},
}  # fmt: skip


def _line(data: bytearray, draw: random.Random, _: dict[str, bytes]) -> bytearray:
    """A line twice, away, or at another place; or another number in it."""
    lines = bytes(data).split(b"\n")
    at = draw.randrange(len(lines))
    words = lines[at].split(b" ")
    words[draw.randrange(len(words))] = str(draw.choice((0, 1, 7, 10**5, 10**6, 2**31, 10**19, 10**30))).encode()
    lines[at : at + 1] = draw.choice(([lines[at]] * 2, [], [b" ".join(words)], [lines[at - 1], lines[at]]))
    return bytearray(b"\n".join(lines))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "count"), [(name, 150) for name in READERS] + [(name, 10_000) for name in READERS])
def test_mutants_are_read_or_refused(tmp_path: Path, name: str, count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = [outcome(name, seed, tmp_path / "job") for seed in range(count)]
    assert min(seen.count(what) for what in ("refused", "read", "run")) > count / 500, name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MORE_KIB


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        go_through(lambda seed: outcome([*READERS][seed % 3], seed // 3, Path(folder) / "job"))
