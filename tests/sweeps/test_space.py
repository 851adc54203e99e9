"""What a sweep goes through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.errors import InputError
from chakrasim.estimation.places import placed
from chakrasim.machine import load_machine
from chakrasim.sweeps.conditions import condition_of
from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.space import read_space

BASE = {"model": "llama-7b", "machine": "h100", "gpus": 8}


def test_the_last_key_is_the_fastest_and_ranges_have_their_ends() -> None:
    vary = {"tp": {"from": 1, "to": 4, "factor": 2}, "batch": {"from": 8, "to": 24, "step": 8}}
    space = read_space({"base": BASE, "vary": vary})
    points = [(point["tp"], point["batch"]) for point in space.points()]
    assert points == [(tp, batch) for tp in (1, 2, 4) for batch in (8, 16, 24)]
    assert [(point["tp"], point["batch"]) for point in space.points(4, 6)] == points[4:6]


def test_a_file_has_numbers_and_words(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("base: {model: llama-7b, machine: h100, nic: '400'}\nvary: {compile: [true, false], tp: [1, 1e1]}")
    space = read_space(path)
    assert space.vary == {"compile": (True, False), "tp": (1, 10.0)}
    assert space.base["nic"] == "400"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vary": {"tpp": [1]}}, "unknown key"),
        ({"vary": {"gpus": [8]}}, "in base, too"),
        ({"vary": {}}, "nothing to vary"),
        ({"vary": {"tp": []}}, "no values"),
        ({"vary": {"tp": {"from": 1, "to": 8}}}, "not a range"),
        ({"vary": {"tp": {"from": 8, "to": 1, "step": 1}}}, "does not go up"),
        ({"vary": {"tp": {"from": 1, "to": "x", "step": 1}}}, "not a number"),
        ({"vary": {name: list(range(1000)) for name in ("tp", "pp", "batch")}}, "too many points"),
        ({"where": ["__import__('os')"]}, "not allowed"),
        ({"where": ["tp.real"]}, "not allowed"),
        ({"where": ["tp =="]}, "not a condition"),
        ({"where": ["tp ** 9 == 1"]}, "not allowed"),
        ({"front": ["speed"]}, "no such figure"),
        ({"base": {"machine": "h100"}}, "no model"),
        ({"base": {"model": "llama-7b", "machine": None}, "vary": {"tp": [1, 2]}}, "no machine"),
        ({"base": {"model": "llama-7b"}, "vary": {"machine": ["h100", None]}}, "no machine"),
        ({"points": 3}, "unknown key"),
        ({"vary": {"overlap.gradients": [True]}}, "unknown key; expected one of overlap.tp, overlap.dp"),
        ({"vary": {"schedul": ["gpipe"]}}, "mean schedule"),
        ({"vary": {"parallel.tp": [1]}}, "another name here; expected tp"),
        ({"vary": {"kernels": ["eager"], "compile": [True]}}, "kernels and compile say the same thing"),
        ({"base": {**BASE, "gpus": [8]}}, r"\$\.base\.gpus: not a number; found a list of 1 items"),
        ({"base": {**BASE, "batch": float("nan")}}, "not a number; found nan; expected a number below 2"),
        ({"vary": {"micro_batch": [1, "x"]}}, r"\$\.vary\.micro_batch\[1\]: not a number; found 'x'"),
        ({"vary": {"seq": [10**400]}}, "not a number; found an integer of 1329 bits"),
        ({"base": {**BASE, "model": {"sequence": float("inf")}}}, r"base\.model\.sequence: not a number; found inf"),
        ({"vary": {"nic": ["400G", float("nan")]}}, r"\$\.vary\.nic\[1\]: not a number; found nan"),
        ({"vary": {"dtype": ["fp8", "\ud800"]}}, r"dtype\[1\]: not text: it has half of a character; found '.ud800'"),
        ({"base": {**BASE, "library": 2}}, "not the name of a library; found 2; expected a name such as nccl"),
        ({"base": {**BASE, "nic": {"a": 1}}}, "not a single value; found a mapping of 1 keys"),
        ({"base": {**BASE, "network[0].bandwidth": [1]}}, "not a single value; found a list of 1 items"),
        ({"base": {**BASE, "parallel.fsdp": 2}, "vary": {"zero": [1]}}, "say the same thing"),
        ({"base": {"model": "llama-7b", "machine": load_machine("h100"), "gpus": 8}}, "has no effect on this machine"),
    ],
)
def test_what_cannot_be_read_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_space({"base": BASE, "vary": {"tp": [1, 2]}, **change})


def test_values_go_to_places_of_a_spec() -> None:
    entries = {"model": {"preset": "mixtral-8x7b"}, "optimizer": "sgd"}
    found = placed(entries, {"optimizer.state_bytes": 4, "model.moe.top_k": 1, "overlap.dp": False})
    assert found["optimizer"] == {"kind": "sgd", "state_bytes": 4} and found["overlap"] == {"dp": False}
    # What the preset says of the experts stays beside what is changed.
    assert found["model"]["moe"]["experts"] == 8 and found["model"]["moe"]["top_k"] == 1
    assert entries == {"model": {"preset": "mixtral-8x7b"}, "optimizer": "sgd"}
    with pytest.raises(InputError, match=r"model\.moe is no mapping here"):
        placed({"model": {"moe": "none"}}, {"model.moe.top_k": 1})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("dp * tp == gpus", True),
        ("dp in (1, 2) or tp % 2 == 1", False),
        ("not tp > 4 and 1 < dp <= 4", True),
        ("gpus // tp - dp == 0", True),
        ("-tp < 0", True),
        ("kind == 'a'", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    values = {"dp": 4, "tp": 2, "gpus": 8, "kind": "a"}
    assert condition_of(text, "s", "where[0]").holds(values) == holds


def test_a_condition_on_what_has_no_value_says_so() -> None:
    with pytest.raises(InputError, match="names what has no value; found pp"):
        condition_of("pp == 1", "s", "where[0]").holds({"tp": 1, "pp": None})
    for text in ("tp // pp == 1", "'%9999999999d' % tp == kind", "kind * 9999999999 == kind", "[1] * 10 == tp"):
        with pytest.raises(InputError, match="cannot be worked out"):
            condition_of(text, "s", "where[0]").holds({"tp": 1, "pp": 0, "kind": "a"})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=30), st.data())
def test_the_front_is_what_no_other_beats(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    figures = np.array(rows, np.float64).reshape(len(rows), 3)
    lost = data.draw(st.sets(st.integers(0, max(len(rows) - 1, 0)))) if rows else set()
    figures[sorted(lost), 0] = np.nan
    known = [row for row in range(len(rows)) if row not in lost]

    def beats(a: int, b: int) -> bool:
        return bool((figures[a] <= figures[b]).all() and (figures[a] < figures[b]).any())

    assert front_of(figures).tolist() == [row for row in known if not any(beats(other, row) for other in known)]
