"""A trace as a grammar comes back as it was, and is short where the trace repeats itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim.demo import TRACES
from chakrasim.synthesis.grammar.pairs import grammar_of
from chakrasim.synthesis.grammar.written import unwritten, written
from chakrasim.synthesis.roles import filled, holes
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from same_content import same_content
from synthesis.programs import draw, job


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60) | st.lists(st.integers(0, 20), max_size=30))
def test_a_grammar_makes_its_sequence_and_is_never_longer(sequence: list[int]) -> None:
    grammar = grammar_of(sequence)
    assert grammar.sequence() == sequence
    assert grammar.symbols <= len(sequence)


def test_a_grammar_counts_what_is_repeated() -> None:
    grammar = grammar_of([0, 1, 1, 1, 1, 2] * 50)
    assert grammar.sequence() == [0, 1, 1, 1, 1, 2] * 50
    assert grammar.symbols == 6
    assert grammar_of([7] * 1000).whole == ((7, 1000),)


@settings(max_examples=30, deadline=None)
@given(st.text("0123456789.-x_", max_size=12))
def test_texts_with_holes_come_back(text: str) -> None:
    assert filled(*holes(text)) == text


def test_programs_come_back_and_are_short() -> None:
    for seed in range(3):
        trace = job(draw(seed)).traces[0]
        assert same_content(trace, unwritten(written(trace)))
    long = job({**draw(1), "layers": 40}).traces[0]
    assert written(long).ratio > 10


@pytest.mark.parametrize("between", [", ", ","])
def test_fields_come_from_callers_tensors_and_products(between: str) -> None:
    made = TraceBuilder("1.2", {}, "made")
    for at in range(40):
        size = 3 + at % 7
        tensor = f'[{between.join(map(str, (at, at + 1, 0, 64 * size, 4)))}{between}"cpu"]'
        shape, values = f"[64{between}{size}]", f"[{tensor}{between}{at}]"
        shapes = {"shapes": f"[{shape}{between}[]]", "types": f'["Tensor(float)"{between}"Int"]'}
        made.add(3 * at, "make", inputs={"values": shape}, outputs={"values": f"[{tensor}]", "shapes": f"[{shape}]"})
        made.add(3 * at + 1, "call", ctrl_deps=[3 * at], inputs={"values": values, **shapes}, outputs={})
        made.add(3 * at + 2, "inner", ctrl_deps=[3 * at + 1], inputs={"values": values, **shapes})
    trace = made.build()
    whole = written(trace)
    assert same_content(trace, unwritten(whole))
    kinds = {whole.roles[kind.role].name: kind.sources for kind in whole.kinds}
    assert ("product",) in kinds["make"] and len(
        {kind for kind in whole.kinds if "call" in whole.roles[kind.role].name}
    ) == 2
    assert (
        ("tensor",) in kinds["call"] and ("more", 1) in kinds["call"] and "is" not in {one[0] for one in kinds["inner"]}
    )


_ELEMENTS = st.sampled_from([
    "1", "02", "[1]", "[]", "", " ", "[1, 2]", '"a, ]"', '"\\""', "\1", "\2", "\3", "(1, 2]", "]", "[", "[64, 3]",
    "[64,3]", "192", "-3", '[5, 6, 0, 192, 4, "cpu"]', '[5, 06, 0, 192, 4, "cpu"]', '[5,6,0,192,4,"cpu"]',
    '[5,6,0, 192,4,"cpu"]', '[[5, 7, 1, 3, 4, "x"], [8, 9, 0, 3, 4, "y"]]',
])  # fmt: skip
_PORT = (
    st.tuples(st.lists(_ELEMENTS, max_size=3), st.sampled_from([", ", ",", ",  "])).map(
        lambda each: f"[{each[1].join(each[0])}]"
    )
    | _ELEMENTS
)
_SIDE = st.none() | st.dictionaries(st.sampled_from(["values", "shapes", "types"]), _PORT)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_SIDE, _SIDE, st.integers(-1, 4)), max_size=5))
def test_ports_of_any_text_come_back(nodes: list[tuple[dict[str, str] | None, dict[str, str] | None, int]]) -> None:
    made = TraceBuilder("1.2", {}, "made")
    for at, (inputs, outputs, waits) in enumerate(nodes):
        made.add(at, f"x{at % 2}", ctrl_deps=[waits] if waits >= 0 else [], inputs=inputs, outputs=outputs)
    trace = made.build()
    assert same_content(trace, unwritten(written(trace)))


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return cs.convert(cs.link(TRACES / "host.0.json.gz", TRACES / "device.0.json.gz"))


def test_a_recorded_trace_comes_back(recorded: Trace) -> None:
    whole = written(recorded)
    assert same_content(recorded, unwritten(whole))
    structure = written(recorded, sizes=False)
    assert structure.grammar.symbols < whole.grammar.symbols < len(recorded)
    assert structure.ratio > 3


def test_dependencies_of_a_recorded_trace_are_reasons(recorded: Trace) -> None:
    why = [reason[0] for kind in written(recorded, sizes=False).kinds for reason in (*kind.ctrl, *kind.data)]
    assert {"before", "up"} < {*why}
    assert "absent" not in why and "ahead" not in why


def test_waits_for_later_and_absent_nodes_ids_in_any_order_and_streams_come_back() -> None:
    made = TraceBuilder("1.2", {"rank": 3, "name": "a7"}, "made")
    for number, data in ((40, [17, 99]), (17, [17]), (3, [40, 40, 17]), (8, [2**63])):
        attributes = {"tid": number % 2, "wide": 2**64 - 1, "share": 0.1, "list": [1, 2], "none": None}
        inputs = {"values": f'[[5, {number}, 0, 1, 4, "cpu"], 3]'} if number > 10 else None
        made.add(number, f"x{number} 007", data_deps=data, start_micros=number, duration_micros=number % 3,
                 attrs=attributes, inputs=inputs, outputs={})  # fmt: skip
    trace = made.build()
    assert same_content(trace, unwritten(written(trace)))
    empty = TraceBuilder().build()
    assert same_content(empty, unwritten(written(empty)))
    assert same_content(trace, unwritten(written(replace(trace, source="other"))))
