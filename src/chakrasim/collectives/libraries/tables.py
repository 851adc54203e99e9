"""The constants that libraries were built with, by version: facts of their public sources, in two files of data.

Latencies are in us, bandwidths in GB/s, which are bytes per ns. Rows of four are by GPU generation (Volta, Ampere,
Hopper, Blackwell), their columns by nodes (one, two, more); triples are by protocol (LL, LL128, Simple).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

Triple = tuple[float, ...]
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Table:
    """One version of NCCL.

    Attributes
    ----------
    version: of the sources.
    ll: most bandwidth of LL; across nodes the row is by maker of the CPU.
    ring_ll128, tree_ll128, tree, nvlstree: most bandwidth of a channel.
    ring_ll128_of: that of LL128 on rings for collectives where it differs.
    nvls_efficiency: by generation.
    base: latency of an algorithm.
    hop: latency of a hop over ``nvlink``, ``pci``, ``net``, by algorithm.
    correction: factors of the bandwidth of trees by protocol, from 64 B on, a power of two each.
    speeds: what the search tries, ``intra`` and ``inter``, with ``_90`` and ``_100`` for newer GPUs.
    nvlink: bandwidth of a link by compute capability.
    """

    version: str
    ll: Rows
    tree: Rows
    ring_ll128: Rows
    ring_ll128_of: Mapping[str, float]
    tree_ll128: Rows
    speeds: Mapping[str, Triple]
    base: Mapping[str, Triple]
    hop: Mapping[str, Mapping[str, Triple]]
    correction: Mapping[str, Triple]
    nvlink: Mapping[str, float]
    nvlstree: Rows = ()
    nvls_efficiency: Triple = ()


@dataclass(frozen=True)
class Model:
    """One of RCCL's models of machines: latencies of hops, shares of the bandwidth (up to two nodes, more), and factors
    by size of trees and rings."""

    hop: Mapping[str, Mapping[str, Triple]]
    ratio: tuple[Mapping[str, Triple], ...]
    tree: Mapping[str, Triple]
    ring: Mapping[str, Triple]


@dataclass(frozen=True)
class Rccl:
    """RCCL's tables: what its search tries, base latencies by algorithm, and the models."""

    commit: str
    speeds: tuple[float, ...]
    base: Mapping[str, Triple]
    models: tuple[Model, ...]


def nccl_versions() -> tuple[str, ...]:
    """The versions of NCCL that there are tables of, the oldest first."""
    return tuple(_nccl())


def nccl_table(version: str) -> Table:
    """The table of a version in `nccl_versions`."""
    return _nccl()[version]


@cache
def rccl_tables() -> Rccl:
    """The tables of RCCL."""
    data = _read("rccl.json")
    models = tuple(Model(**{field.name: model[field.name] for field in fields(Model)}) for model in data["models"])
    return Rccl(data["commit"], data["speeds"], data["base"], models)


@cache
def _nccl() -> Mapping[str, Table]:
    # The file has the oldest version in full, and of each other what differs from the one before.
    known: dict[str, Any] = {}
    tables = {}
    for entry in _read("nccl.json"):
        known |= entry
        tables[known["version"]] = Table(**known)
    return tables


def _read(name: str) -> Any:
    return _frozen(json.loads(Path(__file__).with_name(name).read_bytes()))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return {key: _frozen(item) for key, item in value.items()} if isinstance(value, dict) else value
