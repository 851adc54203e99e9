"""``chakrasim.plan``: the best split of a model over GPUs that fits, those next to it, and why they lose."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chakrasim.errors import InputError
from chakrasim.estimation.api import estimate_step
from chakrasim.estimation.request import ModelLike, Request, entries_of
from chakrasim.estimation.split import FILLED, USUAL_TOKENS, node_ranks, powers, spec_of
from chakrasim.files.workers import run_all
from chakrasim.machine import Machine, load_machine
from chakrasim.notes import Notes
from chakrasim.progress import Progress
from chakrasim.startup import cores
from chakrasim.sweeps.points import MEMORY, OK, Outcome, Prepared, all_by_arithmetic, by_reason, prepared, shared
from chakrasim.sweeps.space import Point
from chakrasim.text.amounts import size_text, time_text
from chakrasim.text.shown import Shown

if TYPE_CHECKING:
    from chakrasim.config.section import Source
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.generator.spec.spec import Model

FINALISTS: Final = 10
"""Splits that are simulated: the fastest by arithmetic."""
NEAR: Final = 0.05
"""Or as many more as are within this share of the fastest, up to twice that number."""
_MICRO_BATCHES: Final = (1, 2, 4, 8)
_VIRTUAL: Final = (1, 2, 4)
_RECOMPUTE: Final = ("none", "full")
_ZERO: Final = (None, 3)
"""As usual, and parameters sharded, too, as PyTorch's FSDP does."""


@dataclass(frozen=True)
class Candidate:
    """A split, its step, and, of one that is not the best, what makes it slower and whether the intervals say so."""

    split: Mapping[str, Any]
    step: StepEstimate
    why: str = ""
    apart: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values: the split's keys among the figures of `StepEstimate`."""
        told = {key: value for key, value in self.step.to_json().items() if key not in ("model", "machine", "assumed")}
        told["in_words"] = told.pop("split")
        return {**self.split, **told, **({"why": self.why, "intervals_apart": self.apart} if self.why else {})}


