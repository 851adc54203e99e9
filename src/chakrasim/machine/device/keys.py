"""The keys of a device profile, from which docs/reference-machine.md and the schema for editors are written too."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Final

from chakrasim.config.kinds import number, paragraph, text, version
from chakrasim.config.section import Section
from chakrasim.config.table import REQUIRED, Derived, Key, Kind, Values, each, mapping
from chakrasim.config.units import BANDWIDTH, COMPUTE, TIME, real
from chakrasim.machine.device.power import Power
from chakrasim.machine.device.profile import PROCESSORS, Efficiency
from chakrasim.machine.device.tiling import Tiling
from chakrasim.trace.work import WORK_KINDS

_MEMORY: Final = {
    "B": Fraction(1),
    **{f"{prefix}B": Fraction(10**power) for prefix, power in zip("MGT", (6, 9, 12), strict=True)},
    **{f"{prefix}iB": Fraction(2**power) for prefix, power in zip("MGT", (20, 30, 40), strict=True)},
}
_DTYPES: Final = ("float64", "float32", "tfloat32", "bfloat16", "float16", "float8", "int8", "float4")


def _tile(section: Section, key: str) -> tuple[int, int]:
    sides = re.fullmatch(_BLOCK, str(section.entries[key]))
    if sides is None:
        section.refuse(key, "not a block", "rows x columns, such as 128 x 256")
    return int(sides[1]), int(sides[2])


def _count(section: Section, key: str) -> int:
    found: float = _NUMBER.read(section, key)
    if found != int(found):
        section.refuse(key, "not a whole number", _COUNTS)
    return int(found)


def _efficiency(section: Section, values: Values) -> Efficiency:
    """An efficiency, its blocks of matrix products where the profile gives them: both of processors and tile."""
    processors, tile, ramp = (values.pop(key) for key in _TILING_KEYS)
    given = [key for key in _TILING_KEYS if key in section]
    if ("cached" in section) != ("cache" in section):
        section.fail("cache" if "cached" in section else "cached", "the key is missing", expected="cached and cache")
    if 0 < values["cached"] < values["bandwidth"]:
        section.refuse("cached", "small kernels are slower than large ones", "no less than bandwidth")
    for key in ("processors", "tile"):
        if given and key not in section:
            section.fail(key, "the key is missing", expected=f"with {given[0]}: both of processors and tile")
    return Efficiency(**values, tiling=Tiling(processors, tile[0], tile[1], ramp) if given else None)


def _peaks(section: Section, key: str) -> dict[str, float]:
    peaks: dict[str, float] = _PEAKS.read(section, key)
    if not peaks:
        section.fail(key, "no types", expected="at least one of " + ", ".join(_DTYPES))
    return peaks


_BLOCK: Final = "([1-9][0-9]{0,5}) x ([1-9][0-9]{0,5})"
_TILING_KEYS: Final = ("processors", "tile", "ramp")
_COUNTS: Final = "a whole number, 1 to 1,000,000"
_NUMBER: Final = number(1.0, 1e6, _COUNTS, "whole number")
_COUNT: Final = replace(_NUMBER, read=_count)
_EXPONENT: Final = number(1.0, 1000.0, "an exponent from 1 to 1000", "1 to 1000")
_FLOPS: Final = real({"FLOP/s": Fraction(1), **COMPUTE}, "FLOP/s", '"989 TFLOP/s"', "compute", above_zero="more than 0")
_SPEED: Final = real(BANDWIDTH, "B/s", '"3350 GB/s"', "bandwidth", above_zero="more than 0")
_CAPACITY: Final = real(_MEMORY, "B", '"80 GB"', "bytes", above_zero="more than 0")
_BYTES: Final = replace(_CAPACITY, read=lambda section, key: int(_CAPACITY.read(section, key)))
_PEAKS: Final = each(_DTYPES, _FLOPS)


def _share(of: str) -> Kind:
    return number(1e-9, 1.0, f"a share of the {of}, above 0 to 1", "share, above 0 to 1")


_SUSTAINED: Final = each((*_DTYPES, "default"), _share("speed of a single product"))

_EFFICIENCY: Final = (
    Key("start", real(TIME, "ns", '"2.9 us"', "time"), REQUIRED, "of every kernel, whatever it does", "start_ns"),
    Key("step", real(TIME, "ns", '"1.2 ns"', "time"), 0.0,
        "of each link of the chain of dependent steps: `k` of a product, the keys of an attention", "step_ns"),
    Key("compute", _share("peak"), REQUIRED, "of the peak, that large work reaches"),
    Key("bandwidth", _share("bandwidth"), REQUIRED, "of the bandwidth, that large work reaches"),
    Key("cached", _share("bandwidth"), 0.0,
        "with `cache`: of the bandwidth, that small kernels reach, whose data stay in the cache", shown="`bandwidth`"),
    Key("cache", _CAPACITY, 0.0, "traffic of a kernel halfway between small and large", "cache_bytes", shown="none"),
    Key("knee", _EXPONENT, 1000.0, "rounding of the corner of compute and memory; 1000 is sharp"),
    Key("tail", _EXPONENT, 1000.0, "rounding of the corner of these and the chain; 1000 is sharp"),
    Key("backward", _share("peak"), 0.0,
        "of `attention`: the same of its backward pass, known by more than 2.5 products of its shape",
        shown="`compute`"),
    Key("narrow", number(0.5, 1.0, "a share from 0.5 to 1", "share, 0.5 to 1"), 1.0,
        "of `attention`: what heads of 64 reach of that, those of 128 all, others by the logarithm of their size"),
    Key("processors", _COUNT, 0,
        "matrix products go in waves of blocks (`tile`), one on each of so many processors", shown="none"),
    Key("tile", Kind(_tile, "rows x columns", {"type": "string", "pattern": f"^{_BLOCK}$"}), None,
        "such a block; for small results of blocks with halved sides (down to 64). A block's result is stored when its "
        "products are done"),
    Key("ramp", _COUNT, 0,
        "with a tile, in steps of `k`: what a block of that size takes before its first product; smaller ones take as "
        "long"),
)  # fmt: skip

_WATTS: Final = real({"W": Fraction(1), "kW": Fraction(1000)}, "W", '"970 W"', "power", above_zero="more than 0")
POWER: Final = (
    Key("busy", _WATTS, REQUIRED, "of one device, with its share of the node, in training: `970 W`", "busy_w"),
    Key("idle", _WATTS, REQUIRED, "the same while the node stands", "idle_w"),
    Key("communicating", _WATTS, None, "while bytes move and nothing is computed", "communicating_w",
        shown="halfway between the two"),
)  # fmt: skip
DEVICE: Final = (
    Key("format", version, 1, "version of this format"),
    Key("name", text, REQUIRED, "what tables call it"),
    Key("source", paragraph, "", "for people: where each figure comes from"),
    Key("memory", _BYTES, REQUIRED, "capacity: `80 GB`, `80 GiB`", "memory_bytes"),
    Key("bandwidth", _SPEED, REQUIRED, "of that memory, by the data sheet"),
    Key("peak", replace(_PEAKS, read=_peaks), REQUIRED,
        "of matrix units, dense, by the data sheet: " + ", ".join(f"`{dtype}`" for dtype in _DTYPES) + ". A type of 4 "
        "to 16 bits that is missing runs like the next wider one up to 16, `mxfp8` like `float8`, `nvfp4` like "
        "`float4`, `tfloat32` like `float32`, any other on the vector units"),
    Key("sustained", _SUSTAINED, {},
        "by type, or `default`: the share of the speed of a single matrix product that one of many in a row keeps "
        "under the limit of power", shown="1"),
    Key("vector", _FLOPS, Derived(lambda values: min(values["peak"].values()), "the lowest peak"),
        "outside the matrix units"),
    Key("processors", _COUNT, PROCESSORS,
        "streaming multiprocessors or compute units; kernels of collectives hold one for each of their blocks"),
    Key("power", mapping(POWER, lambda _, values: Power(**values)), None,
        "what it draws by what it does, for the energy of a step", shown="unknown"),
    Key("efficiency", each(WORK_KINDS, mapping(_EFFICIENCY, _efficiency), ("gemm", "elementwise"),
        "at least gemm and elementwise"), REQUIRED,
        "by kind: `gemm` and `elementwise` at least; also `attention`, `convolution`, `reduction`, `normalization`, "
        "`softmax`, `embedding`, `copy`, `optimizer`, `rotary`, `other`. `attention`, `convolution` and `other` that "
        "are missing are timed as `gemm`, the rest as `elementwise`"),
)  # fmt: skip
"""The keys of a device profile."""
