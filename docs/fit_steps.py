"""Fit what frameworks make of devices to a table of measured steps, and how far predictions are off.

    python docs/fit_steps.py src/chakrasim/validation/steps/steps.csv

Every row is generated and simulated with nothing but the device profiles. Its time is then a sum of parts, each with
factors that are sought: of a recipe (`chakrasim.estimation.recipes`), and of the speed that a device keeps in long runs
(`sustained`). Robust least squares of log(time / measured) draw every factor towards what was expected of it. Then each
model on each GPU is predicted by factors fitted without it: these residuals are what intervals are made from.

Written: recipes.yaml, `sustained` in the device files, spread.yaml; with ``--keep`` the last alone. Run twice, as what
hides behind something else is not seen the first time. Needs SciPy.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy.optimize import least_squares

import chakrasim
from chakrasim.estimation.alone import alone_of, groups_inside
from chakrasim.estimation.api import estimate_step
from chakrasim.estimation.dispatch import sent_once
from chakrasim.estimation.recipes import HOPPER, recipe_named
from chakrasim.estimation.uncertainty import Doubts, Residual, coverage, fit_spread
from chakrasim.generator.layers.condense import PARTS, condense
from chakrasim.generator.transformer import generate_transformer
from chakrasim.machine import load_machine
from chakrasim.simulator.api import simulate
from chakrasim.validation.steps.describe import Described, described
from chakrasim.validation.steps.rows import read_steps

PACKAGE = Path(chakrasim.__file__).parent
NOISE, SHARP = 0.06, 5.0
TORCH = {"foundry": "torch-eager", "torch-compiled": "torch-eager", "megatron-experts": "megatron"}
"""Recipes that share another's factor of attention."""

