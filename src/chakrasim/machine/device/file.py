"""Device profiles as data: ``devices/NAME.yaml`` or a user's file of the same form.

docs/reference-machine.md describes every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from chakrasim.config.decode import decode_yaml, describe, parse_decimal
from chakrasim.config.section import Section, open_section, string_keys
from chakrasim.config.units import BANDWIDTH, COMPUTE, TIME, real
from chakrasim.errors import InputError, near
from chakrasim.machine.device.profile import DeviceProfile, Efficiency
from chakrasim.machine.device.tiling import Tiling
from chakrasim.notes import Notes
from chakrasim.trace.work import WorkKind

_FOLDER = Path(__file__).parents[1] / "devices"
_KIND = "device profile"
_KEYS = ("format", "name", "source", "memory", "bandwidth", "peak", "vector", "efficiency")
_EFFICIENCY_KEYS = ("start", "step", "compute", "bandwidth", "knee", "tail", "processors", "tile", "ramp")
_KIND_NAMES = {kind.name.lower(): kind for kind in WorkKind}
_MEMORY = {
    "B": Fraction(1),
    **{f"{prefix}B": Fraction(10**power) for prefix, power in zip("MGT", (6, 9, 12), strict=True)},
    **{f"{prefix}iB": Fraction(2**power) for prefix, power in zip("MGT", (20, 30, 40), strict=True)},
}
_DTYPES = ("float64", "float32", "tfloat32", "bfloat16", "float16", "float8", "int8")


@cache
def device_names() -> tuple[str, ...]:
    """The names of the shipped devices."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def device_like(name: str) -> str | None:
    """The shipped device that a label such as "H100", "TPU-v6e-1" or "NVIDIA H100 80GB HBM3" means, or None."""
    label = re.sub(r"[^a-z0-9]", "", name.lower())
    label = re.sub(r"^(nvidia|amd|google|instinct|geforce|tesla)*", "", label)
    for known in sorted(device_names(), key=len, reverse=True):
        if re.fullmatch(re.escape(known.replace("-", "")) + r"(sxm|pcie|nvl|hbm|gb|[0-9])*[a-z]?", label):
            return known
    return None


def device_text(name: str) -> str:
    """The profile of a shipped device, as its file holds it. Raises InputError for an unknown name."""
    names = device_names()
    if name not in names:
        remedy = near(str(name), names) or None
        raise InputError("no such device", found=describe(name), expected="one of " + ", ".join(names), remedy=remedy)
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load_device(source: str | os.PathLike[str] | Mapping[str, Any] | DeviceProfile) -> DeviceProfile:
    """A device profile: the name of a shipped one, a file, the mapping such a file holds, or the profile itself.

    A shipped name wins over a file of that name (write ``./name`` for the file). Raises InputError for a name that is
    not known, and with the place for unknown keys, missing units and values out of range.
    """
    if isinstance(source, DeviceProfile):
        return source
    if isinstance(source, str) and source.lower() in device_names():
        name = f"device {source.lower()}"
        content = decode_yaml(device_text(source.lower()).encode(), name)
        if not isinstance(content, Mapping):
            raise InputError(f"not a {_KIND}", file=name)
        return _profile(Section(string_keys(content, name, "$"), name, Notes()))
    if isinstance(source, str) and not os.path.exists(source) and not {"/", "\\", "."} & set(source):
        names = device_names()
        raise InputError(
            "neither a shipped device nor a file",
            found=describe(source),
            expected="a path, or one of " + ", ".join(names),
            remedy=near(source, names) or None,
        )
    opened = Path(source) if isinstance(source, os.PathLike) else source
    return _profile(open_section(opened, _KIND, "yaml", Notes()))


def _profile(section: Section) -> DeviceProfile:
    section.refuse_unknown(_KEYS)
    if str(section.entries.get("format", "1")) != "1":
        section.fail("format", "unknown format", found=section.entries["format"], expected="1")
    section.need(("name", "memory", "bandwidth", "peak", "efficiency"))
    peaks = section.strictly_below("peak", _DTYPES)
    peak = {dtype: _flops(peaks, dtype) for dtype in peaks.entries}
    if not peak:
        section.fail("peak", "no types", expected="at least one of " + ", ".join(_DTYPES))
    return DeviceProfile(
        name=section.text("name", ""),
        source=section.text("source", "").strip(),
        memory_bytes=int(_amount(section, "memory", _MEMORY, "B", '"80 GB"')),
        bandwidth=_amount(section, "bandwidth", BANDWIDTH, "B/s", '"3350 GB/s"'),
        peak=peak,
        vector=_flops(section, "vector") if "vector" in section else min(peak.values()),
        efficiency=_efficiencies(section.strictly_below("efficiency", tuple(_KIND_NAMES))),
    )


