"""From a folder of PyTorch's traces to Chakra traces that simulate."""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
from pathlib import Path

import pytest
from made_runs import KERNEL, record

import chakrasim
from chakrasim import InputError
from chakrasim.cli.main import main
from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.files.whole_folder import whole_folder
from chakrasim.files.workers import how_many, unpacked_bytes
from chakrasim.trace import read


def test_traces_groups_and_report_appear_together(tmp_path: Path) -> None:
    report = trace_directory(record(tmp_path / "in"), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "chakra.0.et",
        "chakra.1.et",
        "comm_group.json",
        "report.json",
    ]
    said = json.loads((tmp_path / "out" / "report.json").read_text())
    assert said == json.loads(json.dumps(report.to_mapping()))
    assert [rank["rank"] for rank in said["ranks"]] == [0, 1] and said["world_size"] == 2
    assert said["ranks"][0]["steps"] == [3]
    assert [rank["delay_only_share"] for rank in said["ranks"]] == [{"3": 0.025}, {"3": 0.025}]
    # The two sizes of the all-reduce are made one, and that is said.
    assert any("give different sizes" in warning for warning in said["warnings"])
    sizes = [trace.attr("comm_size").integers().max() for trace in read(report.prefix)]
    assert sizes == [1040, 1040]


def test_all_ranks_together_replay_what_was_measured_whatever_their_clocks(tmp_path: Path) -> None:
    report = trace_directory(record(tmp_path / "in", 4), tmp_path / "out")
    for replay in ("recorded", "transfer"):
        result = chakrasim.replay_recorded(report.prefix, replay)  # type: ignore[arg-type]
        assert [time.error_pct for time in result.steps] == [0.0] * 4
    assert [rank.clock_shift_ns for rank in report.ranks] == [0, -5_000_000, -10_000_000, -15_000_000]
    result = chakrasim.simulate(report.prefix, comm_groups=report.comm_group, machine="hgx-h100-4")
    assert result.messages > 0


def test_processes_change_nothing(tmp_path: Path) -> None:
    folder = record(tmp_path / "in", 3)
    for jobs in (1, 3):
        trace_directory(folder, tmp_path / f"out{jobs}", jobs=jobs)
    for path in (tmp_path / "out1").iterdir():
        assert path.read_bytes() == (tmp_path / "out3" / path.name).read_bytes()


@pytest.mark.parametrize(
    "name", ["ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "ncclDevKernel_Reduce_RING_LL", "ncclDevKernel_Generic_4"]
)
@pytest.mark.parametrize("recorded", [True, False])
def test_no_name_of_a_kernel_stops_the_conversion(name: str, recorded: bool, tmp_path: Path) -> None:
    """Fault 7: the reference stops at these names."""
    folder = record(tmp_path / "in")
    for path in folder.iterdir():
        text = path.read_text().replace(KERNEL, name)
        path.write_text(text if recorded else text.replace("record_param_comms", "c10d::work"))
    report = trace_directory(folder, tmp_path / "out")
    traces = read(report.prefix)
    if recorded:
        assert [trace.attr("comm_type").integers(-1).max() for trace in traces] == [0, 0]
    result = chakrasim.replay_recorded(traces)
    assert [time.error_pct for time in result.steps] == [0.0, 0.0]


class TestOutput:
    def test_earlier_results_are_replaced_only_if_asked_for(self, tmp_path: Path) -> None:
        folder = record(tmp_path / "in")
        trace_directory(folder, tmp_path / "out")
        (folder / "device.1.json").unlink()
        with pytest.raises(InputError, match=r"the folder holds earlier results; found 4 files.*--force"):
            trace_directory(folder, tmp_path / "out")
        trace_directory(folder, tmp_path / "out", force=True)
        assert not (tmp_path / "out" / "chakra.1.et").exists()

    def test_other_files_are_never_replaced(self, tmp_path: Path) -> None:
        folder = record(tmp_path / "in")
        for target in (folder, tmp_path):
            with pytest.raises(InputError, match=r"the folder holds other files"):
                trace_directory(folder, target, force=True)
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError, match=r"go into a folder, and this is a file"):
            trace_directory(folder, tmp_path / "file", force=True)
        with pytest.raises(InputError, match=r"file/out: the folder cannot be made; found no folder: .*file"):
            trace_directory(folder, tmp_path / "file" / "out")

    def test_nothing_is_left_of_a_run_that_fails(self, tmp_path: Path) -> None:
        folder = record(tmp_path / "in")
        (folder / "device.1.json").write_text('{"schemaVersion": 1, "traceEvents": [')
        with pytest.raises(InputError):
            trace_directory(folder, tmp_path / "out", strict=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]

    def test_a_folder_appears_whole_or_not_at_all(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError), whole_folder(tmp_path / "out") as staging:
            (staging / "a").write_text("x")
            raise RuntimeError
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "out").mkdir()
        with whole_folder(tmp_path / "out") as staging:
            (staging / "report.json").write_text("x")
            assert list((tmp_path / "out").iterdir()) == []
        assert [path.name for path in tmp_path.rglob("*")] == ["out", "report.json"]


