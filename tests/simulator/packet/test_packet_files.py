"""What is read: rates and delays, topologies, configurations, flows; every refusal says where and what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packet_cases import right, star

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.simulator.packet.alone.case import read_case
from chakrasim.simulator.packet.alone.run import run_packets
from chakrasim.simulator.packet.faults import NO_FAULTS
from chakrasim.simulator.packet.settings import LinkDown, delay_ns, rate_bps, read_pairs, settings_of

CONFIG = """\
CC_MODE 1   RATE_AI 50Mb/s RATE_HAI 100Mb/s
KMIN_MAP 2 25000000000 100 100000000000 400
KMAX_MAP 2 25000000000 400 100000000000 1600
PMAX_MAP 2 25000000000 0.2 100000000000 0.2
BUFFER_SIZE 8
BUFFER_SIZE 16
FCT_OUTPUT_FILE mix/fct.txt LINK_DOWN 0 0 0
"""
TOPOLOGY = "3 1 2\n2\n2 0 100Gbps 1us 0\n2 1 100Gbps 0.001ms 0\n"
FLOWS = "2\n0 1 3 100 5000 2\n1 0 3 100 5000 2.000001\n"


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100Gbps", 100 * 10**9), ("1.5Gb/s", 1_500_000_000), ("8kB/s", 64_000), ("2KiB/s", 16_384), ("5000", 5000),
        ("2Mib/s", 2 << 20), ("0.0000015Gbps", 1500),
    ],
)  # fmt: skip
def test_rates(text: str, bps: int) -> None:
    assert rate_bps(text) == bps


@pytest.mark.parametrize(("text", "ns"), [("0.005ms", 5000), ("500ns", 500), ("1.4ns", 1), ("2us", 2000), ("0s", 0)])
def test_delays(text: str, ns: int) -> None:
    assert delay_ns(text) == ns


@pytest.mark.parametrize("text", ["", "fast", "10Xbps", "-1Gbps", "2Kibps", "1e9Gbps", "0bps"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="a rate"):
        rate_bps(text)


def test_a_configuration() -> None:
    settings = settings_of(read_pairs(CONFIG), "config", Notes())
    assert settings.kmin_map == {25_000_000_000: 100.0, 100_000_000_000: 400.0}
    assert (settings.buffer_size, settings.rate_ai, settings.link_down) == (16, 50_000_000, None)
    assert settings_of({"LINK_DOWN": "40 8 10"}, "c", Notes()).link_down == LinkDown(2_000_040_000, 8, 10)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("RATE_AI", "quick", "a rate such as"),
        ("BUFFER_SIZE", "-1", "a number from 0 to 2,047"),
        ("PACKET_PAYLOAD_SIZE", 0, "a number from 1 to 65,000"),
        ("PACKET_PAYLOAD_SIZE", 1.5, "a whole number"),
        ("KMIN_MAP", "2 100", "the number of rates"),
        ("LINK_DOWN", "1 2", "three whole numbers"),
        ("EWMA_GAIN", "nan", "a finite number"),
        ("CC_MODE", None, "a number"),
    ],
)
def test_values_that_are_none(key: str, value: Any, expected: str) -> None:
    with pytest.raises(InputError, match=f"{key}: this is no value .*{expected}"):
        settings_of({key: value}, "config", Notes())


def three_files(folder: Path, topology: str = TOPOLOGY, config: str = CONFIG, flows: str = FLOWS) -> list[str]:
    paths = [folder / name for name in ("topology.txt", "config.txt", "flows.txt")]
    for path, text in zip(paths, (topology, config, flows), strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_three_files_of_hpcc(tmp_path: Path) -> None:
    topology, config, flows = three_files(tmp_path)
    result = run_packets(read_case(topology, config, flows, NO_FAULTS, Notes()))
    assert [row[5] for row in result.to_dict()["fct"]] == [2_000_000_000, 2_000_001_000]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"topology": ""}, "topology.txt: the file is empty"),
        ({"topology": "3 1\n"}, "topology.txt: line 1: this is no head"),
        ({"topology": TOPOLOGY.replace("3 1 2", "3 1 4")}, "line 1: links are missing; found 2; expected 4"),
        ({"topology": TOPOLOGY.replace("100Gbps", "100", 1).replace("1us", "1 us", 1)}, "line 3: this is no link"),
        ({"topology": TOPOLOGY.replace("100Gbps", "10kbps", 1)}, "line 3: this is no link.* a rate of 1Mbps or more"),
        ({"topology": TOPOLOGY.replace("2 0 ", "2 7 ")}, "line 3: this is no link"),
        ({"topology": TOPOLOGY.replace("\n2\n", "\n9\n")}, "switches: these are not the switches"),
        ({"config": "CC_MODE one\n"}, "config.txt: CC_MODE: this is no value"),
        ({"config": CONFIG + "KMAX_MAPP 1 2 3\n"}, "KMAX_MAPP: unknown key"),
        ({"flows": "3\n0 1 3 100 5 2\n"}, "flows.txt: line 1: flows are missing; found 1; expected 3"),
        ({"flows": "1\n0 1 3 100 5\n"}, "line 2: this is no flow"),
        ({"flows": "1\n0 2 3 100 5 2\n"}, "line 2: this is no host; found 2"),
        ({"flows": "1\n0 1 9 100 5 2\n"}, "line 2: out of range"),
        ({"flows": "1\n0 1 3 100 -5 2\n"}, "line 2: the size is out of range"),
        ({"flows": "1\n0 1 3 100 5 inf\n"}, "line 2: this is no flow"),
        ({"flows": "one\n"}, "line 1: the number of flows is missing"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, files: dict[str, str], message: str) -> None:
    paths = three_files(tmp_path, **files)
    with pytest.raises(InputError, match=message):
        read_case(*paths, NO_FAULTS, Notes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topology": 5}, r"\$.topology: this is no topology"),
        ({"topology": {"nodes": 2, "switches": [0, 1], "links": []}}, "there is no host"),
        ({"topology": {"nodes": 2, "switches": [], "links": [[0, 0, "1Gbps", "1us", 0]]}}, "this is no link"),
        ({"flows": [[0, 0, 3, 100, 5, 0]]}, r"\$.flows\[0\]: a flow to its own host"),
        ({"flows": [[0, 1, 3, 100, 5]]}, r"\$.flows\[0\]: this is no flow"),
        ({"flows": {}}, r"\$.flows: not a list"),
        ({"config": []}, r"\$.config: this is no configuration"),
        ({"first_stream": -1}, r"\$.first_stream: not a whole number"),
    ],
)
def test_cases_that_are_wrong(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        right({**star(2, [[0, 1, 3, 100, 5, 0]]), **change})
