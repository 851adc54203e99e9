"""Files appear complete or not at all, alone and together, wherever the process that writes them is killed."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.files.inputs import open_input
from chakrasim.files.outputs import open_whole, placed, put_folder, write_together, write_whole
from chakrasim.files.unfinished import MARK
from chakrasim.generator.collective import collective_job
from chakrasim.trace import encode_trace, read
from chakrasim.trace.job.file import write_job
from chakrasim.trace.job.job import Job

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")


# -- one file ----------------------------------------------------------------------------------------------------------


def test_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_whole(path, b"one")
    write_whole(str(path), b"two")
    assert path.read_bytes() == b"two" and os.listdir(tmp_path) == ["f"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_whole(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_keeps_links_and_usual_permissions(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"x")
    assert link.is_symlink() and target.read_bytes() == b"x"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


def test_devices_are_written_to_not_replaced() -> None:
    write_whole("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(("name", "text"), [("", "directory"), ("a\0b", "null"), ("file/f", "")])
def test_what_cannot_be_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="the file cannot be written") as caught:
        write_whole(f"{tmp_path}/{name}", b"x")
    assert text in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_data_are_on_disk_before_they_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order: a machine that fails in between has the old file or the new one, not an empty one."""
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda old, new: (order.append(Path(new).name), replace(old, new)))
    write_whole(tmp_path / "f", b"x")
    assert order == ["sync", "f"]
    order.clear()
    write_together([(str(tmp_path / "a"), b"a"), (str(tmp_path / "b"), b"b")])
    # Two files, the mark and its name, two names, their folder; the mark then goes.
    assert order == ["sync", "sync", "sync", MARK, "sync", "a", "b", "sync"]


# -- several files -----------------------------------------------------------------------------------------------------


