"""Files appear complete or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from chakrasim import InputError
from chakrasim.report.files import open_whole, write_whole


def test_replaces_what_was_there(tmp_path):
    path = tmp_path / "f"
    write_whole(path, b"one")
    write_whole(str(path), b"two")
    assert path.read_bytes() == b"two" and os.listdir(tmp_path) == ["f"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_whole(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_keeps_links_and_usual_permissions(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"x")
    assert link.is_symlink() and target.read_bytes() == b"x"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("letter", ["a", "é", "輪"])
def test_names_as_long_as_the_file_system_takes_in_a_folder_that_is_made(tmp_path, letter):
    target = tmp_path / "new" / "er" / (letter * (255 // len(letter.encode())))
    write_whole(target, b"x")
    assert target.read_bytes() == b"x" and os.listdir(target.parent) == [target.name]


def test_devices_are_written_to_not_replaced():
    write_whole("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(("name", "text"), [("", "directory"), ("a\0b", "null")])
def test_what_cannot_be_written(tmp_path, name, text):
    with pytest.raises(InputError, match="the file cannot be written") as caught:
        write_whole(f"{tmp_path}/{name}", b"x")
    assert text in str(caught.value)
    assert os.listdir(tmp_path) == []
