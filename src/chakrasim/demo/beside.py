"""The simulator compiled in a process of its own while the demo reads traces: on two cores a third of its first run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chakrasim import jit
from chakrasim.demo import GROUPS, MACHINES, STEP
from chakrasim.startup import cores, own_environment, own_python


@contextmanager
def simulator_compiled_beside() -> Iterator[Callable[[], object]]:
    """Gives what waits until the simulator is compiled; it need not wait where that is so already, or on one core."""
    if cores() < 2 or not jit.is_cold("simulator"):
        yield lambda: None
        return
    machine = str(next(iter(MACHINES.values())))
    command = own_python("chakrasim", "simulate", str(STEP), "--machine", machine, "--comm-group", str(GROUPS))
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=own_environment(), stdin=quiet, stdout=quiet, stderr=quiet) as compiling:
        try:
            yield compiling.wait
        finally:
            compiling.kill()
