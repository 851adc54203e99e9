"""The names of annotations that say which process group a collective belongs to: written by the recorder, read by the
linker."""

from __future__ import annotations

from typing import Final

_GROUP: Final = "## process_group: "
_DDP: Final = "## process_group of DistributedDataParallel: "
_END: Final = " ##"


def group_mark(name: str) -> str:
    """Around the call of a collective of this group."""
    return f"{_GROUP}{name}{_END}"


def ddp_mark(name: str) -> str:
    """Somewhere in a trace: collectives without such an annotation around them are DistributedDataParallel's, of this
    group."""
    return f"{_DDP}{name}{_END}"


def marked_group(annotation: str) -> str:
    """The group that an annotation names for the collective in it, "" if it is none of these."""
    return _inner(annotation, _GROUP)


def marked_ddp_group(annotation: str) -> str:
    """The group that an annotation names for DistributedDataParallel, "" if it is none of these."""
    return _inner(annotation, _DDP)


def _inner(annotation: str, begin: str) -> str:
    if not annotation.startswith(begin) or not annotation.endswith(_END):
        return ""
    return annotation[len(begin) : -len(_END)]
