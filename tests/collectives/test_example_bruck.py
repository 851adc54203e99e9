"""The example of docs/howto-add-a-collective.md: that it is what the page shows, is short, and moves the right data."""

from __future__ import annotations

from pathlib import Path

import example_bruck
import pytest
from model import interpret

from chakrasim.collectives import Collective, Request, ScheduleError, build, is_known

SOURCE = Path(example_bruck.__file__).read_text(encoding="utf-8")


def test_the_page_shows_the_file() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "howto-add-a-collective.md"
    assert SOURCE in page.read_text(encoding="utf-8")


def test_it_is_one_file_of_at_most_60_lines() -> None:
    assert len(SOURCE.splitlines()) <= 60
    assert is_known("bruck")


@pytest.mark.parametrize("members", range(2, 18))
def test_every_member_gets_every_block(members: int) -> None:
    held = [[i] for i in range(members)]

    def send(member: int, number: int, peer: int, size: int) -> list[int]:
        assert size % 100 == 0
        return held[member][: size // 100]

    def receive(member: int, number: int, peer: int, content: list[int]) -> None:
        assert not set(held[member]) & set(content)
        held[member] += content

    result = interpret(build("bruck", Request(Collective.ALL_GATHER, members, 100)), send, receive, members)
    assert held == [[(i + k) % members for k in range(members)] for i in range(members)]
    assert {one.sent for one in result.members} == {(members - 1).bit_length()}
    assert {one.sent_bytes for one in result.members} == {(members - 1) * 100}


def test_it_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ScheduleError, match="bruck is an all-gather; found ALL_REDUCE; expected ALL_GATHER"):
        build("bruck", Request(Collective.ALL_REDUCE, 4, 100))
