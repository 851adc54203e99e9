"""The straggler analysis: the published figures, and made steps against plain recursion."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim import InputError
from chakrasim.scenarios.changes import changed, with_changes
from chakrasim.scenarios.open_traces import read_open_trace, read_sizes
from chakrasim.scenarios.operations import COMMUNICATION, KINDS, Operations
from chakrasim.scenarios.recorded_steps import Replay, replay_of
from chakrasim.scenarios.stragglers import stragglers
from made_steps import FC, FR, FS, Made, Op

NAMES = "AR", "SE", "ST"


def published(shared: Path, name: str) -> Replay:
    pytest.importorskip("pyarrow")
    folder = shared / "validation" / "stragglers"
    return replay_of(read_open_trace(folder / f"trace-{name}.parquet", read_sizes(folder / f"meta-{name}.yaml")))


@pytest.mark.parametrize("name", NAMES)
def test_the_published_figures_come_out(name: str, shared_dir: Path) -> None:
    folder = shared_dir / "validation" / "stragglers"
    result, stage, worker = (
        json.loads((folder / f"{kind}-{name}.json").read_text()) for kind in ("result", "ms", "mw")
    )
    found = stragglers(published(shared_dir, name)).to_dict()
    for mine, theirs in (
        ("measured_s", "step_t_base"), ("replayed_s", "step_t_nodelay"), ("ideal_s", "step_t_noblk"),
        ("slowdown", "blocking_step_slowdown"),
    ):  # fmt: skip
        assert {step: row[mine] for step, row in found["steps"].items()} == pytest.approx(result[theirs], rel=1e-8)
    assert found["S"] == pytest.approx(result["blocking_slowdown"], rel=1e-8)
    for dimension, values in found["S_x"].items():
        assert values == pytest.approx(result[f"blocking_decompose_by_{dimension}"], rel=1e-8)
    for share, theirs in (("last_stage", stage), ("worst_workers", worker)):
        expected = {"removal": theirs["rem"], "addition": theirs["add"]}
        assert found["M"][share] == pytest.approx(expected, abs=1e-7)
    assert (found["M_S"], found["M_W"]) == (found["M"]["last_stage"]["removal"], found["M"]["worst_workers"]["removal"])


def test_the_injected_slowdown_is_found(shared_dir: Path) -> None:
    """Rank 0 was slowed on purpose: 2.03 times as long a step, as its authors measured."""
    found = stragglers(published(shared_dir, "AR"))
    assert found.slowdown == pytest.approx(2.03, rel=0.03)
    assert found.worst_workers == ((0, 0, 0),)


@pytest.mark.parametrize("name", NAMES)
def test_all_attributions_are_quick(name: str, shared_dir: Path) -> None:
    folder = shared_dir / "validation" / "stragglers"
    sizes = read_sizes(folder / f"meta-{name}.yaml")
    spent = []
    for _ in range(4):
        begin = time.process_time()
        stragglers(replay_of(read_open_trace(folder / f"trace-{name}.parquet", sizes)))
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.2


def operations(made: Made) -> Operations:
    columns = made.columns()
    kind = np.array([KINDS.index(each) for each in columns["optype"]])
    return Operations(
        *(columns[name] for name in ("dp_rank", "stage", "rank", "step")), kind, columns["seq_id"], columns["mc"],
        columns["start_ts"], columns["duration"], data_parallel=made.shared,
    )  # fmt: skip


def ideals(made: Made) -> dict[str, float]:
    """The durations of each kind, evened out."""
    by: dict[str, list[float]] = defaultdict(list)
    for duration in made.own.values():
        for op, each in duration.items():
            by[op[2]].append(each)
    return {kind: float((np.median if kind in COMMUNICATION else np.mean)(each)) for kind, each in by.items()}


SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 2))


@settings(max_examples=60)
@given(SHAPES, st.integers(0, 10**6), st.booleans(), st.integers(1, 2))
def test_made_steps_are_replayed_as_by_plain_recursion(
    shape: tuple[int, int, int, int], seed: int, overlap: bool, dsp: int
) -> None:
    made = Made(*shape, seed, overlap=overlap, dsp=dsp)
    found = stragglers(replay_of(operations(made)))
    ideal = ideals(made)

    def steps(kept: object) -> list[float]:
        """With some operations as recorded, of all steps."""
        assert callable(kept)
        return [
            made.step_s({op: each if kept(op) else ideal[op[2]] for op, each in duration.items()})
            for duration in made.own.values()
        ]

    assert found.step.tolist() == made.ids
    assert found.replayed_s == pytest.approx(steps(lambda op: True))
    assert found.ideal_s == pytest.approx(steps(lambda op: False))
    for replica in range(made.dp):
        assert found.only_s["dp_rank"][str(replica)] == pytest.approx(steps(lambda op, one=replica: op[0] == one))
    for stage in range(made.pp):
        assert found.only_s["stage"][str(stage)] == pytest.approx(steps(lambda op, one=stage: op[1] == one))
    assert found.only_s["optype"][FC] == pytest.approx(steps(lambda op: op[2] == FC))
    if made.pp > 1:
        assert found.only_s["optype"]["forward-pp-comm"] == pytest.approx(steps(lambda op: op[2] in (FS, FR)))
    last, mean = made.pp - 1, np.mean(found.replayed_s)
    slow = mean - found.ideal_s.mean()
    if abs(slow) > 1e-9:
        assert found.last_stage.removal * slow == pytest.approx(mean - np.mean(steps(lambda op: op[1] != last)))
        worst = {each[:2] for each in found.worst_workers}
        alone = np.mean(steps(lambda op: op[:2] in worst))
        assert found.worst.addition * slow == pytest.approx(alone - found.ideal_s.mean())


@settings(max_examples=30)
@given(SHAPES, st.integers(0, 10**6), st.floats(0, 3), st.floats(0, 3))
def test_changes_are_those_of_plain_recursion(
    shape: tuple[int, int, int, int], seed: int, factor: float, other: float
) -> None:
    made = Made(*shape, seed)
    replay = replay_of(operations(made))
    stage, replica = made.pp - 1, made.dp - 1
    asked = [f"{FC}={factor}", f"worker:{replica}/{stage}={other}", "optimizer=ideal"]
    ideal = ideals(made)["optimizer"]

    def after(op: Op, duration: float) -> float:
        if op[2] == "optimizer":
            return ideal
        return duration * (factor if op[2] == FC else 1) * (other if op[:2] == (replica, stage) else 1)

    found = with_changes(replay, changed(replay, asked))
    expected = [made.step_s({op: after(op, each) for op, each in own.items()}) for own in made.own.values()]
    assert found.after_s == pytest.approx(expected)
    assert found.before_s == pytest.approx([made.step_s(own) for own in made.own.values()])


def test_groups_are_changed_as_wholes() -> None:
    replay = replay_of(operations(Made(2, 2, 2, 2, 1)))
    words = {
        "all": np.ones(len(replay.kind), bool),
        "communication": np.isin(replay.kind, [KINDS.index(each) for each in COMMUNICATION]),
        "computation": ~np.isin(replay.kind, [KINDS.index(each) for each in COMMUNICATION]),
        "stage:1": replay.stage == 1,
        "dp_rank:0": replay.dp_rank == 0,
        "worker:0/1": (replay.dp_rank == 0) & (replay.stage == 1),
    }
    for target, own in words.items():
        assert (changed(replay, [f"{target}=0.5"]).factor == np.where(own, 0.5, 1.0)).all(), target
        assert (changed(replay, [f"{target}=ideal"]).ideal == own).all(), target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stage:3", "no change; found 'stage:3'; expected TARGET=FACTOR"),
        ("stage:3=0.5", "the trace has no such operation; expected dp ranks 0 to 1, stages 0 to 1"),
        ("stage:1/1=0.5", "no such target"),
        ("worker:1=0.5", "no such target"),
        ("forward-compote=0.5", "no such target.*did you mean forward-compute"),
        ("stage:1=-1", "no factor; found '-1'"),
        ("stage:1=nan", "no factor"),
        ("stage:1=fast", "no factor; found 'fast'; expected how many times as long it takes"),
        ("separate-grads-all-reduce=0", "the trace has no such operation"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(text: str, words: str) -> None:
    replay = replay_of(operations(Made(2, 2, 2, 2, 1)))
    with pytest.raises(InputError, match=words):
        changed(replay, [text])


def test_operations_in_a_circle_are_told() -> None:
    """Of the first step, the second forward pass of stage 0 begins after the first backward pass on the clock alone."""
    made = Made(1, 2, 2, 1, 1)
    rows = operations(made)
    late = (rows.kind == KINDS.index(FC)) & (rows.stage == 1) & (rows.sequence == 0)
    early = (rows.kind == KINDS.index("backward-compute")) & (rows.stage == 1) & (rows.sequence == 1)
    rows.start_s[early], rows.start_s[late] = 0.0, 100.0
    with pytest.raises(InputError, match="wait for each other in a circle"):
        replay_of(rows)
