"""Published experiments: what they come to, what they need, and how they are shown."""

from __future__ import annotations

import csv
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.converter.text_workload.api import convert_text
from chakrasim.experiments import gloo, gpus, layered, recorded, tpus, tutorial
from chakrasim.experiments.api import EXPERIMENTS
from chakrasim.experiments.result import BYTES, PER_CENT, RATIO, SECONDS, WORD, Experiment, Table, cell_text
from chakrasim.generator.collective import collective_job
from chakrasim.machine import load_device
from chakrasim.report.page.experiment import experiment_page
from chakrasim.trace.work import WorkKind

PAGE = Path(__file__).parents[2] / "docs" / "howto-run-the-experiments.md"


def figures(found: Experiment, table: int, column: str) -> list[float]:
    """A column's numbers."""
    return [float(cell) for cell in found.tables[table].column(column) if isinstance(cell, int | float)]


# --- the artefact's figures -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def networks() -> Experiment:
    return cs.experiment("mlsys26-figure-12")


def test_mixtral_on_three_networks_is_in_the_published_order_at_every_bandwidth(networks: Experiment) -> None:
    order = networks.tables[1]
    assert order.column("GB/s") == (75, 150, 300, 600, 900)
    assert {row[1:] for row in order.rows} == {("FullyConnected > Ring > Switch",) * 2}
    ratios = networks.tables[2]
    assert [round(float(row[2] or 0), 3) for row in ratios.rows] == [0.241, 0.310, 0.509]
    assert [round(float(row[1] or 0), 3) for row in ratios.rows] == [0.224, 0.476, 0.666]
    text = PAGE.read_text("utf-8")
    assert all(f"| {name} | {here:.3f} | {published:.3f} |" in text for name, here, published in ratios.rows)


def test_parts_sum_to_the_step(networks: Experiment) -> None:
    parts = zip(*(figures(networks, 0, name) for name in ("computing", "communicating", "waiting")), strict=True)
    assert [sum(three) for three in parts] == pytest.approx(figures(networks, 0, "step"))


def test_recorded_jobs_are_replayed_to_the_nanosecond_and_others_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("no trace")
    found = recorded.run(tmp_path)
    assert len(found.tables[0].rows) == 12 and max(map(abs, figures(found, 0, "error"))) <= 0.01
    answers = dict(found.answers)
    assert answers["published, rebuilt"] == "mean 8.80 %, largest 19.98 % of 7 jobs: Chakra's totals"
    assert answers["published, simulated"] == "mean 9.53 %, largest 19.98 % of the same: ASTRA-sim's"
    assert [text[:3] for text in found.not_compared[1:]] == ["a: ", "b: "]


def test_folders_of_traces_that_are_not_there() -> None:
    with pytest.raises(cs.InputError, match="no folder of traces"):
        [*recorded.jobs_in(Path("missing"))]


@pytest.mark.slow
def test_every_recorded_job_that_is_held(shared_dir: Path, tmp_path: Path) -> None:
    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / "dlrm", filter="data")
    alone = {
        "hta": ("resnet_kineto", "event_sync_trace"),
        "wild/traces": ("bert_small_h100", "mi210_gpu_only", "sglang_qwen3_8b_decode", "vllm_decode_full_graph"),
    }
    for folder, names in alone.items():
        for name in names:
            (tmp_path / name).mkdir()
            file = f"{name}.json.gz"
            (tmp_path / name / file).symlink_to(shared_dir / "traces" / folder / file)
    found = recorded.run(tmp_path)
    assert len(found.not_compared) == 1 and len({row[0] for row in found.tables[0].rows}) == 8
    assert max(map(abs, figures(found, 0, "error"))) <= 1.0


@pytest.mark.slow
def test_collectives_on_a_slower_network() -> None:
    found = cs.experiment("mlsys26-figure-7")
    slower = dict(zip(found.tables[0].column("collective"), figures(found, 0, "slower"), strict=True))
    assert 3.5 < slower["all-to-all"] < 4 and all(1 <= ratio <= 4 for ratio in slower.values())


# --- the Chakra paper -------------------------------------------------------------------------------------------------


def test_resnet_50_has_its_published_size() -> None:
    """Weights of convolutions and of the last layer, and products of an image, as torchvision counts them."""
    layers = [*layered.resnet50()]
    assert len(layers) == 54
    assert sum(layer.n * layer.k for layer in layers) == 25_502_912
    assert sum(layer.m * layer.n * layer.k for layer in layers) == 4_089_184_256