@dataclass(frozen=True)
class Plan(Shown):
    """The outcome of ``chakrasim.plan``; ``tried``: how many splits, ``refused`` of them by reason."""

    model: str
    machine: str
    best: Candidate
    runners_up: tuple[Candidate, ...]
    refused: Mapping[str, int]
    tried: int
    assumed: tuple[str, ...]

    @property
    def overlapping(self) -> int:
        """How many runners-up have an interval that overlaps with that of the best."""
        return sum(not one.apart for one in self.runners_up)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim plan --json`` writes them."""
        return {
            "model": self.model,
            "machine": self.machine,
            "best": self.best.to_json(),
            "runners_up": [one.to_json() for one in self.runners_up],
            "refused": dict(self.refused),
            "tried": self.tried,
            "assumed": list(self.assumed),
        }

    def _in_short(self) -> dict[str, str]:
        return {"best": self.best.step.split, "step": time_text(1e9 * self.best.step.step_s)}


def plan(
    model: ModelLike,
    *,
    machine: Source | Machine,
    gpus: int | None = None,
    nic: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    notes: Notes | None = None,
    **asked: Any,
) -> Plan:
    """The fastest split of a model over a machine's GPUs that fits in memory.

    tp within a node, pp, vp, micro-batches, recomputation, of experts ep and, without pp, parameters sharded (zero 3)
    are tried, all by arithmetic, the fastest by simulation; what is given is kept. All have the same batch.

    Parameters
    ----------
    model, machine, gpus, nic, asked: as of `chakrasim.estimate`.
    jobs: processes; None: as many as there are cores.

    Raises InputError for what cannot be read, and where nothing fits.
    """
    unknown = asked.keys() - Request.__dataclass_fields__.keys()
    if unknown:
        raise TypeError(f"plan() has no argument {sorted(unknown)[0]!r}")
    fixed = {name: value for name, value in asked.items() if value is not None}
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    made = load_machine(machine, Notes() if notes is None else notes, gpus=gpus, nic=nic)
    source = os.fspath(machine) if isinstance(machine, os.PathLike) else machine
    base = {"model": model, "machine": source, "gpus": gpus, "nic": nic, **fixed}
    points, assumed = _points(base, made)
    # Machines that nobody can read again would go to other processes with every point.
    processes = 1 if isinstance(source, Machine) else jobs or cores()
    outcomes = _reckoned(points, processes, progress)
    refused = by_reason(outcomes)
    order = sorted((at for at, one in enumerate(outcomes) if one.status == OK), key=lambda at: outcomes[at].step_s)
    if not order:
        raise _nothing_goes(outcomes, refused, made)
    limit = outcomes[order[0]].step_s * (1 + NEAR)
    near = sum(outcomes[at].step_s <= limit for at in order)
    chosen = [points[at] for at in order[: min(max(near, FINALISTS), 2 * FINALISTS)]]
    steps = list(run_all(_simulated, chosen, processes))
    found = sorted(zip(chosen, steps, strict=True), key=lambda pair: pair[1].step_s)
    best = _candidate(*found[0])
    others = tuple(_candidate(point, step, best.step) for point, step in found[1:])
    return Plan(best.step.model, best.step.machine, best, others, refused, len(points), assumed)


def _points(base: Point, machine: Machine) -> tuple[list[Point], tuple[str, ...]]:
    """What is tried, and what was assumed for all of it."""
    fixed = {name: value for name, value in base.items() if name in Request.__dataclass_fields__}
    spec, _ = spec_of(base["model"], machine, Request(**{"recompute": "full", **fixed}))
    sizes, gpus, assumed = spec.model, machine.ranks, []
    entries = entries_of(base["model"], Request())[0]
    stated = entries["batch"]
    if "batch" not in fixed and (
        "global_batch" in stated or ("micro_batches" in stated and "dp" in entries["parallel"])
    ):
        base = {**base, "batch": spec.batch.global_batch}
        assumed.append(f"the spec's batch of {spec.batch.global_batch:,} sequences")
    elif "batch" not in fixed:
        if "micro_batch" in stated:
            fixed = {"micro_batch": spec.batch.micro_batch, **fixed}
        once = int(fixed.get("micro_batch", 1)) * gpus
        base = {**base, **fixed, "batch": max(round(USUAL_TOKENS / max(sizes.sequence, 1024) / once), 1) * once}
        assumed.append(f"a batch of {base['batch']:,} sequences")
    choices = {
        "tp": [tp for tp in powers(node_ranks(machine)) if sizes.kv_heads % tp == 0],
        "pp": [pp for pp in range(1, sizes.layers + 1) if gpus % pp == 0],
        "vp": _VIRTUAL,
        "micro_batch": _MICRO_BATCHES,
        "recompute": _RECOMPUTE,
        "ep": _experts(sizes, gpus),
        "zero": (None,) if "dp_kind" in fixed else _ZERO,
    }
    found: list[Point] = [base]
    for name, values in choices.items():
        if name not in fixed:
            made = ({**point, name: value} for point in found for value in values)
            found = [point for point in made if _sensible(point, name, gpus)]
    return found, tuple(assumed)


def _experts(sizes: Model, gpus: int) -> tuple[int | None, ...]:
    if sizes.moe is None:
        return (None,)
    return tuple(ep for ep in powers(gpus) if sizes.moe.experts % ep == 0)


def _sensible(point: Point, name: str, gpus: int) -> bool:
    """Whether a key's value goes with those chosen before; what is left out here is nothing that anyone would ask
    for."""
    if name == "pp":
        return gpus % shared(point) == 0
    if name == "vp":
        return bool(point["vp"] == 1 or point["pp"] > 1)
    if name == "micro_batch":
        return bool(point["batch"] % (max(gpus // shared(point), 1) * point["micro_batch"]) == 0)
    if name == "zero":
        return point["zero"] is None or (point["pp"] == 1 and gpus > shared(point))
    return bool(name != "ep" or point["ep"] is None or gpus // shared(point) % point["ep"] == 0)


def _reckoned(points: list[Point], jobs: int, progress: Progress | None) -> list[Outcome]:
    """By arithmetic, points of equal tp together, which share passes."""
    chunks = [points[at : at + 32] for at in range(0, len(points), 32)]
    found: list[Outcome] = []
    for outcomes in run_all(_all_by_arithmetic, chunks, jobs):
        found += outcomes
        if progress is not None:
            progress(len(found), len(points), "splits")
    return found


def _all_by_arithmetic(points: list[Point]) -> list[Outcome]:
    return all_by_arithmetic(points, (), FILLED)


def _simulated(point: Point) -> StepEstimate:
    found = prepared(point, ())
    assert isinstance(found, Prepared)
    return estimate_step(found.spec, found.machine, found.assumed)


def _candidate(point: Point, step: StepEstimate, best: StepEstimate | None = None) -> Candidate:
    keys = ("tp", "pp", "vp", "cp", "ep", "micro_batch", "batch", "recompute", "zero")
    split = {key: point[key] for key in keys if point.get(key) is not None}
    split = {"dp": step.gpus // shared(point), **split}
    if best is None:
        return Candidate(split, step)
    more = {name: step.parts_s.get(name, 0.0) - best.parts_s.get(name, 0.0) for name in {*step.parts_s, *best.parts_s}}
    worst = max(sorted(more), key=lambda name: more[name])
    why = f"{worst} takes {time_text(1e9 * max(more[worst], 0.0))} more"
    return Candidate(split, step, why, step.low_s > best.high_s)


def _nothing_goes(outcomes: list[Outcome], refused: Mapping[str, int], machine: Machine) -> InputError:
    least = min((one.memory_bytes for one in outcomes if one.reason == MEMORY), default=0)
    if not least:
        reason = next(iter(refused), "no split makes these GPUs")
        return InputError("no split goes", file=machine.name or "machine", found=reason, expected="whole replicas")
    capacity = machine.profile.memory_bytes if machine.profile is not None else 0
    return InputError(
        "no split fits in memory", file=machine.name or "machine",
        found=f"{size_text(least)} at least", expected=f"{size_text(int(FILLED * capacity))} of {size_text(capacity)}",
        remedy="more GPUs, or a smaller batch or sequence",
    )  # fmt: skip
