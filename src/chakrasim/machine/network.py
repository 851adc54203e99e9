"""The network: one topology, size, link bandwidth and link latency per dimension (ASTRA-sim's network YAML)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from chakrasim.config.decode import as_sequence, describe, parse_decimal, parse_integer
from chakrasim.config.section import INT32_MAX, TIME_MAX, Section, Source, open_section, warn_unknown
from chakrasim.errors import InputError
from chakrasim.machine.topologies import BUILT_IN, Topology, topology_of
from chakrasim.machine.topologies.check import check
from chakrasim.notes import Notes, lists_too

_COLUMNS = ("topology", "npus_count", "bandwidth", "latency")


@dataclass(frozen=True)
class Network:
    """A network of one or more dimensions; element 0 is the innermost (fastest varying in the rank number).

    Parameters
    ----------
    topology:
        Per dimension the name of a topology, such as ``"Ring"``, or ``"module:name"`` for one that a module registers.
    npus_count:
        Ranks along each dimension, each > 1; their product is at most 2^31 - 1.
    bandwidth_gib:
        Bandwidth of each link and direction in GiB/s (2^30 bytes a second: what ASTRA-sim calls GB/s here), each > 0.
    latency_ns:
        Latency of each link, one way, in ns (fractions allowed), each >= 0.

    Raises :class:`chakrasim.InputError` when built from values outside these ranges.
    """

    topology: tuple[str, ...]
    npus_count: tuple[int, ...]
    bandwidth_gib: tuple[float, ...]
    latency_ns: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = (self.topology, self.npus_count, self.bandwidth_gib, self.latency_ns)
        names = ("topology", "npus_count", "bandwidth_gib", "latency_ns")
        values = _checked(dict(zip(names, columns, strict=True)), names, "Network")
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def dimensions(self) -> int:
        return len(self.topology)

    @property
    def kinds(self) -> tuple[Topology, ...]:
        """The topology of each dimension."""
        return tuple(map(topology_of, self.topology))

    @property
    def ranks(self) -> int:
        """The number of NPUs: the product of ``npus_count``."""
        return math.prod(self.npus_count)

    @property
    def bytes_per_ns(self) -> tuple[float, ...]:
        """Link bandwidth in bytes per ns: GiB/s times 2^30, then divided by 10^9, in double precision in this order
        (astra-network.md section 1)."""
        return tuple(gib * 2**30 / 10**9 for gib in self.bandwidth_gib)

    def to_mapping(self) -> dict[str, object]:
        """The network as ASTRA-sim's YAML file holds it."""
        columns = (self.topology, self.npus_count, self.bandwidth_gib, self.latency_ns)
        return {name: list(column) for name, column in zip(_COLUMNS, columns, strict=True)}


@lists_too
def load_network(source: Source | Network, notes: Notes) -> Network:
    """Read ASTRA-sim's network YAML: a path, the mapping such a file holds, or a :class:`Network` as it is.

    Adds a line to ``notes`` for every key that is not read. Raises :class:`chakrasim.InputError` for values outside
    the ranges that :class:`Network` states.
    """
    if isinstance(source, Network):
        return source
    section = open_section(source, "network configuration", "yaml", notes)
    if not set(_COLUMNS) & set(section.entries):
        section.fail(None, "not a network configuration", expected="the keys " + ", ".join(_COLUMNS))
    warn_unknown(section, _COLUMNS)
    columns = {key: _column(section, key) for key in _COLUMNS}
    return Network(*_checked(columns, _COLUMNS, section.file))


def _column(section: Section, key: str) -> Sequence[object]:
    if key not in section.entries:
        section.fail(key, "the key is missing", expected="a list with one value per dimension")
    return section.sequence(key, "a list with one value per dimension, such as [8]")


