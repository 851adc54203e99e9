"""Level names: nothing of a job's names is left, and the attacks on pseudonyms find nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from hashlib import blake2b, md5, sha256
from itertools import product
from pathlib import Path

import pytest
from made import bytes_of, dense, makespans, recorded

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.obfuscation.key import Pseudonyms, read_key, write_key
from chakrasim.obfuscation.names import hide_in_trace
from chakrasim.trace import TraceBuilder

WORDS = "add mul mm bmm addmm linear conv gelu relu norm softmax copy sum mean embedding dropout matmul"
SPACES = "aten:: nccl: c10d:: cutlass:: sm90_ ampere_ void_at::native:: my:: triton_"
KEY = b"0123456789abcdef"
LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")


def dictionary(own: set[str]) -> list[str]:
    """100,000 names that anybody could think of, with those of the job among them."""
    numbered = (f"{space}{one}{number}" for space, one, number in product(SPACES.split(), WORDS.split(), range(700)))
    return [*own, *numbered][:100_000]


def texts(trace: cs.Trace) -> set[str]:
    return {trace.strings[i] for i in range(len(trace.strings))}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(tmp_path_factory.mktemp("run"))


def test_a_dictionary_of_100_000_names_finds_none(run: str) -> None:
    plain = cs.read(run)
    own = {trace.name(at) for trace in plain for at in range(len(trace))} - {""}
    found = cs.obfuscate(run, level="names", machines=())
    shown = {text for job in found.jobs for trace in job.traces for text in texts(trace)}
    assert len(own) > 60 and len(shown) > 60
    names = dictionary(own)
    assert len(names) == 100_000 and not shown & {*names}
    tails = {text.rpartition("_")[2] for text in shown}
    for name in names:
        guess = blake2b(b"op\0" + name.encode(), digest_size=8).hexdigest().encode()
        assert guess.translate(LETTERS).decode() not in tails
    for name in own:
        for digest in (blake2b(name.encode()), sha256(name.encode()), md5(name.encode())):
            assert digest.hexdigest()[:16] not in tails


def test_nothing_but_public_words_and_pseudonyms_is_left(run: str) -> None:
    jobs = [cs.obfuscate(dense(pp=2, name="my-model"), level="names", machines=()).jobs[0]]
    jobs += cs.obfuscate(run, level="names", machines=()).jobs
    raw = re.sub(rb"(op|said|send|receive|collective|text|group|parameter|attribute|metadata|type)_[a-p]{16}", b"",
                 bytes_of(jobs))  # fmt: skip
    for name in (b"aten", b"layer", b"qkv", b"my-model", b"host.0.json", b"Backward", b"hidden", b"tp", b"dp 2"):
        assert name not in raw, name
    assert all(set(job.process_groups) == {name for name in job.process_groups if name[:6] == "group_"} for job in jobs)


def test_times_structure_and_sizes_stay(run: str, tmp_path: Path) -> None:
    job = dense(pp=2)
    hidden = cs.obfuscate(job, level="names", machines=("h100",))
    assert makespans(hidden.jobs[0]) == makespans(job)
    assert hidden.price[0].errors == [0.0]
    cs.obfuscate(run, level="names", machines=()).write(tmp_path / "out")
    before, after = (cs.replay_recorded(str(one)) for one in (run, tmp_path / "out"))
    assert [step.simulated_ns for step in after.steps] == [step.simulated_ns for step in before.steps]
    assert all(step.error_pct == 0 for step in after.steps)
    (one, *_), (other, *_) = cs.read(run), cs.read(str(tmp_path / "out"))
    assert one.data_deps.targets.tolist() == other.data_deps.targets.tolist()
    assert other.node(0).attrs["start_ns"] < 2**40 and other.node(1).attrs["tid"] == 0
    for given, left in ((one.node(at).inputs, other.node(at).inputs) for at in range(40)):
        assert left == (None if given is None else {**given, "values": ""})


def test_threads_that_went_before_have_the_number_of_their_thread() -> None:
    made = TraceBuilder()
    for at, (own, before) in enumerate(((77123, 0), (90001, 77123), (90001, 4242))):
        made.add(at, "op", attrs={"tid": own, "fw_tid": before})
    hidden = hide_in_trace(made.build(), Pseudonyms(KEY))
    found = [[int(hidden.node(at).attrs[name]) for name in ("tid", "fw_tid")] for at in range(3)]  # type: ignore[call-overload]
    assert found == [[2, 0], [3, 2], [3, 1]]


def test_what_is_foreign_gets_pseudonyms_and_groups_stay() -> None:
    made = TraceBuilder(metadata={"schema": "chakrasim-1", "owner": "me", "counts": '{"a": 1}', "list": ["x", "y"]})
    groups = json.dumps([{"pg_name": "3", "ranks": [0, 1], "pg_desc": "mine"}])
    made.add(0, "## process_group:init ##", 1, inputs={"values": f"['{groups}']", "shapes": "[]", "types": "[]"})
    ports = {"values": "[3]", "shapes": "[[1, secret]]", "types": "['Tensor(float)', 'c10::secret']"}
    made.add(1, "secret::gemm", inputs=ports, attrs={"secret_size": 7, "op_kind": "gemm", "phase": "mine",
             "dtype": "float32", "blob": b"secret", "pg_name": "fsdp", "names": ["secret", "gemm"],
             "tid": "main"})  # fmt: skip
    found = hide_in_trace(made.build(), Pseudonyms(KEY))
    hide = Pseudonyms(KEY).of
    said, node = found.node(0), found.node(1)
    assert found.metadata == {
        "schema": "chakrasim-1", hide("metadata", "owner"): hide("text", "me"), "counts": "{}",
        hide("metadata", "list"): [hide("text", "x"), hide("text", "y")],
    }  # fmt: skip
    assert said.inputs is not None and said.inputs["values"] == """['[{"pg_name": 3, "ranks": [0, 1]}]']"""
    assert node.attrs == {
        hide("attribute", "secret_size"): 7, "op_kind": "gemm", "phase": hide("text", "mine"), "dtype": "float32",
        hide("attribute", "blob"): hide("text", "secret").encode(), "pg_name": hide("group", "fsdp"),
        hide("attribute", "names"): [hide("text", "secret"), hide("text", "gemm")], "tid": 0,
    }  # fmt: skip
    assert node.name == hide("op", "secret::gemm")
    assert node.inputs == {"values": "", "shapes": hide("text", "[[1, secret]]"),
                           "types": f"['Tensor(float)', '{hide('type', 'c10::secret')}']"}  # fmt: skip


@pytest.mark.parametrize(("given", "left"), [("0.0.4", "0.0.4"), ("1.1.1-chakra.0.0.4", "1.1.1-chakra.0.0.4"),
                                            ("acme-internal-7", ""), ("0.0.4\n", "")])  # fmt: skip
def test_a_version_that_is_no_version_is_left_out(given: str, left: str) -> None:
    assert hide_in_trace(TraceBuilder(version=given).build(), Pseudonyms(KEY)).version == left


def test_recorded_times_begin_at_0_on_both_clocks() -> None:
    def times(*recorded: tuple[int, int]) -> list[tuple[int, int]]:
        made = TraceBuilder()
        for at, (ns, micros) in enumerate(recorded):
            made.add(at, "one", attrs={"start_ns": ns}, start_micros=micros)
        found = hide_in_trace(made.build(), Pseudonyms(KEY))
        return [*zip(found.attr("start_ns").integers().tolist(), found.start_micros.tolist(), strict=True)]

    day = 1_780_000_000_000_000
    clocks = (day * 1000 + 5, 7 * day), (day * 1000 + 2005, 7 * day + 2)
    assert times(*clocks) == [(5, 0), (2005, 2)]
    assert times((0, 0), *clocks) == [(0, 0), (5, 0), (2005, 2)]
    assert times((0, 0), (7000, 7)) == [(0, 0), (7000, 7)]
    assert times((-3000, 3), (0, 3)) == [(0, 0), (3000, 0)]


def test_pseudonyms_agree_under_a_key_and_differ_between_releases() -> None:
    job = dense()
    kept, other = ([cs.obfuscate(job, level="names", key=key, machines=()) for _ in range(2)] for key in (KEY, None))
    assert bytes_of(kept[0].jobs) == bytes_of(kept[1].jobs)
    names = [{found.jobs[0].traces[0].name(at) for at in range(9)} for found in other]
    assert not names[0] & names[1]
    long = bytes(range(100))
    assert Pseudonyms(long).of("op", "mm") != Pseudonyms(long[:64]).of("op", "mm")


def test_parameters_and_roles_with_halves_of_characters_get_pseudonyms() -> None:
    job = replace(dense(), parameters={"a\ud800": "b\udfff", "\udcff": 3})
    (found,) = cs.obfuscate(job, level="names", key=KEY, machines=()).jobs
    hide = Pseudonyms(KEY).of
    assert found.parameters == {hide("parameter", "a\ud800"): hide("text", "b\udfff"), hide("parameter", "\udcff"): 3}
    assert hide("parameter", "\udcff") == hide("parameter", b"\xff") and hide("op", "\ud800") != hide("op", "\ud801")


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert read_key(path) is None
    write_key(path, KEY)
    assert read_key(path) == KEY and path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    with pytest.raises(InputError, match="key: the key of the pseudonyms is too short; found 5 bytes; expected 16 ran"):
        read_key(path)
    with pytest.raises(InputError, match="the file of the key cannot be made"):
        write_key(path, KEY)
