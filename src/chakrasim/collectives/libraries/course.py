"""How a library's collective runs when it is alone: what passes before its bytes flow, and how fast they may."""

from __future__ import annotations

from dataclasses import dataclass

from chakrasim.collectives.libraries.choice import Choice, choose
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import Library


@dataclass(frozen=True)
class Course:
    """How one collective runs, alone.

    Attributes
    ----------
    choice: what the library chose.
    startup_ns: what passes before its bytes flow: launch, hops, fill.
    rate: the most bytes of the collective (nccl-tests' size) per ns that protocol, channels and processors allow.
    """

    choice: Choice
    startup_ns: float
    rate: float


def course_of(
    site: Site,
    library: Library,
    kind: str,
    size_bytes: int,
    settings: Settings = DEFAULT,
    constants: object = None,
    *,
    in_place: bool = False,
    dtype: str | None = None,
) -> Course:
    """The course of a collective of ``size_bytes`` (nccl-tests' size) of a group at ``site``."""
    choice = choose(site, library, kind, size_bytes, settings)
    if not choice.predicted_us:
        return Course(choice, 12000.0, choice.channels * 20.0)
    latency = choose(site, library, kind, 1, settings).predicted_us
    return Course(choice, latency * 1000.0, size_bytes / max((choice.predicted_us - latency) * 1000.0, 1e-3))
