"""Who came late to each collective, by how much, and whom it cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chakrasim.analysis.collectives import collective_split
from chakrasim.cli.main import main
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.report.tables.collective import collective_sections
from chakrasim.text.layout import plain_text
from chakrasim.trace.linked.columns import LinkedTrace
from made_traces import SEND_RECV, MadeTrace


def three_ranks(folder: Path) -> list[LinkedTrace]:
    """Rank 1 is 150 us late to the first all-reduce (50 us after rank 2), rank 0 is 30 us late to the second."""
    linked = []
    for rank, starts in enumerate(((100, 530), (250, 500), (200, 500))):
        made = MadeTrace(rank, 3)
        made.all_reduce(starts[0], 300 - starts[0], 12_500)
        made.all_reduce(starts[1], 600 - starts[1], 2_500)
        linked.append(made.link(folder))
    return linked


def test_who_was_late_and_whom_it_cost(tmp_path: Path) -> None:
    split = collective_split(three_ranks(tmp_path))
    assert split.collectives.records() == [
        {
            "group": "0",
            "number": 0,
            "operation": "all_reduce",
            "bytes": 50_000,
            "members": 3,
            "ranks": 3,
            "first_arrival_ns": 0,
            "last_rank": 1,
            "late_ns": 50_000,
            "cost_ns": 200_000,
            "transfer_ns": 50_000,
            "algbw_gbs": 1.0,
            "busbw_gbs": pytest.approx(4 / 3),
        },
        {
            "group": "0",
            "number": 1,
            "operation": "all_reduce",
            "bytes": 10_000,
            "members": 3,
            "ranks": 3,
            "first_arrival_ns": 400_000,
            "last_rank": 0,
            "late_ns": 30_000,
            "cost_ns": 60_000,
            "transfer_ns": 70_000,
            "algbw_gbs": pytest.approx(1 / 7),
            "busbw_gbs": pytest.approx(4 / 21),
        },
    ]
    assert split.arrivals.arrival_ns.tolist() == [0, 150_000, 100_000, 430_000, 400_000, 400_000]
    assert split.arrivals.wait_ns.tolist() == [150_000, 0, 50_000, 0, 30_000, 30_000]
    assert split.ranks.wait_suffered_ns.tolist() == [150_000, 30_000, 80_000]
    assert split.ranks.wait_caused_ns.tolist() == [60_000, 200_000, 0]
    assert split.ranks.times_last.tolist() == [1, 1, 0]
    assert split.ranks.wait_pct[0] == pytest.approx(100 * 150 / 270)
    assert split.wait_share == pytest.approx(260 / (270 + 150 + 200))
    assert split.notes == ()


def test_waiting_caused_is_waiting_suffered(tmp_path: Path) -> None:
    split = collective_split(align(three_ranks(tmp_path)))
    assert split.ranks.wait_caused_ns.sum() == split.ranks.wait_suffered_ns.sum() == split.arrivals.wait_ns.sum()
    assert split.collectives.cost_ns.sum() == split.arrivals.wait_ns.sum()


def test_messages_are_rows_too(tmp_path: Path) -> None:
    one, two = MadeTrace(0), MadeTrace(1)
    for made in (one, two):
        made.all_reduce(1000, 50)
    one.record("send", 0, 6, **{"Dst Rank": 1})
    one.kernel(10, 40, 3, SEND_RECV)
    two.record("recv", 0, 6, **{"Src Rank": 0})
    two.kernel(30, 20, 3, SEND_RECV)
    split = collective_split([one.link(tmp_path), two.link(tmp_path)])
    message = split.collectives.records()[1]
    assert (message["operation"], message["last_rank"], message["late_ns"], message["cost_ns"]) == (
        "message",
        1,
        20_000,
        20_000,
    )
    assert message["busbw_gbs"] == message["algbw_gbs"] == pytest.approx(1000 / 20_000)


def test_nothing_to_compare_is_said_not_divided_by(tmp_path: Path) -> None:
    made = MadeTrace(0, 1)
    made.all_reduce(10, 5)
    split = collective_split([made.link(tmp_path)])
    assert len(split.collectives) == 0
    assert np.isnan(split.wait_share)
    assert split.to_mapping()["wait_share"] is None
    assert "no collective could be compared" in plain_text(collective_sections(split))
    assert len(collective_split([]).ranks) == 0


def test_disagreements_are_notes(tmp_path: Path) -> None:
    linked = three_ranks(tmp_path)
    assert collective_split(linked[:2]).notes == ("rank 2 of 3 ranks has no trace",)


def test_the_frame_has_a_row_for_each_rank_of_each_collective(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = collective_split(three_ranks(tmp_path)).to_frame()
    assert len(frame) == 6
    assert frame.groupby("last_rank").wait_ns.sum().to_dict() == {0: 60_000, 1: 200_000}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_ranks(tmp_path)
    assert main(["analyze", "collectives", str(tmp_path), "--most", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  2 collectives of 3 ranks: 41.9% of the time in them was waiting for others"
    row = ("0 #0", "all_reduce", "48.83 KiB", "3 of 3", "1", "50 us", "200 us", "50 us", "1.333")
    assert lines[-1].split() == " ".join(row).split()
    files = [str(tmp_path / f"device.{rank}.json") for rank in range(3)]
    assert main(["analyze", "collectives", *files, "--json", "-"]) == 0
    split = json.loads(capsys.readouterr().out)
    assert split["ranks"]["records"][1]["wait_caused_ns"] == 200_000
    assert main(["analyze", "collectives", str(tmp_path), "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_command_refuses_what_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert main(["analyze", "collectives", str(tmp_path / "notes.txt")]) == 2
    assert "this is no trace of the PyTorch profiler" in capsys.readouterr().err
    assert main(["analyze", "collectives", str(tmp_path / "absent.json")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["analyze", "collectives", str(tmp_path)]) == 2
    assert "there are no traces" in capsys.readouterr().err