class TestProcesses:
    def test_files_memory_and_jobs_bound_them(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(b"x" * 1000)
        files = [[path]] * 8
        assert how_many(files, 4, 1 << 40) == 4
        assert how_many(files, 100, 1 << 40) == 8
        assert how_many(files, 8, 320 << 20) == 2
        assert how_many(files, 8, 1) == 1

    def test_packed_files_count_unpacked(self, tmp_path: Path) -> None:
        import gzip

        path = tmp_path / "f.gz"
        path.write_bytes(gzip.compress(b"x" * 100_000))
        assert unpacked_bytes(path) == 100_000
        assert unpacked_bytes(tmp_path / "none") == 0


class TestCommandLine:
    def test_it_prints_findings_and_goes_on(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = record(tmp_path / "in")
        assert main(["trace", str(folder), "-o", str(tmp_path / "out")]) == 0
        said = capsys.readouterr().out
        assert "2 ranks: " in said and "no-host-trace" in said and "written to" in said

    def test_strict_stops(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = record(tmp_path / "in")
        assert main(["trace", str(folder), "-o", str(tmp_path / "out"), "--strict", "--quiet"]) == 2
        assert " in strict mode: " in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_json_is_the_report(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = record(tmp_path / "in")
        assert main(["trace", str(folder), "-o", str(tmp_path / "out"), "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "out" / "report.json").read_text())

    def test_one_step_can_be_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = record(tmp_path / "in")
        assert main(["trace", str(folder), "-o", str(tmp_path / "out"), "--step", "3", "--quiet"]) == 0
        assert main(["trace", str(folder), "-o", str(tmp_path / "out2"), "--step", "9", "--quiet"]) == 2
        assert main(["trace", str(folder), "-o", str(tmp_path / "out2"), "--step", "x", "--quiet"]) == 2

    def test_what_the_doctor_calls_unusable_is_refused_and_nothing_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = record(tmp_path / "in")
        traced = json.loads((folder / "device.1.json").read_text())
        traced["traceEvents"] = [e for e in traced["traceEvents"] if "_runtime" not in e.get("cat", "")]
        (folder / "device.1.json").write_text(json.dumps(traced))
        assert main(["doctor", str(folder), "--quiet"]) == 2
        for out in ("out", "new/out"):
            assert main(["trace", str(folder), "-o", str(tmp_path / out)]) == 2
        said = capsys.readouterr()
        assert said.err.count("in: the doctor calls these traces unusable; found ") == 2
        assert not (tmp_path / "out").exists() and not (tmp_path / "new" / "out").exists()

    @pytest.mark.parametrize("have", [(0, 1), (0,), (1,), (3,), (1, 3), (0, 1, 2, 3)])
    def test_the_commands_that_it_prints_run(
        self, tmp_path: Path, have: tuple[int, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = record(tmp_path / "in", 4)
        for rank in set(range(4)) - set(have):
            (folder / f"device.{rank}.json").unlink()
        assert main(["trace", str(folder), "-o", str(tmp_path / "an out $folder")]) == 0
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        printed = [shlex.split(line) for line in lines if line.startswith("chakrasim ")]
        assert len(printed) == (2 if len(have) == 4 else 1)
        assert any("there is no trace of" in line for line in lines) is (len(have) < 4)
        for words in printed:
            assert main([word.replace("NAME", "hgx-h100-4") for word in words[1:]]) == 0

    def test_a_folder_without_traces_is_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "in").mkdir()
        assert main(["trace", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 2
        assert "there are no traces of the PyTorch profiler in this folder" in capsys.readouterr().err


# --- real runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dlrm(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> chakrasim.SimulationResult:
    """DLRM on 8 V100: all ranks from host and device traces."""
    folder = tmp_path_factory.mktemp("dlrm")
    for name in ("dlrm_kineto.tar.gz", "dlrm_pytorch_et.tar.gz"):
        with tarfile.open(shared_dir / "traces" / "param" / name) as archive:
            archive.extractall(folder / "in", filter="data")
    return trace_directory(folder / "in", folder / "out")  # type: ignore[return-value]


def test_dlrm_runs_rank_by_rank_and_together(dlrm: object) -> None:
    """The eight ranks: each alone, all together with their start offsets, and all together with a common start."""
    prefix: str = dlrm.prefix  # type: ignore[attr-defined]
    for rank in range(8):
        result = chakrasim.replay_recorded(f"{prefix}.{rank}.et")
        assert [(time.step, abs(time.error_pct) < 0.1) for time in result.steps] == [(10, True)]
    result = chakrasim.replay_recorded(prefix, "transfer")
    assert len(result.steps) == 8 and all(abs(time.error_pct) < 0.1 for time in result.steps)
    # Ranks that started late made others wait, which a common start spares them.
    result = chakrasim.replay_recorded(prefix, "transfer", common_start=True)
    assert max(time.simulated_ns for time in result.steps) < max(time.measured_ns for time in result.steps)
    traces = read(prefix)
    assert sum(int((trace.types == 7).sum()) for trace in traces) == 64
    result = chakrasim.simulate(traces, comm_groups=dlrm.comm_group, machine="hgx-h100-8")  # type: ignore[attr-defined]
    assert result.message_bytes > 0


def test_gloo_runs_on_a_machine_and_replays(shared_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in (shared_dir / "golden" / "chakra" / "torch213cpu").glob("[hd]*.json.gz"):
        shutil.copy(path, tmp_path / "in" / path.name)
    report = trace_directory(tmp_path / "in", tmp_path / "out")
    for replay in ("recorded", "transfer"):
        result = chakrasim.replay_recorded(report.prefix, replay)  # type: ignore[arg-type]
        assert len(result.steps) == 10 and all(abs(time.error_pct) < 5 for time in result.steps)
    result = chakrasim.simulate(report.prefix, comm_groups=report.comm_group, machine="hgx-h100-2")
    assert result.messages == 40


@pytest.mark.parametrize(
    "name", ["hta/resnet_kineto", "hta/nccl_data", "hta/step_based_trace_2543932", "param/linear_kineto"]
)
def test_real_device_traces_replay_alone(name: str, shared_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(shared_dir / "traces" / f"{name}.json.gz", tmp_path / "in" / "device.0.json.gz")
    report = trace_directory(tmp_path / "in", tmp_path / "out")
    path = next((tmp_path / "out").glob("chakra.*.et"))
    result = chakrasim.replay_recorded(path)
    assert result.steps and all(abs(time.error_pct) < 0.1 for time in result.steps)
    assert len(report.ranks) == 1


def test_link_directory_compares_the_ranks_and_writes_them(tmp_path):
    from chakrasim import link_directory
    from chakrasim.demo import TRACES
    from chakrasim.trace.linked.file import read_linked

    linked = link_directory(TRACES, tmp_path / "linked")
    assert [one.rank for one in linked] == [0, 1, 2, 3]
    assert min(one.start_offset_ns for one in linked) == 0
    for one in linked:
        again = read_linked(tmp_path / "linked" / f"linked.{one.rank}.json")
        assert again.start_offset_ns == one.start_offset_ns
        assert (again.communication.transfer_ns == one.communication.transfer_ns).all()
        assert (again.communication.transfer_ns >= 0).all()
    with pytest.raises(InputError, match="holds earlier results"):
        link_directory(TRACES, tmp_path / "linked")
    assert len(link_directory(TRACES, tmp_path / "linked", force=True, jobs=1)) == 4
