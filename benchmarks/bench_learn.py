"""How well programs are learned from generated jobs: laws in jobs not learned from, step times, CPU and memory.

``bench_learn.py --kind dense --train 200 --test 100 --seed 1 [--keep DIR]`` draws jobs by seed, learns from some
and makes the others from their parameters. A law is a number of a kind of node, or how often that comes in a trace; it
is exact if each held-out job has it so in every trace, and of a job's own laws the share is told, too. ``--far``
asks for 1,024 ranks and twice the hidden size. ``--many N`` makes that many jobs of drawn parameters and runs them in
batches.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

import chakrasim as cs
from chakrasim.converter.retarget.job_input import load_job
from chakrasim.errors import ChakrasimError, InputError
from chakrasim.generator.spec.file import load_spec
from chakrasim.notes import Notes
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.roles import Roles
from chakrasim.trace.job.job import Job, Parameter

SHOWN: Final = 30
MACHINES: Final = ("h100", "a100", "mi300x")
KINDS: Final = ("dense", "zero", "experts", "recompute", "schedule", "all")
Laws = dict[tuple[str, str], Any]


def spec_of(kind: str, seed: int, *, far: bool = False) -> dict[str, Any]:
    """A spec by chance, which may not hold together."""
    one = random.Random(f"{kind} {seed}")
    tp, pp = one.choice([1, 2, 4]), one.choice([1, 2, 4])
    dp = one.choice([n for n in (1, 2, 4, 8) if 8 <= n * tp * pp <= 64])
    heads = tp * one.choice([2, 3, 4, 6, 8])
    head_size = one.choice([64, 80, 96, 128])
    hidden = heads * head_size
    model: dict[str, Any] = {
        "layers": pp * one.choice([1, 2, 3, 4]), "hidden": hidden, "heads": heads, "head_size": head_size,
        "feed_forward": tp * one.choice([256, 512, 768, 1024, 1280]), "vocabulary": tp * 128 * one.randint(16, 250),
        "sequence": 128 * one.choice([2, 4, 5, 8, 16]),
    }  # fmt: skip
    batch = {"micro_batch": one.choice([1, 2, 4]), "micro_batches": one.choice([1, 2, 3, 4, 6, 8])}
    spec: dict[str, Any] = {"model": model, "parallel": {"tp": tp, "pp": pp, "dp": dp}, "batch": batch}
    for name in VARIED if kind == "all" else kind.split("+"):
        if name != "dense":
            VARIED[name](spec, one)
    if far:
        spec["parallel"]["dp"] = 1024 // (tp * pp)
        model |= {"hidden": 2 * hidden, "heads": 2 * heads}
    return spec


def _zero(spec: dict[str, Any], one: random.Random) -> None:
    split = spec["parallel"]
    split |= {"zero": one.choice([0, 0, 1, 2, 3]), "sp": split["tp"] > 1 and one.random() < 0.5}


def _experts(spec: dict[str, Any], one: random.Random) -> None:
    split = spec["parallel"]
    spec["model"]["gated"] = one.random() < 0.5
    if one.random() < 0.5:
        split["ep"] = one.choice([n for n in (1, 2, 4) if split["dp"] % n == 0])
        experts = split["ep"] * one.choice([2, 4])
        spec["model"]["moe"] = {"experts": experts, "top_k": one.choice([1, 2]), "every": one.choice([1, 2])}


def _recompute(spec: dict[str, Any], one: random.Random) -> None:
    spec["recompute"] = one.choice(["none", "selective", "full"])


def _schedule(spec: dict[str, Any], one: random.Random) -> None:
    split, pp, kinds = spec["parallel"], spec["parallel"]["pp"], ["1f1b", "gpipe"]
    if pp > 1 and spec["model"]["layers"] % (2 * pp) == 0 and spec["batch"]["micro_batches"] % pp == 0:
        kinds += ["interleaved", "interleaved"]
    spec["schedule"] = one.choice(kinds)
    if spec["schedule"] == "interleaved":
        split["virtual_stages"] = 2


VARIED: Final = {"zero": _zero, "experts": _experts, "recompute": _recompute, "schedule": _schedule}


def jobs_of(kind: str, seeds: Iterator[int], count: int, folder: Path, *, far: bool = False) -> list[Path]:
    """So many jobs, as files that are kept."""
    found: list[Path] = []
    while len(found) < count:
        seed = next(seeds)
        prefix = folder / f"{kind}{'-far' if far else ''}-{seed:06}"
        if not Path(f"{prefix}.ranks.json").exists():
            try:
                cs.write_job(prefix, cs.transformer_job(spec_of(kind, seed, far=far)))
            except InputError:
                continue
        found.append(prefix)
    return found


def laws_of(job: Job) -> Laws:
    """By kind of node and number, what each rank's trace has of it, in order."""
    roles = Roles()
    found: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    firsts = {int(trace): rank for rank, trace in reversed([*enumerate(job.trace_of_rank.tolist())])}
    for at, trace in enumerate(job.traces):
        nodes = roles.nodes(trace)
        own: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for role, numbers in zip(nodes.role, nodes.numbers, strict=True):
            own[role].append(numbers)
        for role, rows in own.items():
            what = roles.known[role]
            title = f"{what.title} {what.attributes}"
            found[title, "count"][firsts[at]] = len(rows)
            for name, column in zip(what.numbers(), zip(*rows, strict=True), strict=True):
                found[title, name][firsts[at]] = np.array(column, np.float64)
    return dict(found)


