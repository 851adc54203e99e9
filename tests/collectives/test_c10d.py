"""Positions of arguments are those of PyTorch's schemas."""

from __future__ import annotations

from typing import Any

import pytest

from chakrasim.collectives.c10d import ARGUMENTS, Arguments
from chakrasim.collectives.kinds import KINDS, MESSAGES
from chakrasim.collectives.spelling import operation_of

ROOTS = ("root_rank", "src", "dst")
SPLITS = ("output_split_sizes", "input_split_sizes")


def operators() -> dict[str, Any]:
    """The schemas of c10d's operators that have a process group."""
    torch = pytest.importorskip("torch")
    assert torch.distributed.is_available()
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("c10d::")]
    named = {schema.name.removeprefix("c10d::"): [one.name for one in schema.arguments] for schema in schemas}
    return {name: arguments for name, arguments in named.items() if "process_group" in arguments}


def stated(arguments: list[str], *names: str) -> int:
    return next((at for at, name in enumerate(arguments) if name in names), -1)


def test_positions_are_those_of_the_schemas() -> None:
    for name, arguments in operators().items():
        places = ARGUMENTS[name]
        assert places.group == stated(arguments, "process_group"), name
        assert (places.root, places.tag) == (stated(arguments, *ROOTS), stated(arguments, "tag")), name
        assert places.splits == tuple(at for at, argument in enumerate(arguments) if argument in SPLITS), name


def test_operators_with_two_sides_have_the_outputs_first() -> None:
    for name, arguments in operators().items():
        if arguments[0].startswith("output"):
            assert arguments[1].startswith("input")
            assert (ARGUMENTS[name].outputs, ARGUMENTS[name].inputs) == (0, 1), name
        else:
            assert {ARGUMENTS[name].outputs, ARGUMENTS[name].inputs} <= {-1, 0}, name


@pytest.mark.parametrize(("name", "places"), ARGUMENTS.items())
def test_every_operator_is_spelled_as_a_kind(name: str, places: Arguments) -> None:
    known = {kind.type: kind for kind in (*KINDS.values(), *MESSAGES)}
    kind = known[operation_of(name.removeprefix("monitored_"))]
    from_any = name == "recv_any_source_"
    assert (places.root >= 0) == ((kind.rooted or kind in MESSAGES) and not from_any)
