"""Every tool on damaged inputs: it ends with its result or with one message, and leaves no half-written file.

``python tests/fuzz/test_fuzz_tools.py TOOL LOW HIGH`` runs the seeds of a tool from LOW up to HIGH.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import answer_tools
import job_tools
import machine_tools
import pytest
import tool_inputs
from damage import Files, damaged, no_file
from seeds import keep_what_stays, watched
from tool import ODD, Draw, Tool, odd, some

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.files.inputs import LEAST_BYTES
from chakrasim.synthesis.file import read_model
from chakrasim.trace import parse_trace

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_TOOL_SEEDS", "15"))
LONGEST_S, EACH_FILE_S = 10, 0.005
"""Processor time that a run may take, and for each file that it was asked to write: thousands, of as many ranks."""


def _doctor(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    chosen = ["--map", f"{folder}/map.json"] if "map.json" in files else []
    return ["doctor", folder, *chosen, *some(draw, f"--json {out}/d.json", "--quiet")]


def _trace(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    chosen = ["--map", f"{folder}/map.json"] if "map.json" in files else []
    switches = some(draw, "--strict", "--lenient", "--quiet", "--step 0", f"--json {out}/r.json", chance=0.1)
    return ["trace", folder, "-o", f"{out}/t", "--jobs", "1", *chosen, *switches]


def _link(draw: Draw, folder: str, out: str, files: Files, compat: bool = False) -> list[str]:
    kinds = draw.choice((("host", "device"), ("host", "device"), ("host",), ("device",)))
    if compat:
        kinds = ("host", "device")
    given = [word for kind in kinds for word in (f"--{kind}", f"{folder}/{kind}.0.json")]
    if compat:
        return ["link", *given, "--rank", "0", "-o", f"{out}/l.json", "--compat", "chakra"]
    switches = some(draw, "--strict", "--lenient", "--step 0", "--rank 3", f"--json {out}/r.json", chance=0.1)
    return ["link", *given, "-o", f"{out}/l.json{draw.choice(('', '', '.gz'))}", *switches, *odd(draw, "--step")]


def _link_compat(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    return _link(draw, folder, out, files, compat=True)


def _convert(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    switches = some(draw, f"--json {out}/r.json", "--quiet")
    return ["convert", f"{folder}/linked.0.json", "-o", f"{out}/c.et{draw.choice(('', '', '.gz'))}", *switches]


def _convert_compat(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    check = some(draw, f"--simulate --log-filename {out}/s.log")
    given = ["--input", f"{folder}/linked.0.json", "--output", f"{out}/c.et", "--compat", "chakra"]
    return ["convert", "PyTorch", *given, *check]


def _text(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    given = ["convert", "Text", "--input", f"{folder}/w.txt", "--output", f"{out}/c", "--num-npus", draw.choice("1234")]
    return [*given, "--num-passes", draw.choice("0123"), *some(draw, "--compat chakra", chance=0.5)]


ANALYSES = {
    "summary": (),
    "temporal": ("--no-steps",),
    "overlap": ("--no-steps",),
    "kernels": ("--top 3",),
    "idle": ("--kernel-gap-us 1",),
    "queue": ("--series", "--full 2"),
    "launches": ("--all", "--no-copies", "--long-call-us 0"),
    "bandwidth": ("--series", "--counters {out}/c.json"),
    "annotations": ("--work",),
    "operators": (),
    "sequences": ("--operator aten", "--least 1", "--top 2"),
    "serving": ("--rank 0",),
    "stragglers": ("--step 0", "--candidates 1"),
    "compare": ("--short-names", "--side host", "--step-a 0"),
    "collectives": ("--most 3",),
    "critical-path": ("--overlay {out}/o.json", "--show-all", "--zero-weight-launch-edges", "--instance 0"),
}


def _analyze(draw: Draw, folder: str, out: str, files: Files, compat: bool = False) -> list[str]:
    names = [name for name in ANALYSES if not compat or name not in ("collectives", "serving")]
    name = draw.choice((*names, "critical-path", *(() if compat else ("collectives",))))
    first = f"{folder}/device.0.json"
    traces = [first, draw.choice((first, folder))] if name == "compare" else [draw.choice((first, folder))]
    if name == "collectives":
        traces = [folder]
    elif name == "critical-path":
        traces = [first]
        traces += draw.choice(([], ["--annotation", ""], ["--annotation", "ProfilerStep"], ["--annotation", "forward"]))
        traces += ["--instance", draw.choice(("none", "0", "0:1"))] if draw.random() < 0.4 else []
    switches = [option.format(out=out) for option in ANALYSES[name]]
    common = [f"--json {out}/a.json", "--quiet", "--strict", "--lenient"]
    mode = ["--compat", draw.choice(("hta", "hta-pinned"))] if compat else []
    common = common[:2] if name == "collectives" else common
    return ["analyze", name, *traces, *mode, *some(draw, *switches), *some(draw, *common, chance=0.3)]


def _analyze_compat(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    return _analyze(draw, folder, out, files, compat=True)


def _info(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    name = draw.choice([name for name in sorted(files) if name != "comm_group.json"])
    path = f"{folder}/{name}"
    if name.endswith(".et") and name.startswith("chakra") and draw.random() < 0.4:
        path = f"{folder}/chakra"
    return ["info", path, *some(draw, f"--json {out}/i.json", "--lenient")]


def _jsonize(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    target = draw.choice(("-", f"{out}/j.json"))
    return ["jsonize", f"{folder}/chakra.0.et", "-o", target, *some(draw, "--compat chakra", "--lenient", chance=0.4)]


def _draw(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    suffix, by = draw.choice(("dot", "graphml", "svg")), draw.choice(("auto", "module", "stream", "none"))
    mode = some(draw, "--compat chakra", "--lenient", chance=0.3)
    return ["draw", f"{folder}/chakra.0.et", "-o", f"{out}/p.{suffix}", "--by", by, *mode]


def _timeline(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    names = [f"{folder}/{name}" for name in sorted(files) if name not in ("comm_group.json", "map.json")]
    if "run.log" in files:
        names += some(draw, "--num-npus 2", "--npu-frequency 1000", "--compat chakra", chance=0.7)
    elif "device.0.json" in files and draw.random() < 0.3:
        names = [folder]
    return ["timeline", *names, "-o", f"{out}/t.json{draw.choice(('', '.gz'))}", *odd(draw, "--npu-frequency")]


def _split(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    return ["split", f"{folder}/all.et", "-o", f"{out}/s"]


def _merge(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    return ["merge", f"{folder}/chakra", "-o", f"{out}/m.et{draw.choice(('', '.gz'))}", *some(draw, "--ranks 2")]


def _generate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    words = ["generate", draw.choice((*["reference-set"] * 20, "x", ""))]
    for option in ("--default-runtime", "--default-tensor-size", "--default_comm_size"):
        if draw.random() < 0.3:
            words += [option, draw.choice((*ODD, *("5", "100", "4611686018427387904", "9223372036854775807") * 6))]
    ranks = draw.choice((*"11222333" * 2, "-1", "0", "x", "", "1048577", "99999999999999999999", "1.5"))
    occupied = f"{folder}/w.txt" if os.path.isfile(f"{folder}/w.txt") else ""
    target = draw.choice((*[out] * 12, f"{out}/no/such", "", "a\0b", occupied))
    words += ["--num-npus", ranks, "--output-dir", target, *some(draw, "--force", "--quiet")]
    return [*words, *some(draw, "--wrong 1", chance=0.02)]


def _simulate(draw: Draw, folder: str, out: str, files: Files) -> list[str]:
    groups = ["--comm-group", f"{folder}/comm_group.json"] if "comm_group.json" in files else []
    machine = draw.choice(([], [], ["--machine", "hgx-h100-8"]))
    mode = draw.choice(("--replay-durations", "--replay-durations=recorded", "--replay-durations=transfer"))
    limits = ["--max-events", "200000", "--max-bytes", "256MiB", "--max-nodes", "100000"]
    ranks = ["--ranks", "2"] if "chakra.1.et" in files and draw.random() < 0.7 else []
    switches = some(
        draw, "--common-start", "--lenient", "--no-fold", f"--json {out}/s.json", f"--timeline {out}/t.json"
    )
    return ["simulate", f"{folder}/chakra", *ranks, *groups, *machine, mode, *limits, *switches]


TOOLS = {
    "doctor": Tool((tool_inputs.jobs,), _doctor, (0, 1, 2)),
    "trace": Tool((tool_inputs.jobs,), _trace),
    "link": Tool((tool_inputs.pairs,), _link),
    "link-compat": Tool((tool_inputs.pairs,), _link_compat),
    "convert": Tool((tool_inputs.linked,), _convert),
    "convert-compat": Tool((tool_inputs.reference_linked,), _convert_compat),
    "convert-text": Tool((tool_inputs.texts,), _text),
    "analyze": Tool((tool_inputs.devices,), _analyze),
    "analyze-compat": Tool((tool_inputs.devices,), _analyze_compat),
    "info": Tool((tool_inputs.traces, tool_inputs.devices, tool_inputs.pairs, tool_inputs.linked), _info),
    "jsonize": Tool((tool_inputs.traces,), _jsonize),
    "draw": Tool((tool_inputs.traces,), _draw),
    "timeline": Tool(
        (tool_inputs.traces, tool_inputs.devices, tool_inputs.linked, tool_inputs.logs, tool_inputs.logs), _timeline
    ),
    "split": Tool((tool_inputs.masters,), _split),
    "merge": Tool((tool_inputs.traces,), _merge),
    "generate": Tool((tool_inputs.texts,), _generate),
    "simulate": Tool((tool_inputs.traces,), _simulate, (0, 2, 3)),
    **job_tools.TOOLS,
    **machine_tools.TOOLS,
    **answer_tools.TOOLS,
}


def _prepare(tool: Tool, draw: Draw, folder: Path) -> Files:
    """Write an input of the tool into the folder, one or two files of it damaged or missing."""
    intact = draw.choice(draw.choice(tool.inputs)())
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    files = dict(intact)
    aimed = [name for name in sorted(files) if name.startswith(tool.aim)]
    chosen = aimed if tool.aim and draw.random() < 0.8 else sorted(files)
    many = draw.choice((0, 0, 0, 1, 2) if tool.odd else (1, 1, 1, 2, 4))
    for name in draw.sample(chosen, min(len(chosen), many)):
        files[name] = damaged(name, files, draw)
    lost = draw.choice(sorted(files)) if draw.random() < 0.06 else ""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name != lost:
            (folder / name).write_bytes(data)
        elif draw.random() < 0.8:
            no_file(folder / name, draw)
    return intact


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``wrong`` says what it did that no run may do."""

    words: list[str]
    code: int
    said: str
    wrong: str


