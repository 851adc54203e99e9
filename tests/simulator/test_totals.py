"""Totals that pass 64 bits are refused, and absurd quantities get a message: no sum wraps, none ends in a traceback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import Case, collective, network_of, receive, send, system_of

import chakrasim
from chakrasim import InputError
from chakrasim.totals import checked, running, total, totals

PAIR = network_of(("Ring", 2, 1e9, 0.0))


def messages(count: int, size: int) -> Case:
    """Rank 0 sends rank 1 so many messages, one after another."""
    sends = [send(i, 1, size, tag=i, deps=[i - 1] if i else []) for i in range(count)]
    return Case([sends, [receive(i, 0, size, tag=i) for i in range(count)]], PAIR)


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_messages_of_more_bytes_than_can_be_counted_are_refused(congestion: str) -> None:
    with pytest.raises(InputError) as error:
        messages(9, 2**61).run(congestion=congestion)
    assert error.value.message == "the messages of the run have more bytes than can be counted"
    assert error.value.found is not None and error.value.found.startswith(f"{9 * 2**61} bytes in all")
    assert (error.value.file, error.value.place) == ("<memory>", "node 0 ('', number 0 in the file)")


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_the_largest_total_is_exact(congestion: str) -> None:
    result = messages(3, 2**61 + 1).run(congestion=congestion)
    assert result.message_bytes == 3 * (2**61 + 1)
    assert result.bytes_sent.tolist() == [3 * (2**61 + 1), 0]
    with pytest.raises(InputError, match="more bytes than can be counted"):
        messages(4, 2**61).run(congestion=congestion, rendezvous=True)


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("fold", [True, False])
def test_collectives_of_more_bytes_than_can_be_counted_are_refused(kind: int, fold: bool) -> None:
    nodes = [collective(i, kind, 2**57, [i - 1] if i else []) for i in range(64)]
    keys = {f"{name}-implementation": ["ring"] for name in ("reduce", "gather", "scatter", "reduce-scatter-block")}
    case = Case([nodes], network_of(("Ring", 8, 1e9, 0.0)), system_of("ring") | keys)
    with pytest.raises(InputError, match="more bytes than can be counted"):
        case.run(fold=fold)


@pytest.mark.parametrize("bandwidth", [1e-15, 1e-300, 5e-324])
def test_a_memory_too_slow_for_the_clock_is_refused(bandwidth: float) -> None:
    case = Case([[collective(3, 0, 1 << 20)]], network_of(("Ring", 4, 1.0, 0.0)))
    with pytest.raises(InputError) as error:
        case.with_(system=system_of(local_mem_bw=bandwidth)).run()
    assert error.value.message == "a reduction is beyond the clock's range"
    assert (error.value.file, error.value.place) == ("<memory>", "node 3 ('', number 0 in the file)")


def test_the_same_in_a_machine_file() -> None:
    dimension = {"topology": "Ring", "npus": 4, "bandwidth": "1 GB/s", "latency": "1 ns"}
    collectives = {"splits": 1, "algorithms": {"all-reduce": "ring"}}
    machine = {"network": [dimension], "memory": {"bandwidth": "1e-15 GB/s"}, "collectives": collectives}
    with pytest.raises(InputError, match=r"node 0 .*beyond the clock's range.*the bandwidth of memory"):
        chakrasim.simulate(_all_reduce(), ranks=4, machine=machine)


def _all_reduce(**attrs: Any) -> chakrasim.Trace:
    builder = chakrasim.TraceBuilder()
    builder.add(0, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20} | attrs)
    return builder.build()


def test_tensors_of_more_bytes_than_can_be_counted_are_refused() -> None:
    builder = chakrasim.TraceBuilder()
    for i in range(3):
        attrs = {"is_cpu_op": False, "num_ops": 1, "tensor_size": 1, "outputs": [f"t{i}", str(2**62)]}
        builder.add(i, type=4, duration_micros=1, attrs=attrs)
    with pytest.raises(InputError, match="the bytes of all tensors of a rank cannot be counted"):
        chakrasim.simulate(builder.build(), ranks=2, network=PAIR, system=system_of(track_local_mem=1))


@pytest.mark.parametrize("name", ["9" * 30, "9" * 5000, "²", "-1"])
def test_a_group_that_no_file_can_have_is_not_known(name: str) -> None:
    with pytest.raises(InputError, match="is not known"):
        chakrasim.simulate(_all_reduce(pg_name=name), ranks=2, network=PAIR, system=system_of())


def test_sums_are_exact_beyond_64_bits() -> None:
    values = np.array([2**63 - 1, -(2**63), 2**62, 2**62, 2**62, -1], np.int64)
    assert total(values) == sum(values.tolist())
    group = np.array([0, 1, 0, 0, 0, 2])
    assert totals(group, values, 4) == [2**63 - 1 + 3 * 2**62, -(2**63), -1, 0]
    assert total(np.zeros(0, np.int64)) == 0


def test_running_sums_are_refused_where_they_leave_64_bits() -> None:
    assert running([2**62, 2**62 - 1, -5], "it").tolist() == [2**62, 2**63 - 1, 2**63 - 6]
    with pytest.raises(InputError, match=r"it cannot be counted; found 9223372036854775808; expected less than 2\^63"):
        running([2**62, 2**62], "it")
    with pytest.raises(InputError, match=r"f\.json: it cannot be counted"):
        checked(2**63, "it", "f.json")
