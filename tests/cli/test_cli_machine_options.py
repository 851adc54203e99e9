"""Machines with a size, figures changed and slow ranks, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrasim.cli.machine_options import add_machine, machine_of
from chakrasim.cli.main import main
from chakrasim.cli.options import Parser
from chakrasim.errors import InputError
from chakrasim.machine import Machine, load_machine
from conftest import Job


def described(*words: str) -> Machine:
    parser = Parser()
    add_machine(parser)
    return machine_of(parser.parse_args(list(words)))


def test_a_size_is_that_of_the_board() -> None:
    found = described(
        "--machine", "h100", "--gpus", "32", "--nic", "200G", "--fabric", "fat-tree", "--oversubscription", "2"
    )
    assert found.ranks == 32
    down, up = (found.graph.link_names.index(name) for name in ("nic0-leaf0", "leaf0-spine0"))
    assert found.graph.capacity[[down, up]].tolist() == [25, 25]
    assert sum(name.startswith("spine") for name in found.graph.names) == 16


def test_figures_and_slow_ranks() -> None:
    found = described(
        "--machine", "hgx-h100-4", "--set", "network[0].latency=2 us", "--slow", "1=1.5", "--slow", "2-3=2"
    )
    assert found.dimensions.latency_ns == (2000,)
    assert found.compute_factors.tolist() == [1, 1.5, 2, 2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--gpus", "8"), "--gpus needs --machine"),
        (("--machine", "hgx-h100-4", "--nic", "400G"), "nic has no effect on this machine"),
        (("--machine", "hgx-h100-4", "--set", "latency"), "--set: not PATH=VALUE"),
        (("--machine", "hgx-h100-4", "--set", "network[0].latency=[1"), "--set network"),
        (("--machine", "hgx-h100-4", "--slow", "1"), "--slow: not RANKS=FACTOR"),
        (("--machine", "hgx-h100-4", "--slow", "1=fast"), "out of range; found 'fast'"),
        (("--machine", "hgx-h100-4", "--slow", "4=2"), "there is no such rank; found 4; expected 0 to 3"),
        (("--machine", "hgx-h100-4", "--slow", "board 0=2"), "the machine has no boards"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        described(*words)
    assert expected in str(caught.value)


def test_a_sized_machine_is_printed_as_a_file_that_reads_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["machines", "h100", "--gpus", "64", "--fabric", "one-switch"]) == 0
    (tmp_path / "m.yaml").write_text(capsys.readouterr().out)
    printed, made = load_machine(str(tmp_path / "m.yaml")), load_machine("h100", gpus=64, fabric="one-switch")
    assert printed.graph.link_names == made.graph.link_names
    assert printed.system == made.system
    assert printed.source == made.source
    assert main(["machines", "dgx-1v"]) == 0
    assert "ranks: 8" in capsys.readouterr().out
    assert main(["machines", "h100"]) == 0
    assert "peak:" in capsys.readouterr().out


def test_machines_lists_boards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    assert "gb200        72  nvswitch, 900 GB/s     72 x 400 Gb/s" in capsys.readouterr().out


def test_simulate_takes_a_changed_figure(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    (job.folder / "m.yaml").write_text(
        "network:\n  - {topology: Switch, npus: 2, bandwidth: 1 GB/s, latency: 1 us}\n"
        "collectives: {splits: 1, endpoint-delay: 0 ns, algorithms: {all-reduce: ring}}\n"
    )
    times = []
    for more in ([], ["--set", "network[0].latency=101 us"]):
        assert main(["simulate", job.prefix, "--machine", str(job.folder / "m.yaml"), "--json", "-", *more]) == 0
        out = capsys.readouterr().out
        times.append(int(out.split('"makespan_ns":')[1].split(",")[0]))
    # A ring of two sends twice; each message crosses two links of the switch, each 100 us longer.
    assert times[1] - times[0] == 2 * 2 * 100_000


def test_what_if_with_other_nics_is_simulated_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        "model: {layers: 2, hidden: 1024, heads: 8, vocabulary: 1024, sequence: 512}\nparallel: {dp: 16}\n"
    )
    step = str(tmp_path / "step")
    assert main(["generate", "transformer", "--spec", str(tmp_path / "s.yaml"), "-o", step, "--quiet"]) == 0
    out, on = tmp_path / "w.json", ["--machine", "h100", "--gpus", "16"]
    ends = {}
    for nic in ("400G", "100G"):
        assert main(["simulate", step, *on, "--nic", nic, "--json", str(out), "--quiet"]) == 0
        ends[nic] = json.loads(out.read_text())["makespan_ns"]
    assert main(["what-if", step, *on, "--nic", "400G", "--set", "nic=100G", "--json", str(out), "--quiet"]) == 0
    said = out.read_text()
    assert all(str(end) in said for end in ends.values()) and ends["100G"] > ends["400G"]
    capsys.readouterr()
    assert main(["what-if", step, *on, "--nic", "100G"]) == 2
    assert "--set nic=100G asks what would be" in capsys.readouterr().err
