"""The workloads and machines of the reference data: an LLM step rank by rank, micro-benchmarks on all that fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from cases import differences

import chakrasim
from chakrasim import InputError

MODES: tuple[Literal["aware", "unaware"], ...] = ("aware", "unaware")


def _llm_runs(shared: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((shared / "golden" / "stage-llm16.json").read_text())
    return runs


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_llm_step_equals_the_reference_on_every_rank(number: int, fold: bool, shared_dir: Path) -> None:
    run = _llm_runs(shared_dir)[number]
    folder = shared_dir / "workloads" / "stage-llm16"
    result = chakrasim.simulate(
        folder / "w",
        system=run["system"],
        network=run["network"],
        comm_groups=folder / "w.json",
        congestion=run["mode"],
        fold=fold,
    )
    numbers = zip(result.finish_ns.tolist(), result.exposed_comm_ns.tolist(), strict=True)
    assert [list(pair) for pair in numbers] == run["expected"]


def _machines(shared: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of network and system file that belong together, and every network with the plain ring system."""
    folder = shared / "configs" / "astra-sim"
    for network in sorted(folder.glob("*.yml")):
        name = network.name.replace("examples_network_analytical", "examples_system_native_collectives")
        paired = folder / name.replace("inputs_network", "inputs_system_analytical").replace(".yml", ".json")
        yield network, paired if paired.is_file() else folder / "Ring_4chunks.json"


def _ranks(network: Path) -> int:
    return prod(yaml.safe_load(network.read_text())["npus_count"])


def _micro_benchmarks(shared: Path, ranks: int) -> list[Path]:
    return sorted((shared / "workloads" / "microbenchmarks").glob(f"*/{ranks}npus_*/*.0.et"))


def test_micro_benchmarks_run_on_every_machine_that_fits(shared_dir: Path) -> None:
    runs = 0
    for network, system in _machines(shared_dir):
        if "tbd" in network.read_text().split("\nbandwidth", 1)[1][:60]:
            continue
        for first in _micro_benchmarks(shared_dir, _ranks(network)):
            prefix = first.with_name(first.name.removesuffix(".0.et"))
            for mode in MODES:
                folded = chakrasim.simulate(prefix, system=system, network=network, congestion=mode)
                single = chakrasim.simulate(prefix, system=system, network=network, congestion=mode, fold=False)
                assert differences(folded, single) == []
                # A MiB at 50 to 820 GB/s, in a few dozen steps of some hundred ns.
                assert 1_000 < folded.makespan_ns < 10_000_000, (network.name, first.name, mode)
                runs += 1
    assert runs >= 60


def test_one_micro_benchmark_trace_runs_on_machines_of_other_sizes(shared_dir: Path) -> None:
    trace = chakrasim.read(shared_dir / "workloads" / "microbenchmarks" / "all_reduce" / "8npus_1MB" / "all_reduce")[0]
    spans = {}
    for network, system in _machines(shared_dir):
        if "tbd" in network.read_text():
            continue
        result = chakrasim.simulate(trace, ranks=_ranks(network), system=system, network=network, congestion="aware")
        spans[network.name] = result.makespan_ns
    assert len(spans) >= 12
    assert spans["inputs_network_tpu_v3_32_ring.yml"] > 2 * spans["inputs_network_tpu_v3_8.yml"]


def test_the_file_with_figures_to_be_determined_is_refused(shared_dir: Path) -> None:
    folder = shared_dir / "configs" / "astra-sim"
    with pytest.raises(InputError, match=r"inputs_network_dgx_v100_8gpu\.yml.*bandwidth.*tbd"):
        chakrasim.simulate(
            shared_dir / "workloads" / "microbenchmarks" / "all_reduce" / "8npus_1MB" / "all_reduce",
            system=folder / "Ring_4chunks.json",
            network=folder / "inputs_network_dgx_v100_8gpu.yml",
        )


def test_published_end_to_end_figures(shared_dir: Path) -> None:
    folder = shared_dir / "configs" / "astra-sim"
    micro = shared_dir / "workloads" / "microbenchmarks"
    ring = json.loads((folder / "Ring_4chunks.json").read_text())
    gather = chakrasim.simulate(
        micro / "all_gather" / "16npus_1MB" / "all_gather",
        system=ring,
        network=folder / "Ring_16npus.yml",
        congestion="aware",
    )
    assert set(gather.finish_ns.tolist()) == {323_560}
    reduce = chakrasim.simulate(
        micro / "all_reduce" / "8npus_1MB" / "all_reduce",
        system={**ring, "local-mem-bw": 50},
        network=folder / "Ring_8npus.yml",
        congestion="aware",
    )
    assert set(reduce.finish_ns.tolist()) == {117_780}
    assert set(reduce.exposed_comm_ns.tolist()) == {117_780}


def test_the_custom_all_reduce_equals_a_hand_count(shared_dir: Path) -> None:
    prefix = shared_dir / "workloads" / "custom-collectives" / "custom_allreduce"
    ring = json.loads((shared_dir / "configs" / "astra-sim" / "Ring_4chunks.json").read_text())
    del ring["all-reduce-implementation"]
    system = {**ring, "preferred-dataset-splits": 1, "all-reduce-implementation-custom": [str(prefix)]}
    results = [
        chakrasim.simulate(
            shared_dir / "workloads" / "microbenchmarks" / "all_reduce" / "8npus_1MB" / "all_reduce",
            system=system,
            network=shared_dir / "configs" / "astra-sim" / "Ring_8npus.yml",
            congestion="aware",
            fold=fold,
        )
        for fold in (True, False)
    ]
    assert differences(*results) == []
    # 14 steps of a message of an eighth, of which the first 7 are followed by a reduction of 7 us.
    step_ns = int(500 + 131072 / (50 * 2**30 / 10**9))
    assert set(results[0].finish_ns.tolist()) == {14 * step_ns + 7 * 7000}
