"""Command lines of simulations whose machine is damaged, and of commands that must refuse before they begin."""

from __future__ import annotations

import os

import job_inputs
import machine_inputs
import network_inputs
import tool_inputs
from damage import Files
from tool import Draw, Tool, odd, some

LIMITS = ("--max-events", "200000", "--max-bytes", "256MiB", "--max-nodes", "100000")


def _switches(draw: Draw, out: str) -> list[str]:
    chosen = some(draw, "--no-fold", "--strict", "--physics", "--lenient", "--congestion aware", f"--json {out}/s.json")
    return [*chosen, *draw.choice(([], [], ["--check"], ["--timeline", f"{out}/t.json"]))]


def _own(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    ranks = files["machine.yaml"].decode().partition("npus: ")[2][0]
    words = ["simulate", f"{folder}/job.et", "--ranks", ranks, "--machine", f"{folder}/machine.yaml"]
    return [*words, *LIMITS, *_switches(draw, out)]


def _configured(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    if "machine.yaml" in files:
        machine = ["--machine", f"{folder}/machine.yaml"]
    else:
        machine = ["--system", f"{folder}/system.json", "--network", f"{folder}/network.yml"]
        machine += ["--memory", f"{folder}/memory.json"]
    groups = ["--comm-group", f"{folder}/groups.json"] if draw.random() < 0.9 else []
    return ["simulate", f"{folder}/job", *machine, *groups, *LIMITS, *_switches(draw, out)]


def _machines(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    name = draw.choice(("hgx-h100-8", "h100", f"{folder}/device.yaml", "x", "", "a\0b", "../h100", folder))
    return ["machines", *draw.choice(([name], [name], [name], [], [name, name])), *odd(draw, "--json")]


def _script(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    """Of what is no script, nothing is run."""
    path = f"{folder}/none.py"
    kind = draw.randrange(5)
    if os.path.lexists(path):
        os.unlink(path)
    if kind == 0:
        os.mkfifo(path)
    elif kind < 4:
        os.symlink(("/dev/zero", "none.py", folder)[kind - 1], path)
    words = [draw.choice(("capture", "collect")), path, "-o", draw.choice((f"{out}/c", f"{out}/no/c", "", "a\0b"))]
    if words[0] == "capture":
        words += ["--world-size", draw.choice(("2", "2", "2", "0", "-1", "x", "99999999999"))]
        words += [*odd(draw, "--ranks"), *odd(draw, "--step"), *some(draw, "--cpu", "--expand", f"--json {out}/j.json")]
    return words


def _network(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    (name,) = files
    form = draw.choice(("yaml", "json", "ns3", "simai", "simgrid", "htsim", "graphml", "node-link", "x"))
    written = draw.choice(([], ["-o", f"{out}/net.yaml"], ["-o", f"{out}/net", "--format", form]))
    switches = some(draw, f"--json {out}/n.json", "--strict", "--servers 2", "--fabric rail")
    return ["network", f"{folder}/{name}", *written, *switches, *odd(draw, "--servers")]


TOOLS = {
    "msccl": Tool((machine_inputs.algorithms,), _own, (0, 2, 3), "a.xml"),
    "custom-traces": Tool((machine_inputs.custom_traces,), _own, (0, 2, 3), "own."),
    "machine": Tool((machine_inputs.configurations,), _configured, (0, 2, 3)),
    "network": Tool((network_inputs.networks,), _network),
    "machines": Tool((job_inputs.specs,), _machines),
    "scripts": Tool((tool_inputs.texts,), _script, (2,)),
}
