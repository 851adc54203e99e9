"""The channels that libraries find: figures of nccl-model.md, section 2, and of published logs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collectives.libraries.sites import a100, b200, h100, mi300x

from chakrasim import InputError
from chakrasim.collectives.libraries.search import graphs
from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import library_of

NEWEST = library_of("nccl")


def v100(ranks: int = 4, **more: object) -> Site:
    return Site("nvidia", 70, 1, ranks, "direct", 150, gpus_per_node=4, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("site", "version", "channels", "speed", "used"),
    [
        (v100(), "nccl", 6, 20, 12),
        (v100(), "nccl-2.8.4", 6, 21, 12),
        (a100(), "nccl", 12, 20, 24),
        (a100(4), "nccl", 12, 20, 24),
        (a100(2), "nccl", 12, 20, 24),
        (a100(), "nccl-2.8.4", 12, 21, 24),
        (h100(), "nccl", 12, 30, 24),
        (h100(2), "nccl", 12, 30, 24),
        (b200(), "nccl", 16, 45, 32),
        (Site("nvidia", 80, 1, 4, "direct", 300), "nccl", 12, 20, 24),
        (Site("nvidia", 90, 1, 4, "direct", 450), "nccl", 12, 30, 24),
        (Site("nvidia", 70, 1, 8, "cube-mesh", 150), "nccl", 6, 20, 12),
        # Links alone do not close a ring of the first five: PCIe carries one of 12.
        (Site("nvidia", 70, 1, 5, "cube-mesh", 150, gpus_per_node=8), "nccl", 1, 12, 2),
        (h100(nodes=4), "nccl", 8, 48, 16),
        (a100(nodes=2, nics_per_node=4, nic_GBps=12.5, network="efa"), "nccl", 4, 12, 8),
        (h100(nodes=2, nics_per_node=32, nic_GBps=12.5, network="efa"), "nccl-2.22.3", 8, 48, 16),
        # One GPU a node: its port alone, split in two.
        (h100(1, nodes=10), "nccl", 2, 24, 4),
        # A published log of two GPUs with a port of 400 Gb/s each: 4 channels of 24.
        (h100(2, nodes=2), "nccl-2.19.4", 4, 24, 8),
    ],
)
def test_rings_that_are_found(site: Site, version: str, channels: int, speed: float, used: int) -> None:
    found = graphs(site, library_of(version))
    assert (found.ring.channels, found.ring.inter, found.channels) == (channels, speed, used)
    assert found.tree.channels == channels


@pytest.mark.parametrize(
    ("site", "intra", "inter"),
    [(h100(), 40, 60), (h100(4), 60, 60), (b200(), 80, 90), (h100(nodes=2), 40, 48)],
)
def test_heads_in_the_switch(site: Site, intra: float, inter: float) -> None:
    nvls = graphs(site, NEWEST).nvls
    assert nvls is not None
    assert (nvls.channels, nvls.intra, nvls.inter) == (site.ranks_per_node, intra, inter)


def test_no_heads_where_the_switch_does_not_reduce_or_it_is_off() -> None:
    assert graphs(a100(), NEWEST).nvls is None
    assert graphs(h100(), library_of("nccl-2.12.12")).nvls is None
    assert graphs(h100(), NEWEST, Settings(nvls=False)).nvls is None


def test_channels_in_the_switch_by_version_and_nodes() -> None:
    def used(site: Site, version: str) -> int:
        return graphs(site, library_of(version)).nvls_channels

    assert used(h100(), "nccl") == 16
    assert (used(b200(), "nccl-2.25.1"), used(b200(), "nccl-2.27.7"), used(b200(nodes=2), "nccl")) == (32, 24, 32)
    assert (used(b200(nodes=4), "nccl-2.29.7"), used(b200(nodes=4), "nccl")) == (32, 24)
    assert graphs(h100(), NEWEST, Settings(nvls_channels=20)).nvls_channels == 20


def test_an_nvlink_domain_is_one_node() -> None:
    rack = b200(4, nodes=18, cpu="arm", nics_per_node=4, gpus_per_node=4, domain_nodes=18)
    assert graphs(rack, NEWEST).site.nodes == 1
    assert graphs(rack, NEWEST).ring.inter == 45
    assert graphs(rack, library_of("nccl-2.18.6")).site.nodes == 18
    two = graphs(replace(rack, nodes=36), NEWEST).site
    assert (two.nodes, two.ranks_per_node, two.nics_per_node, two.nranks) == (2, 72, 72, 144)


def test_a_domain_filled_in_part_keeps_its_ranks() -> None:
    site = b200(4, nodes=19, nics_per_node=4, gpus_per_node=4, domain_nodes=18).merged()
    assert (site.nodes, site.ranks_per_node, site.nranks) == (2, 36, 76)


def test_a_port_beside_each_gpu_leaves_the_plain_tree() -> None:
    assert graphs(h100(nodes=3), NEWEST).tree.plain
    assert not graphs(h100(nodes=3, nics_per_node=4), NEWEST).tree.plain
    assert not graphs(a100(nodes=3), NEWEST).tree.plain


def test_rings_of_a_well_known_mesh() -> None:
    rccl = library_of("rccl")
    assert (graphs(mi300x(), rccl).ring.channels, graphs(mi300x(), rccl).channels) == (28, 56)
    assert graphs(mi300x(), rccl).ring.total == 336
    assert graphs(mi300x(nodes=2), rccl).channels == 64
    assert (graphs(mi300x(2), rccl).channels, graphs(mi300x(4), rccl).channels) == (32, 24)


@given(
    st.sampled_from([70, 80, 90, 100]),
    st.integers(2, 8),
    st.integers(1, 40),
    st.floats(1, 100),
    st.integers(1, 8),
    st.sampled_from(["nvswitch", "direct", "pcie"]),
    st.sampled_from(["nccl-2.8.4", "nccl-2.18.6", "nccl-2.23.4", "nccl"]),
)
def test_no_link_carries_more_than_it_is_taken_to(
    capability: int, ranks: int, nodes: int, nic: float, nics: int, inside: str, version: str
) -> None:
    site = Site("nvidia", capability, nodes, ranks, inside, 300, nics, nic, "infiniband", gpus_per_node=8)
    found = graphs(site, library_of(version))
    if found.ring.inter == 0.1:
        return
    if nodes > 1:
        assert found.ring.channels * found.ring.inter <= nics * nic * 1.0001
    elif ranks > 1 and inside != "pcie":
        assert found.ring.total <= found.node.total * 1.0001
    assert found.ring.channels == found.tree.channels
    assert 1 <= found.channels <= 64


@given(st.integers(1, 64), st.integers(1, 64))
def test_limits_of_channels_hold(least: int, most: int) -> None:
    found = graphs(h100(), NEWEST, Settings(min_channels=least, max_channels=most))
    assert found.channels == max(min(24, most), least)


@pytest.mark.parametrize(
    ("change", "place", "expected"),
    [
        ({"vendor": "intel"}, "vendor", "one of nvidia, amd"),
        ({"inside": "nvlink"}, "inside", "one of nvswitch"),
        ({"network": "token ring"}, "network", "one of infiniband"),
        ({"cpu": "sparc"}, "cpu", "one of intel"),
        ({"nodes": 0}, "nodes", "1 or more"),
        ({"inside_GBps": 0.0}, "inside_GBps", "a bandwidth above 0"),
        ({"inside_GBps": float("nan")}, "inside_GBps", "a bandwidth above 0"),
        ({"nodes": 2, "nics_per_node": 0}, "nic_GBps", "ports that carry something"),
        ({"gpus_per_node": 4}, "gpus_per_node", "at least the 8 ranks"),
        ({"inside": "cube-mesh", "gpus_per_node": 16}, "gpus_per_node", "at most the 8 GPUs of a cube mesh"),
        ({"ranks": 9}, "ranks", "between 8 and 8"),
    ],
)
def test_groups_that_cannot_be(change: dict[str, object], place: str, expected: str) -> None:
    with pytest.raises(InputError, match=rf"{place}: the group of processes cannot be.*{expected}"):
        h100(**change)  # type: ignore[arg-type]
