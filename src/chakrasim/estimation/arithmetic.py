"""A training step by arithmetic: passes timed once each, stages that take turns; nothing is simulated.

What `chakrasim.estimation.api.estimate_step` has and this leaves out: links that different collectives share, messages
that wait for each other, ranks that differ. It is made for sweeps over thousands of splits, whose best are simulated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.estimation.alone import MOST_HELD, WAITED_FOR, groups_inside
from chakrasim.estimation.dispatch import sent_once
from chakrasim.estimation.parts import BUBBLE
from chakrasim.estimation.recipes import Recipe, recipe_named, usual_recipe
from chakrasim.generator.layers.condense import durations_of, runs_of
from chakrasim.generator.layers.parameters import stage_parameters
from chakrasim.generator.layers.passes import ChunkPass, optimizer_pass, reductions
from chakrasim.generator.layers.run import run_of
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import REDUCED, Row, Tape
from chakrasim.generator.mesh import process_groups
from chakrasim.generator.spec.spec import Batch, Spec
from chakrasim.jit import kernel
from chakrasim.machine.device.profile import PROCESSORS
from chakrasim.machine.graph.link_lanes import LinkLanes, one_lane
from chakrasim.simulator.closed_lanes import CollectiveLanes
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import BYTES, KERNELS

if TYPE_CHECKING:
    from chakrasim.machine import Machine

Floats = NDArray[np.float64]

_SIZES = [1 << power for power in range(10, 42, 2)]
"""Of collectives, in bytes: between them times are interpolated."""
_SAMPLE_LAYERS = 2
"""Layers of a pass that are written down; each more takes what one more of these does."""


@dataclass(frozen=True)
class _Framework:
    """What of a spec is the same for many: how passes run on the machine."""

    spec: Spec
    recipe: Recipe
    groups: dict[str, tuple[int, ...]]
    inside: frozenset[str]
    passes: int
    """A number for its `_pass_key`."""
    optimizer: int
    """The same without what an optimizer's step does not depend on."""


@dataclass(frozen=True)
class Sum:
    """ns of a step; of that communication that nothing hides, and waiting for other stages, of the slowest stage."""

    step_ns: float
    moving_ns: float
    bubble_ns: float

    def parts_s(self, seconds: float) -> dict[str, float]:
        """Parts of a step of so many seconds in these proportions, by names of `chakrasim.estimation.parts`."""
        moving, bubble = (seconds * part / self.step_ns for part in (self.moving_ns, self.bubble_ns))
        return {"compute": max(seconds - moving - bubble, 0.0), "comm_all": moving, BUBBLE: bubble}