def test_the_models_as_text_workloads(tmp_path: Path) -> None:
    profile = load_device("v100")
    file = tmp_path / "w.txt"
    file.write_text(layered.resnet50_text(256, 8, profile, "float16"))
    made = convert_text(file, 64, 1)
    assert len(made.traces) == 64 and len(made.groups) == 16
    file.write_text(layered.dlrm_text(1024, profile, "float16"))
    trace = convert_text(file, 64, 1).traces[0]
    nodes = [trace.node(at) for at in range(len(trace))]
    sent = [node.attrs["comm_size"] for node in nodes if "comm_size" in node.attrs]
    assert sent.count(1024 * 26 * 128 * 2) == 2 and len(sent) == 10
    assert [layer.kind for layer in layered.dlrm()].count(WorkKind.EMBEDDING) == 1


@pytest.mark.slow
def test_the_papers_machines_are_the_table_of_the_page_and_the_same_every_run() -> None:
    found = cs.experiment("chakra-paper")
    text = PAGE.read_text("utf-8")
    for row in found.tables[1].rows:
        cells = [cell_text(cell, unit) for cell, (_, unit) in zip(row, found.tables[1].columns, strict=True)]
        assert f"| {' | '.join(cells)} |" in text
    assert cs.experiment("chakra-paper") == found
    assert all(one > 1 for model, one in zip(found.tables[1].column("model"), figures(found, 1, "torus / DGX-2"),
                                             strict=True) if model in ("GPT-3 175B", "Megatron 1T"))  # fmt: skip


# --- ASTRA-sim's validation -------------------------------------------------------------------------------------------


def test_tpu_curves_are_near_the_quoted_readings() -> None:
    found = cs.experiment("wiki-tpus")
    assert len(figures(found, 0, "difference")) == 6 and max(map(abs, figures(found, 0, "difference"))) <= 2
    assert len(found.tables) == 1


def test_tpu_curves_of_ones_own_are_held_out_by_turns(tmp_path: Path) -> None:
    """A curve in any unit that the simulation has the shape of; one reading that is 10 % of full scale too high."""
    sizes = [40 << 20, 80 << 20, 160 << 20, 320 << 20]
    times = tpus._times_s("tpu-v3-8", tuple(sizes)) * 17
    file = tmp_path / "tpus.csv"
    write_csv(file, tpus.COLUMNS, [("tpu-v3-8", *row) for row in zip(sizes, times.tolist(), strict=True)])
    (row,) = tpus._held_out(tpus._read(str(file))).rows
    assert row[:2] == ("tpu-v3-8", 4) and abs(float(row[2] or 0)) < 1e-9
    times[1] += 0.1 * times[-1]
    write_csv(file, tpus.COLUMNS, [("tpu-v3-8", *row) for row in zip(sizes, times.tolist(), strict=True)])
    (row,) = tpus._held_out(tpus._read(str(file))).rows
    assert row[3] == sizes[1] and -10.5 < float(row[2] or 0) < -9


