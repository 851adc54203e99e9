"""Numbers in names that say which iteration a node is of: loops of programs with nothing between iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from test_other_programs import computing, learned_of, made_by

from chakrasim.synthesis.indices import MOST, words_of
from chakrasim.synthesis.loops import Iterations, Looks, Loop, order_of, places, read_trace
from chakrasim.synthesis.roles import Roles


def read(traces: Iterable[Sequence[str]]) -> tuple[str, list[list[Iterations]]]:
    """The loops of traces of nodes with these names, and how each trace is read."""
    roles = Roles()
    nodes = [roles.nodes(computing(*((name, 1) for name in names))) for names in traces]
    loop, begins = order_of([own.role for own in nodes], words_of(nodes, roles.known), Looks())
    where = places(loop)
    inner = max(max(place.loops) for place in where.values())
    titles = [role.title for role in roles.known]
    return said(loop, titles), [
        read_trace(own.role, where, inner + 1, begin)[0] for own, begin in zip(nodes, begins, strict=True)
    ]


def said(loop: Loop, titles: Sequence[str]) -> str:
    return " ".join(f"({said(one, titles)})" if isinstance(one, Loop) else titles[one] for one in loop.body)


def test_loops_with_nothing_between_are_told_apart_by_numbers() -> None:
    sizes = [(2, 3, 2), (1, 2, 4), (3, 1, 3), (2, 2, 1)]
    loops, read_as = read(
        [f"{step}/blk{layer}/part_{part}/{what}" for step in range(steps) for layer in range(layers)
         for part in range(parts) for what in ("use", "sum")] for steps, layers, parts in sizes
    )  # fmt: skip
    assert loops == "(((#/blk#/part_#/use #/blk#/part_#/sum)))"
    for own, (steps, layers, parts) in zip(read_as, sizes, strict=True):
        assert [len(one) for one in own] == [1, steps, steps * layers, steps * layers * parts]
        assert own[3].index == [*range(parts)] * steps * layers


def experts(layers: int, shared: int) -> list[str]:
    """Layers backwards, of which every second begins with what is repeated, if it comes at all."""
    found = []
    for layer in reversed(range(layers)):
        own = [f"shared{i} grad" for i in range(shared)] + ["route grad"] if layer % 2 else ["mlp grad"]
        found += [f"layers.{layer}.{what}" for what in (*own, "attention grad")]
    return ["begin", *found, "end"]


def test_what_an_iteration_begins_with_may_be_repeated_in_it() -> None:
    sizes = [(4, 0), (3, 2), (5, 1), (6, 2), (2, 1), (1, 2)]
    loops, read_as = read(experts(*each) for each in sizes)
    assert loops in (f"begin ({own} layers.#.attention grad) end" for own in (
        "layers.#.mlp grad (layers.#.shared# grad) layers.#.route grad",
        "(layers.#.shared# grad) layers.#.route grad layers.#.mlp grad",
        "(layers.#.shared# grad) layers.#.mlp grad layers.#.route grad"))  # fmt: skip
    outer = 1 + loops.replace("begin ", "").index("(")
    assert [len(own[outer]) for own in read_as] == [layers for layers, _ in sizes]


@pytest.mark.parametrize(
    "names",
    [
        ["b0 gather", *(f"b{at + (what == 'gather')} {what}" for at in range(4) for what in ("gather", "run", "sum"))]
        * 2,
        [f"run{at} of {half}" for at in range(4) for half in (17, 4)] * 3,
        [f"{what} of {at}" for at, what in enumerate(["run", "add", "sum"] * 4)],
        [one for at in range(6) for one in ("run", "add", *[f"reduce {at // 2}"] * (at % 2), "sum")],
        ["end", *(f"part{at % 2} {what}" for at in range(6) for what in ("run", "add", "sum"))],
    ],
)
def test_numbers_that_are_of_no_loop_do_not_mislead(names: list[str]) -> None:
    """Of what is done ahead, of one of a few words, counters, of what comes now and then, and of two halves."""
    plain = [name.translate(dict.fromkeys(map(ord, "0123456789"))) for name in names]
    loops, read_as = read([names, names[: len(names) // 2]])
    assert (loops.replace("#", ""), read_as) == read([plain, plain[: len(plain) // 2]])


def test_nested_loops_are_learned() -> None:
    def nodes(own: dict[str, int]) -> list[tuple[str, int]]:
        return [(f"l{layer}.c{chunk}.{what}", own["width"] + size) for layer in range(own["layers"])
                for chunk in range(own["chunks"]) for what, size in (("use", 7), ("sum", 9))]  # fmt: skip

    known = [{"layers": 1 + n % 3, "chunks": 1 + n // 3, "width": 60 + 7 * n * n % 50} for n in range(9)]
    learned = learned_of(known, lambda own: [computing(*nodes({**own}))])
    asked = {"layers": 5, "chunks": 4, "width": 100}
    assert made_by(learned, **asked) == [nodes(asked)]
    assert not learned.lost


def test_of_many_words_those_that_most_nodes_have_are_looked_at() -> None:
    roles = Roles()
    letters = "abcdefgh"
    names = [f"{one}{other}{at}" for one in letters for other in letters for at in range(2 + (one == other == "c"))]
    words = words_of([roles.nodes(computing(*((name, 1) for name in [*names, *names])))], roles.known)
    assert len(words) == MOST
    assert next(iter(words)) == "cc"
