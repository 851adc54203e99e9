"""Which rule finds the routes of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chakrasim.errors import InputError, near

RULES: Final = ("shortest", "ecmp", "spray", "d-mod-k", "s-mod-k", "dimension-order", "adaptive", "given")
METRICS: Final = ("hops", "latency", "cost")


@dataclass(frozen=True)
class GivenPath:
    """A way from one vertex to another, by names, and what part of the pair's flows takes it, beside the weights of
    the pair's other ways; for one ``label`` only, or (None) for all that have no way of their own."""

    source: str
    destination: str
    links: tuple[str, ...]
    weight: float = 1.0
    label: int | None = None


@dataclass(frozen=True)
class NextLinks:
    """By which links a vertex sends to a destination, by names; of several the hash chooses."""

    at: str
    destination: str
    links: tuple[str, ...]


@dataclass(frozen=True)
class Routing:
    """How flows find their ways through a graph.

    Parameters
    ----------
    rule:
        One of `RULES`. "shortest" and "ecmp" are one rule: of equally short next links the hash chooses.
    seed:
        Of the hash, 0 to 2**63 - 1.
    metric:
        What is least on a shortest way: "hops", "latency", or "cost".
    cost:
        Costs of links by name (`NetworkGraph.link_names`) for the metric "cost"; links that are not named cost 1.
    polarised:
        The hash leaves the vertex out: all stages make the same choice, as switches with one hash seed do.
    nvswitch_first:
        Where next links of equal length lead to an NVSwitch, only those are kept (SimAI's rule).
    pxn:
        A message to another island and another place in it goes to that place in its own island first, by NVLink.
    ways:
        Adaptive: at most so many shortest ways of a flow are looked at; of more, the hash draws which.
    detours:
        Adaptive: ways through a switch off the shortest (Valiant) that each flow may take beside its shortest ones.
    threshold:
        Adaptive: a detour is taken only where hops x load of the shortest way exceed those of the detour by more.
    paths, next_links:
        Given: whole ways, and tables of next links for pairs that have none.
    """

    rule: str = "shortest"
    seed: int = 1
    metric: str = "hops"
    cost: tuple[tuple[str, float], ...] = ()
    polarised: bool = False
    nvswitch_first: bool = False
    pxn: bool = False
    ways: int = 64
    detours: int = 0
    threshold: float = 0.0
    paths: tuple[GivenPath, ...] = ()
    next_links: tuple[NextLinks, ...] = ()

    def __post_init__(self) -> None:
        for key, value, known in (("rule", self.rule, RULES), ("metric", self.metric, METRICS)):
            if value not in known:
                raise InputError(
                    f"unknown {key}",
                    file="routing",
                    place=key,
                    found=value,
                    expected="one of " + ", ".join(known),
                    remedy=near(str(value), known) or None,
                )
        if self.pxn and self.rule in ("dimension-order", "adaptive", "given"):
            raise InputError(f"{self.rule} knows no pxn", file="routing", remedy="use ecmp, spray, d-mod-k or s-mod-k")
        if not 0 <= self.seed < 2**63:
            raise InputError("seed out of range", file="routing", found=self.seed, expected="0 to 2**63 - 1")
        for key, count, least in (("ways", self.ways, 1), ("detours", self.detours, 0)):
            if count < least:
                raise InputError(f"{key} out of range", file="routing", found=count, expected=f"{least} or more")
