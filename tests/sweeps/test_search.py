"""Searches: the front with few runs."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim.errors import InputError
from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.points import OK, REFUSED, UNTRIED, Outcome
from chakrasim.sweeps.search import METHODS, OPTUNA, OWN, search_of
from chakrasim.sweeps.space import Space, read_space
from chakrasim.sweeps.sweep import sweep

SMALL: dict[str, Any] = {
    "base": {"model": "llama-7b", "machine": "h100", "gpus": 8, "batch": 8, "seq": 2048},
    "vary": {"tp": [1, 2, 4, 8], "pp": [1, 2], "micro_batch": [1, 2, 4]},
    "where": ["dp * tp * pp == gpus"],
}


def made(seed: int) -> tuple[Space, dict[int, Outcome]]:
    """A space with figures that nobody simulated, smooth in the keys but for words and refusals."""
    chance = random.Random(seed)
    keys: dict[str, list[Any]] = {"tp": [1, 2, 4, 8, 16], "pp": [1, 2, 4, 8], "micro_batch": [1, 2, 3, 4, 6, 8],
            "recompute": ["none", "selective", "full"], "zero": [0, 1, 3]}  # fmt: skip
    space = read_space({"base": {"model": "m", "machine": "h", "gpus": 128, "batch": 512}, "vary": keys,
                        "front": ["step_s", "memory_bytes"]})  # fmt: skip
    own = {key: {value: (chance.uniform(-1, 1), chance.uniform(-1, 1)) for value in values}
           for key, values in keys.items()}  # fmt: skip
    table = {}
    for row, point in enumerate(space.points()):
        time, memory = (sum(own[key][point[key]][axis] for key in keys) for axis in (0, 1))
        time += 0.3 * own["tp"][point["tp"]][0] * own["pp"][point["pp"]][1]
        refused = point["pp"] == 1 and point["zero"] == 3
        table[row] = Outcome(step_s=float(np.exp(time)), memory_bytes=int(1e9 * np.exp(memory)), gpus=128)
        if refused:
            table[row] = Outcome(status=REFUSED, reason="no")
    return space, table


@pytest.mark.parametrize("seed", range(4))
def test_few_runs_find_the_front(seed: int) -> None:
    space, table = made(seed)
    going = [row for row, one in table.items() if one.status == OK]
    figures = np.log([[table[row].step_s, table[row].memory_bytes] for row in going])
    whole = figures[front_of(figures)]
    search, tried = search_of("guess", space, list(table), None), dict[int, Outcome]()
    while batch := search.next(tried):
        assert not set(batch) & tried.keys() and batch == sorted(set(batch))
        tried |= {row: table[row] for row in batch}
    assert len(tried) <= 0.1 * len(table) + 1
    found = np.log([[one.step_s, one.memory_bytes] for one in tried.values() if one.status == OK])
    missed = max(float((found - own).max(axis=1).min()) for own in whole)
    assert missed < 0.1 * float(np.ptp(whole, axis=0).max())


def test_the_front_is_of_points_that_were_tried_and_nothing_tried_beats_it(tmp_path: Path) -> None:
    found = sweep(SMALL, tmp_path / "out", jobs=1, search=True, runs=8)
    tried = [row for row, one in enumerate(found.outcomes) if one.status == OK]
    assert set(found.front) <= set(tried) and found.best in found.front
    for row in found.front:
        own = found.outcomes[row]
        for other in (found.outcomes[at] for at in tried):
            assert not (other.step_s < own.step_s and other.memory_bytes < own.memory_bytes)
    assert found.untried == sum(one.status == UNTRIED for one in found.outcomes) > 0
    assert len(found.outcomes) - found.untried - sum(found.refused.values()) <= 8
    assert "not tried" not in found.refused and found.to_json()["not_tried"] == found.untried


def check_same_tables(folder: Path, whole: Path) -> None:
    for name in ("results.csv.gz", "front.csv"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), (folder.name, name)


@pytest.mark.parametrize(("method", "jobs"), [(OWN, 2), (OPTUNA, 1)])
def test_a_search_goes_on_where_it_was(method: str, jobs: int, tmp_path: Path) -> None:
    if method == OPTUNA:
        pytest.importorskip("optuna")
    sweep(SMALL, tmp_path / "whole", jobs=1, search=method, runs=8)
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    for part in sorted((tmp_path / "again" / "parts").iterdir())[1::2]:
        part.unlink()
    sweep(SMALL, tmp_path / "again", jobs=jobs, resume=True, search=method, runs=8)
    check_same_tables(tmp_path / "again", tmp_path / "whole")
    with pytest.raises(InputError, match="has another sweep"):
        sweep(SMALL, tmp_path / "again", jobs=1, resume=True)


CODE = """
import json, sys
from chakrasim.sweeps.sweep import sweep
sweep(json.load(open(sys.argv[1])), sys.argv[2], resume=True, search=sys.argv[3], runs=48)
"""
MANY = {**SMALL, "vary": {**SMALL["vary"], "recompute": ["none", "selective", "full"], "seq": [1024, 2048, 4096]},
        "base": {key: value for key, value in SMALL["base"].items() if key != "seq"}}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_killed_at_any_moment_and_resumed_the_table_is_the_same(method: str, tmp_path: Path) -> None:
    if method == OPTUNA:
        pytest.importorskip("optuna")
    (tmp_path / "s.json").write_text(json.dumps(MANY))
    words = [sys.executable, "-c", CODE, str(tmp_path / "s.json")]
    begun = time.monotonic()
    subprocess.run([*words, str(tmp_path / "whole"), method], check=True)
    took_s, killed, left = time.monotonic() - begun, 0, set()
    for moment in range(1, 21):
        folder = tmp_path / f"k{moment}"
        process = subprocess.Popen([*words, str(folder), method], start_new_session=True)
        time.sleep(took_s * moment / 20)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        left.add(len(list(folder.glob("parts/*.json"))))
        sweep(MANY, folder, resume=True, jobs=1, search=method, runs=48)
        check_same_tables(folder, tmp_path / "whole")
    assert killed >= 10 and len(left) >= 5


@pytest.mark.slow
def test_all_runs_find_what_all_points_have() -> None:
    everything = sweep(SMALL, jobs=1)
    found = sweep(SMALL, jobs=1, search=True, runs=1000)
    assert (found.front, found.untried) == (everything.front, 0)


def test_what_is_asked_wrongly_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in ({"runs": 3}, {"runs": 0, "search": True}, {"search": "best"}):
        with pytest.raises(InputError):
            sweep(SMALL, jobs=1, **asked)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'chakrasim\[search\]'"):
        sweep(SMALL, jobs=1, search="optuna")


def test_by_optuna() -> None:
    pytest.importorskip("optuna")
    first, second = (sweep(SMALL, jobs=1, search="optuna", runs=8) for _ in range(2))
    assert first.front == second.front and first.untried > 0
