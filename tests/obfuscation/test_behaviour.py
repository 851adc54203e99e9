"""Level behaviour: what is left, how near its time is, and what exhaustive search finds out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import bytes_of, dense, makespans

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.machine import load_device
from chakrasim.notes import Notes
from chakrasim.obfuscation import inversion as attack
from chakrasim.obfuscation.behaviour import Grid, only_behaviour
from chakrasim.obfuscation.price import on_device
from chakrasim.trace import NodeType, TraceBuilder
from chakrasim.trace.job.job import Job

H100 = load_device("h100")


@settings(max_examples=30)
@given(st.integers(0, 10**13), st.sampled_from([1.001, 1.05, 2.0]))
def test_the_grid_rounds_up_by_its_ratio_at_most(value: int, ratio: float) -> None:
    grid = Grid(ratio)
    up = grid.up(value)
    assert value <= up < max(value, 1) * ratio + 1 and grid.up(up) == up
    assert grid.up(value + 1) >= up


@settings(max_examples=30)
@given(st.integers(0, 10**13), st.sampled_from([1.001, 1.05, 2.0]))
def test_the_middle_tells_what_the_next_point_tells_and_is_off_by_half_the_ratio(value: int, ratio: float) -> None:
    grid = Grid(ratio)
    middle = grid.middle(value)
    assert grid.up(middle) == grid.up(value) and grid.middle(grid.up(value)) == middle
    assert value / ratio**0.5 - 1 <= middle <= value * ratio**0.5 + 1


@settings(max_examples=30)
@given(st.integers(0, 62), st.integers(-1, 1), st.sampled_from([1.001, 1.05, 1.9]))
def test_what_is_rounded_alike_has_as_many_bits(bits: int, more: int, ratio: float) -> None:
    value = 2**bits + more
    assert Grid(ratio).middle(value).bit_length() == value.bit_length()


@pytest.mark.parametrize("value", [2**62, 2**63 - 1000, 2**63 - 1])
def test_the_largest_numbers_stay_of_64_bits(value: int) -> None:
    assert value <= Grid(1.2).up(value) < 2**63 and value / 1.2 < Grid(1.2).middle(value) < 2**63


@pytest.mark.parametrize("split", [{"pp": 2}, {"tp": 1, "dp": 4}, {"dp": 1}, {"tp": 1, "dp": 1}])
def test_runs_take_the_time_of_their_nodes(split: dict[str, int]) -> None:
    job = dense(**split)
    found = only_behaviour(job, Grid(1.001), H100)
    before, after = (np.array(makespans(one)) for one in (on_device(job, H100), found))
    assert (np.abs(after / before - 1) <= 0.001).all()
    for old, new in zip(job.traces, found.traces, strict=True):
        kinds = [Counter(zip(one.types.tolist(), one.attr("comm_type").integers_or(-1).tolist(), strict=True))
                 for one in (old, new)]  # fmt: skip
        assert all(kinds[1][key] == count for key, count in kinds[0].items() if key[0] != NodeType.COMP_NODE)
        assert 0 < kinds[1][int(NodeType.COMP_NODE), -1] < kinds[0][int(NodeType.COMP_NODE), -1]


def test_a_run_is_launched_as_late_as_its_nodes_make_it() -> None:
    spec = {"model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1024, "sequence": 256}, "launch_ns": 5000}
    job = cs.transformer_job(spec | {"parallel": {"tp": 2}, "batch": {"micro_batches": 2, "micro_batch": 1}})
    before, after = (makespans(one)[0] for one in (on_device(job, H100), only_behaviour(job, Grid(1.001), H100)))
    assert abs(after / before - 1) <= 0.01


def test_nothing_but_behaviour_is_left() -> None:
    found = cs.obfuscate(dense(pp=2), level="behaviour", device="h100", machines=("h100",))
    (job,) = found.jobs
    assert {trace.name(at) for trace in job.traces for at in range(len(trace))} <= {
        "compute", "send", "receive", "collective",
    }  # fmt: skip
    left = {name for trace in job.traces for name in trace.attr_names()}
    assert left <= {"is_cpu_op", "compute_ns", "stream", "comm_type", "comm_size", "pg_name", "comm_peer", "comm_tag"}
    assert not job.parameters and not any(trace.metadata for trace in job.traces)
    assert b"layer" not in bytes_of(list(found.jobs)) and set(job.process_groups) == {"group_a", "group_b", "group_c"}
    assert all(abs(one.largest_error) <= 0.025 for one in found.price)


def test_messages_just_below_what_a_library_goes_by_do_not_pass_it_together() -> None:
    """All of them rounded up took another way between nodes, and the step 7.6 % longer."""
    model = {"layers": 4, "hidden": 576, "heads": 6, "feed_forward": 2048, "vocabulary": 57856, "sequence": 512}
    split, batch = {"tp": 2, "dp": 8, "zero": 3, "sp": True}, {"micro_batch": 4, "micro_batches": 2}
    job = cs.transformer_job({"model": model, "parallel": split, "batch": batch})
    found = cs.obfuscate(job, level="behaviour", device="h100")
    assert len(found.price) == 3 and all(abs(one.largest_error) <= 0.02 for one in found.price)


def test_host_work_memory_and_waits_of_the_host_have_their_place() -> None:
    made = TraceBuilder()
    made.add(0, "host", attrs={"is_cpu_op": True, "tid": "main"}, duration_micros=3)
    made.add(1, "host", attrs={"is_cpu_op": True, "tid": "main"}, duration_micros=4, ctrl_deps=[0])
    made.add(2, "gemm", attrs={"is_cpu_op": False, "stream": 7, "host_waits": True}, duration_micros=10, data_deps=[1])
    made.add(3, "gemm", attrs={"is_cpu_op": False, "stream": 7, "launch_ns": 5}, duration_micros=10)
    made.add(4, "load", NodeType.MEM_LOAD_NODE, attrs={"is_cpu_op": False, "tensor_size": 1000}, data_deps=[3])
    found = only_behaviour(Job((made.build(),), np.zeros(1, np.int64)), Grid(1.05), None).traces[0]
    nodes = [found.node(at) for at in range(len(found))]
    assert [(node.name, node.data_deps) for node in nodes] == [
        ("compute", ()), ("compute", (0,)), ("compute", ()), ("load", (2,)),
    ]  # fmt: skip
    assert nodes[0].attrs == {"is_cpu_op": True, "compute_ns": Grid(1.05).middle(7000), "tid": 0}
    assert nodes[1].attrs["host_waits"] and nodes[3].attrs["tensor_size"] == Grid(1.05).middle(1000)
    assert nodes[2].attrs["launch_ns"] == 5


def test_what_cannot_be_told() -> None:
    with pytest.raises(InputError, match=r"say what they do, but not how long it takes.*--device-profile"):
        cs.obfuscate(dense(), level="behaviour", machines=())
    with pytest.raises(InputError, match=r"no ratio of a grid; found 1; expected 1\.001"):
        cs.obfuscate(dense(), level="behaviour", device="h100", ratio=1.0)
    with pytest.raises(InputError, match="there is no such level; found 'motif'"):
        cs.obfuscate(dense(), level="motif")


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"comm_type": "secret"}, "attribute 'comm_type' is a text, which would be released"),
        ({"comm_tag": b"secret"}, "attribute 'comm_tag' is a text, which would be released"),
        ({"comm_tag": [b"secret"]}, "attribute 'comm_tag' is no whole number, which would be released"),
        ({"pg_name": "secret"}, "attribute 'pg_name' is a text, which would be released"),
        ({"comm_size": "secret"}, "attribute 'comm_size' is a text, which would be released"),
        ({"comm_size": float("nan")}, "attribute 'comm_size' is no whole number, .*found nan"),
        ({"comm_parts": ["secret"]}, "attribute 'comm_parts' is no whole number"),
    ],
)
def test_what_is_no_number_is_refused(attrs: dict[str, object], message: str) -> None:
    said = TraceBuilder()
    said.add(0, "sum", NodeType.COMM_COLL_NODE, attrs={"comm_type": 0, "comm_size": 8} | attrs)
    with pytest.raises(InputError, match=message):
        only_behaviour(Job((said.build(),), np.zeros(1, np.int64)), Grid(1.05), None)


def test_exhaustive_search_guesses_the_spec_no_oftener_than_one_in_A(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacker makes a release of every spec of a grid, and takes one of those that are equal to what he sees."""
    axes = {"layers": (2,), "hidden": (256, 320), "head_size": (64, 128), "widening": (400,), "sequence": (256,),
            "vocabulary": (1000, 1024, 1040), "micro_batch": (1, 2)}  # fmt: skip
    monkeypatch.setattr(attack, "AXES", {name: axes[name] for name in attack.AXES})
    grid, job = Grid(1.2), dense(tp=1, dp=2)
    released = only_behaviour(job, grid, H100)
    found = attack.inversion(job, released, grid, H100)
    spec = attack._spec(job.parameters)
    assert spec is not None
    own = attack._own(spec)
    assert found.same is not None and found.specs == 2 * 2 * 3 * 2
    every = {*zip(*(one.tolist() for one in attack._columns(own, attack._axes(own))), strict=True)}
    shown = attack._shown(released)
    equal = [sizes for sizes in every if attack._release(spec, sizes, grid, H100) == shown]
    assert own in equal
    posterior = 1 / len(equal)
    assert found.same > 1 and posterior <= 1 / found.same
    alike = [name for name, values in zip(attack.SIZES, zip(*equal, strict=True), strict=True) if len({*values}) == 1]
    assert {*alike} <= {*found.told} and 0 < len(found.told) < len(attack.SIZES)


