"""Programs learned from jobs, and jobs made from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim.cli.synthesize import settings_of
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.synthesis import expressions
from chakrasim.synthesis.api import learn, synthesize
from chakrasim.synthesis.file import model_bytes, read_model, write_model
from chakrasim.synthesis.laws import Examples, law
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.search.work import LEAST, Work
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.file import write_job
from chakrasim.trace.job.job import Job, Parameter
from chakrasim.trace.kinds import NodeType
from synthesis.programs import Parameters, draw, job

JOBS = 40
UNSEEN = range(100, 125)


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn([(draw(seed), job(draw(seed))) for seed in range(JOBS)])


def nodes(trace: Trace) -> Iterator[tuple[object, ...]]:
    """Names, types, waits and attributes of all nodes; groups by role."""
    for i in range(len(trace)):
        node = trace.node(i)
        yield node.name, node.type, node.data_deps, node.ctrl_deps, node.attrs


def made(learned: Learned, own: Parameters) -> Job:
    (one,) = synthesize(learned, own)
    return one.job


def test_jobs_of_unseen_parameters_are_those_of_the_program(learned: Learned) -> None:
    assert not learned.lost
    for seed in UNSEEN:
        wanted, got = job(draw(seed)), made(learned, draw(seed))
        assert got.trace_of_rank.tolist() == wanted.trace_of_rank.tolist()
        assert {role: own for role, own in got.process_groups.items() if len(own[0]) > 1} == wanted.process_groups
        assert [[*nodes(trace)] for trace in got.traces] == [[*nodes(trace)] for trace in wanted.traces]


def test_jobs_far_outside_hold_the_same_laws_and_say_so(learned: Learned) -> None:
    own: Parameters = {"dp": 64, "tp": 16, "layers": 40, "width": 8192, "tokens": 4096, "style": "gated"}
    notes = Notes()
    (one,) = synthesize(learned, own, notes=notes)
    assert [[*nodes(trace)] for trace in one.job.traces] == [[*nodes(trace)] for trace in job(own).traces]
    assert any("dp 64 lies outside of what the jobs had, 1 to 4" in text for text in notes.warnings)


def test_traces_by_rank_and_groups_by_number_are_learned_from(tmp_path: Path) -> None:
    for seed in range(20):
        write_job(tmp_path / f"job{seed}", job(draw(seed)), expand=True)
    learned = learn([tmp_path])
    assert not learned.lost
    for seed in UNSEEN:
        wanted, got = job(draw(seed)), made(learned, draw(seed))
        assert got.ranks == wanted.ranks
        for one, other in zip(got.traces, wanted.traces, strict=True):
            assert [name for name, *_ in nodes(one)] == [name for name, *_ in nodes(other)]
            assert one.attr("num_ops").integers_or(-1).tolist() == other.attr("num_ops").integers_or(-1).tolist()
            assert one.attr("comm_size").integers_or(-1).tolist() == other.attr("comm_size").integers_or(-1).tolist()


def test_what_nobody_states_is_found_in_the_jobs(tmp_path: Path) -> None:
    wanted = {f"job{seed:03}": replace(job(draw(seed)), parameters={}) for seed in range(14)}
    for name, each in wanted.items():
        write_job(tmp_path / name, each)
    learned = learn([tmp_path])
    assert {"dp", "tp"} < {*learned.parameters[0]}
    for at, (name, each) in enumerate(wanted.items()):
        got = made(learned, learned.parameters[at])
        if not learned.lost:
            assert [[*nodes(trace)] for trace in got.traces] == [[*nodes(trace)] for trace in each.traces], name


def test_what_is_left_open_follows_or_is_as_in_a_job(learned: Learned) -> None:
    (one,) = synthesize(learned, {"dp": 4, "tp": 2})
    assert one.job.ranks == 8
    assert "ranks" in one.choice.follow
    assert one.choice.parameters["width"] in {own["width"] for own in learned.parameters}
    again = [each.choice.parameters for each in synthesize(learned, {}, count=8, seed=3)]
    assert again == [each.choice.parameters for each in synthesize(learned, {}, count=8, seed=3)]
    assert len({str(own) for own in again}) > 1


def test_made_jobs_run(learned: Learned) -> None:
    for one in synthesize(learned, {}, count=12, seed=5):
        machine = cs.load_machine("h100", gpus=max(8, one.job.ranks))
        ranks = one.job.ranks
        if ranks == machine.ranks:
            assert cs.simulate(one.job, machine=machine).makespan_ns > 0


def test_a_model_file_comes_back_and_is_the_same_for_the_same_jobs(learned: Learned, tmp_path: Path) -> None:
    path = tmp_path / "a.chakrasim-model"
    write_model(path, learned)
    assert model_bytes(read_model(path)) == path.read_bytes()
    again = learn([(draw(seed), job(draw(seed))) for seed in range(JOBS)])
    assert model_bytes(again) == path.read_bytes()
    assert len(path.read_bytes()) < 1 << 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x01", "this is no model of jobs; found bytes 00 01"),
        (b"", "this is no model of jobs; found an empty file"),
        (b"SQLite format 3\x00" + bytes(100), "this is no model of jobs; found an SQLite database"),
        (b'{"format":"chakrasim-model/1","jobs":["a', "the model is damaged"),
        (b"[]", "this is no model of jobs"),
        (b'{"format": "chakrasim-model/1"}', "the model is damaged"),
    ],
)
def test_wrong_model_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_model(path)


def test_damaged_models_make_a_message_or_a_job(learned: Learned, tmp_path: Path) -> None:
    path = tmp_path / "m"
    text = model_bytes(learned).decode()
    random = np.random.default_rng(0)
    for _ in range(60):
        at = int(random.integers(len(text)))
        path.write_text(text[:at] + chr(int(random.integers(32, 127))) + text[at + 1 :])
        try:
            for one in synthesize(read_model(path), draw(1)):
                assert one.job.ranks
        except InputError:
            pass


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("rank_columns", [1], "has no name"),
        ("loops", [float("inf"), []], "OverflowError"),
        ("counts", {"1": ["sum", [[1, 1, {"layers": 1 << 32}]]]}, "a law has powers over 32"),
        ("parameters", [{"dp": 1}, *[{"dp": "x"}] * (JOBS - 1)], "a word in some jobs and a number in others"),
    ],
)
def test_models_with_values_of_other_kinds_are_refused(
    learned: Learned, tmp_path: Path, key: str, value: object, said: str
) -> None:
    path = tmp_path / "m"
    path.write_text(json.dumps({**json.loads(model_bytes(learned)), key: value}))
    with pytest.raises(InputError, match=said):
        read_model(path)


def test_bytes_and_texts_of_half_characters_are_learned(tmp_path: Path) -> None:
    def job(count: int) -> tuple[dict[str, Parameter], Job]:
        builder = cs.TraceBuilder()
        for at in range(count):
            raw = {"raw": {"bytes_val": b"\x00\xff"}, "each": {"bytes_list": [b"", b"\xfe"]}}
            builder.add(at, name="a", type=4, attrs={"num_ops": 7 * count, **raw})
        # The second trace is one that no rank runs.
        own: dict[str, Parameter] = {"n": count, "\ud800": "\udcff" if count % 2 else "x"}
        return own, Job((builder.build(), cs.TraceBuilder().build()), np.zeros(1, np.int64))

    write_model(tmp_path / "m", learn([job(count) for count in range(2, 8)]))
    (one,) = synthesize(read_model(tmp_path / "m"), {"n": 9, "\ud800": "x"})
    assert [*nodes(one.job.traces[0])] == [*nodes(job(9)[1].traces[0])]


def test_settings_that_fit_nothing_are_refused(learned: Learned) -> None:
    for wrong, message in (
        ({"layer": 3}, "did you mean layers"),
        ({"style": "round"}, "gated, plain"),
        ({"style": 3}, "the model knows no such value"),
        ({"dp": "four"}, "expected a number"),
        ({"dp": 0}, "make no job of a size that can be"),
        ({"dp": 1 << 40}, "make no job of a size that can be"),
    ):
        with pytest.raises(InputError, match=message):
            [*synthesize(learned, wrong)]  # type: ignore[arg-type]


def test_one_parameter_is_not_set_to_two_values(learned: Learned) -> None:
    assert settings_of(["dp=2,tp=4", "dp=2"]) == {"dp": 2, "tp": 4}
    with pytest.raises(InputError, match="--set dp: a parameter is set twice; found 2 and 4"):
        settings_of(["dp=2", "tp=4,dp=4"])
    long = replace(
        learned, parameters=[{f"split.{name}": value for name, value in own.items()} for own in learned.parameters]
    )
    with pytest.raises(InputError, match=r"split\.dp: a parameter is set twice; found 2 and 4"):
        [*synthesize(long, {"dp": 2, "split.dp": 4})]


def test_too_few_jobs_are_refused(tmp_path: Path) -> None:
    write_job(tmp_path / "a", job(draw(1)))
    with pytest.raises(InputError, match="not learned from one job"):
        learn([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no job in the folder"):
        learn([tmp_path / "empty"])


def test_parameters_beside_a_job_are_checked(tmp_path: Path) -> None:
    for name in "ab":
        write_job(tmp_path / name, replace(job(draw(1)), parameters={}))
    (tmp_path / "a.parameters.json").write_text(json.dumps({"model": {"layers": [1]}}))
    with pytest.raises(InputError, match=r"model.layers: not a parameter; found .*; expected a number"):
        learn([tmp_path])
    (tmp_path / "a.parameters.json").write_text(json.dumps({"model": {"layers": 1, "": 2}}))
    with pytest.raises(InputError, match=r"\$.model: a parameter has no name; found {'': 2}; expected a name for each"):
        learn([tmp_path])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 24), st.sampled_from(["a", "ab", "bc", "abd", "cc", "d"])),
        min_size=1,
        max_size=5,
        unique_by=lambda term: term[1],
    ),
    st.integers(0, 2**32 - 1),
)
def test_sums_of_products_are_found_from_examples(terms: list[tuple[int, str]], seed: int) -> None:
    random = np.random.default_rng(seed)
    table = {name: random.integers(1, 200, 80) for name in "abcd"}
    wanted = sum(factor * np.prod([table[name] for name in names], axis=0) for factor, names in terms)
    found = law(Examples(np.asarray(wanted, np.int64)[:60], {name: column[:60] for name, column in table.items()}))
    assert found is not None
    assert expressions.value(found, table, 80).tolist() == np.asarray(wanted).tolist()


def test_waits_that_go_by_what_no_rule_knows_are_told() -> None:
    def job(count: int) -> Job:
        builder = cs.TraceBuilder()
        for at in range(count):
            for number, name in enumerate(("a", "c")):
                builder.add(3 * at + number, name=name, type=4, attrs={"num_ops": 7})
            builder.add(3 * at + 2, name="d", type=4, ctrl_deps=[3 * at + at % 2], attrs={"num_ops": 7})
        return Job((builder.build(),), np.zeros(1, np.int64))

    learned = cs.learn([({"n": count}, job(count)) for count in (601, 602, 603, 604, 605)])
    assert learned.lost["d: what it waits for (control)"] > 0.4


def test_values_that_no_job_had_are_told_where_one_is_a_case_of_its_own() -> None:
    def job(zero: int) -> Job:
        builder = cs.TraceBuilder()
        builder.add(0, name="a", type=4, attrs={"num_ops": {0: 17, 1: 900, 3: 41}[zero]})
        return Job((builder.build(),), np.zeros(1, np.int64))

    learned = cs.learn([({"zero": zero}, job(zero)) for zero in (0, 1, 3) * 4])
    notes = Notes()
    list(cs.synthesize(learned, {"zero": 2}, notes=notes))
    assert any("no job had zero 2" in warning for warning in notes.warnings)


def test_a_parameter_is_a_word_or_a_number() -> None:
    builder = cs.TraceBuilder()
    builder.add(0, name="a", type=4)
    own = Job((builder.build(),), np.zeros(1, np.int64))
    with pytest.raises(InputError, match="a word in some jobs and a number in others"):
        cs.learn([({"recompute": value}, own) for value in (8, "full")])


def test_a_search_ends_where_its_work_is_spent() -> None:
    random = np.random.default_rng(5)
    chance = Examples(random.integers(1, 1000, 80), {name: random.integers(0, 9, 80) for name in "abcdefgh"})
    work, again = Work(own=1_000_000), Work(own=1_000_000)
    assert law(chance, work=work) is None and law(chance, work=again) is None
    assert work == again and -1_000_000 < work.own <= 0


def test_a_law_takes_a_share_of_the_work_that_is_left() -> None:
    work = Work(left=600_000_000)
    work.begin()
    assert work.own == 50_000_000
    work.spend(700_000_000)
    assert work.is_spent
    work.begin()
    assert work.own == LEAST and not work.is_spent


def test_what_comes_every_few_iterations_follows_what_these_say_of_themselves() -> None:
    def steps(own: Parameters) -> Job:
        first, layers, every = (int(own[name]) for name in ("first", "layers", "every"))
        made = TraceBuilder()
        at = count()
        for layer in range(first, first + layers):
            names = [f"layer {layer}: work", *[f"layer {layer}: more"] * (not layer % every)]
            for name in names:
                made.add(id=next(at), name=name, type=NodeType.COMP_NODE, attrs={"num_ops": 64 * layers})
        return Job((made.build(),), np.zeros(1, np.int64), {}, own)

    every: list[Parameters] = [{"first": first, "layers": layers, "every": often} for first in range(5)
                               for layers in range(4, 9) for often in (1, 2, 3)]  # fmt: skip
    learned = learn([(own, steps(own)) for own in every])
    assert not learned.lost and len(learned.model.marks) == 1
    unseen: Parameters = {"first": 7, "layers": 12, "every": 2}
    assert [*nodes(made(learned, unseen).traces[0])] == [*nodes(steps(unseen).traces[0])]
