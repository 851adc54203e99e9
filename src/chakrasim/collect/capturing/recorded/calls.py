"""Collective operators of PyTorch as Chakra has them: type, bytes, tensors, group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group

from chakrasim.collectives.c10d import ARGUMENTS
from chakrasim.collectives.spelling import operation_of
from chakrasim.operators.traffic import tensors_in
from chakrasim.trace.kinds import CollectiveType as Type
from chakrasim.trace.linked.columns import RECV, SEND, UNKNOWN

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
    parts: of an all-to-all, bytes of this rank for each member, if they differ.
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
    parts: tuple[int, ...] = ()


def size_of(tensors: Iterable[Any]) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def name_of(func: Any) -> str:
    """An operator's name without namespace and overload."""
    return str(func._schema.name).partition("::")[2]


def decode_c10d(func: Any, args: Any, kwargs: Any) -> Call | None:
    """A call of the namespace c10d; None for an operator that is no collective we know."""
    name = name_of(func)
    places = ARGUMENTS.get(name)
    if places is None:
        return None
    kind = operation_of(name.removeprefix("monitored_"))
    names = [argument.name for argument in func._schema.arguments]
    values = [*args, *(kwargs.get(name) for name in names[len(args) :])]
    reads = tuple(tensors_in(values[places.inputs])) if places.inputs >= 0 else ()
    writes = tuple(tensors_in(values[places.outputs])) if places.outputs >= 0 else ()
    given = values[names.index("async_op")] if "async_op" in names else False
    group = ProcessGroup.unbox(values[places.group])
    return Call(
        kind,
        str(func._schema.name),
        str(group.group_name),
        reads,
        writes,
        size_of(writes) * group.size() if kind == Type.SCATTER else size_of(reads or writes),
        kind in (SEND, RECV) or given is not False,
        int(values[places.root]) if places.root >= 0 else -1,
        int(values[places.tag]) if places.tag >= 0 else 0,
        parts_of(reads, values[places.splits[1]] if places.splits else ()) if kind == Type.ALL_TO_ALL else (),
    )


def functional_type(func: Any) -> int | None:
    """What a functional collective does; None for one we do not know. A suffix ("_" for in place, "_coalesced", "_out")
    does not make it another one."""
    name = name_of(func)
    if name in ("wait_tensor", "wait_tensors"):
        return WAIT
    kind = operation_of(name.removesuffix("_out"))
    return None if kind == UNKNOWN else kind


def decode_functional(func: Any, args: Any, kwargs: Any, result: Any) -> Call:
    """A call of a functional collective that gave ``result``; `functional_type` knows it."""
    kind = functional_type(func)
    assert kind is not None
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    group = given["group_name"]
    handle = group if isinstance(group, str) else str(ProcessGroup.unbox(group).group_name)
    reads, writes = tuple(tensors_in(args[0])), tuple(tensors_in(result))
    peer = int(given.get("dst", given.get("src", -1)))
    return Call(
        kind,
        str(func._schema.name),
        handle,
        () if kind == RECV else reads,
        () if kind == SEND else writes,
        size_of(reads),
        True,
        peer,
        int(given.get("tag", 0)),
        parts_of(reads, given.get("input_split_sizes") or ()) if kind == Type.ALL_TO_ALL else (),
    )


def parts_of(reads: Sequence[Any], splits: Sequence[Any]) -> tuple[int, ...]:
    """Bytes for each member of an all-to-all: of rows of one tensor, or of tensors; nothing where they are equal."""
    if splits:
        rows = [int(split) for split in splits]
        whole, total = size_of(reads), max(sum(rows), 1)
        parts = [whole // total * row for row in rows]
    else:
        parts = [size_of([tensor]) for tensor in reads] if len(reads) > 1 else []
    return tuple(parts) if len(set(parts)) > 1 else ()


def ranks_of_group(handle: str) -> list[int]:
    """The global ranks of a process group, in its order."""
    return [int(rank) for rank in dist.get_process_group_ranks(_resolve_process_group(handle))]


def size_of_group(handle: str) -> int:
    """Ranks of a process group."""
    return int(_resolve_process_group(handle).size())