def test_what_nothing_hides_is_told_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "AXES", {name: (400,) if name == "widening" else () for name in attack.AXES})
    notes = Notes()
    found = cs.obfuscate(dense(), level="behaviour", device="h100", ratio=1.001, machines=(), notes=notes)
    assert found.inversion[0].same == 1
    assert [*notes.warnings] == [
        "1 of 1 jobs: no other spec was found that gives the same release, so that the model's dimensions can be read "
        "off it; take a coarser grid than --ratio 1.001"
    ]
    assert found.inversion[0].told == attack.SIZES
    notes = Notes()
    bare = Job(dense().traces, dense().trace_of_rank, dense().process_groups)
    found = cs.obfuscate(bare, level="behaviour", device="h100", machines=(), notes=notes)
    assert found.inversion[0].same is None and "is not known, so take it for 1" in notes.warnings[0]


def test_sizes_in_which_look_alikes_do_not_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = {name: (64, 128) if name == "head_size" else (400,) if name == "widening" else () for name in attack.AXES}
    monkeypatch.setattr(attack, "AXES", axes)
    notes = Notes()
    found = cs.obfuscate(dense(dp=1, tp=1), level="behaviour", device="h100", ratio=1.5, machines=(), notes=notes)
    (one,) = found.inversion
    assert (one.same, one.told) == (2, tuple(name for name in attack.SIZES if name != "head_size"))
    assert [*notes.warnings] == [
        "1 of 1 jobs: all specs found that give the same release have one value of layers, hidden, feed_forward, "
        "vocabulary, sequence, micro_batch, so that these can be read off it at --ratio 1.5"
    ]


@pytest.mark.parametrize("said", [
    {"model": "gpt", "parallel": "tp", "batch": 8}, {"model.hidden": 0}, {"model.hidden": "wide"},
    {"parallel.tp": "all"}, {"overlap": True}, {"model.kv_heads.of": 4},
])  # fmt: skip
def test_parameters_that_only_look_like_a_spec_are_none(said: dict[str, int | str]) -> None:
    job, grid = dense(pp=2), Grid(1.05)
    odd = Job(job.traces, job.trace_of_rank, job.process_groups, {**job.parameters, **said})
    assert attack.inversion(odd, only_behaviour(odd, grid, H100), grid, H100) == attack.Inversion(None)