def same(one: Any, other: Any) -> bool:
    """Whether two jobs have a law alike, to a millionth."""
    if other is None or {*one} != {*other}:
        return False
    return all(np.shape(one[r]) == np.shape(other[r]) and np.allclose(one[r], other[r], rtol=1e-6) for r in one)


def step_ns(job: Job, machine: str) -> int:
    """The step time; 0 where the job does not run."""
    try:
        return cs.simulate(job, machine=cs.load_machine(machine, gpus=job.ranks)).makespan_ns
    except ChakrasimError as fault:
        print("  does not run:", str(fault)[:200])
        return 0


def settings_of(stated: Mapping[str, Parameter], learned: Learned) -> dict[str, Parameter]:
    """What a job states, and for what others state beside it, experts for one, what stands for nothing there. Sizes of
    groups, which nobody states, stay open."""
    known = learned.parameters[0]
    of_specs = {name: type(value)() for name, value in known.items() if "." in name}
    return {name: stated.get(name, of_specs.get(name)) for name in known if name in stated or name in of_specs}


def compared(learned: Learned, tests: list[Path], machines: tuple[str, ...]) -> None:
    """Held-out jobs beside those made from their parameters."""
    wrong: dict[tuple[str, str], int] = defaultdict(int)
    seen: dict[tuple[str, str], int] = defaultdict(int)
    whole = 0
    errors: dict[str, list[tuple[float, str]]] = {name: [] for name in machines}
    begin = time.process_time()
    spent = told = stalled = 0.0
    for prefix in tests:
        wanted, notes = load_job(str(prefix)), Notes()
        try:
            at = time.process_time()
            (made,) = cs.synthesize(learned, settings_of(wanted.parameters, learned), notes=notes)
            spent += time.process_time() - at
        except ChakrasimError as fault:
            print(f"  {prefix.name}: not made: {str(fault)[:300]}")
            stalled += 1
            continue
        told += bool(notes.warnings)
        theirs, ours = laws_of(wanted), laws_of(made.job)
        off = [what for what in {*theirs, *ours} if what not in theirs or not same(theirs[what], ours.get(what))]
        whole += not off
        for what in {*theirs, *ours}:
            seen[what] += 1
        for what in off:
            wrong[what] += 1
        for machine in machines:
            real, got = step_ns(wanted, machine), step_ns(made.job, machine)
            stalled += not got
            errors[machine].append((abs(got / real - 1) if got else np.inf, prefix.name))
    exact, own = len(seen) - len(wrong), 1 - sum(wrong.values()) / max(sum(seen.values()), 1)
    print(f"laws on {len(tests)} held-out jobs: {exact} of {len(seen)} exact in all ({exact / max(len(seen), 1):.2%});"
          f" of each job's own {own:.2%}; {whole} jobs equal in all")  # fmt: skip
    for (title, name), count in sorted(wrong.items(), key=lambda each: -each[1])[:SHOWN]:
        print(f"  wrong in {count} of {seen[title, name]}: {title.split(' ((')[0]}: {name}")
    for machine, own in errors.items():
        if not own:
            continue
        off_by = np.array([error for error, _ in own])
        worst = ", ".join(f"{name} {error:.1%}" for error, name in sorted(own, reverse=True)[:4])
        print(f"step time on {machine}: median {np.median(off_by):.3%}, p90 {np.quantile(off_by, 0.9):.3%};"
              f" worst {worst}")  # fmt: skip
    print(f"stalled or not made {stalled:g}; told something {told:g} of {len(tests)};"
          f" CPU {time.process_time() - begin:.1f} s, of it made in {spent:.1f} s")  # fmt: skip


