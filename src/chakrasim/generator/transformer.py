"""One training step of a transformer, as the Chakra traces of all ranks.

Every pipeline stage is one trace, which all its ranks share: those that differ in data or tensor position do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.generator import formulas
from chakrasim.generator.layers.parameters import stage_parameters
from chakrasim.generator.layers.passes import ChunkPass, optimizer_pass
from chakrasim.generator.layers.tape import Tally, Tape
from chakrasim.generator.memory import Memory, stage_memory
from chakrasim.generator.mesh import process_groups
from chakrasim.generator.program import Step, build_trace
from chakrasim.generator.schedule import Turn, turns
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.spec import Spec
from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job, Parameter

if TYPE_CHECKING:
    from chakrasim.machine.device.profile import DeviceProfile

WAYS = ("load", "store")
PRODUCER = "chakrasim generate transformer"


@dataclass(frozen=True)
class Totals:
    """What a job amounts to, over all ranks.

    Attributes
    ----------
    model_flops: operations of matrix products, nothing computed twice.
    recomputed_flops: those computed again because the spec says so.
    flash_flops: those with which flash attention's backward kernels repeat the scores.
    other_flops: of everything else, roughly; without sequence parallelism, tensor-parallel ranks repeat norms.
    parameters: different ones; ``active_parameters``: those that one token meets.
    tokens: of the step.
    communication: by (what, role): nodes over all ranks, and the sum of their comm_size.
    memory: of one rank, by stage.
    nodes: of one rank, by stage.
    class_flops: operations of matrix products of one rank, by stage.
    """

    model_flops: int
    recomputed_flops: int
    flash_flops: int
    other_flops: int
    parameters: int
    active_parameters: int
    tokens: int
    communication: Mapping[tuple[str, str], tuple[int, int]]
    memory: tuple[Memory, ...]
    nodes: tuple[int, ...]
    class_flops: tuple[int, ...]

    @property
    def flops(self) -> int:
        """Operations of all matrix products, what goes on inside flash attention apart."""
        return self.model_flops + self.recomputed_flops

    @property
    def executed_flops(self) -> int:
        """Operations of all matrix products: what ``num_ops`` of GEMMs and attention add up to over all ranks."""
        return self.flops + self.flash_flops


@dataclass(frozen=True, eq=False)
class Generated:
    """A job, what it was made from, and what it amounts to."""

    spec: Spec
    job: Job
    totals: Totals
    device: DeviceProfile | None = None


def transformer_job(spec: Spec | Mapping[str, Any] | str | Path) -> Job:
    """The traces of all ranks of one training step.

    ``spec`` is a `Spec`, a YAML file, or a mapping of the same form (docs/reference-transformer-spec.md). Raises
    InputError for a spec that does not hold together.
    """
    return generate_transformer(spec).job


def generate_transformer(
    spec: Spec | Mapping[str, Any] | str | Path,
    *,
    device: DeviceProfile | None = None,
    rewrite: Callable[[Tape], Tape] | None = None,
) -> Generated:
    """The same, with the spec and the totals, which have been checked against those of the undivided model.

    ``device`` gives compute nodes durations. ``rewrite`` makes another tape of each pass, such as
    `chakrasim.generator.layers.condense.condense` does.
    """
    if device is not None and rewrite is None:
        from chakrasim.generator.layers.condense import timed

        rewrite = partial(timed, durations_ns=device.durations_ns)
    chosen = spec if isinstance(spec, Spec) else load_spec(spec)
    strings = Strings()
    stages = [_Stage(chosen, stage, strings) for stage in range(chosen.parallel.pp)]
    totals = _totals(chosen, stages)
    check_conservation(chosen, totals, stages)
    per_stage = chosen.parallel.copies * chosen.parallel.tp
    job = Job(
        traces=tuple(stage.trace(totals, rewrite) for stage in stages),
        trace_of_rank=np.repeat(np.arange(chosen.parallel.pp), per_stage),
        process_groups=process_groups(chosen),
        parameters=_flat(asdict(chosen)),
    )
    return Generated(chosen, job, totals, device)


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, Parameter]:
    """Numbers and words of a spec by dotted names."""
    found: dict[str, Parameter] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        elif isinstance(value, (int, float, str)):
            found[before + name] = value
    return found


class _Stage:
    """The passes of a pipeline stage and their order."""

    def __init__(self, spec: Spec, stage: int, strings: Strings) -> None:
        self.spec, self.stage, self.strings = spec, stage, strings
        self.order = turns(spec, stage)
        self.passes: list[Tape] = []
        self.steps: list[Step] = []
        self._known: dict[tuple[bool, int, bool], int] = {}
        self.memory = stage_memory(spec, stage)
        self._lay_out()
        self.tally = Tally()
        for step in self.steps:
            self.tally.add(self.passes[step.which].tally)

    def _lay_out(self) -> None:
        forward: dict[tuple[int, int], int] = {}
        left = {turn.chunk: self.spec.batch.micro_batches for turn in self.order}
        for turn in self.order:
            last = False
            if not turn.forward:
                left[turn.chunk] -= 1
                last = left[turn.chunk] == 0
            which = self._pass(turn, last)
            key = (turn.chunk, turn.micro_batch)
            self.steps.append(Step(which, turn.micro_batch, -1 if turn.forward else forward[key]))
            if turn.forward:
                forward[key] = len(self.steps) - 1
        self.passes.append(optimizer_pass(self.spec, self.stage))
        self.steps.append(Step(len(self.passes) - 1, 0))

    def _pass(self, turn: Turn, last: bool) -> int:
        key = (turn.forward, turn.chunk, last)
        if key not in self._known:
            self._known[key] = len(self.passes)
            self.passes.append(ChunkPass(self.spec, turn.chunk, forward=turn.forward, last=last).write())
        return self._known[key]

    @property
    def nodes(self) -> int:
        return sum(len(self.passes[step.which].rows) for step in self.steps)

    def trace(self, totals: Totals, rewrite: Callable[[Tape], Tape] | None = None) -> Trace:
        split = self.spec.parallel
        metadata: dict[str, int | str] = {
            "producer": PRODUCER,
            "rank": self.stage * split.copies * split.tp,
            "ranks": split.ranks,
            "model": self.spec.model.name,
            "stage": self.stage,
            "parallel": mesh_text(self.spec),
            "model_flops": totals.model_flops,
            "recomputed_flops": totals.recomputed_flops,
            "model_parameters": totals.parameters,
            "tokens": totals.tokens,
            **{f"memory_{name}": value for name, value in self.memory.to_mapping().items()},
        }
        passes = self.passes if rewrite is None else [rewrite(tape) for tape in self.passes]
        source = f"stage {self.stage}"
        return build_trace(passes, self.steps, self.strings, metadata, source, self.spec.launch_ns)


def mesh_text(spec: Spec) -> str:
    """How ranks are arranged, in one line."""
    split = spec.parallel
    sharded = f" (zero {split.zero}{f', fsdp {split.fsdp}' if split.zero == 3 else ''})" if split.zero else ""
    parts = [f"dp {split.dp}{sharded}", f"tp {split.tp}{' with sp' if split.sp else ''}", f"pp {split.pp}"]
    if split.cp > 1:
        parts.insert(1, f"cp {split.cp}")
    if split.virtual_stages > 1:
        parts[-1] += f" x {split.virtual_stages} virtual"
    if split.ep > 1:
        parts.append(f"ep {split.ep} (of {'dp' if split.expert_tp == split.tp else 'dp and tp'})")
    return ", ".join(parts)


def _totals(spec: Spec, stages: list[_Stage]) -> Totals:
    per_stage = spec.parallel.copies * spec.parallel.tp
    tally = Tally()
    for stage in stages:
        tally.add(stage.tally, per_stage)
    split = spec.parallel
    parameters = sum(stage_parameters(spec, stage.stage).distinct(split) for stage in stages)
    if spec.copies_embedding:
        parameters -= spec.model.vocabulary * spec.model.hidden
    return Totals(
        model_flops=tally.matrix - tally.again - tally.inside,
        recomputed_flops=tally.again,
        flash_flops=tally.inside,
        other_flops=tally.other,
        parameters=parameters,
        active_parameters=formulas.active_parameter_count(spec.model) + formulas.adapter_parameters(spec),
        tokens=spec.batch.global_batch * spec.model.sequence,
        communication={key: (tally.counts[key], tally.bytes[key]) for key in sorted(tally.bytes)},
        memory=tuple(stage.memory for stage in stages),
        nodes=tuple(stage.nodes for stage in stages),
        class_flops=tuple(stage.tally.matrix for stage in stages),
    )


def check_conservation(spec: Spec, totals: Totals, stages: list[_Stage]) -> None:
    """Raise InputError unless the ranks together do what the undivided model does: a fault of this program, else."""
    model = spec.model
    through = 2 * spec.batch.global_batch * model.sequence * model.hidden * spec.value_bytes * (spec.chunks - 1)
    through *= 1 if spec.parallel.sp or spec.parallel.scatter_gather else spec.parallel.tp
    sent = totals.communication.get(("send", "pp"), (0, 0))[1]
    received = totals.communication.get(("receive", "pp"), (0, 0))[1]
    tokens = {turn.chunk: 0 for stage in stages for turn in stage.order}
    for stage in stages:
        for turn in stage.order:
            tokens[turn.chunk] += spec.tokens * spec.parallel.copies * (1 if turn.forward else -1)
    forward = sum(turn.forward for turn in stages[0].order) * spec.tokens * spec.parallel.copies
    for what, found, expected in (
        ("operations", totals.model_flops, formulas.model_operations(spec)),
        ("operations computed again", totals.recomputed_flops, formulas.recomputed_operations(spec)),
        ("operations inside attention", totals.flash_flops, formulas.operations_inside_attention(spec)),
        ("parameters", totals.parameters, formulas.parameter_count(model) + formulas.adapter_parameters(spec)),
        ("tokens of the first stage", forward, totals.tokens * spec.parallel.virtual_stages),
        ("tokens forward less backward", max(map(abs, tokens.values())), 0),
        ("bytes sent between stages", sent, through),
        ("bytes received between stages", received, through),
        ("bytes loaded from the host's memory", *(totals.communication.get((way, "host"), (0, 0))[1] for way in WAYS)),
    ):
        if found != expected:
            raise InputError(
                f"the parts do not add up to the model: {what}", found=found, expected=expected, remedy="report this"
            )