def _efficiencies(section: Section) -> dict[WorkKind, Efficiency]:
    for needed in ("gemm", "elementwise"):
        if needed not in section:
            section.fail(needed, "the key is missing", expected="at least gemm and elementwise")
    return {_KIND_NAMES[name]: _efficiency(section.strictly_below(name, _EFFICIENCY_KEYS)) for name in section.entries}


def _efficiency(section: Section) -> Efficiency:
    section.need(("start", "compute", "bandwidth"))
    return Efficiency(
        start_ns=real(section, "start", TIME, "ns", '"2.9 us"'),
        step_ns=real(section, "step", TIME, "ns", '"1.2 ns"') if "step" in section else 0.0,
        compute=_number(section, "compute", 0.0, 1.0, "a share of the peak, above 0 to 1"),
        bandwidth=_number(section, "bandwidth", 0.0, 1.0, "a share of the bandwidth, above 0 to 1"),
        knee=_number(section, "knee", 1.0, 1000.0, "an exponent from 1 to 1000", default=1000.0),
        tail=_number(section, "tail", 1.0, 1000.0, "an exponent from 1 to 1000", default=1000.0),
        tiling=_tiling(section),
    )


def _tiling(section: Section) -> Tiling | None:
    """Blocks of matrix products, if the profile gives them: a number of processors, and rows x columns."""
    given = [key for key in ("processors", "tile", "ramp") if key in section]
    if not given:
        return None
    for key in ("processors", "tile"):
        if key not in section:
            section.fail(key, "the key is missing", expected=f"with {given[0]}: both of processors and tile")
    sides = re.fullmatch(r"([1-9][0-9]{0,5}) x ([1-9][0-9]{0,5})", str(section.entries["tile"]))
    if sides is None:
        section.fail("tile", "not a block", found=section.entries["tile"], expected="rows x columns, such as 128 x 256")
    counts = "a whole number, 1 to 1,000,000"
    processors = _number(section, "processors", 1.0, 1e6, counts)
    ramp = _number(section, "ramp", 1.0, 1e6, counts, default=0.0)
    for key, value in (("processors", processors), ("ramp", ramp)):
        if value != int(value):
            section.fail(key, "not a whole number", found=section.entries[key], expected=counts)
    return Tiling(int(processors), int(sides[1]), int(sides[2]), int(ramp))


def _amount(section: Section, key: str, units: dict[str, Fraction], unit: str, example: str) -> float:
    amount = real(section, key, units, unit, example)
    if not amount > 0:
        section.fail(key, "out of range", found=section.entries[key], expected="more than 0")
    return amount


def _flops(section: Section, key: str) -> float:
    return _amount(section, key, {"FLOP/s": Fraction(1), **COMPUTE}, "FLOP/s", '"989 TFLOP/s"')


def _number(
    section: Section, key: str, low: float, high: float, expected: str, *, default: float | None = None
) -> float:
    """A bare number above 0 from ``low`` to ``high``."""
    if key not in section and default is not None:
        return default
    value = section.entries[key]
    number = parse_decimal(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not max(low, 1e-9) <= number <= high:
        section.fail(key, "out of range", found=value, expected=expected)
    return float(number)


def dump_device(profile: DeviceProfile) -> str:
    """A profile as the text of a file that `load_device` reads back, up to the six digits of its figures."""
    lines = ["format: 1", f"name: {profile.name}", "source: >"]
    lines += [f"  {line}" for line in (profile.source or "not stated").splitlines()]
    lines += ["", f"memory: {profile.memory_bytes / 1e9:.6g} GB", f"bandwidth: {profile.bandwidth / 1e9:.6g} GB/s"]
    lines += ["peak:", *(f"  {dtype}: {peak / 1e12:.6g} TFLOP/s" for dtype, peak in profile.peak.items())]
    lines += [f"vector: {profile.vector / 1e12:.6g} TFLOP/s", "", "efficiency:"]
    for kind, found in profile.efficiency.items():
        lines += [f"  {kind.name.lower()}:", f"    start: {found.start_ns:.6g} ns", f"    step: {found.step_ns:.6g} ns"]
        lines += [f"    {name}: {getattr(found, name):.6g}" for name in ("compute", "bandwidth", "knee", "tail")]
        if (blocks := found.tiling) is not None:
            lines += [f"    processors: {blocks.processors}", f"    tile: {blocks.rows} x {blocks.columns}"]
            lines += [f"    ramp: {blocks.ramp}"] if blocks.ramp else []
    return "\n".join(lines) + "\n"
