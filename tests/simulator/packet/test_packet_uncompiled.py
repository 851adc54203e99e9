"""The engine without compilation gives the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from packet_cases import watched_pair

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from packet_cases import golden, run_case, watched_pair
found = {}
for case in golden():
    if case["expected"]["transmissions"] < 1200:
        result = run_case(case).to_dict()
        found[case["name"]] = all(result[key] == value for key, value in case["expected"].items())
print(json.dumps([found, watched_pair()]))
"""


def test_small_cases_uncompiled() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SCRIPT, str(Path(__file__).parent)],
        env={**os.environ, "CHAKRASIM_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    found, seen = json.loads(done.stdout)
    assert seen == json.loads(json.dumps(watched_pair()))
    assert len(found) >= 5 and all(found.values()), found
