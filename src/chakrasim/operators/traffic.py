"""Bytes that an operator reads and writes: of each tensor what its view touches, of each storage at most all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chakrasim.operators.kinds import OVERWRITES, READS_ROWS, SHAPE_ONLY, WRITES_ROWS


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in an argument or a result, through lists, tuples and dictionaries."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif hasattr(value, "untyped_storage"):
        yield value


def storage_key(tensor: Any) -> int:
    """What tensors of one storage have in common."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse tensors, wrappers without a storage of their own
        return id(tensor)


def touched_elements(tensor: Any) -> int:
    """Distinct elements that a view covers: a broadcast dimension (stride 0) counts once, overlapping windows
    (unfold) at most the range they lie in."""
    elements = span = 1
    try:
        strides = tensor.stride()
    except (NotImplementedError, RuntimeError):
        return int(tensor.numel())
    for size, stride in zip(tensor.shape, strides, strict=True):
        if size == 0:
            return 0
        if stride:
            elements *= int(size)
            span += (int(size) - 1) * abs(int(stride))
    return min(elements, span)


def touched_bytes(tensor: Any) -> int:
    """Bytes of the elements that a view covers."""
    return touched_elements(tensor) * int(tensor.element_size())


@dataclass
class _Traffic:
    """Bytes by view; equal views count once, views of one storage at most its extent."""

    views: dict[tuple[Any, ...], int]

    def add(self, tensor: Any, limit: int | None = None) -> None:
        try:
            view = (storage_key(tensor), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        except (NotImplementedError, RuntimeError):
            view = (storage_key(tensor), 0, tuple(tensor.shape), ())
        size = touched_bytes(tensor)
        size = size if limit is None else min(size, limit)
        self.views[view] = max(self.views.get(view, 0), size)

    def total(self, extents: dict[int, int]) -> int:
        by_storage: dict[int, int] = {}
        for view, size in self.views.items():
            by_storage[view[0]] = by_storage.get(view[0], 0) + size
        return sum(min(size, extents.get(key, size)) for key, size in by_storage.items())


def _extent(tensor: Any) -> int:
    try:
        return max(int(tensor.untyped_storage().nbytes()), touched_bytes(tensor))
    except (NotImplementedError, RuntimeError):
        return touched_bytes(tensor)


def _write_flags(func: Any, args: Any, kwargs: Any) -> list[tuple[str, Any, bool, bool]]:
    """(name, value, written, only written) of each argument, by the operator's schema."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return [("", value, False, False) for value in (*args, *kwargs.values())]
    flags = []
    for position, argument in enumerate(schema.arguments):
        if position < len(args):
            value = args[position]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            continue
        written = argument.alias_info is not None and argument.alias_info.is_write
        flags.append((argument.name, value, written, bool(argument.is_out)))
    return flags


def traffic(func: Any, name: str, args: Any, kwargs: Any, result: Any) -> tuple[int, int]:
    """Bytes read and written by one call.

    An argument that the schema marks as written counts as read and written, except where it is only overwritten; a
    result counts as written unless it is a view of an argument or an argument itself.
    """
    reads, writes = _Traffic({}), _Traffic({})
    extents: dict[int, int] = {}
    flags = _write_flags(func, args, kwargs)
    results = list(tensors_in(result))
    rows = _row_limit(name, flags, results)
    first = True
    scaled = any(label == "grad_scale" and value is not None for label, value, *_ in flags)
    for label, value, written, only_written in flags:
        overwritten = only_written or (written and name in OVERWRITES)
        for tensor in tensors_in(value):
            extents[storage_key(tensor)] = _extent(tensor)
            limit = rows if first else None
            if not overwritten and not (first and name in SHAPE_ONLY):
                reads.add(tensor, limit)
            # Fused optimizers write gradients only to take a loss scale out of them.
            if written and (label != "grads" or scaled):
                writes.add(tensor, limit)
            first = False
    arguments = set(extents)
    for tensor in results:
        key = storage_key(tensor)
        if key not in arguments:
            extents[key] = _extent(tensor)
            writes.add(tensor)
    return reads.total(extents), writes.total(extents)


def _row_limit(name: str, flags: list[tuple[str, Any, bool, bool]], results: list[Any]) -> int | None:
    """Bytes that are touched of the first tensor, where an operator picks rows of it; None: all."""
    if name in READS_ROWS and results:
        return sum(touched_bytes(tensor) for tensor in results)
    if name in WRITES_ROWS:
        sources = [value for _, value, *_ in flags[1:] for value in tensors_in(value) if value.is_floating_point()]
        first = next(tensors_in(flags[0][1]), None) if flags else None
        if sources and first is not None:
            return int(sources[-1].numel()) * int(first.element_size())
    if name in ("nll_loss_forward", "nll_loss2d_forward"):
        target = next(tensors_in(flags[1][1]), None)
        first = next(tensors_in(flags[0][1]), None)
        if target is not None and first is not None:
            return int(target.numel()) * int(first.element_size())
    return None
