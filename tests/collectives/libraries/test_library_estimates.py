"""The libraries' own estimates: by hand from nccl-model.md, section 3, and as published logs print them."""

from __future__ import annotations

import pytest
from tests.collectives.libraries.sites import a100, b200, h100, mi300x

from chakrasim import InputError
from chakrasim.collectives.libraries.settings import Settings, settings_of
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tuning import costs, timings
from chakrasim.collectives.libraries.versions import library_of

NEWEST = library_of("nccl")


def cost(site: Site, version: str, collective: str, algorithm: str, protocol: str) -> tuple[float, float]:
    return costs(site, library_of(version), collective)[algorithm, protocol]


def close(found: tuple[float, float], latency: float, bandwidth: float) -> bool:
    return found == pytest.approx((latency, bandwidth), rel=1e-9)


def test_rings_of_one_node() -> None:
    # 12 channels of 30; 8 / 14 of the bus; 14 hops of 0.6, 1.9, 3.4 us after 6.6, 14, 8.4.
    assert close(cost(h100(), "nccl", "all_reduce", "ring", "LL"), 6.6 + 14 * 0.6, 141 * 8 / 14)
    assert close(cost(h100(), "nccl", "all_reduce", "ring", "LL128"), 14 + 14 * 1.9, 0.92 * 360 * 8 / 14)
    assert close(cost(h100(), "nccl", "all_reduce", "ring", "Simple"), 8.4 + 14 * 3.4, 360 * 8 / 14)
    assert close(cost(h100(), "nccl", "all_gather", "ring", "Simple"), 8.4 + 7 * 3.4, 360 * 8 / 7)
    assert close(cost(h100(), "nccl", "broadcast", "ring", "Simple"), 8.4 + 3.4, 360)


def test_low_latency_of_older_versions_is_slower() -> None:
    assert close(cost(a100(), "nccl-2.18.6", "all_gather", "ring", "LL"), 6.6 + 7 * 0.6, 240 / 3 * 8 / 7)
    assert close(cost(a100(), "nccl-2.18.6", "all_reduce", "ring", "LL"), 6.6 + 14 * 0.6, 240 / 4 * 8 / 14)
    assert close(cost(a100(), "nccl", "all_gather", "ring", "LL"), 6.6 + 7 * 0.6, 87.7 * 8 / 7)


def test_trees_of_one_node() -> None:
    assert close(cost(a100(), "nccl", "all_reduce", "tree", "Simple"), 8.4 + 2 * 7 * 4, 0.92 * 240 / 2)
    assert close(cost(a100(), "nccl", "all_reduce", "tree", "LL"), 6.8 + 2 * 7 * 0.6, 0.92 * 240 / 3.8 / 2)
    assert close(cost(a100(), "nccl", "all_reduce", "tree", "LL128"), 14 + 14 * 1.25, 0.92 * 240 * 7 / 9 / 2)
    assert close(cost(a100(), "nccl-2.22.3", "all_reduce", "tree", "Simple"), 2 * 7 * 28, 0.92 * 240 / 2)


def test_reductions_in_the_switch() -> None:
    # From 2.28 on by efficiency: 40 x 0.85 x 7/8 a channel and twice that, at most 60; before: 5/6 of 8 x 40.
    assert close(cost(h100(), "nccl", "all_reduce", "nvls", "Simple"), 25, 8 * 40 * 0.85 * 7 / 8 * 2 * 8 / 14)
    assert close(cost(h100(), "nccl-2.27.7", "all_reduce", "nvls", "Simple"), 25, 8 * 40 * 5 / 6)
    assert close(cost(h100(), "nccl-2.27.7", "all_gather", "nvls", "Simple"), 25, 8 * 40 * 7 / 8)
    assert close(cost(b200(), "nccl", "all_gather", "nvls", "Simple"), 25, 8 * 80 * 0.74 * (7 / 8) ** 2)
    assert ("nvls", "Simple") not in costs(h100(nodes=2), NEWEST, "all_reduce")
    assert ("nvlstree", "Simple") not in costs(h100(), NEWEST, "all_reduce")


