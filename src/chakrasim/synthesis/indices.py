"""Numbers in names that say which iteration of a loop a node is of, such as a layer's, which stays while the experts in
it go on: what is within an iteration, and where the next begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.roles import HOLE, Nodes, Role

Ints = NDArray[np.int64]
MOST: Final = 24
"""Words before numbers, at most."""
_WORD: Final = re.compile(r"([^\W\d_]*)[\W\d_]*$")
"""Letters, the last ones of a text."""


class Said:
    """What traces' nodes are, all one after another, and what their names say. ``begins``: of each node the loop of
    which an iteration begins with it by such numbers, the outermost, or 0."""

    def __init__(self, traces: Sequence[Sequence[int]], words: dict[str, Ints]) -> None:
        self.lengths = [len(roles) for roles in traces]
        self.roles = np.array([role for roles in traces for role in roles], np.int64)
        self.words = words
        self.begins = np.zeros(len(self.roles), np.int64)
        self.first = np.zeros(len(self.roles) + 1, np.bool_)
        self.first[np.cumsum([0, *self.lengths])] = True

    def of_traces(self) -> list[list[int]]:
        """``begins`` by trace."""
        return [own.tolist() for own in np.split(self.begins, np.cumsum(self.lengths)[:-1])]

    def within(self, own: set[int], edges: dict[int, set[int]], loop: int) -> dict[int, set[int]] | None:
        """What follows what in an iteration of the ``loop`` of these roles, if a number says of which a node is: one
        that most of its nodes have, and that comes in one stretch of each visit. Of several that of most nodes, and the
        outermost of these."""
        at = np.flatnonzero(np.isin(self.roles, [*own]))
        role = self.roles[at]
        known = [a * (1 << 31) + b for a in own for b in edges[a] & own]
        steps = np.isin(role[:-1] * (1 << 31) + role[1:], known) & (np.diff(at) == 1)
        steps &= ~self.first[at[1:]] & (self.begins[at[1:]] == 0)
        visit = np.cumsum(np.concatenate(([True], ~steps))) - 1
        found = [turns for word in self.words.values() if (turns := _turns(visit, word[at], role))]
        if not found:
            return None
        best = max(found, key=lambda turns: (turns.nodes, -len(turns.begins)))
        self.begins[at[best.begins]] = loop
        steps[best.begins - 1] = False
        inner: dict[int, set[int]] = {a: set() for a in own}
        for a, b in {*zip(role[:-1][steps].tolist(), role[1:][steps].tolist(), strict=True)}:
            inner[a].add(b)
        return inner


@dataclass(frozen=True, eq=False)
class _Turns:
    """``nodes`` that have a number; int64[n]: ``begins`` of iterations within visits."""

    nodes: int
    begins: Ints


def words_of(traces: Sequence[Nodes], roles: Sequence[Role]) -> dict[str, Ints]:
    """By word before a number in a name, the ``MOST`` that most nodes have, the number of each node of all traces: -1
    of those without. What is one number everywhere, such as that of c10d, is the name's."""
    places = [_words(role.name) for role in roles]
    often = Counter(role for nodes in traces for role in nodes.role)
    count = Counter[str]()
    for role, times in sorted(often.items()):
        count.update(dict.fromkeys(places[role], times))
    names = [name for name, _ in count.most_common(MOST)]
    places = [{word: place for word, place in own.items() if word in names} for own in places]
    found = {name: np.full(sum(map(len, traces)), -1, np.int64) for name in names}
    at = 0
    for nodes in traces:
        for role, numbers in zip(nodes.role, nodes.numbers, strict=True):
            for word, place in places[role].items():
                found[word][at] = numbers[place]
            at += 1
    return {word: own for word, own in found.items() if np.ptp(own[own >= 0])}


def _words(name: str) -> dict[str, int]:
    """The words before its numbers, and which of them; a number right after another has its word and a stroke."""
    found: dict[str, int] = {}
    word = ""
    for place, text in enumerate(name.split(HOLE)[:-1]):
        letters = _WORD.search(text)
        word = letters[1].lower() if letters and letters[1] else f"{word}/"
        found.setdefault(word, place)
    return found


def _turns(visit: Ints, numbers: Ints, role: Ints) -> _Turns | None:
    """Where iterations begin if these numbers, -1 where there are none, say which one it is. Nodes without stand with
    those before them, but for what never stands between nodes of one iteration."""
    have = np.flatnonzero(numbers >= 0)
    if 2 * len(have) <= len(visit):
        return None
    own, said = visit[have], np.unique(numbers[have], return_inverse=True)[1]
    same = np.diff(own) == 0
    other = same & (np.diff(said) != 0)
    stretches = np.count_nonzero(~same) + np.count_nonzero(other) + 1
    alone = len(np.unique(own * (said.max() + 1) + said)) == stretches
    if not alone or not other.any() or stretches == len(have):
        return None
    before, after = have[:-1][other], have[1:][other]
    between = np.zeros(len(visit) + 1, np.int64)
    np.add.at(between, before + 1, 1)
    np.add.at(between, after + 1, -1)
    stays = (np.cumsum(between)[1:-1] == 0) & (np.diff(visit) == 0)
    pairs = role[:-1] * (1 << 31) + role[1:]
    never = np.concatenate(([False], ~np.isin(pairs, pairs[stays])))
    last = np.maximum.accumulate(np.where(never, np.arange(len(visit)), 0))[after]
    return _Turns(len(have), np.where(last > before, last, after))
