"""The names of collectives as nccl-tests has them, and what they mean."""

from __future__ import annotations

from typing import Final

from chakrasim.collectives.kinds import KINDS, MESSAGE, CollectiveKind
from chakrasim.collectives.spelling import operation_of, plain

_OWN_NAMES: Final = {"all_to_all": "alltoall"}
_PAIRS: Final = frozenset({"sendrecv", "send", "recv"})


def kind_of(collective: str) -> CollectiveKind | None:
    """What a collective is, send and receive of pairs standing as one message; None if it is not known, or has uneven
    parts (``alltoallv``)."""
    if collective in _PAIRS:
        return MESSAGE
    return None if collective.lower().endswith("v") else KINDS.get(operation_of(collective))


def spelled(collective: str) -> str:
    """The name of a collective as nccl-tests' programs have it (``alltoall``); what is not known stays as it is."""
    text = collective.strip()
    letters = plain(text.removesuffix("_perf"))
    if letters in _PAIRS:
        return letters
    number = operation_of(letters)
    if kind_of(letters) is None:
        return text
    return _OWN_NAMES.get(KINDS[number].name, KINDS[number].name)


def bus_factor(collective: str, nranks: int) -> float:
    """From algorithm to bus bandwidth; NaN for a collective that is not known."""
    kind = kind_of(collective)
    return float("nan") if kind is None else kind.bus_factor(nranks)
