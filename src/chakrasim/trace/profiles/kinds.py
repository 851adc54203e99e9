"""Which other maker's profile a file is, told by its first bytes."""

from __future__ import annotations

import os
import re
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.signatures import BOM, SQLITE
from chakrasim.files.storage import head_of

NSYS: Final = "an Nsight Systems export (SQLite)"
ROCPROFV3: Final = "a rocprofv3 profile (JSON)"
ROCPROF: Final = "a rocprof trace (JSON)"
XPLANE: Final = "a profile of JAX or XLA (*.xplane.pb)"
OF_PROCESSES: Final = (NSYS, ROCPROFV3, ROCPROF)
"""Those whose files may have several processes, of which one can be chosen."""
_HEAD_BYTES: Final = 1 << 12
_SDK: Final = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
_LABEL: Final = re.compile(rb'"name"\s*:\s*"(?:\d+ )?(?:CPU H(?:IP|SA) API|CPU KFD API|COPY|Markers and Ranges)"')
#: The begin of an XSpace: a message with a name, perhaps behind a number.
_PLANE: Final = re.compile(rb"\n[\x80-\xff]{0,4}[\0-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12[\x05-\x7f]")
_PLANES: Final = (b"/host:", b"/device:", b"Task Environment")


def kind_of(head: bytes) -> str:
    """NSYS, ROCPROFV3, ROCPROF, XPLANE, or "" for other files; ``head``: the first bytes, unpacked."""
    if head.startswith(SQLITE):
        return NSYS
    plane = _PLANE.match(head)
    if plane is not None and head.startswith(_PLANES, plane.end()):
        return XPLANE
    text = head[:_HEAD_BYTES].removeprefix(BOM)
    if _SDK.match(text):
        return ROCPROFV3
    return ROCPROF if b'"traceEvents"' in text and _LABEL.search(text) else ""


def profile_kind(path: str | os.PathLike[str]) -> str:
    """The same, of a file; "" also where there is none."""
    return kind_of(head_of(path, _HEAD_BYTES))


def refuse_profile(path: str | os.PathLike[str], what: str) -> None:
    """Raise InputError if ``path``, of which a copy with ``what`` is to be written, is another maker's profile."""
    kind = profile_kind(path)
    if kind:
        raise InputError(
            f"{what} can be added to Kineto's JSON alone",
            file=os.fspath(path),
            found=kind,
            expected="a trace of PyTorch's profiler",
            remedy="leave the option away: the figures are the same without it",
        )
