"""The tables hold the right figures, and their parts sum to the whole."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.report.tables.simulation import MOST_CLASSES, summary, summary_sections
from chakrasim.text.amounts import ranks_text, share_text, size_text, time_text
from chakrasim.text.layout import Section, plain_text, rich_text


def comp(micros, **attrs):
    return [{"id": 1, "type": 4, "duration_micros": micros, "attrs": {"is_cpu_op": False, **attrs}}]


def coll(kind, size):
    return [{"id": 1, "type": 7, "attrs": {"is_cpu_op": False, "comm_type": kind, "comm_size": size}}]


def row(text: str, name: str) -> list[str]:
    """The cells of the first table row that begins with ``name``."""
    line = next(line for line in text.splitlines() if line.strip().startswith(name))
    return re.split(r"\s{2,}", line.strip())


def test_step(step):
    text = summary(step)
    assert row(text, "makespan") == ["makespan", "84.01 us (84,012 ns)"]
    assert row(text, "ranks") == ["ranks", "4, congestion-aware network"]
    assert row(text, "finish") == ["finish", "all ranks at 84.01 us"]
    assert row(text, "folding") == ["folding", "4 ranks in 1 class of 4 equal ranks"]
    assert row(text, "moved")[1].startswith("6 MiB (6,291,456 B) in ")
    assert row(text, "compute")[1:3] == ["25 us", "29.8%"]
    assert row(text, "overlap")[1:3] == ["30 us", "35.7%"]
    assert row(text, "exposed_comm")[1:3] == ["29.01 us", "34.5%"]
    assert row(text, "sum")[1:3] == ["84.01 us", "100.0%"]
    assert "ASTRA-sim's exposed communication (finish less GPU busy time): mean 29.01 us" in text
    assert row(text, "0-3") == ["0-3", "4", "84.01 us", "25 us", "30 us", "29.01 us", "29.01 us"]
    # 1 MiB in 59,012 ns is 17.77 bytes per ns; times 2 * 3 / 4 for an all-reduce of four ranks.
    assert row(text, "all-reduce") == ["all-reduce", "1 MiB", "1 x 4", "ring", "4", "59.01 us", "17.77", "26.65"]
    assert "Busiest links" in text and "each row stands for 4 equal links" in text


def test_no_negative_time_is_shown_where_gpu_operations_run_side_by_side(step):
    text = summary(dataclasses.replace(step, exposed_comm_ns=np.array([-114_500_000, 5, 5, 5])))
    line = "ASTRA-sim's exposed communication (finish less GPU busy time): n/a, since GPU operations that ran side by "
    assert f"{line}side add up to more than the run (1 rank)" in text
    assert row(text, "0-3")[-1] == "n/a" and "-114" not in text


def test_spread_and_time_after_the_end(run):
    text = summary(run(comp(5), comp(3)))
    assert row(text, "finish") == ["finish", "first 3 us (rank 1), median 4 us, last 5 us (rank 0)"]
    assert row(text, "compute")[1:3] == ["4 us", "80.0%"]
    assert row(text, "done")[1:3] == ["1 us", "20.0%"]
    assert "Collectives" not in text and "Busiest links" not in text


def test_only_the_first_classes_are_listed(run):
    text = summary(run(*(comp(i + 1) for i in range(MOST_CLASSES + 3))))
    assert "... and 3 classes more" in text


def test_says_loudly_that_nothing_moved(run):
    text = summary(run(coll(5, 1 << 20), ranks=4))
    assert "NO BYTES WERE MOVED although the workload has collectives" in text
    assert "NO BYTES" not in summary(run(comp(5), ranks=4))
    replayed = summary(run(coll(0, 1 << 20), ranks=4, extra={"replay-only": 1}))
    assert "replay-only" in replayed


def test_warnings_stand_at_the_end(step):
    assert "Warnings" not in summary(step)
    warned = dataclasses.replace(step, warnings=("mind the gap",))
    assert summary(warned).endswith("\nWarnings\n  mind the gap\n")


def test_a_checked_input_has_no_times(run):
    text = summary(run(comp(5), ranks=4, check=True))
    assert "checked only" in text and "Where the time goes" not in text


def test_counted_nodes(run):
    text = summary(run(coll(5, 1 << 20), ranks=4))
    assert row(text, "broadcasts replayed")[-1] == "4" or row(text, "broadcasts replayed")[-1] == "1"


def test_parts_sum_to_the_whole(step):
    assert (step.parts_ns.sum(axis=1) == step.makespan_ns).all()


def test_styles_do_not_change_the_text(step):
    styled = rich_text(summary_sections(step))
    assert styled.plain + "\n" == plain_text(summary_sections(step))
    assert {str(span.style) for span in styled.spans} >= {"bold", "dim"}


def test_plain_text_aligns_numbers_to_the_right():
    section = Section("Title", ("name", "n"), (("a", "1"), ("bcdef", "23")), lines=("end",))
    assert plain_text([section]) == "Title\n  name    n\n  -----  --\n  a       1\n  bcdef  23\n  end\n"


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (1234567, "1.235 ms"), (90_000_000_000, "1.5 min"), (2.5, "2.5 ns")],
)
def test_times(ns, text):
    assert time_text(ns) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1 TiB")])
def test_sizes(size, text):
    assert size_text(size) == text


def test_shares():
    assert share_text(1, 3) == "33.3%"
    assert share_text(1, 0) == "-"


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "3"),
        ([0, 1, 2, 5], "0-2, 5"),
        ([0, 4, 8, 12], "0, 4, ... 12"),
        ([0, 1, 3, 4, 6, 7, 9, 10, 12, 13], "0-1, 3-4, 6-7, 9-10, ..."),
    ],
)
def test_lists_of_ranks(ranks, text):
    assert ranks_text(ranks) == text


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_list_of_ranks_begins_with_the_first(ranks):
    listed = sorted(ranks)
    assert re.match(r"\d+", ranks_text(np.array(listed).tolist()))[0] == str(listed[0])
