"""Whatever is wrong with a command line ends with exit code 2 and one message that says what to do."""

from __future__ import annotations

import argparse
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.cli.main import COMMANDS, main
from chakrasim.cli.options import amount, real_number, truth, whole_number


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["simulte", "w"],
            f"unknown command 'simulte'; expected one of {', '.join(COMMANDS)}; did you mean simulate?",
        ),
        (["simulate"], "no workload is given; expected a prefix"),
        (["simulate", "w"], "no machine is given; expected --machine NAME, or --system FILE and --network FILE"),
        (["simulate", "w", "--system", "s"], "--network is missing"),
        (["simulate", "w", "--network", "s"], "--system is missing"),
        (["simulate", "w", "--machine", "m", "--system", "s"], "--machine cannot be combined with --system"),
        (["simulate", "w", "--workload-configuration", "v"], "the workload is given twice; found 'w' and"),
        (["simulate", "w", "--sistem", "s"], "unknown option or argument '--sistem'; did you mean --system?"),
        (["simulate", "w", "--mach", "s"], "unknown option or argument '--mach'; did you mean --machine?"),
        (["simulate", "w", "--num-queue-per-dim=2"], "did you mean --num-queues-per-dim?"),
        (["simulate", "w", "x", "--machine", "m"], "unknown option or argument 'x'; see chakrasim simulate --help"),
        (["simulate", "w", "--ranks", "0"], "argument --ranks: found '0', expected an integer from 1 to 2147483647"),
        (["simulate", "w", "--ranks", "two"], "found 'two', expected an integer"),
        (["simulate", "w", "--num-queues-per-dim", "99999"], "expected an integer from 1 to 65536"),
        (["simulate", "w", "--injection-scale", "nan"], "found 'nan', expected a number"),
        (["simulate", "w", "--compute-scale", "x"], "found 'x', expected a number"),
        (["simulate", "w", "--rendezvous-protocol=maybe"], "found 'maybe', expected true or false"),
        (["simulate", "w", "--congestion", "some"], "invalid choice: 'some'"),
        (["simulate", "w", "--max-bytes", "lots"], "found 'lots', expected an amount such as 200000, 1e9 or 8GiB"),
        (["simulate", "w", "--json"], "argument --json: expected one argument; see chakrasim simulate --help"),
        (["simulate", "w", "--machine", "m", "--json", "-", "--compat-log"], "both want standard output"),
        (["simulate", "w", "--machine", "m", "--timeline", "-"], "a timeline cannot go to standard output"),
        (["simulate", "w", "--machine", "m", "--check", "--timeline", "t"], "there is nothing for --timeline"),
        (["simulate", "w", "--machine", "m", "--check", "--compat-log"], "there is nothing for --compat-log"),
        (["info"], "the following arguments are required: PREFIX; see chakrasim info --help"),
        (["info", "w", "--jsn", "-"], "did you mean --json?"),
        (["--vershun"], "did you mean --version?"),
    ],
)
def test_command_lines(refused, argv, message):
    assert message in refused(*argv)


def test_inputs(refused, job):
    assert "there are no trace files under this prefix" in refused("simulate", job.folder / "x", *job.machine)
    one = f"{job.prefix}.0.et"
    assert refused("simulate", one, *job.machine).startswith(f"{one}: this is one file, not the prefix of the traces")
    assert "neither a preset nor a machine file" in refused("simulate", job.prefix, "--machine", "hgx-h100-5")
    assert "system" in refused("simulate", job.prefix, "--system", job.folder / "x", "--network", job.network)
    assert "the network has 4 NPUs" in refused("simulate", job.prefix, "--machine", "hgx-h100-4")
    assert "3 ranks" in refused("simulate", f"{job.prefix}.0.et", "--ranks", 3, *job.machine)
    assert "there are no trace files" in refused("info", job.folder / "x")
    assert refused("simulate", job.prefix, "--machine", job.folder)
    assert refused("simulate", job.prefix, "--machine", "")
    assert refused("simulate", "a\0b", *job.machine)
    assert refused("simulate", job.prefix, *job.machine, "--comm-group", job.folder / "none.json")
    assert refused("simulate", job.prefix, *job.machine, "--memory", job.network)


