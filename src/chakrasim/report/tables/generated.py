"""What ``generate transformer`` prints: the mesh, the totals, communication and memory."""

from __future__ import annotations

from collections.abc import Sequence

from chakrasim.generator.memory import Memory
from chakrasim.generator.transformer import Generated, Totals, mesh_text
from chakrasim.text.amounts import plural, share_text, size_text
from chakrasim.text.layout import Section

MOST_STAGES = 8


def generated_sections(generated: Generated, files: Sequence[str]) -> list[Section]:
    """The report of a generated job and its files."""
    return [_totals(generated, files), _communication(generated), _memory(generated)]


def count_text(value: float) -> str:
    """A large number with a prefix: ``6.738 G``."""
    for factor, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor:
            return f"{value / factor:,.4g} {prefix}"
    return f"{value:,.0f} "


def _totals(generated: Generated, files: Sequence[str]) -> Section:
    spec, totals = generated.spec, generated.totals
    batch = spec.batch
    active = f", {count_text(totals.active_parameters).strip()} for each token" if spec.model.moe is not None else ""
    rows = (
        ("model", f"{spec.model.name}: {totals.parameters:,} parameters{active}"),
        ("ranks", f"{spec.parallel.ranks:,}: {mesh_text(spec)}"),
        (
            "step",
            f"{totals.tokens:,} tokens: {plural(batch.global_batch, 'sequence')} of {spec.model.sequence:,}, "
            f"{batch.micro_batches:,} micro-batches of {batch.micro_batch} on each replica, {spec.schedule}",
        ),
        ("FLOPs", _flops(totals)),
        ("checked", "FLOPs, parameters, tokens and messages of all ranks add up to those of the undivided model"),
        ("nodes", f"{sum(totals.nodes):,} in {plural(len(totals.nodes), 'trace')}"),
        ("files", f"{files[0]} to {files[-1]}"),
    )
    return Section(rows=rows, left=(0, 1))


def _flops(totals: Totals) -> str:
    parts = [f"{count_text(totals.flops)}FLOP: {count_text(totals.model_flops)}FLOP of the model"]
    if totals.recomputed_flops:
        parts.append(f"{share_text(totals.recomputed_flops, totals.model_flops)} recomputed")
    if totals.flash_flops:
        parts.append(f"a further {share_text(totals.flash_flops, totals.model_flops)} inside flash attention")
    return ", ".join(parts)


def _communication(generated: Generated) -> Section:
    rows = tuple(
        (what, role, f"{count:,}", size_text(size))
        for (what, role), (count, size) in generated.totals.communication.items()
    )
    return Section("Communication (all ranks)", ("what", "role", "nodes", "bytes"), rows, (0, 1))


def _memory(generated: Generated) -> Section:
    """The stages; of many, the first and last and the largest."""
    memory = generated.totals.memory
    count = generated.spec.parallel.copies * generated.spec.parallel.tp
    largest = max(range(len(memory)), key=lambda stage: memory[stage].peak)
    shown = sorted({*range(MOST_STAGES), len(memory) - 1, largest}.intersection(range(len(memory))))
    rows = tuple(_memory_row(stage, count, memory[stage]) for stage in shown)
    left_out = len(memory) - len(shown)
    lines: tuple[str, ...] = (f"{plural(left_out, 'more stage')}, none with more",) if left_out else ()
    if generated.device is not None:
        lines += (verdict_text(generated.device.name, memory[largest].peak, generated.device.memory_bytes),)
    return Section(
        "Memory of a rank at its peak",
        ("stage", "ranks", "parameters", "gradients", "optimizer", "activations", "working", "peak"),
        rows,
        (0, 1),
        lines,
    )


def verdict_text(name: str, peak_bytes: int, capacity_bytes: int) -> str:
    """Whether a peak fits a device's memory, in a sentence."""
    peak, capacity = size_text(peak_bytes), size_text(capacity_bytes)
    if peak_bytes <= capacity_bytes:
        return f"{name}: fits: a peak of {peak} in {capacity}"
    return f"{name}: OUT OF MEMORY: a peak of {peak} in {capacity}"


def _memory_row(stage: int, count: int, memory: Memory) -> tuple[str, ...]:
    first, last = stage * count, (stage + 1) * count - 1
    ranks = str(first) if first == last else f"{first}-{last}"
    parts = (memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.working, memory.peak)
    return (str(stage), ranks, *(size_text(part) for part in parts))
