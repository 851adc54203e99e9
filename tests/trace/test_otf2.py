"""OTF2 archives, made by the makers' library, as jobs."""

from __future__ import annotations

import builtins
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chakrasim.errors import InputError
from chakrasim.files.job_formats import OTF2, foreign_kind
from chakrasim.notes import Notes
from chakrasim.trace import Job, NodeType
from chakrasim.trace.foreign.otf2 import _Reading, read_otf2
from chakrasim.trace.foreign.read import read_foreign

NOBODY = 0xFFFFFFFF


class Writer:
    """A rank's events: each step advances its clock, of two ticks a nanosecond."""

    def __init__(self, writer: Any, regions: dict[str, Any], begin: int) -> None:
        self.writer, self.regions, self.now = writer, regions, begin

    def call(self, name: str, ns: int, *inside: Any) -> None:
        """A region of so many ns, with events at its end (of collectives one at its beginning)."""
        self.writer.enter(self.now, self.regions[name])
        for event, *_ in inside:
            if event == "mpi_collective_end":
                self.writer.mpi_collective_begin(self.now)
        self.now += 2 * ns
        for event, *rest in inside:
            getattr(self.writer, event)(self.now, *rest)
        self.writer.leave(self.now, self.regions[name])


def archive(folder: Path) -> Path:
    """Three ranks: a ring of messages that do not block, a sum of ranks 0 and 2, a broadcast, a blocking message."""
    otf2 = pytest.importorskip("otf2")
    enums = otf2.enums
    with otf2.writer.open(str(folder), timer_resolution=2 * 10**9) as archive:
        made = archive.definitions
        root = made.system_tree_node("root")
        names = ("Init", "Irecv", "Isend", "Waitall", "Allreduce", "Bcast", "Send", "Recv", "Scan")
        regions = {name: made.region(f"MPI_{name}", paradigm=enums.Paradigm.MPI) for name in names}
        regions["work"] = made.region("work", paradigm=enums.Paradigm.COMPILER)
        process = enums.LocationGroupType.PROCESS
        places = []
        for rank in range(4):
            group = made.location_group(f"rank {rank}", system_tree_parent=root, location_group_type=process)
            places.append(made.location("thread", type=enums.LocationType.CPU_THREAD, group=group))
        ranks, mpi = places[:3], enums.Paradigm.MPI
        made.group("ranks", group_type=enums.GroupType.COMM_LOCATIONS, paradigm=mpi, members=ranks)
        world, pair = (
            made.comm(
                name, group=made.group(name, group_type=enums.GroupType.COMM_GROUP, paradigm=mpi, members=members)
            )
            for name, members in (("world", ranks), ("pair", ranks[::2]))
        )
        for rank, place in enumerate(ranks):
            one = Writer(archive.event_writer_from_location(place), regions, 100 * rank)
            one.call("Init", 50)
            one.call("work", 1000 + rank)
            one.call("Irecv", 10, ("mpi_irecv_request", 7))
            one.call("Isend", 10, ("mpi_isend", (rank + 1) % 3, world, 5, 4096, 8))
            one.call("work", 300)
            one.call("Waitall", 200, ("mpi_irecv", (rank - 1) % 3, world, 5, 4096, 7), ("mpi_isend_complete", 8))
            if rank != 1:
                ends = ("mpi_collective_end", enums.CollectiveOp.ALLREDUCE, pair, NOBODY, 2 * 8000, 2 * 8000)
                one.call("Allreduce", 400, ends)
            sent = 3 * 512 if rank == 1 else 0
            one.call("Bcast", 5, ("mpi_collective_end", enums.CollectiveOp.BCAST, world, 1, sent, 512))
            one.call("Scan", 5, ("mpi_collective_end", enums.CollectiveOp.SCAN, world, NOBODY, 8, 8))
            one.call("work", 70)
            if rank == 0:
                one.call("Send", 20, ("mpi_send", 1, pair, 9, 100))
            if rank == 2:
                one.call("Recv", 20, ("mpi_recv", 0, pair, 9, 100))
        Writer(archive.event_writer_from_location(places[3]), regions, 0).call("work", 5)
    return folder / "traces.otf2"


def _job(folder: Path) -> tuple[Job, Notes]:
    notes = Notes()
    return read_otf2(archive(folder), notes=notes), notes


