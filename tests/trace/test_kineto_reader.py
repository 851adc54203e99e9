"""The Kineto reader against a slow one, on real and made files; exact times; windows; what is said of damage."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import json_documents as jd
import numpy as np
import pytest
import slow_readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same_traces import assert_same_kineto

from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.json import records as json_records
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.read import read_kineto

EVENT = '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 8, "ts": 1.5, "dur": 2, "args": {}}'


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a file and returns its name."""

    def to_file(text: str | bytes, name: str = "device.json") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return to_file


def _events(*events: str) -> str:
    return '{"schemaVersion": 1, "traceEvents": [' + ", ".join(events) + '], "traceName": "t"}'


def _fails(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_kineto(path, **options)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text.removeprefix(str(path)).removeprefix(": ")


def _warns(path: Path, **options: Any) -> tuple[k.KinetoTrace, list[str]]:
    notes = Notes()
    trace = read_kineto(path, notes=notes, **{"lenient": True} | options)
    assert all(warning.startswith(str(path)) for warning in notes)
    return trace, [warning.removeprefix(str(path)).removeprefix(": ") for warning in notes]


def test_real_files_equal_the_slow_reader(shared_dir: Path, tmp_path: Path) -> None:
    files = sorted((shared_dir / "golden" / "chakra").glob("*/device.*.json.gz"))
    files += sorted(path for path in (shared_dir / "traces" / "hta").glob("*.gz") if "_et." not in path.name)
    with tarfile.open(shared_dir / "traces" / "param" / "dlrm_kineto.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files += sorted(tmp_path.rglob("*.json"))
    assert len(files) > 40
    done: set[bytes] = set()
    for path in files:
        if path.stat().st_size > 60_000 or path.read_bytes() in done:
            continue
        done.add(path.read_bytes())
        for keep in ("all", "work"):
            notes = Notes()
            found = read_kineto(path, keep=keep, notes=notes)
            assert not notes
            assert_same_kineto(found, slow_readers.read_kineto(path, keep=keep))


@pytest.mark.parametrize("window", [64, 1000, 4096])
def test_windows_of_any_size_give_the_same(shared_dir: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(json_records, "WINDOW_BYTES", window)
    for name in ("evsync", "mi250", "triton"):
        path = shared_dir / "golden" / "chakra" / name / "device.0.json.gz"
        assert_same_kineto(read_kineto(path), slow_readers.read_kineto(path))


_TIMES = st.one_of(
    st.integers(0, 2**53).map(str),
    st.decimals(0, 10**15, places=3, allow_nan=False).map(lambda value: f"{value:f}"),
    st.from_regex(r"[1-9][0-9]{0,9}\.[0-9]{1,9}([eE][+-]?[0-5])?", fullmatch=True),
)
_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "bp")
_ARGS = ("device", "stream", "correlation", "External id", "external id", "Record function id", "cbid", *k.RARE_ARGS)
_SMALL = st.integers(-1, 2**31 - 1).map(str)
_RARE_VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr).filter(lambda text: "." in text or "e" in text),
    jd.texts(), st.lists(st.integers(0, 9)).map(str), st.just("null"), st.just("true"),
)  # fmt: skip


@st.composite
def _args(draw: st.DrawFn) -> str:
    pairs = []
    for name in draw(st.lists(st.sampled_from(_ARGS), max_size=6)):
        if name in _ARGS[:6]:
            value = draw(
                st.one_of(_SMALL, _SMALL.map(lambda text: f'"{text}"'), jd.texts(st.just("x")), st.just("1.5"))
            )
        else:
            value = draw(_RARE_VALUES)
        pairs.append((draw(jd.texts(st.just(name))), value))
    pairs += draw(st.lists(st.tuples(jd.names_beside(*_ARGS), jd.values), max_size=2))
    return draw(jd.members(draw(st.permutations(pairs))))


@st.composite
def _event(draw: st.DrawFn) -> str:
    values = {
        "ph": jd.texts(st.sampled_from("XiMsf")), "cat": jd.texts(), "name": st.one_of(jd.texts(), _SMALL),
        "ts": _TIMES, "dur": _TIMES,
        "pid": st.one_of(_SMALL, jd.texts()), "tid": st.one_of(_SMALL, jd.texts()), "id": _SMALL, "bp": jd.values,
    }  # fmt: skip
    names = draw(st.lists(st.sampled_from(_KEYS), max_size=10))
    pairs = [(draw(jd.texts(st.just(name))), draw(values[name])) for name in names]
    for _ in range(draw(st.integers(0, 2))):
        pairs.append(('"args"', draw(st.one_of(_args(), _args(), st.just("null")))))
    pairs += draw(st.lists(st.tuples(jd.names_beside(*_KEYS, "args"), jd.values), max_size=2))
    return draw(jd.members(draw(st.permutations(pairs))))


