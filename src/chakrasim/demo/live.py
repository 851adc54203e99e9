"""The demo with PyTorch: a program observed on two ranks of this machine, then captured for 64."""

from __future__ import annotations

from pathlib import Path

from chakrasim import demo
from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.demo.layout import Say, milliseconds
from chakrasim.errors import InputError
from chakrasim.experiments.live import has_torch, run_command
from chakrasim.simulator.api import replay_recorded, simulate
from chakrasim.text.amounts import percent_text

RANKS = 64
MACHINE = "paper-torus-8x8"


def live(folder: Path, say: Say) -> None:
    """Observe and capture into ``folder``. Raises InputError without PyTorch, or where a command fails."""
    if not has_torch():
        raise InputError(
            "this part of the demo needs PyTorch", remedy="pip install 'chakrasim[torch]', or leave out --live"
        )
    program = str(Path(demo.__file__).with_name("program.py"))
    say("The same kind of program, now: observed on two ranks of this machine ...\n")
    run_command(
        "collect", "--nproc", "2", program, "-o", str(folder / "observed"), "--active", "3", "--stop", "--force"
    )
    report = trace_directory(folder / "observed", folder / "observed-chakra", force=True)
    for step in replay_recorded(report.prefix, "transfer").steps:
        times = f"measured {milliseconds(step.measured_ns)}, simulated {milliseconds(step.simulated_ns)}"
        say(f"  rank {step.rank}, step {step.step}: {times}, delay only {percent_text(step.delay_only_share)}")
    say(f"\n... and captured for {RANKS}, which it never ran on:\n")
    prefix = str(folder / "captured")
    run_command("capture", program, "--world-size", str(RANKS), "--output", prefix, "--device-profile", "v100")
    result = simulate(prefix, machine=MACHINE, device_profile="v100")
    say(f"  on {MACHINE}, computing as on a V100: {milliseconds(result.makespan_ns)}")
