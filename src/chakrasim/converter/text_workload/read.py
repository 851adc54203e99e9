"""Text workloads of ASTRA-sim 1.0: one line per layer of a network (chakra-toolchain.md, section 5)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.storage import read_bytes

_MAX_BYTES: Final = 1 << 30
_LARGEST: Final = 2**63 - 1
#: What stands in the columns of a layer, from the left.
COLUMNS: Final = (
    *("name", "reserved", "forward time", "forward collective", "forward bytes"),
    *("input-gradient time", "input-gradient collective", "input-gradient bytes"),
    *("weight-gradient time", "weight-gradient collective", "weight-gradient bytes", "update time"),
)


@dataclass(frozen=True)
class Phase:
    """One of the three computations of a layer: microseconds, and the collective that follows it."""

    micros: int
    collective: str
    size_bytes: int


@dataclass(frozen=True)
class Layer:
    """A layer. ``policy``: the parallelism of its own that HYBRID_CUSTOMIZED gives it; ``update``: the last column."""

    name: str
    forward: Phase
    input_gradient: Phase
    weight_gradient: Phase
    update: str
    policy: str = ""
    line: int = 0


@dataclass(frozen=True)
class TextWorkload:
    """A whole file. ``words``: of its first line, the parallelism first; ``layer_count``: as the second line says."""

    source: str
    text: str
    words: tuple[str, ...]
    layer_count: int
    layers: tuple[Layer, ...]

    @property
    def parallelism(self) -> str:
        """The type of parallelism, "" if the first line is empty."""
        return self.words[0] if self.words else ""


def read_workload(path: str | os.PathLike[str]) -> TextWorkload:
    """The workload in the file ``path``, blank lines left out. Raises InputError with line and column of what cannot be
    read, and if the second line does not say how many layers follow."""
    workload = read_lines(path, skip_blank=True)
    if workload.layer_count != len(workload.layers):
        raise InputError(
            "the number of layers is wrong",
            file=workload.source,
            place="line 2",
            found=f"{workload.layer_count}, but {len(workload.layers)} layers follow",
            remedy="correct line 2, or add the missing layers",
        )
    return workload


def read_lines(path: str | os.PathLike[str], *, skip_blank: bool) -> TextWorkload:
    """The workload with as many layers as there are lines, whatever the second says. Raises InputError, for a blank
    line too unless ``skip_blank``."""
    source = os.fspath(path)
    try:
        # Ends of lines of any kind become line feeds, as where Python opens a file as text.
        text = (
            read_bytes(source, _MAX_BYTES, "a text workload").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        )
    except UnicodeDecodeError as fault:
        raise InputError("this is no text workload", file=source, place=f"byte {fault.start}") from None
    lines = text.split("\n")
    if lines[-1] == "":
        del lines[-1]
    words = tuple(lines[0].split()) if lines else ()
    count = _integer(lines[1].strip() if len(lines) > 1 else "", source, 2, "the number of layers")
    layers = [
        _layer(line, source, number) for number, line in enumerate(lines[2:], 3) if line.strip() or not skip_blank
    ]
    return TextWorkload(source, text, words, count, tuple(layers))


def _layer(line: str, source: str, number: int) -> Layer:
    cells = line.split()
    if len(cells) < len(COLUMNS):
        missing = COLUMNS[len(cells)]
        raise InputError(
            f"a layer has too few columns: {missing} is missing (ValueError in the reference)",
            file=source,
            place=f"line {number}, column {len(cells) + 1}",
            found=repr(line),
            expected=f"{len(COLUMNS)} columns",
        )
    phases = []
    for first in (2, 5, 8):
        micros, size = (_integer(cells[at], source, number, COLUMNS[at], at + 1, line) for at in (first, first + 2))
        phases.append(Phase(micros, cells[first + 1], size))
    policy = cells[len(COLUMNS)] if len(cells) > len(COLUMNS) else ""
    return Layer(cells[0], phases[0], phases[1], phases[2], cells[11], policy, number)


def _integer(text: str, source: str, line: int, what: str, column: int = 1, whole: str | None = None) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"{what} is no integer (ValueError in the reference)",
            file=source,
            place=f"line {line}, column {column}",
            found=repr(text) if whole is None else f"{text!r} in {whole!r}",
            expected="an integer",
        ) from None


def refuse_unknown(source: str, place: str, found: str, known: tuple[str, ...]) -> InputError:
    """The error for a type of parallelism that nobody knows."""
    return InputError(
        f"this type of parallelism is unknown ({'ValueError' if found else 'IndexError'} in the reference)",
        file=source,
        place=place,
        found=repr(found),
        expected=f"one of {', '.join(known)}",
    )


def in_range(value: int, low: int, what: str, layer: Layer, source: str) -> int:
    """``value`` if a trace can hold it. Raises InputError."""
    if not low <= value <= _LARGEST:
        raise InputError(
            f"{what} is out of range (ValueError in the reference)",
            file=source,
            place=f"line {layer.line}",
            found=value,
            expected=f"{low} to {_LARGEST}",
        )
    return value