def _used_s() -> float:
    """Processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_seed(name: str, seed: int, folder: Path, *, compiled: bool = False) -> Outcome:
    """Carry out the run that belongs to a seed, in two folders below ``folder``; ``compiled``: nothing else is left to
    be compiled."""
    draw = random.Random(f"{name} {seed}")
    source, out = folder / "in", folder / "out"
    source.mkdir(exist_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    tool = TOOLS[name]
    files = _prepare(tool, draw, source)
    before = sorted(os.listdir(source))
    words = tool.words(draw, str(source), str(out), files)
    printed, said = io.StringIO(), io.StringIO()
    started = _used_s()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("default", ResourceWarning)
            code = main(words)
    except BaseException:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            raise
        return Outcome(words, -1, said.getvalue(), traceback.format_exc())
    finally:
        elapsed = _used_s() - started
    late = elapsed > LONGEST_S + EACH_FILE_S * sum(len(names) for *_, names in os.walk(out))
    if late and not compiled:
        return run_seed(name, seed, folder, compiled=True)
    wrong = list(_wrong(tool, code, said.getvalue(), words, out))
    if late:
        wrong.append(f"it took {elapsed:.1f} s")
    if sorted(set(os.listdir(source)) - {"none.py"}) != before:
        wrong.append("it changed the folder of its inputs")
    return Outcome(words, code, said.getvalue(), "; ".join(wrong))


def _wrong(tool: Tool, code: int, said: str, words: list[str], out: Path) -> Iterator[str]:
    if code not in tool.codes:
        yield f"it ended with {code}"
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("chakrasim: error: ")]
    for line in lines:
        if not line.startswith("chakrasim: ") and not (code == 3 and line.startswith("  ")):
            yield f"it said {line!r}"
            break
    # What cannot end is all that a run of flows has to tell of it: their ends are there, and a warning.
    stuck = words[0] == "flows" and code == 3 and " cannot end: " in said
    failed = bool(errors) if words[0] == "doctor" else code in (2, 3) and not stuck
    if len(errors) != failed:
        yield f"it ended with {code} and {len(errors)} messages of errors"
    for text in ("Traceback", "RuntimeWarning", "Error(", "site-packages"):
        if text in said:
            yield f"it said {text!r}"
    left = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    if any(name.endswith(".part") or "/." in name or name.startswith(".") for name in left):
        yield f"it left {left}"
    elif left and failed and not _may_stay(words, left):
        yield f"it failed and left {left}"
    if code in (0, 1):
        yield from _not_json(words, out)
        yield from _not_read(out)


def _may_stay(words: list[str], left: list[str]) -> bool:
    """Of what HTA or the simulation cannot do, the JSON tells so as well."""
    return "--compat" in words and words[0] == "analyze" and left == ["a.json"]


def _not_json(words: list[str], out: Path) -> Iterator[str]:
    if "--compat" in words:
        return
    for path in out.rglob("*.json"):
        # Copies of the trace with additions, whose words stay as they are; lines of JSON of a sweep not yet ended.
        if path.name in ("o.json", "c.json") or path.parent.name == "parts":
            continue
        try:
            json.loads(path.read_bytes(), parse_constant=_refuse)
        except (ValueError, RecursionError) as fault:
            yield f"{path.name} is no JSON: {fault}"


def _not_read(out: Path) -> Iterator[str]:
    """Traces and models that were written and cannot be read."""
    written = [*out.rglob("*.et"), *out.rglob("*.chakrasim-model")]
    for path in sorted(written)[:4]:
        try:
            read_model(path) if path.suffix == ".chakrasim-model" else parse_trace(path.read_bytes())
        except InputError as fault:
            yield f"{path.name} cannot be read: {fault}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} in it")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(TOOLS))
def test_damaged_inputs_end_with_a_result_or_one_message(name: str, tmp_path: Path) -> None:
    codes = set()
    for seed in range(SEEDS):
        outcome = run_seed(name, seed, tmp_path)
        assert not outcome.wrong, f"seed {seed}: {outcome.words}\n{outcome.wrong}\n{outcome.said}"
        codes.add(outcome.code)
    assert codes - {2} or TOOLS[name].codes == (2,) or SEEDS < 15, (
        "no damage was so small that the tool could do its work"
    )


def _loop(name: str, low: int, high: int) -> None:
    """Run the seeds, print what goes wrong; one line at the end."""
    faulthandler.enable()
    keep_what_stays()
    memory_disk = "/dev/shm" if os.path.isdir("/dev/shm") else None
    found: dict[int, int] = {}
    bad, begun = 0, watched(30 * LONGEST_S)
    slowest, largest = (0.0, -1), (0, -1)
    with tempfile.TemporaryDirectory(dir=memory_disk) as folder:
        for seed in range(low, high):
            begun()
            print(f"{name} {seed}", file=sys.stderr, end="\r", flush=True)
            memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, _used_s()
            outcome = run_seed(name, seed, Path(folder))
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            slowest = max(slowest, (_used_s() - started, seed))
            found[outcome.code] = found.get(outcome.code, 0) + 1
            wrong = outcome.wrong
            if seed > low and grown > LEAST_BYTES >> 10:
                wrong += f"; took {grown >> 10} MiB, more than a reader may that is not asked to"
            if wrong:
                bad += 1
                print(f"== {name} {seed}: {' '.join(outcome.words)}\n{wrong}\n{outcome.said[:600]}", flush=True)
            elif seed > low and grown > largest[0]:
                largest = (grown, seed)
    faulthandler.cancel_dump_traceback_later()
    print(
        f"{name} {low}..{high}: codes {found}, {bad} wrong, slowest {slowest[0]:.2f} s at {slowest[1]}, "
        f"most memory {largest[0] >> 10} MiB at {largest[1]}",
        flush=True,
    )


if __name__ == "__main__":
    _loop(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
