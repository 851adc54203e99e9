"""Collective operators of PyTorch as Chakra has them: type, bytes, tensors, group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group

from chakrasim.trace.kinds import CollectiveType as Type
from chakrasim.trace.linked.columns import RECV, SEND

WAIT: Final = -1


@dataclass(frozen=True)
class Call:
    """A collective or message that the program asks for.

    Attributes
    ----------
    type: a `CollectiveType`, SEND or RECV.
    name: PyTorch's name of it ("c10d::allreduce_").
    handle: PyTorch's name of the process group.
    reads, writes: tensors.
    size_bytes: what Chakra calls comm_size: of an all-gather or gather the part of one rank, of a scatter all that the
        root has, else this rank's whole input (of a receive, what arrives).
    is_async: whether the caller's stream goes on meanwhile.
    peer: rank in the group at the other end of a message, or the root of a rooted collective; -1 for others.
    tag: of a message.
    """

    type: int
    name: str
    handle: str
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]
    size_bytes: int
    is_async: bool
    peer: int = -1
    tag: int = 0


def size_of(tensors: Iterable[Any]) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _flat(value: Any) -> tuple[Any, ...]:
    """Tensors of nested lists."""
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(tensor for item in value for tensor in _flat(item))


@dataclass(frozen=True)
class _Form:
    """Where an operator of the namespace c10d has what: positions of its arguments; -1 for none."""

    type: int
    group: int
    writes: int = -1
    reads: int = -1
    sized_by: str = "reads"
    peer: int = -1
    tag: int = -1
    is_async: bool = False


_C10D: Final = {
    "allreduce_": _Form(Type.ALL_REDUCE, 1, 0, 0),
    "allreduce_coalesced_": _Form(Type.ALL_REDUCE, 1, 0, 0),
    "broadcast_": _Form(Type.BROADCAST, 1, 0, 0, peer=2),
    "reduce_": _Form(Type.REDUCE, 1, 0, 0, peer=3),
    "allgather_": _Form(Type.ALL_GATHER, 2, 0, 1),
    "_allgather_base_": _Form(Type.ALL_GATHER, 2, 0, 1),
    "allgather_coalesced_": _Form(Type.ALL_GATHER, 2, 0, 1),
    "allgather_into_tensor_coalesced_": _Form(Type.ALL_GATHER, 2, 0, 1),
    "reduce_scatter_": _Form(Type.REDUCE_SCATTER, 2, 0, 1),
    "_reduce_scatter_base_": _Form(Type.REDUCE_SCATTER, 2, 0, 1),
    "reduce_scatter_tensor_coalesced_": _Form(Type.REDUCE_SCATTER, 2, 0, 1),
    "gather_": _Form(Type.GATHER, 2, 0, 1, peer=3),
    "gather_into_tensor_": _Form(Type.GATHER, 2, 0, 1, peer=3),
    "scatter_": _Form(Type.SCATTER, 2, 0, 1, sized_by="writes", peer=3),
    "alltoall_": _Form(Type.ALL_TO_ALL, 2, 0, 1),
    "alltoall_base_": _Form(Type.ALL_TO_ALL, 2, 0, 1),
    "barrier": _Form(Type.BARRIER, 1),
    "monitored_barrier_": _Form(Type.BARRIER, 1),
    "send": _Form(SEND, 1, -1, 0, peer=2, tag=3, is_async=True),
    "recv_": _Form(RECV, 1, 0, -1, sized_by="writes", peer=2, tag=3, is_async=True),
    "recv_any_source_": _Form(RECV, 1, 0, -1, sized_by="writes", tag=2, is_async=True),
}

_FUNCTIONAL: Final = {
    "all_reduce": Type.ALL_REDUCE,
    "broadcast": Type.BROADCAST,
    "all_gather_into_tensor": Type.ALL_GATHER,
    "reduce_scatter_tensor": Type.REDUCE_SCATTER,
    "all_to_all_single": Type.ALL_TO_ALL,
    "shard_dim_alltoall": Type.ALL_TO_ALL,
    "isend": SEND,
    "irecv": RECV,
    "wait_tensor": WAIT,
    "wait_tensors": WAIT,
}
"""Operators without a suffix: "_" (in place), "_coalesced", "_out" mean the same collective."""


def name_of(func: Any) -> str:
    """An operator's name without namespace and overload."""
    return str(func._schema.name).partition("::")[2]


def decode_c10d(func: Any, args: Any, kwargs: Any) -> Call | None:
    """A call of the namespace c10d; None for an operator that is no collective we know."""
    form = _C10D.get(name_of(func))
    if form is None:
        return None
    names = [argument.name for argument in func._schema.arguments]
    values = [*args, *(kwargs.get(name) for name in names[len(args) :])]
    reads = _flat(values[form.reads]) if form.reads >= 0 else ()
    writes = _flat(values[form.writes]) if form.writes >= 0 else ()
    given = kwargs.get("async_op")
    if given is None and "async_op" in names:
        given = values[names.index("async_op")]
    is_async = form.is_async or ("async_op" in names and given is not False)
    group = ProcessGroup.unbox(values[form.group])
    size = 0 if form.type == Type.BARRIER else size_of(reads if form.sized_by == "reads" else writes)
    if form.type == Type.SCATTER:
        size *= group.size()
    return Call(
        int(form.type),
        str(func._schema.name),
        str(group.group_name),
        reads,
        writes,
        size,
        is_async,
        int(values[form.peer]) if form.peer >= 0 else -1,
        int(values[form.tag]) if form.tag >= 0 else 0,
    )


def functional_type(func: Any) -> int | None:
    """What a functional collective does; None for one we do not know."""
    name = name_of(func)
    for suffix in ("_out", "_"):
        name = name.removesuffix(suffix)
    return _FUNCTIONAL.get(name.removesuffix("_coalesced"))


def decode_functional(func: Any, args: Any, kwargs: Any, result: Any) -> Call:
    """A call of a functional collective that gave ``result``; `functional_type` knows it."""
    kind = functional_type(func)
    assert kind is not None
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    group = given["group_name"]
    handle = group if isinstance(group, str) else str(ProcessGroup.unbox(group).group_name)
    reads, writes = _flat(args[0]), _flat(result)
    peer = int(given.get("dst", given.get("src", -1)))
    return Call(
        int(kind),
        str(func._schema.name),
        handle,
        () if kind == RECV else reads,
        () if kind == SEND else writes,
        size_of(reads),
        True,
        peer,
        int(given.get("tag", 0)),
    )


def ranks_of_group(handle: str) -> list[int]:
    """The global ranks of a process group, in its order."""
    return [int(rank) for rank in dist.get_process_group_ranks(_resolve_process_group(handle))]


def size_of_group(handle: str) -> int:
    """Ranks of a process group."""
    return int(_resolve_process_group(handle).size())
