"""The network: one topology, size, link bandwidth and link latency per dimension (ASTRA-sim's network YAML)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Final

from chakrasim.config.section import INT32_MAX, TIME_MAX, Section, Source, open_section
from chakrasim.config.table import Key, Kind, Required, Table, Values, names, read
from chakrasim.config.values import parse_decimal, parse_integer
from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.of_dimensions import graph_of_dimensions
from chakrasim.machine.topologies import BUILT_IN, TOPOLOGIES, Topology, topology_of
from chakrasim.machine.topologies.check import check
from chakrasim.notes import Notes, lists_too


def _column(one: Kind) -> Kind:
    """A list with one value per dimension."""

    def reader(section: Section, key: str) -> tuple[Any, ...]:
        items = section.listing(key, "a list with one value per dimension, such as [8]")
        return tuple(one.read(items, index) for index in items.entries)

    return Kind(reader, f"list of {one.shown}", {"type": "array", "minItems": 1, "items": one.schema})


def _topology(section: Section, key: str) -> str:
    value = section.entries[key]
    try:
        topology_of(value if isinstance(value, str) else "")
    except InputError as error:
        remedy = error.remedy if isinstance(value, str) else None
        section.refuse(key, error.message, error.expected or "", remedy or "")
    return str(value)


_TOPOLOGIES: Final = ", ".join(f"`{name}`" for name in (*TOPOLOGIES, "module:name"))
_TOPOLOGY: Final = {"anyOf": [{"enum": list(TOPOLOGIES)}, {"type": "string"}]}

topology_name: Final = Kind(_topology, _TOPOLOGIES, _TOPOLOGY)
"""The name of a topology."""


def _count(section: Section, key: str) -> int:
    value = section.entries[key]
    number: object = parse_integer(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, Integral) or abs(int(number)) > INT32_MAX:
        section.refuse(key, "not a number of NPUs", "an integer of at most 32 bits")
    return int(number)


def _real(section: Section, key: str, unit: str) -> float:
    value = section.entries[key]
    number: object = parse_decimal(value) if isinstance(value, str) else value
    expected = f"a finite number in {unit}"
    if isinstance(number, bool) or not isinstance(number, Real):
        section.refuse(key, "not a number", expected)
    try:
        converted = float(number)
    except (OverflowError, ValueError):
        converted = math.inf
    if not math.isfinite(converted):
        section.refuse(key, "not a finite number", expected)
    return converted


def _reals(unit: str, shown: str, schema: dict[str, Any]) -> Kind:
    return _column(Kind(lambda section, key: _real(section, key, unit), shown, schema))


_LISTED: Final = Required("a list with one value per dimension")
_COUNT: Final = Kind(_count, "integers > 1", {"type": ["integer", "string"], "minimum": 2})
_NUMBER: Final = {"type": ["number", "string"]}

NETWORK: Final = (
    Key("topology", _column(topology_name), _LISTED, "shape of the dimension"),
    Key("npus_count", _column(_COUNT), _LISTED,
        "ranks along it; the product is at most 2^31 - 1"),
    Key("bandwidth", _reals("GB/s (2^30 bytes)", "2^30 B/s, > 0", {**_NUMBER, "exclusiveMinimum": 0}), _LISTED,
        "of each link and direction; used as `bandwidth * 2^30 / 10^9` bytes per ns", "bandwidth_gib"),
    Key("latency", _reals("ns", "ns >= 0", {**_NUMBER, "minimum": 0}), _LISTED, "of each link, one way", "latency_ns"),
)  # fmt: skip
"""The keys of ASTRA-sim's network file."""

_FIELDS: Final = tuple(replace(key, name=key.python_name) for key in NETWORK)
"""The same as `Network` calls them."""


@dataclass(frozen=True)
class Network:
    """A network of one or more dimensions; element 0 is the innermost (fastest varying in the rank number).

    Raises :class:`chakrasim.InputError` when built from values outside these ranges.

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
    """

    topology: tuple[str, ...]
    npus_count: tuple[int, ...]
    bandwidth_gib: tuple[float, ...]
    latency_ns: tuple[float, ...]

    def __post_init__(self) -> None:
        entries = {key.name: getattr(self, key.name) for key in _FIELDS}
        for name, value in _checked(Section(entries, "Network", Notes()), _FIELDS).items():
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

    def to_graph(self) -> NetworkGraph:
        """The network as a graph of links: a network of its kind along each line of the grid. Messages of one
        dimension take the routes that they take here."""
        return graph_of_dimensions(self.kinds, self.npus_count, self.bytes_per_ns, self.latency_ns)

    def to_mapping(self) -> dict[str, object]:
        """The network as ASTRA-sim's YAML file holds it."""
        columns = (self.topology, self.npus_count, self.bandwidth_gib, self.latency_ns)
        return {key.name: list(column) for key, column in zip(NETWORK, columns, strict=True)}


@lists_too
def load_network(source: Source | Network, notes: Notes | None = None) -> Network:
    """Read ASTRA-sim's network YAML: a path, the mapping such a file holds, or a :class:`Network` as it is.

    Adds a line to ``notes`` for every key that is not read. Raises :class:`chakrasim.InputError` for values outside
    the ranges that :class:`Network` states.
    """
    if isinstance(source, Network):
        return source
    section = open_section(source, "network configuration", "yaml", notes)
    known = names(NETWORK)
    if not set(known) & set(section.entries):
        section.fail(None, "not a network configuration", expected="the keys " + ", ".join(known))
    section.warn_unknown(known)
    return Network(**_checked(section, NETWORK))


def _checked(section: Section, table: Table) -> Values:
    """Values of the right type, number and range, in the order in which the reference checks them."""
    values = read(section, table)
    (topology, *others), dimensions = names(table), len(values["topology"])
    if not dimensions:
        section.fail(topology, "no dimensions", expected="at least one topology")
    for key in table[1:]:
        if len(values[key.python_name]) != dimensions:
            expected = f"{dimensions}, one per entry of {topology}"
            found = len(values[key.python_name])
            section.fail(key.name, "the number of values is wrong", found=found, expected=expected)
    _check_ranges(section, others, values)
    for index, (name, members) in enumerate(zip(values["topology"], values["npus_count"], strict=True)):
        _check_topology(section, (topology, index), topology_of(name), members)
    return values


def _check_topology(section: Section, place: tuple[str, int], topology: Topology, members: int) -> None:
    """Those of the package are checked by its tests."""
    if topology in BUILT_IN:
        return
    fault = "cannot be"
    try:
        topology.ports(members)
        fault = "does not do what it says"
        check(topology, members)
    except Exception as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        section.fail(place, f"topology {topology.name} of {members} members {fault}: {what}")


def _check_ranges(section: Section, keys: list[str], values: Values) -> None:
    npus, gib, latency = values["npus_count"], values["bandwidth_gib"], values["latency_ns"]
    for key, column, good, expected in (
        (keys[0], npus, [count > 1 for count in npus], "more than 1 NPU in a dimension"),
        (keys[1], gib, [value > 0 and math.isfinite(value * 2**30) for value in gib], "a finite bandwidth above 0"),
        (keys[2], latency, [0 <= ns < TIME_MAX for ns in latency], "a finite latency of 0 ns or more"),
    ):
        if not all(good):
            index = good.index(False)
            section.fail((key, index), "out of range", found=column[index], expected=expected)
    if math.prod(npus) > INT32_MAX:
        section.fail(keys[0], "too many NPUs", expected=f"a product of at most {INT32_MAX}")
