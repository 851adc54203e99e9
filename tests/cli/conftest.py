"""A small job on disk: two ranks, an all-reduce after a computation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chakrasim import jit, write
from chakrasim.cli.main import main
from chakrasim.trace import Trace, TraceBuilder

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 100,
}
NETWORK = "topology: [Switch]\nnpus_count: [2]\nbandwidth: [50.0]\nlatency: [500.0]\n"
MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}


def step(group: str | None = None) -> Trace:
    """20 us of compute, then an all-reduce of 1 MiB."""
    builder = TraceBuilder()
    builder.add(1, name="comp", type=4, duration_micros=20, attrs={"is_cpu_op": False})
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20}
    builder.add(2, name="ar", type=7, data_deps=[1], attrs=attrs | ({"pg_name": group} if group else {}))
    return builder.build()


@dataclass(frozen=True)
class Job:
    """Paths of a workload's prefix and of the configuration files."""

    folder: Path
    prefix: str
    system: str
    network: str
    memory: str

    @property
    def machine(self) -> list[str]:
        return ["--system", self.system, "--network", self.network]

    @property
    def simulate(self) -> list[str]:
        return ["simulate", self.prefix, *self.machine]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write(tmp_path / "w", [step(), step()])
    for name, text in (("system.json", json.dumps(SYSTEM)), ("memory.json", json.dumps(MEMORY)), ("net.yml", NETWORK)):
        (tmp_path / name).write_text(text)
    return Job(tmp_path, *(str(tmp_path / name) for name in ("w", "system.json", "net.yml", "memory.json")))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run the command in this process, without a word about compiling."""
    monkeypatch.setattr(jit, "is_cold", lambda room: False)

    def run(*argv: object) -> Outcome:
        code = main([str(word) for word in argv])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    yield run


@pytest.fixture
def refused(cli: Cli) -> Callable[..., str]:
    """Run the command, which must end with exit code 2 and one message; returns that message."""

    def run(*argv: object) -> str:
        outcome = cli(*argv)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        lines = [line for line in outcome.err.splitlines() if not line.startswith("chakrasim: warning: ")]
        assert len(lines) == 1 and lines[0].startswith("chakrasim: error: "), outcome.err
        return lines[0].removeprefix("chakrasim: error: ")

    return run
