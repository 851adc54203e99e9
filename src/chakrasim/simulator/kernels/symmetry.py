"""Ranks under a symmetry: digits, frames, and the detection of ties that the symmetry cannot decide.

A rank number is written in mixed radix; some of its digits are *folded*: adding any number to a folded digit (modulo
its radix) maps the whole simulation onto itself. Only ranks whose folded digits are zero are simulated, each for its
class.

What a class's representative sees of another rank is that rank moved by the translation that brings the place of the
event into the representative's own position: the *frame* of the place. The *root* of an event is the rank whose first
issue pass started the chain of causes that led to it, the *lineage* a hash of the ticks along that chain. Two events
of one tick run in the order of their lineages; when these are equal, in the order of their roots (astra-system.md,
2.2 and 2.3: lists keep the order of insertion). The second rule is not invariant under a translation of the most
significant digit in which the roots differ. Where two such events meet at one rank or one link, the symmetry is
broken and the run reports the digit.
"""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words

DIGIT_STRIDE = 0
DIGIT_RADIX = 1
DIGIT_FOLDED = 2
DIGIT_WORDS = 3


@inner
def move(m: Words, rank: int, by: int, sign: int) -> int:
    """``rank`` moved by the translation that takes ``by``'s representative to ``by`` (sign 1) or back (-1)."""
    for i in range(m[at.DIGITS]):
        digit = m[at.DIGIT_TABLE] + i * DIGIT_WORDS
        if m[digit + DIGIT_FOLDED] != 0:
            stride = m[digit + DIGIT_STRIDE]
            radix = m[digit + DIGIT_RADIX]
            old = (rank // stride) % radix
            new = (old + sign * ((by // stride) % radix)) % radix
            rank += (new - old) * stride
    return rank


@inner
def meet(m: Words, place: int, time_field: int, root: int) -> None:
    """Note an event at a rank or link, and report a tie with the one before it that the symmetry cannot decide.

    ``place + time_field`` is the first of three words: time, lineage and root of the last event there.
    """
    last = place + time_field
    if m[last] == m[at.NOW] and m[last + 1] == m[at.LINEAGE] and m[last + 2] != root:
        other = m[last + 2]
        for i in range(m[at.DIGITS] - 1, -1, -1):
            digit = m[at.DIGIT_TABLE] + i * DIGIT_WORDS
            stride = m[digit + DIGIT_STRIDE]
            radix = m[digit + DIGIT_RADIX]
            if (root // stride) % radix != (other // stride) % radix:
                if m[digit + DIGIT_FOLDED] != 0 and m[at.HAZARD] == 0:
                    m[at.HAZARD] = i + 1
                break
    m[last] = m[at.NOW]
    m[last + 1] = m[at.LINEAGE]
    m[last + 2] = root


@leaf
def slot_of(m: Words, rank: int) -> int:
    """The slot record of a simulated rank."""
    number = rank if m[at.FOLDED] == 0 else m[m[at.SLOT_OF] + rank]
    return m[at.SLOT_TABLE] + number * at.SLOT_WORDS
