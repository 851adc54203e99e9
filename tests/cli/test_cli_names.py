"""Names out of files of others reach the terminal escaped."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from chakrasim.cli.main import main
from chakrasim.errors import shown
from chakrasim.trace import TraceBuilder, encode_trace

EVIL = "\x1b]0;owned\x07\x1b[2J\r\u202ekernel\u2066\x9b31m\u200b\n\tend"
ESCAPED = "\\x1b]0;owned\\x07\\x1b[2J\\r\\u202ekernel\\u2066\\x9b31m\\u200b\\n\\tend"


def device(path: Path, kernel: str = EVIL, operator: str = EVIL) -> Path:
    def event(category: str, name: str, tid: int, begin: float, length: float, **args: object) -> dict[str, object]:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": tid,
            "ts": begin,
            "dur": length,
            "args": args,
        }

    events = [
        event("user_annotation", "ProfilerStep#1", 1, 0, 100),
        event("cpu_op", operator, 1, 1, 20, **{"External id": 7}),
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, 3, correlation=9, **{"External id": 7}),
        event("kernel", kernel, 7, 10, 30, correlation=9, device=0, stream=7, **{"External id": 7}),
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}))
    return path


def said(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def prints(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_what_does_not_print_is_escaped_and_all_else_stays() -> None:
    assert shown(EVIL) == ESCAPED
    for name in ("aten::mm", "void gemm<float>(int*, \\n)", "Ärger 中文 \U0001f642", "", "a b"):
        assert shown(name) == name
    assert shown("a\u00a0b\ud800") == "a\\xa0b\\ud800"


@pytest.mark.parametrize(
    "words",
    [
        ("info",),
        ("analyze", "summary"),
        ("analyze", "kernels"),
        ("analyze", "operators"),
        ("analyze", "critical-path"),
        ("analyze", "temporal", "--no-steps"),
    ],
)
def test_names_in_tables(words: tuple[str, ...], tmp_path: Path) -> None:
    code, out, err = said(*words, device(tmp_path / "device.0.json"))
    assert code == 0, err
    assert prints(out) and prints(err)
    if words[-1] in ("kernels", "operators"):
        assert "\\x1b]0;owned\\x07\\x1b[2J \\u202ekernel\\u2066\\x9b31m\\u200b end" in out


def test_names_in_errors_and_warnings_and_of_files(tmp_path: Path) -> None:
    builder = TraceBuilder(version="0.0.4")
    builder.add(1, name=EVIL, type=7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": -1})
    path = tmp_path / "x\x1b[2J.et"
    path.write_bytes(encode_trace(builder.build()))
    code, out, err = said("simulate", path, "--ranks", 8, "--machine", "hgx-h100-8")
    assert code == 2 and prints(err) and "x\\x1b[2J.et: node 1 (" in err
    code, out, err = said("info", path)
    assert code == 0 and prints(out) and prints(err)
    code, out, err = said("jsonize", path, "-o", tmp_path / "o\x1b.json")
    assert code == 0 and prints(out) and prints(err)
    linked = tmp_path / "l\x1b]0;x\x07.json"
    code, out, err = said("link", "--device", device(tmp_path / "device.0.json"), "-o", linked)
    assert code == 0 and prints(out) and prints(err) and "l\\x1b]0;x\\x07.json: " in out
    code, out, err = said("no\x1bsuch")
    assert code == 2 and prints(err)
    code, out, err = said("doctor", tmp_path)
    assert prints(out) and prints(err)


def test_what_programs_read_stays_as_it_is(tmp_path: Path) -> None:
    path = device(tmp_path / "device.0.json")
    code, out, _ = said("analyze", "operators", path, "--json", "-")
    assert code == 0 and json.dumps(EVIL) in out
    code, out, _ = said("analyze", "operators", path, "--csv", "-")
    assert code == 0 and "\x1b]0;owned" in out
