"""Which events of a profile are work, of whom, and which only name or contain it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chakrasim.trace.xplane.plane import Line

OPERATOR, CALL, PYTHON, STEP = "cpu_op", "cuda_runtime", "python_function", "user_annotation"
KERNEL, COPY, FILL, SPAN = "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"
OTHER: Final = "other_plane"
"""Categories: those of Kineto, and one for planes of which nobody here knows whether they are work."""

_DEVICE: Final = re.compile(r"/device:(?!CUSTOM\b)(\w+):(\d{1,9})(?: SparseCore (\d{1,5}))?")
_STREAM: Final = re.compile(r"Stream #(\d{1,18})")
_LAST_STREAM: Final = 1 << 62
_COPY: Final = re.compile(r"Memcpy")
_FILL: Final = re.compile(r"Memset")
#: Lines of devices whose events are operations one after another, those of control flow around those in them.
OP_LINES: Final = ("XLA Ops", "TensorFlow Ops", "Sparse Core Ops")
#: Lines that profilers derive from the streams of a GPU.
_DERIVED: Final = frozenset((
    *(*OP_LINES, "Steps", "XLA Modules", "Async XLA Ops", "XLA TraceMe", "Framework Ops", "Framework Name Scope"),
    *("Source code", "TensorFlow Name Scope", "Launch Stats"),
))  # fmt: skip


@dataclass(frozen=True)
class Owner:
    """Whose a plane is: a device's number (-1: none), its kind in the plane's name, one of its sparse cores (-1)."""

    kind: str
    device: int = -1
    sparse_core: int = -1

    def stream(self, line: Line) -> int:
        """The stream that a line of a device shows; sparse cores have 1000, 2000, ... more than the tensor core."""
        match = _STREAM.match(line.name)
        number = int(match[1]) if match else line.id
        return min(max(number, 0), _LAST_STREAM) + 1000 * (self.sparse_core + 1)

    def works(self, line: Line) -> bool:
        """Whether the events of a device's line are work, and not names or parts of it."""
        if self.kind == "TPU":
            return line.name in OP_LINES
        return line.name not in _DERIVED


HOST, NOBODY = Owner("host"), Owner("")


def owner_of(plane: str) -> Owner:
    """Whose a plane of this name is."""
    match = _DEVICE.fullmatch(plane)
    if match:
        return Owner(match[1], int(match[2]), int(match[3] or -1))
    return HOST if plane.startswith("/host:") else NOBODY


def host_category(name: str) -> str:
    """The category of an event of the host by its name: functions of Python begin with a dollar."""
    return PYTHON if name.startswith("$") else OPERATOR


def device_category(name: str) -> str:
    """The category of a device's work by its name."""
    return COPY if _COPY.match(name) else FILL if _FILL.match(name) else KERNEL