# Expected logarithm and standard deviation, by the first words of a factor's name; the first that fits.
EXPECTED = (
    ("tp megatron-deepspeed", 0.5, 1.0), ("optimizer foundry", 1.0, 0.8), ("other foundry", 0.5, 0.6),
    ("attention megatron", 0.1, 0.2), ("attention", 0.1, 0.35), ("unaligned", 2.0, 0.6), ("tp", 0.0, 0.3),
    ("ep", 0.0, 0.4), ("cp", 0.0, 0.4), ("optimizer", 0.2, 0.8), ("experts", 0.3, 0.3), ("state_space", 0.3, 0.4),
    ("other", 0.2, 0.4), ("device", 0.0, 0.1), ("gap_ns", 0.7, 0.8), ("full_gap_ns", -0.7, 0.8),
    ("host_ns megatron-experts", 4.0, 1.0), ("partial_host_ns megatron-experts", 4.5, 1.0),
    ("full_host_ns megatron-experts", 1.0, 1.0), ("host_ns", 2.0, 1.0), ("partial_host_ns", 1.5, 1.0),
    ("full_host_ns", -1.0, 1.0), ("count_ns", 1.0, 1.0), ("partial_count_ns", 0.5, 1.0), ("full_count_ns", -2.0, 1.0),
    ("token_ns", -0.5, 1.0), ("arm_host", 0.0, 0.6), ("arm_token", 0.0, 1.0),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A measured step: parts of its time with the names of their factors; ``hosts`` are those of the host, beside
    which the device works."""

    id: str
    group: str
    counts: bool
    measured_s: float
    parts: tuple[tuple[tuple[str, ...], float], ...]
    hosts: tuple[tuple[tuple[str, ...], float], ...]
    doubts: Doubts
    predicted_s: float


def row_of(job: tuple[Path, int]) -> Row | None:
    """The row of that number, if it can be described."""
    table = read_steps(job[0])
    row, seconds = table.rows[job[1]], table.measured_s[job[1]]
    try:
        one = described(row)
    except chakrasim.InputError:
        return None
    machine = load_machine(one.board, gpus=one.gpus, nic=one.nic or None)
    step = estimate_step(one.spec, machine, one.assumed, recipe=one.recipe)
    parts, hosts = parts_of(one)
    counts = not math.isnan(seconds) and not row.is_set("reprint") and not row.is_set("noisy_source")
    group = f"{row.get('model', row.id)} on {row.get('gpu')}"
    return Row(row.id, group, counts, seconds, parts, hosts, step.doubts, step.step_s)


def parts_of(one: Described) -> tuple[tuple[tuple[tuple[str, ...], float], ...], ...]:
    """Parts of a step with their factors, in seconds (those of counts: for a millisecond, of kernels a microsecond)."""
    spec, plain = one.spec, recipe_named("plain")
    machine = load_machine(one.board, gpus=one.gpus, nic=one.nic or None)
    assert machine.profile is not None
    recent = machine.make.vendor == "nvidia" and machine.make.capability >= HOPPER
    times, alone = plain.durations_ns(machine.profile, spec, machine.make), alone_of(
        groups_inside(spec, machine), machine, plain)  # fmt: skip
    once = sent_once(spec, machine)
    made = generate_transformer(spec, rewrite=lambda tape: condense(once(tape), times, alone))
    whole = simulate(made.job, machine=machine).makespan_ns / 1e9
    roles = [f"exposed_{role}" for role in ("tp", "ep", "cp")]
    names = (*PARTS, *roles)
    stages = [
        {name: float(trace.attr(f"{name}_ns").integers().sum()) / 1e9 for name in names}
        | {"kernels": float(trace.attr("kernels").integers().sum())}
        for trace in made.job.traces
    ]
    stage = max(stages, key=lambda stage: sum(stage[name] for name in PARTS))
    count, split = spec.batch.micro_batches, spec.parallel
    longer = (count + (split.pp - 1) / split.virtual_stages) / count
    recipe, narrow = one.recipe, spec.matrix_dtype
    speed = f"device {one.board} " + {"none": "default", "nvfp4": "float4"}.get(narrow, "float8")
    attention = [f"attention {TORCH.get(recipe, recipe)}{' recent' if recent else ''}"]
    if spec.model.head_size % 8 and not spec.flash_attention:
        attention.append("unaligned")
    found = [
        ((speed,), stage["matrices"] * longer),
        ((speed, "experts wide" if narrow == "none" else "experts narrow"), stage["experts"] * longer),
        (tuple(attention), stage["attention"] * longer),
        (("state_space",), stage["state_space"] * longer),
        ((f"other {recipe}",), stage["other_compute"] * longer),
        ((f"optimizer {recipe}",), stage["optimizer"]),
        *(((f"{role.removeprefix('exposed_')} {recipe}",), stage[role] * longer) for role in roles),
    ]
    found.append(((), max(whole - sum(seconds for _, seconds in found), 0.0)))
    full = "full_gap_ns" if spec.cuda_graphs == "full" else f"gap_ns {recipe}"
    found.append(((full,), stage["kernels"] * longer * 1e-6))
    layers = sum(spec.model.has_experts(layer) for layer in range(spec.model.layers)) + spec.model.prediction_layers
    prefix = "" if spec.cuda_graphs == "none" else f"{spec.cuda_graphs}_"
    if spec.model.moe is not None:
        times_counted = layers / split.pp * count * longer * 1e-3
        arm = ("arm_host",) if machine.make.cpu == "arm" else ()
        found.append(((f"{prefix}count_ns", *arm), times_counted))
        if spec.cuda_graphs != "full":
            arm = ("arm_token",) if arm else ()
            found.append((("token_ns", *arm), times_counted * spec.tokens / split.tp / 4096))
    hosts = (((f"{prefix}host_ns {recipe}",), stage["kernels"] * 1e-6),)
    return tuple((names, seconds) for names, seconds in found if seconds > 0), hosts


def expected(name: str) -> tuple[float, float]:
    return next((mean, sd) for start, mean, sd in EXPECTED if name.startswith(start))


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Factors by name."""
    names = sorted({name for row in rows for factors, _ in (*row.parts, *row.hosts) for name in factors})
    at = {name: number for number, name in enumerate(names)}
    means, sds = np.array([expected(name) for name in names]).T
    owner, value, host, uses = [], [], [], []
    for number, row in enumerate(rows):
        for is_host, part in ((False, row.parts), (True, row.hosts)):
            for factors, seconds in part:
                owner.append(number)
                value.append(seconds / row.measured_s)
                host.append(is_host)
                uses.append([at[name] for name in factors])
    which = np.zeros((len(value), len(names)))
    for number, used in enumerate(uses):
        which[number, used] = 1
    owners, values, hosts = np.array(owner), np.array(value), np.array(host)
    alike = Counter(row.parts for row in rows)
    weight = np.array([alike[row.parts] ** -0.25 for row in rows])

    def residuals(logs: np.ndarray) -> np.ndarray:
        seconds = values * np.exp(which @ logs)
        device, host_s = (np.bincount(owners, seconds * chosen, len(rows)) for chosen in (~hosts, hosts))
        off = np.log((device**SHARP + host_s**SHARP) ** (1 / SHARP)) / NOISE
        robust = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off * off) - 1))
        return np.concatenate([robust * weight, (logs - means) / sds])

    return dict(zip(names, np.exp(least_squares(residuals, means, max_nfev=60).x).tolist(), strict=True))


