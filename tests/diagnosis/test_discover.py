"""Which files of a folder belong together, and to which rank."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from chakrasim.diagnosis.files.discover import discover, survey
from chakrasim.diagnosis.files.names import read_name
from chakrasim.diagnosis.files.sniff import sniff
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from made_jobs import device, host, save

Found = list[tuple[int, str, str]]


def found_in(folder: Path, **settings: object) -> Found:
    return [
        (files.rank, files.host.name if files.host else "", files.device.name if files.device else "")
        for files in discover(folder, **settings)  # type: ignore[arg-type]
    ]


def without_rank(document: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in document.items() if key != "distributedInfo"}


@pytest.mark.parametrize(
    ("name", "rank", "pid", "side"),
    [
        ("host.3.json", 3, -1, "host"),
        ("device.12.json.gz", 12, -1, "device"),
        ("rank-5.et.json.gz", 5, -1, "host"),
        ("rank-5.json.gz", 5, -1, ""),
        ("rank5_trace.json", 5, -1, ""),
        ("dlrm_eg_4.json", 4, -1, "host"),
        ("worker7_step_12.1694128201553.pt.trace.json", 7, -1, ""),
        ("rank-2.Mon_Nov_20_10_00_00.pt.trace.json.gz", 2, -1, ""),
        ("node17_48213.1694128201553.pt.trace.json.gz", -1, 48213, ""),
        ("node17_48213.1694128201553123456.pt.trace.json", -1, 48213, ""),
        ("trace.json", -1, -1, ""),
        ("linear_et.json.gz", -1, -1, "host"),
        ("step_based_trace_2543932.json.gz", -1, -1, ""),
        ("benchmark_result_493459_1694039959_trace.json.gz", -1, -1, ""),
    ],
)
def test_names(name: str, rank: int, pid: int, side: str) -> None:
    facts = read_name(name)
    assert (facts.rank, facts.pid, facts.side) == (rank, pid, side)


def test_the_usual_names(tmp_path: Path) -> None:
    for rank in (0, 1, 10):
        traced = device(rank, 11, pid=500 + rank)
        save(tmp_path / f"device.{rank}.json.gz", traced)
        save(tmp_path / f"host.{rank}.json", host(traced, pid=500 + rank))
    expected = [(rank, f"host.{rank}.json", f"device.{rank}.json.gz") for rank in (0, 1, 10)]
    assert found_in(tmp_path) == expected
    files = discover(tmp_path)[0]
    assert (files.paired_by, files.rank_from) == ("process id", "distributedInfo")


def test_pairs_by_process_id_whatever_the_names(tmp_path: Path) -> None:
    for rank, word in enumerate(("pear", "apple")):
        traced = device(rank, 2, pid=700 + rank)
        save(tmp_path / f"{word}.json", traced)
        save(tmp_path / "sub" / f"ops_{9 - rank}x.json", host(traced, pid=700 + rank))
    assert found_in(tmp_path) == [(0, "ops_9x.json", "pear.json"), (1, "ops_8x.json", "apple.json")]


def test_containers_share_process_ids_so_names_pair(tmp_path: Path) -> None:
    for rank in range(3):
        traced = device(rank, 3, pid=1)
        save(tmp_path / f"et_{rank}.json", host(traced, pid=1))
        save(tmp_path / f"kineto_{rank}.json", traced)
    assert found_in(tmp_path) == [(rank, f"et_{rank}.json", f"kineto_{rank}.json") for rank in range(3)]
    assert discover(tmp_path)[0].paired_by == "the names"


def test_the_profilers_own_names_pair_by_the_process_id_in_them(tmp_path: Path) -> None:
    traced = device(0, 1, pid=4000)
    for part in traced["traceEvents"]:
        part["pid"] = 0  # for instance a device-only trace
    save(tmp_path / "box_4000.1694128201553.pt.trace.json", traced)
    save(tmp_path / "ops.json", host(traced, pid=4000))
    assert found_in(tmp_path) == [(0, "ops.json", "box_4000.1694128201553.pt.trace.json")]
    assert discover(tmp_path)[0].paired_by == "process id"


def test_stated_rank_beats_the_name_and_the_contradiction_is_told(tmp_path: Path) -> None:
    save(tmp_path / "device.3.json", device(5, 8))
    notes = Notes()
    assert [files.rank for files in discover(tmp_path, notes=notes)] == [5]
    assert [*notes] == ["the name of device.3.json says rank 3, its distributedInfo says rank 5: rank 5 is taken"]


def test_names_count_where_every_file_states_the_same_rank(tmp_path: Path) -> None:
    for rank in range(3):
        save(tmp_path / f"device.{rank}.json", device(0, 3, pid=100 + rank))
    notes = Notes()
    assert [files.rank for files in discover(tmp_path, notes=notes)] == [0, 1, 2]
    assert len(notes) == 2 and "several files state the same rank" in notes.warnings[0]


def test_rank_behind_the_events_is_found(tmp_path: Path) -> None:
    for rank, word in ((1, "a"), (0, "b")):
        document = device(rank, 2, pid=100 + rank)
        info = document.pop("distributedInfo")
        save(tmp_path / f"{word}.json{'.gz' if rank else ''}", {**document, "distributedInfo": info})
    assert found_in(tmp_path) == [(0, "", "b.json"), (1, "", "a.json.gz")]


def test_a_series_of_numbers_is_ranks_but_a_lone_number_is_not(tmp_path: Path) -> None:
    for number in (4, 7):
        save(tmp_path / f"run_{number}.json", without_rank(device(pid=100 + number)))
    assert found_in(tmp_path) == [(4, "", "run_4.json"), (7, "", "run_7.json")]
    (tmp_path / "run_4.json").unlink()
    assert found_in(tmp_path) == [(0, "", "run_7.json")]


def test_order_is_the_last_resort_and_is_told(tmp_path: Path) -> None:
    for word in ("a", "b"):
        save(tmp_path / f"{word}.json", without_rank(device(pid=1)))
    notes = Notes()
    assert [f.rank_from for f in discover(tmp_path, notes=notes)] == ["the order", "the order"]
    assert [*notes] == [
        "neither the files nor their names say the rank of 2 of the traces: they are numbered in the order of their "
        "names, which may be wrong"
    ]


def test_one_host_and_one_device_trace_belong_together(tmp_path: Path) -> None:
    save(tmp_path / "x.json", without_rank(device(pid=1)))
    save(tmp_path / "y.json", host(device(), pid=2))
    assert found_in(tmp_path) == [(0, "y.json", "x.json")]
    assert discover(tmp_path)[0].paired_by == "being the only ones"


def test_swapped_names_are_seen_and_put_right(tmp_path: Path) -> None:
    traced = device(0, 1)
    save(tmp_path / "host.0.json", traced)
    save(tmp_path / "device.0.json", host(traced))
    notes = Notes()
    assert [(f.host.name, f.device.name) for f in discover(tmp_path, notes=notes) if f.host and f.device] == [
        ("device.0.json", "host.0.json")
    ]
    assert "host.0.json is a Kineto device trace, unlike what its name or the map says" in notes.warnings[1]


def test_two_traces_of_a_rank_are_an_error(tmp_path: Path) -> None:
    save(tmp_path / "a.json", device(0, 2, pid=1))
    save(tmp_path / "b.json", device(0, 2, pid=2))
    (finding,) = survey(tmp_path).findings
    assert finding.code == "duplicate-rank"
    assert str(finding).startswith("2 traces are of rank 0: a.json, b.json: only a.json would be used")


def test_what_is_no_trace_is_left_out_with_its_reason(tmp_path: Path) -> None:
    save(tmp_path / "device.0.json", device())
    save(tmp_path / "notes.json", {"a": 1})
    save(tmp_path / "list.json", [1, 2])
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "cut.json").write_bytes(b'{"a": [1, 2')
    (tmp_path / "chakra.0.et").write_bytes(b"\x02\x0a\x00")
    (tmp_path / "more.zip").write_bytes(b"PK\x03\x04rest")
    (tmp_path / "table.h5").write_bytes(b"\x89HDF\r\n")
    (tmp_path / "twice.json.gz").write_bytes(gzip.compress(gzip.compress(b"[]")))
    (tmp_path / "read.me").write_text("hello")
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "device.0.json", "device.0.json")
    linked = host(device())
    linked["nodes"][3]["exclusive_dur"] = 5
    save(tmp_path / "linked.0.json", linked)
    found = survey(tmp_path)
    assert [files.device and files.device.name for files in found.ranks] == ["device.0.json"]
    assert {path.name: why for path, why in found.ignored} == {
        "chakra.0.et": "a Chakra trace, an output of converting",
        "cut.json": "damaged JSON: a value is no JSON or ends early",
        "empty.json": "the file is empty",
        "linked.0.json": "a linked trace, an output of linking",
        "list.json": "a JSON array that is no list of events",
        "more.zip": "a zip archive: unpack it first",
        "notes.json": "a JSON document that is no trace",
        "old.tar.gz": "a tar archive: unpack it first",
        "read.me": "no trace",
        "table.h5": "an HDF5 file",
        "twice.json.gz": "gzip data inside gzip: unpack it first",
    }
    (finding,) = found.findings
    packed = "more.zip, old.tar.gz, twice.json.gz"
    assert str(finding) == f"{packed}: packed files are not looked into: traces in them are left out"


def test_a_damaged_beginning_still_tells_the_kind(tmp_path: Path) -> None:
    text = json.dumps(device())
    (tmp_path / "device.0.json").write_text(text.replace('"record_shapes": 1,', '"record_shapes": 1'))
    (tmp_path / "host.0.json").write_text(json.dumps(host(device())).replace('"start_ts": 1,', '"start_ts": 1'))
    assert found_in(tmp_path) == [(0, "host.0.json", "device.0.json")]


def test_folders_without_traces(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no traces of the PyTorch profiler in this folder; found no files"):
        discover(tmp_path)
    with pytest.raises(InputError, match="the folder cannot be listed: No such file"):
        discover(tmp_path / "nowhere")
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(InputError, match=r"found a\.zip \(a zip archive: unpack it first\)"):
        discover(tmp_path)


# -- maps --------------------------------------------------------------------------------------------------------------


def test_a_map_overrides_everything(tmp_path: Path) -> None:
    save(tmp_path / "a.json", device(5, 8, pid=1))
    save(tmp_path / "b.json", host(device(), pid=2))
    table = save(tmp_path / "map.txt", {"3": {"host": "b.json", "device": "a.json"}})
    assert found_in(tmp_path, map_file=table) == [(3, "b.json", "a.json")]
    assert discover(tmp_path, map_file=table)[0].rank_from == "the map file"


def test_a_map_with_both_sides_exchanged_is_put_right_and_told(tmp_path: Path) -> None:
    save(tmp_path / "a.json", device())
    save(tmp_path / "b.json", host(device()))
    table = save(tmp_path / "map.txt", {"0": {"host": "a.json", "device": "b.json"}})
    notes = Notes()
    (files,) = discover(tmp_path, map_file=table, notes=notes)
    assert files.host == tmp_path / "b.json" and files.device == tmp_path / "a.json"
    assert "a.json is a Kineto device trace and b.json is a PyTorch host trace" in notes.warnings[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "the map is no JSON"),
        ("[]", "$: the map is wrong; found []; expected an object with a key for each rank"),
        ("{}", "expected an object with a key for each rank"),
        ('{"x": {}}', "expected ranks as keys: 0, 1, 2, ..."),
        ('{"01": {"host": "a"}}', "expected ranks as keys"),
        ('{"0": []}', '$["0"]: the map is wrong; found []; expected an object with host, device or both'),
        ('{"0": {"hots": "a.json"}}', "expected an object with host, device or both"),
        ('{"0": {"host": 7}}', '$["0"].host: the map is wrong; found 7; expected the name of a file'),
        ('{"0": {"host": "none.json"}}', "$[\"0\"].host: there is no such file; found 'none.json'"),
        ('{"0": {"device": "note.json"}}', '$["0"].device: this is no Kineto device trace; found'),
    ],
)
def test_wrong_maps_are_refused_with_the_place(content: str, said: str, tmp_path: Path) -> None:
    save(tmp_path / "note.json", {"a": 1})
    table = tmp_path / "map.json"
    table.write_text(content)
    with pytest.raises(InputError) as caught:
        discover(tmp_path, map_file=table)
    assert said in str(caught.value) and str(table) in str(caught.value)


# -- real traces -------------------------------------------------------------------------------------------------------


def test_eight_ranks_of_a_real_job_pair_by_process_id(tmp_path: Path, shared_dir: Path) -> None:
    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / "apart", filter="data")
    (tmp_path / "one").mkdir()
    for path in (tmp_path / "apart").rglob("*.json"):
        shutil.copy(path, tmp_path / "one")
    for folder in (tmp_path / "one", tmp_path / "apart"):
        ranks = discover(folder)
        assert [files.rank for files in ranks] == list(range(8))
        assert {(files.paired_by, files.rank_from) for files in ranks} == {("process id", "distributedInfo")}
        names = [(files.host and files.host.name, files.device and files.device.name[:7]) for files in ranks]
        assert names == [(f"dlrm_eg_{rank}.json", f"worker{rank}") for rank in range(8)]


def test_what_is_damaged_behind_a_head_of_blanks_is_said(tmp_path: Path) -> None:
    packed = gzip.compress(b" " * (1 << 20), mtime=0)
    (tmp_path / "host.json.gz").write_bytes(packed[:-20])
    assert sniff(tmp_path / "host.json.gz").note == "the gzip data are damaged (the data end early)"
