"""Commands of chakrasim in processes of their own: some of them change PyTorch for as long as they run."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from chakrasim.errors import InputError
from chakrasim.startup import own_environment, own_python


def has_torch() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return find_spec("torch") is not None


def run_command(*words: str) -> None:
    """Run a command. Raises InputError with its last line where it fails."""
    command = own_python("chakrasim", *words)
    done = subprocess.run(command, env=own_environment(), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        said = done.stderr.strip().splitlines()
        raise InputError(f"chakrasim {words[0]} failed", found=said[-1] if said else f"exit code {done.returncode}")


def observe(ranks: int, folder: str) -> None:
    """Record two steps of the tutorial's program on so many ranks of this machine, into a folder."""
    program = str(Path(__file__).with_name("program.py"))
    given = ("--nproc", str(ranks)) if ranks > 1 else ()
    run_command("collect", *given, program, "-o", folder, "--active", "2", "--stop", "--force")