def killed(work: Callable[[], object], at_change: int) -> bool:
    """Do the work in a child that is killed before its n-th change of a name; whether it came to that."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    changes = 0

    def around(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object, **named: object) -> object:
            nonlocal changes
            changes += 1
            if changes == at_change:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        return counted

    os.replace, os.unlink, os.rename = map(around, (os.replace, os.unlink, os.rename))  # type: ignore[assignment]
    try:
        work()
    finally:
        os._exit(0)


def job(size: int, ranks: int = 4) -> Job:
    return collective_job("send_recv", size, ranks)


def content(prefix: Path) -> list[bytes]:
    return [encode_trace(trace) for trace in read(prefix)]


@forks
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("before", "after"),
    [((True, 4), (True, 4)), ((True, 4), (True, 3)), ((False, 4), (True, 4)), ((True, 4), (False, 4))],
)
def test_a_job_that_was_killed_is_old_new_or_refused(
    before: tuple[bool, int], after: tuple[bool, int], tmp_path: Path
) -> None:
    """At every change of a name; and the next run completes it and leaves nothing of the killed one."""
    write_job(tmp_path / "old", job(1000, before[1]), expand=before[0])
    write_job(tmp_path / "new", job(2000, after[1]), expand=after[0])
    old, new = content(tmp_path / "old"), content(tmp_path / "new")
    found = []
    for change in range(1, 100):
        folder = tmp_path / str(change)
        write_job(folder / "job", job(1000, before[1]), expand=before[0])

        def work(folder: Path = folder) -> None:
            write_job(folder / "job", job(2000, after[1]), expand=after[0])

        if not killed(work, change):
            break
        try:
            state = content(folder / "job")
            assert state in (old, new), change
            found.append("old" if state == old else "new")
        except InputError as fault:
            assert "one of several that a command was putting in place when it was ended" in str(fault)
            found.append("refused")
        work()
        assert content(folder / "job") == new
        assert not [name for name in os.listdir(folder) if name.startswith(".")]
    assert found[0] == "old" and found[-1] == "new" and (before != after or "refused" in found)


@forks
def test_the_refusal_says_which_files_are_new(tmp_path: Path) -> None:
    write_job(tmp_path / "job", job(1000), expand=True)
    assert killed(lambda: write_job(tmp_path / "job", job(2000), expand=True), 4)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "job")
    assert str(caught.value) == (
        f"{tmp_path}/job.0.et: this file is one of several that a command was putting in place when it was ended; "
        "found new: job.0.et, job.1.et; not replaced yet: job.2.et, job.3.et, job.comm_group.json; expected all "
        "files of one run; run that command again, "
        f"or remove {tmp_path}/.chakrasim-unfinished.json if the files belong together"
    )
    (tmp_path / "other.0.et").write_bytes((tmp_path / "job.3.et").read_bytes())
    assert len(read(tmp_path / "other")) == 1


@forks
def test_a_new_job_that_was_killed_is_no_job_of_fewer_ranks(tmp_path: Path) -> None:
    assert killed(lambda: write_job(tmp_path / "job", job(1000), expand=True), 4)
    assert (tmp_path / "job.1.et").exists() and not (tmp_path / "job.2.et").exists()
    with pytest.raises(InputError, match=r"not replaced yet: job\.2\.et, job\.3\.et, job\.comm_group\.json"):
        read(tmp_path / "job")


@forks
def test_what_another_command_left_unfinished_stays_refused(tmp_path: Path) -> None:
    write_job(tmp_path / "job", job(1000), expand=True)
    assert killed(lambda: write_job(tmp_path / "job", job(2000), expand=True), 4)
    write_job(tmp_path / "other", job(3000), expand=True)
    assert len(read(tmp_path / "other")) == 4
    with pytest.raises(InputError, match="when it was ended"):
        read(tmp_path / "job")


def test_folders_of_others_are_whole(tmp_path: Path) -> None:
    """No mark, no question; nor is a mark of files that have all been moved one."""
    write_job(tmp_path / "job", job(1000), expand=True)
    assert MARK not in os.listdir(tmp_path)
    change = {"moves": {"job.0.et": ".job.0.et.gone.part"}, "removals": []}
    (tmp_path / MARK).write_text(json.dumps({"format": "chakrasim-unfinished-1", "changes": [change]}))
    assert len(read(tmp_path / "job")) == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "x"}', '{"format": "chakrasim-unfinished-1"}'])
def test_a_mark_that_is_none(text: str, tmp_path: Path) -> None:
    write_job(tmp_path / "job", job(1000), expand=True)
    (tmp_path / MARK).write_text(text)
    with pytest.raises(InputError, match="the mark of unfinished files cannot be read; remove it if the files"):
        read(tmp_path / "job")


def test_a_move_that_fails_halfway_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(tmp_path / name) for name in "abc"]
    write_together([(name, b"old") for name in names])
    replace = os.replace

    def failing(old: str, new: str) -> None:
        if new.endswith("/b"):
            raise OSError(5, "Input/output error")
        replace(old, new)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(InputError, match="the file cannot be written: Input/output error"):
        write_together([(name, b"new") for name in names])
    monkeypatch.undo()
    for name in names:
        with pytest.raises(InputError, match="new: a; not replaced yet: b, c"):
            open_input(name, "a file")
    assert sorted(os.listdir(tmp_path)) == [MARK, "a", "b", "c"]
    write_together([(name, b"new") for name in names])
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_signals_wait_while_names_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(tmp_path / name) for name in "ab"]
    write_together([(name, b"old") for name in names])
    replace = os.replace

    def interrupting(old: str, new: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        replace(old, new)

    monkeypatch.setattr(os, "replace", interrupting)
    placed.clear()
    with pytest.raises(KeyboardInterrupt):
        write_together([(name, b"new") for name in names])
    monkeypatch.undo()
    assert [Path(name).read_bytes() for name in names] == [b"new", b"new"]
    assert list(placed) == names
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


# -- a folder ----------------------------------------------------------------------------------------------------------


@forks
def test_a_folder_that_was_killed_is_old_new_or_refused(tmp_path: Path) -> None:
    def fill(folder: Path, text: str, names: str) -> str:
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text(text)
        return str(folder)

    found = []
    for change in range(1, 30):
        target = fill(tmp_path / str(change) / "out", "old", "abc")
        staging = fill(tmp_path / str(change) / ".out.1-00000000.x.part", "new", "ab")
        if not killed(lambda staging=staging, target=target: put_folder(staging, target), change):  # type: ignore[misc]
            break
        try:
            state = {}
            for name in sorted(os.listdir(target)):
                if not name.startswith("."):
                    with open_input(os.path.join(target, name), "a file") as file:
                        state[name] = file.read()
            assert state in ({"a": b"old", "b": b"old", "c": b"old"}, {"a": b"new", "b": b"new"})
            found.append("old" if len(state) == 3 else "new")
        except InputError:
            found.append("refused")
    assert found[0] == "old" and found[-1] == "new" and "refused" in found


# -- what is left behind -----------------------------------------------------------------------------------------------


@forks
def test_what_a_killed_process_left_behind_goes_with_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert killed(lambda: write_whole(path, b"x" * 1000), 1)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".f.") and left.endswith(".part")
    write_whole(tmp_path / "g", b"x")
    assert sorted(os.listdir(tmp_path)) == [left, "g"]
    write_whole(path, b"x")
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    code = f"import chakrasim.files.outputs as o\nwith o.open_whole({path!r}): print(1, flush=True); input()"
    settings = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    other = subprocess.Popen([sys.executable, "-c", code], **settings)  # type: ignore[call-overload]
    assert other.stdout.readline() == "1\n"
    write_whole(tmp_path / "f", b"mine")
    assert len(os.listdir(tmp_path)) == 2
    other.communicate("\n")
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b""
