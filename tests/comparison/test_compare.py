"""Two runs compared: every instant of both is in one cause, and causes are aligned by what launched the work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim import InputError, Notes
from chakrasim.analysis import temporal_breakdown
from chakrasim.cli.main import main
from chakrasim.comparison.parts import Part, Told
from chakrasim.comparison.result import Cause, Comparison
from chakrasim.comparison.sides import Side
from chakrasim.generator import generate_transformer
from chakrasim.report.tables.answers.comparison import comparison_sections
from chakrasim.trace.linked.file import write_linked

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from hand_timelines import Timeline

DATA = Path(__file__).parents[1] / "data"
SPEC: dict[str, Any] = {
    "model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256},
    "parallel": {"tp": 2, "pp": 2, "dp": 2},
    "batch": {"micro_batches": 2},
}


def check_sums(found: Comparison) -> None:
    """Every nanosecond is in one cause."""
    assert sum(cause.a_ns for cause in found.causes) == found.a.total_ns
    assert sum(cause.b_ns for cause in found.causes) == found.b.total_ns
    assert sum(cause.difference_ns for cause in found.causes) == found.difference_ns
    sizes = [abs(cause.difference_ns) for cause in found.causes]
    assert sizes == sorted(sizes, reverse=True)
    assert min(min(cause.a_ns, cause.b_ns) for cause in found.causes) >= 0


def of(found: Comparison, name: str) -> Cause:
    (cause,) = [cause for cause in found.causes if cause.name == name]
    return cause


# -- simulations and estimates -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results() -> dict[str, cs.SimulationResult]:
    job = generate_transformer(SPEC).job
    return {name: cs.simulate(job, machine=name) for name in ("h100", "a100")}


def test_simulations_are_compared_by_kind_of_work_and_role(results: dict[str, cs.SimulationResult]) -> None:
    a, b = results["h100"], results["a100"]
    found = cs.compare(a, b)
    check_sums(found)
    assert (found.a.total_ns, found.b.total_ns) == (a.makespan_ns, b.makespan_ns)
    rank = int(b.gpu_ns.argmax())
    assert found.b.rank == rank
    gemm = of(found, "gemm")
    (products,) = [kind for kind in b.computation if kind.kind == "gemm"]
    assert (gemm.group, gemm.count_b) == ("compute", products.nodes[rank])
    groups = found.groups
    assert groups["compute"][1] == int(b.parts_ns[rank, :2].sum())
    assert groups["communication"][1] == int(b.parts_ns[rank, 2])
    assert groups["waiting"][1] == int(b.parts_ns[rank, 3:5].sum())
    assert {cause.name for cause in found.causes if cause.group == "communication"} == {"tp", "dp", "pp"}
    assert not found.notes and found.counted


def test_a_run_is_like_itself(results: dict[str, cs.SimulationResult], tmp_path: Path) -> None:
    a = results["h100"]
    a.to_json(tmp_path / "a.json")
    found = cs.compare(tmp_path / "a.json", a)
    check_sums(found)
    assert found.difference_ns == 0 and not found.counted and {c.difference_ns for c in found.causes} == {0}
    said = found.to_json()
    assert said["ratio"] == 1 and {cause["share"] for cause in said["causes"]} == {None}
    assert "takes as long as A" in " ".join(_shown(found))


def test_of_a_difference_that_nearly_cancels_no_share_is_told() -> None:
    times = {"first": (1000, 2000), "second": (2000, 990), "third": (10, 10)}
    sides = [
        Side(
            letter, "trace", "a step", 0, {"compute": Told("kinds", tuple(Part(n, t[i], 1) for n, t in times.items()))}
        )
        for i, letter in enumerate("AB")
    ]
    causes = tuple(Cause("compute", name, a, b) for name, (a, b) in times.items())
    found = Comparison(sides[0], sides[1], causes)
    assert found.difference_ns == -10
    (table,) = [one for one in comparison_sections(found) if "share" in one.columns]
    at = table.columns.index("share")
    assert [row[at] for row in table.rows] == ["-", "-", "0.0%", "100.0%"]


def test_ranks_may_be_chosen(results: dict[str, cs.SimulationResult]) -> None:
    a = results["h100"]
    found = cs.compare(a, a, rank_a=0, rank_b=7)
    check_sums(found)
    assert (found.a.rank, found.b.rank, found.a.what) == (0, 7, "rank 0")
    with pytest.raises(InputError, match="there is no rank 8; found 8; expected 0 to 7"):
        cs.compare(a, a, rank_b=8)
    with pytest.raises(InputError, match="no steps to choose from"):
        cs.compare(a, a, step_a=1)


def test_kinds_of_work_are_those_of_the_nodes(results: dict[str, cs.SimulationResult]) -> None:
    result = results["h100"]
    times = sum(kind.time_ns for kind in result.computation)
    # Streams of one device do not compute at one time here.
    assert times.tolist() == result.gpu_ns.tolist()  # type: ignore[attr-defined]
    assert json.loads(result.to_json())["computation"][0].keys() == {"kind", "nodes", "time_ns", "flops", "bytes"}


def test_traces_that_do_not_say_what_they_compute_are_compared_as_a_whole() -> None:
    from chakrasim.demo import GROUPS, STEP

    runs = [cs.simulate(STEP, machine="h100", gpus=16, comm_groups=GROUPS, fold=fold) for fold in (True, False)]
    found = cs.compare(*runs)
    check_sums(found)
    assert not runs[0].computation and "computation" not in json.loads(runs[0].to_json())
    assert of(found, "compute").group == "compute" and found.difference_ns == 0


def test_estimates_and_simulations(results: dict[str, cs.SimulationResult], tmp_path: Path) -> None:
    one, other = (cs.estimate("llama-7b", machine=name, gpus=8, batch=16) for name in ("h100", "a100"))
    found = cs.compare(one, other)
    check_sums(found)
    assert of(found, "matrices").group == "compute"
    assert abs(found.a.total_ns - 1e9 * one.step_s) < 20
    (tmp_path / "e.json").write_text(json.dumps(one.to_json()))
    found = cs.compare(tmp_path / "e.json", results["h100"])
    check_sums(found)
    assert of(found, "compute").a_ns == found.groups["compute"][0]
    assert any(note.startswith("compute is compared as a whole") for note in found.notes)


def _changed(result: cs.SimulationResult, **changes: Any) -> dict[str, Any]:
    return {**json.loads(result.to_json()), **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu_ns": []}, "gpu_ns: the result has no ranks"),
        ({"gpu_ns": [1.5]}, r"gpu_ns\[0\]: not a time; found 1.5"),
        ({"gpu_ns": "x"}, "gpu_ns: not a list"),
        ({"parts_ns": {}}, "parts_ns.compute: the key is missing"),
        ({"parts_ns": 3}, "parts_ns: not a mapping"),
        ({"simulated": False}, "nothing was simulated"),
        ({"roles": [{"role": "tp", "exposed_ns": [-1], "waiting_ns": [0]}]}, r"roles\[0\].exposed_ns\[0\]: not a time"),
        ({"computation": [{"kind": "gemm", "time_ns": [], "nodes": []}]}, "a list by rank is too short"),
        ({"collectives": [{"calls": "x"}]}, r"collectives\[0\]: not a collective"),
        ({"format": "other/1"}, "this cannot be compared"),
    ],
)
def test_damaged_results_are_refused_with_their_place(
    changes: dict[str, Any], message: str, results: dict[str, cs.SimulationResult], tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text(json.dumps(_changed(results["h100"], **changes)))
    with pytest.raises(InputError, match=message):
        cs.compare(tmp_path / "r.json", results["h100"])


# -- recorded traces ---------------------------------------------------------------------------------------------------


def two_makers(folder: Path) -> tuple[Path, Path]:
    """A step of both: a product, a convolution and a batch norm by other libraries, an all-reduce beside nothing."""
    paths = []
    for rank, maker in enumerate(("cudnn", "miopen")):
        line = Timeline(rank)
        slow = 1 + rank
        line.step(3, 0, 10_000)
        line.op("aten::mm", 100, 200, **{"Input Dims": "[[64, 32], [32, 8]]"})
        line.kernel(("ampere_sgemm", "Cijk_Ailk_Bljk")[rank], 500, 1_000 * slow, launch=(150, 20))
        line.op("aten::_convolution", 400, 300, **{"Input Dims": "[[8, 3, 9, 9], [4, 3, 3, 3], [], []]"})
        line.op(f"aten::{maker}_convolution", 420, 250, **{"Input Dims": "[[8, 3, 9, 9], [4, 3, 3, 3]]"})
        line.kernel(("cudnn_conv", "igemm_fwd")[rank], 3_000, 600, launch=(450, 20))
        line.op(f"aten::{maker}_batch_norm", 750, 100, **{"Input Dims": "[[8, 4]]" if rank else "[[8, 4], [4]]"})
        line.kernel(("bn_fw", "batchnorm_spatial")[rank], 3_600, 50 * slow, launch=(770, 20))
        line.op("aten::relu", 900, 50, **{"Input Dims": "[[8, 4]]"})
        line.kernel("relu_kernel", 4_000, 100, launch=(910, 20))
        if rank:
            line.op("aten::gelu", 1_000, 50, **{"Input Dims": "[[8, 4]]"})
            line.kernel("gelu_kernel", 4_200, 70, launch=(1_010, 20))
        line.op("record_param_comms", 1_200, 60, **{"Collective name": "allreduce", "Process Group Name": "0",
                "Process Group Description": "default_pg", "In msg nelems": 9, "Out msg nelems": 9, "dtype": "Float",
                "Group size": 8})  # fmt: skip
        line.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 3_500, 2_000, stream=9, launch=(1_210, 20))
        line.kernel("Memcpy HtoD (Pinned -> Device)", 7_000, 300, launch=(6_900, 20), call="cudaMemcpyAsync",
                    category="gpu_memcpy")  # fmt: skip
        paths.append(line.write(folder / f"device.{rank}.json"))
    return paths[0], paths[1]


def test_work_of_different_makers_is_aligned_by_what_launched_it(tmp_path: Path) -> None:
    found = cs.compare(*two_makers(tmp_path))
    check_sums(found)
    assert (found.a.total_ns, found.b.total_ns) == (10_000, 10_000)
    product = of(found, "aten::mm (64x32, 32x8)")
    assert (product.a_ns, product.b_ns, product.by) == (1_000, 2_000, "operator and shapes")
    assert (product.kernels_a, product.kernels_b) == (("ampere_sgemm",), ("Cijk_Ailk_Bljk",))
    convolution = of(found, "aten::_convolution (8x3x9x9, 4x3x3x3)")
    assert (convolution.a_ns, convolution.b_ns, convolution.only_in) == (600, 600, "")
    norm = of(found, "aten::batch_norm")
    assert (norm.a_ns, norm.b_ns, norm.by) == (50, 100, "operator of another library")
    gelu = of(found, "aten::gelu (8x4)")
    assert (gelu.a_ns, gelu.b_ns, gelu.count_a, gelu.count_b, gelu.only_in) == (0, 70, 0, 1, "b")
    # 3,500 to 5,500, of which the device computes some.
    exposed = of(found, "all-reduce, default_pg")
    assert (exposed.a_ns, exposed.b_ns) == (2_000 - 100 - 50 - 100, 2_000 - 100 - 100 - 100 - 70)
    assert of(found, "Memcpy HtoD (Pinned -> Device)").a_ns == 300
    # From 0 the host launches at 150; the copy at 6,900, after the all-reduce's end at 5,500.
    waited = of(found, "the host has not launched the next work")
    assert waited.a_ns == 150 + 1_400
    assert found.groups["idle"][0] == 500 + 1_500 + 1_500 + 2_700


def test_a_linked_trace_says_the_same_as_the_device_trace(tmp_path: Path) -> None:
    a, b = two_makers(tmp_path)
    linked = cs.link(None, b)
    write_linked(tmp_path / "linked.1.json", linked)
    found = cs.compare(a, b).to_json()["causes"]
    assert cs.compare(a, linked).to_json()["causes"] == found
    assert cs.compare(a, tmp_path / "linked.1.json").to_json()["causes"] == found


def test_groups_are_those_of_the_breakdown(shared_dir: Path) -> None:
    """An independent account of the same time."""
    path = shared_dir / "traces/hta/worker0_step_12.1694128201545.pt.trace.json.gz"
    found = cs.compare(path, path)
    check_sums(found)
    table = temporal_breakdown(str(path))
    row = next(r for r in table.records() if r["step"] >= 0)
    groups = {name: ns for name, (ns, _) in found.groups.items()}
    assert found.a.total_ns == row["window_ns"]
    # Operators' kernels of collectives are told by their records there and by names here, alike.
    assert groups["compute"] == row["compute_ns"] + row["other_ns"]
    assert groups["communication"] == row["exposed_comm_ns"]
    assert groups["copies"] == row["exposed_memory_ns"]


def test_the_same_model_on_two_makers_gpus(shared_dir: Path) -> None:
    traces = shared_dir / "traces"
    found = cs.compare(traces / "hta/resnet_kineto.json.gz", traces / "wild/traces/ddp_resnet_mi300_rank0.json.gz")
    check_sums(found)
    both = [c for c in found.causes if c.group == "compute" and not c.only_in]
    assert {"aten::_convolution", "aten::convolution_backward", "aten::batch_norm_backward"} <= {c.name for c in both}
    # Nearly all of A's computation, on a GeForce, has its like on the MI300X.
    assert sum(c.a_ns for c in both) > 0.98 * found.groups["compute"][0]
    assert found.notes == ("one of the traces has no steps: whole traces are compared",)


def test_steps_may_be_chosen_and_incomplete_ones_are_left_out(tmp_path: Path) -> None:
    line = Timeline()
    for step in range(4):
        begin = 10_000 * step
        line.step(step, begin, 8_000)
        for number in range(1 if step == 3 else 4):
            at = begin + 100 + 1_000 * number
            line.op("aten::mm", at, 200)
            line.kernel("gemm", at + 300, 100 * (step + 1), launch=(at + 50, 20))
    path = line.write(tmp_path / "t.json")
    found = cs.compare(path, path, step_b=2)
    check_sums(found)
    assert (of(found, "aten::mm").a_ns, of(found, "aten::mm").b_ns) == (800, 1_200)
    assert (found.a.what, found.b.what) == ("rank 0, the mean of 3 steps", "rank 0, step 2")
    assert "left out of the mean: steps 3" in found.notes[0]
    with pytest.raises(InputError, match="no step 9; found 0, 1, 2, 3"):
        cs.compare(path, path, step_a=9)


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["aten::mm", "aten::add", "aten::cudnn_relu", "aten::relu", ""]),
        st.sampled_from(["k1", "k2", "ncclDevKernel_AllReduce_Sum", "Memcpy DtoD (Device -> Device)"]),
        st.integers(0, 60),
        st.integers(0, 40),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


def made(pieces: list[tuple[str, str, int, int, int, bool]], path: Path) -> tuple[Path, int]:
    """A trace of these pieces, and how long any of them runs."""
    line = Timeline()
    busy: set[int] = set()
    line.op("aten::first", -100, 5)
    for number, (operator, kernel, start, length, stream, launched) in enumerate(pieces):
        at = -90 + 5 * number
        if operator:
            line.op(operator, at, 4)
        copy = {"category": "gpu_memcpy"} if kernel.startswith("Mem") else {}
        line.kernel(kernel, start, length, stream=stream, launch=(at + 1, 2) if launched else None, **copy)
        busy |= set(range(start, start + length))
    return line.write(path), len(busy)


@settings(max_examples=25)
@given(a=PIECES, b=PIECES)
def test_every_nanosecond_is_in_one_cause(
    place: Path, a: list[tuple[str, str, int, int, int, bool]], b: list[tuple[str, str, int, int, int, bool]]
) -> None:
    (first, busy), (second, _) = made(a, place / "a.json"), made(b, place / "b.json")
    try:
        found = cs.compare(first, second)
    except InputError as fault:
        assert "no work to compare" in str(fault)
        return
    check_sums(found)
    assert found.a.total_ns - found.groups.get("idle", (0, 0))[0] == busy
    again = cs.compare(second, first)
    mirrored = {(c.group, c.name, c.b_ns, c.a_ns) for c in again.causes if " -> " not in c.name}
    assert {(c.group, c.name, c.a_ns, c.b_ns) for c in found.causes if " -> " not in c.name} == mirrored
    same = cs.compare(first, first)
    assert {c.difference_ns for c in same.causes} == {0} and not any(c.only_in for c in same.causes)


def test_a_host_alone_is_compared_by_its_operators() -> None:
    traces = [DATA.parents[1] / f"src/chakrasim/demo/traces/device.{rank}.json.gz" for rank in (0, 1)]
    found = cs.compare(*traces)
    check_sums(found)
    assert found.a.facts["device"] == "none: the host's work" and of(found, "no operator runs").group == "idle"


def test_a_recorded_and_a_simulated_run(results: dict[str, cs.SimulationResult]) -> None:
    found = cs.compare(DATA / "hta/alexnet.json.gz", results["h100"])
    check_sums(found)
    assert found.groups.keys() == {"compute", "communication and waiting", "copies", "idle"}
    assert len([note for note in found.notes if "as a whole" in note]) == 2


# -- the command -------------------------------------------------------------------------------------------------------


def _shown(found: Comparison) -> list[str]:
    from chakrasim.report.tables.answers.comparison import comparison_sections

    return [line for section in comparison_sections(found) for line in section.lines]


def test_the_command_writes_what_python_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = map(str, two_makers(tmp_path))
    assert main(["compare", a, b, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(cs.compare(a, b).to_json()))
    assert main(["compare", a, b]) == 0
    text = capsys.readouterr().out
    assert "operator of another library" in text and "only in B" in text and "Cijk_Ailk_Bljk" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("  sum")] == ["-", "-"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.json", None, "there is no such file or folder"),
        ("x.json", "{}", "this cannot be compared; found a mapping of 0 keys; expected a result of simulate"),
        ("x.et", "\x00\x01", "found Chakra trace; expected a result of simulate"),
        ("x.txt", "hello", "found no trace; expected a result of simulate"),
        ("x.json", "[1, 2", "line 1 column 6: not JSON"),
        ("x.json", '{"step_s": 1, "parts_s": {"matrices": -1}}', "parts_s.matrices: not a time; found -1"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    name: str, content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main(["compare", str(path), str(path), "--json", str(tmp_path / "out.json")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_frames_have_a_row_for_each_cause(tmp_path: Path) -> None:
    found = cs.compare(*two_makers(tmp_path), notes=Notes())
    frame = found.to_frame()
    assert frame["difference_ns"].sum() == found.difference_ns and len(frame) == len(found.causes)
    assert "first cause" in repr(found)