def many(learned: Learned, kind: str, count: int, seed: int) -> None:
    """Jobs of unseen parameters, made and run in batches."""
    made, ran, ranks, nodes = 0, 0, 0, 0
    begin, spent = time.process_time(), 0.0
    for number in range(seed * 100_000 + 80_000, 10**9):
        if made == count:
            break
        try:
            spec = asdict(load_spec(spec_of(kind, number)))
        except InputError:
            continue
        at = time.process_time()
        (one,) = cs.synthesize(learned, settings_of(dict(_flat(spec)), learned), notes=Notes())
        spent += time.process_time() - at
        made, ranks, nodes = made + 1, ranks + one.job.ranks, nodes + one.nodes
        ran += step_ns(one.job, MACHINES[0]) > 0
        if made % 500 == 0 or made == count:
            print(f"  {made} made in {spent:.0f} s CPU, {ran} ran, all in {time.process_time() - begin:.0f} s;"
                  f" mean {ranks / made:.1f} ranks, {nodes / made:,.0f} nodes", flush=True)  # fmt: skip


def _flat(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, (int, float, str)):
            yield before + name, value


def main() -> None:
    """Draw, learn, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="dense", help=f"{', '.join(KINDS)}, or several such as zero+experts")
    parser.add_argument("--train", type=int, default=60)
    parser.add_argument("--test", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn: jobs are those of seed * 100,000 and on")
    parser.add_argument("--machines", type=int, default=1, help="on how many of three machines steps are simulated")
    parser.add_argument("--far", type=int, default=0, help="jobs of 1,024 ranks and twice the hidden size")
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--model", type=Path, help="a model that was learned before")
    parser.add_argument("--keep", type=Path, default=Path("build/bench-learn"), help="where jobs are kept")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    seeds = iter(range(options.seed * 100_000, (options.seed + 1) * 100_000))
    train = [] if options.model else jobs_of(options.kind, seeds, options.train, options.keep)
    tests = jobs_of(options.kind, iter(range(options.seed * 100_000 + 50_000, 10**9)), options.test, options.keep)
    model = options.keep / f"{options.kind}-{options.seed}-{options.train}.chakrasim-model"
    if options.model:
        learned = cs.read_model(options.model)
    else:
        begin = time.process_time()
        learned = cs.learn([*map(str, train)])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        spent = time.process_time() - begin
        cs.write_model(model, learned)
        print(f"{options.kind}: {len(train)} jobs, learned in {spent:.1f} s CPU, {peak:.2f} GB peak,"
              f" {len(learned.model.roles)} kinds, {len(learned.lost)} lost, {model.stat().st_size:,} bytes",
              flush=True)  # fmt: skip
        for text, off in sorted(learned.lost.items(), key=lambda each: -each[1])[:SHOWN]:
            print(f"  lost: {text}, off by {off:.1%}")
    if tests:
        compared(learned, tests, MACHINES[: options.machines])
    if options.far:
        seeds = iter(range(options.seed * 100_000 + 70_000, 10**9))
        compared(learned, jobs_of(options.kind, seeds, options.far, options.keep, far=True), MACHINES[:1])
    if options.many:
        many(learned, options.kind, options.many, options.seed)


if __name__ == "__main__":
    main()
