"""What users set: read, refused, and what it does to choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collectives.libraries.sites import a100, h100

from chakrasim import InputError
from chakrasim.collectives.libraries.choice import choose
from chakrasim.collectives.libraries.settings import ALGORITHMS, PROTOCOLS, Recorded, Settings, settings_of
from chakrasim.collectives.libraries.versions import library_of

NEWEST = library_of("nccl")


def test_lists_of_algorithms() -> None:
    settings = settings_of({"NCCL_ALGO": "ring;allreduce:Tree,NVLS", "NCCL_PROTO": "^LL"})
    assert settings.allowed("all_gather") == (("ring",), ("LL128", "Simple"))
    assert settings.allowed("all_reduce")[0] == ("tree", "nvls")
    assert settings_of({"NCCL_ALGO": "^Tree"}).allowed("all_reduce")[0] == tuple(a for a in ALGORITHMS if a != "tree")
    assert settings_of({"NCCL_ALGO": "Tree,,CollNet"}).allowed("reduce")[0] == ("tree", "collnetdirect", "collnetchain")
    assert Settings().allowed("all_reduce") == (ALGORITHMS, None)


def test_numbers() -> None:
    settings = settings_of(
        {
            "NCCL_MAX_NRINGS": "4",
            "NCCL_MAX_NCHANNELS": "8",
            "NCCL_MIN_CTAS": "2",
            "NCCL_BUFFSIZE": "8388608",
            "NCCL_NTHREADS": "256",
            "NCCL_THREAD_THRESHOLDS": "1 2 3",
            "NCCL_NVLS_ENABLE": "0",
            "NCCL_DEBUG": "INFO",
            "NCCL_IB_HCA": "mlx5",
            "PATH": "/bin",
        }
    )
    assert (settings.max_channels, settings.min_channels, settings.buffer_bytes) == (8, 2, 8388608)
    assert (settings.threads, settings.thresholds, settings.nvls) == (256, (1, 2, 3, -1, -1, -1), False)
    assert settings.unused == ("NCCL_DEBUG", "NCCL_IB_HCA")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("NCCL_ALGO", "rign", "NCCL_ALGO: the library has no meaning.*'rign'; expected one of tree.*did you mean ring"),
        ("NCCL_ALGO", "", "expected at least one of tree"),
        ("NCCL_ALGO", "ring;tree", "a collective and a colon before each list but the first"),
        ("NCCL_ALGO", "allredcue:ring", "expected collectives broadcast.*did you mean allreduce"),
        ("NCCL_PROTO", "LL256", "NCCL_PROTO.*expected one of LL, LL128, Simple"),
        ("NCCL_MAX_NCHANNELS", "many", "expected a whole number from 1 to 1024"),
        ("NCCL_MIN_NCHANNELS", "0", "expected a whole number from 1 to 1024"),
        ("NCCL_BUFFSIZE", "4M", "expected a whole number from 1 to 2147483647"),
        ("NCCL_NTHREADS", "100", "expected a multiple of 32"),
        ("NCCL_THREAD_THRESHOLDS", "1 2 x", "up to six whole numbers"),
        ("NCCL_NVLS_ENABLE", "yes", "expected a whole number from 0 to 2"),
    ],
)
def test_values_without_a_meaning(name: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of({name: value})


def test_settings_that_leave_nothing() -> None:
    settings = settings_of({"NCCL_ALGO": "NVLS", "NCCL_PROTO": "LL"})
    message = (
        "what was set leaves the library nothing to choose for all_reduce; found nvls with LL; expected one of tree"
    )
    with pytest.raises(InputError, match=message):
        choose(h100(), NEWEST, "all_reduce", 1024, settings)
    # Older versions took rings; before 2.19 not for all-reduces.
    assert choose(h100(), library_of("nccl-2.22.3"), "all_reduce", 1024, settings).algorithm == "ring"
    assert choose(a100(), library_of("nccl-2.12.12"), "all_gather", 1024, settings).algorithm == "ring"
    with pytest.raises(InputError, match="nothing to choose"):
        choose(a100(), library_of("nccl-2.12.12"), "all_reduce", 1024, settings)


@given(
    st.sets(st.sampled_from(("tree", "ring", "nvls")), min_size=1),
    st.sets(st.sampled_from(PROTOCOLS), min_size=1),
    st.integers(0, 1 << 34),
)
def test_what_is_set_is_what_is_chosen(algorithms: set[str], protocols: set[str], size: int) -> None:
    settings = settings_of({"NCCL_ALGO": ",".join(algorithms), "NCCL_PROTO": ",".join(protocols).lower()})
    if algorithms == {"nvls"} and "Simple" not in protocols:
        return
    choice = choose(h100(), NEWEST, "all_reduce", size, settings)
    assert choice.algorithm in algorithms
    assert choice.protocol in protocols


def test_recorded_choices_take_the_place_of_estimates() -> None:
    known = (
        Recorded("all_reduce", 1024, "tree", "LL", 1),
        Recorded("all_reduce", 1 << 20, "ring", "LL128", 20),
        Recorded("all_gather", 1 << 20, "ring", "Simple"),
    )
    settings = settings_of({}, known)
    chosen = [choose(h100(), NEWEST, "all_reduce", size, settings) for size in (8, 1 << 14, 1 << 16, 1 << 30)]
    assert [(each.algorithm, each.protocol, each.channels) for each in chosen] == [
        ("tree", "LL", 1),
        ("tree", "LL", 1),
        ("ring", "LL128", 20),
        ("ring", "LL128", 20),
    ]
    # Half way the smaller one; what it is without channels counts as usual; other collectives are estimated.
    assert choose(h100(), NEWEST, "all_reduce", 1 << 15, settings).algorithm == "tree"
    assert choose(h100(), NEWEST, "all_gather", 1 << 30, settings).channels == 24
    assert choose(h100(), NEWEST, "reduce_scatter", 8, settings).protocol == "LL"


@given(st.text(max_size=30), st.sampled_from(["NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_THREAD_THRESHOLDS"]))
def test_any_text_is_read_or_refused(value: str, name: str) -> None:
    try:
        settings = settings_of({name: value})
    except InputError:
        return
    assert isinstance(settings, Settings)