@pytest.mark.parametrize(
    ("line", "message"),
    [("tpu-v4,128,1", "no machine of this experiment"), ("tpu-v3-8,x,1", "no such number"),
     ("tpu-v3-8,128,1", "too few sizes"), ("tpu-v3-8,128,", "column latency: blank"),
     ("tpu-v3-8,128,1\ntpu-v3-8,128,2", "line 3, column size_bytes: a size for the second time")],
)  # fmt: skip
def test_tables_of_tpus_that_cannot_be_used(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "tpus.csv"
    file.write_text(f"{','.join(tpus.COLUMNS)}\n{line}\n")
    with pytest.raises(cs.InputError, match=message):
        tpus.run(file)


def test_gpus_on_a_line_are_predicted_exactly_from_other_numbers_of_them(tmp_path: Path) -> None:
    rows = [
        (
            "node",
            count,
            link,
            size,
            20.0 + 2 * (count - 1) / count * size / (0.8 * link) / 1e3 + 3.4 * max(1, size / (rings * count * 2 << 20)),
        )
        for count, link, rings in ((2, 25, 2), (4, 100, 8), (8, 150, 12))
        for size in (1 << 20, 3 << 26, 3 << 30)
    ]
    file = tmp_path / "gpus.csv"
    write_csv(file, gpus.COLUMNS, rows)
    found = [*gpus._by_a_line("node", gpus._read(str(file))["node"])]
    assert len(found) == 9 and max(abs(float(point[-1] or 0)) for point in found) < 1e-6
    told = [(*row, 2 * row[2] // 25) for row in rows]
    write_csv(file, (*gpus.COLUMNS, "channels"), [*told[:-1], (*rows[-1], "")])
    assert [*gpus._by_a_line("node", gpus._read(str(file))["node"])] == found
    write_csv(file, (*gpus.COLUMNS, "channels"), [(*row, 0) for row in rows])
    with pytest.raises(cs.InputError, match="line 2, column channels: this is no such number"):
        gpus._read(str(file))
    write_csv(file, gpus.COLUMNS, [*rows, ("node", 2, 1e300, 1, 1)])
    with pytest.raises(cs.InputError, match=r"line 11, column link_GBps: out of range"):
        gpus._read(str(file))
    for some in (rows[:3], [rows[0], rows[0], *rows[3:]]):
        write_csv(file, gpus.COLUMNS, some)
        with pytest.raises(cs.InputError, match="no number of GPUs can be left out"):
            gpus._read(str(file))
    for more, message in (
        (("node", 2, 25, 1, ""), "line 11, column time_us: blank"),
        (("shipped H100", 2, 25, 1, 1), "line 11, column machine: the name of what ships"),
    ):
        write_csv(file, gpus.COLUMNS, [*rows, more])
        with pytest.raises(cs.InputError, match=message):
            gpus._read(str(file))


def test_the_published_gpu_curves(shared_dir: Path, tmp_path: Path) -> None:
    """Readings of 128 MiB and more: H100 with what NVLink 4 has, V100 with one NVLink of a pair, four of four GPUs."""
    links = {("H", 2): 450.0, ("H", 4): 450.0, ("V", 2): 25.0, ("V", 4): 100.0}
    with open(shared_dir / "validation" / "nccl-curves" / "hw_allreduce_digitised.csv") as file:
        known = [(row["system"][0], int(row["n_gpus"]), row["size_bytes"], row["hardware_us"])
                 for row in csv.DictReader(file)]  # fmt: skip
    write_csv(
        tmp_path / "gpus.csv", gpus.COLUMNS, [(kind, count, links[kind, count], *at) for kind, count, *at in known]
    )
    means = {
        (kind, count): np.mean([abs(float(point[-1] or 0)) for point in gpus._by_a_line(kind, of) if point[1] == count])
        for kind, of in gpus._read(str(tmp_path / "gpus.csv")).items()
        for count in (2, 4)
    }
    assert {key: round(float(mean), 2) for key, mean in means.items()} == {
        ("H", 2): 1.19, ("H", 4): 1.38, ("V", 2): 6.28, ("V", 4): 3.51
    }  # fmt: skip


@pytest.mark.slow
def test_the_shipped_h100_without_each_number_of_gpus() -> None:
    found = cs.experiment("wiki-gpus")
    large = dict(zip(found.tables[0].column("GPUs"), figures(found, 0, "beyond"), strict=True))
    assert large[4] < 1 and large[8] < 2 and large[2] < 3
    assert len(found.tables[1].rows) == 18
    assert dict(found.answers)["shipped H100, all"] == "mean 1.55 %, each number of GPUs alike"


# --- the host and the device ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sync() -> Experiment:
    return cs.experiment("gpu-to-cpu-sync")


def test_the_critical_path_crosses_from_the_device_to_the_host(sync: Experiment) -> None:
    edges, known, unknown, halved = sync.tables
    assert [(row[2], row[4], row[5]) for row in edges.rows] == [
        ("94785", "94792", "yes"), ("13847", "91874", "yes"), ("13847", "94792", "no")
    ]  # fmt: skip
    assert known.column("reached by").count("sync_context") == 2
    assert not any("sync" in str(cell) for cell in unknown.column("reached by"))
    assert [row[1:] for row in halved.rows] == [(0.0454, 0.02332), (0.0454, 0.0454)]


def test_a_trace_whose_host_waits_for_nothing_is_refused(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {}}
    file = tmp_path / "device.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    with pytest.raises(cs.InputError, match="the host waits for no work of the device"):
        cs.experiment("gpu-to-cpu-sync", data=file)


# --- with and without PyTorch -----------------------------------------------------------------------------------------


def test_the_tutorial_without_pytorch_says_what_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tutorial, "has_torch", lambda: False)
    found = tutorial.run()
    assert "PyTorch is not installed here" in found.assumed[0]
    (row,) = found.tables[0].rows
    assert row[:2] == ("shipped: four processes, data-parallel", 4) and len(found.tables[1].rows) == 12


def test_gloo_ranks_need_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gloo, "has_torch", lambda: False)
    with pytest.raises(cs.InputError, match=r"gloo ranks need PyTorch.*chakrasim\[torch\]"):
        gloo.run()


def test_the_fitted_machine_takes_what_it_was_fitted_to() -> None:
    sizes = np.array([1e4, 1e5, 1e6, 1e7])
    start_ns, per_byte = gloo._line(sizes, 50_000 + 2.5 * sizes)
    assert (start_ns, per_byte) == pytest.approx((50_000, 2.5))
    result = cs.simulate(collective_job("all_reduce", 10**6, 2), machine=gloo._machine(start_ns, per_byte))
    assert result.makespan_ns == pytest.approx(2_550_000, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytorch-tutorial", "gloo-replay"])
def test_what_is_run_for_real(name: str) -> None:
    pytest.importorskip("torch")
    found = cs.experiment(name)
    assert all(table.rows for table in found.tables) and min(figures(found, -1, "measured")) > 0


# --- how they are shown -----------------------------------------------------------------------------------------------


def test_cells_for_people() -> None:
    cells = [("x", WORD), (None, SECONDS), (0.5, SECONDS), (1 << 20, BYTES), (-1.234, PER_CENT), (0.5, RATIO)]
    assert [cell_text(*cell) for cell in cells] == ["x", "", "500 ms", "1 MiB", "-1.23", "0.500"]
    assert cell_text(1234, "count") == "1,234"
    table = Table("t", (("v", SECONDS),), ((float("nan"),), (float("inf"),), (1.0,)))
    assert [cell_text(row[0], SECONDS) for row in table.rows] == ["", "", "1 s"]
    assert [row["v"] for row in table.to_dict()["rows"]] == [None, None, 1.0]


def test_figures_of_the_page_stand_in_the_json(networks: Experiment) -> None:
    page, plain = experiment_page(networks), networks.to_json()
    pictures = [part.to_dict() for part in page.parts if part.to_dict()["kind"] in ("bars", "scatter")]
    drawn = [one for part in pictures for one in part.get("series") or (part["x"], part["y"])]
    assert len(pictures) == 2 and len(drawn) == 5
    for series in drawn:
        _, table, _, _, column = series["key"].split(".")
        assert series["values"] == [row[column] for row in plain["tables"][int(table)]["rows"]]
    assert page.assumed == networks.assumed


def test_labels_are_what_rows_differ_in() -> None:
    rows = (("a", "x", 1.0), ("a", "y", 2.0))
    assert Table("t", (("m", WORD), ("s", WORD), ("v", SECONDS)), rows).labels == ("x", "y")
    assert Table("t", (("m", WORD), ("v", SECONDS)), (("a", 1.0),)).labels == ("a",)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: str(tmp_path / f"sync.{name}") for name in ("json", "html")}
    words = ["experiment", "gpu-to-cpu-sync", "--json", files["json"], "--report", files["html"]]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Assumed\n" in shown and "Not compared\n" in shown and "Source\n" in shown
    written: dict[str, Any] = json.loads(Path(files["json"]).read_text())
    assert written["format"] == "chakrasim-experiment/1" and written["tables"][3]["rows"][0]["half the time"] == 0.02332
    assert "Does the host wait for the device" in Path(files["html"]).read_text()
    first = {name: Path(file).read_bytes() for name, file in files.items()}
    assert main(words) == 0 and first == {name: Path(file).read_bytes() for name, file in files.items()}


def test_the_list_is_that_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert listed.keys() == EXPERIMENTS.keys()
    text = PAGE.read_text("utf-8")
    assert all(re.search(rf"chakrasim experiment {name}\b", text) for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mlsys26-figure-21"], "there is no such experiment; found mlsys26-figure-21"),
        (["chakra-paper", "--data", "x"], "takes no data of yours"),
        (["gpu-to-cpu-sync", "--data", "missing.json"], "there is no such file"),
        (["--report", "all.html"], "no experiment is named"),
        (["gpu-to-cpu-sync", "--report", "page.txt"], "no browser would open"),
    ],
)
def test_what_cannot_be_run_is_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said and not list(tmp_path.iterdir())


def write_csv(path: Path, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
