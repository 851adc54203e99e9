"""``chakrasim.estimate``: the time of a training step of a model on a machine, generated and simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from chakrasim.errors import InputError
from chakrasim.estimation.alone import Groups, alone_of, groups_inside, link_inside
from chakrasim.estimation.dispatch import sent_once
from chakrasim.estimation.parts import BUBBLE, parts_of, slowest
from chakrasim.estimation.recipes import recipe_named, usual_recipe
from chakrasim.estimation.request import ModelLike, Request
from chakrasim.estimation.result import StepEstimate
from chakrasim.estimation.simulated import busiest
from chakrasim.estimation.split import spec_of
from chakrasim.estimation.uncertainty import Doubts, kind_of, load_spread
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from os import PathLike

    from chakrasim.config.section import Source
    from chakrasim.generator.layers.tape import Tape
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.generator.transformer import Generated
    from chakrasim.machine import DeviceProfile, Machine
    from chakrasim.simulator.outcome.result import SimulationResult


NO_EFFECT: Final = "the device profile has no effect"
"""What the simulation says of a profile whose times are in the nodes already."""


FRAMEWORKS: Final = {
    "plain": "nothing but the profile", "megatron": "Megatron-LM with Transformer Engine",
    "megatron-experts": "Megatron-LM with Transformer Engine", "torch-eager": "PyTorch, operator by operator",
    "torch-compiled": "PyTorch with torch.compile",
}  # fmt: skip
"""What people call the frameworks of usual recipes."""


def estimate(
    model: ModelLike,
    *,
    machine: Source | Machine,
    gpus: int | None = None,
    nic: str | None = None,
    device_profile: str | PathLike[str] | Mapping[str, Any] | DeviceProfile | None = None,
    strict: bool = False,
    notes: Notes | None = None,
    **asked: Any,
) -> StepEstimate:
    """How long a training step takes, with a 90 % interval.

    Parameters
    ----------
    model:
        A model's name (``llama3-70b``), a transformer spec's file, or the mapping that it holds.
    machine:
        A board such as h100, a preset, a machine file, or a ``Machine``; it needs a device profile.
    gpus, nic:
        How many GPUs of a board, and the speed of its NICs, such as "400G".
    device_profile:
        Instead of the machine's: a shipped device's name, a file such as ``chakrasim calibrate steps`` writes, or a
        profile.
    strict:
        Refuse what does not fit in memory, and anything that would be a warning.
    asked:
        How ranks share the model and what a step is, by the names of `chakrasim.estimation.request.Request`: tp, pp,
        vp, cp, ep, dp_kind, zero, batch (sequences of the whole job), micro_batch, seq, recompute, dtype, compile. What
        is left open is chosen, the split so that it fits in memory, and told in ``assumed``.

    Raises
    ------
    InputError: for unknown models and machines, and for what does not go together.
    """
    from chakrasim.machine import load_device, load_machine

    said = Notes() if notes is None else notes
    unknown = asked.keys() - Request.__dataclass_fields__.keys()
    if unknown:
        raise TypeError(f"estimate() has no argument {sorted(unknown)[0]!r}")
    made = load_machine(machine, said, gpus=gpus, nic=nic)
    if device_profile is not None:
        made = replace(made, profile=load_device(device_profile))
    profile_of(made)
    spec, assumed = spec_of(model, made, Request(**asked))
    found = estimate_step(spec, made, as_usual(spec, assumed), notes=said)
    check_fit(found, said, strict)
    return found


def as_usual(spec: Spec, assumed: Sequence[str]) -> tuple[str, ...]:
    """What is assumed of a spec that is run by the usual recipe."""
    return (*assumed, f"run as by {FRAMEWORKS[usual_recipe(spec)]}")


def profile_of(machine: Machine) -> DeviceProfile:
    """The profile of a machine's device. Raises InputError where there is none."""
    if machine.profile is None:
        raise InputError("the machine has no device profile, which times what is computed",
                         file=machine.name or "machine",
                         expected="a board such as h100, or compute: {profile: NAME} in its file")  # fmt: skip
    return machine.profile