def test_rings_between_nodes() -> None:
    # 8 channels of 48 on 4 nodes: 62 hops, 6 of them between nodes, the others at least three times 1 us.
    expected = 8.4 + 56 * 3.4 + 6 * 14
    assert close(cost(h100(nodes=4), "nccl", "all_reduce", "ring", "Simple"), expected, 384 * 32 / 62)
    far = timings(h100(nodes=4), NEWEST, "all_reduce", 1 << 20)["ring", "Simple"]
    assert far == pytest.approx(1.4 * expected + (1 << 20) / (1000 * 384 * 32 / 62))
    amd = cost(h100(nodes=4, cpu="amd"), "nccl", "all_reduce", "ring", "Simple")
    assert amd[0] == pytest.approx(8.4 + 56 * 6 + 6 * 14)
    quick = costs(h100(nodes=4), NEWEST, "all_reduce", settings_of({"NCCL_NET_OVERHEAD": "5000"}))
    assert quick["ring", "Simple"][0] == pytest.approx(8.4 + 56 * 15 + 6 * 14)


def test_one_rank_a_node_has_the_whole_latency_of_the_network_and_parallel_trees() -> None:
    site = h100(1, nodes=16)
    assert cost(site, "nccl", "all_gather", "ring", "LL")[0] == pytest.approx(6.6 + 15 * 5)
    assert close(cost(site, "nccl", "all_gather", "pat", "Simple"), 8 + 4 * 14 / 3.5 + 2.8 * 16, 48 * 0.75)
    assert close(cost(site, "nccl-2.23.4", "all_gather", "pat", "Simple"), 8 + 4 * 14 / 3.5 + 2.8 * 16, 48 * 0.85)
    assert ("pat", "Simple") not in costs(site, NEWEST, "all_gather", Settings(pat=0))
    assert ("pat", "Simple") not in costs(h100(nodes=16), NEWEST, "all_gather")


def test_estimates_that_a_log_of_three_nodes_printed() -> None:
    # NVIDIA/nccl issue 1453: H100, Intel, ports of 200 Gb/s, 24 ranks: "2048 Bytes -> Algo 0 proto 0 time 25.495272",
    # "524288 Bytes -> Algo 5 proto 2 time 59.553600".
    site, library = h100(nodes=3, nic_GBps=25.0), library_of("nccl-2.22.3")
    assert timings(site, library, "all_reduce", 2048)["tree", "LL"] == pytest.approx(25.495272, abs=2e-6)
    assert timings(site, library, "all_reduce", 524288)["nvlstree", "Simple"] == pytest.approx(59.5536, abs=1e-6)


def test_bandwidth_that_a_log_of_an_h800_printed() -> None:
    # NVIDIA/nccl issue 1154: two nodes, eight ports of 400 Gb/s, 8 links a GPU: tree of 68.8 GB/s.
    assert cost(h100(nodes=2, inside_GBps=200), "nccl-2.19.4", "all_reduce", "tree", "Simple")[1] == pytest.approx(
        68.8, abs=0.05
    )


def test_plugins_state_latencies() -> None:
    # EFA's states 75 us, which count in place of a hop's up to 2.17, beside it since, and twice in Simple.
    site = a100(nodes=2, nics_per_node=4, nic_GBps=12.5, network="efa")
    base = {version: 2 * 7 * hop for version, hop in (("nccl-2.12.12", 0.52 * 1.8), ("nccl", 0.6))}
    assert cost(site, "nccl-2.12.12", "all_reduce", "tree", "LL")[0] == pytest.approx(4.4 + base["nccl-2.12.12"] + 150)
    assert cost(site, "nccl", "all_reduce", "tree", "LL")[0] == pytest.approx(6.8 + base["nccl"] + 2 * (5 + 75))
    assert cost(site, "nccl", "all_reduce", "tree", "Simple")[0] == pytest.approx(8.4 + 56 + 2 * (14 + 150))
    assert cost(site, "nccl-2.8.4", "all_reduce", "tree", "LL")[0] == pytest.approx(4.4 + 14 * 0.52 * 1.8 + 10)


