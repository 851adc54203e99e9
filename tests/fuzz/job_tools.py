"""Command lines of the tools that make, change and run jobs, and of those that know devices."""

from __future__ import annotations

import job_inputs
import tool_inputs
from damage import Files
from tool import Draw, Tool, odd, some

TYPES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier", "send_recv", "all_pairs")


def _transformer(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    device = ["--device-profile", draw.choice(("h100", "a100", f"{folder}/device.yaml"))] if draw.random() < 0.4 else []
    target = draw.choice((*[f"{out}/s"] * 12, f"{out}/no/such", "", "a\0b"))
    switches = some(draw, "--expand", f"--json {out}/totals.json", "--quiet")
    return ["generate", "transformer", "--spec", f"{folder}/step.yaml", "--output", target, *device, *switches]


def _collective(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    kind = draw.choice((*TYPES * 3, "x", ""))
    size = draw.choice(("1MiB", "1", "4096", "1e3", "2GB", "4611686018427387904", "4EiB", "-1", "0", "", "1.5", "nan"))
    ranks = draw.choice((*"23458" * 3, "1", "0", "-1", "x", "99999999999999999999"))
    words = ["generate", "collective", "--type", kind, "--size", size, "--ranks", ranks]
    words += some(draw, "--repeat 3", "--root 1", "--root 7", "--expand", f"--json {out}/c.json", "--quiet")
    target = draw.choice((*[f"{out}/c"] * 12, f"{out}/no/such", "", "a\0b"))
    return [*words, "--output", target, *odd(draw, "--repeat"), *odd(draw, "--root")]


def _prefix(draw: Draw, folder: str, files: Files) -> str:
    prefix = f"{folder}/job" if any(name.startswith("job.") for name in files) else f"{folder}/chakra"
    return f"{prefix}.ranks.json" if draw.random() < (0.25 if "job.ranks.json" in files else 0.03) else prefix


def _groups(folder: str, files: Files) -> list[str]:
    found = [name for name in ("comm_group.json", "job.comm_group.json") if name in files]
    return ["--comm-group", f"{folder}/{found[0]}"] if found else []


def _retarget(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    to = draw.choice((*("4", "8", "16", "32") * 8, "1", "3", "1048576", "-1", "0", "x"))
    chosen = some(
        draw, "--grow dp", "--grow 0", "--grow 1", "--keep tp", "--keep pp", "--keep 0", "--grow x", chance=0.04
    )
    groups = _groups(folder, files) if draw.random() < 0.2 else []
    switches = some(draw, "--expand", f"--json {out}/r.json", "--quiet") if to != "1048576" else []
    return ["retarget", _prefix(draw, folder, files), "--to", to, "-o", f"{out}/r", *chosen, *groups, *switches]


def _replay(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    if "device.0.json" in files or "host.0.json" in files:
        source = draw.choice((folder, folder, f"{folder}/host", f"{folder}/device.0.json"))
    else:
        source = _prefix(draw, folder, files)
    switches = some(
        draw, "--ranks 2", "--ranks 1", "--ranks 8", "--compute sleep", "--compute matmul", "--blocking", "--quiet",
        "--only all_reduce,message", "--first 2", "--rebalance", "--timestamps", "--compute operators", "--batch 2",
    )  # fmt: skip
    switches += some(draw, f"--json {out}/r.json", f"--csv {out}/r.csv", *_groups(folder, files)[1:0], chance=0.4)
    return ["replay", source, "--dry-run", *switches, *odd(draw, "--ranks"), *odd(draw, "--timeout")]


def _calibrate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["calibrate", "compute", "--data", draw.choice((folder, folder, f"{folder}/H100"))]
    config = next((name for name in ("models.json", "models.yaml") if name in files), None)
    words += ["--model-config", f"{folder}/{config}"] if config and draw.random() < 0.7 else []
    if "device.yaml" in files and draw.random() < 0.5:
        words += ["--device-profile", f"{folder}/device.yaml"]
    words += some(
        draw, "--holdout Llama-3.1-8B", "--holdout x", "--gpu H100", "--gpu V100", "--dtype bfloat16", chance=0.1
    )
    return [*words, *some(draw, f"--output {out}/fitted.yaml", f"--json {out}/c.json", "--quiet", chance=0.4)]


def _simulate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    machine = draw.choice((f"{folder}/machine.yaml", f"{folder}/machine.yaml", "hgx-h100-8"))
    device = ["--device-profile", draw.choice(("h100", f"{folder}/device.yaml"))] if draw.random() < 0.3 else []
    groups = [] if "job.ranks.json" in files and draw.random() < 0.9 else _groups(folder, files)
    limits = ["--max-events", "200000", "--max-bytes", "256MiB", "--max-nodes", "100000"]
    switches = some(
        *(draw, "--no-fold", "--check", "--strict", "--physics", "--lenient", "--ranks 8", "--congestion aware"),
        *(f"--json {out}/s.json", f"--timeline {out}/t.json"),
    )
    if "--check" in switches:
        switches = [word for word in switches if word not in ("--timeline", f"{out}/t.json")]
    return ["simulate", _prefix(draw, folder, files), "--machine", machine, *device, *groups, *limits, *switches]


def _look(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    prefix = _prefix(draw, folder, files)
    traces = [name for name in sorted(files) if name.endswith(".et")]
    one = f"{folder}/{draw.choice((*traces, 'job.ranks.json'))}"
    return draw.choice(
        (
            ["info", draw.choice((prefix, one)), *some(draw, f"--json {out}/i.json", "--lenient")],
            ["timeline", draw.choice((prefix, one)), "-o", f"{out}/t.json"],
            ["jsonize", draw.choice((prefix, one)), "-o", draw.choice(("-", f"{out}/j.json"))],
            ["merge", prefix, "-o", f"{out}/m.et"],
            ["draw", one, "-o", f"{out}/p.svg"],
        )
    )


TOOLS = {
    "generate-transformer": Tool((job_inputs.specs,), _transformer),
    "generate-collective": Tool((tool_inputs.texts,), _collective),
    "retarget": Tool((job_inputs.jobs, job_inputs.jobs, tool_inputs.traces), _retarget),
    "replay": Tool((job_inputs.jobs, job_inputs.jobs, tool_inputs.traces, tool_inputs.jobs), _replay),
    "calibrate": Tool((job_inputs.layer_times,), _calibrate),
    "simulate-job": Tool((job_inputs.jobs,), _simulate, (0, 2, 3)),
    "look-at-job": Tool((job_inputs.jobs,), _look),
}
