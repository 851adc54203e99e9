"""Shapes of operators for the device trace, out of the host trace of the same steps.

The profiler can record them itself. On a CPU that keeps a part of every tensor alive between the large blocks of memory
around it, which then do not fit together again: steps take more and more memory, and up to twice the time. The
execution trace observer has the same facts and writes them at once.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

_INPUTS: Final = b'"inputs": '
_HOST_ID: Final = re.compile(rb'\{"name": "rf_id", "type": "uint64", "value": (\d+)\}')
_DEVICE_ID: Final = re.compile(rb'"Record function id": (\d+)')
_HEADER: Final = re.compile(rb'"record_shapes": 0\b')
_NUMBERS: Final = ("Int", "Bool")
_SCALARS: Final = (*_NUMBERS, "Double")


def add_shapes(device: Path, host: Path) -> int:
    """Put the shapes of a host trace into a device trace that has none; how many operators the host trace lacks."""
    shapes, lacking = shapes_of(host), 0
    changed = device.with_name(f"{device.name}.shapes")
    with open(device, "rb") as lines, open(changed, "wb") as file:
        for line in lines:
            if number := _DEVICE_ID.search(line):
                lacking += number[1] not in shapes
                line = line[: number.end()] + shapes.get(number[1], b"") + line[number.end() :]
            elif b"record_shapes" in line:
                line = _HEADER.sub(b'"record_shapes": 1', line)
            file.write(line)
    os.replace(changed, device)
    return lacking


def shapes_of(host: Path) -> dict[bytes, bytes]:
    """The members that the profiler puts into the arguments of an event when it records shapes, by record function id.

    Empty for operators without inputs. Numbers with a fraction are left out: the host trace has six digits of them.
    """
    found: dict[bytes, bytes] = {}
    made: dict[bytes, bytes] = {}
    inputs = b""
    with open(host, "rb") as file:
        for line in file:
            text = line.strip()
            if text.startswith(_INPUTS):
                inputs = text.removesuffix(b",")
            elif inputs and (number := _HOST_ID.search(text)):
                if inputs not in made:
                    made[inputs] = _arguments(inputs)
                found[number[1]] = made[inputs]
                inputs = b""
    return found


def _arguments(inputs: bytes) -> bytes:
    try:
        parts = json.loads(b"{" + inputs + b"}")["inputs"]
        rows = list(zip(parts["types"], parts["shapes"], parts["strides"], parts["values"], strict=True))
    except (ValueError, KeyError):
        return b""
    if not rows:
        return b""
    members = {
        "Concrete Inputs": [_value(kind, value) for kind, _, _, value in rows],
        "Input type": [_type(kind) for kind, *_ in rows],
        "Input Strides": [_sizes(kind, strides) for kind, _, strides, _ in rows],
        "Input Dims": [_sizes(kind, shape) for kind, shape, _, _ in rows],
    }
    return b", " + json.dumps(members).encode()[1:-1]


def _parts(kind: str) -> list[str]:
    """The types in a list of a host trace; an empty list counts as one of numbers, as in the profiler."""
    if not kind.startswith("GenericList["):
        return []
    return (kind.removeprefix("GenericList[").removesuffix("]") or "Int").split(",")


def _type(kind: str) -> str:
    """The profiler's name for a type of a host trace."""
    if kind.startswith("Tensor("):
        return "" if "nullptr" in kind else kind[len("Tensor(") : -1]
    if kind in _SCALARS:
        return "Scalar"
    parts = _parts(kind)
    if parts and all(part.startswith("Tensor(") for part in parts):
        return "TensorList"
    return "ScalarList" if parts and all(part in _SCALARS for part in parts) else ""


def _sizes(kind: str, sizes: Any) -> Any:
    return sizes if kind.startswith("Tensor(") or _type(kind) == "TensorList" else []


def _value(kind: str, value: Any) -> str:
    """A number, or a list of numbers, as the profiler writes it."""
    parts = _parts(kind)
    if kind in _NUMBERS or (parts and all(part in _NUMBERS for part in parts)):
        return str(value)
    return ""
