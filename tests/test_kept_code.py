"""Compiled code is loaded only from folders that nobody else can write, and only as it was written."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import chakrasim
from chakrasim.errors import NotKept

SOURCE = Path(chakrasim.__file__).resolve().parents[1]
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")

TINY = """
import numpy as np
from chakrasim.jit import kernel

@kernel
def total(m):
    s = 0
    for i in range(m.size):
        s += m[i]
    return s

@kernel
def double(m):
    return 2 * m[0]

if __name__ == "__main__":
    print(total(np.arange(5, dtype=np.int64)), double(np.arange(3, 5, dtype=np.int64)))
"""


class Planted:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.mark), "w")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small program, with a cache that a run of it has filled."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "tiny.py").write_text(TINY)
    assert _run(folder, CHAKRASIM_CACHE_DIR=folder / "cache") == ("10 6\n", "")
    return folder


def _run(folder: Path, **environment: Path | str) -> tuple[str, str]:
    env = {key: value for key, value in os.environ.items() if key not in ("CHAKRASIM_CACHE_DIR", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": str(SOURCE), **{key: str(value) for key, value in environment.items()}}
    command = [sys.executable, str(folder / "tiny.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def _plant(root: Path, mark: Path) -> None:
    """In place of every kept file one that acts when it is loaded, with the digest that belongs to it."""
    data = pickle.dumps(Planted(mark))
    for path in [path for path in root.rglob("*") if path.is_file()]:
        signed = hashlib.sha256(path.name.encode() + b"\n" + data).hexdigest().encode() + b"\n" + data
        path.write_bytes(data if path.suffix.startswith(".nb") else signed)


@posix
@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["CHAKRASIM_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"])
def test_what_others_can_put_there_is_not_loaded(place: str, filled: Path, tmp_path: Path) -> None:
    root = {
        "CHAKRASIM_CACHE_DIR": tmp_path / "open",
        "XDG_CACHE_HOME": tmp_path / "chakrasim",
        "TMPDIR": tmp_path / f"chakrasim-{os.geteuid()}",
    }[place]
    environment = {place: root if place == "CHAKRASIM_CACHE_DIR" else tmp_path}
    if place == "TMPDIR":
        environment["CHAKRASIM_CACHE_DIR"] = Path("/proc/nothing/here")
    shutil.copytree(filled / "cache", root)
    _plant(root, tmp_path / "mark")
    root.chmod(0o777)
    out, error = _run(filled, **environment)
    assert (out, (tmp_path / "mark").exists()) == ("10 6\n", False)
    assert error.count("NotKept") == 1
    assert (
        f"{root}: others can write to it (mode 0777), so compiled code is neither loaded from there nor kept; "
        "remove it, or name a folder of your own in CHAKRASIM_CACHE_DIR\n" in error
    )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache of this process for this test alone."""
    from chakrasim import jit, kept_code

    caches = (jit.kept, kept_code.store, kept_code._warn)
    monkeypatch.setenv("CHAKRASIM_CACHE_DIR", str(tmp_path / "cache"))
    for one in caches:
        one.cache_clear()
    yield tmp_path / "cache"
    for one in caches:
        one.cache_clear()


def _refusal(name: str = "none-1") -> str:
    """What the warning says when nothing may be kept under this name."""
    from chakrasim import kept_code

    with pytest.warns(NotKept) as said:
        assert kept_code.store(name) is None
    assert len(said) == 1
    return str(said[0].message)


def test_folders_are_made_for_this_user_alone(made: Path) -> None:
    from chakrasim.kept_code import store

    before = os.umask(0)
    try:
        folder = store("none-1")
    finally:
        os.umask(before)
    assert folder is not None
    folder.write("a", b"code")
    if os.name == "posix":
        assert [path.stat().st_mode & 0o777 for path in (made, made / "none-1", made / "none-1" / "a")] == [
            *(0o700, 0o700, 0o600)
        ]
    assert folder.read("a") == b"code"


@posix
@pytest.mark.parametrize("which", [".", "none-1"])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_refused(which: str, mode: int, made: Path) -> None:
    (made / "none-1").mkdir(parents=True)
    (made / which).chmod(mode)
    assert _refusal().startswith(f"{made / which}: others can write to it (mode {mode:04o}), so ")
    assert (made / which).stat().st_mode & 0o7777 == mode


@posix
def test_a_folder_that_others_can_only_read_serves(made: Path) -> None:
    from chakrasim.kept_code import store

    (made / "none-1").mkdir(parents=True)
    made.chmod(0o755)
    (made / "none-1").chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store("none-1") is not None


@posix
@pytest.mark.parametrize("which", [".", "none-1"])
def test_a_link_is_refused(which: str, made: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "none-1").mkdir(parents=True, mode=0o700)
    if which == "none-1":
        made.mkdir(mode=0o700)
    (made / which if which != "." else made).symlink_to(tmp_path / "elsewhere")
    assert _refusal().startswith(f"{made / which}: it is a symbolic link, so ")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("which", [".", "none-1"])