@st.composite
def _documents(draw: st.DrawFn) -> str:
    events = draw(st.lists(_event(), max_size=4))
    inside = ",".join(f"{draw(jd.spaces)}{event}{draw(jd.spaces)}" for event in events)
    pairs = draw(st.lists(st.tuples(jd.names_beside("traceEvents"), jd.values), max_size=3))
    pairs.append(('"traceEvents"', f"[{inside}{draw(jd.spaces)}]"))
    return draw(jd.spaces) + draw(jd.members(draw(st.permutations(pairs)))) + draw(jd.spaces)


@given(text=_documents(), window=st.sampled_from([1, 7, 50, 100_000]), keep=st.sampled_from(["all", "work"]))
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_made_documents_equal_the_slow_reader(
    tmp_path_factory: pytest.TempPathFactory, text: str, window: int, keep: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "made.json"
    path.write_text(text, encoding="utf-8")
    before = json_records.WINDOW_BYTES
    json_records.WINDOW_BYTES = window
    try:
        found = read_kineto(path, keep=keep)
    finally:
        json_records.WINDOW_BYTES = before
    assert_same_kineto(found, slow_readers.read_kineto(path, keep=keep))


@pytest.mark.parametrize(
    ("text", "wanted", "exact"),
    [
        ("1732107142997066.682", 1732107142997066682, True),
        ("1732107142997066.68", 1732107142997066680, True),
        ("1732107142997066", 1732107142997066000, True),
        ("9223372036854775.807", 9223372036854775807, True),
        ("0", 0, True),
        ("-0.0", 0, True),
        ("1.5e3", 1500000, True),
        ("25E-4", 2, False),
        ("15e-4", 2, False),
        ("1.0005", 1000, False),
        ("1.0015", 1002, False),
        ("1.00050000000000000000001", 1001, False),
        ("1.50000000000000000000000", 1500, True),
        ("1e-400", 0, False),
        ("0e999999999999999999999", 0, True),
    ],
)
def test_times_are_exact(write: Any, text: str, wanted: int, exact: bool) -> None:
    path = write(_events(EVENT.replace("1.5", text).replace('"dur": 2', f'"dur": {text}')))
    trace, warnings = _warns(path)
    assert trace.ts_ns.tolist() == trace.dur_ns.tolist() == [wanted]
    assert trace.has(k.TS_IS_FLOAT).tolist() == [not text.isdigit()]
    assert trace.counts == ({} if exact else {"times rounded to nanoseconds": 2})
    assert warnings == ([] if exact else ["rounded 2 times that are finer than a nanosecond"])
    for name in ("ts text", "dur text"):
        column = trace.rare_column(name)
        assert [trace.strings[bits] for bits in column.bits.tolist()] == ([] if exact else [text])


@given(st.decimals(0, 9 * 10**15, allow_nan=False).map(lambda value: value * 1))
@settings(max_examples=50)
def test_any_decimal_time_is_rounded_half_to_even(tmp_path_factory: pytest.TempPathFactory, value: Decimal) -> None:
    path = tmp_path_factory.getbasetemp() / "time.json"
    path.write_text(_events(EVENT.replace("1.5", str(value))))
    assert read_kineto(path).ts_ns.tolist() == [int((value * 1000).to_integral_value())]


@pytest.mark.parametrize("time", ["-1", "-0.001", "9223372036854775.808", "1e30", '"5 s"', "null", "NaN", "[]"])
def test_events_without_a_usable_time_are_left_out(write: Any, time: str) -> None:
    path = write(_events(EVENT, EVENT.replace("1.5", time), EVENT))
    trace, warnings = _warns(path)
    assert len(trace) == 2 and trace.event_count == 3
    assert trace.index.tolist() == [0, 2]
    assert trace.counts["events with unusable times"] == 1
    assert warnings == ["left out 1 events whose ts or dur is no number, negative or too large"]
    assert _fails(path).startswith('byte 141 (line 1): an event has a time that cannot be used; found \'{"ph"')


def test_values_of_unexpected_kinds_are_counted(write: Any) -> None:
    args = '{"stream": "none", "device": 4294967296, "correlation": 1.5, "Comms Id": 18446744073709551615, "Seq": NaN}'
    trace, _ = _warns(write(_events(EVENT.replace("{}", args), "7", EVENT.replace('"cpu_op"', "null"))))
    assert trace.stream.tolist() == trace.device.tolist() == trace.correlation.tolist() == [-1, -1]
    assert trace.counts == {
        "values of an unexpected kind": 4,
        "integers beyond 64 bits": 1,
        "elements that are no events": 1,
        "numbers that are not finite": 1,
        "events with a duration, but no category": 1,
    }
    assert trace.event_count == 3 and trace.index.tolist() == [0, 2]
    column = trace.rare_column("Comms Id")
    assert column.kind.tolist() == [k.TEXT] and trace.strings[int(column.bits[0])] == "18446744073709551615"
    assert np.isnan(trace.rare_column("Seq").reals(2)[0])


def test_work_only_leaves_out_and_counts(write: Any) -> None:
    python = EVENT.replace("cpu_op", "python_function")
    path = write(
        _events(EVENT, EVENT.replace('"dur": 2, ', ""), python, python, EVENT.replace('"cat": "cpu_op", ', ""))
    )
    trace = read_kineto(path, keep="work")
    assert trace.index.tolist() == [0] and trace.event_count == 5
    assert trace.counts == {
        "events without duration or category": 2,
        "python_function events": 2,
        "events with a duration, but no category": 1,
    }
    assert trace.find("python_function") == -1 and trace.find("cpu_op") > 0


def test_a_bare_list_and_lists_in_other_places(write: Any) -> None:
    assert len(read_kineto(write(f"[{EVENT},\n{EVENT}]"))) == 2
    trace = read_kineto(write(f'{{"traceEvents": [{EVENT}], "traceEvents2": 1}}'))
    assert trace.header == {"traceEvents2": 1}
    trace, warnings = _warns(write(f'{{"traceEvents": [{EVENT}, {EVENT}], "a": 1, "traceEvents": [{EVENT}]}}'))
    assert len(trace) == 1 and warnings == ["left out 1 lists traceEvents: the last one counts"]
    trace, _ = _warns(write(f'{{"traceEvents": [{EVENT}, {EVENT}], "traceEvents": [{EVENT}]}}'))
    assert len(trace) == 1 and trace.event_count == 1
    assert len(read_kineto(write("\ufeff" + _events(EVENT)))) == 1


def test_texts_that_are_no_characters_are_repaired(write: Any) -> None:
    trace, warnings = _warns(write(_events(EVENT.replace("aten::add", "a\\ud800b")).encode() + b" "))
    assert trace.strings[int(trace.name[0])] == "a\ufffdb"
    assert warnings == ["replaced invalid characters in 1 texts"]
    trace, _ = _warns(write(_events(EVENT).encode().replace(b"aten", b"\xff\xc3(")))
    assert trace.strings[int(trace.name[0])] == "\ufffd\ufffd(::add"


def test_depth_is_no_matter(write: Any) -> None:
    deep = "[" * 50_000 + "]" * 50_000
    assert len(read_kineto(write(_events(EVENT.replace("{}", '{"x": ' + deep + "}"))))) == 1
    trace, warnings = _warns(write('{"x": ' + deep + ', "traceEvents": []}'))
    assert trace.header == {} and warnings == [
        'left out a member of the document that cannot be read: \'"x": ' + "[" * 35 + "'"
    ]


@pytest.mark.parametrize("window", [16, 4096])
def test_damage_is_recovered_or_refused(write: Any, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(json_records, "WINDOW_BYTES", window)
    whole = _events(EVENT, EVENT, EVENT)
    path = write(whole[: whole.rindex('"dur"')])
    trace, warnings = _warns(path)
    assert len(trace) == 2 and trace.counts == {"damaged places": 1, "lost bytes": 81}
    what = "byte 326 (line 1): the file ends in the middle of an event; found the end of the file"
    assert warnings == [f"{what}: kept 2 events, left out 81 bytes"]
    assert _fails(path) == f"{what}; create the file again, or read it leniently (--lenient) to keep what is intact"

    path = write(_events(EVENT, EVENT.replace('"pid"', "pid"), EVENT))
    trace, warnings = _warns(path)
    assert trace.index.tolist() == [0, 1] and trace.header == {"schemaVersion": 1, "traceName": "t"}
    assert len(warnings) == 1 and "an event is malformed; found 'pid: 7" in warnings[0]
    assert "an event is malformed; found 'pid: 7" in _fails(path)

    path = write(_events(EVENT, EVENT[:-1], EVENT.replace("{}", "[1}")))
    trace, warnings = _warns(path)
    assert len(trace) == 1 and trace.counts["damaged places"] == 1 and "kept 1 events, left out 207" in warnings[0]
    assert trace.header == {"schemaVersion": 1, "traceName": "t"}


def test_a_lost_beginning_or_end_of_the_document(write: Any) -> None:
    trace, warnings = _warns(write('{"a": tru, "traceEvents": [' + EVENT + '], "b": 2}'))
    assert len(trace) == 1 and trace.header == {"b": 2}
    assert 'is malformed; found \'tru, "traceEvents"' in warnings[0] and "kept 1 events" in warnings[0]
    trace, warnings = _warns(write(_events(EVENT)[:-5]))
    assert len(trace) == 1 and trace.header == {"schemaVersion": 1} and "kept 1 events" in warnings[0]
    trace, warnings = _warns(write(_events(EVENT) + " }"))
    assert len(trace) == 1 and "its brackets do not match" in warnings[0]
    trace, warnings = _warns(write(_events(EVENT, EVENT + "]}", EVENT)))
    assert len(trace) == 3 and trace.header == {"schemaVersion": 1, "traceName": "t"} and "kept 3 events" in warnings[0]
    trace, warnings = _warns(write(_events(EVENT) + _events(EVENT)))
    assert len(trace) == 1 and "a second document follows the first: did several ranks" in warnings[0]
    assert "nothing can be recovered" in _fails(write('{"traceEvents": [{"ph": '), lenient=True)
    assert "nothing can be recovered" in _fails(write('{"a": {'), lenient=True)


def test_zeros_and_noise_in_the_middle_cost_what_they_cover(write: Any) -> None:
    data = _events(*[EVENT] * 200).encode()
    for noise in (bytes(5000), b'"' * 777, b"{" * 3000, b'[{"a":' * 500, b"\xff\x00\x7b" * 99):
        trace, warnings = _warns(write(data[:9000] + noise + data[9000 + len(noise) :]))
        lost = len(noise) / len(EVENT)
        assert 200 - lost - 4 < len(trace) < 200 - lost + 2
        assert trace.header == {"schemaVersion": 1, "traceName": "t"}
        assert f"kept {len(trace)} events" in warnings[-1]


def test_control_characters_and_lone_backslashes_are_repaired(write: Any) -> None:
    path = write(_events(EVENT.replace("aten::add", "C:\\x\tend\\u12")))
    trace, warnings = _warns(path)
    assert trace.strings[int(trace.name[0])] == "C:\\x\tend\\u12"
    assert trace.counts == {"unescaped control characters": 1, "malformed escapes": 2}
    assert "repaired 1 unescaped control characters, 2 malformed escapes, the first in byte 37 (line 1)" in warnings[0]
    assert "an event has a malformed escape in a text; found '\\\\x\\tend" in _fails(path)
    path = write('{"traceName": "C:\\data\\x", "traceEvents": [' + EVENT + "]}")
    assert read_kineto(path, lenient=True).header == {"traceName": "C:\\data\\x"}


def test_damaged_gzip_is_recovered_or_refused(write: Any) -> None:
    data = _events(*[EVENT.replace("1.5", str(at)) for at in range(5000)]).encode()
    packed = gzip.compress(data)
    assert len(read_kineto(write(packed))) == 5000
    assert len(read_kineto(write(gzip.compress(data[:999]) + gzip.compress(data[999:]) + bytes(9)))) == 5000
    path = write(packed[: len(packed) // 2])
    trace, warnings = _warns(path)
    assert 1000 < len(trace) < 4000 and trace.ts_ns.tolist() == [at * 1000 for at in range(len(trace))]
    assert "the gzip data are damaged; found the data end early; expected complete gzip data" in warnings[0]
    assert "the file ends in the middle of an event" in warnings[1]
    assert "the gzip data are damaged" in _fails(path)
    assert "the gzip data are damaged" in _fails(write(packed[:12]))


def test_times_written_as_text_are_exact_in_a_bare_array(write: Any) -> None:
    good = ["1704161511420306.491", "0", "-0.0", "5e-1", "12.77012757357446", "1E+3"]
    bad = ["", "-", "1.", ".5", "1e", "1e+", "0x10", "1,5", " 1", "1 ", "nan", "Infinity", "1.2.3", "--1", "-2"]
    events = [json.dumps({"ph": "X", "cat": "cpu_op", "name": "a", "ts": text, "dur": "2.5"}) for text in good + bad]
    path = write(f"[{', '.join(events)}]")
    trace, warnings = _warns(path)
    assert trace.ts_ns.tolist() == [1704161511420306491, 0, 0, 500, 12770, 1_000_000]
    assert trace.dur_ns.tolist() == [2500] * len(good)
    assert trace.counts == {"events with unusable times": len(bad), "times rounded to nanoseconds": 1}
    assert f"left out {len(bad)} events" in warnings[0]
    assert sniff(path).kind is FileKind.DEVICE
    strict = read_kineto(write(f"[{', '.join(events[:4])}]"))
    assert strict.ts_ns.tolist() == trace.ts_ns.tolist()[:4]


def test_a_trace_of_ascend_is_read_whole(shared_dir: Path) -> None:
    folder = shared_dir / "traces" / "wild"
    expected = json.loads((folder / "expected" / "ascend_npu_trace_view.expected.json").read_text())["events"]
    path = folder / "traces" / "ascend_npu_trace_view.json.gz"
    notes = Notes()
    trace = read_kineto(path, notes=notes)
    phases = {phase: int((trace.phase == ord(phase)).sum()) for phase in "XMsf"}
    assert phases == {
        "X": expected["complete"], "M": expected["metadata"], "s": expected["flow_pairs"], "f": expected["flow_pairs"]
    }  # fmt: skip
    assert set(trace.pid.tolist()) == set(expected["processes"].values())
    with gzip.open(path) as file:
        events = json.load(file)
    assert trace.ts_ns.tolist() == [int(Decimal(event.get("ts", 0)) * 1000) for event in events]
    assert k.UNSORTED not in trace.counts and not any(k.UNSORTED_SAID in text for text in notes)
    assert sniff(path).kind is FileKind.DEVICE and sniff(path).pid == expected["processes"]["Python"]


def test_commas_are_repaired(write: Any) -> None:
    text = f'{{"a": 1 "traceEvents": [{EVENT}\n{EVENT},,{EVENT.replace(", ", " ", 1)},]}}'
    trace, warnings = _warns(write(text))
    assert len(trace) == 3 and trace.header == {"a": 1}
    assert trace.counts == {"missing or superfluous commas": 5}
    assert len(warnings) == 1 and warnings[0].startswith("repaired 5 missing or superfluous commas, the first in byte ")
    assert 'a comma is missing or too many; found \'"traceEvents": [' in _fails(write(text))


def test_other_files_are_refused_by_name(write: Any, tmp_path: Path) -> None:
    expected = "expected a Kineto (PyTorch profiler, device) trace"
    host = "found a JSON file that looks like a PyTorch execution (host) trace"
    assert host in _fails(write('{"schema": "1.0.1", "pid": 1, "nodes": []}'))
    assert host in _fails(write('{"nodes": []}'))
    assert "found a JSON document with the members 'a'; expected a list 'traceEvents'" in _fails(write('{"a": 1}'))
    assert "found traceEvents that are no list" in _fails(write('{"traceEvents": 7}'))
    assert "found a list of other things" in _fails(write("[1, 2, 3]"), lenient=True)
    assert _fails(write("")) == f"the file is empty; {expected}; create the file again"
    assert "found a Chakra trace" in _fails(write(b"\x07\x0a\x050.0.4\x03\x08\x01\x18"))
    assert "found gzip data inside gzip" in _fails(write(gzip.compress(gzip.compress(b"{}"))))
    assert "found a zip archive" in _fails(write(b"PK\x03\x04abcd"))
    assert "found a text file beginning 'hello'" in _fails(write("hello"))
    assert "there is no such file" in _fails(tmp_path / "none.json")
    assert f"this is a folder; {expected}" in _fails(tmp_path)
    assert f"this is no regular file; found a device; {expected}" in _fails(Path("/dev/null"))
    with pytest.raises(InputError, match="unknown selection of events; found 'some'"):
        read_kineto(write("[]"), keep="some")


def test_columns_answer(write: Any) -> None:
    args = '{"Seq": "12", "Rank": "x", "Comms Id": 18446744073709551615}'
    trace = read_kineto(write(_events(EVENT, EVENT.replace("{}", args), EVENT.replace("{}", '{"Seq": -3}'))))
    column = trace.rare_column("Seq")
    assert column.integers(3).tolist() == [-1, -1, -3]
    assert trace.rare_column("Rank").integers(3, 0).tolist() == [0, 0, 0]
    assert trace.where(trace.category, "cpu_op", "kernel").tolist() == [True] * 3
    assert trace.find("") == 0 and trace.find("kernel") == -1


def test_the_reader_is_loaded_only_when_used() -> None:
    code = "import sys, chakrasim.trace as t; t.KinetoTrace; print('numba' in sys.modules, callable(t.read_kineto))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "True"]
