"""How a collective runs under a library: what the library chooses, and how long that takes alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chakrasim.collectives.libraries.choice import Choice, choose
from chakrasim.collectives.libraries.model import Constants, Model, estimate
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import Operation, terms_of
from chakrasim.collectives.libraries.versions import Library


@dataclass(frozen=True)
class Course:
    """One collective, alone on its machine.

    Attributes
    ----------
    choice: of the library.
    startup_ns: what passes before its bytes flow: the kernel's start, hops, the filling of pipelines.
    rate: bytes of the collective per ns, by nccl-tests' size, that protocol, channels and wire allow.
    low, high: factors of the time that a measured one lies between in nine cases of ten.
    """

    choice: Choice
    startup_ns: float
    rate: float
    low: float
    high: float


def course_of(
    site: Site, library: Library, kind: str, size_bytes: int, settings: Settings = DEFAULT,
    constants: Constants | None = None, *, in_place: bool = False, item_bytes: int = 0, model: Model | None = None,
    interval: bool = True,
) -> Course:  # fmt: skip
    """How ``library`` runs a collective ``kind`` of ``size_bytes`` (as in the size column of nccl-tests).

    ``constants`` are those of the machine, if it was calibrated; ``item_bytes`` of an element, 0: not known, not one;
    ``interval``: whether low and high are asked for, else both are 1.
    """
    operation = Operation(kind, size_bytes, in_place, item_bytes)
    choice = choice_of(site, library, operation, settings)
    found = estimate(site, library, terms_of(site, choice, operation), size_bytes, constants, model, interval=interval)
    rate = size_bytes / found.moving_ns if found.moving_ns > 0 else float("inf")
    return Course(choice, found.fixed_ns, rate, found.low, found.high)


def choice_of(site: Site, library: Library, operation: Operation, settings: Settings = DEFAULT) -> Choice:
    """What the library does. Switches do not add up elements of one byte."""
    if operation.item_bytes == 1 and operation.kind in ("all_reduce", "reduce_scatter"):
        settings = replace(settings, nvls=False)
    kind = "send" if operation.kind == "message" else operation.kind
    return choose(site, library, kind, operation.size_bytes, settings)
