"""``convert Text --compat chakra``: the bytes that the reference converter wrote, and its failures named."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.compat.chakra_convert.text_workload import convert_text
from chakrasim.trace import encode_trace

DATA = Path(__file__).parents[1] / "data" / "chakra-tools"
CASES = [json.loads(line) for line in gzip.decompress((DATA / "text.jsonl.gz").read_bytes()).splitlines()]
SOUND = [case for case in CASES if "et" in case]
FAULTY = [case for case in CASES if "error" in case]


def test_recorded_workloads_are_converted_as_the_reference_converts_them(shared_dir: Path) -> None:
    folder = shared_dir / "golden" / "chakra" / "text"
    outputs = sorted(folder.glob("out_*.et"))
    for output in outputs:
        name, _, numbers = output.name.removeprefix("out_").removesuffix(".et").rpartition("_p")
        passes, rank = map(int, numbers.split("."))
        traces = convert_text(folder / f"{name}.txt", 2, passes)
        assert encode_trace(traces[rank]) == output.read_bytes(), output.name
    assert len(outputs) == 100


@pytest.mark.parametrize("number", range(len(SOUND)))
def test_random_workloads_are_converted_as_the_reference_converts_them(number: int, tmp_path: Path) -> None:
    case = SOUND[number]
    (tmp_path / "w.txt").write_bytes(case["text"].encode())
    traces = convert_text(tmp_path / "w.txt", case["npus"], case["passes"])
    assert [encode_trace(trace) for trace in traces] == [base64.b64decode(et) for et in case["et"]]


@pytest.mark.parametrize("number", range(len(FAULTY)))
def test_where_the_reference_fails_its_exception_is_named(number: int, tmp_path: Path) -> None:
    case = FAULTY[number]
    (tmp_path / "w.txt").write_bytes(case["text"].encode())
    with pytest.raises(InputError, match=rf"w\.txt: .*line .*{case['error']} in the reference"):
        convert_text(tmp_path / "w.txt", case["npus"], case["passes"])
