"""Damaged OTF2 archives: one of our errors, or a job that makes sense.

``python tests/fuzz/test_fuzz_otf2.py LOW HIGH`` goes through many seeds. Each is read in a process of its own: the
makers' library may end it or never come back.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

sys.path.append(str(Path(__file__).parents[1] / "trace"))

from mutations import MUTATIONS
from seeds import go_through
from test_otf2 import archive

from chakrasim.analysis.info.workload import job_info
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.foreign import otf2

ANCHOR = "traces.otf2"
SECONDS = 10
"""An anchor file at which the library loops is given up before, on purpose."""
MORE_KIB = 1 << 20


def outcome(seed: int, intact: dict[str, bytes], folder: Path) -> str:
    """What becomes of a mutant: which file of it was read or refused. Anything but one of our errors is raised on."""
    draw = random.Random(f"otf2 {seed}")
    name = draw.choice((*sorted(intact), *["traces.def"] * 3, "traces/0.evt", "traces/2.evt"))
    data = bytearray(intact[name])
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice(MUTATIONS)(data, draw, intact)
    path = folder / name
    path.unlink() if draw.random() < 0.02 else path.write_bytes(data)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(writer, _read(folder / ANCHOR, known=name != ANCHOR).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    path.write_bytes(intact[name])
    assert not status and used.ru_maxrss < resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + MORE_KIB, (name, status)
    assert said in ("read", "refused"), (name, said)
    return f"{Path(name).suffix} {said}"


def _read(anchor: Path, *, known: bool) -> str:
    """What is made of an archive; ``known``: its anchor file is whole, which is not tried again."""
    tried = (lambda _: None) if known else otf2._refuse_bad_anchor
    try:
        with patch.multiple(otf2, _refuse_bad_anchor=tried, _OPENING_S=SECONDS / 2):
            job = otf2.read_otf2(anchor, notes=Notes(), max_bytes=1 << 28)
        job_info(job)
    except InputError as error:
        return "refused" if "\n" not in str(error) and str(anchor) in str(error) else str(error)
    except BaseException as fault:
        return repr(fault)
    return "read"


def intact_files(folder: Path) -> dict[str, bytes]:
    """The files that are damaged, of an archive in this folder; the same ones every time."""
    archive(folder)
    for name, begin, end in ((ANCHOR, 53, 61), ("traces.def", 31, 35)):  # a random number; when it was made
        data = bytearray((folder / name).read_bytes())
        data[begin:end] = b"\x01" * (end - begin)
        (folder / name).write_bytes(data)
    assert _read(folder / ANCHOR, known=False) == "read"
    gc.freeze()  # Collections would copy the memory that processes share.
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", [20, 10_000])
def test_mutants_are_read_or_refused(tmp_path: Path, count: int) -> None:
    intact = intact_files(tmp_path / "a")
    seen = Counter(outcome(seed, intact, tmp_path / "a").split()[1] for seed in range(count))
    assert min(seen[what] for what in ("refused", "read")) > count / 10


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        files = intact_files(Path(folder, "a"))
        go_through(partial(outcome, intact=files, folder=Path(folder, "a")))