def test_outputs_are_checked_before_the_run(refused, job):
    beyond = f"{job.system}/none/r.json"
    assert f"its folder cannot be made; found no folder: {job.system}" in refused(*job.simulate, "--json", beyond)
    assert "it is a folder" in refused(*job.simulate, "--timeline", job.folder)
    assert "no file name" in refused(*job.simulate, "--json", "a\0b")
    same = job.folder / "r.json"
    assert "name the same file" in refused(*job.simulate, "--json", same, "--timeline", same)
    assert "--json would replace an input" in refused(*job.simulate, "--json", job.system)
    assert "--timeline would replace an input" in refused(*job.simulate, "--timeline", f"{job.prefix}.1.et")
    assert "would replace an input" in refused("info", job.prefix, "--json", f"{job.prefix}.0.et")


def test_what_does_not_fit_the_machine_names_its_file(refused, job):
    groups = job.folder / "groups.json"
    groups.write_text('{"1": [0, 1], "7": [1, 99]}')
    message = refused(*job.simulate, "--comm-group", groups)
    assert message == (
        f"{groups}: $.7[1]: no such rank; found 99; expected a rank below 2, the number of ranks of the machine"
    )
    message = refused("retarget", job.prefix, "--to", "4", "-o", job.folder / "o", "--comm-group", groups)
    assert message.startswith(f"{groups}: process group 7 names a rank without a trace; found rank 99; ")
    memory = job.folder / "memory.json"
    nodes = {"num-nodes": 1, "num-npus-per-node": 1, "remote-mem-latency": 1, "remote-mem-bw": 1}
    memory.write_text(json.dumps({"memory-type": "PER_NODE_MEMORY_EXPANSION", **nodes}))
    assert refused(*job.simulate, "--memory", memory).startswith(f"{memory}: $.num-nodes: too few memory nodes")


def test_strict_refuses_warnings_before_the_run(cli, refused, job):
    message = refused(*job.simulate, "--strict", "--comm-scale=2")
    assert message == "1 warning in strict mode: --comm-scale has no effect"
    system = job.folder / "system.json"
    system.write_text(system.read_text().replace('"local-mem-bw"', '"surprise": 1, "local-mem-bw"'))
    assert "surprise" in refused(*job.simulate, "--strict")
    outcome = cli(*job.simulate, "--quiet")
    assert outcome.code == 0 and outcome.err.count("surprise") == 1


def test_help_and_version_have_examples(cli):
    assert cli("--version").out.startswith("chakrasim ")
    for argv in (["--help"], ["simulate", "--help"], ["info", "-h"], ["machines", "--help"]):
        outcome = cli(*argv)
        assert outcome.code == 0 and "examples:" in outcome.out and outcome.err == ""
    assert cli().out == cli("--help").out


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e9", 10**9),
        ("8GiB", 8 << 30),
        ("2 kb", 2000),
        ("1.5K", 1500),
        ("3MiB", 3 << 20),
        ("5T", 5 * 10**12),
    ],
)
def test_amounts(text, value):
    assert amount(text) == value


@settings(max_examples=100)
@given(st.text(max_size=12), st.sampled_from([amount, real_number, truth, whole_number(0, 9)]))
def test_values_are_taken_or_refused(text, kind):
    try:
        kind(text)
    except argparse.ArgumentTypeError as refusal:
        assert "expected" in str(refusal)


WORDS = st.one_of(
    st.sampled_from(
        ["simulate", "info", "machines", "--machine", "hgx-h100-2", "--json", "-", "--", "--ranks", "-1", "="]
    ),
    st.text(st.characters(codec="utf-8"), max_size=6),
)


@settings(max_examples=60)
@given(st.lists(WORDS, max_size=6))
def test_any_words_end_with_a_code(words):
    assert main(words) in (0, 2)