def predicted_s(factors: Mapping[str, float], row: Row) -> float:
    """By factors; one that was not fitted is as expected."""

    def total(parts: Iterable[tuple[tuple[str, ...], float]]) -> float:
        return sum(
            seconds * math.prod(factors.get(name, math.exp(expected(name)[0])) for name in names)
            for names, seconds in parts
        )

    return float((total(row.parts) ** SHARP + total(row.hosts) ** SHARP) ** (1 / SHARP))


def left_out(rows: Sequence[Row]) -> dict[str, float]:
    """By row, the prediction of factors fitted without its group."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    found = {}
    for group, own in groups.items():
        factors = fit([row for row in rows if row.group != group])
        found |= {row.id: predicted_s(factors, row) for row in own}
    return found


def errors(said: str, rows: Sequence[Row], seconds: Mapping[str, float]) -> None:
    for kind in sorted({row.doubts.kind for row in rows}):
        off = [abs(seconds[row.id] / row.measured_s - 1) for row in rows if row.doubts.kind == kind]
        print(f"{said}, {kind}: {len(off)} rows, median {100 * np.median(off):.1f} %, "
              f"9 of 10 below {100 * np.percentile(off, 90):.1f} %")  # fmt: skip


def short(value: float) -> float | int:
    found = float(f"{value:.3g}")
    return int(found) if found == int(found) else found


def write_recipes(factors: Mapping[str, float], count: int) -> None:
    """The recipes, those of which no step was seen as expected."""
    path = PACKAGE / "estimation" / "recipes.yaml"
    head, _, rest = path.read_text(encoding="utf-8").partition("recipes:\n")
    content = yaml.safe_load("recipes:\n" + rest)["recipes"]
    of = lambda name: factors.get(name, math.exp(expected(name)[0]))  # noqa: E731
    for recipe in (name for name in content if name not in ("plain", "megatron-2021")):
        attention, own = TORCH.get(recipe, recipe), {}
        for prefix in ("", "partial_", "full_"):
            own[f"{prefix}host_ns"] = 1000 * of(f"{prefix}host_ns {recipe}")
        own |= {"gap_ns": 1000 * of(f"gap_ns {recipe}"), "full_gap_ns": 1000 * of("full_gap_ns")}
        if recipe == "megatron-experts":
            own |= {f"{prefix}count_ns": 1e6 * of(f"{prefix}count_ns") / 2 for prefix in ("", "partial_", "full_")}
            own |= {"token_ns": 1e6 * of("token_ns") / 2 / 4096, "ep": of(f"ep {recipe}")}
            own |= {"arm_host": of("arm_host"), "arm_token": of("arm_token")}
            own |= {
                "experts": of("experts narrow"),
                "wide_experts": of("experts wide"),
                "state_space": of("state_space"),
            }
        ages = [name for name in (f"attention {attention}", f"attention {attention} recent") if name in factors]
        own |= {"attention": of(ages[0]), "recent_attention": of(ages[-1])}
        own |= {"other": of(f"other {recipe}"), "optimizer": of(f"optimizer {recipe}"), "tp": of(f"tp {recipe}")}
        own |= {"cp": of(f"cp {recipe}")} if f"cp {recipe}" in factors else {}
        own |= {"unaligned": of("unaligned")} if recipe == "megatron-deepspeed" else {}
        content[recipe] = {name: short(value) for name, value in own.items()}
    content["megatron-2021"] = {name: value for name, value in content["megatron-deepspeed"].items() if name != "tp"}
    head = re.sub(r"to \d+ of the published", f"to {count} of the published", head)
    path.write_text(head + yaml.safe_dump({"recipes": content}, sort_keys=False), encoding="utf-8")


def write_devices(factors: Mapping[str, float]) -> None:
    """Sustained shares, divided by the factors of time."""
    changes = defaultdict(dict)
    for name, factor in factors.items():
        if name.startswith("device "):
            _, board, dtype = name.split()
            changes[load_machine(board).profile.name][dtype] = factor  # type: ignore[union-attr]
    for device, own in changes.items():
        path = PACKAGE / "machine" / "devices" / f"{device}.yaml"
        text = path.read_text(encoding="utf-8")
        shares = dict(yaml.safe_load(text).get("sustained", {"default": 1.0}))
        shares |= {dtype: round(min(shares.get(dtype, shares["default"]) / factor, 1.0), 3) for dtype, factor in
                   own.items()}  # fmt: skip
        block = "sustained:\n" + "".join(f"  {dtype}: {share}\n" for dtype, share in shares.items())
        text = re.sub(r"^sustained:\n(?:  .*\n)+", "", text, flags=re.M)
        path.write_text(re.sub(r"^processors:", block + "processors:", text, flags=re.M), encoding="utf-8")


def write_spread(rows: Sequence[Row], seconds: Mapping[str, float], said: str) -> None:
    residuals = [Residual(row.id, row.group, row.doubts, seconds[row.id], row.measured_s) for row in rows]
    content = fit_spread(residuals, said)
    path = PACKAGE / "estimation" / "spread.yaml"
    text = yaml.safe_dump(content, sort_keys=False, width=118, allow_unicode=True)
    path.write_text(f"# Written by docs/fit_steps.py.\n{text}", encoding="utf-8")
    print("inside the interval, each group by a spread of the others:",
          {name: round(share, 3) for name, share in coverage(residuals).items()})  # fmt: skip


def main() -> None:
    table, said = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "measured steps"
    count = len(read_steps(table).rows)
    with ProcessPoolExecutor() as workers:
        found = list(workers.map(row_of, [(table, number) for number in range(count)], chunksize=8))
    rows = [row for row in found if row is not None and row.counts]
    errors("as shipped", rows, {row.id: row.predicted_s for row in rows})
    factors = fit(rows)
    fitted = {row.id: predicted_s(factors, row) for row in rows}
    errors("fitted", rows, fitted)
    outside = left_out(rows)
    errors("model on GPU left out", rows, outside)
    # What the sum of parts leaves out beside the simulation is in both.
    write_spread(rows, {row.id: row.predicted_s * outside[row.id] / fitted[row.id] for row in rows}, said)
    if "--keep" not in sys.argv:
        write_recipes(factors, len(rows))
        write_devices(factors)


if __name__ == "__main__":
    main()
