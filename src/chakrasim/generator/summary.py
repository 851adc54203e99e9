"""What was generated, as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from chakrasim.generator.mesh import process_groups
from chakrasim.generator.transformer import Generated


def summary(generated: Generated) -> dict[str, Any]:
    """Figures of a generated job. Bytes of collectives are sums of comm_size over all ranks, FLOPs those of all ranks.

    ``total_flops`` are those of matrix products, the same whatever the split: ``model_flops`` and ``recomputed_flops``.
    ``flash_recomputed_flops`` go on inside attention kernels; with them ``executed_flops`` are what ``num_ops`` of
    GEMMs and attention add up to. ``peak_memory_by_class`` is of one rank of each class.
    """
    spec, totals = generated.spec, generated.totals
    per_stage = spec.parallel.copies * spec.parallel.tp
    by_type: dict[str, int] = {}
    for (what, _), (_, size) in totals.communication.items():
        by_type[what] = by_type.get(what, 0) + size
    return {
        "model": asdict(spec.model),
        "parallel": asdict(spec.parallel),
        "batch": asdict(spec.batch),
        "schedule": spec.schedule,
        "recompute": spec.recompute,
        "dtype": spec.dtype,
        "ranks": spec.parallel.ranks,
        "process_groups": {role: len(groups) for role, groups in process_groups(spec).items()},
        "total_flops": totals.flops,
        "model_flops": totals.model_flops,
        "recomputed_flops": totals.recomputed_flops,
        "flash_recomputed_flops": totals.flash_flops,
        "executed_flops": totals.executed_flops,
        "other_flops": totals.other_flops,
        "flops_per_rank_class": list(totals.class_flops),
        "parameters": totals.parameters,
        "active_parameters": totals.active_parameters,
        "tokens": totals.tokens,
        "model_bytes": {
            "parameters": totals.parameters * spec.value_bytes,
            "gradients": totals.parameters * spec.gradient_bytes,
            "optimizer": totals.parameters * spec.state_bytes,
        },
        "bytes_by_collective_type": dict(sorted(by_type.items())),
        "communication": [
            {"type": what, "role": role, "nodes": count, "bytes": size}
            for (what, role), (count, size) in totals.communication.items()
        ],
        "peak_memory_by_class": [
            {
                "class": stage,
                "stage": stage,
                "ranks": {"first": stage * per_stage, "count": per_stage},
                **memory.to_mapping(),
            }
            for stage, memory in enumerate(totals.memory)
        ],
        "nodes_per_rank_class": list(totals.nodes),
        **_verdict(generated),
    }


def _verdict(generated: Generated) -> dict[str, Any]:
    """Whether the largest peak fits the device's memory."""
    if generated.device is None:
        return {}
    capacity = generated.device.memory_bytes
    fits = max(memory.peak for memory in generated.totals.memory) <= capacity
    return {"device_profile": generated.device.name, "memory_capacity_bytes": capacity, "fits_memory": fits}
