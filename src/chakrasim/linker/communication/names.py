"""How traces spell collectives: names of operations, of kernels, of data types."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from chakrasim.linker.communication.kernel_names import qualified_name
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.linked.columns import COALESCED, RECV, SEND, UNKNOWN

#: Normalised names (lower case, letters only, without back end, trailing "coalesced" and "base") of operations.
_OPERATIONS: Final = {
    "allreduce": CollectiveType.ALL_REDUCE,
    "allreducesparse": CollectiveType.ALL_REDUCE,
    "reduce": CollectiveType.REDUCE,
    "reduceoop": CollectiveType.REDUCE,
    "allgather": CollectiveType.ALL_GATHER,
    "allgatherv": CollectiveType.ALL_GATHER,
    "allgatherintotensor": CollectiveType.ALL_GATHER,
    "allgatherintotensorout": CollectiveType.ALL_GATHER,
    "gather": CollectiveType.GATHER,
    "scatter": CollectiveType.SCATTER,
    "broadcast": CollectiveType.BROADCAST,
    "broadcastoop": CollectiveType.BROADCAST,
    "alltoall": CollectiveType.ALL_TO_ALL,
    "alltoallv": CollectiveType.ALL_TO_ALL,
    "alltoallsingle": CollectiveType.ALL_TO_ALL,
    "alltoallvsingle": CollectiveType.ALL_TO_ALL,
    "reducescatter": CollectiveType.REDUCE_SCATTER,
    "reducescatterv": CollectiveType.REDUCE_SCATTER,
    "reducescattertensor": CollectiveType.REDUCE_SCATTER,
    "barrier": CollectiveType.BARRIER,
    "allreducebarrier": CollectiveType.BARRIER,
    "send": SEND,
    "isend": SEND,
    "recv": RECV,
    "irecv": RECV,
    "recvanysource": RECV,
}

#: Records of things that move no data themselves: PyTorch writes a record for them too.
NOT_WORK: Final = frozenset(
    {"wait", "init", "startcoalescing", "endcoalescing", "monitoredbarrier", "setsequencenumber"}
)

#: Back ends whose collectives the host carries out, as the prefix of their annotations.
HOST_BACKENDS: Final = ("gloo", "mpi")
DEVICE_BACKENDS: Final = ("nccl", "rccl", "xccl", "hccl", "mccl", "oneccl", "ucc")

#: The operation in a kernel's name, in this order ("allreduce" before "reduce").
_IN_KERNEL: Final = (
    ("allreduce", CollectiveType.ALL_REDUCE),
    ("oneshotreduce", CollectiveType.ALL_REDUCE),
    ("crossdevicereduce", CollectiveType.ALL_REDUCE),
    ("alltoall", CollectiveType.ALL_TO_ALL),
    ("allgather", CollectiveType.ALL_GATHER),
    ("reducescatter", CollectiveType.REDUCE_SCATTER),
    ("broadcast", CollectiveType.BROADCAST),
    ("kernelreduce", CollectiveType.REDUCE),
    ("kernelgather", CollectiveType.GATHER),
    ("kernelscatter", CollectiveType.SCATTER),
)

#: What NCCL does with its kernel SendRecv.
_BY_MESSAGES: Final = frozenset(
    (SEND, RECV, UNKNOWN, COALESCED, CollectiveType.ALL_TO_ALL, CollectiveType.GATHER, CollectiveType.SCATTER)
)

#: Bytes of an element. Names as record_param_comms ("Float"), shapes ("float", "long int", "c10::BFloat16") and
#: torch ("bfloat16") write them, lower case without prefix.
_SIZES: Final = {
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "uint8", "int8", "qint8", "quint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8", "quint4x2", "quint2x4", "float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("short", "half", "bfloat16", "uint16", "int16", "float16", "short int", "bits16"), 2),
    **dict.fromkeys(("int", "float", "uint32", "int32", "float32", "complexhalf", "qint32", "unsigned int"), 4),
    **dict.fromkeys(("long", "double", "uint64", "int64", "float64", "long int", "complexfloat", "long long"), 8),
    **dict.fromkeys(("unsigned long", "c10::complex<float>", "complex<float>", "complex64"), 8),
    **dict.fromkeys(("complexdouble", "c10::complex<double>", "complex<double>", "complex128"), 16),
}


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
    return int(_OPERATIONS.get(letters, UNKNOWN))


@lru_cache(maxsize=1024)
def operation_of_kernel(name: str) -> int:
    """What a kernel does by its name alone; UNKNOWN for ``SendRecv`` (send, receive, all-to-all, batch) and others."""
    letters = re.sub("[^a-z]", "", qualified_name(name).lower())
    if "sendrecv" in letters:
        return UNKNOWN
    return next((int(kind) for part, kind in _IN_KERNEL if part in letters), UNKNOWN)


def can_carry_out(kernel: str, operation: int) -> bool:
    """Whether a kernel of this name can carry out what a record says."""
    named = operation_of_kernel(kernel)
    if "sendrecv" in kernel.lower():
        return operation in _BY_MESSAGES
    if named == UNKNOWN or operation in (UNKNOWN, COALESCED):
        return True
    # NCCL's barrier is an all-reduce of one element.
    return named == operation or (operation == CollectiveType.BARRIER and named == CollectiveType.ALL_REDUCE)


def element_bytes(dtype: str) -> int:
    """Bytes of an element of this type, 0 where the type is not known."""
    name = dtype.strip().lower().removeprefix("c10::").removeprefix("torch.").removeprefix("at::")
    if name in _SIZES:
        return _SIZES[name]
    return _SIZES.get(f"c10::{name}", 0)


def host_backend_of(name: str) -> str:
    """The back end of an annotation such as ``gloo:all_reduce`` that a host carries out; "" for others."""
    head, colon, _ = name.partition(":")
    return head if colon and head in HOST_BACKENDS and not name.startswith(f"{head}::") else ""