def test_trees_are_corrected_by_size() -> None:
    latency, bandwidth = cost(a100(), "nccl", "all_reduce", "tree", "LL")
    # 1 MiB is 2^14 times 64 bytes; beyond 256 MiB there is no correction.
    assert timings(a100(), NEWEST, "all_reduce", 1 << 20)["tree", "LL"] == pytest.approx(
        latency + (1 << 20) / (1000 * bandwidth * 0.5)
    )
    assert timings(a100(), NEWEST, "all_reduce", 1 << 30)["tree", "LL"] == pytest.approx(
        latency + (1 << 30) / (1000 * bandwidth)
    )


def test_reductions_in_the_network_only_where_they_are_on() -> None:
    off, on = (
        costs(h100(nodes=4), NEWEST, "all_reduce"),
        costs(h100(nodes=4), NEWEST, "all_reduce", Settings(collnet=True)),
    )
    new = {algorithm for algorithm, _ in on} - {algorithm for algorithm, _ in off}
    assert new == {"collnetdirect", "collnetchain", "nvls"}
    assert on["collnetchain", "Simple"][0] == pytest.approx(2 * 7 * 2.8 + 30)
    assert on["collnetdirect", "Simple"][0] == pytest.approx(2 * (3.7 + 7 * 0.4) + 31)


@pytest.mark.parametrize(
    ("site", "version", "usual"),
    [
        (a100(), "nccl", True),
        (b200(), "nccl-2.24.3", False),
        (b200(), "nccl-2.25.1", True),
        (Site("nvidia", 89, 1, 8, "pcie", 32), "nccl", False),
        (a100(nodes=2, network="slingshot"), "nccl", False),
        (h100(4, nodes=2, network="slingshot", cpu="arm"), "nccl-2.27.7", True),
        (h100(4, nodes=2, network="slingshot", cpu="arm"), "nccl-2.23.4", False),
        (mi300x(), "rccl", False),
    ],
)
def test_where_ll128_is_used_unasked(site: Site, version: str, usual: bool) -> None:
    library = library_of(version)
    assert (("ring", "LL128") in costs(site, library, "all_reduce")) is usual
    if library.name == "nccl":
        assert ("ring", "LL128") in costs(site, library, "all_reduce", settings_of({"NCCL_PROTO": "LL128"}))


def test_estimates_of_rccl() -> None:
    rccl = library_of("rccl")
    known = costs(mi300x(), rccl, "all_reduce")
    assert ("tree", "Simple") not in known
    assert known["ring", "Simple"] == pytest.approx((17 + 14 * 2.1, 336 * 8 / 14))
    assert known["ring", "LL"] == pytest.approx((12 + 14 * 0.8, 0.08 * 336 * 8 / 14))
    # Rings between nodes are corrected by size: the last of the 27 factors is for 4 GiB and more.
    far = costs(mi300x(nodes=2), rccl, "all_reduce")["ring", "Simple"]
    for size, factor in ((1 << 33, 1.0), (1 << 29, 0.8), (1 << 20, 0.1)):
        expected = far[0] + size / (1000 * far[1] * factor)
        assert timings(mi300x(nodes=2), rccl, "all_reduce", size)["ring", "Simple"] == pytest.approx(expected)


def test_one_rank_alone_takes_no_time() -> None:
    assert timings(h100(1), NEWEST, "all_reduce", 1 << 20) == {("ring", "Simple"): 0.0}


@pytest.mark.parametrize(
    ("collective", "why"), [("all_to_all", "which goes pair by pair"), ("all_to_none", "which is not known")]
)
def test_collectives_without_an_estimate(collective: str, why: str) -> None:
    with pytest.raises(InputError, match=f"estimates no times of this collective, {why}.*expected one of all_reduce"):
        costs(h100(), NEWEST, collective)
