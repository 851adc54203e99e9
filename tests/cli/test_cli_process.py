"""The command as a process: start-up, signals, pipes and terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chakrasim import write
from chakrasim.cli import main
from chakrasim.trace import TraceBuilder

SOURCE = Path(__file__).resolve().parents[2] / "src"


def start(*argv, **settings):
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(SOURCE)]))
    command = [sys.executable, "-m", "chakrasim", *map(str, argv)]
    settings.setdefault("stdout", subprocess.PIPE)
    settings.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path, **settings.pop("env", {})}, **settings)


def test_help_starts_fast_and_imports_little():
    code = "import sys; from chakrasim.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(SOURCE)]))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: chakrasim")
    heavy = {"numba", "numpy", "rich", "yaml", "pandas"}
    assert not heavy & set(done.stderr.split())


def test_version():
    out, err = start("--version").communicate(timeout=60)
    assert out.startswith(b"chakrasim ") and err == b""


def test_nobody_reads_the_output(job):
    process = start(*job.simulate, "--compat-log")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=120) == 141
    assert b"Traceback" not in err and b"Exception ignored" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk():
    with open("/dev/full", "wb") as full:
        process = start("machines", "hgx-h100-8", stdout=full)
    err = process.stderr.read()
    assert process.wait(timeout=60) == 2
    assert err == b"chakrasim: error: the operating system refuses: No space left on device\n"


def test_an_ascii_terminal_shows_any_name(job):
    env = {"PYTHONIOENCODING": "ascii"}
    figures = job.folder / "é.json"
    out, err = start(*job.simulate, "--json", figures, env=env).communicate(timeout=120)
    assert b"Where the time goes" in out and b"\\xe9.json" in out
    assert figures.exists() and err == b""


def test_on_a_terminal_the_table_is_styled(job):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = start(*job.simulate, stdout=slave, env={"TERM": "xterm", "COLUMNS": "60"})
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    assert process.wait(timeout=120) == 0
    assert b"\x1b[1m" in shown and b"ASTRA-sim exposed" in shown
    os.close(master)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [(signal.SIGINT, 130, b"chakrasim: interrupted; "), (signal.SIGTERM, 143, b"chakrasim: terminated; ")],
)
def test_signals_leave_nothing_behind(job, sent, status, said):
    builder = TraceBuilder()
    for number in range(300):
        attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20}
        builder.add(number, type=7, data_deps=[number - 1] if number else [], attrs=attrs)
    (path,) = write(job.folder / "long", [builder.build()])
    # Uncompiled, this runs for minutes; the warning shows that the command is past its start.
    argv = ["simulate", path, "--ranks", 64, "--machine", "paper-torus-8x8", "--no-fold", "--run-name=1"]
    figures = job.folder / "r.json"
    process = start(*argv, "--congestion", "aware", "--json", figures, env={"CHAKRASIM_JIT": "0"})
    assert process.stderr.readline() == b"chakrasim: warning: --run-name has no effect\n"
    time.sleep(1.5)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.splitlines()[-1]) == (status, b"", said + b"nothing was written")
    assert not [name for name in os.listdir(job.folder) if "r.json" in name]


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    ("sent", "status", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_is_what_ended_it_whatever_became_of_the_exception(sent, status, said, monkeypatch, capsys):
    """NumPy's comparisons, for one, raise a TypeError of their own when a signal comes."""

    def compare(_):
        try:
            os.kill(os.getpid(), sent)
            time.sleep(10)
        except KeyboardInterrupt:
            raise TypeError("cannot compare") from None

    before = signal.getsignal(sent)
    monkeypatch.setattr(main, "_run", compare)
    assert main.main(["info"]) == status
    assert capsys.readouterr().err.startswith(f"chakrasim: {said}; ")
    assert signal.getsignal(sent) is before
