"""Columns of integers as text."""

from __future__ import annotations

from typing import Any

from chakrasim.jit import kernel


@kernel
def print_numbers(numbers: Any, room: Any) -> int:
    """Write the numbers into ``room`` (uint8), a comma behind each; returns how many bytes that took."""
    at = 0
    for index in range(len(numbers)):
        rest = numbers[index]
        begin = at
        if rest < 0:
            # The last digit of a negative number first: the rest of it can then be made positive.
            room[at] = 45
            digit = (10 - rest % 10) % 10
            room[at + 1] = 48 + digit
            begin = at + 1
            at += 2
            rest = -((rest + digit) // 10)
            more = rest > 0
        else:
            more = True
        while more:
            room[at] = 48 + rest % 10
            at += 1
            rest = rest // 10
            more = rest > 0
        left = begin
        right = at - 1
        while left < right:
            swapped = room[left]
            room[left] = room[right]
            room[right] = swapped
            left += 1
            right -= 1
        room[at] = 44
        at += 1
    return at