class Arithmetic:
    """Steps on one machine, or on its ``lanes``, machines that differ in the figures of their links alone. What passes
    and collectives take is kept from one spec to the next."""

    def __init__(self, machine: Machine, lanes: LinkLanes | None = None) -> None:
        if machine.profile is None:
            raise ValueError("the machine has no device profile")
        self.machine, self.profile = machine, machine.profile
        self._lanes = one_lane(machine.graph) if lanes is None else lanes
        self._alone = CollectiveLanes(machine, self._lanes)
        self._passes: dict[Any, Floats] = {}
        self._optimizers: dict[Any, Floats] = {}
        self._collectives: dict[Any, tuple[Floats, Floats]] = {}
        self._numbers: dict[Spec, int] = {}
        self._groups: dict[Any, tuple[dict[str, tuple[int, ...]], frozenset[str]]] = {}

    def step(self, spec: Spec) -> Sum:
        """A step, about, and where the time of its slowest stage goes; on the first machine of several."""
        return self.steps(spec)[0]

    def steps(self, spec: Spec) -> list[Sum]:
        """The same on each machine."""
        framework = self._framework(spec)
        spec, pp = framework.spec, framework.spec.parallel.pp
        chunks, stages = spec.first_alike, spec.first_stage_alike
        forward, backward = (
            self._each(chunks, partial(self._pass, framework, forward=ahead)) for ahead in (True, False)
        )
        ends = _stage_ends(spec, forward[..., 0], backward[..., 0], self._hop_ns(framework))
        both = forward + backward
        passes = self._each(stages, lambda stage: both[stage::pp].sum(axis=0))
        reduced = self._each(
            stages, lambda stage: self._reduced_ns(framework, stage, backward[stage::pp, :, 0].sum(axis=0))
        )
        optimizer = self._each(stages, partial(self._optimizer, framework))
        last = ends + reduced + optimizer[..., 0]
        slow, each, count = np.argmax(last, axis=0), np.arange(len(self._lanes)), spec.batch.micro_batches
        running, moving = (count * passes[slow, each, at] + reduced[slow, each] for at in (0, 1))
        running, moving = running + optimizer[slow, each, 0], moving + optimizer[slow, each, 1]
        step = last[slow, each]
        figures = step.tolist(), moving.tolist(), np.maximum(step - running, 0.0).tolist()
        return [Sum(*one) for one in zip(*figures, strict=True)]

    @staticmethod
    def _each(first: Sequence[int], found: Callable[[int], Floats]) -> Floats:
        """What is found of each, where that of the ``first`` like it is the same."""
        known = {one: found(one) for one in dict.fromkeys(first)}
        return np.array([known[one] for one in first])

    def _framework(self, spec: Spec) -> _Framework:
        recipe = recipe_named(usual_recipe(spec))
        spec = replace(spec, launch_ns=recipe.launch_ns(spec))
        split = spec.parallel
        # Who belongs together, whatever they hold.
        mesh = replace(split, virtual_stages=1, balance="even", end_layers=1, zero=3 if split.zero == 3 else 0)
        key = mesh, spec.copies_embedding
        if key not in self._groups:
            groups = {role: own[0] for role, own in process_groups(spec).items()}
            self._groups[key] = groups, frozenset(groups_inside(spec, self.machine))
        own = _pass_key(spec)
        apart = replace(own, batch=Batch(1, 1, 1), recompute="none", parallel=replace(own.parallel, zero=split.zero))
        numbers = (self._numbers.setdefault(one, len(self._numbers)) for one in (own, apart))
        return _Framework(spec, recipe, *self._groups[key], *numbers)

    # --- passes ---

    def _pass(self, framework: _Framework, chunk: int, forward: bool) -> Floats:
        """float64[lanes, 2]: ns of a pass over a chunk, and of that exposed communication; of many equal layers from
        those of a few."""
        spec = framework.spec
        layers = spec.layers_of(chunk)
        kinds = [spec.sort(one) for one in layers]
        if len(layers) <= _SAMPLE_LAYERS + 1 or len(set(kinds)) > 1:
            return self._written(framework, chunk, forward, layers, kinds)
        few, more = (
            self._written(framework, chunk, forward, layers[:count], kinds[:count])
            for count in (_SAMPLE_LAYERS, _SAMPLE_LAYERS + 1)
        )
        return few + (len(layers) - _SAMPLE_LAYERS) * (more - few)

    def _written(
        self, framework: _Framework, chunk: int, forward: bool, layers: Sequence[int], kinds: Sequence[Any]
    ) -> Floats:
        spec = framework.spec
        ends = chunk == 0, chunk == spec.chunks - 1
        key = framework.passes, framework.inside, tuple(kinds), ends, forward
        if key not in self._passes:
            tape = ChunkPass(spec, chunk, forward=forward, last=False, layers=layers).write()
            self._passes[key] = self._tape_ns(framework, tape)
        return self._passes[key]

    def _tape_ns(self, framework: _Framework, tape: Tape) -> Floats:
        """float64[lanes, 2]: what the tape's kernels take with the collectives that they wait for, and that waiting.

        Gradients are reduced beside what comes next, and weights gathered over the same links: a pass takes as long as
        all that at least."""
        spec = framework.spec
        durations_ns = framework.recipe.durations_ns(self.profile, spec, self.machine.make)
        tape = sent_once(spec, self.machine)(tape) if "ep" in framework.groups else tape
        rows, lanes = tape.rows, len(self._lanes)
        took, held = np.zeros((2, len(rows), lanes))
        computes, times = durations_of(tape, durations_ns)
        took[computes] = times[:, None]
        moves = [number for number, row in enumerate(rows) if row.type == NodeType.COMM_COLL_NODE]
        beside = np.zeros(lanes)
        for number in moves:
            took[number], held[number], more = self._alone_ns(framework, rows[number])
            beside += more
        device, exposed, kernels = np.zeros(lanes), np.zeros(lanes), 0
        for numbers in runs_of(tape, {*computes, *moves}):
            run = run_of(rows, numbers, took[numbers].T, held[numbers].T)
            device += np.rint(run.duration_ns)
            exposed += sum(map(np.rint, run.exposed_ns.values()))
            kernels += sum(int(rows[number].values.get(KERNELS, 1)) for number in numbers)
        running = np.maximum(device, float(spec.launch_ns * kernels))
        whole = np.maximum(np.maximum(running, beside), self._accesses_ns(rows))
        return np.stack([whole, exposed + (whole - running)], axis=1)

    def _accesses_ns(self, rows: Sequence[Row]) -> float:
        """What stores or loads of the host's memory take, one behind the other, whichever is more."""
        found = 0
        for kind in (NodeType.MEM_STORE_NODE, NodeType.MEM_LOAD_NODE):
            sizes = [int(row.values[BYTES]) for row in rows if row.type == kind]
            if sizes:
                found = max(found, int(self.machine.memory.access_ns(np.array(sizes, np.int64)).sum()))
        return float(found)

    # --- communication ---

    def _alone_ns(self, framework: _Framework, row: Row) -> tuple[Floats, Floats, Floats]:
        """float64[lanes] each: what a collective takes among kernels, which share of the processors it holds, and what
        it takes beside them."""
        role, kind = str(row.values["pg_name"]), int(row.values["comm_type"])
        time = self._collective(framework, role, kind, int(row.values["comm_size"]))
        nothing = np.zeros(len(self._lanes))
        if role in framework.inside:
            _, channels = self._of_size(framework.groups[role], kind, _SIZES[len(_SIZES) // 2])
            processors = self.profile.processors or PROCESSORS
            return np.rint(time), np.minimum(channels / processors, MOST_HELD), nothing
        ahead = nothing if role in REDUCED and kind != CollectiveType.ALL_GATHER else np.rint(time)
        return ahead, nothing, nothing if role in WAITED_FOR else time

    def _collective(self, framework: _Framework, role: str, kind: int, size: int) -> Floats:
        """float64[lanes]: ns of a collective alone on its links, between those of the `_SIZES` around its size, which
        is what `chakrasim.collectives.kinds` has comm_size of."""
        group = framework.groups.get(role, (0,))
        factor = framework.recipe.collective(role) if role in framework.inside else 1.0
        if len(group) < 2 or size <= 0:
            return np.zeros(len(self._lanes))
        above = min(max(bisect_left(_SIZES, size), 1), len(_SIZES) - 1)
        low, high = _SIZES[above - 1 : above + 1]
        if not low < size < high:
            return self._of_size(group, kind, low if size <= low else high)[0] * factor
        (least, _), (most, _) = (self._of_size(group, kind, end) for end in (low, high))
        return ((most - least) / (high - low) * (size - low) + least) * factor

    def _of_size(self, group: tuple[int, ...], kind: int, size: int) -> tuple[Floats, Floats]:
        """float64[lanes] each: ns of a collective, and its channels."""
        key = group, kind, size
        if key not in self._collectives:
            self._collectives[key] = self._alone.times(kind, size, group)
        return self._collectives[key]

    def _hop_ns(self, framework: _Framework) -> Floats:
        """float64[lanes]: what a message between stages takes."""
        spec = framework.spec
        group = framework.groups.get("pp", (0,))
        if len(group) < 2:
            return np.zeros(len(self._lanes))
        pair = replace(framework, groups={"pp": group[:2]})
        return self._collective(pair, "pp", int(CollectiveType.BROADCAST), Sizes(spec).sent_bytes)

    def _reduced_ns(self, framework: _Framework, stage: int, backward_ns: Floats) -> Floats:
        """float64[lanes]: what is left of the sums of gradients when the last backward pass of a stage is over: of
        buckets that follow each other, the last, or all that its pass did not hide."""
        spec = framework.spec
        held = stage_parameters(spec, stage).trained(spec)
        kind = CollectiveType.REDUCE_SCATTER if spec.parallel.zero else CollectiveType.ALL_REDUCE
        whole, buckets = np.zeros(len(self._lanes)), 1
        for role, parameters, ranks in reductions(spec, held):
            if ranks < 2 or not parameters:
                continue
            size = parameters * spec.gradient_bytes
            units = max(sum(len(spec.layers_of(one)) for one in range(stage, spec.chunks, spec.parallel.pp)), 1)
            count = max(min(ceil(size / spec.overlap.bucket_bytes), units), 1) if spec.overlap.dp else 1
            count = units if spec.parallel.zero == 3 else count
            buckets = max(buckets, count)
            whole = whole + count * self._collective(framework, role, int(kind), ceil(size / count))
        if spec.parallel.zero >= 2:
            return whole / buckets
        return np.maximum(whole / buckets, whole - backward_ns * (buckets - 1) / buckets)

    def _optimizer(self, framework: _Framework, stage: int) -> Floats:
        spec = framework.spec
        key = framework.optimizer, spec.parallel.dp, stage_parameters(spec, stage), framework.inside
        if key not in self._optimizers:
            self._optimizers[key] = self._tape_ns(framework, optimizer_pass(spec, stage))
        return self._optimizers[key]


def _pass_key(spec: Spec) -> Spec:
    """What a pass depends on beside its layers: not how many there are, nor how many replicas share no weights."""
    split = spec.parallel
    apart = split.zero < 2 and not split.experts_apart
    dp, zero = 1 if apart else split.dp, split.zero if split.zero > 1 else 0  # the optimizer has what 1 shards
    split = replace(split, pp=1 + (split.pp > 1), virtual_stages=1, balance="even", end_layers=1, dp=dp, zero=zero)
    return replace(spec, parallel=split, batch=Batch(1, spec.batch.micro_batch, 1), schedule="", recompute_layers=0)


def _stage_ends(spec: Spec, forward: Floats, backward: Floats, hop_ns: Floats) -> Floats:
    """float64[stages, lanes]: when the passes of each stage are over, in the order of `chakrasim.generator.schedule`;
    of float64[chunks, lanes], the passes, and float64[lanes]."""
    split, count = spec.parallel, spec.batch.micro_batches
    found = np.zeros((len(hop_ns), split.pp))
    done = np.empty((2, spec.chunks, count))
    passes = np.ascontiguousarray(forward.T), np.ascontiguousarray(backward.T)
    for lane, now in enumerate(found):
        done.fill(-1.0)
        _take_turns(
            passes[0][lane], passes[1][lane], float(hop_ns[lane]), split.virtual_stages, spec.schedule == "gpipe",
            done, np.zeros(split.pp, np.int64), now,
        )  # fmt: skip
    return found.T


@kernel
def _take_turns(
    forward: Any, backward: Any, hop: Any, virtual: Any, all_forward_first: Any, done: Any, at: Any, now: Any
) -> None:
    stages, chunks, count = len(at), len(forward), done.shape[2]
    total = count * virtual
    left = 2 * total * stages
    while left > 0:
        before = left
        for stage in range(stages):
            behind = stages - 1 - stage
            warm = behind if virtual == 1 else 2 * behind + (virtual - 1) * stages
            if all_forward_first or warm > total:
                warm = total
            while at[stage] < 2 * total:
                place = at[stage]
                if place < warm:
                    first, k = True, place
                elif place < 2 * total - warm:
                    first, k = (place - warm) % 2 == 0, (place - warm) // 2
                    if first:
                        k += warm
                else:
                    first, k = False, place - total
                if virtual == 1:
                    chunk, batch = stage, k
                else:
                    group, within = k // (stages * virtual), k % (stages * virtual)
                    turn = within // stages
                    chunk = (turn if first else virtual - 1 - turn) * stages + stage
                    batch = group * stages + within % stages
                ready, sent = 0.0, hop
                if not first and chunk == chunks - 1:
                    ready, sent = done[0, chunk, batch], 0.0
                elif not first:
                    ready = done[1, chunk + 1, batch]
                elif chunk > 0:
                    ready = done[0, chunk - 1, batch]
                else:
                    sent = 0.0
                if ready < 0.0:
                    break
                now[stage] = max(now[stage], ready + sent) + (forward[chunk] if first else backward[chunk])
                done[0 if first else 1, chunk, batch] = now[stage]
                at[stage] += 1
                left -= 1
        if left == before:
            break