def test_every_call_and_what_is_between_them(tmp_path: Path) -> None:
    job, _ = _job(tmp_path / "a")
    assert job.ranks == 3 and job.process_groups == {"comm_1": ((0, 2),)}
    for rank, trace in enumerate(job.traces):
        nodes = [trace.node(at) for at in range(len(trace))]
        computes = [(one.name, one.attrs["compute_ns"]) for one in nodes if one.type == NodeType.COMP_NODE]
        assert (
            computes
            == [("between calls", 1000 + rank), ("between calls", 300), ("between calls", 70)][: 2 + (rank != 1)]
        )
        receive, send = nodes[1], nodes[2]
        assert (receive.type, send.type) == (NodeType.COMM_RECV_NODE, NodeType.COMM_SEND_NODE)
        ends = {"is_cpu_op": False, "comm_tag": 0, "comm_size": 4096}
        assert receive.attrs == {**ends, "comm_src": (rank - 1) % 3, "comm_dst": rank}
        assert send.attrs == {**ends, "comm_src": rank, "comm_dst": (rank + 1) % 3}
        assert receive.data_deps == send.data_deps == nodes[3].data_deps == (0,)
        assert nodes[4].data_deps == (3, 1, 2)  # behind MPI_Waitall: the work, and both requests
        broadcast = next(one for one in nodes if one.name == "bcast")
        assert broadcast.attrs == {"is_cpu_op": False, "comm_type": 5, "root_rank": 1, "comm_size": 512}
        if rank != 1:
            summed = next(one for one in nodes if one.name == "allreduce")
            assert summed.attrs == {"is_cpu_op": False, "comm_type": 0, "comm_size": 8000, "pg_name": "comm_1"}
            last = nodes[-1]
            assert (
                last.attrs["comm_size"] == 100 and (last.attrs["comm_src"], last.attrs["comm_dst"])[rank == 0] != rank
            )
    assert len(job.traces[1]) == 5


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    _, notes = _job(tmp_path / "a")
    told = {text.partition(": ")[2] for text in notes.warnings}
    assert told == {
        "left out 2 events of other locations than the ranks'",
        "left out 3 collectives of type SCAN",
    }


def test_what_does_not_fit_together_is_counted() -> None:
    """No library is needed: events as it gives them."""
    places = [SimpleNamespace(_ref=rank) for rank in range(2)]
    ranks, world = (
        SimpleNamespace(paradigm="Paradigm.MPI", group_type=f"GroupType.{kind}", members=places)
        for kind in ("COMM_LOCATIONS", "COMM_GROUP")
    )
    comm = SimpleNamespace(_ref=0, group=world)

    def event(name: str, **values: object) -> Any:
        return type(name, (), values)()

    sums = [
        event("MpiCollectiveEnd", communicator=comm, collective_op=f"CollectiveOp.{kind}", size_sent=8, size_received=8)
        for kind in ("ALLREDUCE", "ALLTOALL")
    ]
    events = [(places[0], event("MpiIrecvRequest", request_id=1)), *zip(places, sums, strict=True)]
    definitions = SimpleNamespace(groups=[ranks, world], comms=[comm])
    notes = Notes()
    job = _Reading("x", SimpleNamespace(definitions=definitions, events=events, timer_resolution=1), notes).job()
    assert [len(trace) for trace in job.traces] == [2, 1]
    assert notes.warnings == (
        "x: 1 receives were posted and not completed: they are nodes without a kind, which wait for nobody",
        "x: 1 collectives are of another type than the first rank's at the same place of their communicator",
    )


def test_an_archive_is_told_by_content_and_simulated(tmp_path: Path) -> None:
    path = archive(tmp_path / "a")
    assert foreign_kind(path) == OTF2
    job = read_foreign(path, ranks=3, notes=Notes())
    assert sum(map(len, job.traces)) > 0


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = tmp_path / "traces.otf2"
    anchor.write_bytes(b"\x03BOTF2 and nothing of an archive")
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "otf2":
            raise ImportError(name)
        return real(name, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without)
        with pytest.raises(InputError, match=r"reading OTF2 needs its library; pip install 'chakrasim\[otf2\]'"):
            read_foreign(anchor)
    pytest.importorskip("otf2")
    fault = r"an OTF2 archive cannot be opened; found .*Searching for string's terminating null byte failed"
    with pytest.raises(InputError, match=fault):
        read_otf2(anchor)
    path = archive(tmp_path / "a")
    with pytest.raises(InputError, match="the archive takes more memory than reading this file may take"):
        read_otf2(path, max_bytes=1000)
    for events in (tmp_path / "a" / "traces").glob("*.evt"):
        events.unlink()
    with pytest.raises(InputError, match="an OTF2 archive cannot be read"):
        read_otf2(path)


@pytest.mark.slow
def test_an_anchor_file_at_which_the_library_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "a")
    looping = bytearray(path.read_bytes())
    looping[52:54] = b"\x22\x22"  # how many properties there are
    path.write_bytes(looping)
    monkeypatch.setattr("chakrasim.trace.foreign.otf2._OPENING_S", 2.0)
    with pytest.raises(InputError, match=r"an OTF2 archive cannot be opened; found no end after 2\.0 s"):
        read_otf2(path)
