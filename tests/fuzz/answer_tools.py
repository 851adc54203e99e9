"""Command lines of the commands that answer questions, and of those that learn, bind and compare."""

from __future__ import annotations

import answer_inputs
import job_inputs
import tool_inputs
from damage import Files
from tool import Draw, Tool, odd, some

LIMITS = ("--max-events", "200000", "--max-bytes", "256MiB", "--max-nodes", "100000")
SIZES = ("--gpus", "--tp", "--pp", "--vp", "--cp", "--ep", "--batch", "--micro-batch", "--seq")


def _machine(draw: Draw, folder: str, files: Files) -> list[str]:
    own = f"{folder}/machine.yaml"
    return ["--machine", draw.choice((own, own, own, "h100", "hgx-h100-8") if "machine.yaml" in files else ("h100",))]


def _sizes(draw: Draw) -> list[str]:
    given = some(draw, "--gpus 8", "--tp 2", "--pp 2", "--batch 8", "--micro-batch 1", "--seq 16", "--nic 200G")
    return [*given, *odd(draw, draw.choice(SIZES)), *odd(draw, "--nic")]


def _estimate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    command = draw.choice((["estimate"], ["estimate"], ["plan", "--jobs", "1"]))
    words = [*command, f"{folder}/step.yaml", *_machine(draw, folder, files)]
    switches = some(draw, "--strict", "--quiet", f"--json {out}/e.json", "--recompute full", "--zero 1", "--dtype fp8")
    return [*words, *_sizes(draw), *switches, *odd(draw, "--dtype")]


