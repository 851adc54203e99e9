"""Logs of a simulation as a timeline, right and as the reference writes it."""

from __future__ import annotations

import json

import pytest

from chakrasim.compat.astra_sim.read_log import compat_timeline, log_processes, read_log
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.report.timeline.chrome import chrome_events

EXAMPLE = ["issue,a=0,b=0,c=1,d=COMP_NODE_x\n", "callback,a=0,b=1500,c=1,d=COMP_NODE_x\n"]


def slices(lines: list[str], npus: int | None = None, mhz: float = 1000.0) -> list[dict[str, object]]:
    spans = read_log(lines, "log", Notes())
    events = json.loads(f"[{','.join(chrome_events(log_processes(spans, npus, mhz, 'log')))}]")
    return [event for event in events if event["ph"] == "X"]


def test_the_references_numbers() -> None:
    assert compat_timeline(EXAMPLE, "log", 2, 1000) == {
        "meta_user": "aras",
        "traceEvents": [
            {"pid": 0, "tid": 3, "ts": 0.0, "dur": 0.0015, "ph": "X", "name": "COMP_NODE_x", "args": {"ms": 0.0015}}
        ],
        "meta_cpu_count": 2,
    }


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("MEM_LOAD_NODE_LOCAL_MEMORY", 1),
        ("MEM_STORE_NODE_REMOTE_MEMORY", 2),
        ("COMP_NODE", 3),
        ("COMM_SEND_NODE_1", 4),
        ("COMM_RECV_NODE_1", 4),
        ("COMM_COLL_NODE_1", 4),
    ],
)
def test_the_references_threads(name: str, row: int) -> None:
    lines = [f"issue,n=1,t=2000,i=3,m={name}", f"callback,n=1,t=5000,i=3,m={name}", "issue,n=1,t=2,i=4,m=open"]
    (event,) = compat_timeline(lines, "log", 2, 500)["traceEvents"]
    assert event == {"pid": 1, "tid": row, "ts": 0.004, "dur": 0.006, "ph": "X", "name": name, "args": {"ms": 0.006}}


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["callback,a=0,b=1,c=2,d=COMP_NODE"], "KeyError"),
        (["issue,a=0,b=1"], "IndexError"),
        (["issue,a=0,b=x,c=2,d=COMP_NODE"], "ValueError"),
        (["issue,a=0,b=1,c=2,d=aten::mm", "callback,a=0,b=2,c=2,d=aten::mm"], "ValueError"),
    ],
)
def test_where_the_reference_fails_its_exception_is_named(lines: list[str], kind: str) -> None:
    with pytest.raises(InputError, match=f"chakra_timeline_visualizer ends here with {kind}"):
        compat_timeline(lines, "log", 1, 1000)


def test_times_are_microseconds_and_names_of_any_kind_are_fine() -> None:
    lead = "[2026-03-26 10:00:00.000] [workload] [info] "
    rest = "node->id=2,node->name=nccl<a, b>,node->type=7\n"
    lines = [
        f"{lead}issue,sys->id=0,tick=1500,{rest}",
        "noise\n",
        f"{lead}callback,sys->id=0,tick=2500,{rest}",
        *EXAMPLE,
    ]
    found = slices(lines, mhz=2000.0)
    assert [(e["tid"], e["ts"], e["dur"], e["name"]) for e in found] == [
        (1, 0.0, 0.75, "COMP_NODE_x"),
        (2, 0.75, 0.5, "nccl<a, b>"),
    ]
    assert found[0]["args"] == {"id": 1, "cycles": 1500}


def test_what_runs_at_the_same_time_is_side_by_side() -> None:
    lines = [f"issue,a=0,b={t},c={t},d=COMM_COLL_NODE" for t in (0, 5, 30)]
    lines += [f"callback,a=0,b={t},c={n},d=x" for t, n in ((20, 0), (30, 5), (40, 30))]
    assert [(e["args"]["id"], e["tid"]) for e in slices(lines)] == [(0, 1), (30, 1), (5, 2)]  # type: ignore[index]


def test_what_is_left_out_is_counted() -> None:
    notes = Notes()
    read_log([*EXAMPLE, "issue,a=0,b=1,c=9,d=x", "callback,a=0,b=1,c=8,d=x"], "log", notes)
    assert [*notes] == [
        "log: left out 1 nodes that were issued but never finished",
        "log: left out 1 ends of nodes that were never issued",
    ]


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(InputError, match="the log has no line of an issued or finished node"):
        read_log(["hello"], "log", Notes())
    with pytest.raises(InputError, match="log: line 2: a line cannot be understood"):
        read_log([EXAMPLE[0], "callback,a=0,b=?,c=1,d=x"], "log", Notes())
    with pytest.raises(InputError, match="the log names an NPU that is not there; found NPU 4; expected 0 to 3"):
        list(
            log_processes(
                read_log(["issue,a=4,b=0,c=1,d=x", "callback,a=4,b=1,c=1,d=x"], "log", Notes()), 4, 1e3, "log"
            )
        )
