"""Which other maker's profile a file is, told by its first bytes."""

from __future__ import annotations

import os
import re
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.signatures import BOM, SQLITE
from chakrasim.files.storage import Stream

NSYS: Final = "an Nsight Systems export (SQLite)"
ROCPROFV3: Final = "a rocprofv3 profile (JSON)"
ROCPROF: Final = "a rocprof trace (JSON)"
_HEAD_BYTES: Final = 1 << 12
_SDK: Final = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"')
_LABEL: Final = re.compile(rb'"name"\s*:\s*"(?:\d+ )?(?:CPU H(?:IP|SA) API|CPU KFD API|COPY|Markers and Ranges)"')


def kind_of(head: bytes) -> str:
    """NSYS, ROCPROFV3, ROCPROF, or "" for other files; ``head``: the first bytes, unpacked."""
    if head.startswith(SQLITE):
        return NSYS
    text = head[:_HEAD_BYTES].removeprefix(BOM)
    if _SDK.match(text):
        return ROCPROFV3
    return ROCPROF if b'"traceEvents"' in text and _LABEL.search(text) else ""


def profile_kind(path: str | os.PathLike[str]) -> str:
    """The same, of a file; "" also where there is none."""
    if not os.path.isfile(path):
        return ""
    try:
        with Stream(os.fspath(path), "a trace") as file:
            view = memoryview(bytearray(_HEAD_BYTES))
            return kind_of(bytes(view[: file.fill(view)]))
    except InputError:
        return ""