def _checked(
    columns: Mapping[str, object], names: tuple[str, ...], file: str
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    """Values of the right type and range, in the order in which the reference checks them."""
    kinds, counts, bandwidths, latencies = (_listed(columns[name], name, file) for name in names)
    kinds_key, counts_key, bandwidths_key, latencies_key = names
    topology = tuple(_topology(value, f"$.{kinds_key}[{i}]", file) for i, value in enumerate(kinds))
    npus = tuple(_count(value, f"$.{counts_key}[{i}]", file) for i, value in enumerate(counts))
    gib = tuple(
        _real(value, f"$.{bandwidths_key}[{i}]", file, "GB/s (2^30 bytes)") for i, value in enumerate(bandwidths)
    )
    latency = tuple(_real(value, f"$.{latencies_key}[{i}]", file, "ns") for i, value in enumerate(latencies))
    if not topology:
        raise InputError("no dimensions", file=file, place=f"$.{kinds_key}", expected="at least one topology")
    for name, column in ((counts_key, npus), (bandwidths_key, gib), (latencies_key, latency)):
        if len(column) != len(topology):
            expected = f"{len(topology)}, one per entry of {kinds_key}"
            raise InputError(
                "the number of values is wrong", file=file, place=f"$.{name}", found=len(column), expected=expected
            )
    _check_ranges(npus, gib, latency, names, file)
    for i, (name, count) in enumerate(zip(topology, npus, strict=True)):
        _check_topology(topology_of(name), count, f"$.{kinds_key}[{i}]", file)
    return topology, npus, gib, latency


def _check_ranges(
    npus: tuple[int, ...], gib: tuple[float, ...], latency: tuple[float, ...], names: tuple[str, ...], file: str
) -> None:
    def check(good: bool, key: str, index: int, found: object, expected: str) -> None:
        if not good:
            place = f"$.{key}[{index}]"
            raise InputError("out of range", file=file, place=place, found=describe(found), expected=expected)

    for i, count in enumerate(npus):
        check(count > 1, names[1], i, count, "more than 1 NPU in a dimension")
    for i, value in enumerate(gib):
        check(value > 0 and math.isfinite(value * 2**30), names[2], i, value, "a finite bandwidth above 0")
    for i, value in enumerate(latency):
        check(0 <= value < TIME_MAX, names[3], i, value, "a finite latency of 0 ns or more")
    ranks = 1
    for count in npus:
        ranks *= count
        if ranks > INT32_MAX:
            raise InputError(
                "too many NPUs", file=file, place=f"$.{names[1]}", expected=f"a product of at most {INT32_MAX}"
            )


def _listed(value: object, key: str, file: str) -> Sequence[object]:
    listed = as_sequence(value)
    if listed is None:
        raise InputError("not a list", file=file, place=f"$.{key}", found=describe(value), expected="a list")
    return listed


def _topology(value: object, place: str, file: str) -> str:
    try:
        topology_of(value if isinstance(value, str) else "")
    except InputError as error:
        remedy = error.remedy if isinstance(value, str) else None
        raise InputError(
            error.message, file=file, place=place, found=describe(value), expected=error.expected, remedy=remedy
        ) from None
    return str(value)


def _check_topology(topology: Topology, members: int, place: str, file: str) -> None:
    """Those of the package are checked by its tests."""
    if topology in BUILT_IN:
        return
    try:
        check(topology, members)
    except Exception as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        message = f"topology {topology.name} of {members} members does not do what it says: {what}"
        raise InputError(message, file=file, place=place) from error


def _count(value: object, place: str, file: str) -> int:
    number: object = parse_integer(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, Integral) or abs(int(number)) > INT32_MAX:
        expected = "an integer of at most 32 bits"
        raise InputError("not a number of NPUs", file=file, place=place, found=describe(value), expected=expected)
    return int(number)


def _real(value: object, place: str, file: str, unit: str) -> float:
    number: object = parse_decimal(value) if isinstance(value, str) else value
    expected = f"a finite number in {unit}"
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InputError("not a number", file=file, place=place, found=describe(value), expected=expected)
    try:
        converted = float(number)
    except (OverflowError, ValueError):
        converted = math.inf
    if not math.isfinite(converted):
        raise InputError("not a finite number", file=file, place=place, found=describe(value), expected=expected)
    return converted
