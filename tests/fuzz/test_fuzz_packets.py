"""Damaged files of networks of packets: an error with its file and place, or every flow ends or is named.

``python tests/fuzz/test_fuzz_packets.py LOW HIGH`` runs the files that belong to the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from damage import Files, damaged
from seeds import go_through, in_time

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone import run as alone
from chakrasim.simulator.packet.alone.case import PacketCase

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_PACKET_SEEDS", "300"))
MOST_PACKETS = 20_000
LONG = "more packets than a test should send"
"""What is said of damaged files that ask for honest work, only too much of it."""
WORDS = (
    *(
        "0",
        "-1",
        "1",
        "3",
        "7",
        "8",
        "10",
        "12",
        "20",
        "99999999999999999999",
        "1e9",
        "nan",
        "inf",
        "0.5",
        "x",
        "\u00b2",
    ),
    *("9" * 5000, "100Gbps", "1Mb/s", "1bps", "0.001ms", "1000s", "CC_MODE", "LINK_DOWN", "KMIN_MAP", "BUFFER_SIZE"),
)
TOPOLOGY = """\
6 2 7
4 5
4 0 100Gbps 1us 0
4 1 100Gbps 0.001ms 0
5 2 100Gbps 1000ns 0.001
5 3 25Gbps 1us 0
4 5 100Gbps 1us 0
4 5 100Gbps 1us 0
4 2 100Gbps 1us 0
"""
CONFIG = """\
CC_MODE {mode}
PACKET_PAYLOAD_SIZE 1000
HAS_WIN 1
GLOBAL_T 0
VAR_WIN 1
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
MIN_RATE 100Mb/s
U_TARGET 0.95
EWMA_GAIN 0.00390625
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
RP_TIMER 9.5
FAST_RECOVERY_TIMES 1
L2_ACK_INTERVAL 1
L2_CHUNK_SIZE 4000
L2_BACK_TO_ZERO 0
BUFFER_SIZE 1
KMIN_MAP 2 25000000000 10 100000000000 20
KMAX_MAP 2 25000000000 40 100000000000 80
PMAX_MAP 2 25000000000 0.2 100000000000 0.2
ERROR_RATE_PER_LINK 0
LINK_DOWN 0 4 5
ENABLE_QCN 1
"""
FLOWS = """\
5
0 3 3 100 30000 0
1 3 3 100 30000 0.000001
2 3 1 100 1 0
3 0 3 100 0 0
0 2 3 100 999 2
"""


@cache
def files() -> tuple[Files, ...]:
    """Cases in JSON, one for each control; the three files."""
    links = [[4, 0, "100Gbps", "1us", 0], [4, 1, "25Gbps", "0.001ms", 0.01], [5, 2, "100Gbps", "1us", 0]]
    links += [[5, 3, "25Gbps", "1us", 0], [4, 5, "100Gbps", "1us", 0]]
    flows = [[0, 3, 3, 100, 30_000, 0], [1, 3, 3, 100, 999, 5], [2, 3, 1, 200, 0, 0], [3, 0, 3, 100, 20_000, 700]]
    every = []
    for mode in (1, 3, 7, 8, 10, 12, 20):
        config: dict[str, Any] = dict(line.split(" ", 1) for line in CONFIG.format(mode=mode).splitlines())
        for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"):
            _, slow, low, fast, high = config.pop(key).split()
            config[key[:4]] = {slow: float(low), fast: float(high)}
        config = {
            key: int(value) if isinstance(value, str) and value.isdigit() else value for key, value in config.items()
        }
        topology = {"nodes": 6, "switches": [4, 5], "links": links}
        case = {"name": "one", "topology": topology, "config": config, "flows": flows, "first_stream": 60}
        every.append({"case.json": json.dumps({**case, "stop_ns": 3_000_000_000, "timestamped": True}).encode()})
        texts = {"topology.txt": TOPOLOGY, "config.txt": CONFIG.format(mode=mode), "flows.txt": FLOWS}
        every.append({name: text.encode() for name, text in texts.items()})
    return tuple(every)


def outcome(seed: int, folder: Path) -> str:
    """What the command makes of the files of a seed, one of which is damaged."""
    draw = random.Random(f"packets {seed}")
    chosen = draw.choice(files())
    name = draw.choice(sorted(chosen))
    contents = {**chosen, name: worse(name, chosen, draw)}
    for other, data in contents.items():
        (folder / other).write_bytes(data)
    out, errors = folder / "out.json", folder / "errors.txt"
    out.unlink(missing_ok=True)
    words = ["flows", "--model", "packet", "--quiet", "--json", str(out)]
    if "case.json" in contents:
        words.append(str(folder / "case.json"))
    else:
        given = {"network": "topology", "settings": "config", "flows": "flows"}
        words += [word for key, file in given.items() for word in (f"--{key}", str(folder / f"{file}.txt"))]
    words += ["--compat"] if draw.random() < 0.2 else []
    began = time.process_time()
    with errors.open("w") as stream, patch.object(alone, "run_packets", not_too_long):
        kept, sys.stderr = sys.stderr, stream
        try:
            code = main(words)
        finally:
            sys.stderr = kept
    in_time(began, name)
    said = errors.read_text()
    assert "Traceback" not in said, said
    if code == 2:
        assert not out.exists(), "half of a result"
        if LONG in said:
            return f"{name} long"
        refusals = [line for line in said.splitlines() if not line.startswith(("note", "warning"))]
        # Two files may contradict each other; the one that is told need not be the damaged one.
        assert len(refusals) == 1 and any(other in refusals[0] for other in contents), said
        return f"{name} refused"
    found = json.loads(out.read_text())
    assert code == (3 if found["unfinished"] and "--compat" not in words else 0), (code, said)
    return f"{name} run"


def worse(name: str, chosen: Files, draw: random.Random) -> bytes:
    """The file with damage of every kind, or with a word that is in its place in another file."""
    data = chosen[name]
    if draw.random() < 0.5 or name == "case.json":
        return damaged(name, chosen, draw)
    lines = data.decode().split("\n")
    for _ in range(draw.choice((1, 1, 2, 4))):
        at_line = draw.randrange(len(lines) - 1)
        words = lines[at_line].split(" ")
        words[draw.randrange(len(words))] = draw.choice(WORDS)
        lines[at_line] = " ".join(words)
    return "\n".join(lines).encode()


def not_too_long(case: PacketCase, **how: Any) -> Any:
    """`run_packets`, where the flows are not too large."""
    packets = -(-case.flows[:, 4] // case.network.settings.packet_payload_size)
    if packets.sum() > MOST_PACKETS:
        raise InputError(LONG)
    result = RUN(case, **how)
    assert result.net.g[at.EVENTS] < 10_000_000
    return result


RUN = alone.run_packets


def test_damaged_networks_of_packets_are_refused_or_run(tmp_path: Path) -> None:
    seen = Counter(outcome(seed, tmp_path).split()[1] for seed in range(SEEDS))
    assert seen["run"] > SEEDS // 20
    assert seen["refused"] > SEEDS // 4


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        go_through(partial(outcome, folder=Path(folder)))
