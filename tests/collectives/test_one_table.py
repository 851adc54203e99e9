"""What collectives are is written down once, in `chakrasim.collectives`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import chakrasim
from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, MESSAGES, CollectiveKind
from chakrasim.collectives.spelling import operation_of
from chakrasim.converter.retarget.traces import RULES
from chakrasim.generator.collective import SIZES
from chakrasim.machine.system import COLLECTIVES
from chakrasim.trace.linked.columns import OPERATION_NAMES

SOURCE = Path(chakrasim.__file__).parent

#: Lists that are no facts about collectives.
OTHERS = {
    "collect/capturing/pretended/distributed.py": "names of FSDP2's streams",
    "converter/retarget/traces.py": "what growing a job assumes of each kind",
    "converter/text_workload/loops.py": "the four that ASTRA-sim's text workloads have",
    "exchange/astra_sim.py": "those whose share ASTRA-sim takes",
    "experiments/networks.py": "keys of ASTRA-sim's system file",
    "trace/chakra/old_schemas.py": "numbers of older schemas",
    "trace/foreign/aicb.py": "operations that AICB tables name",
    "trace/foreign/otf2.py": "operations that OTF2 names, and how their bytes are counted",
    "trace/profiles/nccl.py": "which sides NCCL's payloads count",
    "trace/foreign/simai.py": "operations that SimAI workloads name",
    "validation/selene.py": "algorithms of one machine",
}


def kinds_in(node: ast.AST) -> set[int]:
    """The kinds that a literal lists, by name or as members of the enumeration."""
    listed: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        listed = [*node.keys]
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        listed = [*node.elts]
    names = [one.attr if isinstance(one, ast.Attribute) else getattr(one, "value", None) for one in listed]
    return {number for name in names if isinstance(name, str) for number in [number_of(name)] if number in KINDS}


def number_of(name: str) -> int:
    known = KINDS_BY_NAME.get(name.lower().replace("-", "_"))
    return int(known.type) if known else operation_of(name)


def tables() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE)
        if room.parts[0] not in ("collectives", "compat"):
            text = path.read_text(encoding="utf-8")
            # Three kinds are not listed without one of these words.
            if re.search("reduce|gather|scatter|broadcast", text, re.IGNORECASE):
                yield from (room.as_posix() for node in ast.walk(ast.parse(text)) if len(kinds_in(node)) > 2)


def test_no_other_room_lists_collectives() -> None:
    assert sorted(set(tables())) == sorted(OTHERS)


@pytest.mark.parametrize(
    "literal", ['("reduce", "gather", "scatter")', '{"all-reduce": 1, "x": 2, C.GATHER: 3, "alltoall": 4}']
)
def test_such_lists_are_found(literal: str) -> None:
    assert len(kinds_in(ast.parse(literal, mode="eval").body)) == 3


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_room_has_every_kind(kind: CollectiveKind) -> None:
    assert kind.key in COLLECTIVES
    assert kind.type in RULES
    assert OPERATION_NAMES[kind.type] == kind.name
    assert (kind.name in SIZES) == (kind.name != "reduce_scatter_block")


def test_spellings_mean_one_kind_each() -> None:
    spellings = [name for kind in (*KINDS.values(), *MESSAGES) for name in kind.spellings]
    assert len(spellings) == len(set(spellings))
    for kind in (*KINDS.values(), *MESSAGES):
        assert all(operation_of(name) == kind.type for name in kind.spellings)
        if kind.spellings:
            assert {operation_of(spelt) for spelt in (kind.name, kind.key, kind.name.upper())} == {kind.type}
