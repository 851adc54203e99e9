"""What is done with an operation: channels, threads, chunks, rounds; figures of nccl-model.md, sections 3, 4 and 6."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collectives.libraries.sites import a100, b200, h100, mi300x

from chakrasim import InputError
from chakrasim.collectives.libraries.choice import Choice, choose
from chakrasim.collectives.libraries.settings import DEFAULT, Settings, settings_of
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tuning import SERVED, timings
from chakrasim.collectives.libraries.versions import library_of

NEWEST = library_of("nccl")
KIB = 1024
SITES = (
    h100(),
    a100(4),
    b200(),
    h100(nodes=4),
    a100(1, nodes=8),
    b200(2, nodes=2),
    Site("nvidia", 89, 1, 8, "pcie", 32),
)
VERSIONS = ("nccl-2.8.4", "nccl-2.18.6", "nccl-2.22.3", "nccl-2.27.7", "nccl")


def forced(size: int, algorithm: str, protocol: str, site: Site | None = None, version: str = "nccl") -> Choice:
    settings = settings_of({"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol})
    return choose(site or h100(), library_of(version), "all_reduce", size, settings)


def test_all_channels_from_a_size_on() -> None:
    # H100 x8, 24 channels: all in Simple from 24 x 512 x 64, and in LL from 24 x 512 x 8 x 8.
    assert forced(768 * KIB, "ring", "Simple").channels == 24
    assert forced(768 * KIB - 32 * KIB, "ring", "Simple").channels == 23
    assert forced(768 * KIB, "ring", "LL").channels == 24
    assert forced(512 * KIB, "ring", "LL").channels == 16


def test_cells_keep_small_operations_on_few_channels() -> None:
    # 64 KiB are four cells of 32 KiB of traffic, before 2.29 eight of 16 KiB; thresholds allow two.
    low = Settings(
        thresholds=(0,) * 6, protocols=(("all_reduce", ("Simple",)),), algorithms=(("all_reduce", ("ring",)),)
    )
    used = [choose(h100(), library_of(f"nccl-{v}"), "all_reduce", 64 * KIB, low).channels for v in ("2.30.7", "2.28.9")]
    assert used == [4, 8]
    assert forced(64 * KIB, "ring", "Simple").channels == 2


def test_threads() -> None:
    assert forced(1 << 30, "ring", "Simple").threads == 544
    assert forced(1 << 30, "ring", "LL").threads == 512
    assert forced(1 << 30, "ring", "LL128").threads == 640
    assert forced(8, "tree", "LL").threads == 640
    assert forced(8, "ring", "LL").threads == 96
    assert choose(h100(), NEWEST, "all_reduce", 1 << 30).threads == 640
    slow = forced(1 << 30, "ring", "Simple", Site("nvidia", 70, 1, 2, "pcie", 12))
    assert slow.threads == 288


def test_chunks() -> None:
    # Rings shrink their chunks so that one loop is enough: 1/8 of a channel's share.
    assert forced(1 << 33, "ring", "Simple").chunk_bytes == 2048 * KIB
    assert forced(24 << 20, "ring", "Simple").chunk_bytes == 128 * KIB
    assert forced(1 << 33, "ring", "LL").chunk_bytes == 32 * KIB
    assert forced(1 << 33, "ring", "LL128").chunk_bytes == 576000
    assert forced(1 << 33, "tree", "Simple").chunk_bytes == 512 * KIB
    big = settings_of({"NCCL_BUFFSIZE": "8388608", "NCCL_ALGO": "ring", "NCCL_PROTO": "simple"})
    assert choose(h100(), NEWEST, "all_reduce", 1 << 33, big).chunk_bytes == 4096 * KIB
    sizes = (1 << 33, 256 << 20, 32 << 20, 4 << 20)
    assert [forced(size, "nvls", "Simple").chunk_bytes // KIB for size in sizes] == [128, 64, 32, 16]


def test_steps() -> None:
    assert forced(1024, "ring", "LL").steps == 14
    assert forced(1024, "tree", "LL", h100(nodes=4)).steps == 2 * (7 + 2)
    assert choose(h100(), NEWEST, "all_gather", 1024).steps == 7
    assert choose(h100(), NEWEST, "all_reduce", 1 << 30).steps == 2


def test_messages_of_one_node() -> None:
    # 32 channels among 8 ranks: 4 a peer, twice as many while parts exceed 32 chunks of 512 KiB.
    chosen = [choose(h100(), NEWEST, "all_to_all", size) for size in (64 * KIB, 16 << 20, 1 << 30, 8 << 30)]
    assert [(each.protocol, each.per_peer, each.channels) for each in chosen] == [
        ("LL", 1, 8),
        ("Simple", 4, 32),
        ("Simple", 8, 32),
        ("Simple", 32, 32),
    ]
    assert [each.steps for each in chosen] == [8] * 4
    assert chosen[2].chunk_bytes == 512 * KIB
    assert choose(h100(), NEWEST, "send", 1 << 20).steps == 1


def test_messages_between_nodes() -> None:
    # 50 GB/s are four channels of 14; 64 ranks are 8 batches, for which 16 channels give 2 each.
    assert choose(h100(nodes=2), NEWEST, "send", 64 << 20).per_peer == 4
    assert choose(h100(nodes=8), NEWEST, "send", 64 << 20).per_peer == 2
    assert choose(h100(nodes=2), library_of("nccl-2.27.7"), "send", 64 << 20).per_peer == 2
    assert choose(h100(nodes=2), library_of("nccl-2.8.4"), "send", 64 << 20).per_peer == 1
    few = settings_of({"NCCL_NCHANNELS_PER_NET_PEER": "1", "NCCL_P2P_NET_CHUNKSIZE": "524288"})
    alone = choose(h100(nodes=2), NEWEST, "send", 64 << 20, few)
    assert (alone.per_peer, alone.chunk_bytes, alone.protocol) == (1, 512 * KIB, "Simple")


@pytest.mark.parametrize("key", ["NCCL_BUFFSIZE", "NCCL_P2P_NVL_CHUNKSIZE"])
def test_buffers_smaller_than_a_step_still_carry_messages(key: str) -> None:
    assert choose(h100(), NEWEST, "send", 1 << 20, settings_of({key: "1"})).channels >= 1


def test_messages_over_pcie_have_small_chunks() -> None:
    site = Site("nvidia", 89, 1, 8, "pcie", 32)
    assert choose(site, NEWEST, "all_to_all", 1 << 30).chunk_bytes == 128 * KIB
    assert choose(mi300x(), library_of("rccl"), "all_to_all", 1 << 30).per_peer == 8


def test_kernels_on_symmetric_memory() -> None:
    symmetric = Settings(symmetric=True)
    small, large = (choose(h100(), NEWEST, "all_reduce", size, symmetric) for size in (1024, 1 << 30))
    assert (small.algorithm, small.protocol, large.protocol) == ("symmetric", "AGxLLMC_R", "RSxLDMC_AGxSTMC")
    # 1 GiB of reduce and multicast move 1/8 and 1 of it at 480 GiB/s.
    assert large.predicted_us == pytest.approx(7.8 + 1.125 / 480 * 1e6 - 1, rel=0.03)
    assert choose(h100(), library_of("nccl-2.26.2"), "all_reduce", 1024, symmetric).algorithm == "ring"
    assert choose(h100(nodes=2), NEWEST, "all_reduce", 1024, symmetric).algorithm == "tree"
    assert choose(h100(), NEWEST, "broadcast", 1024, symmetric).algorithm == "ring"


@given(st.sampled_from(SITES), st.sampled_from(VERSIONS), st.sampled_from(SERVED), st.integers(0, 1 << 36))
def test_the_least_estimate_is_chosen(site: Site, version: str, collective: str, size: int) -> None:
    library = library_of(version)
    choice = choose(site, library, collective, size)
    times = timings(site, library, collective, size)
    assert choice.predicted_us == min(times.values()) == times[choice.algorithm, choice.protocol]
    assert choice.channels >= 1
    assert 16 <= choice.chunk_bytes <= 4 << 20
    assert 32 <= choice.threads <= 640


@given(
    st.sampled_from(SITES),
    st.sampled_from(VERSIONS),
    st.sampled_from(["Simple", "LL", "LL128"]),
    st.integers(0, 1 << 34),
    st.integers(0, 1 << 34),
)
def test_more_bytes_are_on_no_fewer_channels(site: Site, version: str, protocol: str, one: int, other: int) -> None:
    few, many = (forced(size, "ring", protocol, site, version) for size in sorted((one, other)))
    # Cells are whole: among as many channels the last may be left without one.
    assert few.channels <= many.channels * 1.5


@given(st.sampled_from(SITES), st.sampled_from(VERSIONS), st.integers(0, 1 << 34), st.integers(1, 16))
def test_no_more_channels_than_the_user_allows(site: Site, version: str, size: int, most: int) -> None:
    settings = Settings(max_channels=most)
    assert choose(site, library_of(version), "all_reduce", size, settings).channels <= most
    assert choose(site, library_of(version), "all_to_all", size, settings).channels <= 2 * most


@given(
    st.sampled_from(SITES), st.sampled_from(VERSIONS), st.sampled_from(["all_to_all", "send"]), st.integers(0, 1 << 36)
)
def test_parts_of_messages_cover_them(site: Site, version: str, collective: str, size: int) -> None:
    choice = choose(site, library_of(version), collective, size)
    part = size if collective == "send" else -(-size // site.nranks)
    assert 1 <= choice.per_peer <= choice.channels
    assert 16 <= choice.chunk_bytes <= 512 * KIB
    # No chunk is longer than the part of a channel, in lines of 16 bytes.
    assert choice.chunk_bytes * choice.per_peer < part + 16 * choice.per_peer + choice.per_peer or part < 16
    assert choice.protocol == "Simple" or (site.nodes == 1 and part <= 16 * KIB * choice.per_peer)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"not a collective that libraries carry out.*did you mean all_to_all"):
        choose(h100(), NEWEST, "alltoall", 8)
    with pytest.raises(InputError, match="a size is not negative; found -1"):
        choose(h100(), NEWEST, "all_reduce", -1)


def test_twenty_thousand_choices_take_seconds() -> None:
    sites = [h100(ranks, nodes) for ranks in (1, 2, 4, 8) for nodes in (2, 4, 8, 16, 32)]
    start = time.perf_counter()
    for site in sites:
        for power in range(1000):
            choose(site, NEWEST, "all_reduce", 8 << (power % 30), DEFAULT)
    assert time.perf_counter() - start < 10
