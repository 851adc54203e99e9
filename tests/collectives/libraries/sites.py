"""Groups of processes on well-known machines, for the tests of what libraries choose."""

from __future__ import annotations

from chakrasim.collectives.libraries.site import Site


def a100(each: int = 8, nodes: int = 1, **more: object) -> Site:
    """NVSwitch, eight GPUs."""
    return _site(80, 300.0, each, nodes, more)


def h100(each: int = 8, nodes: int = 1, **more: object) -> Site:
    """NVSwitch, eight GPUs, a port of 400 Gb/s each."""
    return _site(90, 450.0, each, nodes, more)


def b200(each: int = 8, nodes: int = 1, **more: object) -> Site:
    """NVSwitch, eight GPUs."""
    return _site(100, 900.0, each, nodes, more)


def _site(capability: int, inside_GBps: float, ranks_per_node: int, nodes: int, more: dict[str, object]) -> Site:
    base: dict[str, object] = {
        "vendor": "nvidia",
        "capability": capability,
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "inside": "nvswitch",
        "inside_GBps": inside_GBps,
        "nics_per_node": 8,
        "nic_GBps": 50.0,
        "network": "infiniband",
        "cpu": "intel",
        "gpus_per_node": 8,
    }
    return Site(**{**base, **more})  # type: ignore[arg-type]


def mi300x(ranks: int = 8, nodes: int = 1) -> Site:
    """A full mesh of eight GPUs."""
    return Site("amd", 0, nodes, ranks, "xgmi", 448, 8, 50, "roce", "intel", gpus_per_node=8, model="gfx942")
