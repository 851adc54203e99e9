"""The package as users get it: the wheel and what it holds, what an import costs, the demo, the Makefile."""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import chakrasim
from chakrasim.cli.main import main
from chakrasim.demo import GROUPS, MACHINES, STEP
from chakrasim.demo.layout import table
from chakrasim.trace import encode_trace

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))
make_demo_step = importlib.import_module("make_demo_step")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; the dependencies are those of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    bin_folder = folder / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / ("python.exe" if os.name == "nt" else "python")
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return bin_folder


def run_installed(installed: Path, *command: str, folder: Path) -> str:
    """Standard output of a command of the fresh environment, which does not see this project's sources."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(installed / command[0]), *command[1:]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_holds_code_types_and_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = ("py.typed", "machine/presets/hgx-h100-8.yaml", "demo/step/groups.json", "demo/machines/ring-16.yaml")
    assert {f"chakrasim/{name}" for name in data} <= names
    assert {f"chakrasim/demo/step/step.{rank}.et.gz" for rank in range(16)} <= names
    assert not [name for name in names if not name.startswith(("chakrasim/", "chakrasim-"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_installed_command_says_its_version(installed: Path, tmp_path: Path) -> None:
    assert run_installed(installed, "chakrasim", "--version", folder=tmp_path).split()[-1] == chakrasim.__version__


def test_installed_package_is_complete(installed: Path, tmp_path: Path) -> None:
    code = (
        "import chakrasim, json\n"
        "from pathlib import Path\n"
        "from chakrasim.machine import load_machine, preset_names\n"
        "from chakrasim.demo import STEP, GROUPS, MACHINES\n"
        "home = Path(chakrasim.__file__).parent\n"
        "presets = [load_machine(name, chakrasim.Notes()).name for name in preset_names()]\n"
        "ranks = [load_machine(machine, chakrasim.Notes()).network.ranks for machine in MACHINES.values()]\n"
        "traces = len(list(STEP.parent.glob('*.et.gz')))\n"
        "print(json.dumps([str(home), (home / 'py.typed').is_file(), presets, ranks, traces]))"
    )
    home, typed, presets, ranks, traces = json.loads(run_installed(installed, "python", "-c", code, folder=tmp_path))
    assert Path(home).is_relative_to(installed.parent) and typed
    assert len(presets) == 20
    assert ranks == [16, 16, 16, 16]
    assert traces == 16


def test_import_is_cheap() -> None:
    heavy = ("numba", "rich", "pandas", "yaml", "argparse", "chakrasim.simulator", "chakrasim.machine")
    code = f"import chakrasim, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        chakrasim.simulat  # noqa: B018


def test_the_script_makes_the_shipped_step() -> None:
    # The uncompressed bytes: compressors may differ in theirs.
    for rank in range(make_demo_step.RANKS):
        shipped = gzip.decompress(Path(f"{STEP}.{rank}.et.gz").read_bytes())
        assert shipped == encode_trace(make_demo_step.rank_trace(rank)), rank
    assert json.loads(GROUPS.read_text(encoding="utf-8")) == make_demo_step.groups()


def test_pipeline_runs_one_forward_one_backward() -> None:
    first, last = ([f"{kind[0]}{batch}" for kind, batch in make_demo_step.schedule(stage)] for stage in (0, 1))
    assert first == ["f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"]
    assert last == ["f0", "b0", "f1", "b1", "f2", "b2", "f3", "b3"]


def test_every_rank_is_in_one_tensor_and_one_data_group() -> None:
    groups = make_demo_step.groups()
    assert sorted(map(len, groups.values())) == [2] * 8 + [4] * 4
    assert sorted(rank for members in groups.values() for rank in members) == sorted([*range(16), *range(16)])
    assert groups["1"] == [0, 1, 2, 3] and groups["5"] == [0, 4]


@pytest.mark.parametrize("congestion", ["unaware", "aware"])
def test_the_step_does_not_depend_on_folding(congestion: str) -> None:
    for machine in MACHINES.values():
        runs = [
            chakrasim.simulate(STEP, machine=machine, comm_groups=GROUPS, congestion=congestion, fold=fold)  # type: ignore[arg-type]
            for fold in (True, False)
        ]
        assert np.array_equal(runs[0].finish_ns, runs[1].finish_ns)
        assert runs[0].warnings == runs[1].warnings
        # Chunks in flight each have the whole link where messages do not contend.
        assert all(congestion == "unaware" and text.startswith("impossible bandwidth") for text in runs[0].warnings)


def test_demo_prints_one_table_and_writes_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    for name in MACHINES:
        assert shown.count(f"\n{name} ") == 2
    file = tmp_path / "out" / "step-hgx-h100-16-aware.json.gz"
    assert str(file) in shown
    assert json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]


def test_demo_compiles_the_simulator_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    from chakrasim.demo import beside

    monkeypatch.setattr(beside, "cores", lambda: 2)
    monkeypatch.setattr("chakrasim.jit.is_cold", lambda room: room == "simulator")
    with beside.simulator_compiled_beside() as wait:
        assert wait() == 0


def test_demo_says_when_its_folder_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert "the folder cannot be made: File exists" in capsys.readouterr().err


def test_table_aligns_numbers_to_the_right() -> None:
    assert table([("a", "b", "n", "l"), ("xx", "y", "10", "z")]) == "a   b   n  l\n--  -  --  -\nxx  y  10  z"


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "docs", "help"])
def test_makefile_has_the_target(target: str) -> None:
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("answers", [True, False])
def test_make_asks_an_index_that_answers_and_no_other(answers: bool, tmp_path: Path) -> None:
    """The Makefile with a Python that notes what pip is asked for; the index is a server of ours, or a closed port."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ncase $1 in -m) echo "$@" >> asked;; *) exec {sys.executable} "$@";; esac\n')
    python.chmod(0o755)
    (tmp_path / "simple" / "torch").mkdir(parents=True)
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index = f"http://127.0.0.1:{server.server_address[1]}/simple"
        if answers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        else:
            server.server_close()
        command = ["make", ".venv/.torched", f"TORCH_INDEX={index}"]
        direct = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=direct)
        if answers:
            server.shutdown()
    assert done.returncode == 0, done.stderr
    develop, torch = (tmp_path / "asked").read_text().splitlines()
    assert ".[dev]" in develop and index not in develop
    assert "torch==" in torch and (f"--extra-index-url {index}" in torch) == answers
    assert "Traceback" not in done.stderr
    assert all(" -qq " in line for line in (develop, torch))  # warnings of pip are nobody's here; errors are shown


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_ci_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make --no-print-directory test" in script.read_text(encoding="utf-8")
