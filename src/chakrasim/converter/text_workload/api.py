"""Text workloads of ASTRA-sim 1.0 as Chakra traces."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from chakrasim.converter.text_workload.loops import (
    DATA_GROUP,
    FIRST_DIMENSION,
    MODEL_GROUP,
    OTHER_DIMENSIONS,
    TextNode,
    TextProgram,
    model_group_size,
    run_loop,
)
from chakrasim.converter.text_workload.read import TextWorkload, read_workload
from chakrasim.errors import InputError
from chakrasim.files.job_formats import TRANSFORMERS
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import NodeType

SCHEMA: Final = "chakrasim-1"
#: ASTRA-sim 1.0 knows up to ten network dimensions.
_DIMENSIONS: Final = 10
_MASKS: Final = {
    FIRST_DIMENSION: [True] + [False] * (_DIMENSIONS - 1),
    OTHER_DIMENSIONS: [False] + [True] * (_DIMENSIONS - 1),
}


@dataclass(frozen=True)
class TextTraces:
    """The traces of all ranks (one object where ranks do the same), and the communicator groups that they name."""

    traces: list[Trace]
    groups: dict[str, list[int]] = field(default_factory=dict)


@lists_too
def convert_text(path: str | os.PathLike[str], ranks: int, passes: int, *, notes: Notes | None = None) -> TextTraces:
    """The Chakra traces of a text workload.

    Times are microseconds and sizes bytes, as in the reference. Collectives in which only some dimensions of the
    network take part (HYBRID_DATA_MODEL, HYBRID_MODEL_DATA) say so in ``involved_dim``; those of a transformer's model
    and data groups name a group in ``pg_name``. Raises InputError with line and column.

    Parameters
    ----------
    path: the text workload.
    ranks: number of ranks.
    passes: how often the network is trained (or asked, DISTRIBUTED_INFERENCE).
    notes: receives what was left out, with counts.
    """
    workload = read_workload(path)
    program = run_loop(workload, ranks, passes)
    if notes is not None:
        _tell_left_out(workload, program, notes)
    groups = _groups(workload, ranks)
    if not groups:
        return TextTraces([_trace(program, {})] * ranks)
    size = model_group_size(workload, ranks)
    names = [
        {MODEL_GROUP: str(1 + rank // size), DATA_GROUP: str(1 + ranks // size + rank % size)} for rank in range(ranks)
    ]
    return TextTraces([_trace(program, own) for own in names], groups)


def _groups(workload: TextWorkload, ranks: int) -> dict[str, list[int]]:
    """The groups of a transformer: ranks in a row share a model; those that hold the same part of it exchange
    gradients. None if all ranks, or no two, share a model."""
    if workload.parallelism not in TRANSFORMERS:
        return {}
    size = model_group_size(workload, ranks)
    if size in (1, ranks):
        return {}
    models = [list(range(first, first + size)) for first in range(0, ranks, size)]
    parts = [list(range(part, ranks, size)) for part in range(size)]
    return {str(number): members for number, members in enumerate((*models, *parts), 1)}


def _trace(program: TextProgram, groups: dict[int, str]) -> Trace:
    workload = program.workload
    builder = TraceBuilder(
        metadata={"schema": SCHEMA, "parallelism": workload.parallelism, "input_file": workload.text},
        source=workload.source,
    )
    for identity, node in enumerate(program.nodes):
        kind = NodeType.COMP_NODE if node.collective is None else NodeType.COMM_COLL_NODE
        builder.add(
            identity,
            node.name,
            kind,
            data_deps=node.deps,
            duration_micros=node.micros,
            attrs=_attributes(node, groups),
        )
    return builder.build()


def _attributes(node: TextNode, groups: dict[int, str]) -> dict[str, Any]:
    attrs: dict[str, Any] = {"is_cpu_op": False}
    if node.collective is not None:
        attrs["comm_type"] = node.collective
        attrs["comm_size"] = node.size_bytes
        if node.members in _MASKS:
            attrs["involved_dim"] = _MASKS[node.members]
        if node.members in groups:
            attrs["pg_name"] = groups[node.members]
    return attrs


def _tell_left_out(workload: TextWorkload, program: TextProgram, notes: Notes) -> None:
    if program.left_out:
        notes.warn(
            f"{workload.source}: left out {program.left_out} collectives a pass: {workload.parallelism} does not run"
            f" them, or no two of the {program.ranks} ranks take part"
        )
    delays = sum(layer.update not in ("0", "") for layer in workload.layers)
    if delays:
        notes.warn(
            f"{workload.source}: left out the delays after collectives (column 12) of {delays} layers:"
            " Chakra has none, and the reference reads over them"
        )


def check_counts(ranks: int | None, passes: int | None) -> tuple[int, int]:
    """Both numbers, which a text workload needs. Raises InputError."""
    for option, value in (("--num-npus", ranks), ("--num-passes", passes)):
        if value is None:
            raise InputError(f"a text workload needs {option}", remedy="add it")
    assert ranks is not None and passes is not None
    return ranks, passes