def check_fit(found: StepEstimate, notes: Notes, strict: bool) -> None:
    """Warn of a step that does not fit in memory; ``strict``: raise InputError for it and for any other warning."""
    if not found.fits:
        notes.warn(f"it does not fit in memory: {found.memory_bytes / 1e9:.1f} GB at the peak, the device has "
                   f"{found.memory_capacity_bytes / 1e9:.1f} GB")  # fmt: skip
    notes.refuse(strict)


def estimate_step(
    spec: Spec, machine: Machine, assumed: Sequence[str] = (), *, recipe: str = "", notes: Notes | None = None
) -> StepEstimate:
    """The same for a spec on a machine with a profile and as many ranks as the spec has: generated and simulated.

    Kernels that run one after another are one node each, collectives among them that share links with nothing else
    (`chakrasim.estimation.alone`): that takes a fraction of the time and gives the same step. ``assumed`` is what the
    spec was made with that nobody said; ``recipe`` what a framework makes of the device
    (`chakrasim.estimation.recipes`), by default the usual one of such a spec.
    """
    from chakrasim.generator.layers.condense import condense
    from chakrasim.generator.transformer import generate_transformer
    from chakrasim.simulator.api import simulate

    profile = profile_of(machine)
    if spec.parallel.ranks != machine.ranks:
        raise InputError("the split does not make so many GPUs", file=machine.name or "machine",
                         found=f"{spec.parallel.ranks} ranks", expected=f"{machine.ranks} GPUs")  # fmt: skip
    inside = groups_inside(spec, machine)
    chosen = recipe_named(recipe or usual_recipe(spec))
    spec = replace(spec, launch_ns=chosen.launch_ns(spec))
    durations_ns = chosen.durations_ns(profile, spec, machine.make)
    once = sent_once(spec, machine)
    alone = alone_of(inside, machine, chosen)

    def shortened(tape: Tape) -> Tape:
        return condense(once(tape), durations_ns, alone)

    made = generate_transformer(spec, rewrite=shortened)
    result = simulate(made.job, machine=machine)
    if notes is not None:
        notes.warn(*(warning for warning in result.warnings if not warning.startswith(NO_EFFECT)))
    return _told(made, result, machine, profile, inside, tuple(assumed))


def _told(
    made: Generated, result: SimulationResult, machine: Machine, profile: DeviceProfile, inside: Groups,
    assumed: tuple[str, ...],
) -> StepEstimate:  # fmt: skip
    """What a simulation says of a generated step."""
    from chakrasim.generator.transformer import mesh_text

    spec, seconds, rank = made.spec, result.makespan_ns / 1e9, slowest(result)
    links = [link for link in (busiest(result), link_inside(made, machine, inside, seconds)) if link is not None]
    if result.records:
        parts = parts_of(result, made.job, rank)
    else:
        from chakrasim.estimation.arithmetic import Arithmetic

        parts = Arithmetic(machine).step(spec).parts_s(seconds)
        assumed = (*assumed, "parts are reckoned: of so many nodes single times are not kept")
    moving = sum(value for name, value in parts.items() if name.startswith("comm_"))
    doubts = Doubts(kind_of(spec), profile.name, len(assumed), moving / seconds, parts[BUBBLE] / seconds)
    low, high = load_spread().interval(seconds, doubts)
    return StepEstimate(
        model=spec.model.name,
        machine=machine.name,
        split=mesh_text(spec),
        gpus=machine.ranks,
        step_s=seconds,
        low_s=low,
        high_s=high,
        tokens=made.totals.tokens,
        model_flops=made.totals.model_flops,
        peak_flops=profile.peak_of(spec.dtype if spec.matrix_dtype == "none" else spec.matrix_dtype),
        memory_bytes=max(memory.peak for memory in made.totals.memory),
        memory_capacity_bytes=profile.memory_bytes,
        parts_s=parts,
        rank=rank,
        link=max(links, key=lambda link: link.busy_share, default=None),
        doubts=doubts,
        assumed=assumed,
        power=profile.power,
    )
