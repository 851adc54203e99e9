"""Text workloads of ASTRA-sim 1.0, as ASTRA-sim 1.0 runs them."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from pathlib import Path

import pytest

import chakrasim
from chakrasim import InputError, Trace
from chakrasim.compat.chakra_convert.text_workload import convert_text as convert_as_the_reference
from chakrasim.converter.text_workload.api import convert_text
from chakrasim.notes import Notes

DATA = Path(__file__).parents[1] / "data" / "chakra-tools"
CASES = [json.loads(line) for line in gzip.decompress((DATA / "text.jsonl.gz").read_bytes()).splitlines()]


def layer(name: str, *phases: str, update: int = 0, policy: str = "") -> str:
    """A line: of each of three phases ``TIME TYPE BYTES``."""
    return " ".join((name, "-1", *phases, str(update), policy))


def write(folder: Path, head: str, *layers: str) -> Path:
    path = folder / "w.txt"
    path.write_text("\n".join((head, str(len(layers)), *layers)) + "\n")
    return path


def short(trace: Trace) -> list[tuple[str, tuple[int, ...]]]:
    """The nodes (``F0``, ``W1``, ``I1`` for computations, ``<TYPE>0`` for collectives) and what they wait for."""
    phases = {"FWD": "F", "BWD_WG": "W", "BWD_IG": "I", "FWD_AGAIN": "A"}
    nodes = []
    for at in range(len(trace)):
        node = trace.node(at)
        words = node.name.split("_", 3 if node.type == 7 else 2)
        name, _, rest = words[-1].partition("_")
        nodes.append((f"{phases[rest]}{name}" if node.type == 4 else f"{rest}{name}", node.data_deps))
    return nodes


def test_data_parallel_training(tmp_path: Path) -> None:
    path = write(tmp_path, "DATA", *(layer(n, "1 NONE 0", "2 NONE 0", "3 ALLREDUCE 8") for n in "01"))
    [trace, other] = convert_text(path, 2, 2).traces
    assert trace is other
    assert short(trace) == [
        *(
            ("F0", ()),
            ("F1", (0,)),
            ("W1", (1,)),
            ("ALLREDUCE1", (2,)),
            ("I1", (2,)),
            ("W0", (4,)),
            ("ALLREDUCE0", (5,)),
        ),
        *(("F0", (6,)), ("F1", (7, 3)), ("W1", (8,)), ("ALLREDUCE1", (9,)), ("I1", (9,)), ("W0", (11,))),
        ("ALLREDUCE0", (12,)),
    ]
    assert trace.node(3).attrs == {"is_cpu_op": False, "comm_type": 0, "comm_size": 8}
    assert trace.node(2).duration_micros == 3


def test_none_and_zero_bytes_mean_no_collective(tmp_path: Path) -> None:
    path = write(tmp_path, "MODEL", layer("0", "1 NONE 0", "1 ALLREDUCE 0", "1 NONE 5"), layer("1", *["1 NONE 9"] * 3))
    assert short(convert_text(path, 1, 1).traces[0]) == [
        *(("F0", ()), ("F1", (0,)), ("I1", (1,)), ("W1", (2,)), ("I0", (3,)), ("W0", (4,)))
    ]


@pytest.mark.parametrize(
    ("kind", "activations", "weights"),
    [("HYBRID_DATA_MODEL", True, False), ("HYBRID_MODEL_DATA", False, True)],
)
def test_hybrids_say_which_dimensions_communicate(kind: str, activations: bool, weights: bool, tmp_path: Path) -> None:
    path = write(tmp_path, kind, *(layer(n, "1 ALLGATHER 4", "1 REDUCESCATTER 4", "1 ALLREDUCE 8") for n in "01"))
    trace = convert_text(path, 4, 1).traces[0]
    assert short(trace) == [
        *(("F0", ()), ("ALLGATHER0", (0,)), ("F1", (1,)), ("ALLGATHER1", (2,))),
        *(("I1", (3,)), ("REDUCESCATTER1", (4,)), ("W1", (4,)), ("ALLREDUCE1", (6,))),
        *(("I0", (6, 5)), ("W0", (8,)), ("ALLREDUCE0", (9,))),
    ]
    masks = {trace.node(at).name.split("_")[-1]: trace.node(at).attrs["involved_dim"] for at in (1, 5, 7)}
    assert masks["ALLGATHER"] == masks["REDUCESCATTER"] == [activations] + [not activations] * 9
    assert masks["ALLREDUCE"] == [weights] + [not weights] * 9


def test_recommendation_models_exchange_the_embedding(tmp_path: Path) -> None:
    embedding = layer("0", "1 ALLTOALL 4", "1 ALLTOALL 6", "1 NONE 0")
    path = write(
        tmp_path, "HYBRID_DLRM 1", embedding, *(layer(n, "1 NONE 0", "1 NONE 0", "1 ALLREDUCE 8") for n in "12")
    )
    assert short(convert_text(path, 2, 2).traces[0])[:15] == [
        *(
            ("F0", ()),
            ("ALLTOALL0", (0,)),
            ("F1", (0,)),
            ("F2", (2, 1)),
            ("W2", (3,)),
            ("ALLREDUCE2", (4,)),
            ("I2", (4,)),
        ),
        *(("ALLTOALL0", (6,)), ("W1", (6,)), ("ALLREDUCE1", (8,)), ("I1", (8,)), ("W0", (10,))),
        *(("F0", (11, 7)), ("ALLTOALL0", (12,)), ("F1", (12, 9))),
    ]


def test_transformers_use_groups_of_ranks(tmp_path: Path) -> None:
    lines = [layer(n, "1 ALLREDUCE 4", "1 ALLREDUCE 6", "1 ALLREDUCE 8") for n in "01"]
    path = write(tmp_path, "HYBRID_TRANSFORMER model_parallel_NPU_group: 2", *lines)
    made = convert_text(path, 4, 1)
    assert made.groups == {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
    names = [[trace.node(at).attrs.get("pg_name") for at in (1, 7)] for trace in made.traces]
    assert names == [["1", "3"], ["1", "4"], ["2", "3"], ["2", "4"]]
    assert short(made.traces[0])[4:] == [
        *(("I1", (3,)), ("ALLREDUCE1", (4,)), ("W1", (4,)), ("ALLREDUCE1", (6,))),
        *(("I0", (6, 5)), ("ALLREDUCE0", (8,)), ("W0", (8,)), ("ALLREDUCE0", (10,))),
    ]


def test_a_transformer_on_one_group_has_no_data_parallelism(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "HYBRID_TRANSFORMER model_parallel_NPU_group: 4",
        layer("0", "1 ALLREDUCE 4", "1 NONE 0", "1 ALLREDUCE 8"),
    )
    notes = Notes()
    made = convert_text(path, 2, 1, notes=notes)
    assert (made.groups, short(made.traces[0])) == ({}, [("F0", ()), ("ALLREDUCE0", (0,)), ("I0", (1,)), ("W0", (2,))])
    assert any("left out 1 collectives a pass" in text for text in notes)


def test_forward_again_on_the_way_back(tmp_path: Path) -> None:
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 1 0 checkpoint_initiates: 1 2"
    path = write(tmp_path, head, *(layer(n, "1 ALLREDUCE 4", "1 NONE 0", "1 NONE 0") for n in "012"))
    assert short(convert_text(path, 2, 1).traces[0]) == [
        *(("F0", ()), ("ALLREDUCE0", (0,)), ("F1", (1,)), ("ALLREDUCE1", (2,)), ("F2", (3,)), ("ALLREDUCE2", (4,))),
        *(("A0", (5,)), ("ALLREDUCE0", (6,)), ("A1", (7,)), ("ALLREDUCE1", (8,))),
        *(("I2", (9,)), ("W2", (10,)), ("I1", (11,)), ("W1", (12,)), ("I0", (13,)), ("W0", (14,))),
    ]


def test_customized_layers_have_a_parallelism_each(tmp_path: Path) -> None:
    phases = ("1 ALLGATHER 4", "1 NONE 0", "1 ALLREDUCE 8")
    lines = [
        layer(n, *phases, policy=policy)
        for n, policy in zip("012", ("DATA", "MODEL", "HYBRID_MODEL_DATA"), strict=True)
    ]
    trace = convert_text(write(tmp_path, "HYBRID_CUSTOMIZED", *lines), 4, 1).traces[0]
    dims = {
        name: trace.node(at).attrs.get("involved_dim") for at, (name, _) in enumerate(short(trace)) if "ALL" in name
    }
    assert dims == {
        "ALLGATHER1": None,
        "ALLGATHER2": [False] + [True] * 9,
        "ALLREDUCE2": [True] + [False] * 9,
        "ALLREDUCE0": None,
    }


def test_inference_runs_forward_only(tmp_path: Path) -> None:
    path = write(tmp_path, "DISTRIBUTED_INFERENCE", layer("0", "1 ALLREDUCE 4", "1 ALLREDUCE 4", "1 ALLREDUCE 4"))
    assert short(convert_text(path, 2, 2).traces[0]) == [
        *(("F0", ()), ("ALLREDUCE0", (0,)), ("F0", (1,)), ("ALLREDUCE0", (2,)))
    ]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "DATA", layer("0", "1 ALLGATHER 4", "1 NONE 0", "1 ALLREDUCE 8", update=10))
    notes = Notes()
    convert_text(path, 2, 3, notes=notes)
    assert ["left out 1 collectives a pass: DATA does not run" in text for text in notes] == [True, False]
    assert "delays after collectives (column 12) of 1 layers" in notes.warnings[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "DATA\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n",
            "line 2: the number of layers is wrong; found 2, but 1 layers",
        ),
        ("DATA\nx\n", "line 2, column 1: the number of layers is no integer .*found 'x'"),
        ("DATA\n1\na -1 1 NONE 0 1.5 NONE 0 1 NONE 0 0\n", "line 3, column 6: input-gradient time is no integer"),
        ("DATA\n1\na -1 1 NONE 0 1 NONE\n", "line 3, column 8: .*too few columns: input-gradient bytes is missing"),
        (
            "DATA\n1\na -1 1 NONE 0 1 NONE 0 1 SUM 9 0\n",
            r"line 3 \(layer 'a'\): this collective is unknown; found 'SUM'",
        ),
        ("DATA\n1\na -1 -1 NONE 0 1 NONE 0 1 NONE 0 0\n", "line 3: a time is out of range"),
        ("data\n0\n", "line 1: this type of parallelism is unknown .*found 'data'"),
        ("HYBRID_DLRM\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "line 1, word 2: HYBRID_DLRM needs the index"),
        ("HYBRID_DLRM 3\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "word 2: .*found '3'; expected 0 to 0"),
        ("HYBRID_TRANSFORMER g: 3\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "word 3: .*expected a divisor of 8"),
        ("HYBRID_CUSTOMIZED\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0 SOME\n", "line 3, column 13: .*found 'SOME'"),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD g: 2 c: 1 0 i: 1 0\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n",
            "layer 0 cannot compute forward again",
        ),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD g: 2 c: 1 5 i: 0\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "word 6: .*'5'"),
    ],
)
def test_messages_say_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        convert_text(tmp_path / "w.txt", 8, 1)


SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    **{f"{kind}-implementation": ["ring", "ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter")},
    "all-to-all-implementation": ["ring", "ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
}
NETWORK = {"topology": ["Ring", "Ring"], "npus_count": [2, 4], "bandwidth": [50.0, 25.0], "latency": [500.0, 500.0]}


def test_all_recorded_workloads_convert_and_run(shared_dir: Path, tmp_path: Path) -> None:
    for path in sorted((shared_dir / "golden" / "chakra" / "text").glob("*.txt")):
        made = convert_text(path, 8, 1)
        trace = made.traces[0]
        assert set(trace.attr("is_cpu_op").integers(-1).tolist()) == {0}
        result = chakrasim.simulate(made.traces, system=SYSTEM, network=NETWORK, comm_groups=made.groups or None)
        assert int(result.finish_ns.max()) >= int(trace.duration_micros.sum()) * 1000


def test_damaged_input_never_ends_in_anything_else(tmp_path: Path) -> None:
    draw = random.Random(3)
    for number in range(200):
        text = draw.choice(CASES)["text"]
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text) + 1)
            text = (
                text[:at]
                + draw.choice(["", "-", " ", "\n", "9" * 25, "NONE", "é", "\0"])
                + text[at + draw.randint(0, 3) :]
            )
        (tmp_path / "w.txt").write_bytes(text.encode() + (b"\xff" if number % 50 == 0 else b""))
        for convert in (convert_text, convert_as_the_reference):
            with contextlib.suppress(InputError):
                convert(tmp_path / "w.txt", 2, 1)
