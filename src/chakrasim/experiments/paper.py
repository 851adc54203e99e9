"""The Chakra paper's machines (arXiv:2305.14516): four models and their splits over 64 NPUs, on both."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Final

from chakrasim.converter.text_workload.api import convert_text
from chakrasim.estimation.api import estimate
from chakrasim.experiments.layered import dlrm_text, resnet50_text
from chakrasim.experiments.result import BYTES, RATIO, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.experiments.states import STACKED, STATES, parts_of_slowest, states_of
from chakrasim.machine import Machine, load_device, load_machine
from chakrasim.progress import Progress, told
from chakrasim.simulator.api import simulate
from chakrasim.text.amounts import time_text

NPUS: Final = 64
TORUS, DGX2 = "paper-torus-8x8", "paper-dgx2"
DEVICE, DTYPE = "v100", "float16"
SEQUENCES, IMAGES, SAMPLES = 64, 2048, 65_536
"""Of a step, over all NPUs: sequences of transformers, images of ResNet-50, samples of DLRM."""
TRANSFORMERS: Final = {"GPT-3 175B": "gpt3-175b", "Megatron 1T": "megatron-1t"}
SPLITS: Final = ((8, 1, 8), (4, 16, 1), (8, 8, 1), (4, 8, 2), (1, 8, 8), (1, 16, 4), (2, 4, 8))
"""Of the transformers: dp, tp, pp."""

Run = Callable[[Machine], tuple[Mapping[str, float], int | None]]
"""On a machine, seconds of a step by part, and bytes of the fullest NPU if they are known."""


def run(*, progress: Progress | None = None) -> Experiment:
    """The experiment."""
    machines = {name: replace(load_machine(name), network_model="flow") for name in (TORUS, DGX2)}
    runs = _runs()
    steps = [(model, split, name) for model, split in runs for name in machines]
    found = {step: runs[step[:2]](machines[step[2]]) for step in told(steps, lambda one: ", ".join(one), progress)}
    columns = (("model", WORD), ("split", WORD), ("machine", WORD), ("step", SECONDS), *STATES, ("memory", BYTES))
    rows = tuple(_row(step, *found[step]) for step in steps)
    parts = Table("A step on the slowest NPU, and the memory of the fullest", columns, rows, bars=STACKED)
    ranking = _ranking(runs, found)
    faster = sum(ratio > 1 for ratio in ranking.numbers("torus / DGX-2"))
    return Experiment(
        "chakra-paper",
        "How long are steps of different models and splits on the two machines of the Chakra paper?",
        (
            ("the faster machine", f"{DGX2} in {faster} of {len(ranking.rows)} runs, {TORUS} in the others"),
            *((f"the best split of {model}", _best(model, found)) for model in dict.fromkeys(one for one, _ in runs)),
        ),
        (parts, ranking),
        _ASSUMED,
        (
            "the paper's own times: the models, their splits and all figures are in a plot whose numbers are not "
            "published",
        ),
        "Sridharan et al. 2023, Chakra: Advancing Performance Benchmarking and Co-design using Standardized Execution "
        "Traces, arXiv:2305.14516: 64 NPUs; 8 x 8 torus, 62 GB/s a link; switched dimensions of 600 and 37.5 GB/s",
    )


_ASSUMED: Final = (
    f"what is computed takes what it takes on a {DEVICE}, in {DTYPE}; the paper names no NPU",
    "links are shared max-min fairly; latencies, 16 x 4 NPUs of the switched machine, chunks and algorithms as the "
    "machines' files say",
    f"GPT-3 and the 1T model: {SEQUENCES} sequences of 2,048 tokens a step over all NPUs, in micro-batches of one; all "
    "else by estimate's rules, as of Megatron-LM",
    f"ResNet-50: {IMAGES:,} images; NPUs that share a model (tp) share output channels; products only, no pipeline",
    f"DLRM-like: {SAMPLES:,} samples; 26 tables of rows of 128 values, shared by all NPUs; networks as in MLPerf's "
    "benchmark, copied to all; no pipeline",
    "whether a job fits in an NPU's memory is not asked: the paper's NPUs have no stated size",
)


def _runs() -> dict[tuple[str, str], Run]:
    """What is run on each machine, by model and split."""
    profile = load_device(DEVICE)
    found: dict[tuple[str, str], Run] = {
        ("DLRM-like", "tables shared by 64, dp 64"): partial(_of_text, dlrm_text(SAMPLES // NPUS, profile, DTYPE))
    }
    for tp in (1, 8, 64):
        text = resnet50_text(IMAGES * tp // NPUS, tp, profile, DTYPE)
        found["ResNet-50", _split(NPUS // tp, tp, 1)] = partial(_of_text, text)
    for model, name in TRANSFORMERS.items():
        for dp, tp, pp in SPLITS:
            found[model, _split(dp, tp, pp)] = partial(_transformer, name, tp, pp)
    return found


def _split(dp: int, tp: int, pp: int) -> str:
    return f"dp {dp}, tp {tp}, pp {pp}"


def _of_text(text: str, machine: Machine) -> tuple[Mapping[str, float], None]:
    """A pass of a text workload."""
    with TemporaryDirectory() as folder:
        file = os.path.join(folder, "workload.txt")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        made = convert_text(file, machine.ranks, 1)
    result = simulate(made.traces, machine=machine, comm_groups=made.groups)
    return parts_of_slowest(result), None


def _transformer(name: str, tp: int, pp: int, machine: Machine) -> tuple[Mapping[str, float], int]:
    step = estimate(name, machine=machine, device_profile=DEVICE, dtype=DTYPE, tp=tp, pp=pp, batch=SEQUENCES)
    return step.parts_s, step.memory_bytes


Found = dict[tuple[str, str, str], tuple[Mapping[str, float], int | None]]


def _row(step: tuple[str, str, str], parts_s: Mapping[str, float], memory: int | None) -> tuple[Cell, ...]:
    return (*step, sum(parts_s.values()), *states_of(parts_s), memory)


def _ranking(runs: Mapping[tuple[str, str], Run], found: Found) -> Table:
    """Both machines beside each other, and which part of the step makes most of the difference."""
    rows: list[tuple[Cell, ...]] = []
    for model, split in runs:
        torus, dgx2 = (found[model, split, name][0] for name in (TORUS, DGX2))
        one, other = (sum(parts.values()) for parts in (torus, dgx2))
        name = max(sorted(torus.keys() | dgx2.keys()), key=lambda part: abs(torus.get(part, 0) - dgx2.get(part, 0)))
        why = f"{name}: {time_text(1e9 * torus.get(name, 0))} and {time_text(1e9 * dgx2.get(name, 0))}"
        rows.append((model, split, one, other, one / other, why))
    columns = (("model", WORD), ("split", WORD), ("torus", SECONDS), ("DGX-2", SECONDS), ("torus / DGX-2", RATIO),
               ("most of the difference: on the torus and on DGX-2", WORD))  # fmt: skip
    return Table("The machines beside each other", columns, tuple(rows), _EXPLAINED)


_EXPLAINED: Final = (
    "up to 16 NPUs in a row are one DGX-2 box, 600 GB/s; on the torus 8 are a ring of 62 GB/s each way, and tp "
    "16 is two",
    "what reaches farther has 37.5 GB/s for each NPU between boxes, 62 GB/s each way around the torus' other dimension",
    "pipelines wait for the stages before them, the same on both: the network hardly shows",
)


def _best(model: str, found: Found) -> str:
    of = {step: sum(parts.values()) for step, (parts, _) in found.items() if step[0] == model}
    best = min(of, key=lambda step: of[step])
    return f"{best[1]} on {best[2]}, {time_text(1e9 * of[best])}"