def test_a_folder_of_another_user_is_refused(which: str, made: Path) -> None:
    (made / "none-1").mkdir(parents=True, mode=0o700)
    os.chown(made / which, 4242, 4242)
    assert _refusal().startswith(f"{made / which}: it belongs to another user (4242), so ")


@posix
def test_a_folder_exchanged_after_the_check_is_not_used(made: Path, tmp_path: Path) -> None:
    from chakrasim.kept_code import store

    folder = store("none-1")
    assert folder is not None
    folder.write("a", b"code")
    other = tmp_path / "other"
    shutil.copytree(made, other)
    other.chmod(0o777)
    for exchange in (lambda: made.symlink_to(other), lambda: other.rename(made)):
        shutil.rmtree(made)
        exchange()
        assert folder.read("a") is None
        folder.write("b", b"more")
        assert not list(made.rglob("b"))
        if made.is_symlink():
            made.unlink()
            made.mkdir()


@posix
@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o620), lambda path: _as_link(path)])
def test_a_file_that_others_can_exchange_is_not_loaded(spoil: Callable[[Path], None], made: Path) -> None:
    from chakrasim.kept_code import store

    folder = store("none-1")
    assert folder is not None
    folder.write("a", b"code")
    assert folder.read("a") == b"code"
    spoil(made / "none-1" / "a")
    assert folder.read("a") is None


def _as_link(path: Path) -> None:
    target = path.rename(path.with_name("target"))
    path.symlink_to(target)


def test_any_flipped_bit_of_kept_code_is_found(filled: Path, made: Path) -> None:
    """In every file, in the digest and after it: nothing damaged is handed out."""
    from chakrasim.kept_code import Store

    paths = [path for path in (filled / "cache").rglob("*") if path.is_file()]
    assert len(paths) == 2
    for path in paths:
        data = path.read_bytes()
        folder = Store(made, "copy")
        folder.write(path.name, b"")
        copy = made / "copy" / path.name
        copy.write_bytes(data)
        assert folder.read(path.name) == data.partition(b"\n")[2]
        generator = np.random.default_rng(len(data))
        spots = [*range(0, 80 * 8, 5), *(generator.integers(0, len(data) * 8, 60)), len(data) * 8 - 1]
        for spot in map(int, spots):
            copy.write_bytes(_flipped(data, spot))
            assert folder.read(path.name) is None, spot
        for cut in (0, 10, 64, 65, len(data) - 1):
            copy.write_bytes(data[:cut])
            assert folder.read(path.name) is None


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_damaged_code_is_compiled_again_and_replaced(filled: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(filled / "cache", cache)
    before = {}
    for path in [path for path in cache.rglob("*") if path.is_file()]:
        before[path] = path.read_bytes()
        path.write_bytes(_flipped(before[path], len(before[path]) * 5))
    printed, said = _run(filled, CHAKRASIM_CACHE_DIR=cache)
    assert printed == "10 6\n"
    assert said.count("kept compiled code is not as it was written, so it is compiled again") == 1
    assert sorted(path for path in cache.rglob("*") if path.is_file()) == sorted(before)
    assert all(path.read_bytes() != _flipped(data, len(data) * 5) for path, data in before.items())


def test_a_numba_without_the_parts_compiles_every_time(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = pytest.importorskip("numba.core.compiler")
    from chakrasim.jit import kernel

    monkeypatch.delattr(compiler.CompileResult, "_rebuild")

    def twice(number: int) -> int:
        return 2 * number

    assert kernel(twice)(4) == 8
    assert not [path for path in made.rglob("*") if path.is_file()]


def test_signals_wait_while_code_is_loaded(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in what LLVM calls back meanwhile is a crash."""
    compiler = pytest.importorskip("numba.core.compiler")
    from chakrasim.jit import kernel

    def twice(number: int) -> int:
        return 2 * number

    assert kernel(twice)(4) == 8
    rebuild, rebuilt = compiler.CompileResult._rebuild, []

    def interrupted(*parts: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        rebuilt.append(rebuild(*parts))
        return rebuilt[0]

    monkeypatch.setattr(compiler.CompileResult, "_rebuild", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel(twice)(4)
    assert len(rebuilt) == 1


def test_the_command_says_it_in_a_line(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chakrasim import cli, kept_code
    from chakrasim.cli import machines, main

    def run(_: object) -> int:
        kept_code.store("none-1")
        kept_code.store("none-2")
        return 0

    assert cli is not None
    monkeypatch.setattr(machines, "run", run)
    made.mkdir()
    made.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main.main(["machines"]) == 0
    assert capsys.readouterr().err == (
        f"chakrasim: warning: {made}: others can write to it (mode 0777), so compiled code is neither loaded from "
        "there nor kept; remove it, or name a folder of your own in CHAKRASIM_CACHE_DIR\n"
    )
