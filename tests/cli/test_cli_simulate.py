"""``chakrasim simulate`` in process: every option does what it says."""

from __future__ import annotations

import json

import pytest

from chakrasim import jit, write
from chakrasim.trace import TraceBuilder


def finish(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["finish_ns"]


@pytest.fixture
def finish_ns(cli, job):
    """The finish time that the shortest command line gives."""
    (first, second) = finish(cli(*job.simulate, "--json", "-"))
    assert first == second > 20_000
    return first


def test_prints_tables(cli, job, finish_ns):
    outcome = cli(*job.simulate)
    assert outcome.code == 0 and outcome.err == ""
    assert f"({finish_ns:,} ns)" in outcome.out
    for title in ("Where the time goes", "By rank", "Collectives"):
        assert title in outcome.out
    assert "\x1b" not in outcome.out


def test_names_of_the_reference_give_the_same(cli, job, finish_ns):
    argv = [
        "simulate",
        f"--workload-configuration={job.prefix}",
        "--system-configuration",
        job.system,
        f"--network-configuration={job.network}",
        "--remote-memory-configuration",
        job.memory,
        "--comm-group-configuration=empty",
        "--num-queues-per-dim=1",
        "--injection-scale=1",
        "--rendezvous-protocol=false",
        "--json=-",
    ]
    outcome = cli(*argv)
    assert finish(outcome) == [finish_ns] * 2 and outcome.err == ""


def test_options_without_effect_are_warned_about(cli, job, finish_ns):
    extra = ["--logging-configuration=empty", "--logging-folder", "log", "--compute-scale=2", "--comm-scale=2"]
    outcome = cli(*job.simulate, *extra, "--json", "-")
    assert finish(outcome) == [finish_ns] * 2
    assert outcome.err.splitlines() == [
        f"chakrasim: warning: {name} has no effect"
        for name in ("--compute-scale", "--comm-scale", "--logging-configuration", "--logging-folder")
    ]


def test_scales_act_on_a_machine_of_ours(cli, tmp_path):
    file = tmp_path / "machine.yaml"
    file.write_text(
        "network: [{topology: Ring, npus: 2, bandwidth: 1 GB/s, latency: 0 ns}]\nmemory: {bandwidth: 1 TB/s}\n"
        "collectives: {splits: 1, algorithms: {all-reduce: ring}}\ncompute-scale: 5\n"
    )
    builder = TraceBuilder()
    builder.add(0, type=4, duration_micros=8, attrs={"is_cpu_op": False})
    (path,) = write(tmp_path / "one", [builder.build()])
    argv = ["simulate", path, "--ranks", 2, "--machine", file, "--json", "-"]
    assert finish(cli(*argv)) == [40_000] * 2
    assert finish(cli(*argv, "--compute-scale=0.5", "--comm-scale=2")) == [4_000] * 2
    outcome = cli(*argv, "--compute-scale=-1")
    assert outcome.code == 2 and "compute_scale: out of range; found -1.0" in outcome.err


def test_injection_scale_and_congestion_reach_the_model(cli, job, finish_ns):
    assert finish(cli(*job.simulate, "--injection-scale", "100", "--json", "-"))[0] > finish_ns
    aware = json.loads(cli(*job.simulate, "--congestion", "aware", "--json", "-").out)
    assert aware["congestion"] == "aware" and aware["links"]["name"]


@pytest.mark.parametrize(("word", "on"), [("--rendezvous-protocol", 1), ("--rendezvous-protocol=false", 0)])
def test_rendezvous_alone_takes_no_word(cli, job, word, on):
    builder = TraceBuilder()
    builder.add(1, type=5, attrs={"is_cpu_op": False, "comm_dst": 1, "comm_size": 8, "comm_tag": 1})
    other = TraceBuilder()
    other.add(1, type=6, attrs={"is_cpu_op": False, "comm_src": 0, "comm_size": 8, "comm_tag": 1})
    write(job.folder / "p", [builder.build(), other.build()])
    plain = finish(cli("simulate", job.folder / "p", *job.machine, "--json", "-"))
    got = finish(cli("simulate", word, job.folder / "p", *job.machine, "--json", "-"))
    assert (got > plain) == bool(on)


def test_one_trace_for_all_ranks(cli, job, finish_ns):
    argv = ["simulate", f"{job.prefix}.0.et", "--ranks", 2, *job.machine, "--json", "-"]
    assert finish(cli(*argv)) == [finish_ns] * 2


def test_machine_and_no_fold(cli, job):
    folded = json.loads(cli("simulate", job.prefix, "--machine", "hgx-h100-2", "--json", "-").out)
    single = json.loads(cli("simulate", job.prefix, "--machine", "hgx-h100-2", "--no-fold", "--json", "-").out)
    assert folded["finish_ns"] == single["finish_ns"]
    assert folded["classes"] == [0, 0] and single["classes"] == [0, 1]


def test_quiet_says_nothing(cli, job):
    outcome = cli(*job.simulate, "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_check_does_not_run(cli, job):
    outcome = cli(*job.simulate, "--check")
    assert outcome.out == "the input is valid: 2 ranks, no warnings; nothing was simulated\n"
    content = json.loads(cli(*job.simulate, "--check", "--json", "-").out)
    assert not content["simulated"]


def test_compat_log_has_the_lines_and_no_table(cli, job, finish_ns):
    outcome = cli(*job.simulate, "--compat-log")
    first = f"sys[0] finished, {finish_ns} cycles, exposed communication {finish_ns - 20000} cycles."
    assert outcome.out.splitlines()[0] == first
    assert all(line.startswith("sys[") for line in outcome.out.splitlines())


def test_files_are_written_and_named(cli, job):
    figures, timeline = job.folder / "r.json", job.folder / "t.json"
    outcome = cli(*job.simulate, "--json", figures, "--timeline", timeline)
    assert outcome.out.endswith(f"\nfigures written to {figures}\ntimeline written to {timeline}\n")
    assert json.loads(figures.read_text())["ranks"] == 2
    assert json.loads(timeline.read_text())["traceEvents"]


def test_json_is_the_same_twice_and_from_another_folder(cli, job, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for file in job.folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    argv = ["simulate", other / "w", "--system", other / "system.json", "--network", other / "net.yml", "--json", "-"]
    assert cli(*argv).out == cli(*job.simulate, "--json", "-").out


def test_physics_runs_broadcasts(cli, job):
    builder = TraceBuilder()
    builder.add(1, type=7, attrs={"is_cpu_op": False, "comm_type": 5, "comm_size": 1 << 20})
    write(job.folder / "b", [builder.build()] * 2)
    argv = ["simulate", job.folder / "b", *job.machine]
    assert "NO BYTES WERE MOVED" in cli(*argv).out
    assert "NO BYTES WERE MOVED" not in cli(*argv, "--physics").out


def test_groups(cli, job, refused):
    builder = TraceBuilder()
    builder.add(1, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20, "pg_name": "1"})
    write(job.folder / "g", [builder.build()] * 2)
    (job.folder / "groups.json").write_text('{"1": [0, 1]}')
    argv = ["simulate", job.folder / "g", *job.machine, "--quiet"]
    assert cli(*argv, "--comm-group", job.folder / "groups.json").code == 0
    (job.folder / "empty.json").write_text('{"1": [0, 1]}')
    outcome = cli(*argv, "--comm-group", job.folder / "empty.json")
    assert outcome.code == 2
    assert "is not read: a name that contains 'empty' means no groups" in outcome.err


def test_lenient_uses_the_intact_beginning(cli, job, refused):
    builder = TraceBuilder()
    for number in (1, 2):
        builder.add(number, type=4, duration_micros=number, attrs={"is_cpu_op": False})
    paths = write(job.folder / "d", [builder.build()] * 2)
    whole = (job.folder / "d.1.et").read_bytes()
    (job.folder / "d.1.et").write_bytes(whole[:-3])
    argv = ["simulate", job.folder / "d", *job.machine]
    assert "d.1.et" in refused(*argv) and len(paths) == 2
    outcome = cli(*argv, "--lenient", "--json", "-")
    assert finish(outcome) == [3000, 1000]
    assert "kept the 1 nodes before it" in outcome.err
    assert "kept the 1 nodes" in cli("info", job.folder / "d", "--lenient").err


def test_limits(refused, job):
    assert "max_nodes" in refused(*job.simulate, "--max-nodes", 1)


def test_first_run_says_that_it_compiles(cli, job, monkeypatch):
    monkeypatch.setattr(jit, "is_cold", lambda room: True)
    assert "compiling (first run only" in cli(*job.simulate).err
    assert cli(*job.simulate, "--quiet").err == ""


def test_interrupted(cli, job, monkeypatch):
    import chakrasim.simulator.api as api

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "simulate", interrupt)
    outcome = cli(*job.simulate, "--json", job.folder / "r.json")
    assert (outcome.code, outcome.err) == (130, "chakrasim: interrupted; nothing was written\n")
    assert not (job.folder / "r.json").exists()


def test_interrupted_between_the_files(cli, job, monkeypatch):
    import chakrasim.report.timeline.simulation as timeline

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(timeline, "write_timeline", interrupt)
    outcome = cli(*job.simulate, "--json", job.folder / "r.json", "--timeline", job.folder / "t.json")
    assert outcome.err == f"chakrasim: interrupted; only {job.folder / 'r.json'} was written\n"


def test_a_stall_prints_who_waits(cli, job):
    builder = TraceBuilder()
    builder.add(1, name="get", type=6, attrs={"is_cpu_op": False, "comm_src": 1, "comm_size": 8, "comm_tag": 1})
    idle = TraceBuilder()
    idle.add(1, type=4, duration_micros=1, attrs={"is_cpu_op": False})
    write(job.folder / "s", [builder.build(), idle.build()])
    outcome = cli("simulate", job.folder / "s", *job.machine)
    assert outcome.code == 3 and outcome.out == ""
    assert outcome.err.startswith("chakrasim: error: ")
    assert "rank 0" in outcome.err and "'get'" in outcome.err


def test_machines(cli, refused):
    listed = cli("machines").out
    assert "hgx-h100-8" in listed and "paper-torus-8x8" in listed and "Ring 8 x Ring 8" in listed
    assert cli("machines", "hgx-h100-8").out.startswith("#")
    assert "did you mean hgx-h100-8?" in refused("machines", "hgx-h100-9")


def test_info(cli, job):
    outcome = cli("info", job.prefix)
    assert "2 (1 distinct trace)" in outcome.out and "all-reduce" in outcome.out
    content = json.loads(cli("info", job.prefix, "--json", "-").out)
    assert content["ranks"] == 2 and content["collectives"][0]["bytes"] == 2 << 20
    one = json.loads(cli("info", f"{job.prefix}.0.et", "--ranks", 8, "--json", "-").out)
    assert one["ranks"] == 8
    path = job.folder / "i.json"
    assert cli("info", job.prefix, "--json", path).code == 0
    assert json.loads(path.read_text()) == content


def test_a_device_profile_times_nodes_that_say_their_work(cli, job, finish_ns, tmp_path):
    # The job's node says nothing of its work: it keeps its duration.
    outcome = cli(*job.simulate, "--device-profile", "h100", "--json", "-")
    assert finish(outcome) == [finish_ns, finish_ns]
    assert json.loads(outcome.out)["counts"]["compute nodes that keep their recorded duration"] == 2
    builder = TraceBuilder()
    attrs = {"is_cpu_op": False, "num_ops": 10**12, "tensor_size": 10**6}
    builder.add(0, name="mm", type=4, attrs=attrs)
    write(str(tmp_path / "mm"), [builder.build()])
    argv = ["simulate", str(tmp_path / "mm.0.et"), "--ranks", "2", *job.machine, "--json", "-"]
    slow, fast = (finish(cli(*argv, "--device-profile", name))[0] for name in ("v100", "h100"))
    assert slow > 5 * fast > 10**6
    outcome = cli(*argv, "--device-profile", "h10")
    assert outcome.code == 2
    assert "neither a shipped device nor a file; found 'h10'" in outcome.err


def test_machines_lists_and_prints_devices(cli):
    assert "Devices (--device-profile)" in cli("machines").out
    assert cli("machines", "h100").out.startswith("# NVIDIA H100 SXM5 80 GB.")


def test_groups_take_their_dimensions_where_that_is_asked_for(cli, tmp_path):
    links = {"topology": "FullyConnected", "latency": "0 ns"}
    dims = [{**links, "npus": 2, "bandwidth": "80 GiB/s"}, {**links, "npus": 2, "bandwidth": "10 GiB/s"}]
    collectives = {"splits": 1, "algorithms": {"all-reduce": "ring"}}
    machine = {"network": [*dims, dims[1]], "collectives": collectives}
    (tmp_path / "machine.yaml").write_text(json.dumps(machine))
    (tmp_path / "groups.json").write_text('{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}')
    traces = []
    for rank in range(8):
        builder = TraceBuilder()
        attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20, "pg_name": str(1 + rank // 4)}
        builder.add(0, type=7, attrs=attrs)
        traces.append(builder.build())
    write(tmp_path / "w", traces)
    run = ("simulate", tmp_path / "w", "--machine", tmp_path / "machine.yaml", "--comm-group", tmp_path / "groups.json")
    for option, algorithm in (((), "ring"), (("--group-dimensions",), "ring,ring")):
        outcome = cli(*run, "--congestion", "aware", "--json", "-", *option)
        assert outcome.code == 0
        assert [one["algorithm"] for one in json.loads(outcome.out)["collectives"]] == [algorithm]
    assert "no dimensions to give to groups" in cli(*run, "--network-model", "flow", "--group-dimensions").err
