"""Noise, and the test whether an answer hangs on one job: all in whole numbers, so that no rounding tells anything.

Discrete Laplace noise is drawn exactly, by comparisons of whole numbers from the system's secure source (Canonne,
Kamath and Steinke, The discrete Gaussian for differential privacy, 2020, algorithms 1 and 2). Time that drawing takes,
and memory, are no part of what is guaranteed.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from chakrasim.obfuscation.population.budget import Share

Below = Callable[[int], int]
"""A whole number from 0 to one less than what is given, each as likely: `secrets.randbelow`."""
SECURE: Below = secrets.randbelow


def laplace(epsilon: Fraction, below: Below = SECURE) -> int:
    """A whole number k with a probability in proportion to e^(-epsilon abs(k)): added to a count in which one job
    counts once, it makes the count epsilon-differentially private."""
    over, under = epsilon.numerator, epsilon.denominator
    while True:
        small = below(under)
        if not _happens(small, under, below):
            continue
        large = 0
        while _happens(1, 1, below):
            large += 1
        size = (small + under * large) // over
        negative = below(2)
        if size or not negative:
            return -size if negative else size


def _happens(over: int, under: int, below: Below) -> bool:
    """True with the probability e^-(over / under), of at most 1."""
    count = 1
    while below(under * count) < over:
        count += 1
    return count % 2 == 1


def reach(epsilon: Fraction, delta: float) -> int:
    """A whole number that the noise is not below with a probability of ``delta`` at most."""
    return max(1, math.ceil(-(math.log(delta) + math.log1p(math.exp(-epsilon))) / epsilon))


@dataclass
class Ballot:
    """What chunks say, question by question. An answer to a question is that of more than half of the chunks, at every
    place where it was asked, or none.

    One job more or less changes what one chunk says, to all questions at once, and thereby each count of equal answers
    by one at most. `distance` chunks at least have to change before any answer does, so that answers with a distance
    above a noisy threshold are released at the price of one: propose, test, release (Dwork and Lei 2009; Smith and
    Thakurta, Differentially private feature selection via stability arguments, 2013).
    """

    chunks: int
    least: dict[Hashable, int] = field(default_factory=dict)
    """By question the fewest chunks that agreed, over all places."""
    places: int = 0

    @property
    def majority(self) -> int:
        """So many chunks are more than half."""
        return self.chunks // 2 + 1

    def add(self, said: Iterable[Mapping[Hashable, object]]) -> dict[Hashable, object]:
        """Count what chunks say at a place, and give what more than half of them say, by question. One that a chunk
        does not answer has the answer None."""
        votes: dict[Hashable, Counter[object]] = {}
        given = [*said]
        for own in given:
            for question, answer in own.items():
                votes.setdefault(question, Counter())[answer] += 1
        found: dict[Hashable, object] = {}
        for question, counted in votes.items():
            counted[None] += self.chunks - counted.total()
            ((answer, agreed),) = counted.most_common(1)
            if agreed >= self.majority:
                found[question] = answer
            # At places before, none had answered.
            self.least[question] = min(self.least.get(question, self.chunks), agreed)
        self.places += 1
        return found

    def agreed(self) -> set[Hashable]:
        """Questions that have an answer."""
        return {question for question, count in self.least.items() if count >= self.majority}

    def distance(self) -> int:
        """So many chunks have to change before any answer does; of questions that nobody asked, too."""
        borders = (count - self.majority + 1 if count >= self.majority else self.majority - count
                   for count in self.least.values())  # fmt: skip
        return min([self.chunks - self.majority + 1, *borders])


def holds(distance: int, share: Share, below: Below = SECURE) -> bool:
    """Whether answers at this distance may be released: yes with a probability of delta at most where the distance is
    1, which it is for both of two sets of jobs that differ in one and have other answers."""
    return distance + laplace(share.epsilon, below) > reach(share.epsilon, share.delta)
