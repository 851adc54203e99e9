"""The demo: a real run, a larger training step on several machines, a large model on 1,024 GPUs."""

from __future__ import annotations

from pathlib import Path

from chakrasim.demo import GROUPS, MACHINES, STEP
from chakrasim.demo.beside import simulator_compiled_beside
from chakrasim.demo.large_model import large_model
from chakrasim.demo.layout import Say, milliseconds, table
from chakrasim.demo.live import live
from chakrasim.demo.real_run import real_run
from chakrasim.report.timeline.simulation import write_timeline
from chakrasim.simulator.api import simulate
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult

HEADER = (
    "machine",
    "congestion",
    "makespan",
    "compute",
    "overlap",
    "exposed comm",
    "idle",
    "after end",
    "busiest link",
)
TIMELINE_OF = ("hgx-h100-16", "aware")


def show(folder: Path, say: Say, *, with_torch: bool = False) -> None:
    """Everything that the demo shows, by way of ``say``; files go into ``folder``. Raises InputError."""
    with simulator_compiled_beside() as wait:
        real_run(folder, say, before_simulating=wait)
    say("")
    training_step(folder, say)
    say("")
    large_model(folder, say)
    if with_torch:
        say("")
        live(folder, say)


def training_step(folder: Path, say: Say) -> None:
    """A step on 16 ranks, on several machines, and a timeline."""
    say("One training step of a transformer on 16 ranks: tensor parallel 4, data parallel 2, pipeline parallel 2,")
    say("4 micro-batches. Shares of the makespan are means over the ranks and sum to 100 %; waiting for a message")
    say("counts as exposed communication. Links have a utilisation where messages contend for them.\n")
    rows = []
    written: Path | None = None
    for name, machine in MACHINES.items():
        for congestion in ("unaware", "aware"):
            result = simulate(STEP, machine=machine, comm_groups=GROUPS, congestion=congestion)
            rows.append((name, congestion, *figures(result)))
            if (name, congestion) == TIMELINE_OF:
                written = folder / f"step-{name}-{congestion}.json.gz"
                write_timeline(result, written)
    say(table([HEADER, *rows]))
    say(f"\nTimeline of {' / '.join(TIMELINE_OF)}: {written} (open it at https://ui.perfetto.dev)")


def figures(result: SimulationResult) -> tuple[str, ...]:
    """The cells of one run, from the makespan on."""
    mean = dict(zip(PARTS, result.parts_ns.mean(axis=0), strict=True))
    shares = (
        f"{100 * mean[part] / result.makespan_ns:.1f} %"
        for part in ("compute", "overlap", "exposed_comm", "idle", "done")
    )
    return (milliseconds(result.makespan_ns), *shares, busiest_link(result))


def busiest_link(result: SimulationResult) -> str:
    """Name and utilisation of the link that was busy longest; a dash where links are not modelled."""
    if result.links is None or not len(result.links.busy_ns):
        return "-"
    link = int(result.links.busy_ns.argmax())
    return f"{result.links.name[link]}, {100 * int(result.links.busy_ns[link]) / result.makespan_ns:.1f} %"