def _sweep(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    target = draw.choice((*[f"{out}/s"] * 12, "", "a\0b", f"{folder}/sweep.yaml"))
    search = draw.choice(([], [], [], ["--search"], ["--search", "--runs", "3"], odd(draw, "--runs")))
    return ["sweep", f"{folder}/sweep.yaml", "-o", target, "--jobs", "1", *search, *some(draw, "--resume", "--quiet")]


def _prefix(files: Files, folder: str) -> list[str]:
    groups = [name for name in ("job.comm_group.json",) if name in files and "job.ranks.json" not in files]
    return [f"{folder}/job", *(["--comm-group", f"{folder}/{groups[0]}"] if groups else [])]


def _explain(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["explain", *_prefix(files, folder), *_machine(draw, folder, files), *LIMITS]
    return [*words, *some(draw, "--slow 1=1.3", "--strict", "--quiet", f"--json {out}/e.json"), *odd(draw, "--slow")]


TARGETS = (
    *("all", "compute", "communication", "rank:0", "rank:0-99", "stage:1", "op:gemm", "kind:all-reduce", "link:*", "x"),
    *("node:*", "module:x", "device", "nic", "network[0].bandwidth", "machine", "rank:1&op:gemm", "kernel:a", "", "&"),
)
FACTORS = ("0.5", "1.2", "0", "-1", "nan", "inf", "ideal", "h100", "800G", "900 GB/s", "", "1e300")


RECORDED = ("all", "compute", "communication", "memory", "host")
STRAGGLERS = ("all", "computation", "communication", "forward-compute", "stage:1", "dp_rank:0", "worker:0/1")


def _sets(draw: Draw, sound: tuple[str, ...] = TARGETS[:9]) -> list[str]:
    """Mostly such as make sense, for what is refused there is refused before any file is read."""
    targets, factors = (sound, (*FACTORS[:2], "ideal")) if draw.random() < 0.7 else (TARGETS, FACTORS)
    return [f"--set={draw.choice(targets)}={draw.choice(factors)}" for _ in range(draw.choice((0, 1, 1, 1, 1, 2)))]


def _what_if(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["what-if", *_prefix(files, folder), *_machine(draw, folder, files), *LIMITS, *_sets(draw)]
    chance = some(draw, "--stragglers", f"--scenarios {folder}/scenarios.txt", "--fail-slow 0.1=1.1", chance=0.3)
    drawn = ["--jitter", "0.03", "--draws", "5"] if draw.random() < 0.2 else odd(draw, "--draws")
    return [*words, *chance, *drawn, *some(draw, f"--json {out}/w.json", "--quiet", "--strict")]


def _what_if_recorded(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    path = draw.choice((folder, f"{folder}/device.0.json"))
    return ["what-if", path, *_sets(draw, RECORDED), *some(draw, f"--json {out}/w.json", "--quiet", "--lenient")]


def _experiment(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    name = draw.choice((*["gpu-to-cpu-sync"] * 12, "wiki-tpus", "x"))
    shown = some(draw, f"--json {out}/x.json", f"--report {out}/x.html", "--quiet")
    return ["experiment", name, "--data", f"{folder}/device.0.json", *shown]


def _stragglers(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    (steps,), (meta,) = ([name for name in files if name.endswith(".parquet") == wanted] for wanted in (True, False))
    words = ["what-if", f"{folder}/{steps}", "--meta", f"{folder}/{meta}", *_sets(draw, STRAGGLERS)]
    return [*words, *some(draw, f"--json {out}/w.json", "--draws 5", "--quiet"), *odd(draw, "--seed")]


def _compare(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    pair = draw.choice((("a", "b"), ("a", "b"), ("b", "a"), ("a", "a")))
    switches = some(draw, f"--json {out}/c.json", "--lenient", "--strict", "--step-a 0", "--rank-b 0", "--quiet")
    return ["compare", *(f"{folder}/{name}.json" for name in pair), *switches, *odd(draw, "--step-b")]


def _compare_jobs(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    jobs = [f"{folder}/jobs/{draw.randrange(4)}/job" for _ in range(2)]
    machine = draw.choice((["--machine", "h100"], ["--machine", "hgx-h100-8"], odd(draw, "--machine")))
    return ["compare-jobs", *jobs, *machine, *some(draw, f"--json {out}/c.json", "--lenient", "--quiet")]


def _goodput(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    return ["goodput", "--spec", f"{folder}/job.yaml", *some(draw, f"--json {out}/g.json", "--strict", "--quiet")]


def _predict(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    kind = draw.choice((*("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast") * 3, "x", ""))
    size = draw.choice((["--size", "1MiB"], ["--sizes", "1KiB:1MiB"], ["--sizes", "1:4EiB:2"], odd(draw, "--size")))
    switches = some(draw, "--ranks 4", "--gpus 16", "--nic 200G", f"--json {out}/p.json", "--strict", "--quiet")
    words = ["predict", "collective", *_machine(draw, folder, files), "--collective", kind]
    return [*words, *(size or ["--size", "0"]), *switches, *odd(draw, "--ranks"), *odd(draw, "--library")]


def _learn(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    jobs = draw.choice(([f"{folder}/jobs"], [f"{folder}/jobs/{number}/job" for number in range(4)], [folder]))
    target = draw.choice((*[f"{out}/m.chakrasim-model"] * 12, f"{out}/no/m", "", "a\0b"))
    return ["learn", *jobs, "-o", target, *some(draw, f"--json {out}/l.json", "--lenient", "--strict", "--quiet")]


def _synthesize(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    setting = draw.choice(("layers=2", "hidden=96,dp=2", "tp=3", "layers=-1", "x=1", "dp=1000000", "layers", "", "="))
    words = ["synthesize", f"{folder}/m.chakrasim-model", "-o", f"{out}/s"]
    words += ["--set", setting] if draw.random() < 0.7 else []
    return [*words, *some(draw, "--count 2", "--seed 3", "--expand", f"--json {out}/r.json", "--quiet", "--strict")]


def _obfuscate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    level = draw.choice((*("names", "motifs", "behaviour") * 4, "x", ""))
    source = f"{folder}/jobs" if level == "motifs" or draw.random() < 0.3 else f"{folder}/jobs/{draw.randrange(4)}/job"
    words = ["obfuscate", source, "-o", f"{out}/o", "--level", level, "--machine", draw.choice(("h100", "h100", "x"))]
    key = draw.choice(([], [], ["--key", f"{out}/key"], ["--key", f"{folder}/jobs/0/job.ranks.json"]))
    levels = {"motifs": [*some(draw, "-k 2"), *odd(draw, "-k")], "behaviour": some(draw, "--device-profile h100")}
    return [*words, *key, *levels.get(level, []), *some(draw, "--expand", f"--json {out}/r.json", "--quiet")]


def _bind(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["bind", f"{folder}/pre/job", "--measured", f"{folder}/post", "-o", f"{out}/b"]
    least = some(draw, "--least 0", "--least 0.5", chance=0.5)
    return [*words, *least, *some(draw, f"--json {out}/r.json", "--lenient", "--quiet"), *odd(draw, "--step")]


def _foreign(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    path = f"{folder}/{min(files)}"
    to = draw.choice((["-o", f"{out}/c"], ["--to", "goal", "-o", f"{out}/c.goal"], ["--to", "simai", "-o", f"{out}/c"]))
    ranks = ["--ranks", "16"] if path.endswith(".csv") else []
    return draw.choice(
        (
            ["info", path, *some(draw, f"--json {out}/i.json")],
            ["convert", path, *to, *ranks, *some(draw, "--quiet", f"--json {out}/r.json")],
            ["simulate", path, "--machine", "h100", *(ranks or ["--gpus", "8"]), *LIMITS],
        )
    )


def _fit(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["calibrate", "collectives", "--data", draw.choice((folder, f"{folder}/run.log")), "--machine", "h100"]
    return [*words, *some(draw, f"--output {out}/m.yaml", f"--json {out}/c.json", "--strict", "--quiet")]


def _steps(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    if draw.random() < 0.5:
        return ["validate", "steps", "--data", f"{folder}/steps.csv", *some(draw, f"--json {out}/v.json", "--quiet")]
    device = some(draw, "--device h100", "--device x")
    return ["calibrate", "steps", f"{folder}/steps.csv", *device, *some(draw, f"--output {out}/d.yaml", "--quiet")]


def _flows(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    if "case.json" in files:
        words = [f"{folder}/case.json", *some(draw, "--exact")]
    else:
        words = [f"{folder}/flows.csv", *_machine(draw, folder, files), *some(draw, "--gpus 16", "--routing ecmp")]
    return ["flows", *words, *some(draw, f"--json {out}/f.json", f"--csv {out}/f.csv", "--quiet"), *odd(draw, "--seed")]


TOOLS = {
    "estimate": Tool((answer_inputs.asked,), _estimate),
    "sweep": Tool((answer_inputs.sweeps,), _sweep, aim="sweep"),
    "explain": Tool((job_inputs.jobs,), _explain, (0, 2, 3)),
    "what-if": Tool((answer_inputs.scenarios,), _what_if, (0, 2, 3)),
    "what-if-recorded": Tool((tool_inputs.devices,), _what_if_recorded, (0, 2, 3)),
    "experiment": Tool((tool_inputs.devices,), _experiment, (0, 2, 3)),
    "what-if-stragglers": Tool((answer_inputs.straggler_steps,), _stragglers, odd=True),
    "compare": Tool((answer_inputs.results,), _compare),
    "compare-jobs": Tool((answer_inputs.learned,), _compare_jobs, aim="jobs"),
    "goodput": Tool((answer_inputs.specs_of_goodput,), _goodput),
    "predict": Tool((answer_inputs.machines,), _predict, aim="machine"),
    "learn": Tool((answer_inputs.learned,), _learn, aim="jobs"),
    "synthesize": Tool((answer_inputs.learned,), _synthesize, aim="m."),
    "obfuscate": Tool((answer_inputs.learned,), _obfuscate, aim="jobs"),
    "bind": Tool((answer_inputs.bound,), _bind),
    "foreign": Tool((answer_inputs.foreign,), _foreign, (0, 2, 3)),
    "calibrate-collectives": Tool((answer_inputs.measured_collectives,), _fit),
    "steps": Tool((answer_inputs.measured_steps,), _steps),
    "flows": Tool((answer_inputs.flows,), _flows, (0, 2, 3)),
}
