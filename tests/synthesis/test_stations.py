"""What comes at several places of an iteration: a role at each, if numbers in names tell what an iteration is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from test_other_programs import computing, learned_of, made_by

from chakrasim.synthesis.grammar.stations import at_stations
from chakrasim.synthesis.roles import Roles


def titles(traces: Sequence[Sequence[str]]) -> list[list[str]]:
    roles = Roles()
    nodes = [roles.nodes(computing(*((name, 1) for name in names))) for names in traces]
    made, known = at_stations(nodes, roles)
    return [[known.known[role].title for role in own.role] for own in made]


def summed(layers: int) -> list[str]:
    """Every second node of a layer is a sum, forwards and backwards."""
    found = ["begin"]
    for way, order in (("forward", range(layers)), ("backward", reversed(range(layers)))):
        for layer in order:
            found += [name for what in ("attention", "mlp") for name in (f"layer{layer}.{what}.{way}", "sum")]
    return found


def test_sums_of_one_name_are_roles_by_what_comes_before() -> None:
    made = titles([summed(layers) for layers in (1, 2, 3)])[2]
    assert made[1:5] == [
        "layer#.attention.forward", "sum at layer#.attention.forward",
        "layer#.mlp.forward", "sum at layer#.mlp.forward",
    ]  # fmt: skip
    assert made[-1] == "sum at layer#.mlp.backward"
    assert len({*made}) == 9


def bucketed(layers: int, size: int) -> list[tuple[str, int]]:
    """What has come together is sent wherever it is enough, between halves of layers or behind them."""
    found, held, sent = [], 0, 0
    for layer in range(layers):
        for half, adds in (("a", 3), ("b", 2)):
            found.append((f"h{layer}.{half}", adds))
            held += adds
            if held >= size:
                found.append((f"bucket {sent}", 1))
                held, sent = 0, sent + 1
    return found


def test_what_is_sent_where_enough_is_there_does_not_begin_iterations() -> None:
    learned = learned_of(
        [{"layers": layers, "size": size} for layers in (1, 2, 3, 5) for size in (2, 3, 4, 5, 7, 9)],
        lambda own: [computing(*bucketed(int(own["layers"]), int(own["size"])))],
    )
    made = made_by(learned, layers=7, size=5)[0]
    assert [row for row in made if row[0].startswith("h")] == [row for row in bucketed(7, 5) if row[0].startswith("h")]


@pytest.mark.parametrize(
    "names",
    [
        [name for at in range(3) for name in (f"l{at} in", *["send", f"l{at} step"] * 2, f"l{at} out")],
        [*["load", "sum", "use", "sum"] * 3],
        [name for at in range(3) for name in (f"l{at} in", "sum", f"l{at} out")],
        [name for at in range(3) for name in ("send", f"l{at} in", f"l{at} out", "send")],
    ],
)
def test_what_comes_at_one_place_is_one_role(names: list[str]) -> None:
    assert not any(" at " in title for title in titles([names, names])[0])
