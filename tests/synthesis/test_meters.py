"""What adds up along a loop until it is enough, found from what is let go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chakrasim.synthesis.search.levels import Known, Table
from chakrasim.synthesis.search.meter_search import meter_of
from chakrasim.synthesis.search.meters import Meter, Pieces

Case = tuple[Table, Table, Pieces]


def examples(jobs: int, limit: int, *, stated: bool) -> Case:
    """Jobs of two ranks with as many layers each, of which the last has a start, and the first keeps what is left."""
    random = np.random.default_rng(3)
    rows: dict[str, list[int]] = {name: [] for name in ("job", "rank", "value", "parent", "width", "words", "stage")}
    runs: dict[str, list[int]] = {name: [] for name in ("width", "words", "stage")}
    for job in range(jobs):
        width, words, layers = (int(random.integers(low, high)) for low, high in ((4, 60), (4, 30), (1, 12)))
        for stage in (0, 1):
            for name, number in (("width", width), ("words", words), ("stage", stage)):
                runs[name].append(number)
            held = width * words if stage else 0
            held = 0 if held >= limit else held
            for layer in range(layers):
                held += 3 * width
                fires = held >= limit or (stage == 1 and layer == layers - 1)
                row = (job, 2 * job + stage, held if fires else 0, 2 * job + stage, width, words, stage)
                for column, number in zip(rows.values(), row, strict=True):
                    column.append(number)
                held = 0 if fires else held
    own = {name: np.array(column, np.int64) for name, column in rows.items()}
    around = {name: np.array(column, np.int64) for name, column in runs.items()}
    both = []
    for each, job_of, rank_of in (
        (own, own["job"], own["rank"]),
        (around, np.arange(2 * jobs) // 2, np.arange(2 * jobs)),
    ):
        said = {"limit": np.full(len(job_of), limit)} if stated else {}
        first = {"width": each["width"], "words": each["words"], **said}
        both.append(Table(job_of, rank_of, (first, {"stage": each["stage"]}, {})))
    return both[0], both[1], Pieces(own["value"], own["parent"])


@pytest.mark.parametrize("stated", [True, False])
def test_what_adds_up_is_found_with_its_start_its_limit_and_its_end(stated: bool) -> None:
    own, around, pieces = examples(40, 200, stated=stated)
    found = meter_of(0, 1, [pieces], own, around, Known())
    assert found is not None
    assert found.weights == (["sum", [[3, 1, {"width": 2}]]],)
    assert found.limit == (["column", "limit"] if stated else found.limit)
    more, beyond, all_of = examples(90, 200, stated=stated)
    first, second = found.columns(more.columns(2), beyond.columns(2), all_of.parent, 180)
    (_, low, _), (_, high, _) = found.gap
    assert stated or low < 200 <= high
    most = int(first["sum of meter 0"].max())
    between = [
        replace(found, gap=(["const", low, 1], ["const", high, 1])) for low, high in ((150, 300), (most, 1 << 40))
    ]
    assert [each.in_doubt(more.columns(2), first, second, all_of.parent) > 0 for each in between] == [True, False]
    assert (first["sum of meter 0"] * first["fires of meter 0"] == all_of.value).mean() > 0.99
    assert (second["left of meter 0"][1::2] == 0).all()
    assert second["left of meter 0"][::2].any()
    assert second["early of meter 0"].any()


def test_what_does_not_add_up_has_no_meter() -> None:
    own, around, pieces = examples(40, 200, stated=True)
    drawn = np.random.default_rng(1).integers(1, 900, len(pieces.value))
    assert meter_of(0, 1, [Pieces(drawn * (pieces.value > 0), pieces.parent)], own, around, Known()) is None
    assert meter_of(0, 1, [Pieces(pieces.value * 0, pieces.parent)], own, around, Known()) is None


def test_a_meter_says_what_iterations_add_as_one_sum() -> None:
    first, second = ([[2, 1, {"width": 2}]], [[3, 1, {"words": 2}]])
    nothing = ["const", 0, 1]
    meter = Meter(0, 1, nothing, (["+", ["sum", first], ["sum", second]],), nothing, nothing, nothing)
    assert meter.sums() == [["sum", [*first, *second]]]
    assert replace(meter, weights=(["column", "width"],)).sums() == []


def test_a_meter_without_iterations_keeps_its_start() -> None:
    one = ["const", 1, 1]
    meter = Meter(0, 1, ["const", 7, 1], (one,), ["const", 5, 1], ["const", 0, 1], one)
    first, second = meter.columns({}, {}, np.zeros(0, np.int64), 1)
    assert not len(first["sum of meter 0"])
    assert {name: column.tolist() for name, column in second.items()} == {
        "left of meter 0": [7], "left since of meter 0": [0], "left begun of meter 0": [1],
        "early of meter 0": [0], "active of meter 0": [1], "let go of meter 0": [0],
    }  # fmt: skip
