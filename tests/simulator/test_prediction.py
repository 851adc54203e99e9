"""Predicted collectives: what is asked for as people write it, what comes out, and what is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import chakrasim as cs
from chakrasim import InputError, Notes, load_machine
from chakrasim.collectives.libraries.calibrated import Calibrated
from chakrasim.collectives.libraries.model import Constants
from chakrasim.report.picture.bandwidth import bandwidth_svg
from chakrasim.simulator.closed_form import collective_alone
from chakrasim.simulator.prediction import CollectivePrediction, collective_named, predict_collectives

MIB = 1 << 20
RING = """network:
  dimensions: [{topology: Ring, npus: 4, bandwidth: 50 GiB/s, latency: 500 ns}]
  network-model: flow
memory: {bandwidth: 1000 GB/s}
collectives: {splits: 1, algorithms: {all-reduce: ring}}
"""


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (("all_reduce", "allreduce", "AllReduce", "all-reduce", "ALL_REDUCE", "all reduce"), "all_reduce"),
        (("all_gather", "AllGather", "allgather"), "all_gather"),
        (("reduce-scatter", "ReduceScatter", "reduce_scatter"), "reduce_scatter"),
        (("all-to-all", "alltoall", "AllToAll", "all_to_all"), "all_to_all"),
        (("sendrecv", "SendRecv", "send_recv", "send"), "sendrecv"),
        (("broadcast", "Broadcast"), "broadcast"),
    ],
)
def test_names_as_people_write_them(texts: tuple[str, ...], name: str) -> None:
    assert {collective_named(text) for text in texts} == {name}


@pytest.mark.parametrize("text", ["", "brodcast", "barrier", "reduce_scatter_block", "alltoallx", "?"])
def test_names_of_nothing(text: str) -> None:
    with pytest.raises(
        InputError, match=r"collective: no such collective; found .*; expected all_reduce, all_gather, "
    ):
        collective_named(text)


def test_one_prediction() -> None:
    found = cs.predict_collective("h100", "all_reduce", MIB, 16, library="nccl-2.27.7")
    assert 0 < found.low_us < found.time_us < found.high_us
    assert found.algbw_GBps == pytest.approx(MIB / found.time_us / 1e3)
    assert found.busbw_GBps == pytest.approx(found.algbw_GBps * 2 * 15 / 16)
    machine = load_machine("h100", gpus=16, library="nccl-2.27.7")
    alone = collective_alone(machine, "all_reduce", MIB, 16)
    assert alone.course is not None
    choice = alone.course.choice
    assert (found.algorithm, found.protocol, found.channels) == (choice.algorithm, choice.protocol, choice.channels)
    assert found.time_us == alone.time_ns / 1e3


def test_it_is_what_a_simulation_takes() -> None:
    machine = load_machine("h100", gpus=16, library="nccl")
    builder = cs.TraceBuilder()
    builder.add(0, "all-reduce", 7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 64 * MIB})
    simulated = cs.simulate(builder.build(), ranks=16, machine=machine).makespan_ns
    assert cs.predict_collective(machine, "all_reduce", 64 * MIB).time_us == simulated / 1e3


def test_of_a_board_a_part_or_several() -> None:
    two, eight, sixteen = (cs.predict_collective("h100", "all_gather", 256 * MIB, ranks) for ranks in (2, 8, 16))
    assert two.time_us < eight.time_us < sixteen.time_us
    assert cs.predict_collective("mi300x", "all_reduce", MIB, 8).algorithm  # run by RCCL
    assert cs.predict_collective("gb200", "all_reduce", MIB).ranks == 72


def test_several_sizes_are_the_same_as_one_by_one() -> None:
    sizes = [1 << power for power in range(3, 31, 3)]
    found = predict_collectives("h100", "all_reduce", sizes, 16)
    assert found == tuple(cs.predict_collective("h100", "all_reduce", size, 16) for size in sizes)
    times = [each.time_us for each in found]
    assert times == sorted(times)
    assert found[0].limited_by == "latency"
    assert found[-1].limited_by != "latency"


def test_messages_of_pairs() -> None:
    near, far = (cs.predict_collective("h100", "sendrecv", 1 << 30, ranks) for ranks in (8, 16))
    assert near.time_us < far.time_us
    assert near.busbw_GBps == near.algbw_GBps
    assert far.algbw_GBps < 50


def test_constants_of_the_machine_count() -> None:
    machine = load_machine("h100", library="nccl")
    own = Constants({"launch": 1.0}, ((0.0001,),), (0.03,) * 4)
    slow = replace(machine, calibrated=Calibrated(own, (0.2,) * 4, frozenset({("all_reduce", 1, 8)})))
    plain, found = (cs.predict_collective(each, "all_reduce", 8) for each in (machine, slow))
    unseen = cs.predict_collective(slow, "all_gather", 8)
    assert found.time_us > 1.3 * plain.time_us
    assert plain.high_us / plain.low_us > found.high_us / found.low_us
    assert unseen.high_us / unseen.low_us > 1.2 * found.high_us / found.low_us


def test_constants_of_another_library_are_told() -> None:
    own = Calibrated(Constants(), library="nccl-2.27.7")
    machine = replace(load_machine("h100", library="nccl-2.27.7"), calibrated=own)
    notes = Notes()
    cs.predict_collective(machine, "all_reduce", 8, library="nccl-2.27.7", notes=notes)
    assert list(notes) == []
    cs.predict_collective(machine, "all_reduce", 8, library="nccl-2.19.4", notes=notes)
    assert any("its constants were fitted to nccl-2.27.7, not to nccl-2.19.4" in text for text in notes)


def test_sizes_of_less_than_a_byte_a_rank() -> None:
    notes = Notes()
    found = predict_collectives("h100", "all_gather", (4, 8, 16, 32), 16, notes=notes)
    assert [each.size_bytes for each in found] == [16, 32]
    assert "2 sizes below 16 B are left out: less than a byte for each rank" in notes.warnings
    with pytest.raises(
        InputError, match="less than a byte for each rank; found 8 B; expected 16 B or more for 16 ranks"
    ):
        predict_collectives("h100", "all_gather", (4, 8), 16)


def test_a_machine_without_a_library(tmp_path: Path) -> None:
    (tmp_path / "ring.yaml").write_text(RING)
    notes = Notes()
    found = cs.predict_collective(tmp_path / "ring.yaml", "all_reduce", MIB, notes=notes)
    assert (found.algorithm, found.channels, found.low_us) == ("", 0, found.time_us)
    assert any("no library runs its collectives" in text for text in notes.warnings)
    with pytest.raises(InputError, match="what nccl sees of the machine is not known: its GPUs"):
        cs.predict_collective(tmp_path / "ring.yaml", "all_reduce", MIB, library="nccl")
    with pytest.raises(InputError, match="messages of pairs are predicted as a library sends them"):
        cs.predict_collective(tmp_path / "ring.yaml", "sendrecv", MIB)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("h100", "all_reduce", 0, 8), "size: the size is none; found 0; expected 1 B to 1 PiB"),
        (("h100", "all_reduce", 1.5, 8), "size: the size is none; found 1.5"),
        (("h100", "all_reduce", 8, 1), "ranks: a collective has 2 ranks or more; found 1"),
        (("h100", "all_reduce", 8, 12), "h100 has 8 GPUs on a board; found 12 GPUs"),
        (("hgx-h100-8", "all_reduce", 8, 16), "ranks: the ranks do not fit the machine; found 16; expected 2 to 8"),
        (("h1000", "all_reduce", 8, 8), "neither a preset nor a machine file; found 'h1000'"),
    ],
)
def test_what_cannot_be(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cs.predict_collective(*given)


def test_a_library_that_is_none_or_of_others() -> None:
    with pytest.raises(InputError, match="rccl does not run on GPUs of nvidia"):
        cs.predict_collective("h100", "all_reduce", 8, 8, library="rccl")
    with pytest.raises(InputError, match="this is not a library whose choices are known"):
        cs.predict_collective("h100", "all_reduce", 8, 8, library="mpi")


def test_a_picture_of_several_sizes() -> None:
    found = predict_collectives("h100", "all_reduce", [1 << power for power in range(10, 31)], 8)
    picture = ElementTree.fromstring(bandwidth_svg(found))
    circles = [each for each in picture.iter() if each.tag.endswith("circle")]
    chosen = {(each.algorithm, each.protocol) for each in found}
    assert len(circles) == len(found) + len(chosen)
    with pytest.raises(InputError, match="there is no curve to draw; found 1 sizes"):
        bandwidth_svg(found[:1])


def test_predictions_are_plain_data() -> None:
    found = cs.predict_collective("h100", "reduce", 8, 8)
    assert isinstance(found, CollectivePrediction)
    assert json.loads(json.dumps(asdict(found)))["collective"] == "reduce"
