"""How traces spell collectives: the names of PyTorch's operators and records, and of back ends' annotations."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from chakrasim.collectives.kinds import KINDS, MESSAGES
from chakrasim.trace.kinds import COALESCED, UNKNOWN

_OPERATIONS: Final = {name: int(kind.type) for kind in (*KINDS.values(), *MESSAGES) for name in kind.spellings}

#: Records of things that move no data themselves: PyTorch writes a record for them too.
NOT_WORK: Final = frozenset(
    {"wait", "init", "startcoalescing", "endcoalescing", "monitoredbarrier", "setsequencenumber"}
)

#: Back ends whose collectives the host carries out, as the prefix of their annotations.
HOST_BACKENDS: Final = ("gloo", "mpi")
DEVICE_BACKENDS: Final = ("nccl", "rccl", "xccl", "hccl", "mccl", "oneccl", "ucc")


@lru_cache(maxsize=1024)
def plain(name: str) -> str:
    """The name of an operation without back end, case and marks: ``nccl:_all_gather_base`` -> ``allgather``."""
    name = name.rsplit("::", 1)[-1]
    head, colon, tail = name.partition(":")
    if colon and head.lower() in HOST_BACKENDS + DEVICE_BACKENDS:
        name = tail
    if " " in name:  # "send 0->1"
        name = name.split(" ", 1)[0]
    letters = re.sub("[^a-z]", "", name.lower())
    letters = letters.removesuffix("coalesced")
    return letters.removesuffix("base") or letters


@lru_cache(maxsize=1024)
def operation_of(name: str) -> int:
    """The `CollectiveType`, SEND, RECV or COALESCED that the name of a collective means; UNKNOWN for others."""
    letters = plain(name)
    if not letters and "coalesced" in name:
        return COALESCED
    return _OPERATIONS.get(letters, UNKNOWN)


def host_backend_of(name: str) -> str:
    """The back end of an annotation such as ``gloo:all_reduce`` that a host carries out; "" for others."""
    head, colon, _ = name.partition(":")
    return head if colon and head in HOST_BACKENDS and not name.startswith(f"{head}::") else ""
