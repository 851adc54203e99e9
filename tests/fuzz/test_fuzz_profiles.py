"""Damaged profiles of JAX, traces of Ascend and timelines of jobs: one of our errors, or a trace that makes sense.

``python tests/fuzz/test_fuzz_profiles.py LOW HIGH`` goes through many seeds, each format in turn.
"""

from __future__ import annotations

import functools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "trace"))

from ascend_documents import document
from damage import damaged
from reader_mutants import check
from seeds import go_through
from test_job_timelines import dpro, ndtimeline
from xspace import gpu_space, random_space, tpu_space

from chakrasim.analysis.table.work import device_work
from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace.kineto.read import read_kineto
from chakrasim.trace.xplane.read import read_xplane

SECONDS = 10.0


def xplane(seed: int, draw: random.Random) -> bytes:
    """A damaged profile of JAX."""
    intact = {"gpu": gpu_space().bytes(), "tpu": tpu_space().bytes(), "any": random_space(seed).bytes()}
    return damaged(draw.choice([*intact]), intact, draw)


def ascend(seed: int, draw: random.Random) -> bytes:
    """A damaged trace of Ascend."""
    events = document(seed % 9, seed % 2 == 0)
    some = events[:10] + draw.sample(events[10:], 60)
    return damaged("a.json", {"a.json": json.dumps(draw.choice((events, some))).encode()}, draw)


def timeline(_: int, draw: random.Random) -> bytes:
    """A damaged timeline of veScale or dPRO."""
    files = {"nd.json": json.dumps(ndtimeline()).encode(), "dpro.json": json.dumps(dpro()).encode()}
    return damaged(draw.choice([*files]), files, draw)


MAKERS = (xplane, ascend, timeline)


@functools.cache
def compile_kernels(path: Path) -> None:
    """Work once on a trace that is intact, so that no mutant's time has compilation in it."""
    path.write_text(json.dumps(document(0, True)))
    trace = read_kineto(str(path), lenient=False, notes=Notes())
    device_work(trace)
    link(device=trace)


def outcome(seed: int, path: Path) -> str:
    """What becomes of a mutant: "linked", "read", "lenient" or "refused". Anything but our errors is raised on."""
    compile_kernels(path)
    draw = random.Random(f"profile {seed}")
    path.write_bytes(MAKERS[seed % 3](seed // 3, draw))
    began = time.process_time()
    seen = "read"
    reader = read_kineto if seed % 3 else read_xplane
    try:
        trace = reader(str(path), lenient=False, notes=Notes())
    except InputError as error:
        assert "\n" not in str(error), error
        seen = "lenient"
        try:
            trace = reader(str(path), lenient=True, notes=Notes())
        except InputError:
            return "refused"
    check(trace)
    device_work(trace)
    if seed % 5 == 0:
        try:
            link(device=trace)
            seen = "linked" if seen == "read" else seen
        except InputError:
            pass
    assert time.process_time() - began < SECONDS
    return seen


def test_mutants_are_read_or_refused(tmp_path: Path) -> None:
    seen = [outcome(seed, tmp_path / "a.pb") for seed in range(48)]
    assert seen.count("lenient") > 5 and seen.count("read") > 2


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        go_through(lambda seed: outcome(seed, Path(folder) / "a.pb"))
